"""A description of a trace by distributions, with its parameters in a file that people can read and change.

The trace is divided into phases, each of which makes as many blocks. In each phase, blocks belong to classes: a size
that occurs often is a class of its own, other sizes share the class of their power of two. Blocks that are freed soon
are short, and have classes of their own. What the program does is a Markov chain: which class a block is made of, which
of the short blocks is freed, and that some others are, depends on what the program did last. What is freed late is
described by class, phase of origin, lifetime, and the length of the run of Frees. Large blocks are few, and decide how
much memory is needed, so they are described one by one, and so are long runs of Frees. A Resize is described as a Free
and a New. Time is the number of blocks made.

The file is JSON: docs/internals/steve.md describes it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import bisect
import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from steve.analysis.opsarrays import FREE, NEW, RESIZE, Ops
from steve.system.errors import SteveError

if TYPE_CHECKING:
    import numpy as np

PHASES, OFTEN, QUANTILES = 16, 48, 33
LARGE = 1 / 200  # part of the live peak from which a block is large
BURST = 128  # least length of a run of late Frees that is described by itself
CONTEXT = 2  # last symbols on which the next one depends
SOON = 8  # a block is short if it is freed before so many others are made
BESIDE = 8  # a step in a run of late Frees passes at most so many live blocks of the class
SHORT, FREED, RUN = " short", "freed ", "run "  # parts of names of classes and symbols
OLDER, YOUNGER, ELSEWHERE = "older", "younger", "elsewhere"  # the ways of steps; the last one is to any block
FORMAT = "steve synth model 3"


@dataclass(frozen=True)
class Freed:
    """Blocks of a class that a phase frees late, in runs of Frees of about the same length. phase: the number of the
    phase that makes them. run: a power of two, the least length of the run. lifetimes: quantiles, or all if they are
    few."""

    phase: int
    run: int
    blocks: int
    lifetimes: list[float]


@dataclass(frozen=True)
class Class:
    """A class of blocks in a phase. blocks: made in the phase. sizes: their quantiles, or all if they are few. freed: what
    the phase frees late."""

    name: str
    blocks: int
    sizes: list[float]
    freed: list[Freed]


@dataclass(frozen=True)
class Phase:
    """A part of the trace: the blocks that are made in it, by classes.

    next: after the last symbols, how often each symbol follows. A symbol is what the program does: the name of a class,
    of which a block is made; `freed 2`, the Free of the short block than which two are younger; `run 4`, a run of late
    Frees, with the power of two that is the least length. runs: quantiles of these lengths by power of two. steps: which
    block such a run frees next: after the run's power of two and the class of the block before, how often each step
    follows. `40 older 2` is the block of class 40 that is older than the one before it, and is the third such. bursts:
    longer runs by themselves, with moments of the phase and lengths. large: large blocks by themselves, each with the
    moment of the phase that makes it, its size, and its lifetime (-1: never freed)."""

    blocks: int
    classes: list[Class]
    next: dict[str, dict[str, int]]
    runs: dict[str, list[float]]
    steps: dict[str, dict[str, int]]
    bursts: list[list[int]]
    large: list[list[int]]


def _rows(opening: str, rows: list[str], closing: str) -> str:
    """Texts of rows, each on its line."""
    return opening + ("\n  " + ",\n  ".join(rows) if rows else "") + closing


def _phase_as_text(phase: Phase) -> str:
    columns = asdict(phase)
    steps, following = (
        [f"{json.dumps(context)}: {json.dumps(row)}" for context, row in columns.pop(key).items()]
        for key in ("steps", "next")
    )
    parts = [f'"blocks": {columns.pop("blocks")}', f'"runs": {json.dumps(columns.pop("runs"))}']
    parts += [_rows(f'"{key}": [', [json.dumps(row) for row in rows], "]") for key, rows in columns.items()]
    parts += [_rows('"steps": {', steps, "}"), _rows('"next": {', following, "}")]
    return " {" + ",\n  ".join(parts) + "}"


@dataclass(frozen=True)
class Model:
    """The description. source: the file that it is of."""

    source: str
    operations: int
    blocks: int
    live_peak: int
    phases: list[Phase]

    def as_text(self) -> str:
        """The file, with a line for each class and each context."""
        facts = {"format": FORMAT, "source": self.source, "operations": self.operations, "blocks": self.blocks}
        head = json.dumps({**facts, "live_peak": self.live_peak})[:-1]
        return head + ',\n"phases": [\n' + ",\n".join(_phase_as_text(phase) for phase in self.phases) + "\n]}\n"


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


def power_below(value: int) -> int:
    """The greatest power of two that is not above a number from 1 on."""
    return 1 << (value.bit_length() - 1)


@dataclass
class _Late:
    """The late Frees: the block, the moment, the step from the block before in the run ("": it is the
    first), the power of two that is not above the length of the run, and that length if the block is the first of the
    run, otherwise 0."""

    block: list[int] = field(default_factory=list)
    moment: list[int] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)

    def end_run(self) -> int:
        """Make a run of the blocks that are in none yet; returns its length, 0 if there are no such blocks."""
        length = len(self.block) - len(self.run)
        if length:
            self.run += [power_below(length)] * length
            self.length += [length] + [0] * (length - 1)
        return length


class _Reader:
    """Finds what a program does: symbols with their moments, and late Frees. names: the classes of the blocks, "" of
    large ones."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.symbols: list[tuple[int, str]] = []
        self.late = _Late()
        self.short: list[int] = []  # live blocks
        self.live: dict[str, list[int]] = {}  # those that are not short, by class
        self.now = -1

    def _add(self, symbol: str, moment: int) -> None:
        """Add a symbol, after the run of late Frees before it."""
        length = self.late.end_run()
        if 0 < length < BURST:
            self.symbols.append((self.late.moment[-1], f"{RUN}{power_below(length)}"))
        self.symbols.append((moment, symbol))

    def new(self, block: int) -> None:
        """A block is made."""
        self.now = block
        name = self.names[block]
        if name:
            self._add(name, block)
        if name.endswith(SHORT):
            self.short.append(block)
        elif name:
            self.live.setdefault(name, []).append(block)

    def _step(self, block: int, name: str, index: int) -> str:
        """The step to a block, which has this index among the live ones of its class."""
        if len(self.late.block) == len(self.late.run):
            return ""
        before = self.late.block[-1]
        at = bisect.bisect_left(self.live[name], before)
        passed = at - 1 - index if block < before else index - at
        return f"{name} {OLDER if block < before else YOUNGER} {passed}" if passed < BESIDE else ELSEWHERE

    def free(self, block: int) -> None:
        """A block is freed."""
        name = self.names[block]
        if name.endswith(SHORT):
            index = self.short.index(block)
            self._add(f"{FREED}{len(self.short) - 1 - index}", self.now)
            del self.short[index]
        elif name:
            live = self.live[name]
            index = bisect.bisect_left(live, block)
            self.late.step.append(self._step(block, name, index))
            self.late.block.append(block)
            self.late.moment.append(self.now)
            del live[index]

    def read(self, lives: Lives) -> None:
        """All of a trace."""
        import numpy as np

        event = np.zeros(lives.operations, "i8")
        event[lives.born] = np.arange(len(lives.born))
        freed = np.flatnonzero(lives.died >= 0)
        event[lives.died[freed]] = ~freed
        for block in event.tolist():
            if block >= 0:
                self.new(block)
            else:
                self.free(~block)
        if 0 < self.late.end_run() < BURST:
            self.symbols.append((self.now, f"{RUN}{self.late.run[-1]}"))


