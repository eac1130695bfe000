"""The symbol table that memprof's and sysprof's files begin with (`ljs`): who is at which address.

    symtab = "ljs" version 0 0 0 [vm-address: first RFC only] symbol* 0x80
    symbol = 0 address chunk first-line | 1 address name | 2 trace-number prototype-address line

Version 1 has Lua functions only; version 3 has all three, and symbols that come later stand among the events.
Numbers are ULEB128, strings have their length before them. Not here: what refers to the symbols.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from steve.profilers._ljstream import Cursor, Packer

MAGIC = b"ljs"
VERSIONS = (1, 3)
LUA, C, TRACE, FINAL = 0, 1, 2, 0x80
BUILTIN = 2**64 - 1  # the first line of a builtin, -1


def signed(line: int) -> int:
    """A line as it was written: builtins have -1."""
    return line - 2**64 if line >= 2**63 else line


class LuaFunction(NamedTuple):
    """chunk: as LuaJIT keeps it, with its @ or =; first: line of the definition, 0 of a main chunk."""
    chunk: str
    first: int


class TraceStart(NamedTuple):
    """Where a trace begins: address of the prototype, and the line."""
    proto: int
    line: int


class Symbols:
    """The symbols known so far; a later one of the same address takes the place of the earlier."""

    def __init__(self) -> None:
        self.lua: dict[int, LuaFunction] = {}
        self.traces: dict[int, TraceStart] = {}
        self._c: dict[int, str] = {}
        self._order: list[int] = []

    def add_c(self, address: int, name: str) -> None:
        if address not in self._c:
            bisect.insort(self._order, address)
        self._c[address] = name

    def c_name(self, address: int) -> str:
        """The function that begins at an address or nearest before it; "" if there is none."""
        at = bisect.bisect_right(self._order, address)
        return self._c[self._order[at - 1]] if at else ""

    def chunk(self, address: int) -> str:
        """The chunk of a Lua function, or its address."""
        known = self.lua.get(address)
        return known.chunk if known is not None else f"{address:#x}"

    def read(self, cursor: Cursor, kind: int) -> None:
        """One symbol, whose kind was read before."""
        if kind == LUA:
            address, chunk = cursor.uleb(), cursor.text()
            self.lua[address] = LuaFunction(chunk, signed(cursor.uleb()))
        elif kind == C:
            address = cursor.uleb()
            self.add_c(address, cursor.text())
        else:
            number, proto = cursor.uleb(), cursor.uleb()
            self.traces[number] = TraceStart(proto, signed(cursor.uleb()))


def skip_vm_address(cursor: Cursor) -> None:
    """The first RFC has the VM's address here, later writers do not; both call it version 1. An address is
    at least 128, so that its first byte has its top bit set, as only the final symbol's has, behind which
    the events begin."""
    final = cursor.peek() == FINAL and bytes(map(cursor.peek, (1, 2))) in (b"lj",)
    if cursor.peek() >= 0x80 and not final:
        cursor.uleb()


def read_symtab(cursor: Cursor) -> tuple[int, Symbols]:
    """The whole table; (version, symbols). Raises StreamError."""
    version, symbols = cursor.prologue(MAGIC, VERSIONS), Symbols()
    if version == 1:
        skip_vm_address(cursor)
    while True:
        start, kind = cursor.at, cursor.byte()
        if kind & FINAL:
            return version, symbols
        if kind > TRACE or (version == 1 and kind != LUA):
            raise cursor.error(f"a symbol of kind {kind}, unknown in version {version}; the file is damaged",
                               start)
        symbols.read(cursor, kind)


def write_prologue(out: Packer, magic: bytes, version: int) -> None:
    out.raw(magic + bytes((version, 0, 0, 0)))


def write_lua(out: Packer, header: int, address: int, chunk: str, first: int) -> None:
    """A Lua function; first -1 for a builtin."""
    out.byte(header)
    out.uleb(address)
    out.text(chunk)
    out.uleb(first & BUILTIN)


def write_c(out: Packer, header: int, address: int, name: str) -> None:
    out.byte(header)
    out.uleb(address)
    out.text(name)


def write_trace(out: Packer, header: int, number: int, proto: int, line: int) -> None:
    for write, value in ((out.byte, header), (out.uleb, number), (out.uleb, proto), (out.uleb, line)):
        write(value)
