"""Folds: what analyses make of the lives of blocks, in one walk or in parts that are joined.

    fold.add(batch, keep)        batches of steve.kernels._lives, each with an array of which to take, or None: all
    fold.part(peak)              what came of it, to be sent to another process; peak: number of the last one there
    fold.join(part, peak)        take in what came of another part; peak: of steve.kernels._lives.WholeLives.add()
    fold.numbered                does it need numbers of operations, not only how many lie between them?

The same must come of all lives whether one fold was given them or several were joined. What makes a fold goes to
other processes, too: a class or function of a module, or a functools.partial of one.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Protocol, Tuple, Union

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._lives import Groups

    Rule = Callable[[np.ndarray], np.ndarray]
    Wish = Union[str, Tuple[str, Optional[Rule]]]


class Table(NamedTuple):
    """Rows of sums, those that are not empty, and the number that each is of, in order."""
    numbers: "np.ndarray"
    rows: "np.ndarray"


class Fold(Protocol):
    """See above."""
    numbered: bool

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        ...

    def part(self, peak: int) -> Any:
        ...

    def join(self, part: Any, peak: int) -> None:
        ...


def both(one: "Optional[np.ndarray]", other: "Optional[np.ndarray]") -> "Optional[np.ndarray]":
    """Of two arrays that say which to take, the one that says both; None: all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def columns(records: "np.ndarray", *names: str) -> "np.ndarray":
    """Some fields of records, to be kept. What numpy gives for a list of names is a view of the whole, and so is
    its copy: of a life ten times as many bytes as are wanted."""
    from numpy.lib.recfunctions import repack_fields
    return repack_fields(records[list(names)])


def sums_of_all(fold: Fold) -> "Optional[Groups]":
    """Sums.of_all() of a fold that is no more than that; else None."""
    return fold.of_all() if type(fold) is Sums else None


class Sums:
    """Sums by a key of steve.kernels._lives.Groups, or several: each of all lives, or (key, rule) of those it finds."""

    numbered = False

    def __init__(self, *wishes: "Wish") -> None:
        from steve.kernels._lives import Groups
        pairs = [(wish, None) if isinstance(wish, str) else wish for wish in wishes]
        self._sums = [(Groups(key), rule) for key, rule in pairs]

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        for groups, rule in self._sums:
            groups.add(batch, both(keep, None if rule is None else rule(batch)))

    def of_all(self) -> "Optional[Groups]":
        """The sums, if they are by one key and of all lives: a walk may then add those itself (steve.kernels._lives.Lives)."""
        groups, rule = self._sums[0]
        return groups if len(self._sums) == 1 and rule is None else None

    def part(self, peak: int) -> List[tuple]:
        return [groups.part(peak) for groups, _ in self._sums]

    def join(self, part: List[tuple], peak: int) -> None:
        for (groups, _), sums in zip(self._sums, part):
            groups.join(sums, peak)

    def rows(self, peak: int) -> List[Table]:
        """The sums, a table for each that was asked for; peak: number of the heap's last one."""
        return [Table(*groups.table(peak)) for groups, _ in self._sums]
