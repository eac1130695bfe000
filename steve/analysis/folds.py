"""Folds: what analyses make of the lives of blocks, in one walk or in shards that are joined.

The result must be the same whether one fold gets all lives or several folds are joined. The function that makes a fold
is sent to other processes, so it must be a class or function of a module, or a functools.partial of one.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._lives import Groups

    Rule = Callable[[np.ndarray], np.ndarray]
    Key = Union[str, Tuple[str, Optional[Rule]]]


class Table(NamedTuple):
    """The rows of sums that are not empty, and the number that each belongs to, in order."""

    numbers: "np.ndarray"
    rows: "np.ndarray"


class Fold(Protocol):
    """What analyses are made of. A shard has a fold of its own, whose state is sent to the process that joins them."""

    # Are the numbers of operations in the whole trace needed, or only differences of them? The numbers of a shard's
    # operations are known after the shards before it were counted.
    needs_operation_numbers: bool

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        """Add lives (steve.kernels._lives). keep: a mask that selects some of them; None: all."""

    def partial(self, peak: int) -> Any:
        """The result of a shard, to be sent to another process. peak: the number of the shard's last peak."""

    def merge(self, shard: Any, peak: int) -> None:
        """Add the partial() of the next shard. peak: the number of the last peak of the heap if it is in that shard,
        else 0."""


class Passed:
    """The fold that passes lives to a function, and keeps nothing. add: None, or gets what Fold.add() gets."""

    needs_operation_numbers = False

    def __init__(self, add: "Optional[Callable[[np.ndarray, Optional[np.ndarray]], None]]" = None) -> None:
        self._add = add

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        if self._add is not None:
            self._add(batch, keep)

    def partial(self, peak: int) -> None:
        pass

    def merge(self, shard: None, peak: int) -> None:
        pass


class Kept:
    """The base of folds that keep lives, as arrays."""

    needs_operation_numbers = False

    def __init__(self) -> None:
        self._kept: "List[np.ndarray]" = []

    def partial(self, peak: int) -> "List[np.ndarray]":
        return self._kept

    def merge(self, shard: "List[np.ndarray]", peak: int) -> None:
        self._kept += shard


def both(one: "Optional[np.ndarray]", other: "Optional[np.ndarray]") -> "Optional[np.ndarray]":
    """The selection of lives that both of two selections contain. None selects all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def columns(records: "np.ndarray", *names: str) -> "np.ndarray":
    """A copy of some fields of records. numpy's own copy of a list of fields has the size of the whole records, ten
    times as many bytes for a life."""
    from numpy.lib.recfunctions import repack_fields

    return repack_fields(records[list(names)])


def unfiltered_groups_of(fold: Fold) -> "Optional[Groups]":
    """Sums.unfiltered_groups() of a fold that is exactly a Sums; else None."""
    return fold.unfiltered_groups() if type(fold) is Sums else None


class Sums:
    """Sums by keys of steve.kernels._lives.Groups. A key alone sums all lives; (key, rule) sums those that the rule
    selects."""

    needs_operation_numbers = False

    def __init__(self, *keys: "Key") -> None:
        from steve.kernels._lives import Groups

        pairs = [(key, None) if isinstance(key, str) else key for key in keys]
        self._sums = [(Groups(key), rule) for key, rule in pairs]

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        for groups, rule in self._sums:
            groups.add(batch, both(keep, None if rule is None else rule(batch)))

    def unfiltered_groups(self) -> "Optional[Groups]":
        """The sums, if they are by one key and of all lives. Then a walk can add the lives itself
        (steve.kernels._lives.Lives)."""
        groups, rule = self._sums[0]
        return groups if len(self._sums) == 1 and rule is None else None

    def partial(self, peak: int) -> List[tuple]:
        return [groups.partial(peak) for groups, _ in self._sums]

    def merge(self, shard: List[tuple], peak: int) -> None:
        for (groups, _), sums in zip(self._sums, shard):
            groups.merge(sums, peak)

    def rows(self, peak: int, *columns: Sequence[str]) -> List[Table]:
        """A table of sums for each key; the fold is then empty. peak: number of the last peak of the heap. columns: those of
        each table; none: all, but variances only if the trace is a sample of the blocks."""
        return [
            Table(*groups.drain(peak, some)) for (groups, _), some in zip_longest(self._sums, columns, fillvalue=())
        ]


class Together:
    """The fold of several folds that take the same lives."""

    def __init__(self, *folds: Any) -> None:
        self.folds = folds

    @property
    def needs_operation_numbers(self) -> bool:
        return any(fold.needs_operation_numbers for fold in self.folds)

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        for fold in self.folds:
            fold.add(batch, keep)

    def partial(self, peak: int) -> List[Any]:
        return [fold.partial(peak) for fold in self.folds]

    def merge(self, shard: List[Any], peak: int) -> None:
        for fold, of_fold in zip(self.folds, shard):
            fold.merge(of_fold, peak)
