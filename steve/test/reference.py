"""Reference implementations of the translators, written for clarity.

All functions work on whole lists in the most direct way and follow the definitions literally: an access
searches all live blocks; locks are found by stepping through every operation for every block. They are slow,
and they share no code with the kernels.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import NamedTuple


class Event(NamedTuple):
    """An event of the program. letter: N F R L S M. old: the former address, for an R."""

    letter: str
    addr: int
    size: int
    old: int = 0


class Op(NamedTuple):
    """One line of an ops or lockops file."""

    handle: int
    letter: str
    addr: int
    size: int


def ops_text(ops: list[Op]) -> str:
    return "".join(f"{op.handle} {op.letter} {op.addr} {op.size}\n" for op in ops)


def classic_text(history: list[Event]) -> str:
    """The history as classic text."""
    lines = []
    for event in history:
        if event.letter == "R":
            lines += [f">>> F {event.old} 0\n", f">>> N {event.addr} {event.size}\n"]
        else:
            lines.append(f">>> {event.letter} {event.addr} {0 if event.letter == 'F' else event.size}\n")
    return "".join(lines)


def script(history: list[Event], ending: str | None = "exit") -> str:
    """The history as a script of mktrace."""
    lines = []
    for event in history:
        if event.letter == "R":
            lines.append(f"R {event.old} {event.addr} {event.size}\n")
        else:
            lines.append(
                f"{event.letter} {event.addr} {event.size}\n".replace(" 0\n", "\n")
                if event.letter == "F"
                else f"{event.letter} {event.addr} {event.size}\n"
            )
    return "".join(lines) + (f"end {ending}\n" if ending else "")


class Heap:
    """The live blocks: address -> (handle, size)."""

    def __init__(self) -> None:
        self.live: dict[int, tuple[int, int]] = {}
        self.handles = 0

    def new(self, addr: int, size: int) -> int:
        self.live[addr] = (self.handles, size)
        self.handles += 1
        return self.handles - 1

    def block_at(self, addr: int) -> int | None:
        """The handle of the block that contains the byte at an address."""
        for start, (handle, size) in self.live.items():
            if start <= addr < start + size:
                return handle
        return None


def translate(history: list[Event], resizes: bool = False) -> tuple[list[Op], int, int]:
    """The ops file of a history: (operations, unmatched accesses, unmatched frees). resizes: write a resize as
    an R with the same handle."""
    heap, ops, accesses, frees = Heap(), [], 0, 0
    for event in history:
        if resizes and event.letter == "R" and event.old in heap.live:
            handle = heap.live.pop(event.old)[0]
            heap.live[event.addr] = (handle, event.size)
            ops.append(Op(handle, "R", event.addr, event.size))
            continue
        if event.letter in "FR":
            addr = event.old if event.letter == "R" else event.addr
            if addr in heap.live:
                ops.append(Op(heap.live.pop(addr)[0], "F", addr, 0))
            else:
                frees += 1
        if event.letter in "NR":
            ops.append(Op(heap.new(event.addr, event.size), "N", event.addr, event.size))
        if event.letter in "LSM":
            handle = heap.block_at(event.addr)
            accesses += handle is None
            if handle is not None:
                ops.append(Op(handle, event.letter, event.addr, event.size))
    return ops, accesses, frees


def life_of(ops: list[Op], handle: int) -> tuple[int, int] | None:
    """The indices of a block's N and F, or None if it is never freed."""
    start = stop = None
    for i, op in enumerate(ops):
        if op.handle == handle and op.letter == "N":
            start = i
        if op.handle == handle and op.letter == "F":
            stop = i
    return (start, stop) if start is not None and stop is not None else None


class Rules(NamedTuple):
    """The parameters of the life counter. unlock: write a U before the F of a locked block."""

    gain: float = 1
    decay: float = 0.5
    threshold: float = 0
    unlock: bool = False


