"""Operations that follow a model.

Time is the number of blocks made. What the program does next is drawn from what follows its last symbols in the model,
and each of these is drawn as often as there. So the number of blocks of each class is that of the model, and so are the
runs of Frees. Which of the short blocks is freed is a part of the symbol. A late Free frees a block of the class, the
phase and nearly the lifetime that are drawn from what the phase frees late. In a run of Frees, the next block is mostly
found by a step from the one before, since programs free together what they made together.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import bisect
import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis.opsarrays import FREE, NEW, Ops, made
from steve.synth.model import (
    CONTEXT,
    ELSEWHERE,
    FREED,
    OLDER,
    QUANTILES,
    RUN,
    SHORT,
    SOON,
    Class,
    Freed,
    Model,
    Phase,
    power_below,
)

if TYPE_CHECKING:
    import numpy as np

TRIES = 16  # kinds of blocks of which a late Free takes the one that suits best
CLOSE, FAR = 0.05, 0.3  # parts of a lifetime: what is close enough to look no further, and too far for a stretched one
NOTHING = 1e9


@dataclass(frozen=True)
class Scale:
    """threads: so many threads, each with a program like the original. times: about so many times as many operations,
    in a heap of about the same size. stretch: blocks live so many times as long, so the heap is larger."""

    threads: int = 1
    times: float = 1.0
    stretch: float = 1.0


def _quantile(values: list[float], at: np.ndarray) -> np.ndarray:
    """Whole numbers of a distribution. Fewer numbers than there are quantiles are the values themselves."""
    import numpy as np

    if len(values) < QUANTILES:
        return np.array(values, "i8")[(at * len(values)).astype(int)]
    return np.interp(at, np.linspace(0, 1, len(values)), values).round().astype("i8")


def _evenly(count: int, random: np.random.Generator) -> np.ndarray:
    """Numbers from 0 to 1 in random order, as many in each part of that range."""
    return (random.permutation(count) + random.random(count)) / max(count, 1)


class _Numbers:
    """Draws whole numbers of a distribution, `count` or more evenly."""

    def __init__(self, distribution: list[float], count: int, random: np.random.Generator) -> None:
        self.distribution, self.random = distribution, random
        self.count = max(count, len(distribution))
        self.some: list[int] = []

    def draw(self) -> int:
        """A number."""
        if not self.some:
            self.some = _quantile(self.distribution, _evenly(self.count, self.random)).tolist()
        return self.some.pop()


def _in_proportion(following: dict[str, int], times: float, random: np.random.Generator) -> list[str]:
    """Symbols in random order, each as often as it follows."""
    import numpy as np

    names, counts = list(following), np.array(list(following.values()))
    count = int(counts.sum() * times + random.random())
    at = np.searchsorted(np.cumsum(counts) / counts.sum(), _evenly(count, random), side="right")
    return [names[i] for i in np.minimum(at, len(names) - 1).tolist()]


class _Chain:
    """Draws the symbols of a phase in order. Each follows its context as often as in the model. made: how many blocks
    the phase makes. runs: how many runs of late Frees it has, by symbol."""

    def __init__(self, phase: Phase, times: float, random: np.random.Generator) -> None:
        self.left: dict[str, list[str]] = {}  # by context
        self.made, self.runs = len(phase.large), dict.fromkeys((f"{RUN}{power}" for power in phase.runs), 0)
        of_class = {one.name for one in phase.classes}
        for context, following in phase.next.items():
            self.left[context] = _in_proportion(following, times, random)
            self.made += sum(symbol in of_class for symbol in self.left[context])
            for symbol in self.left[context]:
                if symbol in self.runs:
                    self.runs[symbol] += 1
        # where to go on when nothing is left to follow: each context as often as it is followed by something
        again = [context for context, left in self.left.items() for _ in left]
        self.elsewhere = [again[i] for i in random.permutation(len(again)).tolist()]

    def after(self, context: str) -> tuple[str, str]:
        """The next symbol, "" at the end of the phase, and the context for the one after it."""
        while not self.left.get(context):
            if not self.elsewhere:
                return "", context
            context = self.elsewhere.pop()
        symbol = self.left[context].pop()
        return symbol, ", ".join([*filter(None, context.split(", ")), symbol][-CONTEXT:])


class _Kind(NamedTuple):
    """What a late Free frees: a block of a class that lived so long, made from `begin` to `end`. number: of the kind."""

    name: str
    lifetime: int
    begin: int
    end: int
    number: int


class _Late:
    """The blocks that are not short, and what late Frees free.

    made: the moments at which the live blocks of each class were made, in order. kinds: by the power of two of the
    length of the run. lifetimes: of these kinds, by class, with their numbers, in order. met: the numbers of kinds of
    which a step has freed the block; they are still in `kinds`. steps: those that are left, by context. before: class
    and moment of the block that was freed last."""

    def __init__(self, stretch: float) -> None:
        self.stretch = stretch
        self.made: dict[str, list[int]] = {}
        self.kinds: dict[int, list[_Kind]] = {}
        self.lifetimes: dict[tuple[int, str], list[tuple[int, int]]] = {}
        self.met: set[int] = set()
        self.steps: dict[str, list[str]] = {}
        self.before = ("", -1)
        self.count = 0

    def add(self, power: int, name: str, lifetimes: list[int], begin: int, end: int) -> None:
        """Add kinds, one for each of the lifetimes."""
        new = [_Kind(name, one, begin, end, self.count + i) for i, one in enumerate(lifetimes)]
        self.count += len(new)
        self.kinds.setdefault(power, []).extend(new)
        self.lifetimes.setdefault((power, name), []).extend((kind.lifetime, kind.number) for kind in new)

    def shuffle(self, random: np.random.Generator) -> None:
        """Bring the kinds of each length in random order, and their lifetimes in order."""
        for power, kinds in self.kinds.items():
            left = [kind for kind in kinds if kind.number not in self.met]
            self.kinds[power] = [left[i] for i in random.permutation(len(left)).tolist()]
        self.met.clear()
        for lifetimes in self.lifetimes.values():
            lifetimes.sort()

    def _suits(self, kind: _Kind, now: int) -> tuple[float, int]:
        """How far the lifetime of the block that suits best is from that of the kind, as a part of it, and the index of
        the block."""
        made = self.made.get(kind.name)
        if not made:
            return NOTHING, -1
        wanted = now - 1 - kind.lifetime
        moment = min(max(wanted, kind.begin), kind.end)
        index = bisect.bisect_left(made, moment)
        if index == len(made) or (index and moment - made[index - 1] < made[index] - moment):
            index -= 1
        return abs(made[index] - wanted) / (kind.lifetime + 4), index

    def _free(self, name: str, index: int) -> int:
        block = self.made[name].pop(index)
        self.before = (name, block)
        return block

    def free(self, power: int, now: int) -> int | None:
        """Choose a block to free in a run; None: nothing suits. Of some kinds, that is taken whose lifetime suits best.
        If lifetimes are stretched, it is -1 for a block that does not live long enough before the end."""
        kinds = self.kinds.get(power, [])
        far, index, tried = NOTHING, -1, []
        while kinds and len(tried) < TRIES and far > CLOSE:
            kind = kinds.pop()
            if kind.number in self.met:
                continue
            this_far, this_index = self._suits(kind, now)
            tried.append(kind)
            if this_far < far:
                far, index = this_far, this_index
                tried[0], tried[-1] = tried[-1], tried[0]
        kinds += reversed(tried)
        if index < 0:
            return None
        kind = kinds.pop()
        lifetimes = self.lifetimes[power, kind.name]
        del lifetimes[bisect.bisect_left(lifetimes, (kind.lifetime, kind.number))]
        return self._free(kind.name, index) if self.stretch == 1 or far <= FAR else -1

    def free_beside(self, power: int, now: int) -> int | None:
        """Choose the next block of a run by a step from the one before; None: the step leads elsewhere, or to no block of
        such a lifetime."""
        left = self.steps.get(f"{RUN}{power}, {self.before[0]}")
        step = left.pop() if left else ELSEWHERE
        if step == ELSEWHERE:
            return None
        name, way, passed = step.rsplit(" ", 2)
        made, lifetimes = self.made.get(name, []), self.lifetimes.get((power, name))
        at = bisect.bisect_left(made, self.before[1])
        index = at - 1 - int(passed) if way == OLDER else at + int(passed)
        if not 0 <= index < len(made) or not lifetimes:
            return None
        lived = now - 1 - made[index]
        near = bisect.bisect_left(lifetimes, (lived, 0))
        if near == len(lifetimes) or (near and lived - lifetimes[near - 1][0] < lifetimes[near][0] - lived):
            near -= 1
        if abs(lifetimes[near][0] - lived) > FAR * (lived + 4):
            return None
        self.met.add(lifetimes.pop(near)[1])
        return self._free(name, index)

    def left(self) -> int:
        """How many are still to be freed."""
        return sum(len(lifetimes) for lifetimes in self.lifetimes.values())

    def commonest(self) -> int:
        """The power of two of which the most are still to be freed."""
        return max(self.kinds, key=lambda power: len(self.kinds[power]))


def _freed(one: Class, number: int, phase: Phase, times: float) -> list[tuple[Freed, int]]:
    """What a phase frees late of a class, and how many blocks of it. With more blocks than in the original, as many as
    there are left."""
    made = 0 if one.name.endswith(SHORT) else one.blocks
    there = sum(freed.blocks for freed in one.freed)
    wanted = there + (times - 1) * made if times > 1 else there * times
    if not there:
        step = max(1, phase.blocks // QUANTILES)
        some = Freed(number, 1, 0, [float(SOON + step * i) for i in range(QUANTILES - 1)])
        return [(some, round(wanted))]
    total, given, shares = 0.0, 0, []
    for freed in one.freed:
        total += freed.blocks * wanted / there
        shares.append((freed, round(total) - given))
        given = round(total)
    return shares


class _Short:
    """The live short blocks in the order in which they were made, by their handles."""

    def __init__(self, stretch: float) -> None:
        self.stretch = stretch
        self.live: list[int] = []

    def free(self, younger: int) -> int | None:
        """Choose the block than which so many are younger, or the oldest; None: there is none."""
        younger = max(round((younger + 1) * self.stretch) - 1, 0)
        if not self.live or (younger >= len(self.live) and self.stretch != 1):
            return None
        return self.live.pop(max(len(self.live) - 1 - younger, 0))


class _Maker:
    """Makes the operations of one thread."""

    def __init__(self, model: Model, scale: Scale, seed: int) -> None:
        import numpy as np

        self.scale, self.random = scale, np.random.default_rng(seed)
        self.chains = [_Chain(phase, scale.times, self.random) for phase in model.phases]
        self.begins = [0, *itertools.accumulate(chain.made for chain in self.chains)]
        self.code: list[int] = []
        self.handle: list[int] = []
        self.size: list[int] = []
        self.short = _Short(scale.stretch)
        self.late = _Late(scale.stretch)
        self.large: list[tuple[int, int]] = []  # a heap: when blocks are due, and their handles
        self.now = 0
        self.context = ""
        self.owed = 0.0

    def _new(self, size: int) -> None:
        self.code.append(NEW)
        self.handle.append(self.now)
        self.size.append(size)
        self.now += 1

    def _free(self, handle: int) -> None:
        self.code.append(FREE)
        self.handle.append(handle)
        self.size.append(0)

    def _fill(self, number: int, phase: Phase) -> float:
        """Enter what a phase frees late. Returns how many of them its runs do not free, in proportion to the blocks
        that it makes."""
        for one in phase.classes:
            for freed, share in _freed(one, number, phase, self.scale.times):
                lifetimes = _quantile(freed.lifetimes, _evenly(share, self.random)) * self.scale.stretch
                begin, end = self.begins[freed.phase : freed.phase + 2]
                self.late.add(freed.run, one.name, lifetimes.round().astype(int).tolist(), begin, end)
        self.late.shuffle(self.random)
        self.late.steps = {
            context: _in_proportion(following, self.scale.times, self.random)
            for context, following in phase.steps.items()
        }
        chain = self.chains[number]
        mean = {f"{RUN}{power}": sum(lengths) / len(lengths) for power, lengths in phase.runs.items()}
        freed = sum(count * mean[symbol] for symbol, count in chain.runs.items()) + sum(row[1] for row in phase.bursts)
        return max(0.0, self.late.left() - freed) / max(chain.made, 1)

    def _run(self, length: int) -> None:
        """Free so many blocks late, as long as there are some that suit."""
        power = power_below(length)
        for number in range(length):
            block = self.late.free_beside(power, self.now) if number else None
            if block is None:
                block = self.late.free(power, self.now)
            if block is None:
                return
            if block >= 0:
                self._free(block)

    def _new_large(self, size: int, lifetime: int) -> None:
        if lifetime >= 0:
            due = self.now + round(lifetime * self.scale.times * self.scale.stretch)
            heapq.heappush(self.large, (due, self.now))
        self._new(size)

    def _placed(self, number: int, phase: Phase, rows: list[list[int]]) -> list[list[int]]:
        """Rows that begin with a moment of the phase: the same with the moment of what is made, in reverse order."""
        begin, end = self.begins[number : number + 2]
        scale = (end - begin) / max(phase.blocks, 1)
        return [[begin + round(row[0] * scale), *row[1:]] for row in reversed(rows)]

    def phase(self, number: int, phase: Phase) -> None:
        """Make the operations of a phase."""
        chain, each = self.chains[number], self._fill(number, phase)
        sizes = {one.name: _Numbers(one.sizes, one.blocks, self.random) for one in phase.classes}
        lengths = {f"{RUN}{power}": _Numbers(values, 1, self.random) for power, values in phase.runs.items()}
        large, bursts = (self._placed(number, phase, rows) for rows in (phase.large, phase.bursts))
        symbol = "more"
        while symbol or large:
            while bursts and bursts[-1][0] < self.now:
                self._run(bursts.pop()[1])
            while self.large and self.large[0][0] < self.now:
                self._free(heapq.heappop(self.large)[1])
            if large and (large[-1][0] <= self.now or not symbol):
                self._new_large(*large.pop()[1:])
                continue
            before = self.now
            symbol, self.context = chain.after(self.context)
            if symbol in sizes:
                (self.short.live if symbol.endswith(SHORT) else self.late.made.setdefault(symbol, [])).append(self.now)
                self._new(sizes[symbol].draw())
            elif symbol in lengths:
                self._run(lengths[symbol].draw())
            elif symbol and (block := self.short.free(int(symbol[len(FREED) :]))) is not None:
                self._free(block)
            self.owed += each * (self.now - before)
            self._free_owed()
        while bursts:
            self._run(bursts.pop()[1])

    def _free_owed(self) -> None:
        """Free what is to be freed late besides what the runs of the model free."""
        while self.owed >= 1:
            self.owed -= 1
            block = self.late.free(self.late.commonest(), self.now)
            if block is not None and block >= 0:
                self._free(block)

    def rest(self) -> None:
        """Free what is still to be freed at the end."""
        for power in self.late.kinds:
            while (block := self.late.free(power, self.now)) is not None:
                if block >= 0:
                    self._free(block)
        if self.scale.stretch == 1:
            for block in self.short.live:
                self._free(block)


def one_thread(model: Model, scale: Scale, seed: int) -> Ops:
    """A program like the original, in one thread."""
    maker = _Maker(model, scale, seed)
    for number, phase in enumerate(model.phases):
        maker.phase(number, phase)
    maker.rest()
    return made(maker.code, maker.handle, maker.size)


def generate(model: Model, scale: Scale, seed: int) -> Ops:
    """Operations like those that the model describes."""
    import numpy as np

    parts = [one_thread(model, scale, seed + number) for number in range(scale.threads)]
    if scale.threads == 1:
        return parts[0]
    lengths = [len(part.code) for part in parts]
    owner = np.random.default_rng(seed).permutation(np.repeat(np.arange(scale.threads), lengths))
    order = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
    threaded = [
        part._replace(handle=part.handle * scale.threads + number, thread=np.full(len(part.code), number + 1, "i8"))
        for number, part in enumerate(parts)
    ]
    return Ops(*(np.concatenate(columns)[order] for columns in zip(*threaded)))
