"""The places to which memprof attributes allocations: a Lua line, a C function, a JIT trace, or LuaJIT itself.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import NamedTuple

from steve.terminal.tables import printable

INTERNAL, LUA, C, TRACE = 1, 2, 3, 4  # sources of an event, as numbered in memprof's files


class Place(NamedTuple):
    """source: one of the constants above. name: the chunk of a Lua line, of the line where a JIT trace begins, or the
    name of a C function. first: the line where the function is defined. line: the line itself. number: the address of
    a C function or the number of a trace."""

    source: int
    name: str = ""
    first: int = 0
    line: int = 0
    number: int = 0


INSIDE = Place(INTERNAL)


class Names:
    """The text of places. today: in the form of current parsers, see text().

    A chunk whose name has more than one line (code loaded from a string) gets a short name; `aliases` maps such
    chunks to their short names."""

    def __init__(self, today: bool = False) -> None:
        self.today = today
        self.aliases: dict[str, str] = {}

    def chunk(self, name: str) -> str:
        """The name of a chunk, or its short name."""
        if "\n" not in name:
            return printable(name)
        return self.aliases.setdefault(name, f"function_alias_{len(self.aliases)}")

    def text(self, place: Place) -> str:
        """The text of a place. A Lua line is `@file:first, line N`, as in the first RFC, or `@file:N`, as in current
        parsers."""
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
