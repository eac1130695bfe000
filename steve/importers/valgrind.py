"""What Valgrind's tools that replace malloc print with --trace-malloc=yes, such as memcheck, mixed into other output.

A call is `--PID-- FUNCTION(ARGUMENTS) = ADDRESS`. The result may be in a later line, if a message comes between. realloc of
a null pointer, or to size 0, prints the malloc or free that it calls.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from steve.importers._writer import TraceWriter
    from steve.importers.text import Lines
    from steve.terminal.progress import Progress

NAME = "valgrind --trace-malloc=yes"
LACKS = "accesses, threads, times, stacks"
UNIT = "events"
TICK = 1 << 16
PREFIX = re.compile(rb"--(\d+)-- ")
CALL = re.compile(rb"(?P<name>[A-Za-z_]\w*)\((?P<arguments>[^()]*)\)")
RESULT = re.compile(rb"\s*= (0x[0-9A-Fa-f]+|0)\s*")
COMMAND = re.compile(rb"==\d+== Command: (.*)")
NUMBER = re.compile(rb"0x[0-9A-Fa-f]+|\d+")
SIZE = re.compile(rb"size (\d+)")
FREES = (b"free", b"cfree")
HOWS = {
    b"malloc": "malloc",
    b"valloc": "memalign",
    b"pvalloc": "memalign",
    b"memalign": "memalign",
    b"calloc": "calloc",
}


class Call(NamedTuple):
    """A call that allocates. old: the block that a realloc gives up, else 0."""

    how: str
    size: int
    old: int = 0


def is_one(first: list[bytes]) -> bool:
    """Do these lines have calls?"""
    return any(PREFIX.search(line) and (CALL.search(line) or RESULT.search(line)) for line in first)


def call_of(name: bytes, arguments: bytes) -> Call | None:
    """The call, if it allocates by itself."""
    numbers = [int(text, 16 if text[:2] == b"0x" else 10) for text in NUMBER.findall(arguments)]
    if name == b"realloc" and len(numbers) == 2 and all(numbers):
        return Call("realloc", numbers[1], numbers[0])
    named = SIZE.search(arguments)
    if name == b"calloc" and len(numbers) == 2:
        return Call("calloc", numbers[0] * numbers[1])
    if name in HOWS and numbers:
        return Call(HOWS[name], int(named[1]) if named else numbers[-1])
    if name.startswith((b"_Znw", b"_Zna")) and numbers:
        return Call("new[]" if name.startswith(b"_Zna") else "new", int(named[1]) if named else numbers[0])
    return None


class Reader:
    """Reads one file and writes the trace. Only the first process is read."""

    def __init__(self, lines: Lines, writer: TraceWriter) -> None:
        from steve.importers._writer import HOWS as numbers

        self.lines, self.writer = lines, writer
        self.numbers = numbers
        self.pid: bytes | None = None
        self.others = 0  # lines of other processes
        self.pending: Call | None = None
        self.events = 0

    def run(self, tick: Progress) -> None:
        for line in self.lines:
            prefix = PREFIX.search(line)
            if prefix:
                self._line(prefix[1], line[prefix.end() :])
            else:
                command = COMMAND.match(line)
                if command and self.pid is None:
                    self.writer.fact("command", command[1].decode("utf-8", "surrogateescape"))
            if self.lines.number % TICK == 0:
                tick(*self.lines.read_bytes())
                self.writer.check()

    def _line(self, pid: bytes, text: bytes) -> None:
        calls = list(CALL.finditer(text))
        result = RESULT.fullmatch(text, calls[-1].end() if calls else 0)
        if not calls and not result:
            return  # another message of Valgrind
        if self.pid is None:
            self.pid = pid
            self.writer.fact("pid", pid.decode())
        if pid != self.pid:
            self.others += 1
            return
        for call in calls:
            self._call(call["name"], call["arguments"])
        if result and self.pending is not None:
            self._made(self.pending, int(result[1], 16))
            self.pending = None

    def _next(self) -> None:
        self.events += 1
        self.writer.time(self.events)

    def _call(self, name: bytes, arguments: bytes) -> None:
        if name in FREES or name.startswith((b"_Zdl", b"_Zda")):
            address = NUMBER.search(arguments)
            if address and int(address[0], 16):
                self._next()
                self.writer.free(int(address[0], 16))
        else:
            self.pending = call_of(name, arguments)

    def _made(self, call: Call, address: int) -> None:
        if not address:
            return
        self._next()
        if call.old:
            self.writer.resize(call.old, address, call.size)
        else:
            self.writer.new(address, call.size, 0, self.numbers[call.how])


def read(lines: Lines, writer: TraceWriter, tick: Progress) -> int:
    """Write the calls as a trace. Returns the number of lines of other processes."""
    writer.fact("imported_from", NAME)
    reader = Reader(lines, writer)
    reader.run(tick)
    return reader.others
