# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's drawings of a trace: memory over time, lifetimes, size x lifetime. Bounded in size by the
bins."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from steve.terminal.units import counted, human_bytes, human_count, human_ns
from steve.report.collect import TraceData
from steve.report.svg import Plot, binary_ticks, decimal_ticks


@dataclass(frozen=True)
class Drawing:
    """One choice of a chart: a short name for its button, and the drawing."""

    key: str
    name: str
    svg: Markup


# -- memory over time --------------------------------------------------------------------------

_AXES = (
    (
        "operations",
        "operations_end",
        "peak_operation",
        "operations (New to Modify)",
        human_count,
        decimal_ticks,
    ),
    ("instructions", "time_end", "peak_time", "guest instructions", human_count, decimal_ticks),
    (
        "allocated",
        "allocated_end",
        "peak_allocated",
        "bytes allocated since the start",
        human_bytes,
        binary_ticks,
    ),
)


def _strip_text(row: np.void) -> str:
    end, most, blocks, news, frees, reads, writes = (
        int(row[name])
        for name in (
            "operations_end",
            "live_bytes_most",
            "live_blocks_most",
            "news",
            "frees",
            "reads",
            "writes",
        )
    )
    return (
        f"up to operation {end:,}: at most {human_bytes(most)} in {counted(blocks, 'block')}; "
        f"here {news:,} new, {frees:,} freed, {reads:,} reads, {writes:,} writes"
    )


def _timeline_strips(plot: Plot, data: TraceData, ends: np.ndarray) -> None:
    """An invisible bar for each bin that carries its numbers as a tooltip."""
    start = 0.0
    for end, row in zip(ends, data.timeline):
        plot.bar(start, float(end), plot.y_top, "strip", _strip_text(row))
        start = float(end)


def _mark_peak(plot: Plot, at: float, peak: int) -> None:
    x, y = plot.x(at), plot.y(peak)
    plot.add(
        '<line class="peak" x1="{x}" x2="{x}" y1="{y}" y2="{z}"/>' '<circle class="peak" cx="{x}" cy="{y}" r="4"/>',
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        z=plot.height - plot.bottom,
    )
    anchor = "end" if x > plot.width / 2 else "start"
    plot.label(x + (-8 if anchor == "end" else 8), max(y - 8, 12), f"peak {human_bytes(peak)}", anchor, "peaktext")


def _mark_named_points(plot: Plot, data: TraceData, column: int) -> None:
    for mark in data.marks:
        x = plot.x(mark[column])
        plot.add(
            '<line class="mark" x1="{x}" x2="{x}" y1="{a}" y2="{b}"><title>{name}</title></line>',
            x=f"{x:.1f}",
            a=plot.top,
            b=plot.height - plot.bottom,
            name=mark[2],
        )


def _memory_plot(
    data: TraceData,
    column: str,
    peak_key: str,
    name: str,
    label: Callable[[float], str],
    ticks: Callable[[float], list[float]],
) -> Markup:
    ends = data.timeline[column].astype(float)
    peak = data.totals["peak_bytes"]
    plot = Plot("Live bytes over " + name, float(ends[-1]), peak * 1.08 or 1.0)
    plot.y_axis(binary_ticks(plot.y_top), human_bytes)
    most = data.timeline["live_bytes_most"].astype(float)
    starts = np.concatenate([[0.0], ends[:-1]])
    points = [(float(x), float(y)) for a, b, y in zip(starts, ends, most) for x in (a, b)]
    plot.area(points, "live")
    plot.line(points, "liveline", tip="most live bytes in each interval")
    if column != "allocated_end":
        _mark_named_points(plot, data, 0 if column == "operations_end" else 1)
    _mark_peak(plot, data.totals[peak_key], peak)  # its text is above the lines of marks
    _timeline_strips(plot, data, ends)
    plot.x_axis(ticks(plot.x_top), label, name)
    return plot.svg()


def memory_over_time(data: TraceData) -> list[Drawing]:
    """Live bytes against operations, instructions and bytes allocated; without those a trace does not
    have."""
    drawings = []
    for key, column, peak, name, label, ticks in _AXES:
        if key == "instructions" and data.time_unit == "nanoseconds":
            name, label = "time since the start", human_ns
        elif key == "instructions" and data.time_unit != key:
            name = f"{data.time_unit} since the start"
        if len(data.timeline) and data.timeline[column][-1] > 0:
            drawings.append(Drawing(key, name, _memory_plot(data, column, peak, name, label, ticks)))
    return drawings


def blocks_over_time(data: TraceData) -> Markup:
    """Live blocks against operations."""
    ends = data.timeline["operations_end"].astype(float)
    most = data.timeline["live_blocks_most"].astype(float)
    plot = Plot("Live blocks over operations", float(ends[-1]), float(most.max()) * 1.08 or 1.0, height=190)
    plot.y_axis(decimal_ticks(plot.y_top, 4), human_count)
    starts = np.concatenate([[0.0], ends[:-1]])
    points = [(float(x), float(y)) for a, b, y in zip(starts, ends, most) for x in (a, b)]
    plot.area(points, "blocks")
    plot.line(points, "blocksline", tip="most live blocks in each interval")
    _timeline_strips(plot, data, ends)
    plot.x_axis(decimal_ticks(plot.x_top), human_count, "operations (New to Modify)")
    return plot.svg()


