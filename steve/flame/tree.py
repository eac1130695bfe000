"""Turn folded stacks into the boxes of a tree of frames; parse folded text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections.abc import Iterable
from typing import NamedTuple

from steve.system.errors import SteveError

Folded = dict[tuple[str, ...], int]


def parse(lines: Iterable[str], name: str) -> Folded:
    """Parse lines `root;...;leaf N` into weights by stack. Empty lines are skipped. name: the file's name for
    messages. SteveError names the first line that has another form."""
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


def added(several: Iterable[Folded]) -> Folded:
    """The sums of several weights by stack."""
    sums: Folded = {}
    for folded in several:
        for stack, weight in folded.items():
            sums[stack] = sums.get(stack, 0) + weight
    return sums


class Box(NamedTuple):
    """A frame in the drawing. depth: 0 is the root. start, width: in the unit of the weights. own: the part of the
    width that is not in frames below."""

    name: str
    depth: int
    start: int
    width: int
    own: int


class Stacks(NamedTuple):
    """Weighted stacks. pairs: the names of a stack from the root on, and its weight; each stack occurs once, and they
    are sorted by their names. total: the sum of the weights."""

    pairs: Iterable[tuple[tuple[str, ...], int]]
    total: int


def sorted_stacks(folded: Folded) -> Stacks:
    """Weights by stack as Stacks."""
    return Stacks(sorted(folded.items()), sum(folded.values()))


class Opened:
    """A frame of the current stack, which the next stack may continue.

    start: its position, in the unit of the weights. next: the position for the next frame below it. own: its own
    weight so far, which is drawn after all frames below. number: the frames opened before it."""

    __slots__ = ("name", "start", "next", "own", "number")

    def __init__(self, name: str, start: int, number: int) -> None:
        self.name, self.start, self.next, self.own, self.number = name, start, start, 0, number


def common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """The length of the common prefix of two stacks."""
    for i, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return i
    return min(len(one), len(other))


def boxes(stacks: Stacks, least: float) -> list[Box]:
    """The boxes of all frames at least `least` wide, in the unit of the weights. A frame comes before those below it,
    siblings are sorted by name. Memory: these boxes and the frames of one stack."""
    found: list[tuple[int, Box]] = []
    path, opened = [Opened("all", 0, 0)], 1

    def close(depth: int) -> None:
        """End the frames at `depth` and below."""
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
