"""documents - the command lines that documents show, the outputs that they show of them, and what may differ in these.

In the tutorial and the FAQ, commands are blocks of the languages sh and sql, and a block `text` after one has its output
(`fenced`). In other documents they are lines of indented blocks that begin with a known program, in sentences `steve ...`
with the name of a file, and in manual pages the examples (`shown`).

A line `...` of an output stands for any lines, `...` within a line for any text, and addresses may differ. After `text
10%`, numbers may differ by as much. The module runs nothing.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)(?: (\d+)%)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"0x[0-9a-f]{5,}")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
PROGRAMS = (
    "apt-get build/in-place cc cp duckdb gcc go heaptrack ljtrace luajit make ms_print patch python3 sh sqlite3 steve"
    " steve-replay sysctl valgrind vgdb"
).split()
INLINE = re.compile(r"(steve|steve-replay|ljtrace|valgrind|sh|make|build/in-place) ")
# what a command in a sentence has if it is a whole command line, and not only the name of a command
WHOLE = re.compile(r"\S\.(ljt|bin|zst|txt)\b|app-ops|--(help|list|version)\b|\b(PID|FILE|FOLDER)\b|^(make|sh) |robson")


@dataclass
class Command:
    """Commands of a document, and the output that it shows."""

    script: str
    output: str | None
    tolerance: int
    place: tuple[int, int]
    """Where the output is in the document."""


def fenced(text: str) -> list[Command]:
    """The commands in the blocks sh and sql of a document, and their outputs."""
    found: list[Command] = []
    last_end = -1
    for block in FENCE.finditer(text):
        language, tolerance, inside = block.groups()
        if language in ("sh", "sql"):
            script = inside if language == "sh" else f"sqlite3 -box app.ljt.sqlite {shlex.quote(inside)}\n"
            found.append(Command(script, None, 0, (0, 0)))
            last_end = block.end()
        elif language == "text":
            assert found and text[last_end : block.start()].strip() == "", f"no command before:\n{inside}"
            found[-1].output, found[-1].tolerance, found[-1].place = inside, int(tolerance or 0), block.span(3)
    return found


@dataclass
class Group:
    """Commands that a document shows together: the lines of a block, or one in a sentence."""

    line: int
    commands: list[str]


def is_command(line: str) -> bool:
    return bool(line.split()) and line.split()[0] in PROGRAMS


def without_description(line: str) -> str:
    """A line without the description after it, which is two spaces or more away."""
    return re.split(r"\s{2,}", line.strip().removeprefix("$ "))[0]


def joined(lines: list[str]) -> list[str]:
    """Lines without the backslashes at which commands continue."""
    return "\n".join(lines).replace("\\\n", " ").split("\n")


def blocks_of_markdown(text: str) -> list[tuple[int, list[str]]]:
    """The indented blocks, each with its first line."""
    found: list[tuple[int, list[str]]] = []
    blank = True
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r" {4,}\S", line) and (blank or found and found[-1][0] + len(found[-1][1]) == number):
            if blank:
                found.append((number, []))
            found[-1][1].append(line)
        blank = not line.strip()
    return found


def blocks_of_page(text: str) -> list[tuple[int, list[str]]]:
    """The literal blocks and lines of a manual page."""
    found: list[tuple[int, list[str]]] = []
    literal = False
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.replace("\\&", "").replace("\\-", "-")
        if re.match(r"\.(Bd -literal|nf|EX)", line):
            literal = True
            found.append((number + 1, []))
        elif re.match(r"\.(Ed|fi|EE)", line):
            literal = False
        elif literal:
            found[-1][1].append(plain)
        elif line.startswith(".Dl "):
            found.append((number, [plain[4:]]))
    return found


def blocks(path: Path) -> list[tuple[int, list[str]]]:
    """The blocks of a document that have no language, each with its first line."""
    text = without_fenced(path.read_text())
    return blocks_of_page(text) if of_page(path) else blocks_of_markdown(text)


def of_page(path: Path) -> bool:
    return path.suffix in (".1", ".3")


def without_fenced(text: str) -> str:
    """A document without the blocks that have a language, with as many lines."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def not_commands(path: Path) -> list[list[str]]:
    """By block, the lines that are neither commands nor their descriptions, which begin far to the right: outputs, and
    parts of files."""
    found = []
    for _, lines in blocks(path):
        texts = (line for line in joined(lines) if not line[:20].isspace())
        others = [line.strip() for line in texts if not is_command(without_description(line))]
        if others:
            found.append(others)
    return found


def shown(path: Path) -> list[Group]:
    """The commands that a document shows, except in blocks with a language."""
    text = without_fenced(path.read_text())
    found = []
    for number, lines in blocks(path):
        commands = [plain for line in joined(lines) if is_command(plain := without_description(line))]
        if commands:
            found.append(Group(number, commands))
    for span in () if of_page(path) else re.finditer(r"`([^`]+)`", text):
        command = " ".join(span[1].split())
        if INLINE.match(command) and WHOLE.search(command):
            found.append(Group(text.count("\n", 0, span.start()) + 1, [command]))
    return found


# -- comparing --------------------------------------------------------------------------------------------------------


def equal_lines(shown: str, printed: str, tolerance: int) -> bool:
    """Are two lines equal, but for addresses and as far as numbers may differ?"""
    if "..." in shown and "..." not in printed:
        parts = (re.escape(ADDRESS.sub("0x", part)) for part in shown.rstrip().split("..."))
        return re.fullmatch(".*".join(parts), ADDRESS.sub("0x", printed).rstrip()) is not None
    if tolerance == 0:
        return ADDRESS.sub("0x", shown).rstrip() == ADDRESS.sub("0x", printed).rstrip()
    if NUMBER.sub("", shown).split() != NUMBER.sub("", printed).split():
        return False
    pairs = [[float(x.replace(",", "")) for x in NUMBER.findall(line)] for line in (shown, printed)]
    return all(abs(a - b) <= max(a, b) * tolerance / 100 for a, b in zip(*pairs))


def same(shown: list[str], printed: list[str], tolerance: int) -> bool:
    """Does the output fit what the document shows?"""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(same(shown[1:], printed[i:], tolerance) for i in range(len(printed) + 1))
    return bool(printed) and equal_lines(shown[0], printed[0], tolerance) and same(shown[1:], printed[1:], tolerance)
