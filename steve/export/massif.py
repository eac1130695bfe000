"""massif's format, for ms_print and massif-visualizer: the heap over time, with trees of who holds it.

At most MOST snapshots at even steps of instructions, each DETAIL-th with a tree, and the peak exactly. What the
allocator adds to a block is not known here (mem_heap_extra_B=0).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Tuple

from steve.export.profile import frame_ids
from steve.export.walk import Walk
from steve.frames import frame_line

if TYPE_CHECKING:
    from steve._memtrace import Trace

MOST, DETAIL = 100, 10
THRESHOLD = 0.01  # of the snapshot's bytes; smaller branches are put together
TOP = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc."


class Snapshot(NamedTuple):
    """held: bytes by stack id."""
    time: int
    bytes: int
    kind: str
    held: Dict[int, int]


class Sampler:
    """Takes snapshots during a walk; spreads them out when there are twice too many."""

    def __init__(self) -> None:
        self.snapshots: List[Snapshot] = []
        self.step, self.next = 1, 0

    def __call__(self, walk: Walk) -> None:
        if walk.time < self.next:
            return
        held = {stack: h.held for stack, h in walk.stacks.items() if h.held}
        self.snapshots.append(Snapshot(walk.time, walk.held, "empty", held))
        if len(self.snapshots) >= 2 * MOST:
            self._spread()
        self.next = walk.time + self.step

    def _spread(self) -> None:
        """Keep those that are at least a step apart, the step chosen so that about MOST stay."""
        first, last = self.snapshots[0].time, self.snapshots[-1].time
        self.step = max(2 * self.step, (last - first) // MOST)
        kept = self.snapshots[:1]
        for snapshot in self.snapshots[1:]:
            if snapshot.time >= kept[-1].time + self.step:
                kept.append(snapshot)
        self.snapshots = kept

    def finish(self, walk: Walk) -> List[Snapshot]:
        """All snapshots, with the peak and the end."""
        held = {stack: h.peak for stack, h in walk.stacks.items() if h.peak}
        peak = Snapshot(walk.peak_time, walk.peak, "peak", held)
        before = [Snapshot(0, 0, "empty", {})] + [s for s in self.snapshots if 0 < s.time < peak.time]
        behind = [s for s in self.snapshots if peak.time < s.time < walk.time]
        end = [Snapshot(walk.time, walk.held, "empty", {})] if walk.time > peak.time else []
        shown = before + ([peak] if peak.bytes else []) + behind + end
        return [s._replace(kind="detailed") if i % DETAIL == DETAIL - 1 and s.kind == "empty" else s
                for i, s in enumerate(shown)]


class Node:
    """A frame with what is held below it."""

    def __init__(self) -> None:
        self.bytes = 0
        self.below: Dict[int, "Node"] = {}


class Trees:
    """Snapshots as trees, innermost frames at the top as massif has them."""

    def __init__(self, trace: "Trace") -> None:
        self.trace = trace
        self._stacks: Dict[int, Tuple[int, ...]] = {}
        self._same: Dict[int, int] = {}

    def _frames(self, stack: int) -> Tuple[int, ...]:
        if stack not in self._stacks:
            self._stacks[stack] = frame_ids(self.trace, stack, self._same)
        return self._stacks[stack]

    def tree(self, held: Dict[int, int]) -> Node:
        root = Node()
        for stack, size in held.items():
            root.bytes += size
            node = root
            for number in self._frames(stack):
                node = node.below.setdefault(number, Node())
                node.bytes += size
        return root

    def text(self, number: int) -> str:
        frame = self.trace.frame(number) if number else None
        return f"{frame.ip:#X}: {frame_line(frame)}".replace("0X", "0x") if frame else "0x0: (no stack)"

    def lines(self, held: Dict[int, int]) -> Iterator[str]:
        root = self.tree(held)
        yield from self._node(root, TOP, 0, root.bytes * THRESHOLD)

    def _node(self, node: Node, text: str, depth: int, least: float) -> Iterator[str]:
        """A node and, the largest first, what is below; without recursion, as stacks can be deep."""
        pending = [(node, text, depth)]
        while pending:
            node, text, depth = pending.pop()
            big = {n: below for n, below in node.below.items() if below.bytes >= least}
            small = [below for n, below in node.below.items() if n not in big]
            yield f"{' ' * depth}n{len(big) + bool(small)}: {node.bytes} {text}\n"
            if small:
                rest = Node()
                rest.bytes = sum(below.bytes for below in small)
                pending.append((rest, f"in {len(small)} place{'s' * (len(small) > 1)}, "
                                f"{'all ' * (len(small) > 1)}below massif's threshold (1.00%)", depth + 1))
            for number in sorted(big, key=lambda n: (big[n].bytes, n)):
                pending.append((big[number], self.text(number), depth + 1))


def massif(trace: "Trace", snapshots: List[Snapshot]) -> Iterator[str]:
    """The text of the file."""
    trees, command = Trees(trace), " ".join(trace.info().get("command", trace.name).split())
    yield f"desc: steve export --format=massif\ncmd: {command}\ntime_unit: i\n"
    for number, snapshot in enumerate(snapshots):
        yield (f"#-----------\nsnapshot={number}\n#-----------\ntime={snapshot.time}\n"
               f"mem_heap_B={snapshot.bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={snapshot.kind}\n")
        if snapshot.kind != "empty":
            yield from trees.lines(snapshot.held)
