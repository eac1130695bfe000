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
from steve.allocstats.medians import Median
from steve.plots.style import MUTED, binary_step
from steve.terminal.units import human_bytes, human_ns

MOST_TICKS = 10  # of a logarithmic axis
# between two powers of the base: which parts have a tick, the densest first
PARTS = {
    10: ((1, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 4, 5, 7), (1, 2, 3, 5), (1, 3), (1,)),
    2: ((1, 1.25, 1.5, 1.75), (1, 1.5), (1,)),
}
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
Segment = tuple[float, float, float, float]  # from x, y to x, y


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _crosses(line: Segment, box: Box) -> bool:
    """Is a part of the line in the box?"""
    x, y, begin, end = line[0], line[1], 0.0, 1.0
    for at, way, low, high in ((x, line[2] - x, box[0], box[2]), (y, line[3] - y, box[1], box[3])):
        if abs(way) < 1e-9:
            if not low < at < high:
                return False
            continue
        first, second = sorted(((low - at) / way, (high - at) / way))
        begin, end = max(begin, first), min(end, second)
    return begin < end


def _leader(x: float, y: float, box: Box) -> Segment:
    """The line from a point to the nearest place of its label."""
    return x, y, min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])


class Labels:
    """Places for labels in a panel, so that none overlaps another one.

    inside: the panel. signs: the boxes of the points, bars: those of their error bars. If possible, a label also covers no
    sign, no bar and no line from a point to its label or of the panel, and its own line crosses no label and no other sign.
    Of such places the nearest is used."""

    def __init__(self, inside: Box, signs: list[Box], bars: list[Box], lines: list[Segment]) -> None:
        self.inside, self.signs, self.bars = inside, signs, bars
        self.placed: list[Box] = []
        self.lines = list(lines)

    def _flaw(self, box: Box, line: Segment, sign: Box) -> int:
        """How bad a place is: 0 has no fault, 3 overlaps a label."""
        if any(_overlap(box, other) for other in self.placed):
            return 3
        if any(_overlap(box, other) for other in self.signs):
            return 2
        if any(_overlap(box, other) for other in self.bars) or any(_crosses(other, box) for other in self.lines):
            return 1
        others = [other for other in (*self.placed, *self.signs) if other != sign]
        return 1 if any(_crosses(line, other) for other in others) else 0

    def place(self, sign: Box, width: float, height: float) -> tuple[float, float]:
        """The lower left corner of the label of the point with this sign."""
        x, y = (sign[0] + sign[2]) / 2, (sign[1] + sign[3]) / 2
        best: tuple[int, Box, Segment] | None = None
        far, farthest = 11.0, max(self.inside[2] - self.inside[0], self.inside[3] - self.inside[1])
        while far < farthest and (best is None or best[0]):
            for angle in (0, 180, 90, 270, 30, 330, 150, 210, 60, 300, 120, 240):
                dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
                left = x + far * dx + (0 if dx > 0.3 else -width if dx < -0.3 else -width / 2)
                bottom = y + far * dy - height / 2
                box = (left - 2, bottom, left + width + 2, bottom + height)
                if box[0] < self.inside[0] or box[1] < self.inside[1]:
                    continue
                if box[2] > self.inside[2] or box[3] > self.inside[3]:
                    continue
                line = _leader(x, y, box)
                flaw = self._flaw(box, line, sign)
                if best is None or flaw < best[0]:
                    best = flaw, box, line
                if not flaw:
                    break
            far *= 1.3
        if best is None:
            return x + 11, y - height / 2
        self.placed.append(best[1])
        self.lines.append(best[2])
        return best[1][0] + 2, best[1][1]


def _bars(axes: Any, x: Median, y: Median) -> list[Box]:
    """The pixels of the error bars of a point."""

    def pixels(*at: float) -> tuple[float, float]:
        left, bottom = axes.transData.transform([max(value, 1e-3) for value in at])
        return left, bottom

    px, py = pixels(x.value, y.value)
    left, right = pixels(x.low, y.value)[0], pixels(x.high, y.value)[0]
    low, high = pixels(x.value, y.low)[1], pixels(x.value, y.high)[1]
    return [(px - 3, low, px + 3, high), (left, py - 3, right, py + 3)]


def _draw_labels(axes: Any, points: list[Point], steps: list[tuple[float, float]]) -> None:
    """Write the labels beside the points, joined by a line to points that are not close. steps: the corners of the frontier."""
    figure = axes.figure
    figure.canvas.draw()  # so that the positions in pixels are final
    centres = [axes.transData.transform((point.space.value, max(point.time.value, 1e-3))) for point in points]
    signs = [(px - 6, py - 6, px + 6, py + 6) for px, py in centres]
    bars = [bar for point in points for bar in _bars(axes, point.space, point.time)]
    corners = [axes.transData.transform(corner) for corner in steps]
    lines = [(*begin, *end) for begin, end in zip(corners, corners[1:])]
    labels = Labels(tuple(axes.get_window_extent().extents), signs, bars, lines)
    for point, sign, (px, py) in zip(points, signs, centres):
        text = axes.text(0, 0, point.label, fontsize=9)
        size = text.get_window_extent()
        text.remove()
        left, bottom = labels.place(sign, size.width, size.height)
        gap = math.hypot(max(left - px, px - left - size.width, 0), max(bottom - py, py - bottom - size.height, 0))
        axes.annotate(
            point.label,
            (point.space.value, point.time.value),
            ((left - px) * 72 / figure.dpi, (bottom - py) * 72 / figure.dpi),
            textcoords="offset points",
            color=point.color,
            fontsize=9,
            verticalalignment="bottom",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4},
            arrowprops=(
                {"arrowstyle": "-", "color": point.color, "linewidth": 0.7, "alpha": 0.7} if gap > 12 else None
            ),
        )


def log_ticks(low: float, high: float, base: int) -> list[float]:
    """Round numbers within the limits of a logarithmic axis: as many as there is room for, so that no part of the axis is
    without. base: 10 or 2."""
    powers = range(math.floor(math.log(low, base)), math.ceil(math.log(high, base)) + 1)
    found: list[float] = []
    for parts in PARTS[base]:
        found = [each for power in powers for part in parts if low <= (each := part * float(base) ** power) <= high]
        if len(found) <= MOST_TICKS:
            return found
    return found[:: -(-len(found) // MOST_TICKS)]


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
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(FixedLocator(log_ticks(low, high, base)))
    set_limits(low, high)
    return ", log scale"


def _corners(best: list[Point]) -> list[tuple[float, float]]:
    """The corners of the step line through the points of the frontier, which are in the order of their space."""
    found = [(point.space.value, point.time.value) for point in best]
    between = [[(later[0], earlier[1]), later] for earlier, later in zip(found, found[1:])]
    return [*found[:1], *(corner for pair in between for corner in pair)]


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
    steps = _corners(best)
    axes.plot(
        [space for space, _ in steps],
        [time for _, time in steps],
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
    _draw_labels(axes, points, steps)
