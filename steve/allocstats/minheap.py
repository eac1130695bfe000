"""The smallest heap in which each of several allocators completes an ops file.

steve-replay finds it by bisection, to 16 bytes for an allocator that works in the memory it is given and to a
page for the others; here it is asked for each, and a failure of one never stops the others.

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
    """Bytes: min_heap, live_peak (of the file), step (min_heap - step was not enough) and robson_bound (what the
    worst program of this live peak can force any allocator to need that moves no blocks: Robson 1971, as in
    drivers/base/fragmentation.h). factor: min_heap / live_peak."""

    allocator: str
    min_heap: int
    live_peak: int
    factor: float
    step: int
    robson_bound: int
    trials: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _ask(replay: Replay, ops: str, driver: Driver, options: tuple[str, ...]) -> LeastHeap | Failure:
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
    """One LeastHeap or Failure for each allocator, in order. `tick(done, total)` is called after each."""
    with scratch_folder("steve-allocstats.") as scratch:
        short = heap_events_only(ops, scratch)

        def work(driver: Driver) -> LeastHeap | Failure:
            try:
                return _ask(replay, short, driver, options)
            except (SteveError, ValueError, TypeError) as error:
                return Failure(plain_name(driver.name), str(error))

        return each_driver(work, replay, drivers, cores, tick)
