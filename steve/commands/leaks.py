"""steve leaks: the blocks that were never freed, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import blocks, several, string_table
from steve.system import messages
from steve.system.samples import Sample, variance
from steve.terminal import listing
from steve.analysis.closed import has_lua
from steve.analysis.folds import Sums, Together
from steve.terminal.listing import Column
from steve.trace import policy, rollups
from steve.trace._memtrace import TYPE_NAMES
from steve.analysis.divided import BLOCKS as DIVIDED_BLOCKS, BYTES as DIVIDED, Divided
from steve.analysis.lost import Reached, is_leak, searched
from steve.analysis.reachable import AT_EXIT, RETURNED, Survivors, bytes_of, is_live, sums_of
from steve.trace.stacks import SITE
from steve.analysis.filter import fields_of
from steve.analysis.totals import not_freed
from steve.terminal.units import counted

if TYPE_CHECKING:
    import numpy as np
    from steve.trace._memtrace import Trace

NAME = "leaks"
HELP = "show the blocks that were never freed, by allocation site"
READS_SAMPLES = True
COLUMNS = (
    Column("bytes", "bytes", "bytes of the site's blocks that were live at the end"),
    Column("blocks", "blocks", "number of these blocks"),
    Column("share", "% of all", "these bytes in percent of those of all blocks listed"),
    Column("made", "made", "all blocks made by the site"),
    Column("mean_age", "age (ops)", "operations from their New to the end, on average"),
    Column(
        "lost",
        "lost",
        "C: bytes of blocks to which no pointer existed when the program ended; null, like the "
        "next two, if the recorder did not search for pointers, and with --by=type or thread",
    ),
    Column("indirect", "indirect", "C: bytes of blocks to which only lost blocks point"),
    Column(
        "possible",
        "possible",
        "C: bytes of possibly lost blocks: only pointers into the middle of a block lead "
        "to them, directly or through other blocks",
    ),
    Column(
        "reachable",
        "reachable",
        "C: bytes of the other blocks. Lua: bytes of the site's objects, including "
        "their parts (arrays and hashes of tables, stacks of threads), that are reachable from the roots in the "
        "last snapshot of their state. null if neither is known",
    ),
    Column(
        "unreachable",
        "garbage",
        "Lua: bytes of the site's objects, including their parts, that are not reachable and only wait for the "
        "garbage collector; null without a snapshot. A part can be a block of another site, in whose `bytes` it "
        "counts; so these two columns can exceed `bytes`",
    ),
    Column(
        "later",
        "made later",
        "Lua: of `bytes`, those of blocks made after the last snapshot of their state, of which it cannot tell whether they "
        "are reachable; null without a snapshot",
    ),
    Column(
        "divided",
        "divided",
        "bytes of the site's blocks that another allocator, such as a pool, divides into blocks of its own, and that were not "
        "freed; not in `bytes`, since the blocks inside count; null with --to, and if the trace is not complete",
    ),
    Column(
        "runtime",
        "runtime",
        "bytes of blocks that the C or C++ library made for itself, such as buffers of "
        "streams and libstdc++'s memory for exceptions; null if the recorder did not search for pointers",
    ),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
# columns with standard errors in a sample of the blocks, and their sums
ESTIMATES = {"bytes": "bytes", "blocks": "blocks", "made": "made"}
EXAMPLES = f"""\
With --to, the end is that mark: --from A --to B lists the blocks made after A and still alive at B. Programs leave
many blocks unfreed at a normal exit on purpose. Therefore the recorder searches for pointers to the blocks when the
program ends (unless --leak-scan=no was given): lost blocks are real leaks. The result of the search does not apply to
an earlier mark, and there is none if the program was killed by SIGKILL. For Lua, a snapshot at the end or before it
(ljtrace --universe=at-exit, ljtrace.snapshot) distinguishes reachable objects from garbage; `steve universe` shows
which objects keep them alive. Without one, garbage that was not yet collected is among the blocks, as the heading says;
`steve findings --rules growth` is then the better list of what the program keeps.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve leaks app.ljt
  steve leaks app.ljt --sort lost
  steve leaks app.ljt --where lost
  steve leaks app.ljt --to 'at exit'
  steve leaks server.ljt --from 'request 100' --to 'request 200'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "bytes")
    rollups.add_arguments(parser, several=True)
    blocks.add_shards(parser)


