"""Accesses by their offset in blocks: what `steve fields` and the report make of steve.kernels._accesses.Fields.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from steve.analysis.folds import Table

if TYPE_CHECKING:
    import numpy as np


class Accessed:
    """A fold (steve.analysis.folds): by stack that made blocks, the accesses to them and the size of the largest one. 8 bytes
    for each stack; 16 if there is any access."""

    needs_operation_numbers = False

    def __init__(self) -> None:
        import numpy as np

        self._accesses = np.zeros(0, "u8")  # by stack; what is beyond the end is 0
        self._most = np.zeros(0, "u8")

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        lives = batch if keep is None else batch[keep]
        self._add(lives["stack"], lives["loads"] + lives["stores"] + lives["modifies"], lives["most"])

    def _add(self, stacks: np.ndarray, accesses: np.ndarray, most: np.ndarray) -> None:
        import numpy as np

        self._most = _up_to(self._most, int(stacks.max(initial=0)))
        larger = np.flatnonzero(most > self._most[stacks])
        np.maximum.at(self._most, stacks[larger], most[larger])
        some = np.flatnonzero(accesses)
        if len(some):
            self._accesses = _up_to(self._accesses, int(stacks[some].max()))
            np.add.at(self._accesses, stacks[some], accesses[some])

    def partial(self, peak: int) -> Table:
        return self._table()

    def merge(self, shard: Table, peak: int) -> None:
        self._add(shard.numbers, shard.rows["accesses"], shard.rows["most"])

    def table(self) -> Table:
        """The sums of the stacks that made blocks with any byte; none if there was no access at all."""
        if not len(self._accesses):
            self._most = self._most[:0].copy()
        return self._table()

    def _table(self) -> Table:
        import numpy as np

        numbers = np.flatnonzero(self._most)
        rows = np.zeros(len(numbers), [("accesses", "u8"), ("most", "u8")])
        rows["most"] = self._most[numbers]
        known = numbers < len(self._accesses)
        rows["accesses"][known] = self._accesses[numbers[known]]
        return Table(numbers, rows)


def _up_to(rows: np.ndarray, index: int) -> np.ndarray:
    """The same rows, and zeros up to an index. An eighth more, so that few copies are made; the array grows in place if there
    is room after it."""
    missing = index + 1 - len(rows)
    if missing > 0:
        rows.resize(len(rows) * 9 // 8 + missing, refcheck=False)
    return rows


def groups_of(stacks: np.ndarray, sites: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The argument group_of of Fields: by stack the place of its site among the chosen ones. stacks: ids of stacks, in
    order; sites: the site of each; chosen: numbers of sites."""
    import numpy as np

    groups = np.full(int(stacks[-1]) + 1 if len(stacks) else 0, 2**32 - 1, "u4")
    order = np.argsort(chosen)
    known = np.flatnonzero(np.isin(sites, chosen))
    groups[stacks[known]] = order[np.searchsorted(chosen[order], sites[known])]
    return groups


def runs(cells: np.ndarray) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Each run of equal cells: (index of the first cell, index after the last, counts of one cell)."""
    import numpy as np

    edges = np.flatnonzero(cells[1:] != cells[:-1]) + 1
    starts = [0, *edges.tolist()] if len(cells) else []
    for first, end in zip(starts, [*starts[1:], len(cells)]):
        yield first, end, dict(zip(cells.dtype.names, cells[first].tolist()))


def fields_of(largest: int, found: tuple[int, int, np.ndarray]) -> list[dict[str, Any]]:
    """The fields of the blocks of one site: runs of bytes with the same counts. largest: the size of its largest block; found:
    the result of Fields for the site."""
    cell, _, cells = found
    return [
        {"offset": first * cell, "bytes": min(end * cell, largest) - first * cell, **counts}
        for first, end, counts in runs(cells)
    ]
