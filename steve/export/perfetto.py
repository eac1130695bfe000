"""Chrome's trace event format (JSON), for ui.perfetto.dev and chrome://tracing: the heap over time.

Counters have the live bytes of each heap, the most live bytes, and the rates of allocations; slices are the states of
LuaJIT's virtual machine by thread, the garbage collector's among them; marks are instant events. A microsecond of the
viewer is a microsecond of the recording or, if its clock counts instructions, 1000 of these. Memory is bounded: bins of
time become twice as long, and the shortest slices are left out, when there are too many.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from steve.analysis.bins import ByNumber
from steve.analysis.totals import time_unit
from steve.trace._memtrace import CONTAINER, FREE, HOW_MASK, MARK, NEW, RESIZE, STATE, VERSION, VM_NAMES

if TYPE_CHECKING:
    from steve.terminal.progress import Progress
    from steve.trace._memtrace import Trace

BINS = 2000  # fewer than twice as many are written
SLICES = 100_000  # the same
MANY = 32  # batches of events that are added at a time
TICK = 256  # batches of events between two calls of tick


class Timeline:
    """The heap in bins of time. changes: by bin and heap, by how many bytes its live bytes change; most: the most live
    bytes within each bin; allocated, news, frees: in each bin."""

    def __init__(self) -> None:
        self.width = 1
        self.heaps = 1
        self.changes = np.zeros((2 * BINS, 1), "i8")
        self.most, self.allocated, self.news, self.frees = (np.zeros(2 * BINS, "i8") for _ in range(4))
        self.used = 0  # bins
        self._live = 0

    def _reach(self, time: int, heap: int) -> None:
        """Have bins up to a time, and a column for a heap."""
        while time // self.width >= 2 * BINS:
            self.width *= 2
            self.used = (self.used + 1) // 2
            self.changes = halved(self.changes, np.add)
            self.most = halved(self.most, np.maximum)
            self.allocated, self.news, self.frees = (
                halved(column, np.add) for column in (self.allocated, self.news, self.frees)
            )
        if heap >= self.heaps:
            more = np.zeros((2 * BINS, max(heap + 1, 2 * self.heaps)), "i8")
            more[:, : self.heaps] = self.changes
            self.heaps, self.changes = more.shape[1], more

    def add(self, events: np.ndarray) -> None:
        """Add News, Frees and Resizes."""
        if not len(events):
            return
        times = events["time"].astype("i8")
        self._reach(int(times[-1]), int(events["heap"].max()))
        bins, kinds = times // self.width, events["kind"]
        sizes, old = events["size"].astype("i8"), np.where(kinds == RESIZE, events["old_size"], 0).astype("i8")
        changes = np.where(kinds == FREE, -sizes, sizes - old)
        changes[events["how"] & CONTAINER != 0] = 0
        of_heaps = ByNumber(bins * self.heaps + events["heap"])
        of_heaps.add(self.changes.reshape(-1), changes)
        live = self._live + np.cumsum(changes)
        of_bins = ByNumber(bins)
        of_bins.most(self.most, np.maximum(live, live - changes))
        self._live = int(live[-1])
        of_bins.add(self.allocated, np.where(kinds == FREE, 0, sizes))
        of_bins.add(self.news, kinds == NEW)
        of_bins.add(self.frees, kinds == FREE)
        self.used = max(self.used, int(bins[-1]) + 1)


def halved(column: np.ndarray, join: np.ufunc) -> np.ndarray:
    """The bins with each two of them joined; the second half is empty."""
    result = np.zeros_like(column)
    result[:BINS] = join(column[0::2], column[1::2])
    return result


class Slices:
    """The states of virtual machines: arrays of the slices that are long enough, in parts. shortest: their least length."""

    FIELDS = ("thread", "begin", "end", "vm", "trace", "heap")

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.shortest = 0
        self._n = 0
        self._open: dict[int, np.ndarray] = {}  # by thread, its last change of state

    def add(self, events: np.ndarray) -> None:
        """Add changes of states. A slice ends where its thread changes its state again."""
        if not len(events):
            return
        rows = np.zeros((len(events), len(self.FIELDS)), "i8")
        how = (events["how"] & HOW_MASK).astype("i8")
        rows[:, 0], rows[:, 1], rows[:, 3] = events["thread"], events["time"], how
        rows[:, 4], rows[:, 5] = events["ref"], events["heap"]
        before = [row for thread, row in self._open.items() if (rows[:, 0] == thread).any()]
        rows = np.concatenate([np.array(before, "i8").reshape(-1, len(self.FIELDS)), rows])
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        follows = rows[1:, 0] == rows[:-1, 0]
        rows[:-1, 2] = rows[1:, 1]
        last = np.append(~follows, True)
        self._open.update((int(row[0]), row) for row in rows[last])
        self._keep(rows[~last])

    def _keep(self, rows: np.ndarray) -> None:
        self.parts.append(rows[rows[:, 2] - rows[:, 1] >= max(self.shortest, 1)])
        self._n += len(self.parts[-1])
        while self._n >= 2 * SLICES:
            rows = np.concatenate(self.parts)
            lengths = rows[:, 2] - rows[:, 1]
            self.shortest = int(np.median(lengths)) + 1
            self.parts = [rows[lengths >= self.shortest]]
            self._n = len(self.parts[0])

    def finish(self, time: int) -> None:
        """The trace ends: so do the slices."""
        rows = np.array(list(self._open.values()), "i8").reshape(-1, len(self.FIELDS))
        rows[:, 2] = np.maximum(rows[:, 1], time)
        self._keep(rows)


def gathered(trace: Trace, tick: Progress | None) -> Iterator[np.ndarray]:
    """The events, many at a time: the time of numpy's functions for few events is mostly that of their calls."""
    some: list[np.ndarray] = []
    for walked, batch in enumerate(trace.batches(copy=True), 1):
        some.append(batch)
        if len(some) == MANY:
            yield np.concatenate(some)
            some = []
        if tick is not None and walked % TICK == 0:
            tick(*trace.progress())
    if some:
        yield np.concatenate(some)


