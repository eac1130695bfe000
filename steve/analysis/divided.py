"""Blocks that another allocator divides into blocks of its own, and that were not freed: a pool takes a block of malloc, and
nothing returns it. The blocks inside count as live, not the divided one; so its bytes are a sum of their own.

Whether its own allocator freed such a block is known at the end of a complete trace only. Memory is O(such blocks).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.analysis.folds import Kept, columns

if TYPE_CHECKING:
    import numpy as np

    from steve.trace.rollups import Sums

BLOCKS, BYTES = "divided_blocks", "divided"


class Divided(Kept):
    """The fold (see steve.analysis.folds) of the lives of such blocks. key: what they are summed by, the name of a number of a
    life."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        some = batch["kept"] != 0
        if some.any():
            self._kept.append(columns(batch[some if keep is None else some & keep], self.key, "size", "weight"))

    def sums(self) -> Sums:
        """Their number and bytes by key; of a sample, estimates for the whole program."""
        import numpy as np

        from steve.trace.rollups import Sums

        none = np.zeros(0, [(self.key, "u4"), ("size", "u8"), ("weight", "f8")])
        lives = np.concatenate([columns(some, *none.dtype.names) for some in (none, *self._kept)])
        numbers, index = np.unique(lives[self.key], return_inverse=True)
        weights = np.where(lives["weight"], lives["weight"], 1)
        rows = np.zeros(len(numbers), [(BLOCKS, "u8"), (BYTES, "u8")])
        rows[BLOCKS] = np.bincount(index, weights, len(numbers)).round()
        rows[BYTES] = np.bincount(index, weights * lives["size"], len(numbers)).round()
        return Sums(numbers.astype("u4"), rows)
