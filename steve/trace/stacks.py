"""Call stacks as text, shortened to the allocation site.

A site begins where a stack begins as it is shown (steve.trace.policy).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from steve.trace.policy import Policy, ShownStacks

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Frame, Trace

SITE = "first three frames of the stack, without functions that only allocate"


def place_text(function: str, file: str, line: int) -> str:
    """`function (file:line)` of a known file."""
    return f"{function} ({os.path.basename(file)}{f':{line}' if line else ''})"


def frame_text(frame: Frame) -> str:
    """`function (file:line)`, or as much of that as is known."""
    name = frame.function or f"{frame.ip:#x}"
    if frame.file:
        return place_text(name, frame.file, frame.line)
    if frame.object:
        return f"{name} ({os.path.basename(frame.object)})"
    return name


Known = TypeVar("Known")
UNKNOWN = object()


class Inherited(Generic[Known]):
    """A property of stacks that is computed from the innermost frame and the property of the callers' stack. It is
    computed once for each stack.

    add(frame id, property of the callers' stack) returns the property; root: the property of the empty stack."""

    def __init__(self, trace: Trace, add: Callable[[int, Known], Known], root: Known) -> None:
        self._trace, self._add, self._root = trace, add, root
        self._known: list[object] = [root]  # by stack id, else UNKNOWN; a tenth of the memory of a dict

    def _reach(self, stack: int) -> None:
        if stack >= len(self._known):
            self._known += [UNKNOWN] * (max(stack + 1, len(self._known) * 5 // 4) - len(self._known))

    def of(self, stack: int) -> Known:
        """The property of a stack."""
        self._reach(stack)
        path: list[tuple[int, int]] = []
        while self._known[stack] is UNKNOWN:
            entry = self._trace.stack(stack)
            if entry is None:
                stack = 0
                break
            path.append((stack, entry[1]))
            stack = entry[0] if entry[0] < stack else 0
        known = cast(Known, self._known[stack])
        for below, frame in reversed(path):
            known = self._add(frame, known)
            self._known[below] = known
        return known


class Sites:
    """The allocation sites of a trace: the first FRAMES frames of a stack as it is shown."""

    FRAMES = 3

    def __init__(self, trace: Trace, policy: Policy = Policy()) -> None:
        self.trace, self.shown = trace, ShownStacks(trace, policy)
        self._texts: dict[int, str] = {}

    def frames(self, stack: int) -> tuple[int, ...]:
        """The ids of the frames of a stack's site, innermost first."""
        shown, ids = self.shown.stack(stack), []
        while shown and len(ids) < self.FRAMES:
            ids.append(self.shown.frame(shown))
            shown = self.shown.outer(shown)
        return tuple(ids)

    def _text(self, number: int) -> str:
        if number not in self._texts:
            frame = self.trace.frame(number)
            self._texts[number] = frame_text(frame) if frame is not None else ""
        return self._texts[number]

    def name(self, frames: tuple[int, ...]) -> str:
        """The text of the site with these frame ids: `function (file:line) < its caller < ...`."""
        return " < ".join(filter(None, map(self._text, frames))) or "(no stack)"


def by_site(trace: Trace, stacks: np.ndarray) -> list[dict]:
    """Sum the rows of a structured array, which is indexed by stack id, over the stacks of each site.

    Returns a dict for each site, in the order of their first stacks: the columns of the array, and `site`, its
    name."""
    sites = Sites(trace)
    sums: dict[str, list[int]] = {}
    columns = stacks.dtype.names
    for stack, row in enumerate(stacks.tolist()):
        if any(row):
            key = sites.name(sites.frames(stack))
            sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(columns)), row)]
    return [{**dict(zip(columns, row)), "site": name} for name, row in sums.items()]
