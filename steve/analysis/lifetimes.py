"""Micro and macro lifetimes of blocks, and the files the first Steve kept them in.

A block's own accesses are those to it, its other accesses those to any other block while it lives. Its micro
lifetime is other / own (own at least 1), its macro lifetime (own + other) / all accesses: the share of the
program it lives through. Blocks that are never freed live to the end.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from steve.system.output import Output

# the ranges of macro lifetime of the first Steve's plots, and its bins
RANGES = ((0.0, 0.001), (0.0001, 0.02), (0.01, 0.15), (0.75, 1.0), (0.01, 1.0), (0.0, 1.0))
BINS = 75


class Lifetimes:
    """blocks: an array of steve.kernels._totals.LIFETIME; accesses: of the whole program.

    compat: a block without accesses of its own counts as having one, as in the first Steve."""

    def __init__(self, accesses: int, blocks: "np.ndarray", compat: bool = False) -> None:
        import numpy as np

        self.accesses = accesses
        self.blocks = blocks
        self.compat = compat
        at_least_one = np.maximum(blocks["own"], 1)
        own = at_least_one if compat else blocks["own"]
        self.micro = blocks["other"] / at_least_one
        self.macro = (own + blocks["other"]) / max(accesses, 1)

    def within(self, low: float, high: float) -> "np.ndarray":
        """The macro lifetimes of a range: low included, high only if it is 1."""
        keep = (self.macro >= low) & ((self.macro < high) | (high >= 1.0))
        return self.macro[keep]

    def histogram(self, low: float, high: float) -> dict:
        """low, high, blocks and the counts of BINS equal bins."""
        import numpy as np

        counts, _ = np.histogram(np.minimum(self.within(low, high), 1.0), bins=BINS, range=(low, high))
        return {"low": low, "high": high, "blocks": int(counts.sum()), "bins": counts.tolist()}


def range_name(low: float, high: float) -> str:
    """As in file names: thousandths without the fraction."""
    return f"{int(low * 1000)}-{int(high * 1000)}"


def write_lifetime(out: "Output", lifetimes: Lifetimes) -> None:
    """The -lifetime file: one JSON object, {"mod-op-count": N, "lifetime-ops": {"HANDLE": [own, other],
    ...}}."""
    from steve.kernels import _totals

    out.write(f'{{"mod-op-count": {lifetimes.accesses}, "lifetime-ops": {{')
    _totals.write_lifetime_pairs(out.fd, lifetimes.blocks)
    out.write("}}")


def write_statistics(out: "Output", lifetimes: Lifetimes, unmatched: int) -> None:
    """The -statistics file: blocks by micro lifetime, then by macro lifetime, then totals."""
    by_micro = lifetimes.micro.argsort(kind="stable")
    out.write("\nOps per handle (sorted by micro lifetime):\n")
    write_lines(out, lifetimes, by_micro, macro=False)
    # two stable sorts, so that blocks with equal macro lifetimes are in the order of micro lifetimes
    by_macro = by_micro[lifetimes.macro[by_micro].argsort(kind="stable")]
    out.write("\nOps per handle (sorted by macro lifetime):\n")
    write_lines(out, lifetimes, by_macro, macro=True)
    out.write(f"\nTotal number of ops: {lifetimes.accesses}\n\nOut of bounds ops ({unmatched} ops):\n[]\n")


def write_lines(out: "Output", lifetimes: Lifetimes, order: "np.ndarray", macro: bool) -> None:
    """One line for each block in the given order: its micro or its macro lifetime."""
    from steve.kernels import _totals

    _totals.write_lifetime_lines(
        out.fd, lifetimes.blocks, order, compat=lifetimes.compat, macro=macro, accesses=lifetimes.accesses
    )


class Pictures:
    """Histograms of the macro lifetimes within ranges, as PNG.

    All are drawn on the same axes, one after the other: to make a figure and to lay it out takes several times as long as
    to draw what changes."""

    def __init__(self, most: int) -> None:
        """most: blocks in the largest bin of any picture; all have room for its number."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(8, 5), dpi=110, layout="constrained")
        self.canvas = FigureCanvasAgg(self.figure)
        self.axes = axes = self.figure.add_subplot()
        axes.set_xlabel("macro lifetime: share of all accesses within the block's life (%)")
        axes.set_ylabel("blocks")
        axes.grid(axis="y", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        self._set({"low": 0.0, "high": 0.001, "bins": [most]}, "title")  # the limit that has the longest label
        self.figure.get_layout_engine().execute(self.figure)
        self.figure.set_layout_engine("none")

    def _set(self, histogram: dict, title: str) -> None:
        """Set what differs between pictures. histogram: of Lifetimes.histogram()."""
        self.axes.set_xlim(histogram["low"] * 100, histogram["high"] * 100)
        self.axes.set_ylim(0, max(histogram["bins"]) * 1.05)
        self.axes.set_title(title, loc="left")

    def write(self, path: str, histogram: dict, title: str) -> None:
        """Write the picture of a range, which contains blocks."""
        import numpy as np

        from steve.system.output import Output

        self._set(histogram, title)
        edges = np.linspace(histogram["low"] * 100, histogram["high"] * 100, len(histogram["bins"]) + 1)
        steps = self.axes.stairs(histogram["bins"], edges, fill=True, color="#0072b2")
        with Output(path) as out, open(out.fd, "wb", closefd=False) as file:
            self.canvas.print_png(file)
        steps.remove()