class Leaks(Together):
    """The fold that collects, for the selected blocks: sums of those alive at the end and of all; the lives of those
    alive at the end; how those can be reached; and the blocks that other allocators divide.

    rule: a function from a batch of lives to the mask of those that count as alive at the end. key: what sums are
    by."""

    def __init__(self, rule: Callable[[np.ndarray], np.ndarray], key: str) -> None:
        self.sums, self.survivors = Sums((key, rule), key), Survivors(key, rule)
        self.reached, self.divided = Reached(rule, key), Divided(key)
        super().__init__(self.sums, self.survivors, self.reached, self.divided)


def folded(chosen: blocks.Blocks, rule: Callable[[np.ndarray], np.ndarray]) -> tuple[Leaks, Mapping[str, int]]:
    """What the fold has collected of the chosen blocks, and the totals of all."""
    found = chosen.fold(partial(Leaks, rule, rollups.key_of(chosen.args.by)))
    return found.fold, found.totals


class Reachability(NamedTuple):
    """How the blocks alive at the end can be reached, by row of the list. None: unknown."""

    lua: rollups.Sums | None
    """Bytes of Lua objects: the columns reachable, unreachable and later."""
    c: rollups.Sums | None
    """Bytes of C blocks by their reachability."""
    divided: rollups.Sums | None
    """Blocks that other allocators divide, and their bytes: the columns of steve.analysis.divided."""
    snapshots: list[str]
    """The names of the snapshots that tell it for Lua."""


LOST = ("lost", "indirect", "possible")
OF_C = (*LOST, "reachable", "runtime")


def of_lua(chosen: blocks.Blocks, survivors: Survivors) -> tuple[rollups.Sums, list[str]] | None:
    """Bytes of Lua objects by what the survivors are summed by (steve.analysis.reachable.SUMS), and the names of the snapshots
    that tell them apart; None if there is no snapshot."""
    lives = survivors.of_lua(chosen.trace)
    if not len(lives):
        return None
    found = sums_of(lives, chosen.open_again(snapshots=True), chosen.window(), survivors.key)
    return None if found is None else (rollups.Sums(*found[0]), found[1])


def of_c(chosen: blocks.Blocks, reached: Reached) -> rollups.Sums | None:
    """Bytes of C blocks by reachability, and by what `reached` is by; None if the recorder did not search for
    pointers, or if the analysis ends at a mark."""
    if not searched(chosen):
        return None
    return rollups.Sums(*reached.by_row(chosen.trace))


def divided_is_known(chosen: blocks.Blocks) -> bool:
    """Does the trace tell which of the blocks that other allocators divide were not freed?"""
    return chosen.args.end is None and chosen.trace.problem is None and not chosen.is_from_pipe()


CLOSED = (
    "Lua freed all its objects when its state was closed, so none is listed. `require 'ljtrace'.snapshot('end')` in "
    "the script and --to end, or under Valgrind --universe=at-exit and --to 'at exit', list what was alive before; "
    "`steve sites --sort live_bytes_at_peak` lists those at the peak"
)


def is_lua_closed(trace: Trace, survivors: Survivors) -> bool:
    """Whether the trace has Lua heaps, and nothing in them is alive at the end, as after lua_close. After an attach, what was
    made before may be alive."""
    if trace.info().get("attached") == "yes":
        return False
    return has_lua(trace) and not len(survivors.of_lua(trace))


def reachability(chosen: blocks.Blocks, found: Leaks, rollup: rollups.Rollup) -> Reachability:
    """How the blocks can be reached."""
    lua, c = of_lua(chosen, found.survivors), of_c(chosen, found.reached)
    sums, snapshots = lua or (None, [])
    divided = rollup.merged(found.divided.sums()) if divided_is_known(chosen) else None
    return Reachability(sums and rollup.merged(sums), c and rollup.merged(c), divided, snapshots)


def totals_of(live: rollups.Sums, reach: Reachability) -> Counter[str]:
    """The sums over all rows, without those that are not known. live: sums of the blocks alive at the end."""
    found = Counter({name: int(live.rows[f"live_{name}"].sum()) for name in ("blocks", "bytes")})
    if reach.divided is not None:
        found.update({key: int(reach.divided.rows[key].sum()) for key in (DIVIDED_BLOCKS, DIVIDED)})
    if reach.c is not None and len(reach.c.numbers):
        found.update({key: int(reach.c.rows[key].sum()) for key in OF_C})
    if reach.lua is not None:
        held, lost = lua_bytes(reach.lua)
        later = int(reach.lua.rows["later"].sum())
        found.update({"lua_reachable": held, "unreachable": lost, "later": later, "lua_rows": len(reach.lua.numbers)})
    return found


