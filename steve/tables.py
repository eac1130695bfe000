"""Text for people: tables by rich, numbers in groups, and strings that cannot harm a terminal.

Strings of a trace are somebody else's: control characters are shown as escapes, and nothing is taken for
markup.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import io
import re
import shutil
import sys
from typing import Any, Iterable, NamedTuple, Optional, Sequence

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Titled(NamedTuple):
    """A table below its title, which may be longer than the table is wide."""
    title: str
    table: Any


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


def columns(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]],
            left: Sequence[str] = (), least: Optional[int] = None) -> Any:
    """A table with heads; columns are numbers, right-aligned, except those named in `left`, which are folded
    to no less than `least` characters."""
    from rich import box
    from rich.table import Table
    from rich.text import Text
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right", overflow="fold",
                         no_wrap=head not in left, min_width=least if head in left else None)
    for row in rows:
        table.add_row(*[Text(printable(str(cell))) for cell in row])
    return Titled(title, table)


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
        if isinstance(part, Titled):
            title = "\n".join(map(printable, part.title.split("\n")))
            console.print(Text(title, style="bold"), soft_wrap=True)
            part = part.table
        console.print(part, soft_wrap=isinstance(part, str))
        console.print()
    lines = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).rstrip("\n") + "\n"
