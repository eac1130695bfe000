"""Operations that follow a model.

Time is the number of operations. At each moment the block that is due next is freed, if it is due; otherwise a block is
made, of the class that the Markov chain gives, with a size and a lifetime from the quantiles of its class. Each part of
a distribution is drawn as often as its share requires, so the number of blocks of each class is that of the model.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import bisect
import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steve.analysis.opsarrays import FREE, NEW, Ops, made
from steve.synth.model import Class, Model, Phase

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Scale:
    """threads: so many threads, each with a program like the original. times: so many times as many operations, in a
    heap of about the same size. stretch: blocks live so many times as long, so the heap is larger."""

    threads: int = 1
    times: float = 1.0
    stretch: float = 1.0


class _Drawing:
    """Draws the blocks of one class."""

    def __init__(self, one: Class, names: list[str], times: float, random: np.random.Generator) -> None:
        import numpy as np

        self.one, self.random, self.left = one, random, round(one.blocks * times)
        self.count = max(1, self.left)
        # as many as in the original are never freed, unless all of the class are
        self.immortal = one.immortal / max(times, 1.0) if one.lifetimes else 1.0
        total = sum(one.next.values())
        self.next_names = [name for name in one.next if name in names]
        weights = np.array([one.next[name] for name in self.next_names], float)
        self.cumulated = (np.cumsum(weights) / total).tolist() if total else []
        self.rows: list[tuple[int, int, float]] = []

    def block(self) -> tuple[int, int, float]:
        """A size, a lifetime (-1: never freed), and a random number that chooses the next class."""
        if not self.rows:
            self._fill()
        self.left -= 1
        return self.rows.pop()

    def _fill(self) -> None:
        import numpy as np

        n = self.count
        draws = [(self.random.permutation(n) + self.random.random(n)) / n for _ in range(3)]
        sizes = self._quantile(self.one.sizes, draws[0]).round().astype("i8")
        if self.one.lifetimes:
            lifetimes = np.maximum(1, self._quantile(self.one.lifetimes, draws[1]).round()).astype("i8")
        else:
            lifetimes = np.full(n, -1)
        lifetimes[draws[2] < self.immortal] = -1
        self.rows = list(zip(sizes.tolist(), lifetimes.tolist(), self.random.random(n).tolist()))

    @staticmethod
    def _quantile(values: list[float], at: np.ndarray) -> np.ndarray:
        import numpy as np

        if len(values) == 1:
            return np.full(len(at), values[0])
        return np.interp(at, np.linspace(0, 1, len(values)), values)

    def following(self, draw: float) -> str | None:
        """The name of the next class; None: the model has none."""
        index = bisect.bisect_right(self.cumulated, draw)
        return self.next_names[index] if index < len(self.next_names) else None


class _Chain:
    """Draws the blocks of a phase in order."""

    def __init__(self, phase: Phase, times: float, random: np.random.Generator) -> None:
        names = [one.name for one in phase.classes]
        self.classes = {one.name: _Drawing(one, names, times, random) for one in phase.classes}
        self.random = random
        self.name: str | None = None

    def _any(self) -> str:
        """A class with probability in proportion to how many of its blocks are left."""
        left = [max(0, one.left) for one in self.classes.values()]
        draw = self.random.random() * sum(left)
        for name, count in zip(self.classes, left):
            draw -= count
            if draw < 0:
                return name
        return next(iter(self.classes))

    def block(self) -> tuple[int, int]:
        """The size and the lifetime of the next block."""
        if self.name is None or self.classes[self.name].left <= 0:
            self.name = self._any()
        drawing = self.classes[self.name]
        size, lifetime, draw = drawing.block()
        self.name = drawing.following(draw)
        return size, lifetime


class _Output:
    """The operations made so far, and the blocks that are to be freed."""

    def __init__(self) -> None:
        self.code: list[int] = []
        self.handle: list[int] = []
        self.size: list[int] = []
        self.due: list[tuple[int, int]] = []
        self.blocks = 0

    def new(self, size: int, end: int) -> None:
        """Make a block that is freed at the moment `end`, -1: never."""
        self.code.append(NEW)
        self.handle.append(self.blocks)
        self.size.append(size)
        if end >= 0:
            heapq.heappush(self.due, (end, self.blocks))
        self.blocks += 1

    def free(self) -> None:
        """Free the block that is due first."""
        self.code.append(FREE)
        self.handle.append(heapq.heappop(self.due)[1])
        self.size.append(0)


def _make_phase(out: _Output, phase: Phase, begin: int, scale: Scale, random: np.random.Generator) -> int:
    """Make the operations of a phase, from the moment `begin` on; returns its end."""
    chain = _Chain(phase, scale.times, random) if phase.classes else None
    large = [(begin + round(at * scale.times), size, lifetime) for at, size, lifetime in reversed(phase.large)]
    now, end = begin, begin + round(phase.operations * scale.times)
    while now < end:
        if large and large[-1][0] <= now:
            _, size, lifetime = large.pop()
        elif out.due and (out.due[0][0] <= now or chain is None):
            out.free()
            now += 1
            continue
        elif chain is None:
            break
        else:
            size, lifetime = chain.block()
        out.new(size, now + max(1, round(lifetime * scale.stretch)) if lifetime >= 0 else -1)
        now += 1
    return end


def one_thread(model: Model, scale: Scale, seed: int) -> Ops:
    """A program like the original, in one thread."""
    import numpy as np

    out, random, now = _Output(), np.random.default_rng(seed), 0
    for phase in model.phases:
        now = _make_phase(out, phase, now, scale, random)
    return made(out.code, out.handle, out.size)


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
