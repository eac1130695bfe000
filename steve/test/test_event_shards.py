"""States, working sets, fields, sharing and reuse computed in shards equal those of one walk: random traces
divided wherever possible, and the commands with processes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import random
import tempfile
from functools import partial
from pathlib import Path
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Steve, examples, make_trace
from reference_lives import STACKS, Run, script
from steve.analysis import blocks
from steve.kernels import _accesses, _walk
from steve.parallel import rounds
from steve.kernels._lives import Selection
from steve.trace._memtrace import VM_NAMES
from test_analyses import run_steve, runs
from test_live_shards import CHUNKS, arguments, rich  # noqa: F401 (a fixture)
from test_shards import Here, silent

RUNS = examples(60)
WHERES = (None, "size >= 30 and lifetime < 20", "not freed")


def stateful(run: Run, choose: random.Random) -> str:
    """The script of a run with times, in which virtual machines change between states."""
    lines = script(run).splitlines(keepends=True)
    for _ in range(len(run) // 2):
        at = choose.randint(len(STACKS), len(lines) - 1)
        vm = choose.choice((0, 1, 2, 7))
        lines.insert(at, f"state {choose.choice((1, 2))} {vm}{' 5' if vm == 7 else ''}\n")
    lines = [
        line + f"time {10 * i}\n" if i >= len(STACKS) and not line.startswith("end") else line
        for i, line in enumerate(lines)
    ]
    return "heap 0x77 lua\nheap 0x78 lua\n" + "".join(lines)


def choice(path: Path, where: str | None) -> Selection | None:
    if where is None:
        return None
    chosen = Selection()
    blocks.Blocks("test", arguments(path, where)).sum_by("stack", chosen=chosen)
    return chosen


def both(path: Path, where: str | None, make: Callable[[], _walk.Analysis]) -> tuple[Any, Any]:
    """The results of one walk and of parts."""
    return (
        blocks.Blocks("test", arguments(path, where)).over_events(make),
        rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(make, choice(path, where)),
    )


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES), st.randoms(use_true_random=True))
def test_random_states(run: Run, chunk: int, where: str | None, choose: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", stateful(run, choose), chunk, 1)
        one, many = both(path, where, _accesses.States)
    assert many.tolist() == one.tolist()


@RUNS
@given(runs(), CHUNKS, st.randoms(use_true_random=True))
def test_random_garbage_collections(run: Run, chunk: int, choose: random.Random) -> None:
    """The bins sum up to what the state GC has, in the whole and in parts."""
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", stateful(run, choose), chunk, 1)
        states, _ = both(path, None, _accesses.States)
        one, many = both(path, None, _accesses.Course)
    assert many.bins().tolist() == one.bins().tolist() and many.clock() == one.clock()
    assert int(one.bins().sum()) == int(states["instructions"][states["vm"] == VM_NAMES.index("GC")].sum())
    operations = sum(line[0] in "NFRLSM" and line[1] == " " for line in script(run).splitlines())
    for width, bins in ((512, 1 + operations // 512), (1024, 1), (1 << 40, 3)):
        assert int(one.collected(width, bins).sum()) == int(one.bins().sum())


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES), st.sampled_from((1, 4, 15, 1000)))
def test_random_windows(run: Run, chunk: int, where: str | None, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        one, many = both(path, where, partial(_accesses.WorkingSet, length))
    assert many.tolist() == one.tolist()


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES))
def test_random_fields(run: Run, chunk: int, where: str | None) -> None:
    make = partial(_accesses.Fields, np.array([2**32 - 1, 1, 0, 1], "u4"), [2560, 2560])
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        maps, found = both(path, where, make)
    assert [(*one, cells.tolist()) for *one, cells in found] == [(*one, cells.tolist()) for *one, cells in maps]


def plain_sharing(result: tuple) -> tuple:
    """The result of Sharing in a form that can be compared."""
    rows, found, tests, changes = result
    lines = sorted((*line.tolist()[:-1], *map(tuple, line["sides"].tolist())) for line in found)
    return blocks.merged(rows, int), lines, tests, changes


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES))
def test_random_sharing(run: Run, chunk: int, where: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        expected, found = both(path, where, _accesses.Sharing)
    assert plain_sharing(found) == plain_sharing(expected)


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES), st.sampled_from((4, 6, 12)), st.sampled_from((1, 2)))
def test_random_reuse(run: Run, chunk: int, where: str | None, line_shift: int, rate: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        one, many = both(path, where, partial(_accesses.Reuse, line_shift, rate))
    assert many == one


LINES = (["states"], ["fields"], ["workingset", "--window", "700"], ["sharing"], ["reuse", "--line", "16"])


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_commands_by_processes(steve: Steve, rich: Path, line: list[str]) -> None:  # noqa: F811
    for more in (["--json"], ["--where", "size >= 100 and not freed"]):
        many = steve(*line, rich, *more, "-j", "2")
        assert (many.returncode, many.out, many.err) == (0, run_steve(*line, str(rich), *more), "")
        assert many.out.count("\n") > 5


def test_damaged(steve: Steve, rich: Path, tmp_path: Path) -> None:  # noqa: F811
    data = bytearray(rich.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for line in LINES:
        one, many = (steve(*line, "--json", "-j", jobs, "bad.ljt") for jobs in ("1", "2"))
        assert one.returncode == many.returncode == 1
        assert one.err == many.err != "" and one.out == many.out != "[]\n"
