"""Folded stacks as the boxes of a tree of frames, and the reading of folded text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Iterable
from typing import NamedTuple

from steve.system.errors import SteveError

Folded = dict[tuple[str, ...], int]


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


class Stacks(NamedTuple):
    """pairs: names from the root and a weight, each stack once, in the order of the names; total: of the weights."""
    pairs: Iterable[tuple[tuple[str, ...], int]]
    total: int


def sorted_stacks(folded: Folded) -> Stacks:
    return Stacks(sorted(folded.items()), sum(folded.values()))


class Opened:
    """A frame of the latest stack, which may go on; next: where what is below it goes on; number: how many were opened
    before. What is its own comes after all that is below."""
    __slots__ = ("name", "start", "next", "own", "number")

    def __init__(self, name: str, start: int, number: int) -> None:
        self.name, self.start, self.next, self.own, self.number = name, start, start, 0, number


def common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many names two stacks begin with alike."""
    for i, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return i
    return min(len(one), len(other))


def boxes(stacks: Stacks, least: float) -> list[Box]:
    """All frames at least `least` wide, a frame before those below it, siblings by name. Kept are those and the frames
    of one stack."""
    found: list[tuple[int, Box]] = []
    path, opened = [Opened("all", 0, 0)], 1

    def close(depth: int) -> None:
        """End the frames below a depth."""
        while len(path) > depth:
            frame = path.pop()
            end = frame.next + frame.own
            if path:
                path[-1].next = end
            if end - frame.start >= least:
                found.append((frame.number, Box(frame.name, len(path), frame.start, end - frame.start, frame.own)))

    before: tuple[str, ...] = ()
    for stack, weight in stacks.pairs:
        alike = common(before, stack)
        close(alike + 1)
        for name in stack[alike:]:
            path.append(Opened(name, path[-1].next, opened))
            opened += 1
        path[-1].own += weight
        before = stack
    close(0)
    return [box for _, box in sorted(found)]
