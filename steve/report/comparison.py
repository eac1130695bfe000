# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's section on allocators, from allocstats files: drawings and tables of the same program's
replays."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from steve.allocstats.parse import AllocStats, read_results
from steve.allocstats.ranking import UNREAL, Ranking, honest_tables, unranked
from steve.allocstats.result import (
    Summary,
    fragmentation,
    fragmentation_scale,
    memory_scale,
    off_the_picture,
    summarise,
)
from steve.plots.allocators import MEMORY_LABELS, mean_times
from steve.plots.style import distinct_styles
from steve.terminal.units import human_bytes, human_count, human_ns
from steve.report.svg import Plot, binary_ticks, decimal_ticks, log_ticks

MOST_POINTS = 400


@dataclass(frozen=True)
class Comparison:
    """What the section shows. `styles` maps each allocator to (colour, dashes); memory is None without
    spans."""

    opsfile: str
    summaries: list[Summary]
    tables: list[Ranking]
    styles: dict[str, tuple[str, str]]
    memory: Markup | None
    memory_name: str
    beyond: str
    times: Markup
    fragmentation: Markup | None
    remarks: list[str]
    warnings: list[str]
    failed: bool  # an allocator failed, and is left out


def _dashes(line: object) -> str:
    return "none" if isinstance(line, str) else ",".join(str(v * 1.6) for v in line[1])  # type: ignore[index]


def _thin(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
    """At most MOST_POINTS points: the largest y of each run of neighbours."""
    run = -(-len(x) // MOST_POINTS)
    tops = [i + int(np.argmax(y[i : i + run])) for i in range(0, len(x), run)]
    return [(float(x[i]), float(y[i])) for i in tops]


def _span_key(files: list[AllocStats]) -> str | None:
    return next((key for key in ("resident", "committed", "highest") if all(s.has(key) for s in files)), None)


def _last_index(files: list[AllocStats]) -> float:
    return max(float(stats.column("op_index")[-1]) for stats in files) or 1.0


def _memory_plot(files: list[AllocStats], key: str, styles: dict[str, tuple[str, str]]) -> Markup:
    top = max(memory_scale(files, key)[0], *(float(stats.column("used").max()) for stats in files))
    plot = Plot(f"Memory of each allocator: {MEMORY_LABELS[key]}", _last_index(files), top * 1.06 or 1.0)
    plot.y_axis(binary_ticks(plot.y_top), human_bytes)
    longest = max(files, key=len)
    plot.area(_thin(longest.column("op_index"), longest.column("used")), "used")
    for stats in files:
        color, dash = styles[stats.driver]
        values = np.minimum(stats.column(key), plot.y_top)
        plot.line(_thin(stats.column("op_index"), values), "series", color, dash, stats.driver)
    plot.x_axis(decimal_ticks(plot.x_top), human_count, "operation (New and Free)")
    return plot.svg()


def _times_plot(files: list[AllocStats], styles: dict[str, tuple[str, str]]) -> Markup:
    series = []
    for stats in files:
        x, y = mean_times(stats)
        if len(y):
            series.append((stats, x, y))
    low = min((float(y.min()) for _, _, y in series), default=1.0)
    high = max((float(y.max()) for _, _, y in series), default=10.0)
    plot = Plot(
        "Time of an operation, running median",
        _last_index(files),
        10 ** np.ceil(np.log10(high * 1.01)),
        10 ** np.floor(np.log10(low)),
        y_log=True,
        height=240,
    )
    plot.y_axis(log_ticks(plot.y_low, plot.y_top), human_ns)
    for stats, x, y in series:
        color, dash = styles[stats.driver]
        step = -(-len(x) // MOST_POINTS)
        plot.line([(float(a), float(b)) for a, b in zip(x[::step], y[::step])], "series", color, dash, stats.driver)
    plot.x_axis(decimal_ticks(plot.x_top), human_count, "operation (New and Free)")
    return plot.svg()


def _fragmentation_plot(files: list[AllocStats], styles: dict[str, tuple[str, str]]) -> Markup | None:
    """How much more than live is resident. What is where little is live does not set the scale."""
    curves = [(stats, fragmentation(stats)) for stats in files if stats.driver not in UNREAL]
    known = [(stats, y) for stats, y in curves if y is not None]
    if not known:
        return None
    plot = Plot("Resident beyond live bytes, percent", _last_index(files), fragmentation_scale(known), height=240)
    plot.y_axis(decimal_ticks(plot.y_top), lambda value: f"{value:g} %")
    for stats, y in known:
        color, dash = styles[stats.driver]
        points = _thin(stats.column("op_index"), np.minimum(y, plot.y_top))
        plot.line(points, "series", color, dash, stats.driver)
    plot.x_axis(decimal_ticks(plot.x_top), human_count, "operation (New and Free)")
    return plot.svg()


def _remarks(files: list[AllocStats]) -> list[str]:
    """What a reader of the tables must know."""
    remarks = []
    if len({stats.heap_size for stats in files}) > 1:
        remarks.append("The heaps differ in size; Space is in percent of each one's own.")
    remarks += [f"{sentence}." for sentence in unranked(files)]
    loose = [stats.driver for stats in files if stats.header.get("confined", True) is False]
    if loose:
        remarks.append(f"Not confined to the heap they were given: {', '.join(loose)}.")
    return remarks


def compare(paths: list[str]) -> Comparison:
    """Read the files and draw the section. SteveError for a file that cannot be read or another program's."""
    files, left_out = read_results(paths)
    tables = honest_tables(files)
    styles = {
        name: (style["color"], _dashes(style["linestyle"]))
        for name, style in distinct_styles([stats.driver for stats in files]).items()
    }
    key = _span_key(files)
    return Comparison(
        opsfile=files[0].opsfile,
        summaries=[summarise(stats) for stats in files],
        tables=tables,
        styles=styles,
        memory=_memory_plot(files, key, styles) if key else None,
        memory_name=MEMORY_LABELS[key] if key else "",
        beyond=off_the_picture(files, key, memory_scale(files, key)[1]) if key else "",
        times=_times_plot(files, styles),
        fragmentation=_fragmentation_plot(files, styles),
        remarks=_remarks(files) + [f"{sentence[0].upper()}{sentence[1:]}." for sentence in left_out],
        warnings=left_out + [text for stats in files for text in stats.warnings],
        failed=bool(left_out),
    )
