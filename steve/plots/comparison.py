"""The figure of `steve compare`: time against space, and the latencies of single operations.

In the first panel each allocator is a point with its intervals of 95% (steve/plots/frontier.py). In the second panel,
each row has the median, p99, p99.9 and the maximum of single operations on a logarithmic axis. Times below the step of
the clock are not known and lie in the grey area.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from typing import Any

from steve.allocstats.compare import LATENCIES, Comparison, Entry
from steve.allocstats.medians import Median
from steve.plots.frontier import Point, draw_plane
from steve.plots.style import FAINT, INK, MUTED, distinct_styles, drawing, save
from steve.terminal.units import human_bytes, human_ns

LATENCY_MARKS = {
    "p50_ns": ("o", "median"),
    "p99_ns": ("s", "p99"),
    "p999_ns": ("D", "p99.9"),
    "max_ns": ("|", "maximum"),
}


def _space(entry: Entry, live_peak: int) -> Median:
    """Peak resident bytes over the live peak."""
    resident = entry.median("resident")
    assert resident is not None  # steve-replay always measures it
    return resident / max(live_peak, 1)


def _draw_plane(axes: Any, result: Comparison, styles: dict[str, dict[str, Any]]) -> None:
    points = [
        Point(entry.name, styles[entry.name]["color"], _space(entry, result.live_peak), entry.time)
        for entry in result.real
    ]
    draw_plane(
        axes,
        points,
        f"most resident bytes, in multiples of the most live bytes ({human_bytes(result.live_peak)})",
        "CPU time of an operation",
        lambda value, _: f"{value:g}x",
    )
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)


def _draw_latencies(axes: Any, result: Comparison, styles: dict[str, dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, NullFormatter

    entries = sorted(result.entries, key=lambda e: -e.time.value)
    least = max(result.clock_step, 1.0)
    for row, entry in enumerate(entries):
        color = styles[entry.name]["color"]
        values = {key: max(one.value, least / 2) for key in LATENCIES if (one := entry.median(key))}
        axes.plot(sorted(values.values()), [row] * len(values), color=color, linewidth=1.2, alpha=0.5, zorder=2)
        for key, value in values.items():
            axes.plot(value, row, LATENCY_MARKS[key][0], color=color, markersize=6, markeredgewidth=1.6, zorder=3)
    axes.set_xscale("log")
    axes.set_xlim(left=least / 2.6)
    axes.axvspan(axes.get_xlim()[0], least, color=FAINT, alpha=0.6, linewidth=0, zorder=0)
    axes.set_yticks(range(len(entries)), [entry.name for entry in entries])
    axes.set_ylim(-0.7, len(entries) - 0.3)
    axes.xaxis.set_major_formatter(FuncFormatter(human_ns))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"time, log scale; grey: less than the step of the clock ({human_ns(result.clock_step)})")
    axes.set_title("Single operations")
    marks = [
        Line2D([], [], marker=mark, linestyle="", color=INK, markeredgewidth=1.6, label=label)
        for mark, label in LATENCY_MARKS.values()
    ]
    axes.legend(handles=marks, ncol=4, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)


def draw_comparison(result: Comparison, stem: str, formats: list[str]) -> list[str]:
    """Draw to STEM.FORMAT for each of `formats`; return the paths written."""
    styles = distinct_styles([entry.name for entry in result.entries])
    rows = len(result.entries)
    height = 6.9 + 0.27 * rows
    with drawing() as plt:
        figure, (plane, latencies) = plt.subplots(
            2, 1, figsize=(10, height), gridspec_kw={"height_ratios": [5.0, 0.9 + 0.27 * rows]}
        )
        figure.subplots_adjust(left=0.12, right=0.96, top=1 - 1.05 / height, bottom=0.55 / height, hspace=0.24)
        figure.text(0.03, 1 - 0.28 / height, os.path.basename(result.ops), fontsize=15, fontweight="bold", va="center")
        subtitle = (
            f"heap {human_bytes(result.heap)} for all · medians of {result.rounds} rounds with 95% intervals · "
            f"taken off: {human_ns(result.null_ns.value)} per operation for the replay itself, "
            f"{human_ns(result.clock_cost)} for reading the clock"
        )
        figure.text(0.03, 1 - 0.55 / height, subtitle, color=MUTED, va="center", fontsize=9)
        _draw_plane(plane, result, styles)
        _draw_latencies(latencies, result, styles)
        return save(figure, stem, formats)
