"""The screen of `steve top`, as lines that fit a terminal of a given size.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import NamedTuple

from steve.live.resident import Resident
from steve.live.trace import LiveTrace
from steve.live.view import METRICS, Metric, View
from steve.terminal.tables import in_locale, number, printable, size
from steve.terminal.units import counted

BARS = "▁▂▃▄▅▆▇█"
KEYS = "q quit  s sort  b by  p pause  / filter  h help"
LEAST_PLACE = 20  # characters of the column of places
ALLOCATED = [metric.name for metric in METRICS].index("allocated")  # the order of rows with equal values
HELP = (
    "q       quit, and print the screen once more",
    "s       sort by the next column",
    "b       rows are lines, functions, files, objects or stacks",
    "p       pause: the screen stays as it is; the file is read on",
    "/TEXT   show only rows that contain TEXT; Enter applies it, Escape removes it",
    "h       this help; any key ends it",
    "",
)


class Line(NamedTuple):
    """A line of the screen. style: of rich."""

    text: str
    style: str = ""


def cut(text: str, width: int) -> str:
    """The text, with an ellipsis if it is longer than the width, in terminal cells."""
    from rich.cells import cell_len, set_cell_size

    text = printable(text)
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def sparkline(points: list[tuple[int, int]], width: int) -> str:
    """The live bytes over time, the most of each part. points: time and value, in order of time."""
    last = max(points[-1][0], 1)
    most = [-1] * width
    for time, value in points:
        at = min(time * width // (last + 1), width - 1)
        most[at] = max(most[at], value)
    for i in range(width):
        if most[i] < 0:
            most[i] = most[i - 1] if i else 0
    top = max(most) or 1
    return "".join(BARS[min(value * len(BARS) // top, len(BARS) - 1)] for value in most)


def shown(metric: Metric, value: float) -> str:
    """A value as text."""
    return size(value) if metric.is_bytes else number(int(value))


def joined(parts: list[str], width: int) -> str:
    """As many of the parts as fit, and the number of the others."""
    for n in range(len(parts), 0, -1):
        text = "  ".join(parts[:n]) + (f"  +{len(parts) - n} more" if n < len(parts) else "")
        if len(text) <= width:
            return text
    return ""


def duration(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:,.1f} s"


def resident_text(found: Resident, live: int, is_sample: bool) -> str:
    """What is resident of the process, and what is known of its parts. live: bytes of live blocks, of which a part need not be
    resident; is_sample: they are an estimate."""
    text = f"resident {size(found.resident)}"
    if found.recorder is None:
        return f"{text}, with Valgrind and the recorder; the parts are not known"
    rest = size(max(found.resident - live - found.recorder, 0))
    return (
        f"{text}: live {'about' if is_sample else '<='} {size(min(live, found.resident))}, "
        f"recorder {'' if found.is_all else '>= '}{size(found.recorder)}, "
        f"rest {'>=' if found.is_all and not is_sample else 'about'} {rest}"
    )


class Screen:
    """Draws a trace."""

    def __init__(self, live: LiveTrace) -> None:
        self.live = live
        self._then = (0, 0, 0)  # nanoseconds, bytes and blocks allocated when it was last drawn
        self._rates = (0.0, 0.0)

    def lines(self, view: View, width: int, height: int | None) -> list[Line]:
        """The lines: as many as the height, or as there are. None: without the line of keys, and 20 rows. In the characters of
        the locale."""
        return [line._replace(text=in_locale(line.text)) for line in self._lines(view, width, height)]

    def _lines(self, view: View, width: int, height: int | None) -> list[Line]:
        head = self._head(view, width)
        if view.help:
            rows = [Line(cut(text, width)) for text in HELP]
            rows += [Line(cut(f"{m.name:<9} {m.meaning}", width)) for m in view.metrics()]
        else:
            rows = self._table(view, width, 20 if height is None else max(height - len(head) - 2, 0))
        lines = head + rows
        if height is None:
            return lines
        lines = lines[: height - 1] + [Line("")] * (height - 1 - len(lines))
        return [*lines, self._foot(view, width)]

    def _head(self, view: View, width: int) -> list[Line]:
        now = self.live.moment()
        seconds = (now.nanoseconds - self._then[0]) / 1e9
        if seconds > 0:
            self._rates = ((now.allocated - self._then[1]) / seconds, (now.allocs - self._then[2]) / seconds)
        self._then = (now.nanoseconds, now.allocated, now.allocs)
        state = "paused" if view.paused else "ended" if self.live.complete else "recording"
        right = f"{state}  {duration(now.nanoseconds)}"
        command = self.live.trace.info().get("command") or self.live.trace.name
        left = cut(f"steve top  {command}", width - len(right) - 2)
        text = f"live {size(now.live)}  peak {size(now.peak)}  {counted(now.blocks, 'block')}"
        rates = f"allocated {size(now.allocated)}, {size(self._rates[0])}/s  {counted(now.allocs, 'block')}, "
        rates += f"{number(int(self._rates[1]))}/s"
        threads = [f"#{thread} {size(value)}" for thread, value in now.threads]
        states = [f"{name} {share:.0f}%" for name, share in now.states]
        lines = [
            Line(f"{left}{right:>{width - cells(left)}}", "bold"),
            Line(cut(text, width)),
            Line(sparkline(self.live.points, width), "green"),
            Line(cut(rates, width)),
            Line(cut(f"threads {len(threads)}: {joined(threads, width - 14)}", width)),
        ]
        if states:
            lines.append(Line(f"states  {joined(states, width - 8)}"))
        if (resident := self.live.resident()) is not None:
            lines.append(Line(cut(resident_text(resident, now.live, bool(self.live.trace.sample)), width)))
        return [*lines, Line("")]

    def _table(self, view: View, width: int, rows: int) -> list[Line]:
        """The heading, and the rows with the largest values."""
        metrics = view.metrics()
        at = [metric.name for metric in metrics].index(view.sort)
        every = self.live.rows(view.by, True)
        place = METRICS.index(metrics[at])
        found = [row for row in every if view.filter.lower() in row.place.lower() and any(row.values)]
        found.sort(key=lambda row: (-row.values[place], -row.values[ALLOCATED], row.place))
        cells_of = [[shown(metric, row.values[METRICS.index(metric)]) for metric in metrics] for row in found[:rows]]
        widths = [
            max([len(metric.name) + 1, *(len(cells[i]) for cells in cells_of)]) for i, metric in enumerate(metrics)
        ]
        columns = self._fitting(widths, at, width)
        heads = [f"{metrics[i].name + ('▾' if i == at else ''):>{widths[i]}}" for i in columns]
        note = f" ({len(found):,} of {len(every):,})" if view.filter else ""
        lines = [Line(cut("  ".join([*heads, view.by + note]), width), "reverse")]
        for cells_, row in zip(cells_of, found):
            texts = [f"{cells_[i]:>{widths[i]}}" for i in columns]
            used = sum(len(text) + 2 for text in texts)
            lines.append(Line("".join(text + "  " for text in texts) + cut(row.place, width - used)))
        return lines if found else [*lines, Line("(nothing)")]

    @staticmethod
    def _fitting(widths: list[int], kept: int, width: int) -> list[int]:
        """The columns that leave room for the places; the one that is sorted by always stays."""
        columns = list(range(len(widths)))
        for i in reversed(range(len(widths))):
            if sum(widths[j] + 2 for j in columns) + LEAST_PLACE > width and i != kept:
                columns.remove(i)
        return columns

    def _foot(self, view: View, width: int) -> Line:
        if view.typed is not None:
            return Line(cut(f"/{view.typed}_", width), "bold")
        problem = self.live.trace.problem
        text = KEYS if problem is None else f"{problem}"
        return Line(cut(f"{text}  [filter: {view.filter}]" if view.filter else text, width), "dim")


def cells(text: str) -> int:
    """The width of a text in terminal cells."""
    from rich.cells import cell_len

    return cell_len(text)


def plain(lines: list[Line]) -> str:
    """The lines as text."""
    return "".join(line.text.rstrip() + "\n" for line in lines)
