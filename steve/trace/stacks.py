"""Call stacks as text, and the allocation sites that stacks with the same text are.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from itertools import groupby
from typing import TYPE_CHECKING, Generic, TypeVar

from steve.terminal.tables import StackText, times
from steve.trace.frames import base_name, frame_text, is_lua
from steve.trace.policy import Policy, ShownStacks, is_own

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Frame, Trace

SITE = (
    "the stack without functions that only allocate; a table shows as many frames as it takes to tell its rows " "apart"
)
NO_STACK = "(no stack)"
MANY = 1 << 16  # stacks that are looked at together

Known = TypeVar("Known", bound=Hashable)


class Inherited(Generic[Known]):
    """A property of stacks that is computed from the innermost frame and the property of the callers' stack. It is
    computed once for each stack. Few stacks have different ones, so a number is kept for each stack.

    add(frame id, property of the callers' stack) returns the property; root: the property of the empty stack."""

    def __init__(self, trace: Trace, add: Callable[[int, Known], Known], root: Known) -> None:
        self._trace, self._add = trace, add
        self._values: list[Known] = [root]
        self._numbers: dict[Known, int] = {root: 1}  # by value, 1 plus its index
        self._known = array("I", [1])  # by stack id such a number; 0: not known yet

    def _reach(self, stack: int) -> None:
        more = max(stack + 1, len(self._known) * 5 // 4) - len(self._known)
        if stack >= len(self._known):
            self._known.frombytes(bytes(more * self._known.itemsize))

    def of(self, stack: int) -> Known:
        """The property of a stack."""
        self._reach(stack)
        path: list[tuple[int, int]] = []
        while not self._known[stack]:
            entry = self._trace.stack(stack)
            if entry is None:
                stack = 0
                break
            path.append((stack, entry[1]))
            stack = entry[0] if entry[0] < stack else 0
        number = self._known[stack]
        for below, frame in reversed(path):
            number = self._number(self._add(frame, self._values[number - 1]))
            self._known[below] = number
        return self._values[number - 1]

    def _number(self, value: Known) -> int:
        number = self._numbers.setdefault(value, len(self._values) + 1)
        if number > len(self._values):
            self._values.append(value)
        return number


class Sites:
    """The allocation sites of a trace. Shown stacks whose frames have the same texts are one site."""

    def __init__(self, trace: Trace, policy: Policy = Policy()) -> None:
        self.trace, self.shown = trace, ShownStacks(trace, policy)
        self._texts: dict[int, str] = {0: NO_STACK}
        self._own: dict[int, bool] = {}
        self._owners: dict[str, tuple[str, int, int]] = {}
        self._tree: tuple[np.ndarray, np.ndarray] | None = None  # of _new_tree()

    def frame_text(self, number: int) -> str:
        """The text of a frame. If functions have the same text, all but the first seen have the whole path of their
        file or, of Lua, a number: `f#2` is the second function that begins on its line."""
        if number not in self._texts:
            frame = self.shown.named(number)
            self._texts[number] = "???" if frame is None else self._told_apart(frame)
        return self._texts[number]

    def _told_apart(self, frame: Frame) -> str:
        text, place = frame_text(frame), frame.file or frame.object
        owner = (place, frame.defined, frame.nth) if is_lua(frame) else (place, 0, 0)
        first = self._owners.setdefault(text, owner)
        if first == owner:
            return text
        if first[0] != place:
            return text.replace(f"({base_name(place)}", f"({place.lstrip('@=')}")
        return frame_text(frame._replace(function=f"{frame.function}#{frame.nth + 1}"))

    def is_own(self, number: int) -> bool:
        """Is a frame one of the program's own code?"""
        if number not in self._own:
            frame = self.trace.frame(number) if number else None
            self._own[number] = frame is None or is_own(frame)
        return self._own[number]

    def text(self, stack: int) -> StackText:
        """The text of the site of a stack: `function (file:line) < its caller < ...`. Calls of the same text in a row
        are one with their number: `f (a.c:7) x31`."""
        ids = self.shown.ids(stack)
        parts, least = [], 0
        for text, run in groupby(ids, self.frame_text):
            calls = list(run)
            if not least and any(map(self.is_own, calls)):
                least = len(parts) + 1
            parts.append(times(text, len(calls)))
        return StackText(parts, least or 1)

    def of(self, stacks: np.ndarray) -> np.ndarray:
        """The sites of stacks: for each the lowest id of a shown stack of the same text; 0 for stacks without
        frames."""
        import numpy as np

        shown, sites, _, _ = self.tree()
        return sites[shown[np.where(stacks < len(shown), stacks, 0)]]

    def tree(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """All stacks as a tree of sites, as arrays by stack id: the shown stack of each, and for a shown stack its
        site, the site of its callers (0: none) and the id of its innermost frame. The first and the last are views of
        ShownStacks.table(); the others are kept until the trace has more stacks."""
        if self._tree is None or len(self._tree[0]) != self.trace.counts()["stacks"]:
            self._tree = self._new_tree()
        shown, _, frames = self.shown.table()
        return shown, self._tree[0], self._tree[1], frames

    def _new_tree(self) -> tuple[np.ndarray, np.ndarray]:
        """By stack id: the site, and that of the callers."""
        import numpy as np

        _, outer, frames = self.shown.table()
        outer = outer.copy()
        texts: dict[str, int] = {}
        of_frames = np.zeros(int(frames.max(initial=0)) + 1, "u8")
        for number in np.unique(frames).tolist():
            of_frames[number] = texts.setdefault(self.frame_text(number), len(texts))
        sites = np.zeros(len(outer), "u4")
        for level in levels(outer):
            parts = 1 + len(level) // MANY  # those of the same callers are in one part
            of_callers = sites[outer[level]] % parts if parts > 1 else np.zeros(len(level), "u4")
            for part in range(parts):
                some = level[of_callers == part]
                keys = sites[outer[some]].astype("u8") << np.uint64(32) | of_frames[frames[some]]
                _, first, which = np.unique(keys, return_index=True, return_inverse=True)
                sites[some] = some[first][which]
        for first in range(0, len(outer), MANY):  # in place, because these arrays are long
            outer[first : first + MANY] = sites[outer[first : first + MANY]]
        return sites, outer


def levels(outer: np.ndarray) -> list[np.ndarray]:
    """The ids of stacks by their number of frames, from 1 on. outer: the stack of the callers, by stack id."""
    import numpy as np

    depths, jump = np.ones(len(outer), "u4"), outer.copy()
    depths[:1] = 0
    while jump.any():
        depths += depths[jump]
        jump = jump[jump]
    del jump
    # a counting sort by parts, because these arrays are long
    counts = np.bincount(depths)
    order, ends = np.zeros(len(outer), "u4"), np.cumsum(counts)
    places = ends - counts  # of the next stack of each number of frames
    for first in range(0, len(outer), MANY):
        some = depths[first : first + MANY]
        inner = np.argsort(some, kind="stable")
        found = np.bincount(some, minlength=len(counts))
        order[np.repeat(places - np.cumsum(found) + found, found) + np.arange(len(some))] = first + inner
        places += found
    return np.split(order, ends[:-1])[1:]


def by_site(sites: Sites, stacks: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum the rows of a structured array over the stacks of each site. stacks: the ids of the rows, in order. Returns the
    sites, in the order of their first stacks, and an array of their sums."""
    import numpy as np

    numbers, first, which = np.unique(sites.of(stacks), return_index=True, return_inverse=True)
    sums = np.zeros(len(numbers), rows.dtype)
    for name in rows.dtype.names:
        np.add.at(sums[name], which, rows[name])
    order = np.argsort(first)
    return numbers[order], sums[order]
