"""Replay an ops file on several allocators, all with heaps of the same size: the largest that any of them needs.

The first size is the requested one (by default 4 times the live peak), or the least in which all allocators can
start, if that is more. If it is too small for some allocators, a larger one is searched for each of them in a series
that grows in steps of 5%, up to 10 times the first size. The search bisects the series with trial replays that have
two data points only, because finding the largest free block at a data point is the expensive part. Then all allocators
run again with the largest size found. An allocator that runs out of memory in the whole series is given up and does
not count. A failure of one allocator does not stop the others.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from steve.allocstats.parse import read_allocstats
from steve.allocstats.reduce import heap_events_only
from steve.allocstats.replay import Driver, Outcome, Replay, plain_name
from steve.allocstats.result import Summary, summarise
from steve.system.errors import SteveError
from steve.terminal.units import human_bytes
from steve.system.tempfiles import scratch_folder

T = TypeVar("T")
GROWTH, LIMIT, PAGE = 1.05, 10.0, 4096


@dataclass(frozen=True)
class Plan:
    """What to replay and how. ops and folder are absolute paths, heap is in bytes, killpercent 0 is a single pass."""

    ops: str
    folder: str
    heap: int
    points: int
    killpercent: int
    seed: int | None = None
    threads: bool = False  # also replay the threads of the file on real threads
    options: tuple[str, ...] = ()  # further options for steve-replay


@dataclass(frozen=True)
class Failure:
    """An allocator without a result, and the reason. gave_up: it ran out of memory in every heap of the series."""

    allocator: str
    reason: str
    gave_up: bool = False


class GivenUp(SteveError):
    """An allocator ran out of memory in every heap of its series."""


def result_path(plan: Plan, allocator: str) -> str:
    """The path of a result: `<ops>-<driver>-kill<K>-allocstats` in the plan's folder."""
    base = f"{os.path.basename(plan.ops)}-{plain_name(allocator)}-kill{plan.killpercent}-allocstats"
    return os.path.join(plan.folder, base)


def heap_bytes(text: str, live_peak: int) -> int:
    """The argument of --heap in bytes: `4x` is 4 times the live peak, rounded up to whole pages; `65536`, `64K`, `10M`
    and `1G` are exactly these bytes. SteveError for anything else."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    suffix = text[-1:].lower()
    try:
        number = float(text[:-1]) if suffix in {"x", *units} else int(text)
    except ValueError:
        raise SteveError(f"--heap {text}: give bytes (65536, 64K, 10M, 1G) or a multiple of the peak (4x)") from None
    size = number * live_peak if suffix == "x" else number * units.get(suffix, 1)
    if not 1 <= size < 2**46:
        raise SteveError(f"--heap {text}: that is {size:.0f} bytes; give at least 1 and less than 64 TiB")
    return round_up(int(size)) if suffix == "x" else int(size)


def round_up(size: int) -> int:
    """A size rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def heap_series(start: int) -> list[int]:
    """The sizes to try in order: `start`, then whole pages in steps of 5%, up to 10 times `start`."""
    sizes, size = [start], start * GROWTH
    while size <= LIMIT * start:
        sizes.append(round_up(int(size)))
        size *= GROWTH
    return list(dict.fromkeys(sizes))


def _attempt(replay: Replay, plan: Plan, allocator: str, heap: int, result: str, trial: bool) -> Outcome:
    arguments = ["--allocator", allocator, "--allocstats", os.path.basename(plan.ops), "-o", result]
    arguments += ["--heap", str(heap)]
    arguments += ["--points", "2" if trial else str(plan.points), "--killpercent", str(plan.killpercent)]
    arguments += ["--seed", str(plan.seed)] if plan.seed is not None else []
    arguments += ["--threads=replay"] if plan.threads and not trial else []
    arguments += [*plan.options, *(["--passes", "1"] if trial else [])]
    return replay.run(*arguments, folder=os.path.dirname(plan.ops))


