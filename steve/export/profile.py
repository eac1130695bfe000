"""The data that most formats need: call stacks, and for each stack sums over the blocks it allocated.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import blocks
from steve.export.paths import frames_of
from steve.system.errors import SteveError
from steve.trace import missing
from steve.trace.policy import ShownStacks

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Frame, Trace
    from steve.trace.policy import Policy


class Metric(NamedTuple):
    """key: column of the sums; unit: "count" or "bytes"; name: the one that viewers show."""

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
OF_ACCESSES = ("loads", "stores", "modifies", "reads", "writes")  # not known of a trace without loads and stores
BY_NAME = {metric.name: metric for metric in METRICS}


class Sample(NamedTuple):
    """stack: its id; values: one for each metric of the profile, in that order."""

    stack: int
    values: tuple[int, ...]


class Profile:
    """The sums of a trace by stack.

    shown: the stacks as they are shown. stacks: an array of the ids of the shown stacks that have sums, in order.
    columns: for each of `metrics` an array of values, parallel to `stacks`. default: the name of the metric that viewers
    show first. nanoseconds: the time from the first to the last of the events. facts: the trace's facts about its
    recording (Trace.info)."""

    def __init__(
        self,
        trace: Trace,
        policy: Policy,
        numbers: np.ndarray,
        sums: list[np.ndarray],
        metrics: Sequence[Metric] = METRICS,
        default: str = "alloc_space",
        nanoseconds: int | None = None,
    ) -> None:
        """numbers: ids of stacks, in order; sums: for each metric an array of their values; nanoseconds: the time of the
        sums; None: that of the whole trace."""
        self.trace, self.metrics, self.default = trace, metrics, default
        self.facts: dict[str, str] = self.trace.info()
        self.nanoseconds = self.trace.stats()["nanoseconds"] if nanoseconds is None else nanoseconds
        self.shown = ShownStacks(self.trace, policy)
        stacks, columns = self.shown.merged(numbers, sums)
        self.stacks: np.ndarray = stacks
        self.columns: list[np.ndarray] = columns
        self._frames: dict[int, Frame] = {}

    @classmethod
    def of(cls, chosen: blocks.Blocks) -> Profile:
        """The profile of the chosen blocks of a trace, with those METRICS that were recorded."""
        (sums,) = chosen.sum_by("stack")
        unknown = OF_ACCESSES if missing.accesses(chosen.trace) else ()
        metrics = [metric for metric in METRICS if metric.name not in unknown]
        columns = [sums.rows[metric.key] for metric in metrics]
        return cls(chosen.trace, chosen.policy, sums.numbers, columns, metrics)

    def column(self, metric: Metric) -> np.ndarray:
        """The values of a metric, parallel to `stacks`. SteveError if it was not recorded."""
        if metric not in self.metrics:
            raise SteveError(f"{self.trace.name}: no {metric.name}: {missing.not_recorded(self.trace)}")
        return self.columns[self.metrics.index(metric)]

    def samples(self, order: np.ndarray | None = None) -> Iterator[Sample]:
        """A sample for each stack. order: indices into `stacks`, to select and sort them; None: all, as they are."""
        for first in range(0, len(self.stacks), blocks.FEW_ROWS):
            few = slice(first, first + blocks.FEW_ROWS)
            some = few if order is None else order[few]
            values = zip(*(column[some].tolist() for column in self.columns))
            yield from map(Sample, self.stacks[some].tolist(), values)

    def frames(self, stack: int) -> list[int]:
        """The ids of a stack's frames, innermost first."""
        return self.shown.ids(stack)

    @property
    def command(self) -> str:
        """The traced command or, if unknown, the name of the trace; with a remark if the numbers are estimates."""
        return self.facts.get("command", self.trace.name) + self.trace.sample.remark + missing.remark(self.trace)

    def frame(self, number: int) -> Frame:
        """The frame with an id. Frame 0 is that of unknown stacks."""
        if number not in self._frames:
            self._frames[number] = self.shown.named(number)
        return self._frames[number]

    def used_frames(self) -> list[int]:
        """The ids of all frames of the stacks, each once, in the order of first use."""
        return frames_of(self.shown, self.stacks.tolist())
