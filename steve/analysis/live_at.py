"""The blocks that are live at one time of a trace, and where blocks ever were until then.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Trace

GRANULE = 16  # bits of an address within a granule, the unit in which places of former blocks are kept


class LiveBlocks(NamedTuple):
    """The blocks that are live at one time, as arrays in the order of their addresses, without those that another
    allocator divides."""

    addr: np.ndarray
    size: np.ndarray
    stack: np.ndarray
    """ids of the stacks of their News."""
    heap: np.ndarray
    """ids of their heaps."""
    made: np.ndarray
    """times of their News."""
    used: dict[int, np.ndarray]
    """By heap: the numbers (address >> GRANULE) of the granules in which a block began until then, in order."""


class Slots:
    """The live blocks by the reader's slots, while events are fed in their order."""

    def __init__(self) -> None:
        import numpy as np

        self.table = np.zeros(
            0, [("addr", "u8"), ("size", "u8"), ("stack", "u4"), ("heap", "u4"), ("made", "u8"), ("live", "?")]
        )
        self.used: dict[int, list[np.ndarray]] = {}

    def feed(self, events: np.ndarray) -> None:
        """Take News, Frees and Resizes. Only the last event of each slot says what is there afterwards, and the last
        New which stack made it."""
        import numpy as np

        from steve.trace._memtrace import CONTAINER, FREE, NEW

        if not len(events):
            return
        slots = events["slot"]
        if (most := int(slots.max()) + 1) > len(self.table):
            more = max(most - len(self.table), len(self.table) // 2, 1024)
            self.table = np.concatenate((self.table, np.zeros(more, self.table.dtype)))
        news = events[events["kind"] == NEW]
        self.table["stack"][news["slot"]] = news["ref"]  # of equal slots, the last value stays
        self.table["made"][news["slot"]] = news["time"]
        last = len(slots) - 1 - np.unique(slots[::-1], return_index=True)[1]
        ends = events[last]
        for name in ("addr", "size", "heap"):
            self.table[name][ends["slot"]] = ends[name]
        self.table["live"][ends["slot"]] = (ends["kind"] != FREE) & (ends["how"] & CONTAINER == 0)
        made = events[events["kind"] != FREE]
        for heap in np.unique(made["heap"]).tolist():
            granules = np.unique(made["addr"][made["heap"] == heap] >> np.uint64(GRANULE))
            self.used.setdefault(heap, []).append(granules)
            if len(self.used[heap]) > 64:
                self.used[heap] = [np.unique(np.concatenate(self.used[heap]))]

    def blocks(self) -> LiveBlocks:
        import numpy as np

        live = self.table[self.table["live"]]
        live = live[np.argsort(live["addr"], kind="stable")]
        used = {heap: np.unique(np.concatenate(parts)) for heap, parts in self.used.items()}
        return LiveBlocks(live["addr"], live["size"], live["stack"], live["heap"], live["made"], used)


def live_at(trace: Trace, time: int, tick: Callable[[int, int], None]) -> LiveBlocks:
    """Read a trace to its end; the blocks that are live at a time. tick(done, total), in bytes, is called from time to
    time."""
    (live,) = live_at_times(trace, [time], tick)
    return live


def live_at_times(trace: Trace, times: list[int], tick: Callable[[int, int], None]) -> Iterator[LiveBlocks]:
    """The same for each of several times, of which none is before another one that precedes it. One walk over the trace
    finds all."""
    import numpy as np

    from steve.trace._memtrace import FREE, NEW, RESIZE

    slots, reached, latest = Slots(), 0, 0
    trace.pass_accesses()
    for batch in trace.batches():
        tick(*trace.progress())
        kinds = batch["kind"]
        batch = batch[(kinds == NEW) | (kinds == FREE) | (kinds == RESIZE)]
        when = np.maximum.accumulate(np.append(np.uint64(latest), batch["time"]))[1:]
        latest, first = int(when[-1]) if len(when) else latest, 0
        while reached < len(times):
            end = int(np.searchsorted(when, np.uint64(times[reached]), "right"))
            slots.feed(batch[first:end])
            first = end
            if end == len(batch):
                break  # the next batch may have more of this time
            yield slots.blocks()
            reached += 1
    for _ in times[reached:]:
        yield slots.blocks()
