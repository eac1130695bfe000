"""steve leaks: the blocks that were never freed, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import blocks
from steve.terminal import listing
from steve.analysis.reducers import Sums
from steve.terminal.listing import Column
from steve.analysis.lost import Reach, Reached
from steve.analysis.reachable import Survivors, sums_of
from steve.trace.stacks import SITE
from steve.analysis.filter import fields_of

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
    Column("lost", "lost", "of C: bytes of blocks to which no pointer was left when the program ended; null, as the "
           "next two, if that was not looked at"),
    Column("indirect", "indirect", "of C: bytes of blocks to which only lost blocks lead"),
    Column("possible", "possible", "of C: bytes of blocks to which only pointers into the middle of a block lead, "
           "directly or by way of others: possibly lost"),
    Column("reachable", "reachable", "of C: bytes of the other blocks. Of Lua: bytes of the site's objects, with "
           "their parts (arrays and hashes of tables, stacks of threads), that links from the roots lead to in the "
           "last snapshot of their state. null if neither is known"),
    Column("unreachable", "garbage", "of Lua: bytes of objects that none leads to: they only wait for the "
           "collector; null without a snapshot"),
    Column("runtime", "runtime", "bytes of blocks that the C or C++ library made for itself, as buffers of streams "
           "and libstdc++'s memory for exceptions; null if nobody looked for pointers"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
With --to the end is that mark: --from A --to B lists what was made after A and still there at B. At a normal
exit much that is never freed is meant to be so. When the program ends, the recorder looks for pointers to its
blocks (unless --leak-scan=no was given): what is lost was not meant to be so. Nothing is known of that at an
earlier mark, or if the program was killed by SIGKILL. Blocks of Lua are told apart by a snapshot at the end or
before it (ljtrace --universe=at-exit, ljtrace.snapshot): what is still reachable is held, by whom `steve
universe` says.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve leaks app.ljt
  steve leaks app.ljt --sort lost
  steve leaks app.ljt --where lost
  steve leaks server.ljt --from 'request 100' --to 'request 200'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes")
    blocks.add_parts(parser)


def is_live(batch: np.ndarray) -> np.ndarray:
    """Which of the lives did not end?"""
    return batch["freed"] == 0


def is_leak(batch: np.ndarray) -> np.ndarray:
    """Which of them did this process begin? Inherited blocks are for the parent to free."""
    return (batch["freed"] == 0) & (batch["inherited"] != 1)


class Leaks:
    """The fold: sums by stack of the chosen blocks that live at the end, and of all of them; the former; and how they
    can be reached."""

    numbered = False

    def __init__(self, rule: Callable[[np.ndarray], np.ndarray]) -> None:
        self.sums, self.survivors = Sums(("stack", rule), "stack"), Survivors()
        self.reached = Reached(rule)

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        self.sums.add(batch, keep)
        self.survivors.add(batch, keep)
        self.reached.add(batch, keep)

    def part(self, peak: int) -> tuple:
        return self.sums.part(peak), self.survivors.part(peak), self.reached.part(peak)

    def join(self, part: tuple, peak: int) -> None:
        self.sums.join(part[0], peak)
        self.survivors.join(part[1], peak)
        self.reached.join(part[2], peak)


def told_apart(chosen: blocks.Blocks, survivors: Survivors) -> dict[Hashable, tuple[int, int]] | None:
    """Bytes of reachable and of unreachable objects by site; None if no snapshot tells."""
    lives = survivors.of_lua(chosen.trace)
    if not len(lives):
        return None
    by_stack = sums_of(lives, chosen.open_again(snapshots=True), chosen.window())
    if by_stack is None:
        return None
    found: dict[Hashable, tuple[int, int]] = {}
    for stack, (reachable, lost) in by_stack.items():
        known = found.get(chosen.places.site_name(stack), (0, 0))
        found[chosen.places.site_name(stack)] = known[0] + reachable, known[1] + lost
    return found


class Apart(NamedTuple):
    """By site: bytes of Lua's reachable objects and of its others; bytes of C by how they can be reached. None: not
    known."""
    lua: dict[Hashable, tuple[int, int]] | None
    c: dict[Hashable, Reach] | None

    def row(self, site: Hashable) -> dict[str, int | None]:
        """The columns of a site that tell its blocks apart."""
        reachable, garbage = (None, None) if self.lua is None else self.lua.get(site, (0, 0))
        reach = None if self.c is None else self.c.get(site, {})
        if reach is not None:
            reachable = (reachable or 0) + reach.get("reachable", 0)
        return {"reachable": reachable, "unreachable": garbage,
                **{key: None if reach is None else reach.get(key, 0) for key in (*LOST, "runtime")}}

    def sum(self, key: str) -> int:
        """Of C."""
        return sum(reach[key] for reach in (self.c or {}).values())


LOST = ("lost", "indirect", "possible")


def looked_for(chosen: blocks.Blocks, reached: Reached) -> dict[Hashable, Reach] | None:
    """Bytes of C by site; None if the recorder has not looked at how they can be reached at the end chosen."""
    if chosen.trace.info().get("reach") != "done" or chosen.args.end is not None:
        return None
    return reached.by_site(chosen.places)


def of_c(apart: Apart) -> str:
    """What is known of blocks of C, for the heading."""
    if not apart.c:
        return ""
    lost = [f"{apart.sum(key):,} {words}" for key, words in
            (("lost", "bytes lost"), ("indirect", "indirectly"), ("possible", "possibly")) if apart.sum(key)]
    known = f"{', '.join(lost) or 'nothing lost'}, {apart.sum('reachable'):,} reachable"
    own = apart.sum("runtime")
    return f"; of C: {known}" + (f"; {own:,} are the runtime libraries' own" if own else "")


def heading(live: dict[Hashable, dict], apart: Apart) -> str:
    count, size = (sum(found[key] for found in live.values()) for key in ("live_blocks", "live_bytes"))
    title = f"{count:,} blocks of {size:,} bytes never freed{of_c(apart)}"
    if apart.lua is None:
        return title
    held, lost = (sum(pair[i] for pair in apart.lua.values()) for i in (0, 1))
    return f"{title}; objects of Lua: {held:,} bytes reachable, {lost:,} garbage"


def rows_of(live: dict[Hashable, dict], all_made: dict[Hashable, dict], apart: Apart) -> list[dict]:
    total = sum(found["live_bytes"] for found in live.values())
    return [{"site": site, "bytes": found["live_bytes"], "blocks": found["live_blocks"],
             "share": blocks.share(found["live_bytes"], total), "made": all_made[site]["blocks"],
             "mean_age": blocks.mean(found["lifetimes"], found["blocks"]), **apart.row(site)}
            for site, found in live.items()]


def shown(apart: Apart) -> tuple[Column, ...]:
    """The columns; a table has only those that say something."""
    silent = {key for key in (*LOST, "runtime") if not apart.sum(key)}
    if not apart.lua:
        silent.add("unreachable")
    if not apart.lua and not apart.c:
        silent.add("reachable")
    return tuple(c._replace(head="") if c.key in silent else c for c in COLUMNS)


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args, again=True)
    asked = args.where is not None and "inherited" in fields_of(args.where)
    found = chosen.fold(partial(Leaks, is_live if asked else is_leak))
    sums = found.sums.rows(chosen.totals["peak"])
    live, all_made = (blocks.merged(by_stack, chosen.places.site_name) for by_stack in sums)
    apart = Apart(told_apart(chosen, found.survivors), looked_for(chosen, found.reached))
    title = heading(live, apart)
    if not asked and "forked_from_pid" in chosen.trace.info():
        title += "; inherited blocks are left out (--where inherited)"
    listing.write(args, chosen.title(title), rows_of(live, all_made, apart), shown(apart))
    return chosen.verdict()
