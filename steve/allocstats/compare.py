"""Measure several allocators on one ops file repeatedly, in rounds, so that differences can be distinguished from chance.

All have a heap of the same size: that of --heap, or the least in which all of them complete, in steps of 5%. In each
round every allocator is measured once, in fresh processes (steve-replay --measure) and in random order. The null driver
is measured in each round, too; its time is what the replay itself costs, and is taken off.

The replays whose time is measured write a byte to each page of new blocks, so that the page faults of this memory are
counted for all allocators alike. Without that, one that keeps its lists outside of the blocks would have few.

Which differences are certain: medians.places.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from steve.allocstats.frontier import frontier
from steve.allocstats.medians import Median, Places, median, places
from steve.allocstats.ranking import UNREAL
from steve.allocstats.reduce import heap_events_only
from steve.allocstats.replay import Driver, Replay, plain_name
from steve.allocstats.runner import Failure, heap_series, round_up
from steve.system.errors import SteveError
from steve.system.tempfiles import scratch_folder

NULL = "null"
COUNTS = ("minor_faults", "major_faults", "memory_calls", "yields", "preemptions")
HARDWARE = ("cycles", "instructions", "cache_misses", "dtlb_misses")
LATENCIES = ("p50_ns", "p99_ns", "p999_ns", "max_ns")
TOGETHER = 4  # replays at the same time, if they have a duration: as many have their heaps in memory
SPACES = ("resident", "end_resident", "mapped", "used", "usable", "headers", "outside")

Measurement = dict[str, Any]  # what steve-replay --measure prints


@dataclass
class Entry:
    """One allocator: its measurements, one for each round."""

    name: str
    rounds: list[Measurement] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)  # ns per operation of the replay itself, one for each round

    def per_operation(self) -> list[float]:
        """CPU time of an operation in ns without the cost of the replay itself, one for each round."""
        return [one["cpu_ns"] / one["operations"] - cost for one, cost in zip(self.rounds, self.cost)]

    def values(self, key: str) -> list[float] | None:
        """The values of a number, one for each round; None if it is not known in all of them."""
        numbers = [one[key] for one in self.rounds]
        return None if any(number is None for number in numbers) else [float(number) for number in numbers]

    def median(self, key: str) -> Median | None:
        """The median of a number; None if it is not known."""
        numbers = self.values(key)
        return None if numbers is None else median(numbers)

    @property
    def time(self) -> Median:
        """Median of per_operation()."""
        return median(self.per_operation())

    @property
    def is_real(self) -> bool:
        """Is it an allocator, and not a bound or a dummy?"""
        return self.name not in UNREAL


@dataclass
class Comparison:
    """All allocators of one ops file. heap in bytes; entries in the order of the request, without the null driver."""

    ops: str
    heap: int
    live_peak: int
    rounds: int
    entries: list[Entry]
    failures: list[Failure]
    null_ns: Median
    clock_step: float
    clock_cost: float

    @property
    def real(self) -> list[Entry]:
        """The entries that are ranked."""
        return [entry for entry in self.entries if entry.is_real]

    def places(self, measure: str) -> Places:
        """The ranking by "time" or "resident"."""
        if measure == "time":
            return places({entry.name: entry.per_operation() for entry in self.real})
        return places({entry.name: entry.values(measure) or [] for entry in self.real})

    def frontier(self) -> list[Entry]:
        """The real allocators for which no other is better or equal in both medians, from the fastest on."""
        return frontier(self.real, lambda e: (e.time.value, e.median("resident").value))  # type: ignore

    def without_hardware(self) -> list[str]:
        """The names of the processor's counters that this machine does not give."""
        return [key for key in HARDWARE if all(entry.values(key) is None for entry in self.entries)]


class _Runner:
    """Measures with one ops file and one heap at a time. pace: the option for measurements of memory that are kept, if any."""

    def __init__(self, replay: Replay, ops: str, options: tuple[str, ...], pace: tuple[str, ...]) -> None:
        self.replay, self.ops, self.options, self.pace = replay, ops, options, pace

    def measure(self, allocator: str, heap: int, paced: bool = False) -> Measurement | None:
        """One measurement; None if the heap is too small. SteveError if the allocator fails."""
        options = (*self.options, *(self.pace if paced else ()))
        outcome = self.replay.run("-a", allocator, "--measure", self.ops, "--heap", str(heap), *options)
        if outcome.out_of_memory:
            return None
        if outcome.status != 0:
            raise SteveError(outcome.message)
        result: Measurement = json.loads(outcome.output)
        return result


