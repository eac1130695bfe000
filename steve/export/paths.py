"""Stacks as sequences of frames, by ids: which frames there are, and in what order the stacks come.

Nothing is kept for a stack that it does not need: a trace can have some hundred thousand, of some ten frames each.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from steve.trace._memtrace import Trace


def frames_of(trace: Trace, stacks: Iterable[int]) -> list[int]:
    """The ids of all frames of stacks, each once, in the order of their first use, innermost first. 0 stands for a
    stack that is empty or not known."""
    met = bytearray(trace.counts()["stacks"] + 1)  # the callers of such a stack were met, too
    found: dict[int, None] = {}
    for stack in stacks:
        entry = trace.stack(stack) if stack else None
        if entry is None:
            found[0] = None
        while stack and entry is not None and not met[stack]:
            met[stack] = True
            found[entry[1]] = None
            stack = entry[0] if entry[0] < stack else 0
            entry = trace.stack(stack)
    return list(found)


class Order(NamedTuple):
    """indices: of stacks in order; starts: where in `indices` each run of equal ones begins."""
    indices: np.ndarray
    starts: np.ndarray


def in_order(trace: Trace, stacks: np.ndarray, ranks: Mapping[int, int], outermost_first: bool = False) -> Order:
    """Stacks in the order of the ranks of their frames. ranks: by id of a frame."""
    import numpy as np
    width = (max(ranks.values(), default=0).bit_length() + 7) // 8 or 1
    codes = {number: rank.to_bytes(width, "big") for number, rank in ranks.items()}
    step = -1 if outermost_first else 1
    keys = [b"".join([codes[number] for number in trace.stack_ids(stack)[::step]]) for stack in stacks.tolist()]
    indices = sorted(range(len(keys)), key=keys.__getitem__)
    starts = [i for i, index in enumerate(indices) if i == 0 or keys[index] != keys[indices[i - 1]]]
    return Order(np.array(indices, "i8"), np.array(starts, "i8"))
