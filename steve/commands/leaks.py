"""steve leaks: the blocks that were never freed, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from functools import partial
from typing import TYPE_CHECKING, List

from steve import blocks, listing
from steve.folds import Sums
from steve.listing import Column

if TYPE_CHECKING:
    import numpy as np

NAME = "leaks"
HELP = "show the blocks that were never freed, by allocation site"
COLUMNS = (
    Column("bytes", "bytes", "bytes of the site's blocks that were live at the end"),
    Column("blocks", "blocks", "how many they are"),
    Column("share", "% of all", "the bytes in percent of those of all blocks listed"),
    Column("made", "made", "all blocks made by the site"),
    Column("mean_age", "age", "operations from their New to the end, on average"),
    Column("site", "site", "first three frames of the stack, from the caller of the allocator", True),
)
EXAMPLES = f"""\
With --to the end is that mark: --from A --to B lists what was made after A and still there at B. At a normal
exit much that is never freed is meant to be so.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve leaks app.ljt
  steve leaks server.ljt --from 'request 100' --to 'request 200'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes")


def is_live(batch: "np.ndarray") -> "np.ndarray":
    """Which of the lives did not end?"""
    return batch["freed"] == 0


def sums_of(chosen: blocks.Blocks) -> List["np.ndarray"]:
    """Sums by stack of the chosen blocks that live at the end, and of all chosen ones."""
    return chosen.fold(partial(Sums, ("stack", is_live), "stack")).rows(chosen.totals["peak"])


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    live, all_made = (blocks.merged(sums, chosen.places.site_name) for sums in sums_of(chosen))
    total = sum(found["live_bytes"] for found in live.values())
    rows = [{"site": site, "bytes": found["live_bytes"], "blocks": found["live_blocks"],
             "share": blocks.share(found["live_bytes"], total), "made": all_made[site]["blocks"],
             "mean_age": blocks.mean(found["lifetimes"], found["blocks"])} for site, found in live.items()]
    title = f"{sum(found['live_blocks'] for found in live.values()):,} blocks of {total:,} bytes never freed"
    listing.write(args, chosen.title(title), rows, COLUMNS)
    return chosen.verdict()
