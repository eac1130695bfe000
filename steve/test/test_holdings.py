"""What each stack holds over time, as in the exports to DHAT and massif, and heaptrack's lines: random traces
against a plain Python reference; and the order of stacks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import random
import re
from pathlib import Path
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from conftest import make_trace
from steve.trace import _memtrace as mt
from steve.kernels._holdings import Holdings
from steve.profilers._ljstream import heap_events
from steve.export.dhat import dhat
from steve.export.heaptrack import HeaptrackWriter
from steve.export.massif import THRESHOLD, TOP, Held, Trees, held
from steve.export.paths import frames_of, in_order
from steve.trace.policy import ShownStacks

CELL, CELLS = 64, 60
STACKS = ["main a b malloc", "main a c malloc", "main b malloc", "main", "main a b malloc", "main b a b a malloc"]


def script(choose: random.Random, events: int) -> str:
    """Blocks from six stacks and from none, resized and freed; accesses in and outside them; some frees match
    no block."""
    lines, time = ["info command app", *(f"stack {frames}" for frames in STACKS)], 0
    live: dict[int, int] = {}  # sizes by address
    for _ in range(events):
        addr, size = 0x10000 + CELL * choose.randrange(CELLS), choose.randint(1, CELL)
        if choose.random() < 0.8:
            time += choose.randint(0, 9)
            lines.append(f"time {time}")
        if addr not in live:
            live[addr] = size
            lines.append(f"N {addr} {size} {choose.randint(0, len(STACKS))}")
        elif choose.random() < 0.3:
            lines += [f"{choose.choice('LSM')} {addr + choose.randrange(live[addr])} 1"] * choose.randint(1, 40)
        elif choose.random() < 0.3:
            to = choose.choice(
                [other for other in range(0x10000, 0x10000 + CELL * CELLS, CELL) if other not in live or other == addr]
            )
            del live[addr]
            live[to] = size
            lines.append(f"R {addr} {to} {size} {choose.randint(0, len(STACKS))}")
        else:
            del live[addr]
            lines += [f"F {addr}"] * choose.randint(1, 2)
    return "\n".join([*lines, f"time {time + 100}", "end exit", ""])


class Kept:
    """The reference: what stacks hold after each event that counts."""

    def __init__(self, path: Path) -> None:
        self.held: list[tuple[int, dict[int, tuple[int, int]]]] = []  # (time, {stack: (bytes, blocks)})
        self.sums: dict[int, dict[str, int]] = {}
        self.live: dict[int, tuple[int, int, int]] = {}  # by handle: stack, size, time of the New
        trace = mt.Trace(str(path))
        for event in [event for batch in trace.batches(copy=True) for event in batch]:
            self.take(mt.KIND_NAMES[event["kind"]], {name: int(event[name]) for name in event.dtype.names})
        self.end = trace.stats()["totals"]["instructions"]

    def take(self, kind: str, event: dict[str, int]) -> None:
        if kind in ("load", "store", "modify"):
            sums = self.sums[self.live[event["handle"]][0]]
            sums["bytes_read"] += event["size"] * (kind != "store")
            sums["bytes_written"] += event["size"] * (kind != "load")
        elif kind in ("new", "resize", "free"):
            self.change(kind, event)
            now: dict[int, tuple[int, int]] = {}
            for stack, size, _ in self.live.values():
                bytes_before, blocks = now.get(stack, (0, 0))
                now[stack] = bytes_before + size, blocks + 1
            self.held.append((event["time"], now))

    def change(self, kind: str, event: dict[str, int]) -> None:
        handle, size = event["handle"], event["size"]
        if kind == "free":
            stack, _, born = self.live.pop(handle)
            self.sums[stack]["lifetime"] += event["time"] - born
            return
        stack, _, born = self.live.get(handle, (event["ref"], 0, event["time"]))
        self.live[handle] = stack, size, born
        sums = self.sums.setdefault(
            stack, dict.fromkeys(("bytes", "blocks", "lifetime", "bytes_read", "bytes_written"), 0)
        )
        sums["bytes"] += size
        sums["blocks"] += kind == "new"

    def rows(self) -> dict[int, dict[str, int]]:
        """The expected result of Holdings.rows(), by stack."""
        totals = [sum(size for size, _ in now.values()) for _, now in self.held]
        peak = self.held[totals.index(max(totals))][1]
        result = {stack: dict(sums) for stack, sums in self.sums.items()}
        for stack, row in result.items():
            of_stack = [now.get(stack, (0, 0)) for _, now in self.held]
            most = max(size for size, _ in of_stack)
            row["held"], row["held_blocks"] = of_stack[-1]
            row["most"], row["most_blocks"] = next(one for one in of_stack if one[0] == most)
            row["peak"], row["peak_blocks"] = peak.get(stack, (0, 0))
            row["lifetime"] += sum(self.end - born for of, _, born in self.live.values() if of == stack)
        return result


def rows_of(history: Holdings) -> dict[int, dict[str, int]]:
    rows = history.rows()
    names = [name for name in rows.dtype.names if name != "seen"]
    return {stack: dict(zip(names, values)) for stack, values in zip(history.stacks().tolist(), rows[names].tolist())}


def held_now(history: Holdings) -> dict[int, int]:
    return dict(zip(*(values.tolist() for values in held(history, "held"))))


@pytest.fixture(params=range(12))
def random_trace(request: Any, tmp_path: Path) -> Path:
    return make_trace(tmp_path / "r.ljt", script(random.Random(request.param), 40 + 60 * request.param), 64)


def test_sums_of_each_stack(random_trace: Path) -> None:
    known, history = Kept(random_trace), Holdings(mt.Trace(str(random_trace)))
    history.walk_all()
    history.finish()
    assert rows_of(history) == known.rows()
    totals = [sum(size for size, _ in now.values()) for _, now in known.held]
    assert history.peak == (max(totals), known.held[totals.index(max(totals))][0]) and history.time == known.end


def test_a_walk_that_stops(random_trace: Path) -> None:
    """It stops at the first event at or after each time and reports what is held then, whether accesses are
    skipped or not."""
    known = Kept(random_trace).held
    for passes in (False, True):
        trace = mt.Trace(str(random_trace))
        if passes:
            trace.pass_accesses()
        history, next_one = Holdings(trace), 0
        for until in range(0, known[-1][0], 7):
            next_one = next((i for i in range(next_one, len(known)) if known[i][0] >= until), len(known))
            if next_one == len(known):
                break
            assert history.walk(until) and history.time == known[next_one][0]
            assert held_now(history) == {stack: size for stack, (size, _) in known[next_one][1].items()}
            assert history.held == sum(size for size, _ in known[next_one][1].values())
            next_one += 1
        assert not history.walk() and held_now(history) == {s: size for s, (size, _) in known[-1][1].items()}


def plain_tree(trace: mt.Trace, sizes: dict[int, int]) -> tuple[int, dict]:
    """The expected tree: (bytes, {frame: the same for what is below})."""
    root: list = [0, {}]
    for stack, size in sizes.items():
        node = root
        node[0] += size
        for number in ShownStacks(trace).ids(stack):
            node = node[1].setdefault(number, [0, {}])
            node[0] += size
    return root[0], root[1]


def plain_lines(trees: Trees, size: int, below: dict, text: str, least: float, depth: int = 0) -> Iterator[str]:
    big = sorted(((node[0], number) for number, node in below.items() if node[0] >= least), reverse=True)
    small = [node[0] for node in below.values() if node[0] < least]
    yield f"{' ' * depth}n{len(big) + bool(small)}: {size} {text}\n"
    for _, number in big:
        yield from plain_lines(trees, *below[number], trees.text(number), least, depth + 1)
    if small:
        yield (
            f"{' ' * (depth + 1)}n0: {sum(small)} in {len(small)} place{'s' * (len(small) > 1)}, "
            f"{'all ' * (len(small) > 1)}below massif's threshold (1.00%)\n"
        )


@pytest.mark.parametrize("seed", range(8))
def test_trees_of_massif(seed: int, tmp_path: Path) -> None:
    """The tree equals one that is built completely, from stacks of random frames and one unknown stack."""
    choose = random.Random(seed)
    stacks = [" ".join(choose.choice("abcdef") for _ in range(choose.randint(1, 9))) for _ in range(200)]
    path = make_trace(tmp_path / "t.ljt", "\n".join([*(f"stack {frames}" for frames in stacks), "end exit", ""]))
    trace = mt.Trace(str(path))
    trace.skim()
    numbers = [*choose.sample(range(trace.counts()["stacks"]), 150), 4000000000]
    sizes = {number: choose.randint(1, 10) ** choose.randint(1, 5) for number in numbers}
    trees = Trees(ShownStacks(trace))
    size, below = plain_tree(trace, sizes)
    assert list(trees.lines(Held(np.array(list(sizes), "u4"), np.array(list(sizes.values()), "u8")))) == list(
        plain_lines(trees, size, below, TOP, size * THRESHOLD)
    )


def test_the_end_has_its_tree(steve: Any, trace: Callable) -> None:
    """If the last snapshot has a tree, it shows what is held at the end."""
    blocks = "".join(f"time {i}\nN {0x10000 + 64 * i} {100 - i}\nF {0x10000 + 64 * i}\n" for i in range(1, 9))
    path = trace(f"stack main\n{blocks}N 0x90000 7 1\ntime 50\nend exit\n")
    assert steve("export", "--format", "massif", path).returncode == 0
    text = path.with_name(path.name + ".massif").read_text()
    assert re.search(
        r"mem_heap_B=7\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=detailed\nn1: 7 .*\n n0: 7 .*main", text
    ), text


def test_order_of_stacks(trace: Callable) -> None:
    """Stacks are sorted by the ranks of their frames, of which several may be equal, from either end, with as
    many bytes for a rank as it needs."""
    choose = random.Random(5)
    stacks = [" ".join(choose.choice("abcdef") for _ in range(choose.randint(1, 5))) for _ in range(100)]
    reader = mt.Trace(str(trace("\n".join([*(f"stack {frames}" for frames in stacks), "end exit", ""]))))
    reader.skim()
    numbers = np.array(choose.sample(range(reader.counts()["stacks"]), 90) + [4000000000], "u4")
    shown = ShownStacks(reader)
    frames = frames_of(shown, numbers.tolist())
    assert frames == list(dict.fromkeys(number for stack in numbers.tolist() for number in reader.stack_ids(stack)))
    for factor, step in ((1, 1), (1, -1), (100, 1), (40000, -1)):
        ranks = {number: factor * (i // 2) for i, number in enumerate(frames)}
        keys = [[ranks[number] for number in reader.stack_ids(stack)][::step] for stack in numbers.tolist()]
        order = in_order(shown, numbers, ranks, step < 0)
        assert [keys[i] for i in order.indices] == sorted(keys)
        runs = [keys[order.indices[start]] for start in order.starts]
        assert runs == sorted(map(list, set(map(tuple, keys))))


class PlainHeaptrack(HeaptrackWriter):
    """Heaptrack's lines in plain Python, except those of stacks."""

    kinds: dict[tuple[int, int], int]
    live: dict[int, int]  # kinds of allocation by address

    def take(self, size: int, stack: int, address: int) -> None:
        if (size, stack) not in self.kinds:
            number = self._stack(stack)
            self.kinds[size, stack] = len(self.kinds)
            self._lines.append(f"a {size:x} {number:x}")
        self.live[address] = self.kinds[size, stack]
        self._lines.append(f"+ {self.live[address]:x}")

    def text(self) -> bytes:
        self.kinds, self.live = {}, {}
        self._lines += ["v 10400 3", "X app", "I 1000 0"]
        events = [event for batch in heap_events(self.trace, lambda heap: True) for event in batch]
        for kind, stack, old, _, address, size, _, _ in events:
            if kind != 1 and old in self.live:
                self._lines.append(f"- {self.live.pop(old):x}")
            if kind != 2:
                self.take(size, stack, address)
        return "\n".join([*self._lines, ""]).encode()


