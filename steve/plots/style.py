"""The common style of all figures: colours, fonts, number formats; saving figures.

Colours come from the Okabe-Ito and Tol palettes, which readers with any colour vision can distinguish. Each allocator
has the same colour in every figure, and the same dash pattern, for grey prints. matplotlib is imported only when a
figure is drawn, because importing it takes longer than most commands run.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import io
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steve.system.errors import UsageError
from steve.system.output import Output

FORMATS = ("png", "svg", "pdf")
INK, MUTED, FAINT = "#1b1f24", "#5f6b7a", "#d5dae1"
SOLID, DASH, DOT, DASHDOT = "solid", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2))
MEMORY_COLORS = {"used": "#1b1f24", "highest": "#0072b2", "committed": "#e69f00", "resident": "#009e73"}

# kinds of owners of resident pages (steve.analysis.owners); those of the page of the report are the same
OWNER_COLORS = {
    "live": "#0072b2",
    "overhead": "#7fb2d6",
    "free": "#e69f00",
    "lua": "#d8c300",
    "own": "#009e73",
    "files": "#cc79a7",
    "stacks": "#56b4e9",
    "libraries": "#8a8f96",
    "jit": "#d55e00",
    "recorder": "#b9bec5",
    "other": "#7a5cc8",
    "changed": "#4d3b2a",
}

ALLOCATOR_STYLES: dict[str, tuple[str, Any]] = {
    "glibc": ("#0072b2", SOLID),
    "jemalloc": ("#d55e00", SOLID),
    "mimalloc": ("#009e73", SOLID),
    "luajit": ("#6a4fc0", DASH),
    "tcmalloc": ("#e69f00", SOLID),
    "dlmalloc": ("#cc79a7", SOLID),
    "jeff": ("#882255", DASH),
    "musl": ("#56b4e9", DASH),
    "scudo": ("#999933", SOLID),
    "tbbmalloc": ("#44aa99", DASH),
    "boost": ("#aa4499", DASHDOT),
    "firstfit": ("#8c564b", DASHDOT),
    "bestfit": ("#117733", DASHDOT),
    "buddy": ("#cc6677", DASHDOT),
    "tlsf": ("#88a0d0", DASHDOT),
    "bump": ("#56b4e9", DOT),
    "null": ("#8b95a1", DOT),
    "optimal": ("#1b1f24", DOT),
}
_OTHERS = ("#661100", "#6699cc", "#888888", "#aa4466", "#4477aa", "#228833", "#ccbb44", "#ee6677")


def allocator_style(name: str) -> dict[str, Any]:
    """Colour and dash pattern of an allocator, as keyword arguments of matplotlib. Those of an unknown allocator are
    computed from its name."""
    number = zlib.crc32(name.encode())
    color, line = ALLOCATOR_STYLES.get(name, (_OTHERS[number % len(_OTHERS)], (SOLID, DASH, DASHDOT)[number % 3]))
    return {"color": color, "linestyle": line}


def distinct_styles(names: list[str]) -> dict[str, dict[str, Any]]:
    """The styles of several allocators by name: as allocator_style(), but no two have the same colour and dash
    pattern."""
    taken: set[tuple[str, str]] = set()
    styles = {}
    spare = [(c, d) for d in (SOLID, DASH, DOT, DASHDOT) for c in _OTHERS]
    for name in names:
        style = allocator_style(name)
        key = (style["color"], str(style["linestyle"]))
        while key in taken and spare:
            color, line = spare.pop(0)
            style, key = {"color": color, "linestyle": line}, (color, str(line))
        taken.add(key)
        styles[name] = style
    return styles


def binary_step(top: float, ticks: int = 6) -> float:
    """The distance of ticks on an axis of bytes from 0 to `top`: a power of two that gives at most `ticks` ticks."""
    return 2.0 ** max(0, math.ceil(math.log2(max(top, 1) / ticks)))


@contextmanager
def drawing() -> Iterator[Any]:
    """Provide matplotlib.pyplot with the common style. Figures that are still open are closed at the end."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    look = {
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 8,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": MUTED,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "text.color": INK,
        "axes.linewidth": 0.8,
        "lines.linewidth": 1.6,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "steve",
        "figure.dpi": 100,
        "savefig.dpi": 150,
    }
    with matplotlib.rc_context(look):
        try:
            yield plt
        finally:
            plt.close("all")


def save(figure: Any, stem: str, formats: list[str]) -> list[str]:
    """Write the figure to STEM.FORMAT for each of `formats`, whole or not at all; return the paths written."""
    metadata = {
        "png": {"Software": "steve"},
        "svg": {"Date": None, "Creator": "steve"},
        "pdf": {"CreationDate": None, "Creator": "steve"},
    }
    paths = []
    for kind in formats:
        path = f"{stem}.{kind}"
        image = io.BytesIO()
        figure.savefig(image, format=kind, metadata=metadata[kind])
        with Output(path) as out:
            out.write_bytes(image.getvalue())
        paths.append(path)
    return paths


def parse_formats(text: str) -> list[str]:
    """The argument of --format as a list: 'png,svg' -> ['png', 'svg']. UsageError for anything not in FORMATS."""
    formats = list(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown or not formats:
        raise UsageError(f"--format: {text!r} is not a list of {', '.join(FORMATS)}")
    return formats


def stem_of(path: str) -> tuple[str, str | None]:
    """Split an output name into its stem and the format that its ending selects, None if it selects none."""
    suffix = Path(path).suffix.lower().lstrip(".")
    return (path[: -len(suffix) - 1], suffix) if suffix in FORMATS else (path, None)
