"""A figure of the heap that allocators need for a program over time, with the bound that the program approaches.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import textwrap
from dataclasses import dataclass

from steve.plots.style import INK, MUTED, allocator_style, binary_step, drawing, save
from steve.terminal.units import human_bytes


@dataclass(frozen=True)
class Curve:
    """Resident bytes of an allocator's heap after operations, at data points."""

    allocator: str
    operations: list[int]
    heap: list[int]


def draw_bound(
    curves: list[Curve],
    live: tuple[list[int], list[int]],
    bound: int,
    texts: tuple[str, str, str],
    stem: str,
    formats: list[str],
) -> list[str]:
    """Draw and save the figure; return the paths. live: operations, and the bytes live after them. texts: the title,
    what the bound is, and the source of the program."""
    from matplotlib.ticker import MultipleLocator

    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(9, 5.2))
        axes.fill_between(*live, color=MUTED, alpha=0.25, linewidth=0, label="live bytes")
        for curve in curves:
            axes.plot(curve.operations, curve.heap, label=curve.allocator, **allocator_style(curve.allocator))
        axes.axhline(bound, color=INK, linestyle=(0, (6, 3)), linewidth=1.2, label=f"bound, {human_bytes(bound)}")
        axes.set_ylim(0, None)
        axes.set_xlim(0, None)
        axes.yaxis.set_major_locator(MultipleLocator(binary_step(axes.get_ylim()[1])))
        axes.yaxis.set_major_formatter(human_bytes)
        axes.set_xlabel("operations (News and Frees)")
        axes.set_ylabel("resident memory of the heap")
        axes.set_title(texts[0])
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9)
        notes = [textwrap.fill(f"bound: {texts[1]}", 120), textwrap.fill(texts[2], 120)]
        figure.tight_layout(rect=(0, 0.09, 1, 1))
        figure.text(0.015, 0.02, "\n".join(notes), fontsize=8.5, color=MUTED, va="bottom")
        return save(figure, stem, formats)