def _following(symbols: list[tuple[int, str]], edges: np.ndarray) -> list[dict[str, dict[str, int]]]:
    """How often each symbol follows, for each phase and each context."""
    import numpy as np

    phases = (np.searchsorted(edges, [moment for moment, _ in symbols], side="right") - 1).tolist()
    found: list[dict[str, dict[str, int]]] = [{} for _ in edges[1:]]
    context: tuple[str, ...] = ()
    for phase, (_, symbol) in zip(phases, symbols):
        counts = found[phase].setdefault(", ".join(context), {})
        counts[symbol] = counts.get(symbol, 0) + 1
        context = (*context, symbol)[-CONTEXT:]
    return found


def _classes(size: np.ndarray) -> np.ndarray:
    """The class of each block, as text."""
    import numpy as np

    values, inverse, counts = np.unique(size, return_inverse=True, return_counts=True)
    often = set(values[np.argsort(-counts, kind="stable")[:OFTEN]].tolist())
    power = np.ceil(np.log2(np.maximum(values, 1))).astype(int)
    names = np.array([str(value) if value in often else f"to {1 << p}" for value, p in zip(values.tolist(), power)])
    return names[inverse]


def _quantiles(values: np.ndarray) -> list[float]:
    """Quantiles at equal distances; a single number if all are equal; the values themselves if they are few."""
    import numpy as np

    if not len(values) or values.min() == values.max():
        return [float(value) for value in values[:1]]
    if len(values) < QUANTILES:
        return [float(value) for value in np.sort(values)]
    return [float(value) for value in np.quantile(values, np.linspace(0, 1, QUANTILES)).round(1)]


