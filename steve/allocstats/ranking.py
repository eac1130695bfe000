"""Rank allocators by Speed and Space over the data points of one program.

Speed is the time x of an operation; less is better. If all files have mean times of the operations between two data
points, it is that mean; otherwise, and in the rules of the first Steve, it is the time of the single operation at the
data point. Space is the largest block x that can still be allocated, in percent of the heap; more is better. At every
data point the n allocators get ranks j = 0 .. n-1. With m data points:

    penalty(c)  100 * sum j / (m*n)
    penalty(w)  100 * sum j*|x-best|/best / (m*n); a best of 0 counts as 1
    best, worst percent of the points at which the allocator came first and last
    average, median of x

There are two sets of rules. `honest_tables` is the default: only points that an allocator reached and timed count for
it; `points` is their percentage; n is the number of allocators that reached the point; equal values share the mean of
their ranks, so that several can be best. `compat_tables` applies the rules of the first Steve: a file is cut after its
first maxmem of 0 and padded with 0 to the longest file; an F repeats the time of the N before it; equal values are
ranked in the order of the files (in reverse order for Space), and the first of them is both best and worst; the weight
is j*|x-1| if the best is 0; the median is element m/2. These rules reproduce the tables published for the first Steve.
Use them only for comparison with those tables: padding makes an allocator that ran out of memory look fast.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steve.allocstats.parse import AllocStats
from steve.allocstats.result import batch_means, batch_points, op_times, timed_points
from steve.system.errors import SteveError


@dataclass
class Row:
    """One allocator's line of a table; penalties, best, worst and points in percent."""

    allocator: str
    penalty_count: float
    penalty_weighted: float
    best: float
    worst: float
    average: float
    median: float
    points: float


@dataclass
class Ranking:
    """A ranking. title: "Speed" or "Space"; unit: that of average and median; rows: from best to worst; rules: "honest"
    or "compat"."""

    title: str
    unit: str
    rows: list[Row]
    rules: str

    def as_dict(self) -> dict[str, Any]:
        """The table as plain values, for JSON; NaN becomes None."""
        data = asdict(self)
        for row in data["rows"]:
            for key, value in row.items():
                row[key] = None if isinstance(value, float) and not np.isfinite(value) else value
        return data


def _check(files: list[AllocStats]) -> None:
    if not files:
        raise SteveError("no allocstats files to rank")
    if len({stats.opsfile for stats in files}) > 1:
        names = ", ".join(sorted({stats.opsfile for stats in files}))
        raise SteveError(f"these files replay different programs ({names}); rank one program at a time")


def _space(stats: AllocStats) -> np.ndarray:
    return 100.0 * stats.column("maxmem") / stats.heap_size


def _row(
    name: str,
    places: np.ndarray,
    weights: np.ndarray,
    x: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    sizes: np.ndarray,
    points: float,
    median: float,
) -> Row:
    count = max(len(x), 1)
    return Row(
        name,
        100.0 * float((places / sizes).sum()) / count,
        100.0 * float((weights / sizes).sum()) / count,
        100.0 * float(first.sum()) / count,
        100.0 * float(last.sum()) / count,
        float(x.mean()) if len(x) else float("nan"),
        median,
        points,
    )


# -- honest rules ------------------------------------------------------------------------------


def _aligned(files: list[AllocStats], values: list[np.ndarray], masks: list[np.ndarray]) -> np.ndarray:
    """A matrix [allocator, point] over the union of all op_index. NaN where an allocator has no value. values, masks:
    for each file one element for each of its data points; the mask selects those that count."""
    indexes = [stats.column("op_index")[mask] for stats, mask in zip(files, masks)]
    union = np.unique(np.concatenate(indexes))
    matrix = np.full((len(files), len(union)), np.nan)
    for row, (index, value, mask) in enumerate(zip(indexes, values, masks)):
        matrix[row, np.searchsorted(union, index)] = value[mask]
    return matrix


def _shared_places(matrix: np.ndarray) -> np.ndarray:
    """The rank of each value in its column, 0 for the smallest. Equal values share the mean of their ranks; NaN stays
    NaN."""
    less = np.stack([(matrix < row).sum(axis=0) for row in matrix]).astype(float)
    equal = np.stack([(matrix == row).sum(axis=0) for row in matrix]).astype(float)
    places = less + (equal - 1) / 2
    places[np.isnan(matrix)] = np.nan
    return places


