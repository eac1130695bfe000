"""Programs that are difficult for allocators, each after its source, with the bound on memory that it approaches.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steve.analysis.opsarrays import FREE, NEW, Ops, made

if TYPE_CHECKING:
    import numpy as np

UNIT = 1024  # bytes of a word of Robson's program
WORST = "what every allocator that moves no blocks needs for the program that is worst for it"
TAG = 16  # what a boundary tag adds to each block, so that a block with its tag is a whole number of words


@dataclass(frozen=True)
class Wanted:
    """Parameters. live: most bytes live at once. largest: bytes of the largest block. operations: about how many."""

    live: int
    largest: int
    operations: int
    threads: int
    seed: int


@dataclass(frozen=True)
class Program:
    """The operations, and the bound in bytes, with the words that explain it."""

    ops: Ops
    bound: int
    bound_is: str


class Writer:
    """Collects operations. Handles count from 0."""

    def __init__(self) -> None:
        self.code: list[int] = []
        self.handle: list[int] = []
        self.size: list[int] = []
        self.thread: list[int] = []
        self.blocks = 0

    def new(self, size: int, thread: int = 0) -> int:
        """An N; returns its handle."""
        self._add(NEW, self.blocks, size, thread)
        self.blocks += 1
        return self.blocks - 1

    def free(self, handle: int, thread: int = 0) -> None:
        """An F."""
        self._add(FREE, handle, 0, thread)

    def _add(self, code: int, handle: int, size: int, thread: int) -> None:
        self.code.append(code)
        self.handle.append(handle)
        self.size.append(size)
        self.thread.append(thread)

    def ops(self) -> Ops:
        """All of them."""
        import numpy as np

        return made(self.code, self.handle, self.size)._replace(thread=np.asarray(self.thread, "i8"))


def robson_bound(live: int, largest: int) -> int:
    """Words that every allocator that does not move blocks needs for some program with at most `live` words live, in
    blocks of up to `largest` words, a power of 2: M/2 log2 n + M - n + 1."""
    return live * (largest.bit_length() - 1) // 2 + live - largest + 1


def _occupying(address: np.ndarray, size: np.ndarray, offset: int, step: int) -> np.ndarray:
    """Which blocks contain a word whose number is `offset` modulo `step`?"""
    return (offset - address) % step < size


def robson(wanted: Wanted) -> Program:
    """Robson's program. In step i it frees all blocks but those that contain a word f modulo 2^i, where f is chosen of
    the two possible offsets so that more room is wasted. No hole has room for a block of 2^i words then, so new blocks
    are placed above the others by every allocator that has no other room: their addresses are known in advance."""
    import numpy as np

    n = 1 << max(1, (wanted.largest // UNIT).bit_length() - 1)
    live = max(n, wanted.live // UNIT // n * n)
    writer, offset = Writer(), 0
    handle = np.array([writer.new(UNIT - TAG) for _ in range(live)], "i8")
    address, size = np.arange(live, dtype="i8"), np.ones(live, "i8")
    for step in (1 << i for i in range(1, n.bit_length())):
        kept = {f: _occupying(address, size, f, step) for f in (offset, offset + step // 2)}
        offset = max(kept, key=lambda f: int((step - size[kept[f]]).sum()))
        for freed in handle[~kept[offset]].tolist():
            writer.free(freed)
        handle, address, size = (column[kept[offset]] for column in (handle, address, size))
        count = (live - int(size.sum())) // step
        top = int((address + size).max())
        handle = np.concatenate([handle, np.array([writer.new(step * UNIT - TAG) for _ in range(count)], "i8")])
        address = np.concatenate([address, top + step * np.arange(count, dtype="i8")])
        size = np.concatenate([size, np.full(count, step, "i8")])
    return Program(writer.ops(), robson_bound(live, n) * UNIT, WORST)


def ratchet(wanted: Wanted) -> Program:
    """Every second block is freed, and blocks of twice the size follow, for which the holes are too small."""
    writer, live, size = Writer(), [], UNIT
    used = 0
    while size <= wanted.largest:
        while used + size <= wanted.live:
            live.append((writer.new(size - TAG), size))
            used += size
        for handle, old in live[::2]:
            writer.free(handle)
            used -= old
        live = live[1::2]
        size *= 2
    n = 1 << ((wanted.largest // UNIT).bit_length() - 1)
    bound = robson_bound(wanted.live // UNIT, n) * UNIT
    return Program(writer.ops(), bound, WORST)


def ramp(wanted: Wanted) -> Program:
    """Blocks of growing sizes are made and none is freed, until all are."""
    writer, used, blocks = Writer(), 0, []
    count = max(2, wanted.operations // 2)
    mean = wanted.live / count
    for i in range(count):
        size = max(1, int(2 * mean * (i + 1) / count))
        if used + size > wanted.live:
            break
        blocks.append(writer.new(size))
        used += size
    for handle in blocks:
        writer.free(handle)
    return Program(writer.ops(), wanted.live, "the live peak: nothing is freed before it, so there are no holes")


def sawtooth(wanted: Wanted) -> Program:
    """The heap grows to its peak and nearly all is freed, again and again; one block in a hundred lives to the end."""
    import random

    source, writer = random.Random(wanted.seed), Writer()
    used, kept = 0, []
    while len(writer.code) < wanted.operations:
        blocks = []
        while len(writer.code) < wanted.operations:
            size = min(int(source.lognormvariate(5, 1.2)) + 1, wanted.largest)
            if used + size > wanted.live:
                break
            blocks.append((writer.new(size), size))
            used += size
        for handle, size in blocks:
            if source.random() < 0.01 and len(kept) * 4096 < wanted.live // 4:
                kept.append(handle)
            else:
                writer.free(handle)
                used -= size
    return Program(writer.ops(), wanted.live, "the live peak, which is needed again in each period")


def random_stress(wanted: Wanted) -> Program:
    """Blocks of random size replace each other in a full heap: a random one is freed, and a new one made."""
    import random

    source, writer, live, used = random.Random(wanted.seed), Writer(), [], 0
    while len(writer.code) < wanted.operations:
        size = min(int(2 ** source.uniform(4, 12)), wanted.largest)
        while live and used + size > wanted.live:
            index = source.randrange(len(live))
            live[index], live[-1] = live[-1], live[index]
            handle, old = live.pop()
            writer.free(handle)
            used -= old
        live.append((writer.new(size), size))
        used += size
    return Program(
        writer.ops(),
        wanted.live * 3 // 2,
        "1.5 times the live peak: half as many holes as blocks, were they of mean size",
    )


def producer_consumer(wanted: Wanted) -> Program:
    """Each thread makes a batch of blocks, and the next thread frees it."""
    writer, threads = Writer(), max(2, wanted.threads)
    size = min(256, wanted.largest)
    batch = max(1, wanted.live // size)
    while len(writer.code) < wanted.operations:
        for thread in range(threads):
            blocks = [writer.new(size, thread + 1) for _ in range(batch)]
            for handle in blocks:
                writer.free(handle, (thread + 1) % threads + 1)
            if len(writer.code) >= wanted.operations:
                break
    return Program(
        writer.ops(),
        wanted.live * threads,
        f"{threads} times the live peak: each of {threads} threads keeps a heap of it",
    )


# name: what makes it, and its source
KINDS: dict[str, tuple[Callable[[Wanted], Program], str]] = {
    "robson": (
        robson,
        "J. M. Robson, Bounds for some functions concerning dynamic storage allocation, JACM 21(3), 1974",
    ),
    "ratchet": (
        ratchet,
        "after J. M. Robson, An estimate of the store size necessary for dynamic storage allocation, "
        "JACM 18(3), 1971",
    ),
    "ramp": (ramp, "ramps of P. R. Wilson and others, Dynamic storage allocation: a survey and critical review, 1995"),
    "sawtooth": (
        sawtooth,
        "peaks of P. R. Wilson and others, Dynamic storage allocation: a survey and critical review, " "1995",
    ),
    "random": (
        random_stress,
        "D. E. Knuth, The art of computer programming, volume 1, section 2.5: the fifty-percent " "rule",
    ),
    "producer-consumer": (
        producer_consumer,
        "E. D. Berger and others, Hoard: a scalable memory allocator for " "multithreaded applications, ASPLOS 2000",
    ),
}
