"""The figure of `steve tune`: time against space of the rows of its table.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steve.allocstats.medians import median
from steve.plots.frontier import Point, draw_plane
from steve.plots.style import MUTED, allocator_style, drawing, save

if TYPE_CHECKING:
    from steve.tune.choice import Choice


def _legend(figure: Any, axes: Any, choice: Choice, points: list[Point]) -> None:
    """Below the panel: which option set each number is, and what the signs mean."""
    from matplotlib.lines import Line2D

    def handle(label: str, **look: Any) -> Any:
        return Line2D([], [], linestyle="none", label=label, **look)

    handles = []
    for point, one in zip(points, choice.rows):
        mark = " (recommended)" if choice.judged and one == choice.recommended else ""
        face = "white" if point.hollow else point.color
        sign = "s" if point.hollow else "o"
        handles.append(handle(f"{point.label}  {one.name}{mark}", marker=sign, color=point.color, markerfacecolor=face))
    handles.append(handle("square: the defaults of an allocator", marker="s", color=MUTED, markerfacecolor="white"))
    handles += axes.get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.02, 0.01), ncol=2, fontsize=8.5)


def draw_tuned(choice: Choice, title: str, stem: str, formats: list[str]) -> list[str]:
    """Draw and save the figure; return the paths. The numbers are those of the rows of the table."""
    bench = choice.whole
    word = {"mean": "mean", "end": "final"}.get(choice.goal, "peak")
    points = [
        Point(
            str(number),
            allocator_style(one.allocator.name)["color"],
            bench.resident(one, choice.reference, choice.goal),
            median(bench.samples[one].cpu),
            one.is_default,
        )
        for number, one in enumerate(choice.rows, 1)
    ]
    legend_rows = (len(points) + 3) // 2
    height = 5.4 + 0.19 * legend_rows
    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(9.5, height))
        figure.subplots_adjust(
            left=0.11, right=0.97, top=1 - 0.75 / height, bottom=(0.75 + 0.19 * legend_rows) / height
        )
        figure.text(0.03, 1 - 0.25 / height, title, fontsize=14, fontweight="bold", va="center")
        draw_plane(axes, points, f"{word} resident memory of heap and allocator", "CPU time of the replay")
        _legend(figure, axes, choice, points)
        return save(figure, stem, formats)
