# SPDX-License-Identifier: GPL-2.0-or-later
"""Small inline SVG drawings for the report: a plot area with axes, and shapes in data coordinates.

Own code rather than matplotlib's, because these drawings take their colours from the page's style sheet
(light, dark and print), carry a tooltip on every mark, and stay small. Only what the report's charts need.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape


def decimal_ticks(top: float, most: int = 6) -> list[float]:
    """Round values 0, s, 2s ... up to `top`, at most `most` + 1 of them, s being 1, 2 or 5 times 10^n."""
    if top <= 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(top / most))
    step = next(power * m for m in (1, 2, 5, 10, 20) if top / (power * m) <= most)
    return [step * i for i in range(int(top / step + 1e-9) + 1)]


def binary_ticks(top: float, most: int = 5) -> list[float]:
    """As decimal_ticks, with powers of two as steps: for bytes."""
    step = 2.0 ** max(0, math.ceil(math.log2(max(top, 1.0) / most)))
    return [step * i for i in range(int(top / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high]."""
    return [10.0**k for k in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


LETTER, GAP = 7.0, 6.0  # pixels: a letter of a label, on average at most, and the least space between two


@dataclass
class Plot:
    """A plot area of width x height pixels; data coordinates x in [0, x_top] and y in [y_low, y_top].

    Shapes are appended in drawing order; svg() gives the drawing. Text is escaped here, so that names from a
    trace can never become markup.
    """

    title: str
    x_top: float
    y_top: float
    y_low: float = 0.0
    y_log: bool = False
    width: int = 960
    height: int = 300
    left: int = 76
    right: int = 16
    top: int = 14
    bottom: int = 46
    shapes: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """Pixel column of a data value."""
        return self.left + (self.width - self.left - self.right) * value / (self.x_top or 1)

    def y(self, value: float) -> float:
        """Pixel row of a data value."""
        span = self.height - self.top - self.bottom
        if self.y_log:
            low, high = math.log10(self.y_low), math.log10(self.y_top)
            share = (math.log10(max(value, self.y_low)) - low) / ((high - low) or 1)
        else:
            share = (value - self.y_low) / ((self.y_top - self.y_low) or 1)
        return self.top + span * (1 - share)

    def add(self, shape: str, /, **values: object) -> None:
        """Append a shape; the values are escaped into the {places} of the shape."""
        self.shapes.append(shape.format(**{name: escape(value) for name, value in values.items()}))

    def _apart(self, left: float, right: float, label: Callable[[float], str]) -> bool:
        """Do the labels of two ticks leave a gap between them?"""
        needed = (len(label(left)) + len(label(right))) / 2 * LETTER + GAP
        return self.x(right) - self.x(left) >= needed

    def _readable(self, ticks: Sequence[float], label: Callable[[float], str], last: float | None) -> list[float]:
        """As many of the ticks, at equal steps, as have room for their labels, and the last one."""
        some = list(ticks)
        for step in range(1, len(ticks) + 1):
            some = list(ticks[::step])
            if all(self._apart(*pair, label) for pair in zip(some, some[1:])):
                break
        if last is None:
            return some
        return [tick for tick in some if self._apart(tick, last, label)] + [last]

    def x_axis(
        self, ticks: Sequence[float], label: Callable[[float], str], name: str, last: float | None = None
    ) -> None:
        """Ticks below the plot, in order, as far as their labels do not collide, a last one that is always there, and
        the axis' name."""
        base = self.height - self.bottom
        for tick in self._readable(ticks, label, last):
            self.add(
                '<line class="tick" x1="{x}" x2="{x}" y1="{y}" y2="{z}"/>',
                x=f"{self.x(tick):.1f}",
                y=base,
                z=base + 4,
            )
            self.label(self.x(tick), base + 17, label(tick), "middle")
        self.add(
            '<line class="axis" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>',
            a=self.left,
            b=self.width - self.right,
            y=base,
        )
        self.label((self.left + self.width - self.right) / 2, self.height - 6, name, "middle", "name")

    def y_axis(self, ticks: Sequence[float], label: Callable[[float], str]) -> None:
        """Grid lines with their values on the left."""
        for tick in ticks:
            row = f"{self.y(tick):.1f}"
            self.add(
                '<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>',
                a=self.left,
                b=self.width - self.right,
                y=row,
            )
            self.label(self.left - 8, float(row) + 4, label(tick), "end")

    def label(self, x: float, y: float, text: str, anchor: str, kind: str = "label") -> None:
        """Text at a pixel position."""
        self.add(
            '<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>',
            kind=kind,
            x=f"{x:.1f}",
            y=f"{y:.1f}",
            anchor=anchor,
            text=text,
        )

    def bar(self, x0: float, x1: float, y1: float, kind: str, tip: str) -> None:
        """A bar from the axis up to y1, between two data columns."""
        row = min(self.y(y1), self.y(self.y_low) - 1) if y1 > self.y_low else self.y(self.y_low)
        self.add(
            '<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}"><title>{tip}</title></rect>',
            kind=kind,
            x=f"{self.x(x0):.1f}",
            y=f"{row:.1f}",
            w=f"{max(self.x(x1) - self.x(x0), 0.5):.1f}",
            h=f"{self.y(self.y_low) - row:.1f}",
            tip=tip,
        )

    def _path(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def line(
        self, points: Sequence[tuple[float, float]], kind: str, color: str = "", dash: str = "", tip: str = ""
    ) -> None:
        """A line through the points; colour and dashes only where the style sheet does not give them."""
        self.add(
            '<polyline class="{kind}" points="{points}" stroke="{color}" stroke-dasharray="{dash}">'
            "<title>{tip}</title></polyline>",
            kind=kind,
            points=self._path(points),
            color=color or "currentColor",
            dash=dash or "none",
            tip=tip,
        )

    def area(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """The area between the points and the axis."""
        if points:
            closed = [(points[0][0], self.y_low), *points, (points[-1][0], self.y_low)]
            self.add('<polygon class="{kind}" points="{points}"/>', kind=kind, points=self._path(closed))

    def svg(self) -> Markup:
        """The drawing as markup, named for screen readers."""
        head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>').format(
            self.width, self.height, self.title, self.title
        )
        return head + Markup("".join(self.shapes)) + Markup("</svg>")
