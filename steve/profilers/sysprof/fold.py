"""Merge the two call stacks of a sample, C and Lua, into one, outermost frame first.

Lua frames are inserted after the host function that called into Lua (lua_pcall, lua_call or lua_cpcall). If Lua called
C and C called Lua again, each run of Lua frames follows its own call. If the host stack does not contain such a
function, the Lua frames are appended at the end, so that none is lost.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Iterable

from steve.profilers.memprof.symtab import Symbols
from steve.profilers.sysprof.samples import CALLS_LUA, STATES, CFrame, FastFrame, GuestFrame, LuaFrame, Sample

Folded = dict[tuple[str, ...], int]


class Folder:
    """Names frames by the symbols read so far, and merges stacks."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols

    def host(self, address: int) -> str:
        """The name of a C function."""
        return self.symbols.c_name(address) or f"{address:#x}"

    def lua(self, proto: int, line: int) -> str:
        """The name of a Lua function: chunk and line."""
        return f"{self.symbols.chunk(proto)}:{'builtin' if line >= 2**63 else line}"

    def guest(self, frame: GuestFrame) -> str:
        """The name of a frame of the Lua stack."""
        if isinstance(frame, LuaFrame):
            return self.lua(frame.proto, frame.line)
        return f"builtin#{frame.ffid}" if isinstance(frame, FastFrame) else self.host(frame.address)

    def stack(self, sample: Sample) -> tuple[str, ...]:
        """The names of the whole stack of a sample, root first."""
        if sample.trace is not None:
            return (f"TRACE [{sample.trace.number}] {self.lua(sample.trace.proto, sample.trace.line)}",)
        guests, merged = runs(sample.lua), []
        for address in reversed(sample.host):
            merged.append(self.host(address))
            if merged[-1] in CALLS_LUA and guests:
                merged += map(self.guest, without_end(guests.pop(0)))
        for run in guests:
            merged += map(self.guest, run)
        return tuple(merged) or (STATES[sample.state],)


def runs(frames: Iterable[GuestFrame]) -> list[list[GuestFrame]]:
    """Lua frames, root first, divided into runs; each C function ends a run. frames: innermost first."""
    found: list[list[GuestFrame]] = [[]]
    for frame in reversed(tuple(frames)):
        found[-1].append(frame)
        if isinstance(frame, CFrame):
            found.append([])
    return [run for run in found if run]


def without_end(run: list[GuestFrame]) -> list[GuestFrame]:
    """A run without the C function at its end, which the host stack contains, too."""
    return run[:-1] if isinstance(run[-1], CFrame) else run


def add(folded: Folded, stack: tuple[str, ...], weight: int = 1) -> None:
    """Add the weight of a sample to that of its stack."""
    folded[stack] = folded.get(stack, 0) + weight
