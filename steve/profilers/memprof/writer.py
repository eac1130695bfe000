"""Write memprof's files, version 3, as steve.profilers.memprof.reader describes them.

Symbols are written among the events when a place is first named, which version 3 allows, so that one pass is
enough; the table in front is empty but for its end. Addresses of prototypes are those the trace has, else
numbers given out here: a reader uses them as names only.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from steve.profilers._ljstream import Packer
from steve.profilers.memprof import symtab
from steve.profilers.memprof.places import C, INTERNAL, LUA, TRACE, Place

VERSION = 3
ALLOC, FREE, REALLOC = 1, 2, 3
FIRST_PROTO = 0x1000  # of the addresses given out here; 16 apart, as blocks are
ENOUGH = 1 << 20      # bytes worth writing


class MemprofWriter:
    """Writes to a descriptor; finish() is to be called at the end. Raises WriteError."""

    def __init__(self, fd: int) -> None:
        self.out = Packer(fd)
        self._protos: dict[tuple[str, int], int] = {}
        self._known: dict[Place, tuple[int, tuple[int, ...]]] = {}
        symtab.write_prologue(self.out, b"ljs", VERSION)
        self.out.byte(symtab.FINAL)
        symtab.write_prologue(self.out, b"ljm", VERSION)

    def _proto(self, chunk: str, first: int) -> int:
        """The address of a Lua function, told when it is new."""
        key = (chunk, first)
        if key not in self._protos:
            self._protos[key] = FIRST_PROTO + 16 * len(self._protos)
            symtab.write_lua(self.out, LUA << 2, self._protos[key], chunk, first)
        return self._protos[key]

    def _define(self, place: Place) -> tuple[int, tuple[int, ...]]:
        """Source bits of the header and numbers of the location; symbols are written first."""
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
        self._event(ALLOC, place, address, size)

    def free(self, place: Place, address: int, size: int) -> None:
        self._event(FREE, place, address, size)

    def realloc(self, place: Place, old: int, old_size: int, address: int, size: int) -> None:
        self._event(REALLOC, place, old, old_size, address, size)

    def finish(self) -> None:
        self.out.byte(symtab.FINAL)
        self.out.flush()
