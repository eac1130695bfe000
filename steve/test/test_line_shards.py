"""`steve lines` computed in shards equals that of one walk: random traces of Lua programs with threads,
divided wherever possible, and the command with processes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Steve, examples, make_trace
from steve.analysis import blocks
from steve.commands import lines
from steve.system.samples import WHOLE
from test_analyses import run_steve
from test_live_shards import CHUNKS, Many, Shards, arguments, rich  # noqa: F401 (a fixture)

WHERES = (None, "size >= 30 and lifetime < 40", "not freed or shared", "function = 'f'")
GC, TRACE = 2, 7  # constants of enum mt_vm
STATES = (0, 1, GC, GC, TRACE)
CELL, CELLS = 512, 24
PROTO = 16  # offset of the first instruction in a prototype


class Program:
    """A script of threads that interpret, run JIT traces, call functions, collect garbage and access blocks of
    both heaps."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.lines = [
            "heap 0x77 lua",
            "stack main@main.c:1 f@@a.lua:10",
            "stack main@main.c:1 g@@a.lua:20",
            "stack main@main.c:1 grow@buf.c:5",
            "stack main@main.c:1 g@@a.lua:10",
        ]
        self.live: dict[int, tuple] = {}  # heap and size by address
        self.protos: dict[int, int] = {}  # instructions by address

    def deed(self) -> None:
        deeds = [
            self.make,
            self.make,
            self.end,
            self.resize,
            self.fetch,
            self.fetch,
            self.on_trace,
            self.in_c,
            self.in_c,
            self.in_c,
            self.call,
            self.state,
            self.proto,
        ]
        if self.choose.random() < 0.3:
            self.lines.append(f"thread {self.choose.choice((1, 1, 2, 3))}")
        self.choose.choice(deeds)()

    def make(self) -> None:
        addr, heap = 0x10000 + CELL * self.choose.randrange(CELLS), self.choose.randint(0, 1)
        if addr not in self.live:
            self.live[addr] = heap, self.choose.choice((8, 40, 64, 200, 512))
            self.lines.append(f"N {addr} {self.live[addr][1]} {self.choose.randint(1, 4)} {heap}")

    def end(self) -> None:
        if self.live:
            addr = self.choose.choice(list(self.live))
            self.lines.append(f"F {addr} 1 {self.live.pop(addr)[0]}")
            self.protos.pop(addr, None)

    def resize(self) -> None:
        if self.live:
            addr = self.choose.choice(list(self.live))
            heap, _ = self.live[addr]
            self.live[addr] = heap, self.choose.choice((30, 100, 512))
            self.lines.append(f"R {addr} {addr} {self.live[addr][1]} {self.choose.randint(1, 4)} {heap}")

    def proto(self) -> None:
        found = [addr for addr, (heap, size) in self.live.items() if heap == 1 and size >= 64]
        if found:
            addr = self.choose.choice(found)
            self.protos[addr] = n = self.choose.randint(1, 10)
            self.lines.append(
                f"proto {addr} 1 {PROTO} @a.lua " + " ".join(str(10 + self.choose.randrange(12)) for _ in range(n))
            )

    def fetch(self) -> None:
        if self.protos:
            addr = self.choose.choice(list(self.protos))
            self.access("luai@vm.c:1", "L", addr + PROTO + 4 * self.choose.randrange(self.protos[addr]), 4)

    def touch(self, where: str) -> None:
        if self.live:
            addr = self.choose.choice(list(self.live))
            self.access(
                where,
                self.choose.choice("LSM"),
                addr + self.choose.randrange(self.live[addr][1]),
                self.choose.choice((1, 4, 8, 64)),
            )

    def on_trace(self) -> None:
        self.touch(f"f@@a.lua:{10 + self.choose.randrange(12)}")

    def in_c(self) -> None:
        self.touch(f"c@lib.c:{self.choose.randrange(4)}")

    def access(self, where: str, letter: str, addr: int, size: int) -> None:
        self.lines += [f"at {where}", f"{letter} {addr} {size}"]

    def call(self) -> None:
        self.lines.append(f"call f@@a.lua:{10 + self.choose.randrange(12)}")

    def state(self) -> None:
        vm = self.choose.choice(STATES)
        self.lines.append(f"state 1 {vm}{' 5' if vm == TRACE else ''}")


def program(choose: random.Random, steps: int) -> str:
    made = Program(choose)
    for _ in range(steps):
        made.deed()
    return "\n".join(made.lines) + "\nend exit\n"


