"""Throughput of allocators against the number of threads, from repeated replays on real threads.

The threads of the ops file are given to K real threads (steve-replay --workers); operations on one block keep their
order, and otherwise threads do not wait for each other. As in steve.allocstats.compare, each round measures everything
once, in fresh processes and random order. The null driver shows how many operations the replay itself can do, which is
a bound for all.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steve.allocstats.medians import Median, median
from steve.allocstats.reduce import heap_events_only
from steve.allocstats.replay import Driver, Replay, plain_name
from steve.allocstats.runner import Failure
from steve.system.errors import SteveError
from steve.system.tempfiles import scratch_folder

Measurement = dict[str, Any]  # what steve-replay --measure --threads=replay prints


@dataclass
class Curve:
    """One allocator: by number of threads its measurements, one for each round."""

    name: str
    rounds: dict[int, list[Measurement]] = field(default_factory=dict)

    def rate(self, threads: int) -> Median:
        """Operations in a second."""
        return median([1e9 * one["operations"] / max(one["wall_ns"], 1) for one in self.rounds[threads]])

    def share(self, threads: int, key: str) -> float:
        """The median share of the threads' time that they waited (waited_ns or lock_waited_ns)."""
        return median([one[key] / max(one["wall_ns"] * one["threads"], 1) for one in self.rounds[threads]]).value

    def remote(self, threads: int) -> float:
        """Frees of blocks that another thread allocated, by operations."""
        one = self.rounds[threads][0]
        return float(one["remote_frees"] / max(one["operations"], 1))

    @property
    def is_locked(self) -> bool:
        """Does the replay lock, because the allocator supports no threads?"""
        return next(iter(self.rounds.values()))[0]["locked_by"] == "replay"


@dataclass
class Throughput:
    """The curves of all allocators."""

    ops: str
    threads: list[int]  # those measured
    threads_of_file: int
    rounds: int
    curves: list[Curve]
    failures: list[Failure]


def _measured(replay: Replay, allocator: str, ops: str, workers: int, options: tuple[str, ...]) -> Measurement:
    words = ("-a", allocator, "--measure", ops, "--threads=replay", f"--workers={workers}", *options)
    outcome = replay.run(*words)
    if outcome.status != 0:
        raise SteveError(outcome.message)
    result: Measurement = json.loads(outcome.output)
    return result


def throughput(
    replay: Replay,
    ops: str,
    drivers: list[Driver],
    workers: list[int],
    rounds: int,
    seed: int,
    options: tuple[str, ...],
    tick: Callable[[int, int], None],
) -> Throughput:
    """Measure all drivers with all numbers of threads in `rounds` rounds. options: further ones for steve-replay, such
    as the heap. SteveError if no allocator can be measured."""
    shuffle, failures, done = random.Random(seed), [], 0
    curves = {driver: Curve(plain_name(driver.name)) for driver in drivers}
    total = rounds * len(workers) * len(drivers)
    with scratch_folder("steve-compare.") as scratch:
        short = heap_events_only(ops, scratch)
        for _ in range(rounds):
            order = [(driver, count) for driver in curves for count in workers]
            shuffle.shuffle(order)
            for driver, count in order:
                if driver not in curves:
                    continue
                try:
                    one = _measured(replay, driver.name, short, count, options)
                    curves[driver].rounds.setdefault(int(one["threads"]), []).append(one)
                except SteveError as error:
                    failures.append(Failure(curves.pop(driver).name, str(error)))
                done += 1
                tick(min(done, total), total)
    found = list(curves.values())
    if not found:
        raise SteveError("no allocator gave a result: " + "; ".join(f"{f.allocator}: {f.reason}" for f in failures))
    counts = sorted(found[0].rounds)
    of_file = int(found[0].rounds[counts[0]][0]["threads_of_file"])
    return Throughput(ops, counts, of_file, rounds, found, failures)
