# SPDX-License-Identifier: GPL-2.0-or-later
"""The bytes that each line of the program reads and writes, for the source code in the report.

An access belongs to the line of its site, or to what steve.kernels._report says instead. Lines are looked up once,
after all accesses were counted by number.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from steve.kernels._report import BYTES
from steve.kernels._sums import merged

if TYPE_CHECKING:
    from steve.kernels._lives import Lives
    from steve.trace.places import Found, Places

ROW = "luawork_bytes"
Work = dict[str, dict[int, tuple[int, int]]]  # by file and line: bytes that the line reads and writes
Sums = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # BYTES by site, by stack, by place (an instruction of a Lua prototype)


def sums_of(lives: Lives, moved: Sums) -> Sums:
    """What one walk counted. moved: the result of LuaWork."""
    accesses = lives.site_accesses()
    sites = np.zeros(len(accesses), BYTES)
    sites["read"], sites["written"] = accesses["bytes_read"], accesses["bytes_written"]
    by_site, by_stack, by_place = (lives.estimated(rows) for rows in moved)
    return merged(ROW, sites, by_site), by_stack, by_place


def merge(one: Sums | None, other: Sums | None) -> Sums | None:
    """The sums of two shards."""
    if one is None or other is None:
        return one or other
    return merged(ROW, one[0], other[0]), merged(ROW, one[1], other[1]), merged(ROW, one[2], other[2])


def work_of(places: Places, sums: Sums) -> Work:
    """By file and line; without accesses whose line is not known."""
    found: Work = {}
    sites, stacks, instructions = sums
    lines = chain.from_iterable(map(places.find_proto, range(places.trace.counts()["protos"])))
    for line, (read, written) in chain(
        numbered(sites, places.find_site),
        numbered(stacks, places.find_stack),
        ((line, sums) for line, sums in zip(lines, instructions.tolist()) if any(sums)),
    ):
        if line.line.file and line.line.line:
            of_file = found.setdefault(line.line.file, {})
            before = of_file.get(line.line.line, (0, 0))
            of_file[line.line.line] = before[0] + read, before[1] + written
    return found


def numbered(rows: np.ndarray, find: Callable[[int], Found]) -> Iterator[tuple[Found, tuple[int, int]]]:
    """The rows that are not 0, with their lines."""
    for number in np.flatnonzero(rows["read"] | rows["written"]).tolist():
        yield find(number), rows[number].tolist()
