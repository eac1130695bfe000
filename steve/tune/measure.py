"""Replays of an ops file on malloc of the system, with options of allocators in the environment.

steve-replay --system is a process of its own for each replay. What is compared is measured in rounds, each of which
replays every candidate once, in an order drawn from a fixed seed, so that a machine that becomes slower for a while
affects all of them.

Resident memory is compared without what the replay itself has: its ops file and tables are in no program. What remains
is that of heap and allocator. A program has its code, stacks and other memory besides, which do not depend on the
allocator.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import copy
import json
import random
import statistics
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from steve.allocstats.medians import Median, median, ratio
from steve.allocstats.replay import Replay
from steve.tune.budget import Budget
from steve.tune.options import Allocator, OptionSet
from steve.tune.program import LIBC

SEED = 1
MEMORY = ("peak", "mean", "end")  # goals of resident memory
ENDED = "ended"  # resident memory when all threads have ended, which is no goal
PAGE = 4096  # what a heap with a block has at least


@dataclass
class Samples:
    """What was measured of one option set: a value for each replay.

    resident, mean, end, ended: resident bytes of the whole process: most, on average, after the last operation, and when all
    threads have ended after it; mean has none for a replay that is too short. own: resident bytes before the first operation. cpu: CPU time
    of the replay in ns. p99: of malloc or free in ns, the greater. wall: elapsed time in ns, without the waits of
    --duration. faults: page faults. operations: of one replay; 0 before the first. failure: why it cannot be used, "" if it
    can."""

    resident: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    operations: int = 0
    failure: str = ""

    def of(self, goal: str) -> list[float]:
        """The values of one of the goals peak, mean, end, time and p99, or of ENDED."""
        known = {"peak": self.resident, "mean": self.mean, "end": self.end, "time": self.cpu, "p99": self.p99}
        return {**known, ENDED: self.ended}[goal]

    def add(self, result: dict) -> None:
        """Enter what steve-replay --system printed."""
        self.resident.append(result["process_peak"])
        own = result["process_peak"] - result["peak_resident"]
        self.own.append(own)
        if result.get("mean_resident") is not None:
            self.mean.append(own + result["mean_resident"])
        self.end.append(own + result["end_resident"])
        self.ended.append(own + result["ended_resident"])
        self.operations = result["operations"]
        self.cpu.append(result["cpu_ns"])
        self.wall.append(result["wall_ns"])
        self.faults.append(result["page_faults"])
        if "malloc" in result:
            self.p99.append(max(result["malloc"]["p99"], result["free"]["p99"], 1))


class Bench:
    """Measurements on one ops file, by which a budget is spent. goal: what is to be measured of each replay; p99 needs more
    time. loaded: the library whose malloc the program is linked with, "" for none but the C library. The program has its
    code and data in memory with each other allocator, too, so a replay has."""

    def __init__(
        self, replay: Replay, ops: str, goal: str, budget: Budget, options: tuple[str, ...] = (), loaded: str = ""
    ) -> None:
        latency = goal == "p99"
        self.goal = goal
        self.replay, self.ops, self.budget, self.loaded = replay, ops, budget, loaded
        self.arguments = ("--system", ops, "-q", *(["--latency"] if latency else []), *options)
        self.samples: dict[OptionSet, Samples] = {}
        self.replays, self.spent = 0, 0.0
        self._first = 0.0  # spent by the first replay, which also reads the file for the others
        self._expected = 0.0  # what a replay takes, before the first one
        self._random = random.Random(SEED)

    @property
    def each(self) -> float:
        """What a further replay takes of the budget, on average."""
        if self.replays < 2:
            return max(self._first or self._expected, 1e-6)
        return max((self.spent - self._first) / (self.replays - 1), 1e-6)

    def begin_with(self, other: Bench) -> None:
        """Take over what another bench has measured on the same file."""
        self.samples = copy.deepcopy(other.samples)
        self._expected = other.each

    def once(self, candidate: OptionSet) -> None:
        """Replay once with these options. A failure is kept with the candidate."""
        samples = self.samples.setdefault(candidate, Samples())
        if samples.failure:
            return
        libraries = [candidate.allocator.library]
        if self.loaded and self.loaded != candidate.allocator.library:
            libraries = [candidate.allocator.library or LIBC, self.loaded]
        preload = {"LD_PRELOAD": ":".join(libraries)} if libraries[0] else {}
        before = self.budget.spent
        outcome = self.replay.run(*self.arguments, env={**preload, **candidate.environment()})
        self.budget.replays += 1
        self.spent += self.budget.spent - before
        self.replays += 1
        self._first = self._first or self.spent
        if outcome.status != 0:
            samples.failure = outcome.message
            return
        samples.add(json.loads(outcome.output))
        if self.goal == "mean" and not samples.mean:
            samples.failure = "the replay is too short to know the mean of its memory"

    def measure(
        self, candidates: Iterable[OptionSet], rounds: int, end: float, tick: Callable[[], None]
    ) -> list[OptionSet]:
        """Replay each candidate `rounds` times, in random order. No replay begins when `end` of the budget is spent.
        Returns the candidates that have been measured, now or before."""
        chosen = list(candidates)
        for _ in range(rounds):
            for candidate in self._random.sample(chosen, len(chosen)):
                if self.budget.spent >= end:
                    return self.measured(chosen)
                self.once(candidate)
                tick()
        return self.measured(chosen)

    def measured(self, candidates: Iterable[OptionSet]) -> list[OptionSet]:
        """Those of the candidates that have been measured."""
        return [one for one in candidates if self.count(one)]

    def count(self, candidate: OptionSet) -> int:
        """How many replays of a candidate succeeded."""
        return len(self.samples[candidate].resident) if candidate in self.samples else 0

    def of(self, candidate: OptionSet, reference: OptionSet, goal: str) -> list[float]:
        """What a candidate costs, by replay; less is better. Memory is that of heap and allocator: resident bytes of the
        process without those that the process of the reference had before the first operation. That of balance is the
        geometric mean of peak and time."""
        samples = self.samples[candidate]
        if goal == "balance":
            return [(r * c) ** 0.5 for r, c in zip(self.of(candidate, reference, "peak"), samples.cpu)]
        if goal not in (*MEMORY, ENDED):
            return samples.of(goal)
        own = statistics.median(self.samples[reference].own)
        return [max(PAGE, value - own) for value in samples.of(goal)]

    def score(self, candidate: OptionSet, reference: OptionSet, goal: str) -> float:
        """How good a candidate is in proportion to the reference: less is better."""
        if goal == "balance":
            return (self.score(candidate, reference, "peak") * self.score(candidate, reference, "time")) ** 0.5
        mine, base = (statistics.median(self.of(one, reference, goal)) for one in (candidate, reference))
        return mine / max(base, 1e-9)

    def ratio(self, candidate: OptionSet, reference: OptionSet, goal: str) -> Median:
        """The same with an interval; that of balance is of the geometric means."""
        return ratio(self.of(candidate, reference, goal), self.of(reference, reference, goal))

    def resident(self, candidate: OptionSet, reference: OptionSet, goal: str = "peak") -> Median:
        """Resident bytes of heap and allocator. goal: one of MEMORY, or ENDED; of another goal, the peak."""
        return median(self.of(candidate, reference, goal if goal in (*MEMORY, ENDED) else "peak"))


def missing_library(allocator: Allocator) -> bool:
    """Does the dynamic linker not find the library of the allocator? It only warns about that."""
    if not allocator.library:
        return False
    found = subprocess.run(["/bin/true"], env={"LD_PRELOAD": allocator.library}, capture_output=True, check=False)
    return b"cannot be preloaded" in found.stderr
