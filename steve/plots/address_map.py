"""Draws a map of the address space (steve.analysis.address_map): rows of cells, addresses at the left, names at the right.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steve.analysis.address_map import COLUMNS, NONE, AddressMap, Layer, Stretch, rows_in
from steve.plots.style import FAINT, INK, MUTED, OWNER_COLORS
from steve.terminal.units import counted, human_bytes

if TYPE_CHECKING:
    import numpy as np

DPI = 100
CELL = 4  # pixels of a cell, at DPI
LEFT, RIGHT, EDGE = 132, 330, 14  # pixels: of the addresses, of the names, around all
LINE = 15  # of text
GAP = 20  # between two stretches: of the line that says what was left out
TICK = 64  # pixels from one address to the next at least
LEGEND_COLUMNS = 3
LEGEND_SIZE, NAME_SIZE = 8.5, 8.0  # points
SITES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a5cc8", "#8c564b", "#d8c300", "#5f6b7a")
# of small to large, young to old
SCALE = ("#fde08a", "#f9b64b", "#ee8a2e", "#d9603b", "#b93f63", "#8a2f7f", "#5b2a83", "#35286f", "#1a1f4d", "#0c1026")
OTHERS = {"kept": "#dfd3b6", "rest": "#c9ced6"}
EMPTY = "#ffffff"


def color_of(layer: Layer, color: str) -> str:
    if layer.key != "block":
        return OWNER_COLORS.get(layer.key) or OTHERS[layer.key]
    return (SITES if color == "site" else SCALE)[min(layer.rank, len(SITES) - 1)]


def without_middle(text: str, letters: int) -> str:
    """The text, without its middle if it has more letters."""
    half = (letters - 1) // 2
    return text if len(text) <= letters else f"{text[: letters - 1 - half]}…{text[len(text) - half :]}"


def address(value: int) -> str:
    return f"{value:#x}"


def legend_lines(layers: list[Layer]) -> int:
    return -(-(len(layers) + 1) // LEGEND_COLUMNS)


class Picture:
    """The figure. Its unit is a pixel at DPI, from the top left on."""

    def __init__(self, plt: Any, found: AddressMap, color: str, title: str, notes: list[str]) -> None:
        self.found, self.color = found, color
        self.width = EDGE + LEFT + COLUMNS * CELL + RIGHT + EDGE
        head = EDGE + 2 * LINE + LINE * len(notes) + (LINE + 3) * legend_lines(found.layers) + LINE
        self.height = head + sum(GAP + self.height_of(stretch) for stretch in found.stretches) + EDGE
        self.figure = plt.figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        self.axes.axis("off")
        self._text(EDGE, EDGE + LINE - 2, title, size=11, weight="bold", color=INK)
        top = EDGE + 2 * LINE
        for note in notes:
            self._text(EDGE, top + LINE - 4, note, size=8.5)
            top += LINE
        self._legend(top + 6)
        self._stretches(head)

    def height_of(self, stretch: Stretch) -> int:
        return max(rows_in(stretch.end - stretch.start, self.found.cell) * CELL, LINE)

    def _text(self, x: float, y: float, text: str, **look: Any) -> None:
        self.axes.text(x, y, text, **{"size": 8, "color": MUTED, "va": "baseline", "parse_math": False, **look})

    def _fitting(self, text: str, end: str, width: float, size: float) -> str:
        """The text and its end, without the middle of the text if both are wider than so many pixels."""
        from matplotlib.font_manager import FontProperties

        font, renderer = FontProperties(size=size), self.figure.canvas.get_renderer()
        letters = len(text)
        while letters > 3:
            found = without_middle(text, letters) + end
            wide = renderer.get_text_width_height_descent(found, font, False)[0]
            if wide <= width:
                break
            letters = min(letters - 1, int(letters * width / wide) + 1)
        return without_middle(text, letters) + end

    def _legend(self, top: float) -> None:
        from matplotlib.patches import Rectangle

        width = (self.width - 2 * EDGE) / LEGEND_COLUMNS
        entries = [
            (color_of(layer, self.color), layer.title, human_bytes(layer.ranges.bytes)) for layer in self.found.layers
        ]
        for i, (color, title, size) in enumerate([*entries, (EMPTY, nothing(self.found), "")]):
            x, y = EDGE + width * (i % LEGEND_COLUMNS), top + (LINE + 3) * (i // LEGEND_COLUMNS)
            self.axes.add_patch(Rectangle((x, y), 16, 10, facecolor=color, edgecolor=MUTED, linewidth=0.5))
            text = self._fitting(title, f": {size}" if size else "", width - 36, LEGEND_SIZE)
            self._text(x + 22, y + 9, text, size=LEGEND_SIZE, color=INK)

    def _stretches(self, top: float) -> None:
        from matplotlib.colors import to_rgb

        import numpy as np

        palette = np.ones((NONE + 1, 3))
        palette[NONE] = to_rgb(EMPTY)
        for number, layer in enumerate(self.found.layers):
            palette[number] = to_rgb(color_of(layer, self.color))
        for number, stretch in enumerate(self.found.stretches):
            self._left_out(top, stretch, number == 0)
            self._stretch(top + GAP, stretch, palette)
            top += GAP + self.height_of(stretch)

    def _left_out(self, top: float, stretch: Stretch, is_first: bool) -> None:
        """The line before a stretch, for the addresses that are left out."""
        x, y = EDGE + LEFT, top + GAP / 2
        self.axes.plot((x, x + COLUMNS * CELL), (y, y), color=FAINT, linewidth=1, linestyle=(0, (2, 3)))
        if not is_first:
            self._text(x - 8, y + 3, f"{human_bytes(stretch.before)} left out", ha="right", size=7, style="italic")

    def _stretch(self, top: float, stretch: Stretch, palette: np.ndarray) -> None:
        from matplotlib.patches import Rectangle

        import numpy as np

        cells, row = stretch.cells, self.found.cell * COLUMNS
        rows = rows_in(stretch.end - stretch.start, self.found.cell)
        grid = np.full(rows * COLUMNS, NONE, "u1")
        grid[: len(cells)] = cells
        left, bottom = EDGE + LEFT, top + rows * CELL
        extent = (left, left + COLUMNS * CELL, bottom, top)
        self.axes.imshow(palette[grid.reshape(rows, COLUMNS)], extent=extent, interpolation="nearest", aspect="auto")
        self.axes.add_patch(
            Rectangle(
                (left - 1, top - 1), COLUMNS * CELL + 2, rows * CELL + 2, fill=False, edgecolor=FAINT, linewidth=0.6
            )
        )
        self.axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        for number in range(0, rows, max(TICK // CELL, 1)):
            if number == 0 or (rows - number) * CELL >= LINE:
                self._text(
                    left - 8,
                    top + number * CELL + 9,
                    address(stretch.start + number * row),
                    ha="right",
                    family="DejaVu Sans Mono",
                )
        name = self._fitting(stretch.name, f": {human_bytes(stretch.resident)}", RIGHT - 14, NAME_SIZE)
        self._text(extent[1] + 10, top + 10, name, size=NAME_SIZE, color=INK)


def nothing(found: AddressMap) -> str:
    """What cells without a colour are."""
    return "not resident" if found.has_pages else "without live blocks"


def notes_of(found: AddressMap) -> list[str]:
    """How the picture is to be read."""
    first = (
        "; a cell with any byte of a block has the colour of blocks"
        if any(layer.key == "block" for layer in found.layers)
        else ""
    )
    texts = [
        f"A cell is {human_bytes(found.cell)} and has the colour of what is most of it{first}. A row, from left to right, is "
        f"{human_bytes(found.cell * COLUMNS)}. Addresses rise downwards; what is left out is {nothing(found)}."
    ]
    if found.omitted:
        texts.append(
            f"{counted(found.omitted, 'small stretch', 'small stretches')} with {human_bytes(found.omitted_bytes)} in all are not drawn."
        )
    return texts
