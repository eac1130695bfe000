"""Slow and plain: the analyses of accesses, said a second time for the tests.

A run (see reference_lives) becomes a list of what happened to which block; each analysis is a few lines over
that list. Nothing here is fast, and nothing is shared with the kernels.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import Callable, Dict, List, NamedTuple, Set

from reference_lives import LINES, PLACE_LINES, Block, Lives, Run, Step


class Happening(NamedTuple):
    """An operation on a block; size: of the block then (F, accesses) or from then on (N, R)."""
    letter: str
    step: Step
    block: Block
    size: int
    old_size: int
    old_addr: int


class History(Lives):
    """What happened, in `log`."""

    def __init__(self, run: Run) -> None:
        self.log: List[Happening] = []
        super().__init__(run)

    def note(self, step: Step, block: Block, old_size: int = 0, old_addr: int = 0, size: int = -1) -> None:
        self.log.append(Happening(step.event.letter, step, block, block.size if size < 0 else size, old_size,
                                  old_addr))

    def step(self, step: Step) -> None:
        event = step.event
        block = self.live.get(event.old) if event.letter == "R" else None
        if block is not None:
            self.note(step, block, block.size, event.old, event.size)
        super().step(step)

    def new(self, step: Step) -> None:
        super().new(step)
        block = self.blocks[-1]
        self.log.append(Happening("N", step, block, block.size, 0, 0))

    def free(self, step: Step) -> None:
        self.note(step, self.live[step.event.addr])
        super().free(step)

    def access(self, step: Step) -> None:
        for block in self.live.values():
            if block.addr <= step.event.addr < block.addr + block.size:
                self.note(step, block)
        super().access(step)


Chosen = Callable[[Block], bool]


def touched(happening: Happening) -> range:
    """The addresses of an access."""
    event = happening.step.event
    return range(event.addr, event.addr + event.size)


def working_set(log: List[Happening], length: int, chosen: Chosen) -> List[dict]:
    """bytes, lines, blocks, accesses and live_bytes of each window."""
    result, live = [], 0
    for first in range(0, len(log), length):
        part = [h for h in log[first:first + length] if chosen(h.block)]
        accesses = [h for h in part if h.letter in "LSM"]
        at = {address for h in accesses for address in touched(h)}
        live += sum({"N": h.size, "R": h.size - h.old_size, "F": -h.size}.get(h.letter, 0) for h in part)
        result.append({"first": first, "accesses": len(accesses), "bytes": len(at),
                       "lines": len({address // 64 for address in at}),
                       "blocks": len({h.block.handle for h in accesses}), "live_bytes": live})
    return result


def misses(log: List[Happening], line: int, lines: int, chosen: Chosen) -> int:
    """Misses of an LRU cache, by having one."""
    cache: List[int] = []
    missed = 0
    for h in log:
        if h.letter in "LSM" and chosen(h.block):
            for number in sorted({address // line for address in touched(h)}):
                if number in cache:
                    cache.remove(number)
                else:
                    missed += 1
                cache = ([number] + cache)[:lines]
    return missed


def fields(log: List[Happening], stack: int, chosen: Chosen) -> Dict[int, List[int]]:
    """loads, stores, modifies of each byte offset of the blocks of a stack."""
    result: Dict[int, List[int]] = {}
    addresses: Dict[int, int] = {}
    for h in log:
        if h.letter in "NR":
            addresses[h.block.handle] = h.step.event.addr
        if h.letter not in "LSM" or h.block.stack != stack or not chosen(h.block):
            continue
        for address in touched(h):
            offset = address - addresses[h.block.handle]
            if offset < h.size:
                result.setdefault(offset, [0, 0, 0])["LSM".index(h.letter)] += 1
    return result


def sharing(log: List[Happening], chosen: Chosen) -> Dict[int, Dict[str, int]]:
    """By stack: shared blocks, foreign accesses, transfers and false ones."""
    names = ("shared", "foreign", "transfers", "false_transfers")
    rows: Dict[int, Dict[str, int]] = {}
    owners: Dict[int, tuple] = {}  # line: thread, bytes, written
    last: Dict[int, int] = {}
    shared: Set[int] = set()
    for h in log:
        if h.letter not in "LSM" or not chosen(h.block):
            continue
        row = rows.setdefault(h.block.stack, dict.fromkeys(names, 0))
        foreign = last.get(h.block.handle, h.step.thread) != h.step.thread
        row["foreign"] += foreign
        row["shared"] += foreign and h.block.handle not in shared
        shared |= {h.block.handle} if foreign else set()
        last[h.block.handle] = h.step.thread
        for line in sorted({address // 64 for address in touched(h)}):
            own = {address for address in touched(h) if address // 64 == line}
            writes = h.letter in "SM"
            thread, theirs, written = owners.get(line, (h.step.thread, set(), False))
            if thread != h.step.thread:
                row["transfers"] += written or writes
                row["false_transfers"] += (written or writes) and not own & theirs
                theirs, written = set(), False
            owners[line] = (h.step.thread, theirs | own, written or writes)
    return rows


def line_work(log: List[Happening], chosen: Chosen) -> Dict[tuple, Dict[str, object]]:
    """By line: accesses to own and others' blocks, distinct blocks and cache lines, what was made by kind."""
    rows: Dict[tuple, Dict[str, object]] = {}
    for h in log:
        if not chosen(h.block) or h.letter == "F":
            continue
        line = (LINES[h.block.stack] if h.letter in "NR" else PLACE_LINES[h.step.place])
        row = rows.setdefault(line, {"own": [0] * 5, "others": [0] * 5, "blocks": set(), "lines": set(),
                                     "made": [0, 0]})
        if h.letter in "NR":
            row["made"] = [row["made"][0] + (h.letter == "N"), row["made"][1] + h.size]
            continue
        size = h.step.event.size
        found = row["own" if LINES[h.block.stack] == line else "others"]
        for i, more in enumerate((h.letter == "L", h.letter == "S", h.letter == "M", size * (h.letter in "LM"),
                                  size * (h.letter in "SM"))):
            found[i] += more
        row["blocks"].add(h.block.handle)
        row["lines"] |= {address // 64 for address in touched(h)}
    return rows
