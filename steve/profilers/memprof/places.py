"""Where memprof says that memory was taken: in a Lua line, a C function, on a trace, or inside LuaJIT.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import NamedTuple

from steve.terminal.tables import printable

INTERNAL, LUA, C, TRACE = 1, 2, 3, 4  # the numbers of the ljm stream


class Place(NamedTuple):
    """source: one of the numbers above. name: chunk of a Lua line (or of the line a trace begins at), name of
    a C function. first: line of the function's definition; line: the line itself; number: address of a
    C function, number of a trace."""
    source: int
    name: str = ""
    first: int = 0
    line: int = 0
    number: int = 0


INSIDE = Place(INTERNAL)


class Names:
    """Places as text. A chunk with more than one line (code from a string) gets a short name, told by
    `aliases`."""

    def __init__(self, today: bool = False) -> None:
        self.today = today
        self.aliases: dict[str, str] = {}

    def chunk(self, name: str) -> str:
        if "\n" not in name:
            return printable(name)
        return self.aliases.setdefault(name, f"function_alias_{len(self.aliases)}")

    def text(self, place: Place) -> str:
        """`@file:first, line N` of the first RFC, or `@file:N` of today's parsers."""
        if place.source == INTERNAL:
            return "INTERNAL"
        if place.source == C:
            return f"CFUNC {printable(place.name) or hex(place.number)}"
        if place.source == TRACE:
            start = f" started at {self.chunk(place.name)}:{place.line}" if place.name else ""
            return f"TRACE [{place.number}]{start}"
        if self.today:
            return f"{self.chunk(place.name)}:{place.line}"
        return f"{self.chunk(place.name)}:{place.first}, line {place.line}"
