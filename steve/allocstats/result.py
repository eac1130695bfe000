"""What one allocstats file says in one line: memory, time, completeness.

Works on files of any age; a number the file does not hold is None, never guessed.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steve.allocstats.parse import AllocStats
from steve.terminal.units import human_bytes


@dataclass
class Summary:
    """Totals of one result file. Sizes in bytes, times in nanoseconds, None where not recorded.

    mean_ns: of the operations between the data points, timed together where the file has that, else of
    single ones; median_ns, p99_ns: of single operations; ..._below_step: less than the clock's step, so
    that the number says nothing but that; replay_ns: time per operation of a whole replay without single
    timings, the least of the passes; replay_spread: percent by which the slowest pass took longer than
    the quickest; fragmentation: percent that the allocator held beyond what was live, mean over the bytes
    allocated (Johnstone and Wilson's first), of what it has mapped; fragmentation_resident: the same of
    the pages that are in memory, at the data points."""

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
    fragmentation: float | None
    fragmentation_resident: float | None

    def as_dict(self) -> dict[str, Any]:
        """The fields as a dictionary, for JSON."""
        return asdict(self)


def op_times(stats: AllocStats) -> np.ndarray:
    """Time of each data point's operation with the handling of out-of-memory, ns, as float64."""
    return stats.column("current_op_time") + stats.column("oom_time")


def timed_points(stats: AllocStats) -> np.ndarray:
    """Mask of the data points whose operation was timed: every one in our files, `N` alone in old ones."""
    if "time_unit" in stats.header:
        return np.ones(len(stats), bool)
    return stats.ops == "N"


def batch_points(stats: AllocStats) -> np.ndarray:
    """Mask of the data points before which operations were timed together, without timing each."""
    return stats.column("batch_ops") > 0


def batch_means(stats: AllocStats) -> np.ndarray:
    """Mean time of the operations since the data point before, ns; 0 where not batch_points()."""
    count = stats.column("batch_ops")
    return np.divide(stats.column("batch_time"), count, out=np.zeros(len(stats)), where=count > 0)


def clock_step(stats: AllocStats) -> float | None:
    """ns by which two readings of the clock differ at least; None in files that do not say it."""
    return _number(stats, "clock_step")


def is_complete(stats: AllocStats) -> bool:
    """True if the replay reached the end: said by the header, or no point without any allocatable memory."""
    said = stats.header.get("complete")
    return bool(said) if said is not None else bool((stats.column("maxmem") > 0).all())


def _most(stats: AllocStats, key: str) -> int | None:
    return int(stats.column(key).max()) if stats.has(key) else None


def _times(stats: AllocStats) -> tuple[float, float, float]:
    times = op_times(stats)[timed_points(stats)]
    if times.size == 0:
        return float("nan"), float("nan"), float("nan")
    return float(times.mean()), float(np.median(times)), float(np.percentile(times, 99))


def _number(stats: AllocStats, key: str) -> float | None:
    value = stats.header.get(key)
    return float(value) if isinstance(value, (int, float)) else None


def _spread(stats: AllocStats) -> float | None:
    """None unless there are two passes or more."""
    times = stats.header.get("replay_times_per_op")
    if not isinstance(times, list) or len(times) < 2 or not all(isinstance(t, (int, float)) for t in times):
        return None
    return (max(times) / min(times) - 1) * 100 if min(times) > 0 else None


def fragmentation(stats: AllocStats) -> np.ndarray | None:
    """Percent that is resident (else committed, else up to the highest address) beyond what is live, at each
    point; 0 where nothing is live. None if the file knows none of the three."""
    key = next((key for key in ("resident", "committed", "highest") if stats.has(key)), None)
    if key is None:
        return None
    used = stats.column("used")
    beyond = np.maximum(stats.column(key) - used, 0)
    return np.divide(100.0 * beyond, used, out=np.zeros(len(stats)), where=used > 0)


def summarise(stats: AllocStats) -> Summary:
    """Reduce a result file to its Summary."""
    mean, median, p99 = _times(stats)
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
        highest=_most(stats, "highest"),
        committed=_most(stats, "committed"),
        resident=_most(stats, "resident"),
        overhead=_most(stats, "overhead"),
        mean_ns=mean,
        median_ns=median,
        p99_ns=p99,
        clock_step=step,
        median_below_step=median < least,
        p99_below_step=p99 < least,
        smallest_maxmem=int(stats.column("maxmem").min()),
        confined=None if confined is None else str(confined),
        replay_ns=_number(stats, "replay_time_per_op"),
        replay_spread=_spread(stats),
        fragmentation=None if stats.driver == "null" else _number(stats, "fragmentation_1"),
        fragmentation_resident=_number(stats, "fragmentation_resident_1"),
    )


def memory_scale(files: list[AllocStats], key: str) -> tuple[float, list[str]]:
    """Top of an axis on which the files' memory can be read, and the names of those that go beyond it.

    An allocator that needs more than 4 times the median of all would flatten the others; it runs off
    the picture and has to be named."""
    tops = {stats.driver: float(stats.column(key).max()) for stats in files}
    limit = 4 * float(np.median(list(tops.values())))
    beyond = [name for name, top in tops.items() if top > limit > 0]
    return max((top for name, top in tops.items() if name not in beyond), default=0.0), beyond


def off_the_picture(files: list[AllocStats], key: str, beyond: list[str]) -> str:
    """The names with their most bytes: `bump (26 MiB)`."""
    hidden = [stats for stats in files if stats.driver in beyond]
    return ", ".join(f"{stats.driver} ({human_bytes(stats.column(key).max())})" for stats in hidden)
