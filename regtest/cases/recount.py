"""recount - a slow and plain count of what a recorded trace says, from the text of `steve dump`.

The tests of steve's kernels use random histories; these are real ones, of programs with threads, resizes and
Lua. Everything is kept for each block, and nothing is shared with the kernels, except the decoding of the file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable, Iterable

KINDS = ("new", "free", "resize", "load", "store", "modify")


@dataclass
class Block:
    """A block. Numbers of operations count from 0. `last` is that of its last access, -1 if there is none."""

    handle: int
    addr: int
    size: int
    thread: int
    born: int
    born_time: int
    born_allocated: int
    news: int
    bytes: int = 0
    resizes: int = 0
    moves: int = 0
    copied: int = 0
    died: int = 0
    died_time: int = 0
    died_allocated: int = 0
    freed: bool = False
    shared: bool = False
    first: int = -1
    last: int = -1
    count: Counter = field(default_factory=Counter)
    read: int = 0
    written: int = 0

    @property
    def accesses(self) -> int:
        return self.count["load"] + self.count["store"] + self.count["modify"]

    @property
    def lifetime(self) -> int:
        return self.died - self.born


class Recount:
    """The blocks in the order of their ends, totals, what threads did, and the operations that an ops file
    has."""

    def __init__(self, dump: Iterable[str]) -> None:
        self.blocks: list[Block] = []
        self.live: dict[int, Block] = {}
        self.totals, self.threads = Counter(), Counter()
        self.operations = self.allocated = self.news = self.now = self.held = self.peak = 0
        self.ops: list[tuple[int, str, int, int]] = []
        self._names: dict[int, int] = {}  # handle of the trace: that of the ops file
        self._made = 0
        for line in dump:
            kind, _, rest = line.partition(" ")
            if kind in KINDS and " freed=1" not in rest:  # accesses to freed memory are of no block
                self._event(kind, dict(word.split("=", 1) for word in rest.split()))
            elif kind == "end":  # blocks that are not freed live until then
                self.now = int(dict(word.split("=", 1) for word in rest.split())["instructions"])
        for block in list(self.live.values()):
            self._end(block, self.operations)

    def _event(self, kind: str, fields: dict[str, str]) -> None:
        number = {name: int(fields.get(name, "0"), 0) for name in ("handle", "addr", "size", "thread", "time")}
        self.now = number["time"]
        getattr(self, f"_{kind}" if kind in ("new", "free", "resize") else "_access")(kind, number)
        self.totals[kind] += 1
        self.threads[number["thread"], kind] += 1
        self.operations += 1
        self.peak = max(self.peak, self.held)

    def _ask(self, size: int) -> None:
        self.allocated += size
        self.totals["allocated"] += size

    def _op(self, handle: int, letter: str, number: dict[str, int], size: int) -> None:
        if letter == "N":
            self._names[handle] = self._made
            self._made += 1
        self.ops.append((self._names[handle], letter, number["addr"], size))

    def _new(self, kind: str, number: dict[str, int]) -> None:
        self._ask(number["size"])
        self.news += 1
        self.held += number["size"]
        self.live[number["handle"]] = Block(
            number["handle"],
            number["addr"],
            number["size"],
            number["thread"],
            self.operations,
            self.now,
            self.allocated,
            self.news,
            number["size"],
        )
        self._op(number["handle"], "N", number, number["size"])

    def _free(self, kind: str, number: dict[str, int]) -> None:
        block = self.live[number["handle"]]
        block.freed = True
        self.held -= block.size
        self.totals["freed"] += block.size
        self.threads[number["thread"], "foreign"] += number["thread"] != block.thread
        self._op(block.handle, "F", number, 0)
        self._end(block, self.operations)

    def _end(self, block: Block, when: int) -> None:
        block.died, block.died_time, block.died_allocated = when, self.now, self.allocated
        block.news = self.news - block.news
        self.blocks.append(self.live.pop(block.handle))

    def _resize(self, kind: str, number: dict[str, int]) -> None:
        block, size = self.live[number["handle"]], number["size"]
        self._op(block.handle, "F", {"addr": block.addr}, 0)
        self._op(block.handle, "N", number, size)
        self._ask(size)
        self.totals["freed"] += block.size
        self.held += size - block.size
        if number["addr"] != block.addr:
            block.moves += 1
            block.copied += min(size, block.size)
        block.addr, block.size = number["addr"], size
        block.bytes += size
        block.resizes += 1

    def _access(self, kind: str, number: dict[str, int]) -> None:
        block, size = self.live[number["handle"]], number["size"]
        block.count[kind] += 1
        block.read += size * (kind != "store")
        block.written += size * (kind != "load")
        block.first = self.operations if block.first < 0 else block.first
        block.last = self.operations
        block.shared |= number["thread"] != block.thread
        self._op(block.handle, {"load": "L", "store": "S", "modify": "M"}[kind], number, size)

    def sum(self, of: Callable[[Block], int], where: Callable[[Block], bool] = lambda b: True) -> int:
        return sum(of(block) for block in self.blocks if where(block))


def locks(ops: list[tuple[int, str, int, int]]) -> str:
    """The lockops file of the life counter, in half units: in each life from use to use, because the counter
    only decreases in between. Of one operation, U comes before L; equal letters are sorted by handle."""
    ends = {handle: i for i, (handle, letter, _, _) in enumerate(ops) if letter == "F"}
    events: dict[int, list[tuple[bool, int]]] = {}
    life: dict[int, tuple[int, int]] = {}  # operation of the last use, life after it
    for i, (handle, letter, _, _) in enumerate(ops):
        if handle not in ends:
            continue
        if letter == "N":
            life[handle] = i, 0
            continue
        last, left = life[handle]
        if 0 < left < i - last or (left and left == i - last - 1):
            events.setdefault(last + left, []).append((False, handle))
            left = 0
        left = max(0, left - (i - last - 1))
        if letter != "F":
            if not left:
                events.setdefault(i, []).append((True, handle))
            life[handle] = i, left + 2
    lines = []
    for i, (handle, letter, addr, size) in enumerate(ops):
        lines += [f"{block} {'L' if locked else 'U'} 0 0\n" for locked, block in sorted(events.get(i, []))]
        lines += [f"{handle} {letter} {addr} {size}\n"] if letter in "NF" else []
    return "".join(lines)


def shares(ops: list[tuple[int, str, int, int]]) -> tuple[int, dict[int, tuple[int, int]]]:
    """(accesses, {handle: own and other accesses during its life})."""
    own, made, within, total = Counter(), {}, {}, 0
    for handle, letter, _, _ in ops:
        if letter == "N":
            made[handle] = total
        elif letter == "F":
            within[handle] = total - made.pop(handle)
        else:
            own[handle] += 1
            total += 1
    within.update({handle: total - before for handle, before in made.items()})
    return total, {handle: (own[handle], n - own[handle]) for handle, n in within.items()}
