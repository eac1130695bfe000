"""Rows of several lists, matched by their names: what the lists of two traces have in common.

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
from steve.trace.stacks import Sites, levels

if TYPE_CHECKING:
    from steve.trace.rollups import Rollup

ROOT = np.uint64(1 << 32)  # a node's key is its callers' node times this, plus the number of its name


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
        used, some = np.zeros(len(callers), bool), np.unique(numbers)
        while len(some):
            used[some] = True
            some = np.unique(callers[some])
            some = some[~used[some] & (some != 0)]
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
    """The names of the rows of lists that are added one after the other. Equal names get the same node. by: one of
    steve.trace.rollups.BY, of all lists."""

    def __init__(self, by: str) -> None:
        self._is_tree = by == "stack"
        self._texts: dict[str, int] = {}
        self._shown: list[str] = []  # by number of a text
        self._own: list[bool] = []  # is a frame of that text the program's own code?
        self._tree = Tree()

    def add(self, rollup: Rollup, numbers: np.ndarray) -> np.ndarray:
        """The nodes of the rows with these numbers."""
        if self._is_tree:
            sites = rollup.sites
            return self._tree.add_sites(sites, numbers, lambda n: self._text(sites.frame_text(n), sites.is_own(n)))
        texts = [self._text(rollup.text(number), True) for number in numbers.tolist()]
        return self._tree.add(np.zeros(len(numbers), "u4"), np.array(texts, "u4"))

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

    def _text(self, text: str, own: bool) -> int:
        number = self._texts.setdefault(text, len(self._shown))
        if number == len(self._shown):
            self._shown.append(text)
            self._own.append(own)
        return number
