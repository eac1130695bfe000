"""What most viewers want: call stacks, and for each some sums over the blocks it allocated.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Tuple

from steve import blocks

if TYPE_CHECKING:
    from steve._memtrace import Frame, Trace


class Metric(NamedTuple):
    """key: column of the sums; unit: count or bytes; name: what viewers show."""
    key: str
    unit: str
    name: str


METRICS = (
    Metric("blocks", "count", "alloc_objects"),
    Metric("bytes", "bytes", "alloc_space"),
    Metric("live_blocks", "count", "inuse_objects"),
    Metric("live_bytes", "bytes", "inuse_space"),
    Metric("peak_bytes", "bytes", "peak_space"),
    Metric("frees", "count", "freed_objects"),
    Metric("loads", "count", "loads"),
    Metric("stores", "count", "stores"),
    Metric("modifies", "count", "modifies"),
    Metric("bytes_read", "bytes", "reads"),
    Metric("bytes_written", "bytes", "writes"),
)
BY_NAME = {metric.name: metric for metric in METRICS}


class Sample(NamedTuple):
    """frames: ids, innermost first; values: in the order of METRICS."""
    frames: Tuple[int, ...]
    values: Tuple[int, ...]


class Profile:
    """samples: one for each stack that allocated; facts: what the trace tells about its recording."""

    def __init__(self, chosen: blocks.Blocks) -> None:
        sums, = chosen.sum_by("stack")
        self.trace = chosen.trace
        self.facts: Dict[str, str] = self.trace.info()
        self.samples: List[Sample] = []
        self._frames: "Dict[int, Frame]" = {}
        same: Dict[int, int] = {}
        columns = [sums.rows[metric.key].tolist() for metric in METRICS]
        for stack, *values in zip(sums.numbers.tolist(), *columns):
            self.samples.append(Sample(frame_ids(self.trace, stack, same), tuple(values)))

    @property
    def command(self) -> str:
        return self.facts.get("command", self.trace.name)

    def frame(self, number: int) -> "Frame":
        """A frame by id; that of id 0 stands for a stack that is not known."""
        if number not in self._frames:
            self._frames[number] = self.trace.frame(number)
        return self._frames[number]

    def used_frames(self) -> List[int]:
        """The ids of all frames, each once, in the order of their first use."""
        return list(dict.fromkeys(number for sample in self.samples for number in sample.frames))


def frame_ids(trace: "Trace", stack: int, same: Dict[int, int]) -> Tuple[int, ...]:
    """The frames of a stack by id, innermost first; (0,) for the empty stack. same: ids that were met, so that each
    is one object in all stacks; at first empty."""
    found: List[int] = []
    entry = trace.stack(stack)
    while stack and entry is not None:
        found.append(same.setdefault(entry[1], entry[1]))
        if entry[0] >= stack:
            break
        stack, entry = entry[0], trace.stack(entry[0])
    return tuple(found) or (0,)
