"""The samples of sysprof, and names for the numbers in its files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import NamedTuple

STATES = ("INTERP", "LFUNC", "FFUNC", "CFUNC", "GC", "EXIT", "RECORD", "OPT", "ASM", "TRACE")
LFUNC, FFUNC, CFUNC, TRACE = 1, 2, 3, 9
GUEST_STATES = (LFUNC, FFUNC, CFUNC)  # the states whose samples have a Lua stack
FRAME_LUA, FRAME_C, FRAME_FAST, FRAME_END = 1, 2, 3, 0x80
CALLS_LUA = frozenset(("lua_pcall", "lua_call", "lua_cpcall"))  # host functions that call Lua


class LuaFrame(NamedTuple):
    """A Lua function. proto: the address of its prototype; line: that of its definition."""

    proto: int
    line: int


class CFrame(NamedTuple):
    """A C function that Lua called."""

    address: int


class FastFrame(NamedTuple):
    """A builtin function. ffid: its number, which depends on the build of LuaJIT."""

    ffid: int


class TraceSite(NamedTuple):
    """A JIT trace. proto, line: where it begins."""

    number: int
    proto: int
    line: int


GuestFrame = LuaFrame | CFrame | FastFrame


class Sample(NamedTuple):
    """One sample. state: index of STATES. lua, host: the two stacks, innermost frame first. trace: only in state
    TRACE."""

    state: int
    lua: tuple[GuestFrame, ...] = ()
    host: tuple[int, ...] = ()
    trace: TraceSite | None = None
