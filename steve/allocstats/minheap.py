"""The smallest heap in which each of several allocators completes an ops file.

steve-replay finds the size by bisection: to 16 bytes for an allocator that works in memory it is given, to a page
for the others. This module runs it once for each allocator. A failure of one allocator does not stop the others.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from steve.allocstats.reduce import heap_events_only
from steve.allocstats.replay import Driver, Replay, plain_name
from steve.allocstats.runner import Failure, each_driver
from steve.system.errors import SteveError
from steve.system.tempfiles import scratch_folder


@dataclass(frozen=True)
class LeastHeap:
    """The smallest heap of one allocator. Sizes are in bytes.

    live_peak: that of the ops file. factor: min_heap / live_peak. step: the resolution; a heap of min_heap - step
    was not enough. robson_bound: the heap that the worst program with this live peak can force any non-moving
    allocator to need (Robson 1971, see drivers/base/fragmentation.h). trials: the number of replays needed."""

    allocator: str
    min_heap: int
    live_peak: int
    factor: float
    step: int
    robson_bound: int
    trials: int

    def as_dict(self) -> dict[str, Any]:
        """The fields as a dictionary, for JSON."""
        return asdict(self)


def _measure(replay: Replay, ops: str, driver: Driver, options: tuple[str, ...]) -> LeastHeap | Failure:
    outcome = replay.run("--allocator", driver.name, "--min-heap", ops, "--json", *options)
    name = plain_name(driver.name)
    if outcome.status != 0:
        return Failure(name, outcome.message, outcome.out_of_memory)
    answer = json.loads(outcome.output)
    del answer["driver"]
    return LeastHeap(allocator=name, **answer)


def min_heaps(
    replay: Replay,
    ops: str,
    options: tuple[str, ...],
    drivers: list[Driver],
    cores: int,
    tick: Callable[[int, int], None],
) -> list[LeastHeap | Failure]:
    """Find the smallest heap of each driver, `cores` at a time: a LeastHeap or Failure for each, in order.

    ops: the ops file; options: further ones for steve-replay. tick(done, total) is called after each driver."""
    with scratch_folder("steve-allocstats.") as scratch:
        short = heap_events_only(ops, scratch)

        def work(driver: Driver) -> LeastHeap | Failure:
            try:
                return _measure(replay, short, driver, options)
            except (SteveError, ValueError, TypeError) as error:
                return Failure(plain_name(driver.name), str(error))

        return each_driver(work, replay, drivers, cores, tick)
