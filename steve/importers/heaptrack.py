"""Files of heaptrack: heaptrack.PROGRAM.PID.zst or .gz, as heaptrack_interpret writes them (formats 1 to 3).

A file says which kind of allocation (size and stack) was made or freed, but not which block: a free is taken to be of the
youngest block of its kind, as heaptrack itself does to find temporary allocations. Blocks have no addresses, so they get
some that do not overlap.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from steve.importers.heaptrack_lines import UNIT, HeaptrackReader, has_version, number

if TYPE_CHECKING:
    from steve.importers._writer import TraceWriter
    from steve.importers.text import Lines
    from steve.terminal.progress import Progress

NAME = "heaptrack"
LACKS = "accesses, threads, addresses, which of several equal blocks is freed"
FIRST, GRAIN = 0x10000, 16
__all__ = ["LACKS", "NAME", "UNIT", "is_one", "read"]


def is_one(first: list[bytes]) -> bool:
    """Do these lines begin a file of heaptrack?"""
    return has_version(first)


class Addresses:
    """Gives blocks addresses that do not overlap."""

    def __init__(self) -> None:
        self._next = FIRST
        self._free: dict[int, list[int]] = {}  # by room

    def take(self, size: int) -> int:
        room = (size + GRAIN) // GRAIN * GRAIN
        unused = self._free.get(room)
        if unused:
            return unused.pop()
        self._next += room
        return self._next - room

    def give(self, address: int, size: int) -> None:
        self._free.setdefault((size + GRAIN) // GRAIN * GRAIN, []).append(address)


class Reader(HeaptrackReader):
    """Reads one file and writes the trace."""

    def __init__(self, lines: Lines, writer: TraceWriter) -> None:
        super().__init__(lines, writer)
        self.strings: list[str] = [""]
        self.places: list[list[tuple]] = [[]]  # by number of an instruction, the arguments of its frames
        self.frames: list[list[int] | None] = [None]  # the same, once they are defined; innermost first
        self.stacks: list[int] = [0]
        self.kinds: list[tuple[int, int]] = []  # size, stack
        self.live: list[list[int]] = []  # by kind, the addresses of its blocks
        self.addresses = Addresses()

    def functions(self) -> dict[bytes, Callable[[bytes], None]]:
        return super().functions() | {
            b"+": self._new,
            b"-": self._free,
            b"s": self._string,
            b"i": self._place,
            b"t": self._stack,
            b"a": self._kind,
        }

    def _string(self, rest: bytes) -> None:
        text = rest
        if self.format >= 3:
            length, _, text = rest.partition(b" ")
            if number(length) != len(text):
                raise ValueError
        self.strings.append(text.decode("utf-8", "surrogateescape"))

    def _place(self, rest: bytes) -> None:
        """An instruction: address, object, and function, file and line of its frames, inlined ones first."""
        ip, module, *names = map(number, rest.split())
        frames = []
        for i in range(0, len(names) or 1, 3):
            function, *place = names[i : i + 3] if names else [0]
            file, line = place if len(place) == 2 else (0, 0)
            frames.append((ip, self.strings[function], self.strings[file], line, self.strings[module]))
        self.places.append(frames)
        self.frames.append(None)

    def _defined(self, place: int) -> list[int]:
        """The frames of an instruction, innermost first."""
        found = self.frames[place]
        if found is None:
            frames = self.places[place]
            found = [self.writer.frame(*frame, i < len(frames) - 1) for i, frame in enumerate(frames)]
            self.frames[place] = found
        return found

    def _stack(self, rest: bytes) -> None:
        place, callers = map(number, rest.split())
        stack = self.stacks[callers]
        for frame in reversed(self._defined(place)):
            stack = self.writer.stack(stack, frame)
        self.stacks.append(stack)

    def _kind(self, rest: bytes) -> None:
        size, stack = map(number, rest.split())
        self.kinds.append((size, self.stacks[stack]))
        self.live.append([])

    def _new(self, rest: bytes) -> None:
        kind = number(rest)
        size, stack = self.kinds[kind]
        address = self.addresses.take(size)
        self.live[kind].append(address)
        self.writer.new(address, size, stack)

    def _free(self, rest: bytes) -> None:
        kind = number(rest)
        if not self.live[kind]:
            self.unknown_frees += 1
            return
        address = self.live[kind].pop()
        self.addresses.give(address, self.kinds[kind][0])
        self.writer.free(address)


def read(lines: Lines, writer: TraceWriter, tick: Progress) -> int:
    """Write a file of heaptrack as a trace. Returns the number of frees of blocks that it does not have."""
    return Reader(lines, writer).read(tick)
