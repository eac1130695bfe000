"""test_lua_states - `steve states`: sums that add up on many programs, every transition, each at its
instruction.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import SAMPLE, STATE
from support import NATIVE, SOURCE, record, steve
from test_lua_lines import KNOWN, events, script
from test_lua_places import FORKS, SHARED, child_of

BENCH = SOURCE / "regtest/bench"
PROGRAMS = {
    "trees": (BENCH / "trees.lua", "6"),
    "closures": (BENCH / "closures.lua", "1000"),
    "coroutines": (BENCH / "coroutines.lua", "2000"),
    "strings": (BENCH / "strings.lua", "1"),
    "objects": (BENCH / "objects.lua", "20"),
    "cdata": (BENCH / "cdata.lua", "20"),
    "parsing": (BENCH / "parsing.lua", "40"),
}
SUMS = {
    "allocs": ("blocks", "total"),
    "alloc_bytes": ("bytes", "allocated"),
    "frees": ("events", "free"),
    "free_bytes": ("bytes", "freed"),
    "loads": ("events", "load"),
    "stores": ("events", "store"),
    "modifies": ("events", "modify"),
    "bytes_read": ("bytes", "read"),
    "bytes_written": ("bytes", "written"),
}


def states(path: Path) -> list[dict]:
    return json.loads(steve("states", path, "--json").text)


def check_sums(path: Path) -> None:
    """Every part of the trace is in exactly one state."""
    rows, total = states(path), json.loads(steve("summary", path, "--json").text)
    assert sum(row["instructions"] for row in rows) == total["instructions"]
    for key, (group, name) in SUMS.items():
        values = [row[key] for row in rows]
        if None in values:  # accesses that were not recorded
            assert set(values) == {None} and total[group][name] is None, key
        else:
            assert sum(values) == total[group][name], key
    assert len({row["state"] for row in rows}) >= 3


@pytest.mark.parametrize("mem", ["yes", "no"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_of_programs(name: str, mem: str, tmp_path: Path) -> None:
    check_sums(record(tmp_path / "t.ljt", ["luajit", *PROGRAMS[name]], f"--trace-mem={mem}").path)


def test_sums_of_several_states_and_threads(tmp_path: Path) -> None:
    check_sums(record(tmp_path / "a.ljt", [NATIVE / "luahost", "sums"]).path)
    check_sums(record(tmp_path / "b.ljt", [NATIVE / "luaplaces", "shared", script(tmp_path, SHARED)]).path)


def test_sums_of_both_sides_of_a_fork(tmp_path: Path) -> None:
    parent = record(tmp_path / "t.ljt", ["luajit", script(tmp_path, FORKS)])
    check_sums(parent.path)
    check_sums(child_of(parent.path))


CALLS = """\
local n, clock = tonumber(arg[1]), os.clock
for i = 1, n do
  clock()
end
"""


def summed(path: Path, column: str) -> Counter:
    counts: Counter = Counter()
    for row in states(path):
        counts[row["state"]] += row[column]
    return counts


@pytest.mark.parametrize("mem", ["yes", "no"])
def test_every_transition(mem: str, tmp_path: Path) -> None:
    """A call of a C function changes to state C and back."""
    entries = [
        summed(
            record(tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, CALLS), n], f"--trace-mem={mem}").path,
            "entries",
        )
        for n in (1000, 3000)
    ]
    assert entries[1]["C"] - entries[0]["C"] == entries[1]["INTERP"] - entries[0]["INTERP"] == 2000


@pytest.mark.parametrize("mem", ["yes", "no"])
def test_transitions_are_at_their_instruction(mem: str, tmp_path: Path) -> None:
    """The same program in superblocks of one instruction each, so that no change is late. VEX must not run
    both sides of some branches (`chase`), which would be counted."""

    def instructions(option: str) -> Counter:
        argv = ["luajit", "-joff", script(tmp_path, CALLS), 5000]
        return summed(record(tmp_path / "t.ljt", argv, option, f"--trace-mem={mem}").path, "instructions")

    blocks, single = instructions("--vex-guest-chase=no"), instructions("--vex-guest-max-insns=1")
    assert single["INTERP"] > 5000 * 10
    for state in ("INTERP", "C"):
        assert abs(blocks[state] - single[state]) <= 0.01 * single[state]


def test_known_script(tmp_path: Path) -> None:
    check_sums(record(tmp_path / "t.ljt", ["luajit", "-Ohotloop=3", script(tmp_path, KNOWN)]).path)


# What leaves the state by other ways than it came.
ODD = {
    "errors": """\
local function throw(i) if i % 3 == 0 then error("x") end return i end
for i = 1, 300 do
  local co = coroutine.create(function() local t = {i}; coroutine.yield(#t); return throw(i) end)
  coroutine.resume(co)
  coroutine.resume(co)
  pcall(throw, i)
  xpcall(throw, function(m) return debug.traceback(m) end, i)
end
local co = coroutine.wrap(function()
  for i = 1, 300 do pcall(function() coroutine.yield(i); throw(i) end) end
end)
for i = 1, 300 do co() end
""",
    "hooks": """\
local n = 0
debug.sethook(function() n = n + 1 end, "l")
for i = 1, 300 do n = n + i % 7 end
debug.sethook(function() n = n + 1 end, "", 100)
for i = 1, 3000 do n = n + i % 5 end
debug.sethook()
for i = 1, 3000 do n = n + i % 5 end
""",
    "callbacks": """\
local ffi = require "ffi"
ffi.cdef "void qsort(void *, size_t, size_t, int (*)(const int *, const int *)); int abs(int);"
local compare = ffi.cast("int (*)(const int *, const int *)",
                         function(a, b) return ffi.C.abs(a[0]) - ffi.C.abs(b[0]) end)
local a = ffi.new("int[16]")
for round = 1, 60 do
  for i = 0, 15 do a[i] = (i * 37 + round) % 16 end
  ffi.C.qsort(a, 16, 4, compare)
end
""",
    "flushes": """\
local sum = 0
local function f(n)
  for i = 1, n do
    sum = sum + i % 3
    if i == n - 5 then jit.flush() end
  end
end
for i = 1, 40 do
  f(200)
  if i == 20 then jit.off() elseif i == 30 then jit.on() end
end
for i = 1, 20 do
  jit.off(f)
  f(100)
  jit.on(f)
end
""",
}


@pytest.mark.parametrize("mem", ["yes", "no"])
@pytest.mark.parametrize("name", ODD)
def test_samples_find_the_state_that_was_recorded(name: str, mem: str, tmp_path: Path) -> None:
    """A sample has the state that the machine has in memory, although no event reported it."""
    argv = ["luajit", "-Ohotloop=5", script(tmp_path, ODD[name])]
    path = record(tmp_path / "t.ljt", argv, f"--trace-mem={mem}", "--sample-stacks=1000").path
    recorded, found = {}, Counter()
    for _, event in events(path, (STATE, SAMPLE)):
        heap = int(event["heap"])
        if event["kind"] == STATE:
            recorded[heap] = int(event["how"])
        elif heap in recorded:
            found[recorded[heap] == int(event["how"])] += 1
    assert found[True] > 100 and not found[False]
    check_sums(path)
