"""A description of a trace by distributions, with its parameters in a file that people can read and change.

The trace is divided into phases of equally many operations. In each phase, blocks belong to classes: a size that
occurs often is a class of its own, other sizes share the class of their power of two. A class has quantiles of its
sizes and of its lifetimes (in operations), and the part of its blocks that are never freed. The order of sizes is a
Markov chain of the classes. Large blocks are few, and decide how much memory is needed, so they are described one by
one. A Resize is described as a Free and a New.

The file is JSON: docs/internals/steve.md describes it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from steve.analysis.opsarrays import FREE, NEW, RESIZE, Ops
from steve.system.errors import SteveError

if TYPE_CHECKING:
    import numpy as np

PHASES, OFTEN, QUANTILES = 16, 48, 33
LARGE = 1 / 200  # part of the live peak from which a block is large
FORMAT = "steve synth model 1"


@dataclass(frozen=True)
class Class:
    """A class of blocks in a phase. sizes, lifetimes: quantiles from the least to the greatest, of which lifetimes
    are of freed blocks. immortal: the part that is never freed. next: how often a block of each class follows."""

    name: str
    blocks: int
    sizes: list[float]
    lifetimes: list[float]
    immortal: float
    next: dict[str, int]


@dataclass(frozen=True)
class Phase:
    """A part of the trace: operations in it, and the classes of the blocks that are made in it. large: the large blocks
    by themselves, each with the operation of the phase that makes it, its size, and its lifetime, -1 for never freed.
    """

    operations: int
    classes: list[Class]
    large: list[list[int]]


@dataclass(frozen=True)
class Model:
    """The description. source: the file that it is of."""

    source: str
    operations: int
    blocks: int
    live_peak: int
    phases: list[Phase]

    def as_text(self) -> str:
        """The file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


@dataclass(frozen=True)
class Lives:
    """The blocks of a trace in the order of their N: sizes, numbers of the operations that make and free them (-1:
    none), and how many operations there are. A Resize is two operations."""

    size: np.ndarray
    born: np.ndarray
    died: np.ndarray
    operations: int

    def lifetimes(self) -> np.ndarray:
        """Lifetimes of freed blocks, in operations."""
        freed = self.died >= 0
        return self.died[freed] - self.born[freed]

    def live_bytes(self) -> np.ndarray:
        """Bytes live after each operation."""
        import numpy as np

        change = np.zeros(self.operations + 1, "i8")
        np.add.at(change, self.born, self.size)
        freed = self.died >= 0
        np.add.at(change, self.died[freed], -self.size[freed])
        return np.cumsum(change[: self.operations])


def lives_of(ops: Ops) -> Lives:
    """The lives of the blocks of an ops file."""
    import numpy as np

    size: list[int] = []
    born: list[int] = []
    died: list[int] = []
    block: dict[int, int] = {}
    now = 0
    for code, handle, bytes_ in zip(ops.code.tolist(), ops.handle.tolist(), ops.size.tolist()):
        if code in (FREE, RESIZE):
            died[block[handle]] = now
            now += 1
        if code in (NEW, RESIZE):
            block[handle] = len(size)
            size.append(bytes_)
            born.append(now)
            died.append(-1)
            now += 1
    return Lives(np.array(size, "i8"), np.array(born, "i8"), np.array(died, "i8"), now)


def _classes(size: np.ndarray) -> np.ndarray:
    """The class of each block, as text."""
    import numpy as np

    values, inverse, counts = np.unique(size, return_inverse=True, return_counts=True)
    often = values[np.argsort(-counts, kind="stable")[:OFTEN]]
    power = np.ceil(np.log2(np.maximum(values, 1))).astype(int)
    names = np.array(
        [str(value) if value in set(often.tolist()) else f"to {1 << p}" for value, p in zip(values.tolist(), power)]
    )
    return names[inverse]


def _quantiles(values: np.ndarray) -> list[float]:
    """Quantiles at equal distances; a single number if all are equal, none if there are no values."""
    import numpy as np

    if not len(values) or values.min() == values.max():
        return [float(value) for value in values[:1]]
    return [float(value) for value in np.quantile(values, np.linspace(0, 1, QUANTILES)).round(1)]


def _large(lives: Lives, chosen: np.ndarray, begin: int) -> list[list[int]]:
    """The large blocks of a phase."""
    import numpy as np

    lifetime = np.where(lives.died >= 0, lives.died - lives.born, -1)
    columns = (lives.born[chosen] - begin, lives.size[chosen], lifetime[chosen])
    return [list(row) for row in zip(*(column.tolist() for column in columns))]


def _classes_of(names: np.ndarray, following: np.ndarray, lives: Lives, chosen: np.ndarray) -> list[Class]:
    """The classes of the blocks `chosen`, most frequent first."""
    import numpy as np

    classes = []
    for name in np.unique(names[chosen]):
        mine = chosen & (names == name)
        freed = mine & (lives.died >= 0)
        after, counts = np.unique(following[mine], return_counts=True)
        classes.append(
            Class(
                str(name),
                int(mine.sum()),
                _quantiles(lives.size[mine]),
                _quantiles(lives.died[freed] - lives.born[freed]),
                round(1 - float(freed.sum() / mine.sum()), 6),
                {str(one): int(count) for one, count in zip(after, counts) if one},
            )
        )
    return sorted(classes, key=lambda one: -one.blocks)


def describe(lives: Lives, source: str) -> Model:
    """The model of a trace. SteveError if it has no blocks."""
    import numpy as np

    if not len(lives.size):
        raise SteveError(f"{source}: has no blocks")
    peak = int(lives.live_bytes().max())
    large = lives.size > LARGE * peak
    names = np.where(large, "", _classes(lives.size))
    following = np.full(len(names), "", names.dtype)
    small = np.flatnonzero(~large)
    following[small[:-1]] = names[small[1:]]
    edges = np.linspace(0, lives.operations, PHASES + 1).round().astype(int)
    phases = []
    for low, high in zip(edges.tolist(), edges[1:].tolist()):
        here = (lives.born >= low) & (lives.born < high)
        classes = _classes_of(names, following, lives, here & ~large)
        phases.append(Phase(high - low, classes, _large(lives, here & large, low)))
    return Model(source, lives.operations, len(lives.size), peak, phases)


def read_model(path: str) -> Model:
    """Read the file of a model. SteveError if it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if found.pop("format") != FORMAT:
            raise ValueError("another format")
        phases = [
            Phase(one["operations"], [Class(**row) for row in one["classes"]], one["large"])
            for one in found.pop("phases")
        ]
        return Model(**found, phases=phases)
    except OSError as error:
        raise SteveError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SteveError(f"{path}: is not a model of steve synth: {error}") from None
