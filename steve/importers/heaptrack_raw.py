"""Raw files of heaptrack, as `heaptrack --raw` writes them: PROGRAM.raw.zst or .gz (formats 1 to 3).

They have the addresses of blocks, so a free is of a certain block, and addresses of code without names. The object files
that were mapped become modules of the trace, in which `steve import` then looks the names up.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from steve.importers.heaptrack_lines import UNIT, HeaptrackReader, has_version, number
from steve.trace._symbols import build_id_of

if TYPE_CHECKING:
    from steve.importers._writer import TraceWriter
    from steve.importers.text import Lines
    from steve.terminal.progress import Progress

NAME = "heaptrack-raw"
LACKS = "accesses, threads"
__all__ = ["LACKS", "NAME", "UNIT", "is_one", "read"]


def is_one(first: list[bytes]) -> bool:
    """Do these lines begin a raw file of heaptrack?"""
    return has_version(first) and len(first) > 1 and first[1].startswith(b"x ")


class Reader(HeaptrackReader):
    """Reads one file and writes the trace."""

    is_raw = True

    def __init__(self, lines: Lines, writer: TraceWriter) -> None:
        super().__init__(lines, writer)
        self.program = ""
        self.modules: dict[int, str] = {}  # by address
        self.objects: list[tuple[int, int, str]] = []  # begin and end of their code, path
        self.frames: dict[int, int] = {}  # by address of the code
        self.stacks = [0]
        self.live: set[int] = set()

    def functions(self) -> dict[bytes, Callable[[bytes], None]]:
        return super().functions() | {
            b"+": self._new,
            b"-": self._free,
            b"t": self._stack,
            b"m": self._module,
            b"x": self._program,
        }

    def _text(self, rest: bytes) -> tuple[str, bytes]:
        """A text at the beginning of the rest of a line, and what follows it."""
        if self.format < 3:
            text, _, rest = rest.partition(b" ")
        else:
            length, _, rest = rest.partition(b" ")
            text, rest = rest[: number(length)], rest[number(length) :]
        return text.decode("utf-8", "surrogateescape"), rest

    def _program(self, rest: bytes) -> None:
        self.program = self._text(rest)[0]

    def _module(self, rest: bytes) -> None:
        """An object file: path, address, and offset and size of each of its segments. `-` begins a new list of all."""
        path, rest = self._text(rest)
        if path == "-":
            return
        base, *places = map(number, rest.split())
        ends = [base + sum(places[i : i + 2]) for i in range(0, len(places), 2)]
        path = self.program if path == "x" else path
        if ends and self.modules.get(base) != path:
            self.modules[base] = path
            self.objects.append((base, max(ends), path))
            build_id = build_id_of(path) if os.path.isfile(path) else ""
            self.writer.module(path, base + places[0], max(ends) - base - places[0], base, bytes.fromhex(build_id))

    def _frame(self, address: int) -> int:
        """The frame of a call. address: where it returns to."""
        if address not in self.frames:
            call = max(address - 1, 0)
            path = next((path for begin, end, path in reversed(self.objects) if begin <= call < end), "")
            self.frames[address] = self.writer.frame(call, "", "", 0, path)
        return self.frames[address]

    def _stack(self, rest: bytes) -> None:
        address, callers = map(number, rest.split())
        self.stacks.append(self.writer.stack(self.stacks[callers], self._frame(address)))

    def _new(self, rest: bytes) -> None:
        size, stack, address = map(number, rest.split())
        if address in self.live:
            self.writer.free(address)
        self.live.add(address)
        self.writer.new(address, size, self.stacks[stack])

    def _free(self, rest: bytes) -> None:
        address = number(rest)
        if address in self.live:
            self.live.remove(address)
            self.writer.free(address)
        else:
            self.unknown_frees += 1


def read(lines: Lines, writer: TraceWriter, tick: Progress) -> int:
    """Write a raw file of heaptrack as a trace. Returns the number of frees of blocks that it does not have."""
    return Reader(lines, writer).read(tick)
