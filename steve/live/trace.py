"""A trace that grows: what was read of it so far, and the file that has the recording of a process.

Each event is read once. Memory is O(live blocks + stacks).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from steve.analysis.owners import FROM_RECORDER, is_special
from steve.kernels._holdings import Activity, Holdings
from steve.live.resident import Process, Range, Resident
from steve.live.view import METRICS
from steve.system.errors import SteveError, TraceError
from steve.trace._memtrace import VM_NAMES, Trace
from steve.trace.places import Places
from steve.trace.policy import Policy
from steve.trace.rollups import Rollup, Sums

STEP = 16  # batches that are read between two looks at the clock
POINTS = 2048  # of the history of live bytes; never more


class Row(NamedTuple):
    """A line, function... of the program, with its values in the order of METRICS."""

    place: str
    values: tuple[float, ...]


class Moment(NamedTuple):
    """What the whole trace has so far. threads, states: shares in percent by name, the largest first, of the time or,
    if states were sampled, of the samples; allocated: by thread."""

    nanoseconds: int
    live: int
    blocks: int
    peak: int
    allocated: int
    allocs: int
    threads: list[tuple[int, int]]
    states: list[tuple[str, float]]


class LiveTrace:
    """A trace as far as it was read. accesses: also read accesses. complete: nothing will follow."""

    def __init__(self, path: str, policy: Policy, accesses: bool = False) -> None:
        self.trace = Trace(path, following=True)
        self._new = self.trace.follow()
        self.complete = self._new is None
        if not accesses:
            self.trace.pass_accesses()
        self.activity = Activity()
        self.history = Holdings(self.trace, activity=self.activity)
        self.places = Places(self.trace, policy)
        self.points: list[tuple[int, int]] = [(0, 0)]  # time, live bytes
        self._before: np.ndarray | None = None  # bytes by stack when rows() was last called
        self._then = 0  # the nanoseconds then
        self._process: Process | None = None
        self._looks = 0  # of which it is known what the recorder had mapped
        self._of_recorder: list[Range] = []

    def read_on(self, deadline: float) -> bool:
        """Read what was written, until a time of time.monotonic(). Returns True if there is more already."""
        if not self._new and not self.complete:
            self._new = self.trace.follow()
        while self._new:
            while self.history.advance(STEP):
                self._note()
                if time.monotonic() >= deadline:
                    return True
            self._note()
            self._new = self.trace.follow()
        self.complete = self._new is None
        return False

    def read_all(self) -> None:
        """Read all that has been written by now. A program may write faster than this reads, so what follows is left."""
        if self.complete:
            return
        self.trace.follow()
        while self.history.advance(STEP):
            self._note()
        self._note()
        self._new = self.trace.follow()
        self.complete = self._new is None

    def _note(self) -> None:
        """Add to the history of live bytes."""
        self.points.append((self.history.time, self.history.held))
        if len(self.points) > POINTS:
            pairs = zip(self.points[0::2], self.points[1::2])
            self.points = [max(pair, key=lambda point: point[1]) for pair in pairs]

    def moment(self) -> Moment:
        rows = self.history.rows()
        numbers, threads = self.activity.by_thread()
        allocated = sorted(zip(numbers.tolist(), threads["bytes"].tolist()), key=lambda each: (-each[1], each[0]))
        times, weights = self.activity.by_state()
        shares = weights if weights[1:].any() else times
        total = int(shares.sum()) or 1
        names = ("outside Lua", *VM_NAMES)
        states = [(name, 100 * int(value) / total) for name, value in zip(names, shares.tolist()) if value]
        return Moment(
            self.trace.stats()["nanoseconds"],
            self.history.held,
            int(rows["held_blocks"].sum()),
            self.history.peak[0],
            self.history.allocated,
            int(rows["blocks"].sum()),
            [(thread, size) for thread, size in allocated if thread],
            sorted(states, key=lambda each: -each[1]) if shares[1:].any() else [],
        )

    def resident(self) -> Resident | None:
        """What is resident of the process now; None: it has ended, or /proc does not say it."""
        info = self.trace.info()
        if self.complete or not info.get("pid", "").isdecimal():
            return None
        if self._process is None:
            self._process = Process(int(info["pid"]), info.get("recorder") == "native")
        if looks := self.trace.pages(self._looks):
            self._looks += len(looks)
            self._of_recorder = [
                (region.start, region.start + region.size)
                for region in looks[-1].regions
                if is_special(self.trace, region.stack, FROM_RECORDER)
            ]
        return self._process.resident(self._of_recorder)

    def rows(self, by: str, short: bool) -> list[Row]:
        """A row for each line, function... as `by` says (steve.trace.rollups.BY), that has any value."""
        holdings, stacks, now = self.history.rows(), self.history.stacks(), self.trace.stats()["nanoseconds"]
        names = [metric.key for metric in METRICS]
        values = np.zeros(len(holdings), [(name, "f8") for name in names])
        for name in names:
            if name != "rate":
                values[name] = holdings[name]
        values["rate"] = holdings["bytes"]
        if self._before is not None:
            values["rate"][: len(self._before)] -= self._before
        seconds = (now - self._then) / 1e9
        values["rate"] *= 1 / seconds if seconds > 0 else 0
        self._before, self._then = holdings["bytes"].astype("f8"), now
        order = np.argsort(stacks)
        rollup = Rollup(by, self.places, short)
        found = rollup.merged(Sums(stacks[order], values[order]))
        return [Row(str(rollup.text(n)), tuple(row)) for n, row in zip(found.numbers.tolist(), found.rows.tolist())]


def written_files() -> Iterator[str]:
    """The regular files that are open for writing, as far as this user may see."""
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = os.readlink(entry)
            info = (entry.parent.parent / "fdinfo" / entry.name).read_text()
        except OSError:
            continue
        flags = next((line.split()[1] for line in info.splitlines() if line.startswith("flags:")), "0")
        if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY and os.path.isfile(target):
            yield target


def trace_of(pid: int) -> str:
    """The trace of a process that is being recorded. SteveError if there is none."""
    for path in dict.fromkeys(written_files()):
        try:
            trace = Trace(path, following=True)
            trace.follow()
            trace.probe()
        except TraceError:
            continue
        if trace.info().get("pid") == str(pid):
            return path
    raise SteveError(
        f"no recording of process {pid} is being written; start it by `ljtrace run` or `valgrind --tool=ljtrace`, "
        f"or record it from now on by `ljtrace attach {pid}`"
    )
