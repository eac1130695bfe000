"""massif's format, for ms_print and massif-visualizer: the heap over time, with trees of who holds it.

At most MOST snapshots at even steps of instructions, each DETAIL-th with a tree, and the peak exactly. What the
allocator adds to a block is not known here (mem_heap_extra_B=0).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from steve.trace.frames import frame_line

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._accesses import Holdings
    from steve.trace._memtrace import Trace

MOST, DETAIL = 100, 10
THRESHOLD = 0.01  # of the snapshot's bytes; smaller branches are put together
TOP = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc."


class Snapshot(NamedTuple):
    """kind: empty, detailed, peak."""
    time: int
    bytes: int
    kind: str


class Sampler:
    """Takes snapshots during a walk; spreads them out when there are twice too many."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.step, self.next = 1, 0

    def run(self, history: Holdings) -> list[Snapshot]:
        """Walk to the end: all snapshots, with the peak and the end."""
        while history.walk(self.next):
            self.snapshots.append(Snapshot(history.time, history.held, "empty"))
            if len(self.snapshots) >= 2 * MOST:
                self._spread()
            self.next = history.time + self.step
        history.finish()
        return self._finished(history)

    def _spread(self) -> None:
        """Keep those that are at least a step apart, the step chosen so that about MOST stay."""
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
        behind = [s for s in self.snapshots if peak_time < s.time < history.time]
        end = [Snapshot(history.time, history.held, "empty")] if history.time > peak_time else []
        return [s._replace(kind="detailed") if i % DETAIL == DETAIL - 1 and s.kind == "empty" else s
                for i, s in enumerate(before + peak + behind + end)]


class Held(NamedTuple):
    """What stacks hold: arrays of their ids and of bytes."""
    stacks: np.ndarray
    bytes: np.ndarray


def held(history: Holdings, column: str) -> Held:
    """What stacks hold by a column of steve.kernels._accesses.HOLDING: held, peak."""
    sizes = history.rows()[column]
    return Held(history.stacks()[sizes != 0], sizes[sizes != 0])


class Node(NamedTuple):
    """A frame with what is held below it, `below` with the rest of each stack."""
    text: str
    depth: int
    bytes: int
    below: Held


class Trees:
    """Snapshots as trees, innermost frames at the top as massif has them. Only what is shown of a tree is made."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parents, self.frames = trace.stack_table()
        self._texts: dict[int, str] = {}

    def text(self, number: int) -> str:
        if number not in self._texts:
            frame = self.trace.frame(number) if number else None
            self._texts[number] = f"{frame.ip:#X}: {frame_line(frame)}".replace("0X", "0x") if frame \
                else "0x0: (no stack)"
        return self._texts[number]

    def lines(self, whole: Held) -> Iterator[str]:
        import numpy as np
        total = int(whole.bytes.sum())
        known = Held(np.where(whole.stacks < len(self.frames), whole.stacks, 0), whole.bytes)
        yield from self._node(Node(TOP, 0, total, known), total * THRESHOLD)

    def _split(self, some: Held) -> Iterator[tuple[int, int, np.ndarray]]:
        """For each innermost frame of the stacks: its id, bytes, the indices of its stacks."""
        import numpy as np
        numbers = self.frames[some.stacks]
        order = numbers.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        if len(starts):
            sums = np.add.reduceat(some.bytes[order], starts).tolist()
            yield from zip(numbers[order[starts]].tolist(), sums, np.split(order, starts[1:]))

    def _rest(self, some: Held, indices: np.ndarray) -> Held:
        """Some of the stacks without their innermost frames, those that have more."""
        parents = self.parents[some.stacks[indices]]
        return Held(parents[parents != 0], some.bytes[indices][parents != 0])

    def _node(self, node: Node, least: float) -> Iterator[str]:
        """A node and, the largest first, what is below; without recursion, as stacks can be deep."""
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
                rest = (f"in {len(small)} place{'s' * (len(small) > 1)}, {'all ' * (len(small) > 1)}below massif's "
                        "threshold (1.00%)")
                pending.append(Node(rest, depth + 1, sum(small), Held(some.stacks[:0], some.bytes[:0])))
            for below, number, indices in sorted(big, key=lambda one: one[:2]):
                pending.append(Node(self.text(number), depth + 1, below, self._rest(some, indices)))


def massif(trace: Trace, snapshots: list[Snapshot], peak: Held, again: Holdings) -> Iterator[str]:
    """The text of the file. peak: what was held then; again: a second walk, which has not begun."""
    trees, command = Trees(trace), " ".join(trace.info().get("command", trace.name).split())
    yield f"desc: steve export --format=massif\ncmd: {command}\ntime_unit: i\n"
    for number, snapshot in enumerate(snapshots):
        yield (f"#-----------\nsnapshot={number}\n#-----------\ntime={snapshot.time}\n"
               f"mem_heap_B={snapshot.bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={snapshot.kind}\n")
        if snapshot.kind == "peak":
            yield from trees.lines(peak)
        elif snapshot.kind == "detailed":
            if snapshot is snapshots[-1]:
                again.walk()  # that is the end
            else:
                again.walk(snapshot.time)
            yield from trees.lines(held(again, "held"))
