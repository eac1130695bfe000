# SPDX-License-Identifier: GPL-2.0-or-later
"""Replay an ops file on several allocators, each in the smallest heap of a series that it can do with.

The series begins with the given heap (4 times the live peak by default) and grows by 5% whenever the
allocator runs out of memory, up to 10 times the start; then that allocator is given up. For an allocator that
cannot start in so little it begins with the least that it needs. If the first heap is not enough, trials with
two data points only (probing the largest free block is what costs) bisect the rest of the series before the
run that counts. A failure of one allocator never stops the others.
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
from steve.errors import SteveError
from steve.plots.style import human_bytes
from steve.scratch import scratch_folder

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
    """`4x` -> 4 times the live peak; `65536`, `64K`, `10M`, `1G` -> bytes. SteveError for anything else."""
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
    return round_up(int(size))


def round_up(size: int) -> int:
    """To whole pages."""
    return -(-size // PAGE) * PAGE


def heap_series(start: int) -> list[int]:
    """The heaps to try, in order: growing by 5%, none above 10 times the start."""
    sizes, size = [], float(start)
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

    def __init__(self, replay: Replay, plan: Plan, driver: Driver, scratch: str) -> None:
        self.replay, self.plan, self.allocator = replay, plan, driver.name
        self.trial = os.path.join(scratch, f"{plain_name(driver.name)}.trial")
        self.heaps = heap_series(max(plan.heap, round_up(driver.least_heap)))

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


def run_one(replay: Replay, plan: Plan, driver: Driver, scratch: str) -> Summary:
    """Find a heap that is enough, replay in it, summarise the result file. An older result is removed first.

    SteveError tells why there is no result."""
    result = result_path(plan, driver.name)
    Path(result).unlink(missing_ok=True)
    search = _Search(replay, plan, driver, scratch)
    index = 0
    while not _enough(_attempt(replay, plan, driver.name, search.heaps[index], result, False)):
        index = search.after(index)
    return summarise(read_allocstats(result))


def _guarded(replay: Replay, plan: Plan, driver: Driver, scratch: str) -> Summary | Failure:
    try:
        return run_one(replay, plan, driver, scratch)
    except SteveError as error:
        return Failure(plain_name(driver.name), str(error), isinstance(error, GivenUp))


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
    """One Summary or Failure for each allocator, in order. `tick(done, total)` is called after each."""
    with scratch_folder("steve-allocstats.") as scratch:
        plan = replace(plan, ops=heap_events_only(plan.ops, scratch))
        return each_driver(
            lambda driver: _guarded(replay, plan, driver, scratch), replay, drivers, cores, tick
        )
