"""Reference implementations of the analyses of accesses, written for clarity.

A run (see reference_lives) becomes a list of events with the blocks they concern. Each analysis is a few
lines over that list. They are slow, and they share no code with the kernels.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from fractions import Fraction
from math import comb
from collections.abc import Callable
from typing import NamedTuple

from reference_lives import LINES, PLACE_LINES, Block, Lives, Run, Step


class Happening(NamedTuple):
    """An operation on a block. size: that of the block at that time (F, accesses) or afterwards (N, R)."""

    letter: str
    step: Step
    block: Block
    size: int
    old_size: int
    old_addr: int


class History(Lives):
    """Converts a run to a list of Happenings, in `log`."""

    def __init__(self, run: Run) -> None:
        self.log: list[Happening] = []
        super().__init__(run)

    def note(self, step: Step, block: Block, old_size: int = 0, old_addr: int = 0, size: int = -1) -> None:
        self.log.append(Happening(step.event.letter, step, block, block.size if size < 0 else size, old_size, old_addr))

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
    """The addresses of the bytes that an access touches."""
    event = happening.step.event
    return range(event.addr, event.addr + event.size)


def working_set(log: list[Happening], length: int, chosen: Chosen) -> list[dict]:
    """bytes, lines, blocks, accesses and live_bytes of each window."""
    result, live = [], 0
    for first in range(0, len(log), length):
        part = [h for h in log[first : first + length] if chosen(h.block)]
        accesses = [h for h in part if h.letter in "LSM"]
        at = {address for h in accesses for address in touched(h)}
        live += sum({"N": h.size, "R": h.size - h.old_size, "F": -h.size}.get(h.letter, 0) for h in part)
        result.append(
            {
                "first": first,
                "accesses": len(accesses),
                "bytes": len(at),
                "lines": len({address // 64 for address in at}),
                "blocks": len({h.block.handle for h in accesses}),
                "live_bytes": live,
            }
        )
    return result


def misses(log: list[Happening], line: int, lines: int, chosen: Chosen) -> int:
    """The misses of an LRU cache, found by simulating one."""
    cache: list[int] = []
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


def fields(log: list[Happening], stack: int, chosen: Chosen) -> dict[int, list[int]]:
    """loads, stores and modifies by byte offset, for the blocks of one stack."""
    result: dict[int, list[int]] = {}
    addresses: dict[int, int] = {}
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


def shared_blocks(log: list[Happening], chosen: Chosen) -> dict[int, int]:
    """By stack, the number of blocks that several threads accessed."""
    threads: dict[int, set[int]] = {}
    stacks: dict[int, int] = {}
    for h in log:
        if h.letter in "LSM" and chosen(h.block):
            threads.setdefault(h.block.handle, set()).add(h.step.thread)
            stacks[h.block.handle] = h.block.stack
    result: dict[int, int] = {}
    for handle, some in threads.items():
        if len(some) > 1:
            result[stacks[handle]] = result.get(stacks[handle], 0) + 1
    return result


class Touch(NamedTuple):
    """An access to a line: the thread's clock; the bytes of the line and of the block; where the line is in the
    block."""

    thread: int
    clock: int
    bytes: set[int]
    writes: bool
    handle: int
    block: set[int]
    offset: int
    stack: int


def touches_by_line(log: list[Happening], chosen: Chosen) -> dict[int, list[Touch]]:
    result: dict[int, list[Touch]] = {}
    addresses: dict[int, int] = {}
    clocks: dict[int, int] = {}
    for h in log:
        handle, thread = h.block.handle, h.step.thread
        if h.letter in "NR":
            addresses[handle] = h.step.event.addr
        if h.letter not in "LSM" or not chosen(h.block):
            continue
        clocks[thread] = clocks.get(thread, 0) + 1
        begin = addresses[handle]
        for line in sorted({address // 64 for address in touched(h)}):
            inside = range(64 * line, 64 * line + 64)
            result.setdefault(line, []).append(
                Touch(
                    thread,
                    clocks[thread],
                    {a - 64 * line for a in touched(h) if a in inside},
                    h.letter in "SM",
                    handle,
                    {a - 64 * line for a in range(begin, begin + max(h.size, 1)) if a in inside},
                    64 * line - begin,
                    h.block.stack,
                )
            )
    return result


def episodes(touches: list[Touch]) -> list[list[list[Touch]]]:
    """The lists of runs that form an episode each."""
    result: list[list[list[Touch]]] = [[]]
    last = touches[0]
    for touch in touches:
        if touch.thread != last.thread and touch.handle != last.handle and touch.block & last.block:
            result.append([])
        if not result[-1] or touch.thread != last.thread:
            result[-1].append([])
        result[-1][-1].append(touch)
        last = touch
    return result


class Sharer:
    """A thread in an episode: what it did in the runs that count, and how it returned to the line."""

    def __init__(self, thread: int, runs: list[list[Touch]]) -> None:
        own = [run for run in runs if run[0].thread == thread]
        counted = [run for run in runs[1:-1] if run[0].thread == thread]
        self.thread, self.touches = thread, sum(counted, [])
        self.returns = [
            after[0].clock - before[-1].clock - 1 <= (self.span(before) + self.span(after)) // 8
            for before, after in zip(own, own[1:])
        ]
        first, last = self.touches[0], self.touches[-1]
        self.share = sum(map(self.span, counted)) / (last.clock - first.clock + 1)
        self.used = set().union(*(t.bytes for t in self.touches))
        self.written = set().union(*(t.bytes for t in self.touches if t.writes))
        self.writes = sum(t.writes for t in self.touches)

    @staticmethod
    def span(run: list[Touch]) -> int:
        return run[-1].clock - run[0].clock + 1

    def accesses(self, contested: set[int]) -> tuple[int, int]:
        """Accesses to words without and with contested bytes. Wide accesses count for the latter if there are
        any."""
        words = {byte // 8 for byte in contested}
        found = [0, 0]
        for touch in self.touches:
            own = {byte // 8 for byte in touch.bytes}
            found[bool(own & words if len(own) == 1 else words)] += 1
        return found[0], found[1]

    def side(self, contested: set[int]) -> tuple:
        last = self.touches[-1]
        return (self.thread, last.stack, last.offset, bits(self.used - contested), bits(self.written - contested))


def bits(some: set[int]) -> int:
    return sum(1 << byte for byte in some)


def meetings(sharers: list[Sharer], contested: set[int], kind: int) -> list[tuple[float, int, int]]:
    """For each thread, the greatest number of accesses that interleave with those of another thread, and both
    threads."""
    result = []
    for one in sharers:
        best = (0.0, one.thread, 0)
        for other in sharers:
            if other is one or (kind == 0 and not (one.written | other.written) - contested):
                continue
            n = min(
                one.accesses(contested)[kind] * other.share,
                other.accesses(contested)[kind] * one.share,
                one.writes + other.writes,
            )
            best = max(best, (n, one.thread, other.thread), key=lambda best: (best[0], -best[2]))
        result.append(best)
    return result


def false_line(line: int, runs: list[list[Touch]]) -> tuple[tuple | None, bool]:
    """The row reported for an episode or None, and whether the episode was examined."""
    sharers = [Sharer(thread, runs) for thread in sorted({run[0].thread for run in runs[1:-1]})]
    sharers = [sharer for sharer in sharers if sharer.returns]
    if len(sharers) < 2:
        return None, False
    returns = sum((sharer.returns for sharer in sharers), [])
    n, r = len(returns), sum(returns)
    chance = float(sum(comb(n, k) * Fraction(7 ** (n - k), 8**n) for k in range(r, n + 1)))
    contested = {byte for one in sharers for other in sharers if one is not other for byte in one.written & other.used}
    met = meetings(sharers, contested, 0)
    interleaved = sum(int(m[0]) for m in met) - sum(int(m[0]) for m in meetings(sharers, contested, 1))
    if chance > 0.05 or interleaved < 1:
        return None, True
    most = max(met, key=lambda m: (m[0], -m[1]))
    by_thread = {sharer.thread: sharer for sharer in sharers}
    return (
        line,
        interleaved,
        r,
        n - r,
        sum(m[0] >= 1 for m in met),
        round(chance, 12),
        *(by_thread[thread].side(contested) for thread in most[1:]),
    ), True


def false_lines(log: list[Happening], chosen: Chosen) -> tuple[list[tuple], int]:
    """The rows of all reported episodes, sorted, and the number of episodes examined."""
    judged = [
        false_line(line, runs) for line, touches in touches_by_line(log, chosen).items() for runs in episodes(touches)
    ]
    return sorted(row for row, _ in judged if row), sum(examined for _, examined in judged)


def line_work(log: list[Happening], chosen: Chosen) -> dict[tuple, dict[str, object]]:
    """By line: accesses to own and to other blocks, distinct blocks and cache lines, and what was made by
    kind."""
    rows: dict[tuple, dict[str, object]] = {}
    for h in log:
        if not chosen(h.block) or h.letter == "F":
            continue
        line = LINES[h.block.stack] if h.letter in "NR" else PLACE_LINES[h.step.place]
        row = rows.setdefault(
            line, {"own": [0] * 5, "others": [0] * 5, "blocks": set(), "lines": set(), "made": [0, 0]}
        )
        if h.letter in "NR":
            row["made"] = [row["made"][0] + (h.letter == "N"), row["made"][1] + h.size]
            continue
        size = h.step.event.size
        found = row["own" if LINES[h.block.stack] == line else "others"]
        for i, more in enumerate(
            (h.letter == "L", h.letter == "S", h.letter == "M", size * (h.letter in "LM"), size * (h.letter in "SM"))
        ):
            found[i] += more
        row["blocks"].add(h.block.handle)
        row["lines"] |= {address // 64 for address in touched(h)}
    return rows
