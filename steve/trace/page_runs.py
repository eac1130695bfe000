"""The pages of a process as a trace has them: which are resident, as arrays; and sums over ranges of addresses.

A range is a pair of addresses: where it begins and where it ends. Arrays of ranges are two arrays, of the beginnings
and of the ends, in order and without overlaps.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Mapping

# bits of the state of a run, and flags of a mapping: see memtrace/memtrace.h
PRESENT, SWAPPED, OF_FILE, ALONE = 1, 2, 4, 8
STATE_BITS = 4
READ, WRITE, EXECUTE, SHARED, HUGETLB, CONTINUED = 1, 2, 4, 8, 16, 32


class Ranges(NamedTuple):
    """Ranges of addresses, in order and without overlaps."""

    starts: np.ndarray
    ends: np.ndarray

    @property
    def bytes(self) -> int:
        return int((self.ends - self.starts).sum())

    def __len__(self) -> int:
        return len(self.starts)


def nothing() -> Ranges:
    import numpy as np

    return Ranges(np.zeros(0, "u8"), np.zeros(0, "u8"))


def union(starts: np.ndarray, ends: np.ndarray) -> Ranges:
    """The addresses that are in any of these ranges, which may overlap and be in any order. Empty ones are left out."""
    import numpy as np

    kept = ends > starts
    order = np.argsort(starts[kept], kind="stable")
    starts, ends = starts[kept][order], ends[kept][order]
    if not len(starts):
        return nothing()
    reach = np.maximum.accumulate(ends)
    begins = np.append(True, starts[1:] > reach[:-1])
    first = np.flatnonzero(begins)
    return Ranges(starts[first], np.maximum.reduceat(ends, first))


def below(ranges: Ranges, at: np.ndarray) -> np.ndarray:
    """How many bytes of the ranges are below each address."""
    import numpy as np

    if not len(ranges):
        return np.zeros(len(at), "u8")
    before = np.append(np.uint64(0), np.cumsum(ranges.ends - ranges.starts, dtype="u8"))
    which = np.searchsorted(ranges.starts, at, "right")
    last = np.maximum(which, 1) - 1
    inside = np.minimum(at, ranges.ends[last]) - np.minimum(ranges.starts[last], at)
    return np.where(which > 0, before[last] + inside, 0).astype("u8")


def contains(ranges: Ranges, at: np.ndarray) -> np.ndarray:
    """Which addresses are in a range?"""
    import numpy as np

    if not len(ranges):
        return np.zeros(len(at), bool)
    which = np.searchsorted(ranges.starts, at, "right")
    return (which > 0) & (at < ranges.ends[np.maximum(which, 1) - 1])


def intersection(some: Ranges, others: Ranges) -> Ranges:
    """The addresses that are in both."""
    return _cut(some, others, True)


def difference(some: Ranges, others: Ranges) -> Ranges:
    """The addresses of the first that are not in the others."""
    return _cut(some, others, False)


def _cut(some: Ranges, others: Ranges, inside: bool) -> Ranges:
    import numpy as np

    points = np.unique(np.concatenate((*some, *others)))
    starts, ends = points[:-1], points[1:]
    kept = contains(some, starts) & (contains(others, starts) == inside)
    return union(starts[kept], ends[kept])


def covered(ranges: Ranges, by: Ranges) -> np.ndarray:
    """How many bytes of each range are in the ranges `by`. Takes no longer if there are many of these elsewhere."""
    if not len(ranges):
        return below(by, ranges.ends)
    by = clipped(by, int(ranges.starts[0]), int(ranges.ends[-1]))
    return below(by, ranges.ends) - below(by, ranges.starts)


def clipped(ranges: Ranges, start: int, end: int) -> Ranges:
    """The part of the ranges between two addresses. Takes no longer if there are many others."""
    import numpy as np

    first = int(np.searchsorted(ranges.ends, np.uint64(start), "right"))
    last = int(np.searchsorted(ranges.starts, np.uint64(end), "left"))
    low, high = np.uint64(start), np.uint64(end)
    return Ranges(np.maximum(ranges.starts[first:last], low), np.minimum(ranges.ends[first:last], high))


def uvarints(data: bytes) -> np.ndarray:
    """The numbers in bytes that a reader has checked: 7 bits in each byte, the low ones first."""
    import numpy as np

    at = np.frombuffer(data, "u1")
    ends = np.flatnonzero(at < 128)
    if not len(ends):
        return np.zeros(0, "u8")
    starts = np.append(0, ends[:-1] + 1)
    place = np.arange(len(at)) - np.repeat(starts, ends - starts + 1)
    return np.add.reduceat((at & 127).astype("u8") << (7 * place).astype("u8"), starts)


def runs(mapping: Mapping, page: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The runs of pages of a mapping: where each begins and ends, and its state. Empty if they are not known."""
    import numpy as np

    found = uvarints(mapping.runs)
    sizes = (found >> np.uint64(STATE_BITS)) * np.uint64(page)
    ends = np.uint64(mapping.start) + np.cumsum(sizes, dtype="u8")
    return ends - sizes, ends, (found & np.uint64((1 << STATE_BITS) - 1)).astype("u1")
