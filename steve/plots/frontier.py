"""The panel of time against space: a point for each allocator or option set, with its intervals, and the frontier.

To the left is less memory, below is less time. An axis whose values differ much is logarithmic. The step line is the
frontier: left of it and below it there is no point.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steve.allocstats.frontier import frontier
from steve.allocstats.intervals import Median
from steve.plots.style import MUTED, binary_step
from steve.terminal.units import human_bytes, human_ns

WIDE = 2.5  # an axis whose values differ by more than this factor is logarithmic


@dataclass(frozen=True)
class Point:
    """A point of the panel. label: the text beside it. hollow: drawn as an empty square."""

    label: str
    color: str
    space: Median
    time: Median
    hollow: bool = False


def _arms(one: Median) -> list[list[float]]:
    """The lengths of an error bar."""
    return [[max(0.0, one.value - one.low)], [max(0.0, one.high - one.value)]]


Box = tuple[float, float, float, float]  # left, bottom, right, top in pixels


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _place_for(x: float, y: float, width: float, height: float, taken: list[Box], inside: Box) -> tuple[float, float]:
    """The lower left corner of a label near (x, y) that overlaps nothing and lies inside, the nearest one; to the right
    of the point if there is none."""
    for far in (11, 20, 32, 46, 62, 80, 100, 125):
        for angle in (0, 180, 90, 270, 30, 330, 150, 210, 60, 300, 120, 240):
            dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            left = x + far * dx + (0 if dx > 0.3 else -width if dx < -0.3 else -width / 2)
            bottom = y + far * dy - height / 2
            box = (left, bottom, left + width, bottom + height)
            if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
                continue
            if not any(_overlap(box, other) for other in taken):
                return left, bottom
    return x + 11, y - height / 2


def _bars(axes: Any, x: float, y: Median) -> Box:
    """The pixels of a point with its upright error bar."""
    left, low = axes.transData.transform((x, max(y.low, 1e-3)))
    high = axes.transData.transform((x, max(y.high, 1e-3)))[1]
    middle = axes.transData.transform((x, max(y.value, 1e-3)))[1]
    return left - 5, min(low, middle - 5), left + 5, max(high, middle + 5)


def _draw_labels(axes: Any, points: list[Point]) -> None:
    """Write the labels beside the points, joined by a line to points that are not close."""
    figure = axes.figure
    figure.canvas.draw()  # so that the positions in pixels are final
    taken = [_bars(axes, point.space.value, point.time) for point in points]
    inside = tuple(axes.get_window_extent().extents)
    for point in points:
        px, py = axes.transData.transform((point.space.value, max(point.time.value, 1e-3)))
        text = axes.text(0, 0, point.label, fontsize=9)
        size = text.get_window_extent()
        text.remove()
        left, bottom = _place_for(px, py, size.width, size.height, taken, inside)
        taken.append((left - 2, bottom, left + size.width + 2, bottom + size.height))
        gap = math.hypot(max(left - px, px - left - size.width, 0), max(bottom - py, py - bottom - size.height, 0))
        axes.annotate(
            point.label,
            (point.space.value, point.time.value),
            ((left - px) * 72 / figure.dpi, (bottom - py) * 72 / figure.dpi),
            textcoords="offset points",
            color=point.color,
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4},
            arrowprops=(
                {"arrowstyle": "-", "color": point.color, "linewidth": 0.7, "alpha": 0.7} if gap > 14 else None
            ),
        )


def _scale(axis: Any, set_limits: Any, values: list[float], base: int) -> str:
    """Set the limits, ticks and scale of an axis for these values, of which those that are not positive are left out.
    base: of the ticks of a logarithmic axis, 10 or 2. Returns the words for the label."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, MultipleLocator

    known = [value for value in values if value > 0] or [1.0]
    low, high = min(known), max(known)
    if high / low < WIDE:
        room = max(0.08 * (high - low), 0.004 * high)
        set_limits(low - room, high + room)
        axis.set_major_locator(MultipleLocator(binary_step(high - low + 2 * room)) if base == 2 else MaxNLocator(6))
        return ""
    low, high = low / 1.25, high * 1.25
    powers = range(math.floor(math.log(low, base)), math.ceil(math.log(high, base)) + 1)
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    parts = (1, 1.5) if base == 2 else (1, 1.5, 2, 3, 5, 7)
    axis.set_major_locator(FixedLocator([part * float(base) ** power for power in powers for part in parts]))
    set_limits(low, high)
    return ", log scale"


def draw_plane(
    axes: Any, points: list[Point], space_label: str, time_label: str, space_form: Callable[..., str] = human_bytes
) -> None:
    """Draw the panel. space_form: how numbers of the axis of space are written; bytes if it is not given."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for point in points:
        axes.errorbar(
            point.space.value,
            point.time.value,
            xerr=_arms(point.space),
            yerr=_arms(point.time),
            fmt="s" if point.hollow else "o",
            color=point.color,
            markerfacecolor="white" if point.hollow else point.color,
            elinewidth=1.3,
            capsize=2.5,
            markersize=7,
            zorder=3,
        )
    best = frontier(points, lambda point: (point.space.value, point.time.value))
    axes.step(
        [point.space.value for point in best],
        [point.time.value for point in best],
        where="post",
        color=MUTED,
        linewidth=1.1,
        linestyle=(0, (4, 2)),
        label="frontier: no other is better in both",
        zorder=1,
    )
    base = 2 if space_form is human_bytes else 10
    spaces = [end for point in points for end in (point.space.low, point.space.value, point.space.high)]
    times = [end for point in points for end in (point.time.low, point.time.value, point.time.high)]
    axes.set_xlabel(space_label + _scale(axes.xaxis, axes.set_xlim, spaces, base))
    axes.set_ylabel(time_label + _scale(axes.yaxis, axes.set_ylim, times, 10))
    for axis, form in ((axes.xaxis, space_form), (axes.yaxis, human_ns)):
        axis.set_major_formatter(FuncFormatter(form))
        axis.set_minor_formatter(NullFormatter())
    axes.set_title("Time against space: less of both is better")
    _draw_labels(axes, points)
