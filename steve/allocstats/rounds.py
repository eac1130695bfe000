"""Combine files of repeated replays: the files of one allocator become one, with medians and intervals.

Files belong together if they are of the same allocator, ops file and heap, and have the same data points. Each number
of the combined file is the median over the rounds. The mean times between data points also have the ends of their
intervals of 95%, as the columns batch_low and batch_high.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import numpy as np

from steve.allocstats.medians import band
from steve.allocstats.parse import AllocStats
from steve.allocstats.result import batch_means, batch_points, is_complete


def _header(rounds: list[AllocStats]) -> dict[str, object]:
    header = {**rounds[0].header, "rounds": len(rounds), "complete": all(is_complete(stats) for stats in rounds)}
    times = [stats.header.get("replay_time_per_op") for stats in rounds]
    if all(isinstance(time, (int, float)) for time in times):
        header["replay_times_per_op"] = times
        header["replay_time_per_op"] = float(np.median(times))  # type: ignore
    return header


def _combined(rounds: list[AllocStats]) -> AllocStats:
    """One file of several with the same data points."""
    first = rounds[0]
    shared = [key for key in first.columns if all(key in stats.columns for stats in rounds)]
    columns = {key: np.median([stats.columns[key] for stats in rounds], axis=0) for key in shared}
    if all(batch_points(stats).any() for stats in rounds):
        columns["batch_low"], columns["batch_high"] = band(np.array([batch_means(stats) for stats in rounds]))
    warnings = [warning for stats in rounds for warning in stats.warnings]
    return AllocStats(first.path, _header(rounds), columns, first.ops, warnings)


def combine_rounds(files: list[AllocStats]) -> list[AllocStats]:
    """The files, of which those of repeated replays are combined, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[AllocStats]] = {}
    for stats in files:
        points = (stats.column("op_index").tobytes(), stats.ops.tobytes())
        groups.setdefault((stats.driver, stats.opsfile, stats.heap_size, points), []).append(stats)
    return [_combined(rounds) if len(rounds) > 1 else rounds[0] for rounds in groups.values()]
