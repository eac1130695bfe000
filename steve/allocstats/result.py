"""Summarise one allocstats file: memory, time, completeness.

Files of any age are accepted. A number that the file does not have is None; it is never estimated.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steve.allocstats.medians import median
from steve.allocstats.parse import AllocStats
from steve.terminal.units import human_bytes


@dataclass
class Summary:
    """Totals of one result file. Sizes are in bytes, times in nanoseconds; None: not recorded.

    mean_ns: mean time of the operations between the data points if the file has these times, else of the single
    operations at the data points.
    median_ns, p99_ns: of single operations.
    median_below_step, p99_below_step: the number is less than the clock's resolution, so only that is known.
    replay_ns: time per operation of a whole replay without single timings, the least of the passes.
    With several rounds it is their median.
    replay_spread: percent by which the slowest pass, or round, took longer than the fastest.
    replay_interval: the median of the passes, or rounds, and the ends of its 95% interval; None with fewer than three.
    rounds: how many files were combined.
    fragmentation: percent by which the mapped bytes exceed the live bytes, averaged over the bytes allocated (the
    first measure of Johnstone and Wilson).
    fragmentation_resident: the same for resident pages, measured at the data points."""

    allocator: str
    opsfile: str
    path: str
    points: int
    complete: bool
    heap: int
    live_peak: int
    peak_used: int
    highest: int | None
    committed: int | None
    resident: int | None
    overhead: int | None
    mean_ns: float
    median_ns: float
    p99_ns: float
    clock_step: float | None
    median_below_step: bool
    p99_below_step: bool
    smallest_maxmem: int
    confined: str | None
    replay_ns: float | None
    replay_spread: float | None
    replay_interval: list[float] | None
    rounds: int
    fragmentation: float | None
    fragmentation_resident: float | None

    def as_dict(self) -> dict[str, Any]:
        """The fields as a dictionary, for JSON."""
        return asdict(self)


def op_times(stats: AllocStats) -> np.ndarray:
    """The time of the operation at each data point, including the handling of out-of-memory, in ns (float64)."""
    return stats.column("current_op_time") + stats.column("oom_time")


def timed_points(stats: AllocStats) -> np.ndarray:
    """A mask of the data points whose operation was timed: all in files of steve-replay, only `N` in those of the first
    Steve."""
    if "time_unit" in stats.header:
        return np.ones(len(stats), bool)
    return stats.ops == "N"


def batch_points(stats: AllocStats) -> np.ndarray:
    """A mask of the data points for which the operations since the previous data point were timed as a whole."""
    return stats.column("batch_ops") > 0


def batch_means(stats: AllocStats) -> np.ndarray:
    """The mean time of the operations since the previous data point, in ns (float64); 0 where batch_points() is
    false."""
    count = stats.column("batch_ops")
    return np.divide(stats.column("batch_time"), count, out=np.zeros(len(stats)), where=count > 0)


def clock_step(stats: AllocStats) -> float | None:
    """The resolution of the clock in ns; None if the file does not record it."""
    return _number(stats, "clock_step")


def is_complete(stats: AllocStats) -> bool:
    """Did the replay reach the end? If the header does not say so, it did if memory could be allocated at all
    points."""
    stated = stats.header.get("complete")
    return bool(stated) if stated is not None else bool((stats.column("maxmem") > 0).all())


def _most(stats: AllocStats, key: str, whole: str = "") -> int | None:
    """The most at a data point; between the data points, too, if the header has that, as `whole`."""
    if not stats.has(key):
        return None
    return max(int(stats.column(key).max()), int(_number(stats, whole) or 0))


def _times(stats: AllocStats) -> tuple[float, float, float]:
    times = op_times(stats)[timed_points(stats)]
    if times.size == 0:
        return float("nan"), float("nan"), float("nan")
    return float(times.mean()), float(np.median(times)), float(np.percentile(times, 99))


def _number(stats: AllocStats, key: str) -> float | None:
    value = stats.header.get(key)
    return float(value) if isinstance(value, (int, float)) else None


def _replays(stats: AllocStats) -> list[float]:
    """The time per operation of each pass, or round; [] if the file does not record it."""
    times = stats.header.get("replay_times_per_op")
    if not isinstance(times, list) or not all(isinstance(t, (int, float)) for t in times):
        return []
    return [float(time) for time in times]


def _spread(times: list[float]) -> float | None:
    """The percentage by which the slowest took longer than the fastest; None if there are fewer than two."""
    return (max(times) / min(times) - 1) * 100 if len(times) > 1 and min(times) > 0 else None


def _replay_interval(times: list[float]) -> list[float] | None:
    return median(times).as_list() if len(times) > 2 else None


def fragmentation(stats: AllocStats) -> np.ndarray | None:
    """The percentage by which the resident bytes exceed the live bytes, at each data point; 0 where nothing is live.

    If the file has no resident bytes, the committed bytes are used, or else those up to the highest address. None if
    it has none of the three."""
    key = next((key for key in ("resident", "committed", "highest") if stats.has(key)), None)
    if key is None:
        return None
    used = stats.column("used")
    beyond = np.maximum(stats.column(key) - used, 0)
    return np.divide(100.0 * beyond, used, out=np.zeros(len(stats)), where=used > 0)


def fragmentation_scale(curves: Sequence[tuple[AllocStats, np.ndarray]]) -> float:
    """The top of an axis for curves of fragmentation(): the largest value where at least a quarter of the peak is live, since
    at the start and the end next to nothing is, and any heap is many times that; at most four times the median allocator's.
    """
    settled = [float(y[4 * stats.column("used") >= stats.column("used").max()].max()) for stats, y in curves]
    return min(max(settled), 4 * float(np.median(settled))) * 1.06 or 1.0


def summarise(stats: AllocStats) -> Summary:
    """Reduce a result file to its Summary."""
    mean, middle, p99 = _times(stats)
    step = clock_step(stats)
    least = step - 0.5 if step else 0.0  # times are whole nanoseconds
    if batch_points(stats).any():
        mean = float(stats.column("batch_time").sum() / stats.column("batch_ops").sum())
    peak = int(stats.column("used").max())
    confined = stats.header.get("confined")
    return Summary(
        allocator=stats.driver,
        opsfile=stats.opsfile,
        path=stats.path,
        points=len(stats),
        complete=is_complete(stats),
        heap=stats.heap_size,
        live_peak=int(stats.header.get("live_peak", peak)),
        peak_used=peak,
        highest=_most(stats, "highest", "highest_extent"),
        committed=_most(stats, "committed"),
        resident=_most(stats, "resident", "most_resident"),
        overhead=_most(stats, "overhead"),
        mean_ns=mean,
        median_ns=middle,
        p99_ns=p99,
        clock_step=step,
        median_below_step=middle < least,
        p99_below_step=p99 < least,
        smallest_maxmem=int(stats.column("maxmem").min()),
        confined=None if confined is None else str(confined),
        replay_ns=_number(stats, "replay_time_per_op"),
        replay_spread=_spread(_replays(stats)),
        replay_interval=_replay_interval(_replays(stats)),
        rounds=int(stats.header.get("rounds", 1)),
        fragmentation=None if stats.driver == "null" else _number(stats, "fragmentation_1"),
        fragmentation_resident=_number(stats, "fragmentation_resident_1"),
    )


def memory_scale(files: list[AllocStats], key: str) -> tuple[float, list[str]]:
    """(upper end of a common axis for the memory of all files, names of the allocators that exceed it).

    An allocator that needs more than 4 times the median would flatten the curves of the others. Its curve leaves the
    picture, so the caption has to name it."""
    tops = {stats.driver: float(stats.column(key).max()) for stats in files}
    limit = 4 * float(np.median(list(tops.values())))
    beyond = [name for name, top in tops.items() if top > limit > 0]
    return max((top for name, top in tops.items() if name not in beyond), default=0.0), beyond


def off_the_picture(files: list[AllocStats], key: str, beyond: list[str]) -> str:
    """The names of these allocators with their greatest memory: `bump (26 MiB)`."""
    hidden = [stats for stats in files if stats.driver in beyond]
    return ", ".join(f"{stats.driver} ({human_bytes(stats.column(key).max())})" for stats in hidden)
