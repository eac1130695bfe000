"""Rows of two lists, matched by their names: what the lists of two traces have in common.

Names of code are the same if they stand for the same place, though its line has moved (steve.trace.moved). Other names
are the same if their texts are.

Names of sites are stacks of tens of frames, of which there may be hundreds of thousands. They are kept as a tree: a node is a
frame with the node of its callers. A name becomes text when it is shown. Names of other rows are nodes without callers.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from steve.terminal.tables import StackText
from steve.trace.moved import Place, compared_text, matched, place_of
from steve.trace.rollups import key_of
from steve.trace.stacks import Sites, levels

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame
    from steve.trace.rollups import Rollup

ROOT = np.uint64(1 << 32)  # a node's key is its callers' node times this, plus the number of its name
ONLY_IN_FIRST = "in A"  # follows a name of the first list whose text the second list has for another place


def with_callers(callers: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """Which of all sites are some of these, or are among their callers? callers: by site, that of its callers."""
    used, some = np.zeros(len(callers), bool), np.unique(sites)
    while len(some):
        used[some] = True
        some = np.unique(callers[some])
        some = some[~used[some] & (some != 0)]
    return used


def frames_of(sites: Sites, numbers: np.ndarray) -> list[int]:
    """The frames of sites."""
    _, _, callers, frames = sites.tree()
    return np.unique(frames[with_callers(callers, numbers)]).tolist()


class Tree:
    """The sites of traces as nodes: a node is a frame, by the number of its name, with the node of its callers. Equal
    paths get the same node, which has a greater number than that of its callers. Node 0 is the root."""

    def __init__(self) -> None:
        self.callers, self.names = np.zeros(1, "u4"), np.zeros(1, "u4")  # by node
        self._keys, self._nodes = np.zeros(0, "u8"), np.zeros(0, "u4")  # sorted by key

    def add_sites(self, sites: Sites, numbers: np.ndarray, name: Callable[[int], int]) -> np.ndarray:
        """The nodes of sites. name: the number of the name of a frame. Site 0, of stacks without frames, has a node, too:
        that of frame 0."""
        _, _, callers, frames = sites.tree()
        used = with_callers(callers, numbers)
        ids = np.flatnonzero(used)
        of_frames = np.zeros(int(frames[ids].max(initial=0)) + 1, "u4")
        for number in np.unique(frames[ids]).tolist():
            of_frames[number] = name(number)
        nodes, place = np.zeros(len(callers), "u4"), np.zeros(len(callers), "u4")
        nodes_of_none = self.add(np.zeros(1, "u4"), of_frames[:1]) if used[0] else np.zeros(1, "u4")
        ids = ids[ids != 0]
        place[ids] = np.arange(1, len(ids) + 1)
        for level in levels(np.concatenate((place[:1], place[callers[ids]]))):
            some = ids[level - 1]
            nodes[some] = self.add(nodes[callers[some]], of_frames[frames[some]])
        return np.where(numbers == 0, nodes_of_none, nodes[numbers])

    def add(self, callers: np.ndarray, names: np.ndarray) -> np.ndarray:
        """The nodes with these callers and numbers of names."""
        keys, which = np.unique(callers.astype("u8") * ROOT + names, return_inverse=True)
        at = np.searchsorted(self._keys, keys)
        known = np.zeros(len(keys), bool)
        inside = at < len(self._keys)
        known[inside] = self._keys[at[inside]] == keys[inside]
        nodes, new = np.zeros(len(keys), "u4"), keys[~known]
        nodes[known] = self._nodes[at[known]]
        nodes[~known] = np.arange(len(self.callers), len(self.callers) + len(new))
        self.callers = np.concatenate((self.callers, (new // ROOT).astype("u4")))
        self.names = np.concatenate((self.names, (new % ROOT).astype("u4")))
        self._keys = np.insert(self._keys, at[~known], new)
        self._nodes = np.insert(self._nodes, at[~known], nodes[~known])
        return nodes[which]


class Matched:
    """The names of the rows of two lists that are added one after the other. Equal names get the same node, of which the
    text is that of the second list. by: one of steve.trace.rollups.BY, of both lists."""

    def __init__(self, by: str) -> None:
        self._by, self._is_tree = by, by == "stack"
        self._shown: list[str] = []  # by number of a name
        self._own: list[bool] = []  # is a frame of that name the program's own code?
        self._frames: list[Frame | None] = []  # of that name, of the last list that has it
        self._first: dict[str, tuple[int, Place]] = {}  # the names of the first list: their numbers and places
        self._tree = Tree()

    def add(self, rollup: Rollup, numbers: np.ndarray) -> np.ndarray:
        """The nodes of the rows with these numbers."""
        if self._is_tree:
            sites, frames = rollup.sites, frames_of(rollup.sites, numbers)
            named = [sites.shown.named(frame) if frame else None for frame in frames]
            texts = [self._compared(frame, sites.frame_text(number)) for frame, number in zip(named, frames)]
            names = self._names(texts, named, [sites.is_own(frame) for frame in frames])
            of_frames = dict(zip(frames, map(names.__getitem__, texts)))
            return self._tree.add_sites(sites, numbers, of_frames.__getitem__)
        is_code = key_of(self._by) == "stack"
        of_rows = [rollup.frame(number) if is_code else None for number in numbers.tolist()]
        texts = [self._compared(frame, rollup.text(number)) for frame, number in zip(of_rows, numbers.tolist())]
        names = self._names(texts, of_rows, [True] * len(texts))
        return self._tree.add(np.zeros(len(numbers), "u4"), np.array([names[text] for text in texts], "u4"))

    def _compared(self, frame: Frame | None, text: str) -> str:
        """The name by which a frame is compared."""
        return compared_text(frame, text)

    def _names(self, texts: list[str], frames: list[Frame | None], own: list[bool]) -> dict[str, int]:
        """The numbers of the names of a list."""
        places = {text: place_of(frame, text, self._by) for text, frame in zip(texts, frames)}
        same = matched({text: place for text, (_, place) in self._first.items()}, places)
        found = {}
        for text, frame, is_own in zip(texts, frames, own):
            if text in found:
                continue
            if text in same:
                found[text] = self._first[same[text]][0]
                self._shown[found[text]], self._frames[found[text]] = text, frame
            else:
                found[text] = len(self._shown)
                self._shown.append(text)
                self._frames.append(frame)
                self._own.append(is_own)
        for text in (self._first.keys() - set(same.values())) & found.keys():
            self._shown[self._first[text][0]] = f"{text} {ONLY_IN_FIRST}"
        if not self._first:
            self._first = {text: (number, places[text]) for text, number in found.items()}
        return found

    def add_joined(self, names: SameNames, nodes: np.ndarray) -> np.ndarray:
        """The nodes of a list whose rows are of several files, which have these nodes in `names`."""
        texts = [self._compared(frame, text) for frame, text in zip(names._frames, names._shown)]
        numbers = self._names(texts, names._frames, names._own)
        of_names = np.array([numbers[text] for text in texts], "u4")
        callers, of_nodes = names.steps()
        found = np.zeros(len(callers), "u4")
        for some in levels(callers):
            found[some] = self._tree.add(found[callers[some]], of_names[of_nodes[some]])
        return found[nodes]

    def without_callers(self, nodes: np.ndarray) -> np.ndarray:
        """The nodes of stacks cut after the innermost frame of the program's own code; other nodes as they are."""
        if not self._is_tree:
            return nodes
        known: dict[tuple[int, ...], int] = {}  # the names of the frames that are left, and their number
        which = [known.setdefault(self._innermost(node), len(known)) for node in nodes.tolist()]
        left, found = list(known), np.zeros(len(known), "u4")
        for depth in range(1, max(map(len, left), default=0) + 1):
            some = [i for i, names in enumerate(left) if len(names) >= depth]
            found[some] = self._tree.add(found[some], np.array([left[i][-depth] for i in some], "u4"))
        return found[which]

    def _innermost(self, node: int) -> tuple[int, ...]:
        """The names of the frames of a stack as far as the first one of the program's own code; without such, the first."""
        names: list[int] = []
        while node:
            names.append(int(self._tree.names[node]))
            if self._own[names[-1]]:
                return tuple(names)
            node = int(self._tree.callers[node])
        return tuple(names[:1])

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """By node, that of its callers, which has a smaller number, and the number of its name. Node 0 is the root."""
        return self._tree.callers, self._tree.names

    def names(self) -> list[tuple[str, Frame | None]]:
        """The names of frames by number, with a frame of each."""
        return list(zip(self._shown, self._frames))

    def text(self, node: int) -> str:
        """The name of a node."""
        if not self._is_tree:
            return self._shown[self._tree.names[node]]
        calls = self._calls(node)
        least = next((i for i, (number, _) in enumerate(calls, 1) if self._own[number]), 1)
        return StackText([self._part(*call) for call in calls], least)

    def in_order(self, nodes: np.ndarray) -> np.ndarray:
        """The indices that sort nodes by their names. In place of the text of each, which would take much memory, the ranks
        of its parts are compared."""
        if not self._is_tree:
            return np.array(
                sorted(range(len(nodes)), key=[self.text(node) for node in nodes.tolist()].__getitem__), "i8"
            )
        known: dict[tuple[int, int, bool], int] = {}  # numbers of parts: text, calls, is it the last one?
        found, ends = array("I"), array("Q", [0])
        for node in nodes.tolist():
            calls = self._calls(node)
            last = len(calls) - 1
            found.extend([known.setdefault((*call, i == last), len(known)) for i, call in enumerate(calls)])
            ends.append(len(found))
        texts = [self._part(number, calls) + ("" if last else " < ") for number, calls, last in known]
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        of_parts = np.array([ranks[text] for text in texts], ">u4")
        keys = of_parts[np.frombuffer(found, "u4")].tobytes() if found else b""
        width = of_parts.itemsize
        order = sorted(range(len(nodes)), key=lambda i: keys[width * ends[i] : width * ends[i + 1]])
        return np.array(order, "i8")

    def _calls(self, node: int) -> list[tuple[int, int]]:
        """The frames of a name: numbers of texts, each with the number of such calls in a row."""
        texts = []
        while node:
            texts.append(int(self._tree.names[node]))
            node = int(self._tree.callers[node])
        return [(number, len(list(run))) for number, run in groupby(texts)]

    def _part(self, number: int, calls: int) -> str:
        return f"{self._shown[number]} x{calls}" if calls > 1 else self._shown[number]


class SameNames(Matched):
    """The same of the files of one program, each of a process of its own. Rows are one only if their names are equal,
    with their lines: if one process allocates on one line of a function and another on the next one, no line has moved.
    """

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self._known: dict[str, int] = {}

    def _compared(self, frame: Frame | None, text: str) -> str:
        return text

    def _names(self, texts: list[str], frames: list[Frame | None], own: list[bool]) -> dict[str, int]:
        for text, frame, is_own in zip(texts, frames, own):
            if text not in self._known:
                self._known[text] = len(self._shown)
                self._shown.append(text)
                self._frames.append(frame)
                self._own.append(is_own)
        return self._known