def lock_events(ops: list[Op], handle: int, rules: Rules = Rules()) -> list[tuple[int, str]]:
    """The (index, L or U) of one block, found by stepping through its life."""
    life = life_of(ops, handle)
    if life is None:
        return []
    events, counter, locked = [], 0.0, False
    for i in range(life[0] + 1, life[1]):
        counter = counter + rules.gain if ops[i].handle == handle else max(0.0, counter - rules.decay)
        if (counter > rules.threshold) != locked:
            locked = counter > rules.threshold
            events.append((i, "L" if locked else "U"))
    return events + ([(life[1], "U")] if locked and rules.unlock else [])


def handles_of(ops: list[Op]) -> list[int]:
    return sorted({op.handle for op in ops if op.letter == "N"})


def lockops_full(ops: list[Op], compat: bool, rules: Rules = Rules()) -> list[Op]:
    """All operations, with each lock event before its operation. compat: keep one lock event for each index,
    that of the largest handle."""
    at: dict[int, list[tuple[int, str]]] = {}
    for handle in handles_of(ops):
        for index, letter in lock_events(ops, handle, rules):
            at.setdefault(index, []).append((handle, letter))
    result = []
    for i, op in enumerate(ops):
        events = sorted(at.get(i, []), key=lambda e: (e[1] == "L", e[0]))
        if compat and events:
            events = [max(events)]
        result += [Op(handle, letter, 0, 0) for handle, letter in events]
        if op.letter in "NFR":
            result.append(op)
    return result


def lifetimes(ops: list[Op]) -> tuple[int, dict[int, tuple[int, int]]]:
    """(total accesses, {handle: (own accesses, other accesses)})."""
    total = sum(op.letter in "LSM" for op in ops)
    result = {}
    for handle in handles_of(ops):
        alive, own, other = False, 0, 0
        for op in ops:
            if op.handle == handle and op.letter in "NF":
                alive = op.letter == "N"
            elif alive and op.letter in "LSM":
                own += op.handle == handle
                other += op.handle != handle
        result[handle] = (own, other)
    return total, result


def lockops_simple(ops: list[Op], compat: bool, threshold: float = 0.5, unlock: bool = False) -> list[Op]:
    """N and F, with an L after the N of each block whose macro lifetime is below a threshold."""
    total, lives = lifetimes(ops)
    result: list[Op] = []
    locked = set()
    for op in ops:
        if op.letter not in "NFR":
            continue
        if op.letter == "F" and op.handle in locked and unlock:
            result.append(Op(op.handle, "U", 0, 0))
        result.append(Op(op.handle, op.letter, 0, op.size))
        own, other = lives[op.handle]
        if compat:
            own, total = max(own, 1), max(total, 1)
        if op.letter == "N" and total and (own + other) / total < threshold:
            locked.add(op.handle)
            result.append(Op(op.handle, "L", 0, 0))
    return result


def totals(history: list[Event]) -> dict:
    """The figures of `steve summary` that follow from the history."""
    heap = Heap()
    t = {
        "new": 0,
        "free": 0,
        "resize": 0,
        "load": 0,
        "store": 0,
        "modify": 0,
        "allocated": 0,
        "freed": 0,
        "read": 0,
        "written": 0,
        "peak_bytes": 0,
        "peak_blocks": 0,
    }
    for event in history:
        if event.letter in "LSM" and heap.block_at(event.addr) is not None:
            t[{"L": "load", "S": "store", "M": "modify"}[event.letter]] += 1
            t["read"] += event.size * (event.letter in "LM")
            t["written"] += event.size * (event.letter in "SM")
        former = event.old if event.letter == "R" else event.addr
        known = heap.live.pop(former, None) if event.letter in "FR" else None
        if known is not None:
            t["freed"] += known[1]
            t["resize" if event.letter == "R" else "free"] += 1
        if event.letter in "NR":
            t["new"] += known is None
            t["allocated"] += event.size
            heap.new(event.addr, event.size)
        t["peak_bytes"] = max(t["peak_bytes"], sum(size for _, size in heap.live.values()))
        t["peak_blocks"] = max(t["peak_blocks"], len(heap.live))
    t["live_bytes"] = sum(size for _, size in heap.live.values())
    t["live_blocks"] = len(heap.live)
    return t
