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
from steve.trace import policy
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
    Column("blocks", "blocks", "number of these blocks"),
    Column("share", "% of all", "these bytes in percent of those of all blocks listed"),
    Column("made", "made", "all blocks made by the site"),
    Column("mean_age", "age", "operations from their New to the end, on average"),
    Column("lost", "lost", "C: bytes of blocks to which no pointer existed when the program ended; null, like the "
           "next two, if the recorder did not search for pointers"),
    Column("indirect", "indirect", "C: bytes of blocks to which only lost blocks point"),
    Column("possible", "possible", "C: bytes of possibly lost blocks: only pointers into the middle of a block lead "
           "to them, directly or through other blocks"),
    Column("reachable", "reachable", "C: bytes of the other blocks. Lua: bytes of the site's objects, including "
           "their parts (arrays and hashes of tables, stacks of threads), that are reachable from the roots in the "
           "last snapshot of their state. null if neither is known"),
    Column("unreachable", "garbage", "Lua: bytes of objects that are not reachable and only wait for the garbage "
           "collector; null without a snapshot"),
    Column("runtime", "runtime", "bytes of blocks that the C or C++ library made for itself, such as buffers of "
           "streams and libstdc++'s memory for exceptions; null if the recorder did not search for pointers"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
With --to, the end is that mark: --from A --to B lists the blocks made after A and still alive at B. Programs leave
many blocks unfreed at a normal exit on purpose. Therefore the recorder searches for pointers to the blocks when the
program ends (unless --leak-scan=no was given): lost blocks are real leaks. The result of the search does not apply to
an earlier mark, and there is none if the program was killed by SIGKILL. For Lua, a snapshot at the end or before it
(ljtrace --universe=at-exit, ljtrace.snapshot) distinguishes reachable objects from garbage; `steve universe` shows
which objects keep them alive.

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
    policy.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes")
    blocks.add_parts(parser)


def is_live(batch: np.ndarray) -> np.ndarray:
    """A mask of the lives that did not end."""
    return batch["freed"] == 0


def is_leak(batch: np.ndarray) -> np.ndarray:
    """A mask of the lives that did not end and that this process began. The parent process has to free inherited
    blocks."""
    return (batch["freed"] == 0) & (batch["inherited"] != 1)


class Leaks:
    """The fold that collects, for the selected blocks: sums by stack of those alive at the end and of all; the lives
    of those alive at the end; and how those can be reached.

    rule: a function from a batch of lives to the mask of those that count as alive at the end."""

    numbered = False

    def __init__(self, rule: Callable[[np.ndarray], np.ndarray]) -> None:
        self.sums, self.survivors = Sums(("stack", rule), "stack"), Survivors()
        self.reached = Reached(rule)

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        """Add the lives of a batch that the mask `keep` selects; None: all."""
        self.sums.add(batch, keep)
        self.survivors.add(batch, keep)
        self.reached.add(batch, keep)

    def part(self, peak: int) -> tuple:
        """The state of this fold, for join()."""
        return self.sums.part(peak), self.survivors.part(peak), self.reached.part(peak)

    def join(self, part: tuple, peak: int) -> None:
        """Add the state of the fold of the next part of the trace."""
        self.sums.join(part[0], peak)
        self.survivors.join(part[1], peak)
        self.reached.join(part[2], peak)


def lua_by_site(chosen: blocks.Blocks, survivors: Survivors) -> dict[Hashable, tuple[int, int]] | None:
    """Bytes of reachable and of unreachable Lua objects, by site; None if there is no snapshot."""
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


class Reachability(NamedTuple):
    """How the blocks alive at the end can be reached, by site. None: unknown."""
    lua: dict[Hashable, tuple[int, int]] | None
    """Bytes of reachable and of unreachable Lua objects."""
    c: dict[Hashable, Reach] | None
    """Bytes of C blocks by their reachability."""

    def row(self, site: Hashable) -> dict[str, int | None]:
        """The columns of a site that depend on reachability."""
        reachable, garbage = (None, None) if self.lua is None else self.lua.get(site, (0, 0))
        reach = None if self.c is None else self.c.get(site, {})
        if reach is not None:
            reachable = (reachable or 0) + reach.get("reachable", 0)
        return {"reachable": reachable, "unreachable": garbage,
                **{key: None if reach is None else reach.get(key, 0) for key in (*LOST, "runtime")}}

    def sum(self, key: str) -> int:
        """The bytes of one reachability over all C blocks."""
        return sum(reach[key] for reach in (self.c or {}).values())


LOST = ("lost", "indirect", "possible")


def c_by_site(chosen: blocks.Blocks, reached: Reached) -> dict[Hashable, Reach] | None:
    """Bytes of C blocks by site and reachability; None if the recorder did not search for pointers, or if the analysis
    ends at a mark."""
    if chosen.trace.info().get("reach") != "done" or chosen.args.end is not None:
        return None
    return reached.by_site(chosen.places)


def of_c(reach: Reachability) -> str:
    """The part of the heading about C blocks, "" if nothing is known."""
    if not reach.c:
        return ""
    lost = [f"{reach.sum(key):,} {words}" for key, words in
            (("lost", "bytes lost"), ("indirect", "indirectly"), ("possible", "possibly")) if reach.sum(key)]
    known = f"{', '.join(lost) or 'nothing lost'}, {reach.sum('reachable'):,} reachable"
    own = reach.sum("runtime")
    return f"; of C: {known}" + (f"; {own:,} are the runtime libraries' own" if own else "")


def heading(live: dict[Hashable, dict], reach: Reachability) -> str:
    """The heading of the table. live: sums of the blocks alive at the end, by site."""
    count, size = (sum(found[key] for found in live.values()) for key in ("live_blocks", "live_bytes"))
    title = f"{count:,} blocks of {size:,} bytes never freed{of_c(reach)}"
    if reach.lua is None:
        return title
    held, lost = (sum(pair[i] for pair in reach.lua.values()) for i in (0, 1))
    return f"{title}; objects of Lua: {held:,} bytes reachable, {lost:,} garbage"


def rows_of(live: dict[Hashable, dict], all_made: dict[Hashable, dict], reach: Reachability) -> list[dict]:
    """A row for each site with blocks alive at the end."""
    total = sum(found["live_bytes"] for found in live.values())
    return [{"site": site, "bytes": found["live_bytes"], "blocks": found["live_blocks"],
             "share": blocks.share(found["live_bytes"], total), "made": all_made[site]["blocks"],
             "mean_age": blocks.mean(found["lifetimes"], found["blocks"]), **reach.row(site)}
            for site, found in live.items()]


def shown(reach: Reachability) -> tuple[Column, ...]:
    """The columns. Those without information are hidden in the table."""
    hidden = {key for key in (*LOST, "runtime") if not reach.sum(key)}
    if not reach.lua:
        hidden.add("unreachable")
    if not reach.lua and not reach.c:
        hidden.add("reachable")
    return tuple(c._replace(head="") if c.key in hidden else c for c in COLUMNS)


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args, again=True)
    asked = args.where is not None and "inherited" in fields_of(args.where)
    found = chosen.fold(partial(Leaks, is_live if asked else is_leak))
    sums = found.sums.rows(chosen.totals["peak"])
    live, all_made = (blocks.merged(by_stack, chosen.places.site_name) for by_stack in sums)
    reach = Reachability(lua_by_site(chosen, found.survivors), c_by_site(chosen, found.reached))
    title = heading(live, reach)
    if not asked and "forked_from_pid" in chosen.trace.info():
        title += "; inherited blocks are left out (--where inherited)"
    listing.write(args, chosen.title(title), rows_of(live, all_made, reach), shown(reach))
    return chosen.verdict()