# -- lifetimes ---------------------------------------------------------------------------------

FOREVER = 64


def _power_text(exponent: int) -> str:
    """2^exponent, short: in full up to 512, then in K, M... that are powers of 1024."""
    return f"{1 << exponent % 10}{('', ' Ki', ' Mi', ' Gi', ' Ti', ' Pi', ' Ei')[exponent // 10]}"


def _range_text(bin_number: int, label: Callable[[float], str]) -> str:
    low, high = 1 << bin_number, (1 << (bin_number + 1)) - 1
    return label(low) if low == high else f"{label(low)} to {label(high)}"


def _lifetime_plot(
    counts: np.ndarray, what: str, label: Callable[[float], str], ticks: Callable[[float, int], list[float]]
) -> Markup:
    used = np.flatnonzero(counts[:FOREVER])
    columns = int(used[-1]) + 1 if used.size else 1
    plot = Plot(f"Lifetimes of {what}", columns + 2.0, float(counts.max()) * 1.08 or 1.0, height=240, right=44)
    plot.y_axis(ticks(plot.y_top, 4), label)
    total = float(counts.sum()) or 1.0
    for k in range(columns):
        share = 100 * float(counts[k]) / total
        plot.bar(
            k + 0.06,
            k + 0.94,
            float(counts[k]),
            "bar",
            f"{_range_text(k, human_count)} operations: {label(float(counts[k]))} ({share:.1f}% of {what})",
        )
    never = float(counts[FOREVER])
    plot.bar(
        columns + 1.06,
        columns + 1.94,
        never,
        "bar never",
        f"never freed: {label(never)} ({100 * never / total:.1f}% of {what})",
    )
    plot.x_axis(
        [k + 0.5 for k in range(columns)],
        lambda x: "never freed" if x > columns else _power_text(int(x)),
        "lifetime in operations, from the value below the bar to twice that (log scale)",
        columns + 1.5,
    )
    return plot.svg()


def lifetimes(data: TraceData) -> list[Drawing]:
    """Histogram of lifetimes in log bins, by blocks and by bytes; never-freed blocks apart."""
    return [
        Drawing(
            "blocks",
            "blocks",
            _lifetime_plot(data.map_blocks.sum(axis=0), "blocks", human_count, decimal_ticks),
        ),
        Drawing("bytes", "bytes", _lifetime_plot(data.map_bytes.sum(axis=0), "bytes", human_bytes, binary_ticks)),
    ]


# -- size x lifetime ---------------------------------------------------------------------------


def _map_cells(plot: Plot, counts: np.ndarray, rows: int, columns: int, label: Callable[[float], str]) -> None:
    top = np.log1p(float(counts.max())) or 1.0
    for size, life in zip(*np.nonzero(counts)):
        column = columns + 1 if life == FOREVER else int(life)
        value = float(counts[size, life])
        when = "never freed" if life == FOREVER else f"freed after {_range_text(int(life), human_count)} operations"
        low = human_bytes(1 << int(size)) if size else "0 B"
        plot.add(
            '<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" fill-opacity="{o}">'
            "<title>{tip}</title></rect>",
            kind="cell never" if life == FOREVER else "cell",
            x=f"{plot.x(column) + 0.5:.1f}",
            y=f"{plot.y(float(size) + 1) + 0.5:.1f}",
            w=f"{plot.x(1) - plot.x(0) - 1:.1f}",
            h=f"{plot.y(rows - 1.0) - plot.y(rows) - 1:.1f}",
            o=f"{0.10 + 0.90 * np.log1p(value) / top:.2f}",
            tip=f"{low} to {human_bytes((2 << int(size)) - 1)}, {when}: {label(value)}",
        )


def _map_plot(counts: np.ndarray, what: str, label: Callable[[float], str]) -> Markup:
    sizes, lives = np.flatnonzero(counts.sum(axis=1)), np.flatnonzero(counts[:, :FOREVER].sum(axis=0))
    rows = int(sizes[-1]) + 1 if sizes.size else 1
    columns = int(lives[-1]) + 1 if lives.size else 1
    plot = Plot(f"Size and lifetime of blocks, {what}", columns + 2.0, float(rows), height=70 + 18 * rows, right=44)
    for row in range(0, rows, 2):
        plot.label(plot.left - 8, plot.y(row + 0.5) + 4, human_bytes(1 << row), "end")
    _map_cells(plot, counts, rows, columns, label)
    plot.x_axis(
        [k + 0.5 for k in range(columns)],
        lambda x: "never freed" if x > columns else _power_text(int(x)),
        "lifetime in operations (log scale); rows: block size (log scale)",
        columns + 1.5,
    )
    return plot.svg()


def size_lifetime_map(data: TraceData) -> list[Drawing]:
    """Map of block size against lifetime; the darker, the more blocks or bytes (log scale)."""
    return [
        Drawing("mapblocks", "blocks", _map_plot(data.map_blocks, "blocks", human_count)),
        Drawing("mapbytes", "bytes", _map_plot(data.map_bytes, "bytes", human_bytes)),
    ]
