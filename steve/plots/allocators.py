"""Figures made from allocstats files: one allocator alone, or several on the same program.

Three panels share the axis of operations. The first shows the time of an operation (logarithmic axis on the left), the
second the largest block that can still be allocated, in percent of the heap (axis on the right), the third memory. If the
largest block hardly changes with any of several allocators, the second panel shows what is resident beyond the live bytes.

In the first panel, a line is the mean time of the operations between two data points. It is smoothed by a running
median over 1/100 of the points, so that the lines of several allocators can be distinguished. A dot is a single
operation. It is drawn only if it took longer than the resolution of the clock, since shorter times are unknown. Files
of the first Steve have no mean times; for them the line is the running median over 1/30 of the single operations.
The grey area has the times below that resolution. Files of repeated replays are one line with a band, which is the 95%
interval of the median of the rounds, smoothed likewise. Nothing is interpolated: where a file has no number, nothing is
drawn.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import Any

import numpy as np

from steve.allocstats.parse import AllocStats
from steve.allocstats.result import (
    batch_means,
    batch_points,
    clock_step,
    fragmentation,
    fragmentation_scale,
    is_complete,
    memory_scale,
    off_the_picture,
    op_times,
    summarise,
    timed_points,
)
from steve.plots.style import FAINT, MEMORY_COLORS, MUTED, binary_step, distinct_styles, drawing, save
from steve.terminal.units import human_bytes, human_count, human_ns, human_ns_or_less

MEMORY_LABELS = {
    "highest": "up to the highest address in use",
    "committed": "committed",
    "resident": "resident (touched pages)",
    "used": "used (live bytes requested)",
}
FLAT = 5.0  # percent of the heap by which the largest block changes at most if it is not shown
LEAST_TIME = 0.1  # ns; shorter times are drawn here, because a logarithmic axis has no 0

_USED_AREA = {"color": MEMORY_COLORS["used"], "alpha": 0.13, "linewidth": 0, "step": "post"}


def running_median(values: np.ndarray, window: int) -> np.ndarray:
    """For each value the median of the `window` values around it, of fewer at the ends. Returns an array of the same
    shape. O(n * window)."""
    window = max(1, min(window | 1, len(values)))
    half = window // 2
    padded = np.concatenate([np.full(half, np.nan), values, np.full(half, np.nan)])
    view = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.nanmedian(view, axis=1)


def _operations_axis(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(human_count))
    axes.set_xlabel("operation (New and Free, counted from the start)")
    low, high = axes.dataLim.intervalx
    axes.set_xlim(low - 0.01 * (high - low + 1), high + 0.01 * (high - low + 1))


def _time_axis(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(human_ns))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("time, log scale")
    axes.set_title("Time of an operation")


def _space_axis(axes: Any) -> None:
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.spines["right"].set_visible(True)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(0, 102)
    axes.set_ylabel("% of the heap")
    axes.set_title("Largest block still allocatable")


def _memory_axis(axes: Any, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MultipleLocator(binary_step(axes.get_ylim()[1])))
    axes.yaxis.set_major_formatter(FuncFormatter(human_bytes))
    axes.set_ylabel("memory")
    axes.set_title(title)


def _draw_dots(axes: Any, stats: AllocStats, mask: np.ndarray, color: str, alpha: float) -> None:
    """Draw the single operations that took longer than the resolution of the clock. mask: of the data points."""
    times = op_times(stats)
    mask = mask & (times > (clock_step(stats) or 0.0) + 0.5)
    axes.plot(
        stats.column("op_index")[mask],
        np.maximum(times[mask], LEAST_TIME),
        ".",
        color=color,
        alpha=alpha,
        markersize=5,
        markeredgewidth=0,
        zorder=2,
        rasterized=True,
    )


def _draw_step(axes: Any, files: list[AllocStats]) -> None:
    """Mark the times below the resolution of the clock, once the limits of the axis are known."""
    step = max((clock_step(stats) or 0.0 for stats in files), default=0.0)
    low, high = axes.get_ylim()
    if not low < step < high:
        return
    axes.axhspan(low, step, color=FAINT, alpha=0.45, linewidth=0, zorder=0)
    axes.set_ylim(low, high)
    text = f"grey: below the step of the clock, {human_ns(step)}: known of means only"
    # below the panel, where no curve runs over it
    axes.text(1.0, -0.04, text, transform=axes.transAxes, color=MUTED, fontsize=8, ha="right", va="top")


def _draw_band(axes: Any, stats: AllocStats, color: str) -> None:
    """The intervals of the means between data points, if there were several rounds."""
    if not stats.has("batch_low"):
        return
    mask = batch_points(stats)
    ends = [np.maximum(stats.column(key)[mask], LEAST_TIME) for key in ("batch_low", "batch_high")]
    low, high = (running_median(end, len(end) // 100) for end in ends)
    axes.fill_between(stats.column("op_index")[mask], low, high, color=color, alpha=0.22, linewidth=0, zorder=2)


def mean_times(stats: AllocStats) -> tuple[np.ndarray, np.ndarray]:
    """The line of the time panel: (op_index, nanoseconds), as the head of this file describes."""
    mask, window = batch_points(stats), 100
    y = batch_means(stats)
    if not mask.any():
        mask, window = timed_points(stats), 30
        y = op_times(stats)
    x, y = stats.column("op_index")[mask], np.maximum(y[mask], LEAST_TIME)
    return x, running_median(y, len(y) // window) if len(y) else y


def _draw_times(axes: Any, stats: AllocStats, style: dict[str, Any], label: str, alpha: float) -> None:
    _draw_dots(axes, stats, timed_points(stats), style["color"], alpha)
    x, y = mean_times(stats)
    if len(y):
        axes.plot(x, y, label=label, zorder=3, **style)
    _draw_band(axes, stats, style["color"])


def _percent_of_heap(stats: AllocStats) -> np.ndarray:
    return 100.0 * stats.column("maxmem") / stats.heap_size


def _draw_space(axes: Any, stats: AllocStats, style: dict[str, Any]) -> None:
    percent = _percent_of_heap(stats)
    axes.plot(stats.column("op_index"), percent, **style)
    if not is_complete(stats):
        axes.plot(
            stats.column("op_index")[-1],
            percent[-1],
            "x",
            color=style["color"],
            markersize=8,
            markeredgewidth=2,
        )


def _figure(plt: Any, title: str, subtitle: str) -> tuple[Any, Any]:
    figure, axes = plt.subplots(3, 1, figsize=(10, 10.4), sharex=True, gridspec_kw={"height_ratios": [1.15, 0.9, 1.15]})
    figure.subplots_adjust(left=0.10, right=0.93, top=0.875, bottom=0.06, hspace=0.27)
    figure.text(0.03, 0.972, title, fontsize=15, fontweight="bold", va="center")
    figure.text(0.03, 0.949, subtitle, color=MUTED, va="center")
    return figure, axes


def _legend(axes: Any, **options: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.2,
            handlelength=2.2,
            columnspacing=1.3,
            **options,
        )


def _rounds(files: list[AllocStats]) -> str:
    """For the subtitle: how many rounds there are, if there are several."""
    most = max(int(stats.header.get("rounds", 1)) for stats in files)
    return f" · medians of {most} rounds with bands of 95%" if most > 1 else ""


# -- one allocator -----------------------------------------------------------------------------


def _draw_memory_kinds(axes: Any, stats: AllocStats) -> None:
    x = stats.column("op_index")
    axes.fill_between(x, stats.column("used"), color=MEMORY_COLORS["used"], alpha=0.12, linewidth=0, step="post")
    widths = {
        "highest": 3.8,
        "committed": 2.2,
        "resident": 1.2,
        "used": 1.8,
    }  # different, so that equal curves all show
    for key, width in widths.items():
        if stats.has(key):
            axes.step(
                x,
                stats.column(key),
                where="post",
                color=MEMORY_COLORS[key],
                label=MEMORY_LABELS[key],
                linewidth=width,
            )


def _draw_times_by_op(axes: Any, stats: AllocStats) -> None:
    means = batch_points(stats).any()
    if means:
        x, y = mean_times(stats)
        axes.plot(x, y, color="#1b1e23", label="mean of all between two points", zorder=3)
        _draw_band(axes, stats, "#1b1e23")
    names = {"N": ("New", "#0072b2"), "F": ("Free", "#d55e00")}
    for letter, (label, color) in names.items():
        mask = timed_points(stats) & (stats.ops == letter)
        x, y = stats.column("op_index")[mask], np.maximum(op_times(stats)[mask], LEAST_TIME)
        _draw_dots(axes, stats, mask, color, 0.6)
        if len(y) and means:
            axes.plot([], [], "o", color=color, label=f"one {label}", markersize=4)
        elif len(y):
            axes.plot(x, running_median(y, len(y) // 30), color=color, label=label)


def draw_single(stats: AllocStats, stem: str, formats: list[str]) -> list[str]:
    """Draw one result file to STEM.FORMAT, for each of `formats`; return the paths written."""
    facts = summarise(stats)
    state = "" if facts.complete else " · ended early: out of memory"
    subtitle = (
        f"{facts.points:,} data points · heap {human_bytes(facts.heap)} · live peak "
        f"{human_bytes(facts.live_peak)} · mean {human_ns(facts.mean_ns)} per operation, of single ones p50 "
        f"{human_ns_or_less(facts.median_ns, facts.median_below_step, facts.clock_step)}, p99 "
        f"{human_ns_or_less(facts.p99_ns, facts.p99_below_step, facts.clock_step)}{_rounds([stats])}{state}"
    )
    with drawing() as plt:
        figure, (times, space, memory) = _figure(plt, f"{stats.driver} on {stats.opsfile}", subtitle)
        _draw_times_by_op(times, stats)
        _time_axis(times)
        _draw_step(times, [stats])
        _legend(times, ncol=3)
        _draw_space(space, stats, distinct_styles([stats.driver])[stats.driver])
        _space_axis(space)
        _draw_memory_kinds(memory, stats)
        _memory_axis(memory, "Memory")
        _legend(memory, ncol=4, fontsize=8)
        _operations_axis(memory)
        return save(figure, stem, formats)


# -- several allocators ------------------------------------------------------------------------


def _span_key(files: list[AllocStats]) -> str | None:
    """The most informative kind of memory that every file has, or None."""
    return next((key for key in ("resident", "committed", "highest") if all(s.has(key) for s in files)), None)


def _draw_spans(axes: Any, files: list[AllocStats], styles: dict[str, dict[str, Any]]) -> str:
    """Draw the memory of all files; return the title of the panel."""
    key = _span_key(files)
    longest = max(files, key=len)
    used = longest.column("used")
    axes.fill_between(longest.column("op_index"), used, label=MEMORY_LABELS["used"], **_USED_AREA)
    if key is None:
        return "Memory: the files record only the live bytes"
    for stats in files:
        axes.step(stats.column("op_index"), stats.column(key), where="post", **styles[stats.driver])
    top, beyond = memory_scale(files, key)
    axes.set_ylim(top=1.06 * max(top, float(used.max()), 1.0))
    if beyond:  # written inside the panel, because the title shares its line with the legend
        off = f"off the picture: {off_the_picture(files, key, beyond)}"
        axes.text(0.008, 0.97, off, transform=axes.transAxes, color=MUTED, va="top", wrap=True, fontsize=9)
    return f"Memory: {MEMORY_LABELS[key]}"


def _beyond_live(files: list[AllocStats]) -> list[tuple[AllocStats, np.ndarray]]:
    """The files with the curves of the middle panel if the largest block is nearly the same all the time with each of them;
    [] if it changes, or such curves are not known for all files."""
    curves = [(stats, y) for stats in files if (y := fragmentation(stats)) is not None]
    flat = all(is_complete(stats) and np.ptp(_percent_of_heap(stats)) <= FLAT for stats in files)
    return curves if flat and len(curves) == len(files) else []


def _draw_middle(axes: Any, files: list[AllocStats], styles: dict[str, dict[str, Any]]) -> None:
    """The second panel of several files."""
    curves = _beyond_live(files)
    if not curves:
        for stats in files:
            _draw_space(axes, stats, styles[stats.driver])
        _space_axis(axes)
        return
    top = fragmentation_scale(curves)
    for stats, y in curves:
        axes.plot(stats.column("op_index"), y, **styles[stats.driver])
    _space_axis(axes)
    axes.set_ylim(0, top)
    axes.set_ylabel("% of the live bytes")
    axes.set_title("Resident beyond the live bytes")
    low, high = (f(files, key=lambda stats: _percent_of_heap(stats).min()) for f in (min, max))
    ends = " to ".join(f"{_percent_of_heap(stats).min():.0f}% ({stats.driver})" for stats in (low, high))
    text = f"The largest block still allocatable hardly changes; it is {ends} of the heap."
    axes.text(1.0, -0.05, text, transform=axes.transAxes, color=MUTED, fontsize=8, ha="right", va="top")


_LEGEND_COLUMNS = 6


def _all_legend(figure: Any, axes: Any) -> None:
    """Draw the legend above all panels and move the panels down to make room for its rows."""
    handles, labels = axes.get_legend_handles_labels()
    rows = -(-len(labels) // _LEGEND_COLUMNS)
    figure.subplots_adjust(top=0.885 - 0.02 * rows)
    figure.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(0.022, 0.944),
        ncol=min(len(labels), _LEGEND_COLUMNS),
        handlelength=2.4,
        columnspacing=1.6,
        fontsize=9.5,
    )


def draw_multiple(app: str, files: list[AllocStats], stem: str, formats: list[str]) -> list[str]:
    """Draw several result files of one program to STEM.FORMAT, for each of `formats`; return the paths written.
    app: the title."""
    styles = distinct_styles([stats.driver for stats in files])
    heaps = sorted({stats.heap_size for stats in files})
    heap = human_bytes(heaps[0]) + (f" to {human_bytes(heaps[-1])}" if len(heaps) > 1 else "")
    dead = [stats.driver for stats in files if not is_complete(stats)]
    subtitle = f"{len(files)} allocators · {files[0].opsfile} · heap {heap}"
    subtitle += _rounds(files)
    subtitle += f" · out of memory (x): {', '.join(dead)}" if dead else ""
    with drawing() as plt:
        figure, (times, space, memory) = _figure(plt, app, subtitle)
        for stats in files:
            _draw_times(times, stats, styles[stats.driver], stats.driver, 0.6)
        _time_axis(times)
        _draw_step(times, files)
        _draw_middle(space, files, styles)
        _memory_axis(memory, _draw_spans(memory, files, styles))
        _legend(memory)
        _operations_axis(memory)
        _all_legend(figure, times)
        return save(figure, stem, formats)
