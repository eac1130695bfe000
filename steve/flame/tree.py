"""Folded stacks as a tree of frames, and the reading of folded text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple

from steve.errors import SteveError

Folded = Dict[Tuple[str, ...], int]


def parse(lines: Iterable[str], name: str) -> Folded:
    """`root;...;leaf N` lines; empty lines are passed over. SteveError names the line."""
    folded: Folded = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        stack, _, count = line.rstrip().rpartition(" ")
        if not stack or not count.isdecimal():
            raise SteveError(f"{name}: line {number}: not `frame;frame N`; is this a file of folded stacks?")
        key = tuple(stack.split(";"))
        folded[key] = folded.get(key, 0) + int(count)
    return folded


class Box(NamedTuple):
    """A frame in the drawing: depth from 0 (the root of all), start and width in the units of the weights;
    own: the part that is not in frames below."""
    name: str
    depth: int
    start: int
    width: int
    own: int


class Node:
    """A frame with everything below it."""
    __slots__ = ("width", "own", "below")

    def __init__(self) -> None:
        self.width = self.own = 0
        self.below: Dict[str, "Node"] = {}


def grow(folded: Mapping[Tuple[str, ...], int]) -> Node:
    """The tree of all stacks."""
    root = Node()
    for stack, weight in folded.items():
        node = root
        node.width += weight
        for name in stack:
            node = node.below.setdefault(name, Node())
            node.width += weight
        node.own += weight
    return root


def boxes(root: Node, least: float) -> Iterator[Box]:
    """All frames at least `least` wide, a frame before those below it, siblings by name."""
    pending: List[Tuple[str, Node, int, int]] = [("all", root, 0, 0)]
    while pending:
        name, node, depth, start = pending.pop()
        if node.width < least:
            continue
        yield Box(name, depth, start, node.width, node.own)
        at, below = start, []
        for child in sorted(node.below):
            below.append((child, node.below[child], depth + 1, at))
            at += node.below[child].width
        pending += reversed(below)
