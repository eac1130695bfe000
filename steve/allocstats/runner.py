"""Replay an ops file on several allocators, all in one heap: the largest that any of them needs.

The heap is the given one (4 times the live peak by default), or the least in which every one of the allocators
starts for certain, if that is more. If it is not enough for some, each of these looks for a heap that is, in a
series that grows by 5% up to 10 times the start, by trials with two data points only (probing the largest free
block is what costs), which bisect the series. Then all allocators run again in the largest of these heaps. One
that runs out of memory in the whole series is given up and does not count. A failure of one allocator never
stops the others.

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
    """What to replay and how. ops and folder are absolute paths; heap in bytes; killpercent 0 = one pass."""

    ops: str
    folder: str
    heap: int
    points: int
    killpercent: int
    seed: int | None = None
    threads: bool = False  # replay threads on real ones, too
    options: tuple[str, ...] = ()  # more for steve-replay


@dataclass(frozen=True)
class Failure:
    """An allocator without a result, and why; gave_up: it ran out of memory in every heap."""

    allocator: str
    reason: str
    gave_up: bool = False


class GivenUp(SteveError):
    """An allocator ran out of memory in every heap of its series."""


def result_path(plan: Plan, allocator: str) -> str:
    """`<ops>-<driver>-kill<K>-allocstats` in the plan's folder."""
    base = f"{os.path.basename(plan.ops)}-{plain_name(allocator)}-kill{plan.killpercent}-allocstats"
    return os.path.join(plan.folder, base)


def heap_bytes(text: str, live_peak: int) -> int:
    """`4x` -> 4 times the live peak, in whole pages; `65536`, `64K`, `10M`, `1G` -> just these bytes. SteveError for
    anything else."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    suffix = text[-1:].lower()
    try:
        number = float(text[:-1]) if suffix in {"x", *units} else int(text)
    except ValueError:
        raise SteveError(
            f"--heap {text}: give bytes (65536, 64K, 10M, 1G) or a multiple of the peak (4x)"
        ) from None
    size = number * live_peak if suffix == "x" else number * units.get(suffix, 1)
    if not 1 <= size < 2**46:
        raise SteveError(f"--heap {text}: that is {size:.0f} bytes; give at least 1 and less than 64 TiB")
    return round_up(int(size)) if suffix == "x" else int(size)


def round_up(size: int) -> int:
    """To whole pages."""
    return -(-size // PAGE) * PAGE


def heap_series(start: int) -> list[int]:
    """The heaps to try, in order: the start, then whole pages, growing by 5%, none above 10 times the start."""
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
    """Finds where in a series of heaps one allocator begins to have enough."""

    def __init__(self, replay: Replay, plan: Plan, driver: Driver, heaps: list[int], scratch: str) -> None:
        self.replay, self.plan, self.allocator, self.heaps = replay, plan, driver.name, heaps
        self.trial = os.path.join(scratch, f"{plain_name(driver.name)}.trial")

    def enough(self, index: int) -> bool:
        """Try one heap. SteveError if the allocator fails otherwise than by running out of memory."""
        outcome = _attempt(self.replay, self.plan, self.allocator, self.heaps[index], self.trial, True)
        return _enough(outcome)

    def after(self, low: int) -> int:
        """Index of a heap that is enough while the one before it is not; heap `low` is known not to be.

        GivenUp if the last is not enough either."""
        high = len(self.heaps) - 1
        if low >= high or not self.enough(high):
            raise self.given_up()
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.enough(middle) else (middle, high)
        return high

    def given_up(self) -> GivenUp:
        """Says which heaps were not enough."""
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


def _run_one(
    replay: Replay, plan: Plan, driver: Driver, heaps: list[int], index: int, scratch: str
) -> Summary | int:
    """Replay in one heap and summarise the result file; if it is too small, the index of one that is enough.

    SteveError tells why there is neither. An older result is removed first."""
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
    """The results of work, in order, `cores` of them made at a time. An exception ends what runs."""
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
    """One Summary or Failure for each allocator, in order; all summaries are of one heap. `tick(done, total)` is
    called after each."""
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
