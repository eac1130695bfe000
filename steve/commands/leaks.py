"""steve leaks: the blocks that were never freed, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from functools import partial
from typing import TYPE_CHECKING, Callable, Dict, Hashable, List, Optional, Tuple

from steve import blocks, listing
from steve.folds import Sums
from steve.listing import Column
from steve.reachable import Survivors, sums_of
from steve.stacks import SITE
from steve.where import fields_of

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
    Column("reachable", "reachable", "of Lua: bytes of the site's objects, with their parts (arrays and hashes of "
           "tables, stacks of threads), that links from the roots lead to in the last snapshot of their state; "
           "null if there is none"),
    Column("unreachable", "garbage", "bytes of those that none leads to: they only wait for the collector"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
With --to the end is that mark: --from A --to B lists what was made after A and still there at B. At a normal
exit much that is never freed is meant to be so. Blocks of Lua are told apart by a snapshot at that end or
before it (ljtrace --universe=at-exit, ljtrace.snapshot): what is still reachable is held, by whom `steve
universe` says.

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


def is_leak(batch: "np.ndarray") -> "np.ndarray":
    """Which of them did this process begin? Inherited blocks are for the parent to free."""
    return (batch["freed"] == 0) & (batch["inherited"] == 0)


class Leaks:
    """The fold: sums by stack of the chosen blocks that live at the end, and of all of them; the former."""

    numbered = False

    def __init__(self, rule: "Callable[[np.ndarray], np.ndarray]") -> None:
        self.sums, self.survivors = Sums(("stack", rule), "stack"), Survivors()

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        self.sums.add(batch, keep)
        self.survivors.add(batch, keep)

    def part(self, peak: int) -> tuple:
        return self.sums.part(peak), self.survivors.part(peak)

    def join(self, part: tuple, peak: int) -> None:
        self.sums.join(part[0], peak)
        self.survivors.join(part[1], peak)


def told_apart(chosen: blocks.Blocks, survivors: Survivors) -> Optional[Dict[Hashable, Tuple[int, int]]]:
    """Bytes of reachable and of unreachable objects by site; None if no snapshot tells."""
    lives = survivors.of_lua(chosen.trace)
    if not len(lives):
        return None
    by_stack = sums_of(lives, chosen.open_again(snapshots=True), chosen.window())
    if by_stack is None:
        return None
    found: Dict[Hashable, Tuple[int, int]] = {}
    for stack, (reachable, lost) in by_stack.items():
        known = found.get(chosen.places.site_name(stack), (0, 0))
        found[chosen.places.site_name(stack)] = known[0] + reachable, known[1] + lost
    return found


def heading(live: Dict[Hashable, dict], apart: Optional[Dict[Hashable, Tuple[int, int]]]) -> str:
    count, size = (sum(found[key] for found in live.values()) for key in ("live_blocks", "live_bytes"))
    title = f"{count:,} blocks of {size:,} bytes never freed"
    if apart is None:
        return title
    held, lost = (sum(pair[i] for pair in apart.values()) for i in (0, 1))
    return f"{title}; objects of Lua: {held:,} bytes reachable, {lost:,} garbage"


def rows_of(live: Dict[Hashable, dict], all_made: Dict[Hashable, dict],
            apart: Optional[Dict[Hashable, Tuple[int, int]]]) -> List[dict]:
    total = sum(found["live_bytes"] for found in live.values())
    rows = []
    for site, found in live.items():
        reachable, lost = (None, None) if apart is None else apart.get(site, (0, 0))
        rows.append({"site": site, "bytes": found["live_bytes"], "blocks": found["live_blocks"],
                     "share": blocks.share(found["live_bytes"], total), "made": all_made[site]["blocks"],
                     "mean_age": blocks.mean(found["lifetimes"], found["blocks"]),
                     "reachable": reachable, "unreachable": lost})
    return rows


def shown(apart: Optional[Dict[Hashable, Tuple[int, int]]]) -> Tuple[Column, ...]:
    """The columns; a table has those of Lua only where they say something."""
    told = ("reachable", "unreachable")
    return COLUMNS if apart else tuple(c._replace(head="") if c.key in told else c for c in COLUMNS)


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args, again=True)
    asked = args.where is not None and "inherited" in fields_of(args.where)
    found = chosen.fold(partial(Leaks, is_live if asked else is_leak))
    sums = found.sums.rows(chosen.totals["peak"])
    live, all_made = (blocks.merged(by_stack, chosen.places.site_name) for by_stack in sums)
    apart = told_apart(chosen, found.survivors)
    title = heading(live, apart)
    if not asked and "forked_from_pid" in chosen.trace.info():
        title += "; inherited blocks are left out (--where inherited)"
    listing.write(args, chosen.title(title), rows_of(live, all_made, apart), shown(apart))
    return chosen.verdict()
