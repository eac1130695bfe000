"""The looks of a trace at the pages of its process, as --pages records them, and the owners of the pages at each of them.

The blocks that are live at a look are known only when the trace is read up to it. One walk over the trace finds the
owners at as many looks as are wanted, in the memory of one.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import live_at, totals
from steve.analysis.owners import (
    CHANGED,
    FILES,
    FREE,
    JIT,
    KINDS,
    LIBRARIES,
    LUA,
    OWN,
    RECORDER,
    STACKS,
    TITLES,
    Finder,
)
from steve.system.errors import UsageError
from steve.terminal.progress import Progress
from steve.terminal.units import counted, human_bytes, human_ns
from steve.trace import allocators

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.trace._memtrace import Pages, Trace

Tick = Callable[[int, int], None]
WINDOWED = "the pages of the process are those of all blocks, not of those that --where, --from and --to choose"
SAMPLED = "whose pages they are is known only if all blocks were recorded, and the trace is a sample"
PIPED = "it takes a second reading of the trace, which came from a pipe"
NO_BLOCKS = "blocks from before the attach are not known: ljtrace attach --existing-blocks"
RESIDENT, RESIDENT_AT_END = "resident", "resident_at_end"
LATE, NEARLY = 0.8, 0.95  # of the time until the end, and of the most resident bytes
AT_LOOK = "resident_at_look"  # the sum of the owners


def name_of(kind: str) -> str:
    """The name of the measure of a kind of owners."""
    return f"{RESIDENT}_{kind}"


OWNERS = {
    name_of(kind): f"of the look with the most resident bytes: {TITLES[kind]}" for kind in KINDS if kind != CHANGED
}
# what conditions can be about, and what it means
NAMES = {
    RESIDENT: "the most bytes that were resident, as in `steve summary` (recorded with --pages)",
    RESIDENT_AT_END: "bytes that were resident at the last look, as in `steve resident --at end`",
    **OWNERS,
}


class Look(NamedTuple):
    """What was resident at a look. number: from 1 on, as `steve resident --at` takes it; time: in nanoseconds; name: of a
    mark; kinds: bytes by kind of owner (owners.KINDS), whose sum is `resident`."""

    number: int
    time: int
    reason: str
    name: str
    resident: int
    kinds: dict[str, int]

    @property
    def why(self) -> str:
        """Why the recorder looked."""
        return f"mark {self.name}" if self.name else self.reason


def of_trace(trace: Trace) -> list[Pages]:
    """The looks of a trace that was read, without those of which the file lacks a part."""
    return [pages for pages in trace.pages() if pages.complete]


def resident_of(pages: Pages) -> int:
    """What the kernel reports as resident at a look."""
    return sum(mapping.rss for mapping in pages.mappings)


def add_at(parser: argparse.ArgumentParser) -> None:
    """The option --at, which number_of() takes."""
    parser.add_argument(
        "--at",
        default="peak",
        metavar="WHEN",
        help="peak, end, the name of a mark, or the number of a look (default: peak)",
    )


def last_at_work(looks: list[Pages]) -> int:
    """The index of the last look before the end, if it was taken in the last part of the time (LATE); else that of the last
    look. At its end a program has often freed all its blocks, which says nothing of what it needs while it works."""
    if len(looks) > 1 and looks[-1].reason == "end" and looks[-2].time >= LATE * looks[-1].time:
        return len(looks) - 2
    return len(looks) - 1


def largest(looks: list[Pages]) -> int:
    """The index of the look with the most resident bytes, but of one before the end if that has nearly as many (NEARLY)."""
    sizes = [resident_of(look) for look in looks]
    most = max(range(len(looks)), key=sizes.__getitem__)
    before = max(range(len(looks) - 1), key=sizes.__getitem__, default=most)
    is_end = most == len(looks) - 1 and looks[most].reason == "end"
    return before if is_end and sizes[before] >= NEARLY * sizes[most] else most


def number_of(looks: list[Pages], at: str) -> int:
    """The number, from 1 on, of the look that --at names: "peak", that of largest(); "end", the last one; the name of a mark, of
    which the last look counts; or a number. UsageError: there is no such look."""
    if at == "peak":
        return largest(looks) + 1
    if at == "end":
        return len(looks)
    named = [i for i, look in enumerate(looks, 1) if look.reason == "mark" and look.name == at]
    if named:
        return named[-1]
    if at.isdecimal() and 1 <= int(at) <= len(looks):
        return int(at)
    marks = ", ".join(dict.fromkeys(look.name for look in looks if look.name))
    raise UsageError(
        f"--at {at}: there is no such look; there are {counted(len(looks), 'look')} (steve resident --by look), "
        f"{f'with the marks {marks}' if marks else 'none of them at a mark'}"
    )


def spread(looks: list[Pages], most: int) -> list[int]:
    """The indices of at most so many looks: the first, the last, and of those between, in as many groups as there is room
    for, the one with the most resident bytes. So the largest is always among them."""
    if len(looks) <= most:
        return list(range(len(looks)))
    inner, groups = len(looks) - 2, most - 2
    bounds = [1 + inner * i // groups for i in range(groups + 1)]
    sizes = [resident_of(pages) for pages in looks]
    found = [max(range(begin, end), key=sizes.__getitem__) for begin, end in zip(bounds, bounds[1:])]
    return [0, *found, len(looks) - 1]


def over_time(trace: Trace, again: Trace, most: int, tick: Tick) -> list[Look]:
    """The owners at the looks of a trace that was read, at no more than so many of them (spread()). again: the trace from its
    beginning."""
    looks = of_trace(trace)
    wanted = spread(looks, most)
    wanted.sort(key=lambda i: looks[i].time)
    found = []
    for i, live in zip(wanted, live_at.live_at_times(again, [looks[i].time for i in wanted], tick)):
        pages = looks[i]
        owners = Finder(trace, pages, live).find(by_block=False)
        found.append(Look(i + 1, pages.time, pages.reason, pages.name, owners.resident, owners.by_kind()))
    return found


def before_end(trace: Trace, pages: Pages) -> float | None:
    """Seconds from a look to the end of a trace that was read; None: the trace has no end."""
    sums = trace.stats()["totals"]
    end = max(
        sums["nanoseconds"], sums["instructions"]
    )  # where there are looks, both are times: of the end, and of the last event
    return max(end - pages.time, 0) / 1e9 if end else None


def of_the_end(trace: Trace, pages: Pages) -> list[str]:
    """What is to be said of the last look of a trace that was read, if it was not taken at the end."""
    if pages.reason == "end":
        return []
    ended = totals.program_end_text(totals.program_end(trace))
    left = before_end(trace, pages)
    when = f"{human_ns(left * 1e9)} before its end" if left is not None else "some time before"
    why = (
        f"There was no look at the end: the program ended by {ended}, the last look is {when}."
        if ended != "unknown"
        else f"There was no look at the end, of which the trace says nothing: the last look is {when}."
    )
    more = " --pages=TIME, such as --pages=1s, looks at regular times, too."
    return [why if "pages_every" in trace.info() else why + more]


def of_growth(every: list[Pages], number: int) -> list[str]:
    """What is to be said of the look with this number, from 1 on, if it was taken while memory grew."""
    if every[number - 1].reason != "growth":
        return []
    later = next((i for i, pages in enumerate(every[number:], number + 1) if pages.reason != "growth"), None)
    more = (
        f"; look {later} was taken afterwards (--at {later})" if later else "; --pages=TIME looks at regular times, too"
    )
    return [f"This look was taken while memory grew, so that some of it may be freed soon after{more}."]


def lacks_blocks(info: dict) -> bool:
    """Are the blocks unknown that the program had before the recorder was attached to it?"""
    none_found = info.get("existing_blocks") == "0" and "existing_problem" in info
    return "attached" in info and ("existing_blocks" not in info or none_found)


def titles_of(info: dict) -> dict[str, str]:
    """The titles of the kinds of owners in a trace: where the blocks from before the attach are unknown, they are with what is
    free."""
    return (
        {**TITLES, FREE: "free in the allocator, or in blocks from before the attach"} if lacks_blocks(info) else TITLES
    )


def from_before(info: dict) -> list[str]:
    """What is known of the blocks that the program had before the recorder was attached to it."""
    if "existing_blocks" not in info:
        return [
            "Blocks from before the attach are not known: they are in one row with free memory, and their mappings in that of "
            "private memory mapped before the attach. ljtrace attach --existing-blocks records them."
        ]
    if "existing_problem" in info:
        return [
            f"Not all blocks from before the attach are known ({info['existing_problem']}): the others count as free, "
            "their mappings as mapped before the attach."
        ]
    return []


def of_older_mappings(size: int) -> list[str]:
    """What is to be said of so many bytes of mappings from before the attach."""
    if not size:
        return []
    return [
        f"Whose the {human_bytes(size)} are that were mapped before the attach is not known (--by mapping lists them). To know "
        "which calls map memory and whose blocks keep pages, start the program with `ljtrace run --pages`."
    ]


# -- free memory --

FREE_PART, FREE_LEAST = 20, 1 << 20  # percent of what is resident, and bytes
OUTSIDE_LEAST = 16 << 20  # bytes
# the finding kept_free: its title, its rule, and what to do about it
AT_LAST, AT_WORK = "at the last look", "at the last look before the end"
FREE_TITLE = "Free, kept by the allocator"
FREE_RULE = (
    "at the last look at the pages of the process (ljtrace run --pages), or at the last before the end if that was in the last "
    f"fifth of the time, {FREE_PART}% or more of what is resident without the recorder, and {FREE_LEAST:,} bytes or more, are free memory of the allocators"
)


def free_help(calls: Iterable[str], free: KeptFree | None) -> str:
    """What to do about free memory. calls: those that return it, of the allocators of the programs (free_call); free: how much
    it is, None if that is not known."""
    known = " or ".join(call for call in dict.fromkeys(calls) if call)
    if free is not None and free.returnable < LEAST_RETURNABLE * free.free:
        perhaps = "perhaps " if free.whole > free.returnable else ""
        return (
            f"{perhaps}hardly any of it can be returned: `steve resident --by site` says which blocks keep their pages; put those that "
            "live long apart from others, or let the allocator keep less: `steve tune --goal end` tries settings and other "
            "allocators"
        )
    return (
        f"return it when much was freed{f' ({known})' if known else ''}, or let the allocator keep less: `steve resident` says "
        "what it offers, `steve resident --by site` which blocks keep the rest of their pages, `steve tune --goal end` tries "
        "settings and other allocators"
    )


def free_call(trace: Trace) -> str:
    """The call that returns free memory of the allocator of the program; "" if that is not known."""
    found = allocators.allocator_of(trace)
    return found.call if found else ""


LEAST_RETURNABLE = 0.1  # of the free memory, for the call that returns it to be named


def returnable_text(least: int, most: int) -> str:
    """How many bytes of free memory can be returned to the system. least: Owned.returnable, most: Owned.whole, or sums of them."""
    return f"{human_bytes(least)} to {human_bytes(most)}" if least < most else f"up to {human_bytes(most)}"


class KeptFree(NamedTuple):
    """The free memory that allocators keep at a look, in bytes. whole: of free, in whole pages, which is the most that can
    be returned to the system; returnable: of whole, what can be at least, but for caches of threads; resident: all that is; recorder: of resident, the recorder's; outside:
    of resident, what no allocator has: mappings of the program, files, stacks, code, and data of libraries and of the program. at: at which look.
    """

    free: int
    whole: int
    returnable: int
    resident: int
    recorder: int
    outside: int = 0
    at: str = AT_LAST

    def plus(self, other: KeptFree) -> KeptFree:
        """The sum over two processes."""
        at = self.at if self.at == other.at or not other.resident else other.at if not self.resident else AT_LAST
        return KeptFree(*(a + b for a, b in zip(self[:-1], other[:-1])), at)

    @property
    def of_program(self) -> int:
        """What is resident without the recorder."""
        return self.resident - self.recorder

    @property
    def is_much(self) -> bool:
        """Is it worth a finding?"""
        return self.free >= FREE_LEAST and 100 * self.free >= FREE_PART * self.of_program

    @property
    def of_returnable(self) -> str:
        """How much can be returned to the system."""
        return returnable_text(self.returnable, self.whole)

    @property
    def of_outside(self) -> str:
        """A phrase on what no allocator has, if that is most of what is resident; else ""."""
        if self.outside < OUTSIDE_LEAST or 2 * self.outside < self.of_program:
            return ""
        return (
            f"{human_bytes(self.outside)} of the {human_bytes(self.of_program)} that were resident {self.at}, which no "
            "allocator has (mappings of the program, files, stacks, code, static variables): steve resident --at end says whose "
            "they are"
        )

    @property
    def of_resident(self) -> str:
        """A phrase: of how much that is."""
        without = f" without the recorder's {human_bytes(self.recorder)}" if self.recorder else ""
        return f"{human_bytes(self.free)} of the {human_bytes(self.of_program)} that are resident{without}"


def kept_free(chosen: Blocks) -> tuple[KeptFree | None, str]:
    """What allocators keep at the look last_at_work() of a trace that was read, by another reading of it; or None and why it is
    not known."""
    looks = of_trace(chosen.trace)
    if not looks:
        return None, "no look at the pages of the process: ljtrace run --pages"
    if why := why_no_owners(chosen):
        return None, why
    if lacks_blocks(chosen.trace.info()):
        return None, NO_BLOCKS
    pages = looks[last_at_work(looks)]
    with Progress(chosen.command, chosen.args.quiet) as progress:
        live = live_at.live_at(chosen.open_again(), pages.time, progress)
    found = Finder(chosen.trace, pages, live).find(by_block=False)
    kinds = found.by_kind()
    whole, returnable = (sum(getattr(owned, name) for owned in found.parts) for name in ("whole", "returnable"))
    outside = sum(kinds[kind] for kind in (OWN, FILES, STACKS, LIBRARIES, JIT))
    at = AT_LAST if pages is looks[-1] else AT_WORK
    return KeptFree(kinds[FREE] + kinds[LUA], whole, returnable, found.resident, kinds[RECORDER], outside, at), ""


# -- measures of a trace --


class Measures(NamedTuple):
    """What was resident, by name as conditions have it (NAMES). values: those that are known; why_not: why the others are
    not."""

    values: dict[str, int]
    why_not: str


def why_none(trace: Trace) -> str:
    """Why a trace has no looks."""
    info = trace.info()
    if "pages_problem" in info:
        return info["pages_problem"]
    if trace.pages(most=1):
        return "the file ends within the first look at the pages, which is therefore not complete"
    if "look_at_pages" in info:
        ended = totals.program_end_text(totals.program_end(trace))
        how = f" (the program ended by {ended})" if ended not in ("unknown", "detached") else ""
        passed = human_ns(trace.stats()["totals"]["nanoseconds"])
        return f"it was recorded with --pages, but the recording was over after {passed}{how}, before the first look was taken"
    if info.get("recorder") == "native":
        return "it was recorded without --pages (ljtrace run --pages, ljtrace attach --pages)"
    return (
        "the pages of a program under Valgrind are Valgrind's; ljtrace run --pages records those that the program "
        "has without it"
    )


def why_no_owners(chosen: Blocks) -> str:
    """Why the owners of the pages of a trace that was read, and that has looks, cannot be found; "" if they can."""
    if not chosen.is_whole():
        return WINDOWED
    if chosen.trace.sample:
        return SAMPLED
    return PIPED if chosen.is_from_pipe() else ""


def measures(chosen: Blocks, asked: Container[str]) -> Measures:
    """The measures of a trace that was read. asked: names; those of owners take another reading of the trace."""
    trace = chosen.trace
    if not any(name in asked for name in NAMES):
        return Measures({}, "")
    looks = of_trace(trace)
    if not looks or not chosen.is_whole():
        return Measures({}, WINDOWED if looks else why_none(trace))
    pages = looks[number_of(looks, "peak") - 1]
    values = {RESIDENT: totals.most_resident(trace.pages()), RESIDENT_AT_END: resident_of(looks[-1])}
    why_not = why_no_owners(chosen)
    if not why_not and any(name in asked for name in OWNERS):
        with Progress(chosen.command, chosen.args.quiet) as progress:
            live = live_at.live_at(chosen.open_again(), pages.time, progress)
        kinds = Finder(trace, pages, live).find(by_block=False).by_kind()
        values |= {name_of(kind): size for kind, size in kinds.items()}
        values[AT_LOOK] = resident_of(pages)
        if lacks_blocks(trace.info()):
            del values[name_of(FREE)]
            why_not = NO_BLOCKS
    return Measures(values, why_not)


def sum_of(parts: list[Measures]) -> Measures:
    """The sums of the measures of several processes; what one of them lacks is not known."""
    names = set.intersection(*(set(part.values) for part in parts))
    values = {name: sum(part.values[name] for part in parts) for name in parts[0].values if name in names}
    return Measures(values, next((part.why_not for part in parts if part.why_not), ""))
