"""Number the lines of a program, for kernels that count by line (steve/kernels/lines/lines.h).

A line includes its function: two functions that share a source line are counted separately. A Lua function is
identified by its place in the source, because callers may use different names for it. Its name is taken from the
first stack that contains it, else from an access site, else from its prototype, which has no name of its own.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steve.trace.places import Found, Line, Owner, Places

if TYPE_CHECKING:
    import numpy as np

STACK, SITE, PROTO = range(3)  # sources of a function's name, the best first


class Numbers:
    """An array of u4 that grows at its end. A view of it stays as it is."""

    def __init__(self) -> None:
        import numpy as np

        self._array, self._n = np.zeros(1, "u4"), 0

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, at: int) -> int:
        return int(self._array[at])

    def extend(self, values: Sequence[int] | np.ndarray) -> None:
        import numpy as np

        n = self._n + len(values)
        if n > len(self._array):
            more = np.zeros(max(n, len(self._array) * 5 // 4) - len(self._array), "u4")
            self._array = np.concatenate((self._array, more))
        self._array[self._n : n] = values
        self._n = n

    def view(self) -> np.ndarray:
        """Its elements, or one that is 0."""
        return self._array[: max(self._n, 1)]


class LineNumbers:
    """The numbers of lines, counted from 0 in the order in which the lines are first seen."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._numbers: dict[tuple[object, ...], int] = {}
        self._lines: list[Found] = []  # by number
        self._names: dict[Owner, tuple[int, str]] = {}  # of a Lua function: the source of its name, and the name
        self._owners: dict[tuple[str, int, str], Owner] = {}  # by file, first line and name of a function
        self._stacks, self._sites, self._places = Numbers(), Numbers(), Numbers()
        self._of_frames: dict[int, int] = {}  # numbers by the frame of a stack's line
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

    def _number_stacks(self, stacks: np.ndarray) -> np.ndarray:
        """The numbers of the lines of stacks, given by their ids."""
        import numpy as np

        frames, first, which = np.unique(self.places.line_frames(stacks), return_index=True, return_inverse=True)
        for number in frames[np.argsort(first)].tolist():
            if number not in self._of_frames:
                self._of_frames[number] = self._number(self.places.find_frame(number), STACK)
        return np.array([self._of_frames[number] for number in frames.tolist()], "u4")[which]

    def reach(self, stacks: int, sites: int, protos: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number the lines of the first `stacks` stacks, `sites` access sites and `protos` prototypes.

        Returns three arrays of u4, each with one element at least: line numbers indexed by stack id, by site id, and
        by place. A place is an instruction of a prototype, counted through all prototypes in order."""
        import numpy as np

        if stacks > len(self._stacks):
            self._stacks.extend(self._number_stacks(np.arange(len(self._stacks), stacks, dtype="u4")))
        self._sites.extend([self._number_site(site) for site in range(len(self._sites), sites)])
        for proto in range(self._protos, protos):
            self._places.extend([self._number(found, PROTO) for found in self.places.find_proto(proto)])
        self._protos = max(self._protos, protos)
        return self._stacks.view(), self._sites.view(), self._places.view()

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
