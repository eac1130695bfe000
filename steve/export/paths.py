"""Shown stacks as sequences of frame ids: find the frames in use, and sort stacks by their frames.

Little memory is used for each stack: a trace can have hundreds of thousands of stacks with tens of frames each.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.trace.policy import ShownStacks


def frames_of(shown: ShownStacks, stacks: Iterable[int]) -> list[int]:
    """The ids of all frames of the stacks, each once, in the order of first use, innermost first. Frame 0 is that of
    empty and unknown stacks."""
    met = bytearray(len(shown))  # by stack id: it and the stacks of its callers were seen
    found: dict[int, None] = {}
    for stack in map(shown.stack, stacks):
        if not stack:
            found[0] = None
        while stack and not met[stack]:
            met[stack] = True
            found[shown.frame(stack)] = None
            stack = shown.outer(stack)
    return list(found)


class Order(NamedTuple):
    """indices: those of the stacks, sorted. starts: the positions in `indices` where a run of equal stacks begins."""

    indices: np.ndarray
    starts: np.ndarray


def in_order(shown: ShownStacks, stacks: np.ndarray, ranks: Mapping[int, int], outermost_first: bool = False) -> Order:
    """Sort stacks by the ranks of their frames, compared from the innermost (or outermost) frame on. ranks: by frame
    id; frames of equal rank are equal."""
    import numpy as np

    width = (max(ranks.values(), default=0).bit_length() + 7) // 8 or 1
    codes = {number: rank.to_bytes(width, "big") for number, rank in ranks.items()}
    step = -1 if outermost_first else 1
    keys = [b"".join([codes[number] for number in shown.ids(stack)[::step]]) for stack in stacks.tolist()]
    indices = sorted(range(len(keys)), key=keys.__getitem__)
    starts = [i for i, index in enumerate(indices) if i == 0 or keys[index] != keys[indices[i - 1]]]
    return Order(np.array(indices, "i8"), np.array(starts, "i8"))