def _honest(title: str, unit: str, files: list[AllocStats], matrix: np.ndarray, sign: float) -> Ranking:
    known = ~np.isnan(matrix)
    places = _shared_places(sign * matrix)
    size = known.sum(axis=0)
    best = np.nanmin(sign * matrix, axis=0) * sign
    worst = np.nanmax(sign * matrix, axis=0) * sign
    scale = np.where(best == 0, 1.0, np.abs(best))
    rows = []
    for name, row, place, mask in zip((s.driver for s in files), matrix, places, known):
        x, top = row[mask], best[mask]
        weights = place[mask] * np.abs(x - top) / scale[mask]
        median = float(np.median(x)) if len(x) else float("nan")
        rows.append(
            _row(
                name,
                place[mask],
                weights,
                x,
                x == top,
                x == worst[mask],
                size[mask],
                100.0 * float(mask.mean()),
                median,
            )
        )
    return Ranking(title, unit, sorted(rows, key=lambda r: r.penalty_count), "honest")


# drivers that are not real allocators, and what they are
UNREAL = {
    "null": "allocates nothing: it shows what the replay itself costs",
    "optimal": "is no allocator but the bound of what one can do",
}


def ranked(files: list[AllocStats]) -> list[AllocStats]:
    """The files without those of UNREAL drivers, which would take first places from real allocators. If there are only
    UNREAL drivers, all files."""
    return [stats for stats in files if stats.driver not in UNREAL] or files


def unranked(files: list[AllocStats]) -> list[str]:
    """A sentence for each driver that ranked() leaves out."""
    out = {stats.driver for stats in files} - {stats.driver for stats in ranked(files)}
    return [f"{name} {UNREAL[name]}; it is drawn but not ranked" for name in UNREAL if name in out]


def honest_tables(files: list[AllocStats]) -> list[Ranking]:
    """The tables Speed and Space by the default rules, for the allocators that ranked() returns. SteveError if the
    files are of different programs."""
    _check(files)
    files = ranked(files)
    if all(batch_points(stats).any() for stats in files):
        masks, values = [batch_points(stats) for stats in files], [batch_means(stats) for stats in files]
    else:
        masks, values = [timed_points(stats) for stats in files], [op_times(stats) for stats in files]
    times = _aligned(files, values, masks)
    everywhere = [np.ones(len(stats), bool) for stats in files]
    spaces = _aligned(files, [_space(stats) for stats in files], everywhere)
    return [_honest("Speed", "ns", files, times, 1.0), _honest("Space", "% of heap", files, spaces, -1.0)]


# -- the first Steve's rules -------------------------------------------------------------------


def _cut(stats: AllocStats) -> int:
    """The number of points up to and including the first at which nothing can be allocated."""
    empty = np.flatnonzero(stats.column("maxmem") == 0)
    return int(empty[0]) + 1 if empty.size else len(stats)


def repeat_frees(stats: AllocStats) -> np.ndarray:
    """The times of the data points in ns; an operation other than N has the time of the last N before it."""
    times = op_times(stats)
    source = np.where(stats.ops == "N", np.arange(len(times)), 0)
    return times[np.maximum.accumulate(source)]


def _padded(files: list[AllocStats], values: list[np.ndarray]) -> np.ndarray:
    cuts = [_cut(stats) for stats in files]
    matrix = np.zeros((len(files), max(cuts)))
    for row, (cut, value) in enumerate(zip(cuts, values)):
        matrix[row, :cut] = value[:cut]
    return matrix


def _file_order_places(matrix: np.ndarray, reverse: bool) -> np.ndarray:
    order = np.argsort(matrix, axis=0, kind="stable")
    if reverse:
        order = order[::-1]
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(len(matrix))[:, None].repeat(matrix.shape[1], 1), axis=0)
    return places


def _compat(title: str, unit: str, files: list[AllocStats], matrix: np.ndarray, reverse: bool) -> Ranking:
    n, m = matrix.shape
    places = _file_order_places(matrix, reverse)
    best = matrix.max(axis=0) if reverse else matrix.min(axis=0)
    worst = matrix.min(axis=0) if reverse else matrix.max(axis=0)
    first = np.argmax(matrix == best, axis=0)  # argmax finds the first True: the first file
    last = np.argmax(matrix == worst, axis=0)
    divisor = np.where(best == 0, 1.0, best)
    weights = places * np.abs(matrix - divisor) / divisor
    sizes = np.full(m, n)
    rows = [
        _row(
            stats.driver,
            places[i],
            weights[i],
            matrix[i],
            first == i,
            last == i,
            sizes,
            100.0 * _cut(stats) / m,
            float(np.sort(matrix[i])[m // 2]),
        )
        for i, stats in enumerate(files)
    ]
    return Ranking(title, unit, sorted(rows, key=lambda r: r.penalty_count), "compat")


def compat_tables(files: list[AllocStats]) -> list[Ranking]:
    """The tables Speed and Space by the first Steve's rules. SteveError if the files are of different programs."""
    _check(files)
    times = _padded(files, [repeat_frees(stats) for stats in files])
    spaces = _padded(files, [_space(stats) for stats in files])
    return [_compat("Speed", "ns", files, times, False), _compat("Space", "% of heap", files, spaces, True)]
