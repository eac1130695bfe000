"""Which objects of two processes are the same? In one process that is known by address and type; between processes, and
so between two versions of a program, addresses say nothing.

Objects of two processes are the same if they are at the same place: if shortest paths lead to both from the roots by links of
the same kinds and keys, over objects of the same types and names. The names of functions do not count, since they contain
files and lines; nor does where a local variable is. Strings have the same size, too. Several objects at a place, as prototypes of a function, are matched in
their order if both snapshots have as many. What is more than MOST_LEVELS links from a root is matched with nothing, so a long
linked list of two processes counts as new from there on. Time is O(objects * levels), memory O(objects).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from steve.snapshots.graph import STACK, STRINGS, Universe

MOST_LEVELS = 64
WHERE = re.compile(r" ?\([^()]*:\d+\)$")  # the end of a local variable's name: its function
OF_CODE = ("func", "proto", "trace")  # types whose names contain files, lines or addresses
ONLY_BEFORE, ONLY_AFTER = 1 << 40, 1 << 41  # identities of objects that have no counterpart; of pairs, numbers from 1


def identify(before: Universe, after: Universe) -> bool:
    """Let objects of two snapshots have the same identity (Universe.identity) if they are the same; by their places, unless both
    snapshots are of one process. Are they?"""
    if _is_one_process(before, after):
        return True
    texts: dict[str, int] = {}
    old, new = _Tree(before, texts), _Tree(after, texts)
    found = list(_levels(old, new))
    pairs = np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int64)
    for universe, members, first in ((before, pairs[0], ONLY_BEFORE), (after, pairs[1], ONLY_AFTER)):
        numbers = np.arange(first, first + len(universe.objects), dtype=np.uint64)
        numbers[members] = np.arange(1, len(members) + 1, dtype=np.uint64)
        universe.identity = numbers
    return False


def _is_one_process(before: Universe, after: Universe) -> bool:
    """Is one of the traces the other one, or were both recorded of one process, one after the other?"""
    facts = [
        [universe.trace.info().get(name) for name in ("pid", "executable", "command")] for universe in (before, after)
    ]
    return before.trace.name == after.trace.name or (facts[0] == facts[1] and facts[0][0] is not None)


class _Tree:
    """The shortest paths to the objects of a snapshot. roots; linked: the objects that are reached by a link; parent: of each of
    these, the one before it. places: a row for each object: the kind and key of the link, 0 of a root; its type;
    its name, or the size of a string.
    """

    def __init__(self, universe: Universe, texts: dict[str, int]) -> None:
        """texts: the numbers of the strings of both snapshots, which are added to."""
        objects, via = universe.objects, universe.via
        self.roots, self.linked = np.flatnonzero(via == -1), np.flatnonzero(via >= 0)
        links = universe.links[universe.strong[via[self.linked]]]
        self.parent = links["from"].astype(np.int64)
        self.places = np.zeros((len(objects), 4), np.int64)
        has_text = np.isin(links["kind"], list(STRINGS))
        at, key = self.linked, links["name"].astype(np.int64)
        on_stack = links["kind"] == STACK
        for some, pattern in ((has_text & ~on_stack, None), (on_stack, WHERE)):
            key[some] = _numbers(universe, links["name"][some], texts, pattern)
        self.places[at, 0], self.places[at, 1], self.places[:, 2] = links["kind"], key, objects["type"]
        is_string = objects["type"] == universe.type_names.index("str")
        self.places[is_string, 3] = objects["size"][is_string]  # which does not change
        has_name = ~is_string & ~np.isin(objects["type"], [universe.type_names.index(name) for name in OF_CODE])
        self.places[has_name, 3] = _numbers(universe, objects["name"][has_name], texts, None)

    def after(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The objects that links lead to from these, and a row for each: the index in `members` and its place."""
        index = np.full(len(self.places), -1, np.int64)
        index[members] = np.arange(len(members))
        parents = index[self.parent]
        found = self.linked[parents >= 0]
        return found, np.column_stack([parents[parents >= 0], self.places[found]])


def _numbers(universe: Universe, strings: np.ndarray, texts: dict[str, int], cut: re.Pattern[str] | None) -> np.ndarray:
    """By number of a string of a trace, the number of its text in `texts`. cut: what is left out."""
    distinct, which = np.unique(strings, return_inverse=True)
    said = [universe.trace.string(number) for number in distinct.tolist()]
    known = [texts.setdefault(cut.sub("", text) if cut else text, len(texts)) for text in said]
    return np.array(known, np.int64)[which]


def _levels(old: _Tree, new: _Tree) -> Iterator[np.ndarray]:
    """Pairs of objects that are the same, as the columns of matrices: their numbers in the two snapshots. First come those of the
    roots, then of what these lead to, and so on."""
    pairs = _alike(old.places[old.roots], new.places[new.roots])
    pairs = np.stack([old.roots[pairs[0]], new.roots[pairs[1]]])
    for _ in range(MOST_LEVELS):
        if not pairs.shape[1]:
            return
        yield pairs
        (members, places), (others, their_places) = old.after(pairs[0]), new.after(pairs[1])
        alike = _alike(places, their_places)
        pairs = np.stack([members[alike[0]], others[alike[1]]])


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The numbers of equal rows of two matrices, as columns. Of rows that occur several times, those of one have as many in
    the other, and are in their order."""
    groups = np.unique(np.concatenate([one, other]), axis=0, return_inverse=True)[1]
    groups = groups.reshape(-1)  # a column in numpy 2.0
    count = int(groups.max()) + 1 if len(groups) else 0
    first, second = groups[: len(one)], groups[len(one) :]
    is_alike = np.bincount(first, minlength=count) == np.bincount(second, minlength=count)
    ordered = [np.argsort(side, kind="stable") for side in (first, second)]
    return np.stack([order[is_alike[side[order]]] for order, side in zip(ordered, (first, second))])
