"""massif's format, for ms_print and massif-visualizer: the heap over time, with trees of the stacks that hold it.

The file has fewer than 2 * MOST snapshots at even steps of the trace's clock, and one exactly at the peak. Each
DETAIL-th snapshot and the peak have a tree. The bytes that the allocator adds to a block are unknown
(mem_heap_extra_B=0). The format has instructions, milliseconds and bytes for times, so nanoseconds are divided.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis.totals import time_unit
from steve.trace import missing
from steve.trace.frames import frame_line

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._holdings import Holdings
    from steve.trace.policy import ShownStacks

MOST, DETAIL = 100, 10
THRESHOLD = 0.01  # share of a snapshot's bytes; smaller branches are merged into one
TOP = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc."


class Snapshot(NamedTuple):
    """The heap at one time. time: instructions; kind: massif's heap_tree, "empty", "detailed" or "peak"."""

    time: int
    bytes: int
    kind: str


class Sampler:
    """Takes snapshots during a walk. When there are 2 * MOST, it drops some and doubles the distance at least."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.step, self.next = 1, 0

    def run(self, history: Holdings) -> list[Snapshot]:
        """Walk to the end of the trace; return the snapshots, including those of the peak and the end."""
        while history.walk(self.next):
            self.snapshots.append(Snapshot(history.time, history.held, "empty"))
            if len(self.snapshots) >= 2 * MOST:
                self._spread()
            self.next = history.time + self.step
        history.finish()
        return self._finished(history)

    def _spread(self) -> None:
        """Increase the step so that about MOST snapshots remain, and keep those at least a step apart."""
        first, last = self.snapshots[0].time, self.snapshots[-1].time
        self.step = max(2 * self.step, (last - first) // MOST)
        kept = self.snapshots[:1]
        for snapshot in self.snapshots[1:]:
            if snapshot.time >= kept[-1].time + self.step:
                kept.append(snapshot)
        self.snapshots = kept

    def _finished(self, history: Holdings) -> list[Snapshot]:
        peak_bytes, peak_time = history.peak
        before = [Snapshot(0, 0, "empty")] + [s for s in self.snapshots if 0 < s.time < peak_time]
        peak = [Snapshot(peak_time, peak_bytes, "peak")] if peak_bytes else []
        after = [s for s in self.snapshots if peak_time < s.time < history.time]
        end = [Snapshot(history.time, history.held, "empty")] if history.time > peak_time else []
        return [
            s._replace(kind="detailed") if i % DETAIL == DETAIL - 1 and s.kind == "empty" else s
            for i, s in enumerate(before + peak + after + end)
        ]


class Held(NamedTuple):
    """The bytes that stacks hold: two arrays of the same length, stack ids and bytes."""

    stacks: np.ndarray
    bytes: np.ndarray


def held(history: Holdings, column: str) -> Held:
    """The stacks that hold bytes. column: of steve.kernels._holdings.HOLDING, "held" (now) or "peak"."""
    sizes = history.rows()[column]
    return Held(history.stacks()[sizes != 0], sizes[sizes != 0])


class Node(NamedTuple):
    """A node of the tree: a frame."""

    text: str
    depth: int
    bytes: int
    """Held by all stacks that begin with the frames from the root to this one."""
    below: Held
    """The same stacks without those frames: the ids of the remaining stacks, and their bytes."""


class Trees:
    """Writes snapshots as trees with the innermost frames at the top, as massif does. Branches that are not shown are
    not computed."""

    def __init__(self, shown: ShownStacks) -> None:
        self.stacks = shown
        self.shown, self.callers, self.frames = (column.copy() for column in shown.table())
        self._texts: dict[int, str] = {}

    def text(self, number: int) -> str:
        """The text of a frame."""
        if number not in self._texts:
            frame = self.stacks.named(number) if number else None
            self._texts[number] = (
                f"{frame.ip:#X}: {frame_line(frame)}".replace("0X", "0x") if frame else "0x0: (no stack)"
            )
        return self._texts[number]

    def lines(self, whole: Held) -> Iterator[str]:
        """The lines of the tree of one snapshot."""
        import numpy as np

        total = int(whole.bytes.sum())
        known = Held(self.shown[np.where(whole.stacks < len(self.shown), whole.stacks, 0)], whole.bytes)
        yield from self._node(Node(TOP, 0, total, known), total * THRESHOLD)

    def _split(self, some: Held) -> Iterator[tuple[int, int, np.ndarray]]:
        """Group the stacks by their innermost frames: (frame id, bytes, indices in `some`) of each group."""
        import numpy as np

        numbers = self.frames[some.stacks]
        order = numbers.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        if len(starts):
            sums = np.add.reduceat(some.bytes[order], starts).tolist()
            yield from zip(numbers[order[starts]].tolist(), sums, np.split(order, starts[1:]))

    def _rest(self, some: Held, indices: np.ndarray) -> Held:
        """The stacks at these indices without their innermost frames, as far as they have more frames."""
        callers = self.callers[some.stacks[indices]]
        return Held(callers[callers != 0], some.bytes[indices][callers != 0])

    def _node(self, node: Node, least: float) -> Iterator[str]:
        """The lines of a node and of the nodes below it, the largest first. Not recursive, because stacks can be
        deep."""
        pending = [node]
        while pending:
            text, depth, size, some = pending.pop()
            big, small = [], []
            for number, below, indices in self._split(some):
                if below >= least:
                    big.append((below, number, indices))
                else:
                    small.append(below)
            yield f"{' ' * depth}n{len(big) + bool(small)}: {size} {text}\n"
            if small:
                rest = (
                    f"in {len(small)} place{'s' * (len(small) > 1)}, {'all ' * (len(small) > 1)}below massif's "
                    "threshold (1.00%)"
                )
                pending.append(Node(rest, depth + 1, sum(small), Held(some.stacks[:0], some.bytes[:0])))
            for below, number, indices in sorted(big, key=lambda one: one[:2]):
                pending.append(Node(self.text(number), depth + 1, below, self._rest(some, indices)))


def massif(shown: ShownStacks, snapshots: list[Snapshot], peak: Held, again: Holdings) -> Iterator[str]:
    """The text of the file, in pieces. peak: what stacks held at the peak; again: a second walk over the trace, not
    begun, which finds what they held at the other snapshots."""
    trace = shown.trace
    command = " ".join(trace.info().get("command", trace.name).split()) + trace.sample.remark + missing.remark(trace)
    trees = Trees(shown)
    unit, each = ("ms", 1_000_000) if time_unit(trace) == "nanoseconds" else ("i", 1)
    yield f"desc: steve export --format=massif\ncmd: {command}\ntime_unit: {unit}\n"
    for number, snapshot in enumerate(snapshots):
        yield (
            f"#-----------\nsnapshot={number}\n#-----------\ntime={snapshot.time // each}\n"
            f"mem_heap_B={snapshot.bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={snapshot.kind}\n"
        )
        if snapshot.kind == "peak":
            yield from trees.lines(peak)
        elif snapshot.kind == "detailed":
            if snapshot is snapshots[-1]:
                again.walk()  # to the end
            else:
                again.walk(snapshot.time)
            yield from trees.lines(held(again, "held"))
