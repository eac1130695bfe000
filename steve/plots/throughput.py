"""The figure of `steve compare --threads`: operations in a second against the number of threads.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os

from steve.allocstats.throughput import Throughput
from steve.plots.style import MUTED, distinct_styles, drawing, save
from steve.terminal.units import human_count


def draw_throughput(result: Throughput, stem: str, formats: list[str]) -> list[str]:
    """Draw to STEM.FORMAT for each of `formats`; return the paths written."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    styles = distinct_styles([curve.name for curve in result.curves])
    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(9.5, 5.6))
        figure.subplots_adjust(left=0.1, right=0.8, top=0.83, bottom=0.11)
        figure.text(0.03, 0.955, os.path.basename(result.ops), fontsize=15, fontweight="bold", va="center")
        subtitle = (
            f"the operations of {result.threads_of_file} threads on 1 to {result.threads[-1]} real ones · medians of "
            f"{result.rounds} rounds with 95% intervals"
        )
        figure.text(0.03, 0.912, subtitle, color=MUTED, va="center", fontsize=9)
        apart = 0.012 * result.threads[-1]  # so that the intervals of several allocators can be seen
        curves = sorted(result.curves, key=lambda one: -one.rate(result.threads[-1]).value)
        for number, curve in enumerate(curves):
            rates = [curve.rate(count) for count in result.threads]
            axes.errorbar(
                [count + apart * (number - (len(curves) - 1) / 2) for count in result.threads],
                [rate.value for rate in rates],
                yerr=[[rate.value - rate.low for rate in rates], [rate.high - rate.value for rate in rates]],
                label=curve.name + (" (locked)" if curve.is_locked and curve.name != "null" else ""),
                marker="o",
                markersize=4,
                capsize=2.5,
                elinewidth=1,
                **styles[curve.name],
            )
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(FixedLocator(result.threads))
        axes.yaxis.set_major_formatter(FuncFormatter(human_count))
        axes.set_xlabel("real threads")
        axes.set_ylabel("operations in a second")
        axes.set_title("Throughput: more is better")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return save(figure, stem, formats)