def rows(sums: object, lives: object, numbers: object) -> list[dict]:
    """The rows of `steve lines`."""
    found: dict = {}
    numbers.reach_all()
    lines.add_lives(found, sums, numbers, WHOLE)
    lines.add_work(found, lives, numbers)
    return [found[line] for line in sorted(found)]


def of_one(path: Path, where: str | None) -> list[dict]:
    one = blocks.Blocks("test", arguments(path, where), by_line=True)
    (sums,), walked = one.sum_with_accesses("stack")
    return rows(sums, walked.lives, walked.lines)


class Few(Shards):
    """A list of the parts of a trace that has few seek points."""

    n = 1


def of_shards(path: Path, where: str | None, pool: type[Shards]) -> list[dict]:
    many = Many(path, where, threads=True, pool=pool, by_line=True)
    (sums,), walked = many.sum_with_accesses("stack")
    return rows(sums, walked.lives, walked.lines)


@examples(40)
@given(CHUNKS, st.sampled_from(WHERES), st.integers(1, 200), st.randoms(use_true_random=True))
def test_random_lines(chunk: int, where: str | None, steps: int, choose: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", program(choose, steps), chunk, 1)
        expected = of_one(path, where)
        assert of_shards(path, where, Shards) == expected
        assert of_shards(path, where, Few) == expected


@examples(30)
@given(CHUNKS, st.integers(20, 200), st.randoms(use_true_random=True))
def test_lua_that_begins_late(chunk: int, steps: int, choose: random.Random) -> None:
    """Events before the first Lua heap, in slots that its blocks use later, do not change the lines of Lua."""

    def of_lua(found: list[dict]) -> list[dict]:
        return [row for row in found if row["file"] == "a.lua"]

    late = program(choose, steps)
    early = "".join(f"N {addr} 64\nat e@e.c:1\nL {addr} 8\nF {addr}\n" for addr in range(4096, 12288, 512))
    with tempfile.TemporaryDirectory() as folder:
        alone = make_trace(Path(folder) / "alone.ljt", late, chunk, 1)
        later = make_trace(Path(folder) / "later.ljt", early + late, chunk, 1)
        expected = of_lua(of_one(alone, None))
        assert of_lua(of_one(later, None)) == of_lua(of_shards(later, None, Shards)) == expected


def test_blocks_from_before_lua(tmp_path: Path) -> None:
    """Accesses to blocks that were alive when the first Lua heap was created count, however many blocks there
    are."""
    made = "stack m@m.c:1\n" + "".join(f"N {4096 + 64 * i} 64 1\n" for i in range(3000))
    used = "".join(f"at u@u.c:2\nL {4096 + 64 * i} 8\n" for i in range(1, 3000))
    path = make_trace(
        tmp_path / "t.ljt", made + "heap 0x77 lua\nF 4096\nN 1048576 64 1 1\n" + used + "end exit\n", 50, 1
    )
    loads = {row["file"]: row["loads"] for row in of_one(path, None)}
    assert loads == {"m.c": 0, "u.c": 2999}


@pytest.fixture(scope="module")
def lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A longer program, which has many parts."""
    return make_trace(tmp_path_factory.mktemp("lineparts") / "lua.ljt", program(random.Random(3), 6000), 60, 3)


def test_by_processes(steve: Steve, lua: Path, rich: Path) -> None:  # noqa: F811
    for path in (lua, rich):
        for more in (["--json"], ["--csv", "--where", "size >= 100 and not freed"], ["--sort", "loads"]):
            many = steve("lines", path, *more, "-j", "2")
            assert (many.returncode, many.out, many.err) == (0, run_steve("lines", str(path), *more), "")
            assert many.out.count("\n") > 5


def test_lua_lines_are_found(lua: Path) -> None:
    """The test above is meaningful: all kinds of lines are active in the program."""
    found = {(row["file"], row["line"]): row for row in json.loads(run_steve("lines", str(lua), "--json"))}
    assert all(found["@a.lua", line]["blocks_touched"] > 0 for line in range(10, 22))
    assert any(row["own_loads"] for row in found.values()) and any(row["others_stores"] for row in found.values())


def test_damaged(steve: Steve, lua: Path, tmp_path: Path) -> None:
    data = bytearray(lua.read_bytes())
    (tmp_path / "cut.ljt").write_bytes(data[: len(data) * 2 // 3])
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for name in ("cut.ljt", "bad.ljt"):
        one, many = (steve("lines", "--json", "-j", jobs, name) for jobs in ("1", "2"))
        assert one.returncode == many.returncode == 1
        assert one.err == many.err != "" and one.out == many.out != "[]\n"