def test_lines_of_heaptrack(random_trace: Path) -> None:
    pieces: list[bytes] = []
    HeaptrackWriter(ShownStacks(mt.Trace(str(random_trace))), lambda piece: pieces.append(bytes(piece))).run()
    known = PlainHeaptrack(ShownStacks(mt.Trace(str(random_trace))), pieces.append).text()
    # these times are wall clock times
    assert re.sub(rb"(?m)^c \w+\n", b"", b"".join(pieces)) == known and b"\n- " in known


class Alike(mt.Trace):
    """A trace whose frames have no address, so that two frames of one function have equal texts."""

    def frame(self, number: int) -> mt.Frame:
        return super().frame(number)._replace(ip=0)


def test_frames_that_read_the_same_are_one(trace: Callable) -> None:
    """Stacks whose frames have equal texts are one program point of DHAT."""
    reader = Alike(
        str(trace("stack main f\nstack main f\nstack main g\nN 4096 16 1\nN 8192 8 2\nN 12288 30 3\n" "end exit\n"))
    )
    history = Holdings(reader)
    history.walk_all()
    history.finish()
    found = json.loads("".join(dhat(history, ShownStacks(reader))))
    assert [(point["tb"], point["tbk"], point["fs"]) for point in found["pps"]] == [(30, 1, [3, 2]), (24, 2, [1, 2])]
    assert found["ftbl"] == ["[root]", "0x0: f", "0x0: main", "0x0: g"]
