"""Text for people: tables by rich, numbers in groups, and strings that cannot harm a terminal.

Strings of a trace are somebody else's: control characters are shown as escapes, and nothing is taken for
markup.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import io
import re
import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


LEAST = 24  # characters of a column of text, if it has as many


class Titled(NamedTuple):
    """A table below its title, which may be longer than the table is wide, and above a remark. width: the least
    that nothing is cut off with."""
    title: str
    table: Any
    width: int = 0
    remark: str = ""


def printable(text: str) -> str:
    """The text with everything unprintable as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number(value: int) -> str:
    """1234567 as 1,234,567."""
    return f"{value:,}"


def size(value: float) -> str:
    """Bytes in the unit that leaves one to four digits before the point: 1.5 MiB."""
    step = 0
    while abs(value) >= 1024 and step + 1 < len(UNITS):
        value /= 1024
        step += 1
    return f"{value:.0f} {UNITS[step]}" if step == 0 else f"{value:.1f} {UNITS[step]}"


def facts(title: str, rows: Iterable[Sequence[object]], values: str = "left") -> Any:
    """A table without lines of names and further columns; `values` says how those are aligned."""
    from rich.table import Table
    from rich.text import Text
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for row in rows:
        name, *rest = [Text(printable(str(cell))) for cell in row]
        table.add_row(name, *[Text(cell.plain, justify=values) for cell in rest])
    return Titled(title, table)


def columns(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], left: Container[str] = (),
            kept: Container[str] = ()) -> Titled:
    """A table with heads; columns are numbers, right-aligned, except those named in `left`, which are folded.

    Where there is no room for all, columns of numbers are left out, the last first, and named below; not the
    first column and not those named in `kept`."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [needed(head, [row[i] for row in cells], head in left) for i, head in enumerate(heads)]
    shown = fitting(heads, widths, left, kept)
    missing = [head for i, head in enumerate(heads) if i not in shown]
    remark = f"no room for: {', '.join(missing)}; --json has all" if missing else ""
    table = grid([heads[i] for i in shown], [[row[i] for i in shown] for row in cells], left)
    return Titled(title, table, total([widths[i] for i in shown]), remark)


def needed(head: str, cells: Iterable[str], is_text: bool) -> int:
    """The least width of a column."""
    from rich.cells import cell_len
    widest = max(map(cell_len, (head, *cells)))
    return max(min(widest, LEAST), cell_len(head)) if is_text else widest


def total(widths: Sequence[int]) -> int:
    """The width of a table of such columns: a blank on both sides of each, one between, one at each edge."""
    return sum(widths) + 3 * len(widths) + 1


def fitting(heads: Sequence[str], widths: Sequence[int], left: Container[str], kept: Container[str]) -> list[int]:
    """The indices of the columns for which there is room."""
    shown = list(range(len(heads)))
    for i in reversed(shown[1:]):
        if total([widths[j] for j in shown]) > width() and heads[i] not in left and heads[i] not in kept:
            shown.remove(i)
    return shown


def grid(heads: Sequence[str], cells: Iterable[Sequence[str]], left: Container[str]) -> Any:
    """The table itself."""
    from rich import box
    from rich.table import Table
    from rich.text import Text
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right", overflow="fold",
                         no_wrap=head not in left)
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def width() -> int:
    """Columns to fill: those of the terminal, else 120."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 120


def render(parts: Iterable[Any], to_terminal: bool) -> str:
    """Tables, rich's renderables and lines of text as text; colours only for a terminal."""
    from rich.console import Console
    from rich.text import Text
    buffer = io.StringIO()
    console = Console(file=buffer, width=width(), force_terminal=to_terminal, no_color=not to_terminal,
                      highlight=False, emoji=False, markup=False)
    for part in parts:
        remark = ""
        if isinstance(part, Titled):
            title = "\n".join(map(printable, part.title.split("\n")))
            console.print(Text(title, style="bold"), soft_wrap=True)
            console.width = max(width(), part.width)
            part, remark = part.table, part.remark
        console.print(part, soft_wrap=isinstance(part, str))
        console.print(remark + "\n" if remark else "", soft_wrap=True)
    lines = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).rstrip("\n") + "\n"
