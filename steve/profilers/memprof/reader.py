"""Read memprof's files: a symbol table, then every allocation, resize and free (`ljm`, versions 1 and 3).

    ljm = "ljm" version 0 0 0 event* 0x80
    event = header [place] address size                  header: [FUUSSSEE] in version 3, [FTUUSSEE] in 1
          | header [place] old-address old-size address size
    E: 0 symbol, 1 allocation, 2 free, 3 resize; S: 1 internal, 2 Lua, 3 C, 4 trace
    place = internal: nothing | Lua: prototype line | C: address | trace: number

The file is mapped, not read into memory. The sums need memory for live blocks and places only. If the file is
damaged or truncated, everything before that is kept, and the attribute `problem` is set.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steve.profilers.memprof import symtab
from steve.profilers.memprof.places import C, INSIDE, INTERNAL, LUA, Place

if TYPE_CHECKING:
    from steve.profilers._ljstream import Heap, StreamError

MAGIC = b"ljm"
VERSIONS = (1, 3)
SYMBOL_KINDS = {LUA: symtab.LUA, C: symtab.C, 4: symtab.TRACE}


class MemprofFile:
    """An open file. The constructor reads symbols and version and raises StreamError if it cannot; read() reads the
    events. data: the content of the file; name: for messages."""

    def __init__(self, data: Any, name: str) -> None:
        from steve.profilers._ljstream import Cursor

        self.name = name
        self.cursor: Cursor = Cursor(data, name)
        self.symtab_version, self.symbols = symtab.read_symtab(self.cursor)
        self.version = self.cursor.prologue(MAGIC, VERSIONS)
        self.problem: StreamError | None = None

    def place(self, key: tuple[int, int, int]) -> Place:
        """The Place of an event. key: (source, address or trace number, line)."""
        source, number, line = key
        if source == INTERNAL:
            return INSIDE
        if source == LUA:
            known = self.symbols.lua.get(number)
            return Place(LUA, self.symbols.chunk(number), known.first if known else 0, symtab.signed(line))
        if source == C:
            return Place(C, self.symbols.c_name(number), number=number)
        start = self.symbols.traces.get(number)
        if start is None:
            return Place(source, number=number)
        return Place(source, self.symbols.chunk(start.proto), line=start.line, number=number)

    def _symbol(self, source: int) -> None:
        self.symbols.read(self.cursor, SYMBOL_KINDS[source])

    def read(self, heap: Heap, second: Callable[[], None] = lambda: None) -> None:
        """Deliver all events to `heap`. second() is called at each time mark, which only version 1 has. A StreamError
        is not raised but stored in `problem`."""
        from steve.profilers._ljstream import StreamError, memprof_events

        try:
            memprof_events(self.cursor, self.version, heap, self.place, self._symbol, second)
            if self.cursor.at != self.cursor.size:
                raise self.cursor.error(
                    f"{self.cursor.size - self.cursor.at} bytes after the end of the " "events; two files in one?"
                )
        except StreamError as error:
            self.problem = error


def recorded(file: MemprofFile) -> list[tuple]:
    """All events in order as tuples, such as ("alloc", place, address, size); for tests and small files."""
    from steve.profilers._ljstream import Heap

    events: list[tuple] = []

    class Log(Heap):  # type: ignore[misc]
        def alloc(self, *what: object) -> int:
            events.append(("alloc", *what))
            return 0

        def free(self, *what: object) -> int:
            events.append(("free", *what))
            return 0

        def realloc(self, *what: object) -> int:
            events.append(("realloc", *what))
            return 0

    file.read(Log())
    return events