class _Search:
    """Finds the first heap in a series that is large enough for one allocator."""

    def __init__(self, replay: Replay, plan: Plan, driver: Driver, heaps: list[int], scratch: str) -> None:
        self.replay, self.plan, self.allocator, self.heaps = replay, plan, driver.name, heaps
        self.trial = os.path.join(scratch, f"{plain_name(driver.name)}.trial")

    def enough(self, index: int) -> bool:
        """Try one heap: is it enough? SteveError if the allocator fails for another reason than memory."""
        outcome = _attempt(self.replay, self.plan, self.allocator, self.heaps[index], self.trial, True)
        return _enough(outcome)

    def after(self, low: int) -> int:
        """The index of a heap that is enough while the one before it is not. Heap `low` is known to be too small.

        GivenUp if the last heap is too small as well."""
        high = len(self.heaps) - 1
        if low >= high or not self.enough(high):
            raise self.given_up()
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.enough(middle) else (middle, high)
        return high

    def given_up(self) -> GivenUp:
        """The exception for an allocator for which no heap is enough."""
        tried = f"{human_bytes(self.heaps[0])} to {human_bytes(self.heaps[-1])}"
        return GivenUp(f"out of memory in every heap from {tried}; given up")


def _enough(outcome: Outcome) -> bool:
    if outcome.status != 0 and not outcome.out_of_memory:
        raise SteveError(outcome.message)
    return outcome.status == 0


def _guarded(driver: Driver, work: Callable[[], T]) -> T | Failure:
    try:
        return work()
    except SteveError as error:
        return Failure(plain_name(driver.name), str(error), isinstance(error, GivenUp))


def _run_one(replay: Replay, plan: Plan, driver: Driver, heaps: list[int], index: int, scratch: str) -> Summary | int:
    """Replay with heap number `index` and summarise the result file. If the heap is too small, return the index of one
    that is enough.

    An existing result file is removed first. SteveError if the allocator fails."""
    result = result_path(plan, driver.name)
    Path(result).unlink(missing_ok=True)
    if _enough(_attempt(replay, plan, driver.name, heaps[index], result, False)):
        return summarise(read_allocstats(result))
    return _Search(replay, plan, driver, heaps, scratch).after(index)


def each_driver(
    work: Callable[[Driver], T],
    replay: Replay,
    drivers: list[Driver],
    cores: int,
    tick: Callable[[int, int], None],
) -> list[T]:
    """Call work(driver) for each driver, `cores` at a time; return the results in order.

    tick(done, total) is called after each. If a call raises, all running replays are stopped."""
    done: list[T] = []
    with ThreadPoolExecutor(max_workers=cores) as pool:
        try:
            for result in pool.map(work, drivers):
                done.append(result)
                tick(len(done), len(drivers))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            replay.kill()
            raise
    return done


def run_all(
    replay: Replay, plan: Plan, drivers: list[Driver], cores: int, tick: Callable[[int, int], None]
) -> list[Summary | Failure]:
    """Replay on each driver: a Summary or Failure for each, in order. All summaries are of the same heap size.
    tick(done, total) is called after each replay."""
    heaps = heap_series(max([plan.heap, *(round_up(driver.least_heap) for driver in drivers)]))
    outcomes: dict[Driver, Summary | Failure | int] = {driver: 0 for driver in drivers}
    with scratch_folder("steve-allocstats.") as scratch:
        plan = replace(plan, ops=heap_events_only(plan.ops, scratch))
        while wanted := [heap for heap in outcomes.values() if isinstance(heap, int)]:
            index = max(wanted)

            def work(driver: Driver, index: int = index) -> Summary | Failure | int:
                return _guarded(driver, lambda: _run_one(replay, plan, driver, heaps, index, scratch))

            left = [driver for driver, outcome in outcomes.items() if not isinstance(outcome, Failure)]
            outcomes.update(zip(left, each_driver(work, replay, left, cores, tick)))
    return [outcome for outcome in outcomes.values() if not isinstance(outcome, int)]