def c_text(totals: Mapping[str, int]) -> str:
    """The part of the heading about C blocks, "" if nothing is known. totals: of totals_of()."""
    if "lost" not in totals:
        return ""
    lost = [
        f"{totals[key]:,} {words}"
        for key, words in (("lost", "bytes lost"), ("indirect", "indirectly"), ("possible", "possibly"))
        if totals[key]
    ]
    known = f"{', '.join(lost) or 'nothing lost'}, {totals['reachable']:,} reachable"
    own = totals["runtime"]
    return f"; of C: {known}" + (f"; {own:,} are the runtime libraries' own" if own else "")


def hint(chosen: blocks.Blocks, survivors: Survivors, reach: Reachability) -> str | None:
    """What to do if the recording cannot show what Lua held."""
    if chosen.is_whole() and is_lua_closed(chosen.trace, survivors):
        return CLOSED
    if chosen.args.end == AT_EXIT and reach.lua is not None:
        held, lost = lua_bytes(reach.lua)
        return RETURNED.format("--to end") if lost > held else None
    return None


def lua_bytes(lua: rollups.Sums) -> tuple[int, int]:
    """The bytes of reachable and of unreachable objects."""
    return int(lua.rows["reachable"].sum()), int(lua.rows["unreachable"].sum())


def state_of(chosen: blocks.Blocks) -> str:
    """What is true of the blocks that are listed."""
    if chosen.args.end is not None:
        return "still alive"  # the name of the mark follows
    return not_freed(chosen.trace)


UNCOLLECTED = (
    "; {} of them are of Lua, and garbage that was not yet collected counts among these; with a snapshot (--universe) it is "
    "a column of its own"
)


OF_DIVIDED = "; besides, {} of {} that other allocators, such as pools, divide were not freed: the blocks inside are what is listed"


def heading(totals: Mapping[str, int], state: str, snapshots: Sequence[str]) -> str:
    """The heading of the table. totals: of totals_of(); state: of state_of(); snapshots: the names of those that tell what Lua
    can reach."""
    title = f"{counted(totals['blocks'], 'block')} of {counted(totals['bytes'], 'byte')} {state}{c_text(totals)}"
    if "lua_reachable" in totals:
        held, lost, later = totals["lua_reachable"], totals["unreachable"], totals["later"]
        title += (
            f"; objects of Lua with their parts: {held:,} bytes reachable, {lost:,} garbage"
            f"{' in the snapshot ' if len(snapshots) == 1 else ' in snapshots '}{', '.join(map(repr, snapshots))}"
        )
        title += f"; {later:,} made after it, of which it says nothing" if later else ""
        title += "; a part can be a block of another row" if totals["exceeding"] else ""
    if totals[DIVIDED_BLOCKS]:
        title += OF_DIVIDED.format(counted(totals[DIVIDED_BLOCKS], "block"), counted(totals[DIVIDED], "byte"))
    title += UNCOLLECTED.format(counted(totals["unknown"], "byte")) if totals["unknown"] else ""
    of_strings = string_table.remark(totals["strings"], totals["bytes"])
    return title + (f"; {of_strings}" if of_strings else "")


def joined(live: rollups.Sums, made: rollups.Sums, reach: Reachability) -> rollups.Sums:
    """All that is known of the blocks alive at the end. made: sums of all blocks."""
    import numpy as np

    columns = {
        "bytes": (live, "live_bytes"),
        "blocks": (live, "live_blocks"),
        "lifetimes": (live, "lifetimes"),
        "lives": (live, "blocks"),
        "made": (made, "blocks"),
        variance("bytes"): (live, variance("live_bytes")),
        variance("blocks"): (live, variance("live_blocks")),
        variance("made"): (made, variance("blocks")),
    }
    if reach.lua is not None:
        columns.update(
            lua_reachable=(reach.lua, "reachable"), unreachable=(reach.lua, "unreachable"), later=(reach.lua, "later")
        )
    if reach.c is not None:
        columns.update({key: (reach.c, key) for key in OF_C})
        of_c = rollups.Sums(reach.c.numbers, np.ones(len(reach.c.numbers), [("of_c", "u8")]))
        columns["of_c"] = of_c, "of_c"
    numbers = live.numbers
    if reach.divided is not None:
        columns[DIVIDED] = reach.divided, DIVIDED
        numbers = np.union1d(numbers, reach.divided.numbers)
    return rollups.joined(numbers, columns)


def exceeding(rows: rollups.Sums) -> int:
    """The number of rows whose objects of Lua, with their parts, are more than their blocks. rows: of joined()."""
    import numpy as np

    of_objects = rows.rows["lua_reachable"] + rows.rows["unreachable"]
    return int(np.count_nonzero(of_objects > rows.rows["bytes"]))


