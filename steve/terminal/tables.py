"""Tables drawn by rich, formatted numbers, and strings that are safe to print on a terminal.

Strings in a trace come from the traced program and are not trusted: control characters are shown as escapes,
and nothing is interpreted as markup.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import io
import os
import re
import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from steve.system import imports

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
LEAST = 24  # a text column is not narrowed below this many characters
REPEATED = re.compile(r" x\d+$")  # of a frame, see times()
UNLIMITED = 1 << 20
IN_ASCII = str.maketrans({"─": "-", "±": "~", "…": "~", "µ": "u", "▾": "*"} | dict(zip("▁▂▃▄▅▆▇█", "__--==##")))
LEGEND = "xN: N calls in a row of this function, one from the other"


def times(text: str, calls: int) -> str:
    """The text of a frame of a stack, for so many calls in a row."""
    return f"{text} x{calls}" if calls > 1 else text


def has_repeated(text: str) -> bool:
    """Has the text of a stack a mark of times()?"""
    return any(REPEATED.search(part) for part in text.split(" < "))


class Titled(NamedTuple):
    """A table with a title above it and a remark below it. The title may be wider than the table."""

    title: str
    table: Any
    """A renderable of rich."""
    width: int = 0
    """The least width, in characters, that cuts nothing off; 0: any."""
    remark: str = ""


class StackText(str):
    """The text of a stack, `frame < caller < ...`. A table shows as many frames as it takes to tell its rows apart, at
    least `least`."""

    parts: tuple[str, ...]
    least: int

    def __new__(cls, parts: Sequence[str], least: int) -> "StackText":
        text = super().__new__(cls, " < ".join(parts))
        text.parts, text.least = tuple(parts), least
        return text

    def __getnewargs__(self) -> tuple[tuple[str, ...], int]:  # type: ignore[override]
        return self.parts, self.least  # for copies in other processes

    @property
    def brief(self) -> str:
        """The first `least` frames."""
        return " < ".join(self.parts[: self.least])


def told_apart(texts: Sequence[StackText]) -> dict[StackText, str]:
    """The text of each stack, cut to as many frames as it takes to tell it from the others."""
    ordered = sorted(set(texts), key=lambda text: text.parts)
    alike = [0, *(common(one.parts, other.parts) for one, other in zip(ordered, ordered[1:])), 0]
    return {text: " < ".join(text.parts[: max(text.least, *alike[i : i + 2])]) for i, text in enumerate(ordered)}


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of frames that it takes to tell two stacks apart."""
    for i, (a, b) in enumerate(zip(one, other), 1):
        if a != b:
            return i
    return min(len(one), len(other)) + 1


def printable(text: str) -> str:
    """The text with each unprintable character replaced by an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number(value: int) -> str:
    """1234567 as 1,234,567."""
    return f"{value:,}"


def size(value: float) -> str:
    """Bytes in the unit that leaves at most four digits before the point: 1.5 MiB."""
    step = 0
    while abs(value) >= 1024 and step + 1 < len(UNITS):
        value /= 1024
        step += 1
    return f"{value:.0f} {UNITS[step]}" if step == 0 else f"{value:.1f} {UNITS[step]}"


def facts(title: str, rows: Iterable[Sequence[object]], values: str = "left") -> Any:
    """A table without lines or headings. The first cell of each row is a name; `values` is the alignment of the
    other cells."""
    imports.load_rich()
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for row in rows:
        name, *rest = [Text(printable(str(cell))) for cell in row]
        table.add_row(name, *[Text(cell.plain, justify=values) for cell in rest])
    return Titled(title, table)


def columns(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    left: Container[str] = (),
    kept: Container[str] = (),
) -> Titled:
    """A table with headings. Columns hold numbers, right-aligned, except those whose headings are in `left`: these
    hold text, which is wrapped.

    If the width is not enough, number columns are left out, starting with the last, and a remark names them. The
    first column and those with headings in `kept` always stay."""
    body = list(rows)
    apart = told_apart([cell for row in body for cell in row if isinstance(cell, StackText)])
    cells = [[printable(apart[cell] if isinstance(cell, StackText) else str(cell)) for cell in row] for row in body]
    widths = [needed(head, [row[i] for row in cells], head in left) for i, head in enumerate(heads)]
    shown = fitting(heads, widths, left, kept)
    missing = [head for i, head in enumerate(heads) if i not in shown]
    remarks = [f"no room for the columns: {', '.join(missing)}; --json has all"] if missing else []
    if any(map(has_repeated, apart.values())):
        remarks.append(LEGEND)
    table = grid([heads[i] for i in shown], [[row[i] for i in shown] for row in cells], left)
    return Titled(title, table, total([widths[i] for i in shown]), "\n".join(remarks))


def needed(head: str, cells: Iterable[str], is_text: bool) -> int:
    """The least width of a column, in terminal cells."""
    from rich.cells import cell_len

    widest = max(map(cell_len, (head, *cells)))
    return max(min(widest, LEAST), cell_len(head)) if is_text else widest


def total(widths: Sequence[int]) -> int:
    """The width of a table with columns of these widths: a blank on both sides of each, one between two columns
    and one at each edge."""
    return sum(widths) + 3 * len(widths) + 1


def fitting(heads: Sequence[str], widths: Sequence[int], left: Container[str], kept: Container[str]) -> list[int]:
    """The indices of the columns that fit; see columns()."""
    shown = list(range(len(heads)))
    for i in reversed(shown[1:]):
        if total([widths[j] for j in shown]) > room() and heads[i] not in left and heads[i] not in kept:
            shown.remove(i)
    return shown


def grid(heads: Sequence[str], cells: Iterable[Sequence[str]], left: Container[str]) -> Any:
    """The table of rich, from cells that are printable()."""
    imports.load_rich()
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right", overflow="fold", no_wrap=head not in left)
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def width() -> int:
    """The width to fill, in terminal cells: what COLUMNS says, or that of the terminal, else 120."""
    return shutil.get_terminal_size((120, 24)).columns


def room() -> int:
    """The width that a table may have. One that no terminal shows and that COLUMNS does not limit has a line for each row, as
    grep and other programs expect."""
    return width() if sys.stdout.isatty() or os.environ.get("COLUMNS", "0") not in ("", "0") else UNLIMITED


def is_ascii() -> bool:
    """Does the locale have no characters but those of ASCII?"""
    return os.environ.get("LC_ALL") in ("C", "POSIX")


def in_locale(text: str) -> str:
    """The text in the characters of the locale; others are replaced or shown as escapes."""
    if not is_ascii() or text.isascii():
        return text
    return text.translate(IN_ASCII).encode("ascii", "backslashreplace").decode()


def render(parts: Iterable[Any], to_terminal: bool) -> str:
    """Render Titled tables, other renderables of rich and strings to text. to_terminal: with colours."""
    imports.load_rich()
    from rich.console import Console
    from rich.text import Text

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=room(),
        force_terminal=to_terminal,
        no_color=not to_terminal,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in parts:
        remark = ""
        if isinstance(part, Titled):
            title = "\n".join(map(printable, part.title.split("\n")))
            console.print(Text(title, style="bold"), soft_wrap=True)
            console.width = max(room(), part.width)
            part, remark = part.table, part.remark
        console.print(part, soft_wrap=isinstance(part, str))
        console.print(remark + "\n" if remark else "", soft_wrap=True)
    lines = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
    return in_locale(re.sub(r"\n{3,}", "\n\n", lines).rstrip("\n") + "\n")
