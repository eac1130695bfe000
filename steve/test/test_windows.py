"""The sums by bin that the report's page shows for any window: against a simple reference, in parts, and in the form
that the page reads.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import base64
import json
import struct
import tempfile
import zlib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import reference_lives
from conftest import Steve, examples, make_trace
from reference_lives import Run, Step
from steve.kernels._report import AFTER, SUMS, BlockCells
from steve.kernels._walk import Walk
from steve.parallel import rounds
from steve.parallel.rounds import analyse_whole
from steve.report.windows import varints
from steve.trace._memtrace import Trace
from test_analyses import runs
from test_shards import Here, silent

Cells = dict[tuple[int, int, int, int, int], Counter[str]]  # by stack, thread, bits of the size, and bins


NAMES = [[frame.split("@")[0] for frame in stack.split()] for stack in reference_lives.STACKS]


SIGNS = {"allocated": 1, "freed": -1}
BLOCK_SIGNS = {"news": 1, "frees": -1}


class Happened(reference_lives.Lives):
    """What happens to blocks: (stack, thread, bits of the size at the New, operation of the New, operation, what, how
    much)."""

    def __init__(self, run: Run) -> None:
        self.log: list[tuple[int, int, int, int, int, str, int]] = []
        self.bits: dict[int, int] = {}  # by operation of the New
        super().__init__(run)

    def note(self, block: Any, **sums: int) -> None:
        self.noted(block, self.now, **sums)

    def noted(self, block: Any, now: int, **sums: int) -> None:
        group = (block.stack + 1, block.thread, self.bits[block.born])
        self.log += [(*group, block.born, now, name, value) for name, value in sums.items()]

    def new(self, step: Step) -> None:
        super().new(step)
        block = self.blocks[-1]
        self.bits[block.born] = step.event.size.bit_length()
        self.noted(block, block.born, news=1, allocated=step.event.size)

    def free(self, step: Step) -> None:
        block = self.live[step.event.addr]
        self.note(block, frees=1, freed=block.size)
        super().free(step)

    def step(self, step: Step) -> None:
        event = step.event
        if event.letter == "R" and event.old in self.live:
            self.note(self.live[event.old], allocated=event.size, freed=self.live[event.old].size)
        super().step(step)

    def access(self, step: Step) -> None:
        event = step.event
        for block in self.live.values():
            if block.addr <= event.addr < block.addr + block.size:
                reads, writes = event.letter in "LM", event.letter in "SM"
                self.note(
                    block,
                    reads=int(reads),
                    writes=int(writes),
                    bytes_read=reads * event.size,
                    bytes_written=writes * event.size,
                )
        super().access(step)

    def cells(self, width: int) -> Cells:
        found: Cells = {}
        for *group, made, now, name, value in self.log:
            if value:
                found.setdefault((*group, made // width, now // width), Counter())[name] += value
        return found

    def maxima(self, width: int) -> tuple[list[tuple[int, int]], Cells]:
        """The most live bytes in each bin, its beginning included, with the operations up to the first moment when they
        were live, and what happened in the bin after it, by cell."""
        most, after, live = [], {}, 0
        for begin in range(0, self.now, width):
            log = [entry for entry in self.log if begin <= entry[4] < begin + width]
            states = [live]
            for now in sorted({entry[4] for entry in log}):
                states.append(live := live + sum(SIGNS.get(e[5], 0) * e[6] for e in log if e[4] == now))
            times = [begin - 1, *sorted({entry[4] for entry in log})]
            peak = times[states.index(max(states))]
            most.append((max(states), peak + 1))
            for *group, made, now, name, value in log:
                if now > peak and name in (*SIGNS, *BLOCK_SIGNS):
                    column = "after_bytes" if name in SIGNS else "after_blocks"
                    sums = after.setdefault((*group, made // width, now // width), Counter())
                    sums[column] += {**SIGNS, **BLOCK_SIGNS}[name] * value
        return most, {
            key: Counter({n: v for n, v in sums.items() if v}) for key, sums in after.items() if any(sums.values())
        }


def maxima_of(path: Path, analysis: BlockCells) -> tuple[list[tuple[int, int]], Cells]:
    """The same of an analysis."""
    maxima = analysis.maxima()[["most", "at"]].tolist()
    return maxima, {key: sums for key, sums in cells_of(path, analysis, AFTER).items() if sums}


def cells_of(path: Path, analysis: BlockCells, columns: tuple[str, ...] = SUMS) -> Cells:
    """The cells, with stacks numbered as in STACKS from 1."""
    trace, groups, found = Trace(str(path)), analysis.groups(), {}
    Walk(trace).finish()
    for cell in analysis.cells():
        group = groups[cell["group"]]
        functions = [frame.function for frame in reversed(trace.stack_frames(int(group["stack"])))]
        key = (NAMES.index(functions) + 1, *(int(group[name]) for name in ("thread", "size")))
        found[(*key, int(cell["made"]), int(cell["bin"]))] = Counter(
            {name: int(cell[name]) for name in columns if cell[name]}
        )
    return found


@examples(80)
@given(runs(), st.sampled_from((1, 3, 8)), st.sampled_from((1, 10, 1000000)))
def test_random_cells(run: Run, chunk: int, most: int) -> None:
    """most: with few cells, bins are merged. In parts, they are the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", reference_lives.script(run), chunk, 1)
        make, happened = partial(BlockCells, most), Happened(run)
        one = analyse_whole(Walk(Trace(str(path))), make)
        assert one.operations() == happened.now
        assert cells_of(path, one) == happened.cells(one.width())
        assert maxima_of(path, one) == happened.maxima(one.width())
        bins = -(-happened.now // one.width())
        assert len(happened.cells(one.width())) <= most or bins <= 2
        assert one.width() == 1 or len(happened.cells(one.width() // 2)) > most
        parts = rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(make)
        assert (parts.operations(), parts.width(), cells_of(path, parts), maxima_of(path, parts)) == (
            one.operations(),
            one.width(),
            cells_of(path, one),
            maxima_of(path, one),
        )


def test_many_operations(tmp_path: Path) -> None:
    """More operations than bins: the width is the least power of two with which they are not too many."""
    lines = ["stack main f malloc", "thread 1", *(f"N {16 * i} 8 1" for i in range(1, 1001)), "end exit"]
    path = make_trace(tmp_path / "t.ljt", "\n".join(lines) + "\n")
    found = analyse_whole(Walk(Trace(str(path))), BlockCells)
    assert found.width() == 4 and len(found.cells()) == 250 and set(found.cells()["news"].tolist()) == {4}


TYPED = """\
stack main f malloc
heap 0x77 lua
thread 1
N 16 8 1 1
S 16 4
N 64 8 1
type 16 1 8
L 16 4
N 128 8 1
F 16 1 1
end exit
"""


def test_types(tmp_path: Path) -> None:
    """A block whose type becomes known belongs to it from its New on, but for accesses before."""
    path = make_trace(tmp_path / "t.ljt", TYPED, 1, 1)
    found = [
        analyse_whole(Walk(Trace(str(path))), BlockCells),
        rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(BlockCells),
    ]
    for analysis in found:
        groups, by_type = analysis.groups(), {}
        for cell in analysis.cells():
            group = groups[cell["group"]]
            for name in SUMS:
                if cell[name] and group["heap"]:
                    by_type[int(group["type"]), name] = by_type.get((int(group["type"]), name), 0) + int(cell[name])
        assert by_type == {
            (8, "news"): 1,
            (8, "allocated"): 8,
            (0, "writes"): 1,
            (0, "bytes_written"): 4,
            (8, "reads"): 1,
            (8, "bytes_read"): 4,
            (8, "frees"): 1,
            (8, "freed"): 8,
        }


def test_samples(steve: Steve, trace: Any) -> None:
    """In a sample of the blocks, the sums are the estimates of `steve summary`."""
    lines = ["stack main f malloc", "info sample_mean 64", "info sample_seed 5", "thread 1"]
    lines += [f"N {256 * i} {5 + i % 90} 1" for i in range(1, 100)] + [f"F {256 * i} 1" for i in range(1, 100, 2)]
    path = trace("\n".join([*lines, "end exit"]) + "\n")
    summary = json.loads(steve("summary", "--json", path).out)
    cells = analyse_whole(Walk(Trace(str(path))), BlockCells).cells()
    found = {name: int(cells[name].sum()) for name in SUMS[:4]}
    assert found["news"] > 99 and found == {
        "news": summary["events"]["new"],
        "allocated": summary["bytes"]["allocated"],
        "frees": summary["events"]["free"],
        "freed": summary["bytes"]["freed"],
    }


def test_numbers_of_any_length() -> None:
    values = np.array([0, 1, 127, 128, 300, (1 << 32) + 5, (1 << 53) - 1], "u8")
    data, found, shift, value = varints(values), [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            shift = value = 0
    assert found == values.tolist()


def page_data(text: str) -> tuple[dict[str, Any], list[int]]:
    """The JSON and the columns of numbers in a page."""
    base64_text = text.split('id="explore-data">')[1].split("<")[0]
    data = zlib.decompress(base64.b64decode(base64_text))
    (length,) = struct.unpack_from("<I", data)
    numbers, shift, value = [], 0, 0
    for byte in data[4 + length :]:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            shift = value = 0
    return json.loads(data[4 : 4 + length]), numbers


def test_data_of_the_page(steve: Steve, trace: Any) -> None:
    """The data of the whole run have the totals of `steve summary`, and the stacks as a tree."""
    script = [
        "stack main@a.c:3 f@a.c:9 malloc",
        "stack main@a.c:4 g@b.c:5 malloc",
        "thread 1",
        *(f"N {64 * i} {i} {1 + i % 2}\nS {64 * i} 1\nL {64 * i} 1" for i in range(1, 50)),
        *(f"F {64 * i} 1" for i in range(1, 50, 3)),
        "end exit",
    ]
    path = trace("\n".join(script) + "\n")
    head, numbers = page_data(steve("report", path, "-o", "-").out)
    summary = json.loads(steve("summary", "--json", path).out)
    n = head["cells"]
    sums = {name: sum(numbers[(3 + i) * n : (4 + i) * n]) for i, name in enumerate(SUMS)}
    assert len(numbers) == (3 + len(SUMS) + len(AFTER)) * n
    assert sums == {
        "news": 49,
        "allocated": summary["bytes"]["allocated"],
        "frees": summary["events"]["free"],
        "freed": summary["bytes"]["freed"],
        "reads": summary["events"]["load"],
        "writes": summary["events"]["store"],
        "bytes_read": summary["bytes"]["read"],
        "bytes_written": summary["bytes"]["written"],
    }
    texts = head["frames"]["text"]
    assert {(texts[f], p) for f, p in zip(head["nodes"]["frame"][1:], head["nodes"]["parent"][1:])} == {
        ("main (a.c:3)", 0),
        ("main (a.c:4)", 0),
        ("f (a.c:9)", 1),
        ("g (b.c:5)", 3),
    } or len(texts) >= 4


def test_many_sites(steve: Steve, trace: Any) -> None:
    """Of more sites than the page shows, the largest are kept, and the others are summed up below their callers."""
    lines = [f"stack main@a.c:1 f{i % 30}@a.c:{2 + i % 30} g{i}@b.c:{i + 1} malloc" for i in range(3000)]
    lines += ["thread 1", *(f"N {8192 * i} {3001 - i if i > 10 else 4000 + i} {i}" for i in range(1, 3001)), "end exit"]
    path = trace("\n".join(lines) + "\n")
    head, numbers = page_data(steve("report", path, "-o", "-").out)
    n, texts, nodes = head["cells"], head["frames"]["text"], head["nodes"]
    assert (head["sites"], head["folded"]) == (3000, 1000)
    groups, group = [0] * len(head["groups"]["node"]), 0
    for step, allocated in zip(numbers[:n], numbers[4 * n : 5 * n]):
        group += step
        groups[group] += allocated
    whole = json.loads(steve("summary", "--json", path).out)["bytes"]["allocated"]
    assert sum(groups) == whole
    kept: dict[str, int] = {}
    for node, value in zip(head["groups"]["node"], groups):
        name = texts[nodes["frame"][node]]
        caller = texts[nodes["frame"][nodes["parent"][node]]]
        key = f"{caller} {name}" if name == "others" else name
        kept[key] = kept.get(key, 0) + value
    assert kept["g0 (b.c:1)"] == 4001 and kept["g500 (b.c:501)"] == 2500 and "g2500 (b.c:2501)" not in kept
    others = [value for name, value in kept.items() if name.endswith(" others")]
    assert len(others) == 30 and sum(others) == sum(3001 - i for i in range(2001, 3001))
    assert all(name.startswith("f") for name in kept if name.endswith(" others"))
