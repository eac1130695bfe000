"""The looks of a trace at the pages of its process, as --pages records them, and the owners of the pages at each of them.

The blocks that are live at a look are known only when the trace is read up to it. One walk over the trace finds the
owners at as many looks as are wanted, in the memory of one.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import live_at
from steve.analysis.owners import Finder
from steve.system.errors import UsageError
from steve.terminal.units import counted

if TYPE_CHECKING:
    from steve.trace._memtrace import Pages, Trace

Tick = Callable[[int, int], None]


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


def number_of(looks: list[Pages], at: str) -> int:
    """The number, from 1 on, of the look that --at names: "peak", the one with the most resident bytes; "end", the last one;
    the name of a mark, of which the last look counts; or a number. UsageError: there is no such look."""
    if at == "peak":
        return max(range(len(looks)), key=lambda i: resident_of(looks[i])) + 1
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
