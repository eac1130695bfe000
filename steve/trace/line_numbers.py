"""Numbers for the lines of a program, for kernels that count by line (steve/kernels/lines/lines.h).

A line has its function as a part of it: functions that share a line are counted apart. A function of Lua is known by
its place in the source, whatever it is called; its name is that of the first stack that it is in, else that of a site of
an access, else that of its prototype, which does not know by which name it is called.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from steve.trace.places import Found, Line, Owner, Places

if TYPE_CHECKING:
    import numpy as np

STACK, SITE, PROTO = range(3)  # what gives a function its name, the best first


class LineNumbers:
    """Numbers of lines from 0, in the order in which they are met."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._numbers: dict[tuple[object, ...], int] = {}
        self._lines: list[Found] = []  # by number
        self._names: dict[Owner, tuple[int, str]] = {}  # of functions of Lua: what named them, and how
        self._stacks, self._sites, self._places = array("I"), array("I"), array("I")
        self._of_keys: dict[tuple[int, ...] | None, int] = {}  # by site_key() of a Trace
        self._protos = 0

    def count(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def line(self, number: int) -> Line:
        found = self._lines[number]
        return found.line if found.owner is None else found.line._replace(function=self._names[found.owner][1])

    def of_stack(self, stack: int) -> Line:
        """The line of a stack that has been reached."""
        return self.line(self._stacks[stack])

    def _number(self, found: Found, source: int) -> int:
        owner = found.owner
        if owner is not None and self._names.get(owner, (PROTO + 1, ""))[0] > source:
            self._names[owner] = source, found.line.function
        key = found.line if owner is None else (found.line.line, owner)
        number = self._numbers.setdefault(key, len(self._lines))
        if number == len(self._lines):
            self._lines.append(found)
        return number

    def _number_site(self, site: int) -> int:
        key = self.places.trace.site_key(site)
        if key not in self._of_keys:
            self._of_keys[key] = self._number(self.places.find_site(site), SITE)
        return self._of_keys[key]

    def reach(self, stacks: int, sites: int, protos: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers by stack, by site and by place (instruction after instruction of each prototype), for as many
        stacks, sites and prototypes; good until the next call. Each array has one element at least."""
        import numpy as np
        for stack in range(len(self._stacks), stacks):
            self._stacks.append(self._number(self.places.find_stack(stack), STACK))
        for site in range(len(self._sites), sites):
            self._sites.append(self._number_site(site))
        for proto in range(self._protos, protos):
            self._places.extend(self._number(found, PROTO) for found in self.places.find_proto(proto))
        self._protos = max(self._protos, protos)
        return tuple(np.array(a or [0], "u4") for a in (self._stacks, self._sites, self._places))

    def reach_all(self) -> None:
        """Number what the trace has defined by now."""
        counts = self.places.trace.counts()
        self.reach(counts["stacks"], counts["sites"], counts["protos"])