class TraceEvents:
    """What a trace has for the format: feed() reads it."""

    def __init__(self, trace: Trace, tick: Progress | None = None) -> None:
        self.trace, self.timeline, self.slices = trace, Timeline(), Slices()
        self.marks: list[tuple[int, int, str]] = []  # time, thread, name
        self.threads: dict[int, int] = {}  # the time of its first event by thread
        self.time = 0
        for events in gathered(trace, tick):
            self._add(events)
        self.time = max(self.time, trace.stats()["totals"]["instructions"] if trace.problem is None else 0)
        self.slices.finish(self.time)

    def _add(self, batch: np.ndarray) -> None:
        """Add events."""
        kinds = batch["kind"]
        self.timeline.add(batch[kinds <= RESIZE])
        self.slices.add(batch[kinds == STATE])
        for event in batch[kinds == MARK]:
            self.marks.append((int(event["time"]), int(event["thread"]), self.trace.string(int(event["ref"]))))
        threads, first = np.unique(batch["thread"], return_index=True)
        for thread, at in zip(threads.tolist(), first.tolist()):
            self.threads.setdefault(thread, int(batch["time"][at]))
        self.time = max(self.time, int(batch["time"][-1]))


def microseconds(time: int) -> float:
    return time / 1000


def heap_label(trace: Trace, number: int) -> str:
    """The name of a heap, different for each."""
    heap = trace.heap(number)
    kind = heap.kind if heap is not None else "malloc"
    return kind if number == 0 else f"{kind} {number}"


def named(pid: int, trace: Trace, found: TraceEvents) -> Iterator[dict]:
    """The names of the process and its threads."""
    command = trace.info().get("command", trace.name) + trace.sample.remark
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": command}}
    for thread in sorted(found.threads):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": f"thread {thread}"}}


def counters(pid: int, trace: Trace, timeline: Timeline) -> Iterator[dict]:
    """The counters at the ends of the bins. Their values hold up to the next."""
    labels = {heap: heap_label(trace, heap) for heap in np.flatnonzero(timeline.changes.any(axis=0)).tolist()}
    live = np.cumsum(timeline.changes[: timeline.used], axis=0)
    per_millisecond = 1e6 / timeline.width

    def counter(i: int, name: str, values: dict[str, float]) -> dict:
        return {"ph": "C", "name": name, "pid": pid, "ts": microseconds(i * timeline.width), "args": values}

    for i in range(timeline.used):
        yield counter(i, "live bytes", {label: int(live[i, heap]) for heap, label in labels.items()})
        yield counter(i, "most live bytes", {"bytes": int(timeline.most[i])})
        allocated, news, frees = int(timeline.allocated[i]), int(timeline.news[i]), int(timeline.frees[i])
        yield counter(i, "bytes allocated per ms", {"bytes": round(allocated * per_millisecond, 3)})
        yield counter(
            i,
            "blocks per ms",
            {"allocated": round(news * per_millisecond, 3), "freed": round(frees * per_millisecond, 3)},
        )


def slices(pid: int, found: Slices) -> Iterator[dict]:
    """The states as complete events."""
    for rows in found.parts:
        for thread, begin, end, vm, trace, heap in rows.tolist():
            name, args = VM_NAMES[vm] if vm < len(VM_NAMES) else "?", {"heap": heap}
            if name == "TRACE":
                args["trace"] = trace
            yield {
                "ph": "X",
                "cat": "vm",
                "name": name,
                "pid": pid,
                "tid": thread,
                "ts": microseconds(begin),
                "dur": microseconds(end - begin),
                "args": args,
            }


def marks(pid: int, found: list[tuple[int, int, str]]) -> Iterator[dict]:
    for time, thread, name in found:
        yield {"ph": "i", "s": "p", "cat": "mark", "name": name, "pid": pid, "tid": thread, "ts": microseconds(time)}


def perfetto(found: TraceEvents) -> Iterator[str]:
    """The whole file, in pieces."""
    trace = found.trace
    text = trace.info().get("pid", "")
    pid = int(text) if text.isdecimal() else 1
    unit = time_unit(trace)
    other: dict[str, Any] = {
        "exporter": f"steve {VERSION}",
        "clock": "nanoseconds" if unit == "nanoseconds" else "instructions, shown as nanoseconds",
        "end": microseconds(found.time),
        "shortest_slice": microseconds(found.slices.shortest),
    }
    yield f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(other)}, "traceEvents": ['
    events = (named(pid, trace, found), counters(pid, trace, found.timeline), slices(pid, found.slices))
    separator = "\n"
    for each in (*events, marks(pid, found.marks)):
        for event in each:
            yield separator + json.dumps(event)
            separator = ",\n"
    yield "\n]}\n"
