"""glibc's mtrace: the file that MALLOC_TRACE names.

A line is `@ PLACE + ADDRESS SIZE` for an allocation, `-` for a free; `<` and `>` are the old and the new block of a realloc,
`!` is a realloc that failed. PLACE is `OBJECT:(FUNCTION+OFFSET)[ADDRESS]` of the caller, of which only the object may be
known, or is missing with its @.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.importers._writer import TraceWriter
    from steve.importers.text import Lines
    from steve.terminal.progress import Progress

NAME = "mtrace"
LACKS = "accesses, threads, times, stacks but for the caller"
UNIT = "events"
TICK = 1 << 16
LINE = re.compile(
    rb"(?:@ (?P<place>.*?) )?(?P<kind>[-+<>!]) (?P<address>0x[0-9a-f]+|\(nil\))(?: (?P<size>0x[0-9a-f]+|0))?\s*"
)
PLACE = re.compile(r"(?:(?P<object>.*?):)?(?:\((?P<function>[^()+]*)(?:\+0x[0-9a-f]+)?\))?\[(?P<ip>0x[0-9a-f]+)\]")


def is_one(first: list[bytes]) -> bool:
    """Do these lines begin a file of mtrace?"""
    return first[0].rstrip() == b"= Start"


class Reader:
    """Reads one file and writes the trace."""

    def __init__(self, lines: Lines, writer: TraceWriter) -> None:
        self.lines, self.writer = lines, writer
        self.stacks: dict[bytes, int] = {}
        self.events = 0
        self.old: int | None = None  # of a realloc whose new block has not come yet
        self.ended = False

    def run(self, tick: Progress) -> None:
        for line in self.lines:
            if line.startswith(b"="):
                self.ended = line.startswith(b"= End")
            elif line.strip():
                self._line(line)
            if self.lines.number % TICK == 0:
                tick(*self.lines.read_bytes())
                self.writer.check()
        self._free_old()

    def _line(self, line: bytes) -> None:
        match = LINE.fullmatch(line)
        if match is None:
            if self.lines.truncated:
                return
            raise self.lines.wrong("is not of mtrace's format")
        kind, place = match["kind"], match["place"]
        address = 0 if match["address"] == b"(nil)" else int(match["address"], 16)
        size = int(match["size"] or b"0", 16)
        if kind != b">":
            self._free_old()
        self.events += 1
        self.writer.time(self.events)
        stack = self._stack(place) if place else 0
        if kind == b"<":
            self.old = address
        elif kind == b"-":
            self.writer.free(address, stack)
        elif kind == b">" and self.old is not None:
            self.writer.resize(self.old, address, size, stack)
            self.old = None
        elif kind != b"!" and address:
            self.writer.new(address, size, stack)

    def _free_old(self) -> None:
        """A realloc has given up its block and got no other one."""
        if self.old is not None:
            self.writer.free(self.old)
            self.old = None

    def _stack(self, place: bytes) -> int:
        if place not in self.stacks:
            match = PLACE.fullmatch(place.decode("utf-8", "surrogateescape"))
            frame = (
                self.writer.frame(int(match["ip"], 16), match["function"] or "", "", 0, match["object"] or "")
                if match
                else self.writer.frame(0, "", "", 0, place.decode("utf-8", "surrogateescape"))
            )
            self.stacks[place] = self.writer.stack(0, frame)
        return self.stacks[place]


def read(lines: Lines, writer: TraceWriter, tick: Progress) -> bool:
    """Write a file of mtrace as a trace. Returns whether it has an end."""
    writer.fact("imported_from", NAME)
    reader = Reader(lines, writer)
    reader.run(tick)
    return reader.ended
