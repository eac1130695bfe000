"""A sample of sysprof, and what its numbers are called.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import NamedTuple

STATES = ("INTERP", "LFUNC", "FFUNC", "CFUNC", "GC", "EXIT", "RECORD", "OPT", "ASM", "TRACE")
LFUNC, FFUNC, CFUNC, TRACE = 1, 2, 3, 9
GUEST_STATES = (LFUNC, FFUNC, CFUNC)  # their samples have a Lua stack
FRAME_LUA, FRAME_C, FRAME_FAST, FRAME_END = 1, 2, 3, 0x80
CALLS_LUA = frozenset(("lua_pcall", "lua_call", "lua_cpcall"))  # host functions from which Lua goes on


class LuaFrame(NamedTuple):
    """proto: address; line: of the definition."""
    proto: int
    line: int


class CFrame(NamedTuple):
    """A C function in the Lua stack."""
    address: int


class FastFrame(NamedTuple):
    """A builtin, by the number that LuaJIT's build gave it."""
    ffid: int


class TraceSite(NamedTuple):
    """The compiled code that ran, and where it begins."""
    number: int
    proto: int
    line: int


GuestFrame = LuaFrame | CFrame | FastFrame


class Sample(NamedTuple):
    """state: index of STATES. lua and host: innermost first. trace: only in state TRACE."""
    state: int
    lua: tuple[GuestFrame, ...] = ()
    host: tuple[int, ...] = ()
    trace: TraceSite | None = None
