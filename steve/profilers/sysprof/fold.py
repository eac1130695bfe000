"""One call stack out of the two that a sample has: C and Lua together, from the outermost frame.

Lua frames follow the host function that called into Lua (lua_pcall, lua_call, lua_cpcall); where C was called
from Lua and called Lua again, each run of Lua frames follows its own call. If the host stack does not show
such a function, the Lua frames come last, so that none is lost.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Iterable

from steve.profilers.memprof.symtab import Symbols
from steve.profilers.sysprof.samples import CALLS_LUA, STATES, CFrame, FastFrame, GuestFrame, LuaFrame, Sample

Folded = dict[tuple[str, ...], int]


class Folder:
    """Frames by name, with the symbols known at the time."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols

    def host(self, address: int) -> str:
        return self.symbols.c_name(address) or f"{address:#x}"

    def lua(self, proto: int, line: int) -> str:
        return f"{self.symbols.chunk(proto)}:{'builtin' if line >= 2**63 else line}"

    def guest(self, frame: GuestFrame) -> str:
        if isinstance(frame, LuaFrame):
            return self.lua(frame.proto, frame.line)
        return f"builtin#{frame.ffid}" if isinstance(frame, FastFrame) else self.host(frame.address)

    def stack(self, sample: Sample) -> tuple[str, ...]:
        """The whole stack, root first."""
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
    """Lua frames, root first, cut behind each C function."""
    found: list[list[GuestFrame]] = [[]]
    for frame in reversed(tuple(frames)):
        found[-1].append(frame)
        if isinstance(frame, CFrame):
            found.append([])
    return [run for run in found if run]


def without_end(run: list[GuestFrame]) -> list[GuestFrame]:
    """The host stack shows the C function itself."""
    return run[:-1] if isinstance(run[-1], CFrame) else run


def add(folded: Folded, stack: tuple[str, ...], weight: int = 1) -> None:
    folded[stack] = folded.get(stack, 0) + weight