@dataclass(frozen=True)
class _Facts:
    """What the phases are described from. block, moment, step, run, length: the columns of _Late."""

    lives: Lives
    names: np.ndarray
    edges: np.ndarray
    block: np.ndarray
    moment: np.ndarray
    step: np.ndarray
    run: np.ndarray
    length: np.ndarray

    def freed(self, chosen: np.ndarray) -> list[Freed]:
        """What is to be known of some late Frees of one phase."""
        import numpy as np

        origin = np.searchsorted(self.edges, self.block[chosen], side="right") - 1
        lifetime, run = self.moment[chosen] - self.block[chosen], self.run[chosen]
        found = []
        for phase, power in sorted(set(zip(origin.tolist(), run.tolist()))):
            mine = (origin == phase) & (run == power)
            found.append(Freed(phase, power, int(mine.sum()), _quantiles(lifetime[mine])))
        return found

    def steps(self, late: np.ndarray) -> dict[str, dict[str, int]]:
        """The steps of some late Frees."""
        found: dict[str, dict[str, int]] = {}
        late = late[self.step[late] != ""]
        before = self.names[self.block[late - 1]]
        for power, name, step in zip(self.run[late].tolist(), before.tolist(), self.step[late].tolist()):
            counts = found.setdefault(f"{RUN}{power}, {name}", {})
            counts[step] = counts.get(step, 0) + 1
        return found

    def large(self, low: int, high: int) -> list[list[int]]:
        """The large blocks of a phase."""
        import numpy as np

        few = low + np.flatnonzero(self.names[low:high] == "")
        columns = (few - low, self.lives.size[few], self.lifetime(few))
        return [list(row) for row in zip(*(column.tolist() for column in columns))]

    def lifetime(self, blocks: np.ndarray) -> np.ndarray:
        """Lifetimes in blocks made, -1 for never freed."""
        import numpy as np

        died = self.lives.died[blocks]
        return np.where(died >= 0, np.searchsorted(self.lives.born, died) - 1 - blocks, -1)

    def phase(self, low: int, high: int, following: dict[str, dict[str, int]]) -> Phase:
        """The phase that makes the blocks from `low` on and below `high`."""
        import numpy as np

        late = np.flatnonzero((self.moment >= low) & (self.moment < high))
        of, names, sizes = self.names[self.block[late]], self.names[low:high], self.lives.size[low:high]
        classes = []
        for name in np.unique(np.concatenate([names[names != ""], of])).tolist():
            mine = names == name
            freed = self.freed(late[of == name])
            classes.append(Class(name, int(mine.sum()), _quantiles(sizes[mine]), freed))
        classes.sort(key=lambda one: -one.blocks)
        first = late[self.length[late] > 0]
        short = first[self.length[first] < BURST]
        runs = {str(one): _quantiles(self.length[short[self.run[short] == one]]) for one in np.unique(self.run[short])}
        long = first[self.length[first] >= BURST]
        bursts = [list(row) for row in zip((self.moment[long] - low).tolist(), self.length[long].tolist())]
        return Phase(high - low, classes, following, runs, self.steps(late), bursts, self.large(low, high))


def describe(lives: Lives, source: str) -> Model:
    """The model of a trace. SteveError if it has no blocks."""
    import numpy as np

    if not len(lives.size):
        raise SteveError(f"{source}: has no blocks")
    peak = int(lives.live_bytes().max())
    names, count = _classes(lives.size), len(lives.size)
    short = (lives.died >= 0) & (np.searchsorted(lives.born, lives.died) - np.arange(count) <= SOON)
    names = np.where(short, np.char.add(names, SHORT), names)
    names = np.where(lives.size > LARGE * peak, "", names)
    edges = np.linspace(0, count, PHASES + 1).round().astype(int)
    reader = _Reader(names.tolist())
    reader.read(lives)
    late = (np.array(column, "U" if name == "step" else "i8") for name, column in asdict(reader.late).items())
    facts = _Facts(lives, names, edges, *late)
    following = _following(reader.symbols, edges)
    phases = [facts.phase(low, high, row) for low, high, row in zip(edges.tolist(), edges[1:].tolist(), following)]
    return Model(source, lives.operations, count, peak, phases)


def _check(phases: list[Phase]) -> None:
    """ValueError if a symbol is unknown, or there is nothing to draw a number from."""
    for phase in phases:
        sizes = {one.name: one.sizes for one in phase.classes}
        numbers = {**sizes, **{f"{RUN}{power}": lengths for power, lengths in phase.runs.items()}}
        for symbol in {symbol for following in phase.next.values() for symbol in following}:
            is_free = symbol.startswith(FREED) and symbol[len(FREED) :].isdecimal()
            if not is_free and not numbers.get(symbol):
                raise ValueError(f"unknown symbol '{symbol}'")
        for step in {step for following in phase.steps.values() for step in following} - {ELSEWHERE}:
            if not re.fullmatch(f".+ ({OLDER}|{YOUNGER}) [0-9]+", step):
                raise ValueError(f"unknown step '{step}'")
        freed = [freed for one in phase.classes for freed in one.freed]
        if not all(0 <= one.phase < len(phases) and one.lifetimes for one in freed):
            raise ValueError("a class is freed without a phase of origin or a lifetime")


def _read_class(row: dict[str, Any]) -> Class:
    return Class(**{**row, "freed": [Freed(**one) for one in row["freed"]]})


def read_model(path: str) -> Model:
    """Read the file of a model. SteveError if it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if found.pop("format") != FORMAT:
            raise ValueError("another format")
        phases = [
            Phase(**{**one, "classes": [_read_class(row) for row in one["classes"]]}) for one in found.pop("phases")
        ]
        _check(phases)
        return Model(**found, phases=phases)
    except OSError as error:
        raise SteveError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SteveError(f"{path}: is not a model of steve synth: {error}") from None
