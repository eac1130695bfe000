"""The symbol table at the start of memprof's and sysprof's files (`ljs`): functions and traces by address.

    symtab = "ljs" version 0 0 0 [vm-address: first RFC only] symbol* 0x80
    symbol = 0 address chunk first-line | 1 address name | 2 trace-number prototype-address line

Version 1 has Lua functions only. Version 3 has all three kinds, and also allows symbols between the events. Numbers
are encoded as ULEB128; the length of a string precedes it. The readers of the two file formats are
steve.profilers.memprof.reader and steve.profilers.sysprof.reader.

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
BUILTIN = 2**64 - 1  # the first line of a builtin function: -1 as an unsigned number


def signed(line: int) -> int:
    """A line number as a signed number: that of a builtin function is -1."""
    return line - 2**64 if line >= 2**63 else line


class LuaFunction(NamedTuple):
    """chunk: the name as LuaJIT stores it, with its prefix @ or =. first: the line where the function is defined, 0 for
    a main chunk."""

    chunk: str
    first: int


class TraceStart(NamedTuple):
    """Where a JIT trace begins: the address of the prototype, and the line."""

    proto: int
    line: int


class Symbols:
    """The symbols read so far. A symbol replaces an earlier one with the same address."""

    def __init__(self) -> None:
        self.lua: dict[int, LuaFunction] = {}
        self.traces: dict[int, TraceStart] = {}
        self._c: dict[int, str] = {}
        self._order: list[int] = []

    def add_c(self, address: int, name: str) -> None:
        """Add a C function."""
        if address not in self._c:
            bisect.insort(self._order, address)
        self._c[address] = name

    def c_name(self, address: int) -> str:
        """The name of the C function that begins at an address or most closely before it; "" if there is none."""
        at = bisect.bisect_right(self._order, address)
        return self._c[self._order[at - 1]] if at else ""

    def chunk(self, address: int) -> str:
        """The chunk of the Lua function at an address, or the address as text if it is unknown."""
        known = self.lua.get(address)
        return known.chunk if known is not None else f"{address:#x}"

    def read(self, cursor: Cursor, kind: int) -> None:
        """Read one symbol. kind: LUA, C or TRACE, which the caller has read already."""
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
    """Skip the address of the virtual machine, if there is one.

    The first RFC has it here, later writers omit it, and both call the format version 1. An address is at least 128,
    so the top bit of its first byte is set. The only symbol whose first byte has that bit is FINAL, and FINAL is
    followed by the magic of the events."""
    final = cursor.peek() == FINAL and bytes(map(cursor.peek, (1, 2))) in (b"lj",)
    if cursor.peek() >= 0x80 and not final:
        cursor.uleb()


def read_symtab(cursor: Cursor) -> tuple[int, Symbols]:
    """Read the whole table: (version, symbols). Raises StreamError."""
    version, symbols = cursor.prologue(MAGIC, VERSIONS), Symbols()
    if version == 1:
        skip_vm_address(cursor)
    while True:
        start, kind = cursor.at, cursor.byte()
        if kind & FINAL:
            return version, symbols
        if kind > TRACE or (version == 1 and kind != LUA):
            raise cursor.error(f"a symbol of kind {kind}, unknown in version {version}; the file is damaged", start)
        symbols.read(cursor, kind)


def write_prologue(out: Packer, magic: bytes, version: int) -> None:
    """Write the first bytes of a table or stream."""
    out.raw(magic + bytes((version, 0, 0, 0)))


def write_lua(out: Packer, header: int, address: int, chunk: str, first: int) -> None:
    """Write the symbol of a Lua function. header: the first byte; first: the line of the definition, -1 for a
    builtin."""
    out.byte(header)
    out.uleb(address)
    out.text(chunk)
    out.uleb(first & BUILTIN)


def write_c(out: Packer, header: int, address: int, name: str) -> None:
    """Write the symbol of a C function."""
    out.byte(header)
    out.uleb(address)
    out.text(name)


def write_trace(out: Packer, header: int, number: int, proto: int, line: int) -> None:
    """Write the symbol of a JIT trace. proto, line: where it begins."""
    for write, value in ((out.byte, header), (out.uleb, number), (out.uleb, proto), (out.uleb, line)):
        write(value)
