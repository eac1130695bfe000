"""Read sysprof's files (`ljp`, version 2, and version 1, which has no symbols between its samples).

    ljp = "ljp" version 0 0 0 (sample | symbol)* 0x80
    sample = state [lua-stack, states 1 to 3] host-stack | 9 trace-number prototype line
    lua-stack = (1 prototype line | 2 address | 3 builtin)* 0x80        host-stack = address* 0
    symbol = 10 prototype chunk line | 11 address name | 12 trace-number prototype line

Stacks are stored innermost frame first. The file is mapped into memory; samples are delivered one by one. If the
file is damaged or truncated, everything before that is delivered, and the attribute `problem` is set.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from steve.profilers.memprof import symtab
from steve.profilers.sysprof.samples import (
    FRAME_C,
    FRAME_END,
    FRAME_FAST,
    FRAME_LUA,
    GUEST_STATES,
    TRACE,
    CFrame,
    FastFrame,
    GuestFrame,
    LuaFrame,
    Sample,
    TraceSite,
)

if TYPE_CHECKING:
    from steve.profilers._ljstream import StreamError

MAGIC = b"ljp"
VERSIONS = (1, 2)
FIRST_SYMBOL, LAST_SYMBOL = 10, 12


class SysprofFile:
    """An open file. The constructor reads symbols and version and raises StreamError if it cannot; samples() reads the
    rest. data: the content of the file; name: for messages."""

    def __init__(self, data: Any, name: str) -> None:
        from steve.profilers._ljstream import Cursor

        self.name = name
        self.cursor: Cursor = Cursor(data, name)
        _, self.symbols = symtab.read_symtab(self.cursor)
        self.version = self.cursor.prologue(MAGIC, VERSIONS)
        self.problem: StreamError | None = None

    def _lua_frame(self, start: int, kind: int) -> GuestFrame:
        cursor = self.cursor
        if kind == FRAME_LUA:
            return LuaFrame(cursor.uleb(), cursor.uleb())
        if kind == FRAME_C:
            return CFrame(cursor.uleb())
        if kind == FRAME_FAST:
            return FastFrame(cursor.uleb())
        raise cursor.error(f"a frame of kind {kind}; the file is damaged", start)

    def _lua_stack(self) -> tuple[GuestFrame, ...]:
        frames: list[GuestFrame] = []
        while True:
            start, kind = self.cursor.at, self.cursor.byte()
            if kind & FRAME_END:
                return tuple(frames)
            frames.append(self._lua_frame(start, kind))

    def _host_stack(self) -> tuple[int, ...]:
        frames: list[int] = []
        address = self.cursor.uleb()
        while address:
            frames.append(address)
            address = self.cursor.uleb()
        return tuple(frames)

    def _sample(self, state: int) -> Sample:
        cursor = self.cursor
        if state == TRACE:
            return Sample(state, trace=TraceSite(cursor.uleb(), cursor.uleb(), cursor.uleb()))
        lua = self._lua_stack() if state in GUEST_STATES else ()
        return Sample(state, lua, self._host_stack())

    def _all(self) -> Iterator[Sample]:
        cursor = self.cursor
        while True:
            start, header = cursor.at, cursor.byte()
            if header & FRAME_END:
                break
            if header <= TRACE:
                yield self._sample(header)
            elif header <= LAST_SYMBOL and self.version > 1:
                self.symbols.read(cursor, header - FIRST_SYMBOL)
            else:
                raise cursor.error(f"a sample with the header {header:#04x}; the file is damaged", start)
        if cursor.at != cursor.size:
            raise cursor.error(f"{cursor.size - cursor.at} bytes after the end of the samples")

    def samples(self) -> Iterator[Sample]:
        """All samples, in order. `symbols` is the state that applies to the sample just delivered."""
        from steve.profilers._ljstream import StreamError

        try:
            yield from self._all()
        except StreamError as error:
            self.problem = error
