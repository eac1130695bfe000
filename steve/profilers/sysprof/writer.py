"""Write sysprof's files, version 2, as steve.profilers.sysprof.reader describes them, from whole stacks.

The format puts Lua frames only behind a host function that calls into Lua, and only in three states. So that
nothing of a whole stack is lost on a reader: where the stack lacks such a function, a host frame `lua_pcall`
is written; in the other states Lua frames are written as host frames with their names; samples of compiled
code, for which the format has no stack, are written as Lua functions'.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Sequence
from typing import NamedTuple

from steve.profilers._ljstream import Packer
from steve.profilers.memprof import symtab
from steve.profilers.sysprof.samples import CALLS_LUA, FRAME_C, FRAME_LUA, GUEST_STATES, LFUNC, TRACE

VERSION, SYMTAB_VERSION = 2, 3
LUA_SYMBOL, C_SYMBOL = 10, 11
FIRST_ADDRESS = 0x1000
ENOUGH = 1 << 20


class Frame(NamedTuple):
    """lua: a Lua function of `name` (its chunk) defined at `line`; else the C function `name`."""
    lua: bool
    name: str
    line: int = 0


class SysprofWriter:
    """Writes to a descriptor; finish() is to be called at the end. Raises WriteError."""

    def __init__(self, fd: int) -> None:
        self.out = Packer(fd)
        self._addresses: dict[Frame, int] = {}
        symtab.write_prologue(self.out, b"ljs", SYMTAB_VERSION)
        self.out.byte(symtab.FINAL)
        symtab.write_prologue(self.out, b"ljp", VERSION)

    def address(self, frame: Frame) -> int:
        """What stands for a frame; its symbol is written when it is new."""
        known = self._addresses.get(frame)
        if known is None:
            known = self._addresses[frame] = FIRST_ADDRESS + 16 * len(self._addresses)
            if frame.lua:
                symtab.write_lua(self.out, LUA_SYMBOL, known, frame.name, frame.line)
            else:
                symtab.write_c(self.out, C_SYMBOL, known, frame.name)
        return known

    def sample(self, state: int, stack: Sequence[Frame], weight: int = 1) -> None:
        """`weight` samples of a stack, root first, in a state of STATES."""
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
        self.out.byte(symtab.FINAL)
        self.out.flush()


def named(frame: Frame) -> Frame:
    """A Lua frame as a host frame of that name."""
    return Frame(False, f"{frame.name}:{frame.line}") if frame.lua else frame


def split(stack: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """(Lua stack, host stack) of a whole stack, all root first."""
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
