"""What differs between two traces, by stack, line, function...: of `steve diff` and of the report on two traces.

Rows are matched by their texts, so the traces may come from different builds.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import heapq
from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple, Protocol

from steve.system.samples import VARIANCE, variance

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.folds import Table
    from steve.system.samples import Sample
    from steve.trace.matched import Matched
    from steve.trace.rollups import Rollup

MEASURES = (
    ("blocks", "blocks", "blocks made"),
    ("bytes", "bytes", "bytes that News and Resizes requested"),
    ("peak_bytes", "at peak", "live bytes at the peak of the whole heap"),
    ("live_bytes", "at end", "bytes of blocks never freed"),
    ("accesses", "accesses", "loads, stores and modifications of the blocks"),
)
KEYS = tuple(key for key, _, _ in MEASURES)
# the variances of measures that are estimates, in a sample of the blocks
ESTIMATES = tuple(variance(key) for key in KEYS if key != "accesses")
ACCESSES = ("loads", "stores", "modifies")
SUMS = (*(key for key in KEYS if key != "accesses"), *ACCESSES, *ESTIMATES)  # of steve.kernels._lives.Groups
PLACE = "place"


class Measured(NamedTuple):
    """The measures of one trace. nodes: the names of its rows (steve.trace.matched), each once; rows: KEYS as whole numbers,
    and in a sample of the blocks ESTIMATES; accesses: were they recorded?"""

    nodes: np.ndarray
    rows: np.ndarray
    accesses: bool
    sample: Sample

    def total(self, key: str) -> int | None:
        """A measure over all rows; None if it was not recorded."""
        return int(self.rows[key].sum()) if self.accesses or key != "accesses" else None


class Names(Protocol):
    """The names of the rows of both traces: equal ones get the same node."""

    def add(self, rollup: Rollup, numbers: np.ndarray) -> np.ndarray:
        """The nodes of the rows with these numbers."""


def measured(sums: Table, rollup: Rollup, names: Names, accesses: bool, sample: Sample) -> Measured:
    """The measures of one trace. sums: SUMS by rollup.key; names: of the rows of both traces."""
    import numpy as np

    numbers, found = rollup.merged(sums)
    nodes, first, which = np.unique(names.add(rollup, numbers), return_index=True, return_inverse=True)
    columns = [(key, "i8") for key in KEYS] + [(key, "f8") for key in ESTIMATES if sample]
    rows = np.zeros(len(nodes), columns)
    for key, _ in columns:
        values = sum(found[name] for name in ACCESSES) if key == "accesses" else found[key]
        np.add.at(rows[key], which, values.astype(rows.dtype[key]))
    order = np.argsort(first)
    return Measured(nodes[order], rows[order], accesses, sample)


def added(parts: list[Measured], nodes: np.ndarray) -> Measured:
    """The sums of the measures of several traces. nodes: of the rows of all, one trace after the other."""
    import numpy as np

    numbers, first, which = np.unique(nodes, return_index=True, return_inverse=True)
    rows = np.zeros(len(numbers), parts[0].rows.dtype)
    for name in rows.dtype.names:
        np.add.at(rows[name], which, np.concatenate([part.rows[name] for part in parts]))
    order = np.argsort(first)
    return Measured(numbers[order], rows[order], all(part.accesses for part in parts), parts[0].sample)


class Differences:
    """The rows of both traces, each made when it is needed: see steve.terminal.listing.Rows. d["bytes_a"], _b and _change are
    arrays of a measure of all rows."""

    key = PLACE

    def __init__(self, names: Matched, first: Measured, second: Measured) -> None:
        import numpy as np

        self.names, self._measured = names, (first, second)
        self.sample = second.sample or first.sample
        only_second = second.nodes[~np.isin(second.nodes, first.nodes)]
        self.nodes: np.ndarray = np.concatenate((first.nodes, only_second))
        self._sides = [self._aligned(first), self._aligned(second)]

    def _aligned(self, side: Measured) -> np.ndarray:
        """The rows of a trace in the order of `nodes`; 0 for those that it does not have."""
        import numpy as np

        place = np.zeros(int(max(self.nodes.max(initial=0), side.nodes.max(initial=0))) + 1, "i8")
        place[side.nodes] = np.arange(1, len(side.nodes) + 1)
        of_nodes = place[self.nodes]
        rows = np.zeros(len(self.nodes), side.rows.dtype)
        for name in rows.dtype.names:
            rows[name][of_nodes > 0] = side.rows[name][of_nodes[of_nodes > 0] - 1]
        return rows

    def _of(self, indices: np.ndarray) -> Differences:
        """Some of the rows."""
        found = Differences.__new__(Differences)
        found.names, found._measured, found.sample = self.names, self._measured, self.sample
        found.nodes, found._sides = self.nodes[indices], [side[indices] for side in self._sides]
        return found

    def lacks(self, column: str) -> bool:
        """Is a column of numbers not known, because a trace has no accesses?"""
        key, _, side = column.rpartition("_")
        if key != "accesses":
            return False
        return not all(m.accesses for m, of in zip(self._measured, ("a", "b")) if side in (of, "change"))

    def unknown(self) -> Container[str]:
        """The columns that are not known."""
        return [column for column in (f"accesses_{of}" for of in ("a", "b", "change")) if self.lacks(column)]

    def column(self, column: str) -> np.ndarray:
        """A column of numbers."""
        key, _, side = column.rpartition("_")
        a, b = (rows[key] for rows in self._sides)
        return a if side == "a" else b if side == "b" else b - a

    def text(self, index: int) -> str:
        """The place of a row."""
        return self.names.text(int(self.nodes[index]))

    def changed(self) -> Differences:
        """The rows whose measures differ, as far as both traces have them."""
        import numpy as np

        differs = np.zeros(len(self.nodes), bool)
        for key in KEYS:
            if not self.lacks(f"{key}_change"):
                differs |= self.column(f"{key}_change") != 0
        return self._of(np.flatnonzero(differs))

    def where(self, mask: np.ndarray) -> Differences:
        """The rows that a mask selects."""
        import numpy as np

        return self._of(np.flatnonzero(mask))

    def ranked(
        self, order: str, most: int | None, ascending: bool = False, then: str = PLACE, absolute: bool = False
    ) -> Differences:
        """The rows sorted by a column, the largest first, or the smallest if `ascending`; those with equal values, and by
        PLACE all, by `then` and by their places. most: sort no more than so many of the first rows; None: all. absolute:
        a row that shrank comes before one that grew less."""
        import numpy as np

        none = np.zeros(len(self), "i8")
        keys = [none if of == PLACE or self.lacks(of) else -self.column(of) for of in (order, then)]
        if absolute:
            keys = [-np.abs(values) for values in keys]
        keys[0] = -keys[0] if ascending else keys[0]
        by_value = np.lexsort(keys[::-1])
        differs = np.zeros(len(self), bool)
        for values in keys:
            differs[1:] |= np.diff(values[by_value]) != 0
        differs[:1] = True
        starts = np.flatnonzero(differs)
        sorted_rows: list[int] = []
        for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(self)]):
            if most is not None and len(sorted_rows) >= most:
                sorted_rows += by_value[begin:].tolist()
                break
            sorted_rows += self._by_place(by_value[begin:end], None if most is None else most - len(sorted_rows))
        return self._of(np.array(sorted_rows, "i8"))

    def _by_place(self, indices: np.ndarray, most: int | None) -> list[int]:
        """Rows in the order of their places, at least the first `most`."""
        import numpy as np

        if len(indices) == 1:
            return indices.tolist()
        if most is None or most >= len(indices):
            return indices[self.names.in_order(self.nodes[indices])].tolist()
        first = heapq.nsmallest(most, indices.tolist(), key=self.text)
        return first + np.setdiff1d(indices, first).tolist()

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, some: slice) -> list[dict]:
        columns = {
            f"{key}_{of}": self.column(f"{key}_{of}")[some].tolist() for key in KEYS for of in ("a", "b", "change")
        }
        for column in self.unknown():
            columns[column] = [None] * len(columns[column])
        rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
        for row, node in zip(rows, self.nodes[some].tolist()):
            row[PLACE] = self.names.text(node)
        if not self.sample:
            return rows
        return [{**row, **errors} for row, errors in zip(rows, self._errors(some))]

    def _errors(self, some: slice) -> list[dict]:
        """The standard errors of rows."""
        none = [0.0] * len(self.nodes[some])  # of a trace that is no sample
        sums = {
            key: [side[key][some].tolist() if key in side.dtype.names else none for side in self._sides]
            for key in ESTIMATES
        }
        found = []
        for i in range(len(self.nodes[some])):
            variances = {}
            for key, (a, b) in sums.items():
                variances.update({f"{key}_a": a[i], f"{key}_b": b[i], f"{key}_change": a[i] + b[i]})
            names = [key.removeprefix(VARIANCE) for key in variances]
            found.append(self.sample.standard_errors(variances, dict(zip(names, names))))
        return found

    def rest(self, first: int) -> dict:
        """One row for all rows from an index on."""
        unknown = self.unknown()
        sums = {
            column: None if column in unknown else int(self.column(column)[first:].sum())
            for column in (f"{key}_{of}" for key in KEYS for of in ("a", "b", "change"))
        }
        return {**sums, PLACE: f"others ({len(self) - first:,})"}
