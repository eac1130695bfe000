"""Lives of blocks computed in shards equal those of one walk: random traces divided wherever possible, all
fields of all lives, filters, sums, errors of the program; and whole commands with processes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import random
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Steve, examples, make_trace
from reference_lives import STACKS, Run, script
from steve.analysis import blocks, folds
from steve.kernels._lives import LIFE, Selection
from steve.trace._memtrace import Trace
from steve.command import COMMANDS, Command
from test_analyses import run_steve, runs
from test_shards import Here

RUNS = examples(80)
CHUNKS = st.sampled_from((1, 2, 5))
WHERES = (
    None,
    "size >= 30 and lifetime < 20",
    "born >= 10 and died < 60",
    "not freed and resizes != 0 or shared",
    "site ~ 'parse' and used < size",
    "handle < 4 or type = 'tab'",
    "first_use > 3 or news >= 1",
    "copied > 0 or moves = 1 or allocated > 200",
    "thread != free_thread and idle > 2",
    "function = 'draw' or file ~ 'parser' and size > 20",
)
KEYS = ("stack", "thread", "free_thread", "type", "how")


class Everything:
    """The fold that keeps all lives. Peaks are marked by whether they are the last one."""

    needs_operation_numbers = True

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        self.kept.append((batch if keep is None else batch[keep]).copy())

    def partial(self, peak: int) -> np.ndarray:
        lives = np.concatenate(self.kept)
        lives["peak_bytes"][lives["peak"] != peak] = 0
        return lives

    def merge(self, shard: np.ndarray, peak: int) -> None:
        shard["peak"] = peak
        self.kept.append(shard)

    def lives(self, peak: int) -> list[dict]:
        """All lives, sorted by handle. Allocated bytes are counted from the start of the block's life."""
        lives = self.partial(peak)
        lives = lives[np.argsort(lives["handle"])]
        lives["died_allocated"] -= lives["born_allocated"]
        lives["born_allocated"] = 0
        lives["peak_bytes"][lives["peak"] != peak] = 0
        lives["peak"] = lives["peak"] == peak
        rows = [dict(zip(LIFE.names, life)) for life in lives.tolist()]
        for row in rows:
            del row["peak"]  # irrelevant where peak_bytes is 0
        return rows


def arguments(path: Path, where: str | None = None) -> Namespace:
    return Namespace(
        file=str(path), where=where, begin=None, end=None, salvage=False, quiet=True, jobs=1, scheduler=None
    )


class Shards(Here):
    """A Pool that works here."""

    def __init__(self, args: Namespace) -> None:
        pass

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Many(blocks.Blocks):
    """Blocks of a trace that is read in as many parts as there can be, even if that is one."""

    def __init__(
        self,
        path: Path,
        where: str | None = None,
        chosen: Selection | None = None,
        threads: bool = False,
        pool: type[Shards] = Shards,
        errors: bool = False,
        **more: Any,
    ) -> None:
        super().__init__("test", arguments(path, where), again=errors, errors=errors, **more)
        self._wanted, self._pool = {"chosen": chosen, "threads": threads}, pool

    def _in_shards(self) -> bool:
        return True

    def fold(self, make: Any, **_: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "Pool", self._pool)
            return super().fold(make, **self._wanted)