def _fitting(runner: _Runner, allocator: str, heaps: list[int], index: int) -> int | None:
    """The index of the first heap from `index` on that is enough; None if none is."""
    return next((i for i in range(index, len(heaps)) if runner.measure(allocator, heaps[i]) is not None), None)


def _common_heap(
    runner: _Runner, drivers: list[Driver], heaps: list[int], tick: Callable[[], None]
) -> tuple[int, dict[Driver, Entry], list[Failure]]:
    """The least of these heaps in which all complete, those that do, and those that fail in all heaps."""
    index, entries, failures = 0, {}, []
    for driver in drivers:
        try:
            fits = _fitting(runner, driver.name, heaps, index)
            if fits is None:
                failures.append(Failure(plain_name(driver.name), "out of memory in every heap; given up", True))
            else:
                index = fits
                entries[driver] = Entry(plain_name(driver.name))
        except SteveError as error:
            failures.append(Failure(plain_name(driver.name), str(error)))
        tick()
    return heaps[index], entries, failures


def _one_round(
    runner: _Runner, heap: int, entries: dict[Driver, Entry], order: list[Driver], failures: list[Failure]
) -> float:
    """Measure all once, null first; return the ns per operation of the replay itself. An allocator that fails is moved
    from `entries` to `failures`."""
    null = runner.measure(NULL, heap)
    if null is None:
        raise SteveError("the null driver ran out of memory")
    cost: float = null["cpu_ns"] / max(null["operations"], 1)
    found = {driver: _attempt(runner, driver, heap, False) for driver in order}
    if runner.pace:  # these replays wait for most of their time, and nothing else of them is of interest
        done = [driver for driver, one in found.items() if not isinstance(one, str)]
        with ThreadPoolExecutor(TOGETHER) as pool:
            paced = pool.map(lambda driver: _attempt(runner, driver, heap, True), done)
        for driver, slow in zip(done, paced):
            found[driver] = slow if isinstance(slow, str) else found[driver] | {key: slow[key] for key in SPACES}
    for driver, one in found.items():
        if isinstance(one, str):
            failures.append(Failure(entries.pop(driver).name, one))
            continue
        entries[driver].rounds.append(one)
        entries[driver].cost.append(cost)
    return cost


def _attempt(runner: _Runner, driver: Driver, heap: int, paced: bool) -> Measurement | str:
    """A measurement, or why there is none."""
    try:
        return runner.measure(driver.name, heap, paced) or "out of memory in a heap that was enough before"
    except SteveError as error:
        return str(error)


def compare(
    replay: Replay,
    ops: str,
    drivers: list[Driver],
    heap: int,
    rounds: int,
    seed: int,
    options: tuple[str, ...],
    tick: Callable[[int, int], None],
    seconds: float | None = None,
) -> Comparison:
    """Measure all drivers in `rounds` rounds. options: further ones for steve-replay. tick(done, total) is called after
    each measurement. seconds: how long the replays that measure memory are to take; None: full speed. SteveError if no
    allocator can be measured."""
    drivers = [driver for driver in drivers if plain_name(driver.name) != NULL]
    total, done = len(drivers) * (rounds + 1), 0

    def ticked(count: int = 1) -> None:
        nonlocal done
        done += count
        tick(min(done, total), total)

    shuffle, costs = random.Random(seed), []
    heaps = heap_series(max([heap, *(round_up(driver.least_heap) for driver in drivers)]))
    with scratch_folder("steve-compare.") as scratch:
        pace = () if seconds is None else (f"--pace={max(1, round(1000 * seconds))}",)
        runner = _Runner(replay, heap_events_only(ops, scratch), options, pace)
        size, entries, failures = _common_heap(runner, drivers, heaps, ticked)
        for _ in range(rounds):
            order = list(entries)
            shuffle.shuffle(order)
            costs.append(_one_round(runner, size, entries, order, failures))
            ticked(len(order))
    found = list(entries.values())
    if not found:
        raise SteveError("no allocator gave a result: " + "; ".join(f"{f.allocator}: {f.reason}" for f in failures))
    first = found[0].rounds[0]
    return Comparison(
        ops,
        size,
        int(first["live_peak"]),
        rounds,
        found,
        failures,
        median(costs),
        float(first["clock_step_ns"]),
        float(first["clock_cost_ns"]),
    )