def row_of(found: dict, total: int, sample: Sample) -> dict:
    """The columns of a site. found: what joined() has of it (of_c: has it blocks of C that were searched for?); total: the bytes of all sites."""
    reachable = [found["lua_reachable"]] if "lua_reachable" in found else []
    reachable += [found["reachable"]] if found.get("of_c") else []
    return {
        "bytes": found["bytes"],
        "blocks": found["blocks"],
        "share": blocks.share(found["bytes"], total),
        "made": found["made"],
        "mean_age": blocks.mean(found["lifetimes"], found["lives"]),
        **{key: found.get(key) for key in (*LOST, "unreachable", "later", DIVIDED, "runtime")},
        "reachable": sum(reachable) if reachable else None,
        **sample.standard_errors(found, ESTIMATES),
    }


def shown(columns: Sequence[Column], totals: Mapping[str, int]) -> tuple[Column, ...]:
    """The columns. Those without information are hidden in the table. totals: of totals_of()."""
    hidden = {key for key in (*LOST, DIVIDED, "runtime") if not totals.get(key)}
    if not totals.get("lua_rows"):
        hidden |= {"unreachable", "later"}
        if "lost" not in totals:
            hidden.add("reachable")
    if not totals.get("later"):
        hidden.add("later")
    return listing.without(columns, hidden)


# the sums that the rows need: of what is alive at the end, and of all blocks
OF_LIVE = ("live_bytes", "live_blocks", "lifetimes", "blocks", variance("live_bytes"), variance("live_blocks"))
OF_MADE = ("blocks", variance("blocks"))


class LeakRows:
    """The rows of all files, and what the heading and remarks say of them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.rows, self.totals = args, several.Joined(args), Counter[str]()
        self.by_inherited = args.where is not None and "inherited" in fields_of(args.where)
        self.advice: dict[str, None] = {}
        self._states: dict[str, None] = {}  # what is true of the blocks of a file
        self._are_forks = False
        self._unsearched: list[str] = []  # names of files without a search for pointers
        self._snapshots: dict[str, None] = {}

    def add(self, chosen: blocks.Blocks) -> None:
        """Add the rows of a file."""
        args = chosen.args
        found, totals = folded(chosen, is_live if self.by_inherited else is_leak)
        rollup = rollups.of_arguments(args, chosen.places)
        alive, everything = found.sums.rows(totals["peak"], OF_LIVE, OF_MADE)
        del found.sums  # before the stacks are named
        live, made = rollup.merged(alive), rollup.merged(everything)
        reach = reachability(chosen, found, rollup)
        rows = joined(live, made, reach)
        self.rows.add(rollup, rows)
        self.totals.update(totals_of(live, reach))
        self._snapshots.update(dict.fromkeys(reach.snapshots))
        of_lua = found.survivors.of_lua(chosen.trace)
        self.totals["strings"] += bytes_of(of_lua[of_lua["type"] == TYPE_NAMES.index(string_table.TYPE)])
        if reach.lua is None:
            self.totals["unknown"] += bytes_of(of_lua)
        else:
            self.totals["exceeding"] += exceeding(rows)
        self._states[state_of(chosen)] = None
        self._are_forks |= "forked_from_pid" in chosen.trace.info()
        if reach.c is None:
            self._unsearched.append(chosen.trace.name)
        if advice := hint(chosen, found.survivors, reach):
            self.advice[advice] = None

    def join(self, other: LeakRows) -> None:
        """Add the rows of other files."""
        self.rows.join(other.rows)
        self.totals.update(other.totals)
        self._states.update(other._states)
        self._are_forks |= other._are_forks
        self._unsearched += other._unsearched
        self._snapshots.update(other._snapshots)
        self.advice.update(other.advice)

    def title(self) -> str:
        title = heading(self.totals, " or ".join(self._states), list(self._snapshots))
        if "lost" in self.totals and self._unsearched:
            title += f"; no search for pointers in {', '.join(self._unsearched)}"
        if not self.by_inherited and self._are_forks:
            title += "; inherited blocks are left out (--where inherited)"
        return title


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args, again=True)
    found = files.collect(partial(LeakRows, args), LeakRows.add)
    make = partial(row_of, total=found.totals["bytes"], sample=files.sample)
    rows, title = found.rows.rows(make).ranked(args.sort), files.title(found.title(), peaks=False, inherited=False)
    listing.write_ranked(args, title, rows, shown(columns, found.totals), sample=files.sample)
    for advice in found.advice:
        messages.note(NAME, advice, args.quiet)
    return files.verdict()
