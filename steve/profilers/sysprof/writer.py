"""Write whole stacks as sysprof's files, version 2; steve.profilers.sysprof.reader describes the format.

The format has Lua frames in three states only, and readers insert them after a host function that calls into Lua. So
that readers see the whole stack, the writer adapts it: a stack without such a function gets a host frame
`lua_pcall`. In the other states, Lua frames are written as host frames with their names. Samples of compiled code,
for which the format has no stack, are written in state LFUNC.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Sequence
from typing import NamedTuple

from steve.profilers._ljstream import Packer
from steve.profilers.memprof import symtab
from steve.profilers.sysprof.samples import CALLS_LUA, FRAME_C, FRAME_LUA, GUEST_STATES, LFUNC, TRACE

VERSION, SYMTAB_VERSION = 2, 3
LUA_SYMBOL, C_SYMBOL = 10, 11
FIRST_ADDRESS = 0x1000  # the first of the made-up addresses of functions, which are 16 apart
ENOUGH = 1 << 20  # bytes to gather before they are written


class Frame(NamedTuple):
    """If `lua`, the Lua function defined at line `line` of chunk `name`; else the C function `name`."""

    lua: bool
    name: str
    line: int = 0


class SysprofWriter:
    """Writes to a file descriptor, which the caller owns. The caller must call finish() at the end. Raises
    WriteError."""

    def __init__(self, fd: int) -> None:
        self.out = Packer(fd)
        self._addresses: dict[Frame, int] = {}
        symtab.write_prologue(self.out, b"ljs", SYMTAB_VERSION)
        self.out.byte(symtab.FINAL)
        symtab.write_prologue(self.out, b"ljp", VERSION)

    def address(self, frame: Frame) -> int:
        """The made-up address of a frame; its symbol is written at first use."""
        known = self._addresses.get(frame)
        if known is None:
            known = self._addresses[frame] = FIRST_ADDRESS + 16 * len(self._addresses)
            if frame.lua:
                symtab.write_lua(self.out, LUA_SYMBOL, known, frame.name, frame.line)
            else:
                symtab.write_c(self.out, C_SYMBOL, known, frame.name)
        return known

    def sample(self, state: int, stack: Sequence[Frame], weight: int = 1) -> None:
        """Write a sample `weight` times. state: index of STATES; stack: root first."""
        state = LFUNC if state == TRACE else state
        if state in GUEST_STATES:
            lua, host = split(stack)
        else:
            lua, host = [], [named(frame) for frame in stack]
        record = self._encode(state, lua, [self.address(frame) for frame in host])
        for _ in range(weight):
            self.out.raw(record)
        self.out.flush(ENOUGH)

    def _encode(self, state: int, lua: list[Frame], host: list[int]) -> bytes:
        """The bytes of one sample."""
        guests = [(frame, self.address(frame)) for frame in lua]
        record = Packer(-1)
        record.byte(state)
        for frame, address in reversed(guests):
            record.byte(FRAME_LUA if frame.lua else FRAME_C)
            record.uleb(address)
            if frame.lua:
                record.uleb(frame.line)
        if state in GUEST_STATES:
            record.byte(symtab.FINAL)
        for address in reversed(host):
            record.uleb(address)
        record.uleb(0)
        return record.take()

    def finish(self) -> None:
        """Write the end of the stream."""
        self.out.byte(symtab.FINAL)
        self.out.flush()


def named(frame: Frame) -> Frame:
    """The frame itself, or for a Lua frame a host frame with its name."""
    return Frame(False, f"{frame.name}:{frame.line}") if frame.lua else frame


def split(stack: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Divide a whole stack into (Lua stack, host stack). All three are root first."""
    lua: list[Frame] = []
    host: list[Frame] = []
    inside = False  # is the frame before a Lua frame?
    for frame in stack:
        if frame.lua and not inside and (not host or host[-1].name not in CALLS_LUA):
            host.append(Frame(False, "lua_pcall"))
        if not frame.lua and (inside or (host and host[-1].name in CALLS_LUA)):
            lua.append(frame)  # a C function that Lua, or lua_pcall, called: it ends a run
        (lua if frame.lua else host).append(frame)
        inside = frame.lua
    return lua, host