def typed(run: Run, choose: random.Random) -> str:
    """The script of a run with types reported for some addresses, which may or may not be blocks."""
    lines = script(run).splitlines(keepends=True)
    for _ in range(len(run) // 4):
        steps = [step.event.addr for step in run]
        at = choose.randint(len(STACKS), len(lines) - 1)
        lines.insert(at, f"type {choose.choice(steps)} 0 {choose.randint(1, 17)}\n")
    return "".join(lines)


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES), st.randoms(use_true_random=True))
def test_random_lives(run: Run, chunk: int, where: str | None, choose: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", typed(run, choose), chunk, 1)
        one, many = blocks.Blocks("test", arguments(path, where)), Many(path, where)
        expected, found = one.fold(Everything), many.fold(Everything)
        assert found.fold.lives(found.totals["peak"]) == expected.fold.lives(expected.totals["peak"])
    # of peaks a part tells its last one only
    assert {**found.totals, "peak": 0} == {**expected.totals, "peak": 0}


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES))
def test_random_sums(run: Run, chunk: int, where: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        one = blocks.Blocks("test", arguments(path, where))
        expected, walked = one.sum_with_accesses(*KEYS)
        chosen = None if where is None else Selection()
        many = Many(path, where, chosen=chosen, threads=True)
        in_parts = many.fold(Sums)
        found = in_parts.fold.rows(in_parts.totals["peak"])
        threads = [blocks.merged(result.lives.thread_accesses(), int) for result in (walked, in_parts)]
        picked = [] if chosen is None else choice(path, where) == bits_of(chosen)
    assert [by_key(rows) for rows in found] == [by_key(rows) for rows in expected]
    assert threads[0] == threads[1] and picked in ([], True)


@RUNS
@given(runs(), CHUNKS, st.sampled_from(WHERES), st.sampled_from(KEYS))
def test_random_sums_by_one_key(run: Run, chunk: int, where: str | None, key: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        (expected,) = blocks.Blocks("test", arguments(path, where)).sum_by(key)
        in_parts = Many(path, where).fold(partial(folds.Sums, key))
        (found,) = in_parts.fold.rows(in_parts.totals["peak"])
    assert by_key(found) == by_key(expected)


class Sums(folds.Sums):
    """The fold Sums with the keys of this test."""

    def __init__(self) -> None:
        super().__init__(*KEYS)


def by_key(rows: np.ndarray) -> dict[Any, dict]:
    found = blocks.merged(rows, int)
    return {key: {**row, "peak": 0} for key, row in found.items()}


def bits_of(chosen: Selection) -> list[int]:
    return np.flatnonzero(np.unpackbits(chosen.as_bits()[0], bitorder="little")).tolist()


def choice(path: Path, where: str | None) -> list[int]:
    chosen = Selection()
    blocks.Blocks("test", arguments(path, where)).sum_by("stack", chosen=chosen)
    return bits_of(chosen)


# ---- a program with all kinds of events ---------------------------------------------------------


def eventful(choose: random.Random, steps: int) -> str:
    """A script with threads, Resizes, types, Lua and mmap heaps, blocks within blocks of a container, bad
    frees, accesses to freed memory and beyond the ends of blocks."""
    lines = [
        "stack main parse@parser.lua:10 malloc",
        "stack main draw@ui.c:5",
        "stack main grow@buf.c:7 realloc",
        "heap 0x77 lua",
        "heap 0x99 mmap",
    ]
    live: dict[int, tuple] = {}
    for now in range(steps):
        lines += [f"time {now * 7}", f"thread {choose.randint(1, 3)}"]
        lines += [f"at f{now}@f.c:3"] if now % 500 == 0 else []
        lines += [f"state 1 {choose.randint(0, 6)}"] if choose.random() < 0.1 else []
        addr = 0x10000 + 0x1000 * choose.randint(0, 60)
        lines.append(deed(choose, live, addr))
    return "\n".join(lines) + "\nend exit\n"


def deed(choose: random.Random, live: dict[int, tuple], addr: int) -> str:
    """One random event."""
    what, stack = choose.random(), choose.randint(1, 3)
    if addr not in live and what < 0.7:
        live[addr] = size, heap = choose.choice((8, 40, 64, 65, 200, 1500, 4000)), choose.choice((0, 0, 1, 2))
        return f"N {addr} {size} {stack} {heap}"
    if addr not in live or what > 0.97:
        return f"F {addr + 16 * (what > 0.98)} {stack}"
    size, heap = live[addr]
    if what < 0.12:
        del live[addr]
        return f"F {addr} {stack} {heap}"
    if what < 0.25:
        live[addr] = choose.choice((1, 30, 64, 100, 300, 2000, 4000)), heap
        return f"R {addr} {addr} {live[addr][0]} {stack} {heap}"
    if what < 0.3 and heap == 1:
        return f"type {addr} {heap} {choose.randint(1, 17)}"
    return f"{choose.choice('LSM')} {addr + choose.randint(0, size)} {choose.choice((1, 4, 8))}"


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with many parts and with cases for which the random runs above are too short."""
    path = tmp_path_factory.mktemp("liveparts") / "rich.ljt"
    make_trace(path, eventful(random.Random(7), 12000), 100, 2)
    assert len(Trace(str(path)).seek_points()) > 30
    return path


def test_rich_lives(rich: Path) -> None:
    for where in WHERES:
        one, many = blocks.Blocks("test", arguments(rich, where)), Many(rich, where)
        expected, found = one.fold(Everything), many.fold(Everything)
        rows = expected.fold.lives(expected.totals["peak"])
        assert found.fold.lives(found.totals["peak"]) == rows
        assert rows or where is not None


def test_errors_of_the_program(rich: Path) -> None:
    one, many = blocks.Blocks("test", arguments(rich), again=True, errors=True), Many(rich, errors=True)
    contexts = one.fold(Sums).met.contexts(one.trace)
    assert many.fold(Sums).met.contexts(many.trace) == contexts
    assert {context.finding for context in contexts} >= {"freed_access", "beyond_end", "double_free"}


# ---- commands -----------------------------------------------------------------------------------

DIVIDED = [
    name
    for name in COMMANDS
    if "--jobs" in Command(name).parser.format_help() and Command(name).parser.get_default("divided")
]
MORE = {
    "lifetimes": (["--unit", "bytes", "--by-size"], ["--bins", "linear", "--unit", "instructions"]),
    "temporaries": (["--within", "50"],),
    "globals": (["--share", "1"],),
    "diff": (["--by", "line"],),
}
CHOICES = ([], ["--where", "size >= 100 and born > 500 and (not freed or site ~ 'parse')"])


def test_which_are_divided() -> None:
    assert {
        "sites",
        "findings",
        "types",
        "leaks",
        "temporaries",
        "resizes",
        "threads",
        "heat",
        "globals",
        "lifetimes",
        "diff",
    } <= {*DIVIDED}


def line_of(command: str, path: Path) -> list[Any]:
    return [command, path, path] if command == "diff" else [command, path]


@pytest.mark.parametrize("command", DIVIDED)
def test_commands_by_processes(steve: Steve, rich: Path, command: str) -> None:
    ways = [(*more, "--json") for more in (*CHOICES, *MORE.get(command, ()))]
    for jobs, more in (("3", ()), *(("2", way) for way in ways)):
        line = [*map(str, line_of(command, rich)), *more]
        many = steve(*line, "-j", jobs)
        assert (many.returncode, many.out, many.err) == (0, run_steve(*line), "")


def test_damaged_and_cut_off(steve: Steve, rich: Path, tmp_path: Path) -> None:
    data = bytearray(rich.read_bytes())
    (tmp_path / "cut.ljt").write_bytes(data[: len(data) * 2 // 3])
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for name in ("cut.ljt", "bad.ljt"):
        for more in CHOICES:
            one, many = (steve("sites", "--json", "-j", jobs, *more, name) for jobs in ("1", "2"))
            assert one.returncode == many.returncode == 1
            assert one.err == many.err != "" and one.out == many.out != "[]\n"


def damaged(data: bytes, at: int, path: Path) -> Path:
    """The trace with changed bytes from `at` on."""
    path.write_bytes(data[:at] + bytes(byte ^ 85 for byte in data[at : at + 40]) + data[at + 40 :])
    return path


def sound(path: Path) -> int:
    return Trace(str(path), salvage=True).sound_seek_points()


@pytest.mark.parametrize("command", DIVIDED)
def test_salvaged(steve: Steve, rich: Path, tmp_path: Path, command: str) -> None:
    """The part before the first damage is read in parts, everything after it by one reader."""
    bad = damaged(rich.read_bytes(), rich.stat().st_size * 2 // 3, tmp_path / "bad.ljt")
    assert 1 < sound(bad) < sound(rich) == len(Trace(str(rich)).seek_points())
    for more in ((), CHOICES[-1]):
        line = [*map(str, line_of(command, bad)), *more, "--json", "--salvage"]
        one, many = (steve(*line, "-j", jobs) for jobs in ("1", "2"))
        assert (many.returncode, many.out, many.err) == (one.returncode, one.out, one.err)
        assert one.returncode == 1 and "damaged chunks were left out" in one.err


def test_salvaged_wherever_damage_is(steve: Steve, rich: Path, tmp_path: Path) -> None:
    data = rich.read_bytes()
    points = [offset for _, _, offset in Trace(str(rich)).seek_points()]
    # in the file's header, a chunk's header, a list of live blocks, the chunk before one, at the end; and
    # cut off
    places = [12, points[2] + 8, points[2] + 90, points[3] - 50, len(data) - 60]
    files = [damaged(data, at, tmp_path / f"{at}.ljt") for at in places] + [tmp_path / "cut.ljt", rich]
    files[-2].write_bytes(data[: len(data) * 3 // 4])
    assert [sound(path) for path in files[:4]] == [1, 2, 2, 3]
    for path in files:
        one, many = (steve("sites", "--json", "--salvage", "-j", jobs, path) for jobs in ("1", "2"))
        assert (many.returncode, many.out, many.err) == (one.returncode, one.out, one.err)
        assert one.out != "[]\n" and (one.returncode == 0) == (path == rich)


def test_nothing_lives(steve: Steve, tmp_path: Path) -> None:
    """A trace without blocks, and standard input."""
    path = make_trace(tmp_path / "t.ljt", "end exit\n", 1, 1)
    for command in DIVIDED:
        line = line_of(command, path)
        assert steve(*line, "-j", "2").out == steve(*line).out
    assert steve("sites", "-j", "2", "-", stdin=path.read_bytes()).out == steve("sites", path).out.replace(
        str(path), "standard input"
    )
