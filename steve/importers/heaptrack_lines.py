"""What the two kinds of files of heaptrack have in common: the first line, the loop over the lines, the time.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.importers._writer import TraceWriter
    from steve.importers.text import Lines
    from steve.terminal.progress import Progress

UNIT = "nanoseconds"
NEWEST = 3  # format
TICK = 1 << 16  # lines between two calls of tick


def number(word: bytes) -> int:
    """A number as heaptrack writes it; ValueError if it is none."""
    if not is_hex(word):
        raise ValueError
    return int(word, 16)


def is_hex(word: bytes) -> bool:
    return bool(word) and all(c in b"0123456789abcdef" for c in word)


def has_version(first: list[bytes]) -> bool:
    """Does the first of these lines say which version of heaptrack has written them?"""
    words = first[0].split()
    return len(words) in (2, 3) and words[0] == b"v" and all(is_hex(word) for word in words[1:])


class HeaptrackReader:
    """Reads one file and writes the trace. A subclass has a function for each letter that begins a line."""

    is_raw = False

    def __init__(self, lines: Lines, writer: TraceWriter) -> None:
        self.lines, self.writer = lines, writer
        self.format = 1
        self.unknown_frees = 0

    def functions(self) -> dict[bytes, Callable[[bytes], None]]:
        """By letter, what takes the rest of a line. ValueError or IndexError: the line is wrong."""
        return {b"c": self._time, b"v": self._version, b"X": self._command}

    def read(self, tick: Progress) -> int:
        """Read the file to its end. Returns the number of frees of blocks that it does not have."""
        functions, lines = self.functions(), self.lines
        for line in lines:
            function = functions.get(line[:1])
            try:
                if function:
                    function(line[2:])
            except (ValueError, IndexError):
                if lines.truncated:
                    break
                raise lines.wrong(f"is not of heaptrack's {'raw ' * self.is_raw}format {self.format}") from None
            if lines.number % TICK == 0:
                tick(*lines.read_bytes())
                self.writer.check()
        return self.unknown_frees

    def _version(self, rest: bytes) -> None:
        version, *form = map(number, rest.split())
        self.format = form[0] if form else 1
        if self.format > NEWEST:
            raise self.lines.wrong(f"format {self.format} is newer than {NEWEST}, the newest that is known")
        text = ".".join(str(version >> shift & 0xFF) for shift in (16, 8, 0))
        self.writer.fact("imported_from", f"heaptrack {text}{', raw' * self.is_raw}")

    def _command(self, rest: bytes) -> None:
        self.writer.fact("command", rest.decode("utf-8", "surrogateescape"))

    def _time(self, rest: bytes) -> None:
        nanoseconds = number(rest) * 1_000_000
        self.writer.time(nanoseconds, nanoseconds)
