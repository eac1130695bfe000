"""steve temporaries: blocks freed soon after they were made, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.terminal import listing
from steve.analysis.reducers import Sums, Table
from steve.terminal.listing import Column, count
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    import numpy as np

NAME = "temporaries"
HELP = "show blocks that are freed soon after they are made, by allocation site"
COLUMNS = (
    Column("temporaries", "temporaries", "blocks of the site that were freed so soon"),
    Column("bytes", "bytes", "bytes asked for by their News and Resizes"),
    Column("made", "made", "all blocks made by the site"),
    Column("share", "% of made", "temporaries in percent of made"),
    Column("mean_lifetime", "lifetime", "operations from New to Free of the temporaries, on average"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
A block is a temporary if it is freed before another block is made or, with --within, at most N operations
after it was made.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve temporaries app.ljt
  steve temporaries app.ljt --within 100 --where 'heap = "lua"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    parser.add_argument("--within", metavar="N", type=count,
                        help="freed within N operations, instead of before the next New")
    listing.add_arguments(parser, COLUMNS, "temporaries")
    blocks.add_parts(parser)


def are_temporary(batch: np.ndarray, within: int | None) -> np.ndarray:
    """Which of the lives are those of temporaries?"""
    soon = batch["news"] == 0 if within is None else batch["died"] - batch["born"] <= within
    return soon & (batch["freed"] != 0)


def sums_of(chosen: blocks.Blocks, args: argparse.Namespace) -> list[Table]:
    """Sums by stack of the chosen blocks that are temporary, and of all chosen ones."""
    temporary = partial(are_temporary, within=args.within)
    return chosen.fold(partial(Sums, ("stack", temporary), "stack")).rows(chosen.totals["peak"])


def title(rows: list, args: argparse.Namespace) -> str:
    rule = "before the next New" if args.within is None else f"within {args.within:,} operations"
    return f"{sum(row['temporaries'] for row in rows):,} blocks freed {rule}"


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    short, all_made = (blocks.merged(sums, chosen.places.site_name) for sums in sums_of(chosen, args))
    rows = [{"site": site, "temporaries": found["blocks"], "bytes": found["bytes"],
             "made": all_made[site]["blocks"],
             "share": blocks.share(found["blocks"], all_made[site]["blocks"]),
             "mean_lifetime": blocks.mean(found["lifetimes"], found["blocks"])}
            for site, found in short.items()]
    listing.write(args, chosen.title(title(rows, args)), rows, COLUMNS)
    return chosen.verdict()
