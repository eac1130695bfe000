"""Write memprof's files, version 3; steve.profilers.memprof.reader describes the format.

The symbol table at the start is empty. Symbols are written between the events, at the first use of a place, which
version 3 allows; so one pass over the trace is enough. The addresses of Lua functions are made up here, because
readers use them as identifiers only.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from steve.profilers._ljstream import Packer
from steve.profilers.memprof import symtab
from steve.profilers.memprof.places import C, INTERNAL, LUA, TRACE, Place

VERSION = 3
ALLOC, FREE, REALLOC = 1, 2, 3
FIRST_PROTO = 0x1000  # the first of the made-up addresses, which are 16 apart as those of blocks are
ENOUGH = 1 << 20  # bytes to gather before they are written


class MemprofWriter:
    """Writes to a file descriptor, which the caller owns. The caller must call finish() at the end. Raises
    WriteError."""

    def __init__(self, fd: int) -> None:
        self.out = Packer(fd)
        self._protos: dict[tuple[str, int], int] = {}
        self._known: dict[Place, tuple[int, tuple[int, ...]]] = {}
        symtab.write_prologue(self.out, b"ljs", VERSION)
        self.out.byte(symtab.FINAL)
        symtab.write_prologue(self.out, b"ljm", VERSION)

    def _proto(self, chunk: str, first: int) -> int:
        """The address of a Lua function; its symbol is written at first use."""
        key = (chunk, first)
        if key not in self._protos:
            self._protos[key] = FIRST_PROTO + 16 * len(self._protos)
            symtab.write_lua(self.out, LUA << 2, self._protos[key], chunk, first)
        return self._protos[key]

    def _define(self, place: Place) -> tuple[int, tuple[int, ...]]:
        """Write the symbols of a place; return the source bits of the event header and the numbers that follow it."""
        if place.source == INTERNAL:
            return INTERNAL << 2, ()
        if place.source == LUA:
            return LUA << 2, (self._proto(place.name, place.first), place.line)
        if place.source == C:
            symtab.write_c(self.out, C << 2, place.number, place.name)
        else:
            proto = self._proto(place.name, place.first)
            symtab.write_trace(self.out, TRACE << 2, place.number, proto, place.line)
        return place.source << 2, (place.number,)

    def _event(self, kind: int, place: Place, *numbers: int) -> None:
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = self._define(place)
        out = self.out
        out.byte(known[0] | kind)
        for number in known[1]:
            out.uleb(number & symtab.BUILTIN)
        for number in numbers:
            out.uleb(number)
        out.flush(ENOUGH)

    def alloc(self, place: Place, address: int, size: int) -> None:
        """Write an allocation."""
        self._event(ALLOC, place, address, size)

    def free(self, place: Place, address: int, size: int) -> None:
        """Write a free."""
        self._event(FREE, place, address, size)

    def realloc(self, place: Place, old: int, old_size: int, address: int, size: int) -> None:
        """Write a resize from (old, old_size) to (address, size)."""
        self._event(REALLOC, place, old, old_size, address, size)

    def finish(self) -> None:
        """Write the end of the stream."""
        self.out.byte(symtab.FINAL)
        self.out.flush()
