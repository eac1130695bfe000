"""Number the lines of a program, for kernels that count by line (steve/kernels/lines/lines.h).

A line includes its function: two functions that share a source line are counted separately. A Lua function is
identified by its place in the source, because callers may use different names for it. Its name is taken from the
first stack that contains it, else from an access site, else from its prototype, which has no name of its own.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from steve.trace.places import Found, Line, Owner, Places

if TYPE_CHECKING:
    import numpy as np

STACK, SITE, PROTO = range(3)  # sources of a function's name, the best first


class LineNumbers:
    """The numbers of lines, counted from 0 in the order in which the lines are first seen."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._numbers: dict[tuple[object, ...], int] = {}
        self._lines: list[Found] = []  # by number
        self._names: dict[Owner, tuple[int, str]] = {}  # of a Lua function: the source of its name, and the name
        self._owners: dict[tuple[str, int, str], Owner] = {}  # by file, first line and name of a function
        self._stacks, self._sites, self._places = array("I"), array("I"), array("I")
        self._of_keys: dict[tuple[int, ...] | None, int] = {}  # numbers by Trace.site_key()
        self._protos = 0

    def count(self) -> int:
        """The number of lines so far."""
        return len(self._lines)

    def line(self, number: int) -> Line:
        """The line with a number. If functions that begin on one line have one name, all but the first seen get a
        number: `f#2` is the second function that begins there."""
        found = self._lines[number]
        if found.owner is None:
            return found.line
        (file, defined, nth, _), name = found.owner, self._names[found.owner][1]
        if self._owners.setdefault((file, defined, name), found.owner) != found.owner:
            name = f"{name}#{nth + 1}"
        return found.line._replace(function=name)

    def of_stack(self, stack: int) -> Line:
        """The line of a stack that reach() has numbered."""
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
        """Number the lines of the first `stacks` stacks, `sites` access sites and `protos` prototypes.

        Returns three arrays of u4, each with one element at least: line numbers indexed by stack id, by site id, and
        by place. A place is an instruction of a prototype, counted through all prototypes in order."""
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
        """Number the lines of all stacks, sites and prototypes that the trace has defined so far."""
        counts = self.places.trace.counts()
        self.reach(counts["stacks"], counts["sites"], counts["protos"])


class KnownLines:
    """The numbers of a whole trace from the beginning, by stack, site and place, and how many lines there are."""

    def __init__(self, stacks: "np.ndarray", sites: "np.ndarray", places: "np.ndarray", lines: int) -> None:
        self.stacks, self.sites, self.places, self.lines = stacks, sites, places, lines

    def reach(self, stacks: int, sites: int, protos: int) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        """As of LineNumbers."""
        return self.stacks, self.sites, self.places

    def count(self) -> int:
        return self.lines
