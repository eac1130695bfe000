"""test_lua_lines - allocations, accesses and states of LuaJIT programs, assigned to Lua lines and functions.

They are compared with scripts whose counts per line are known by construction, and with the same script with
the JIT off, where every line comes from the interpreter's own frames.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from steve.trace._memtrace import LOAD, MODIFY, NEW, STATE, TYPE, TYPE_NAMES, VM_NAMES, Frame
from steve.trace._memtrace import Trace as Reader
from support import SOURCE, record, steve

LUA_KINDS = ("lua", "lua-inlined")


def events(path: Path, kinds: tuple[int, ...]):
    """(reader, event) of these kinds."""
    reader = Reader(str(path))
    for batch in reader.batches():
        for event in batch[np.isin(batch["kind"], kinds)]:
            yield reader, event


def access_lines(path: Path) -> Counter:
    """Loads and modifies of Lua code by its line."""
    reader, counts = Reader(str(path)), Counter()
    for batch in reader.batches():
        sites, numbers = np.unique(batch["ref"][np.isin(batch["kind"], (LOAD, MODIFY))], return_counts=True)
        for site, number in zip(sites.tolist(), numbers.tolist()):
            frame = reader.frame(reader.site(site).frame)
            if frame.kind in LUA_KINDS:
                counts[frame.line] += number
    return counts


def lua_frames(reader: Reader, stack: int) -> list[Frame]:
    return [f for f in reader.stack_frames(stack) if f.kind in LUA_KINDS]


def script(folder: Path, text: str) -> Path:
    path = folder / "script.lua"
    path.write_text(text)
    return path


KNOWN = """\
local keep = {}
local function pair(i) return {i, i} end          -- a tail of callers
local Class = {}
Class.__index = function(t, k) return {k} end
function Class.method(self, n)
  for i = 1, n do
    keep[i % 7 + 1] = pair(i)
  end
end
local object = setmetatable({}, Class)
Class.method(object, 50)
for i = 1, 40 do keep[9] = object.missing end
for i = 1, 30 do keep[10] = string.rep("r", i + 100) end
local routine = coroutine.wrap(function()
  for i = 1, 20 do
    keep[11] = {i}
    coroutine.yield()
  end
end)
for i = 1, 20 do routine() end
for i = 1, 10 do pcall(function() keep[12] = {}; error(keep) end) end
local function vararg(...) keep[13] = {...} return select("#", ...) end
for i = 1, 25 do vararg(i, i) end
"""

# what KNOWN makes, by (type, line)
EXPECTED = {
    ("tab", 2): 50,
    ("tab", 4): 40,
    ("str", 13): 30,
    ("tab", 16): 20,
    ("tab", 21): 10,
    ("func", 21): 10,
    ("tab", 22): 25,
    ("thread", 14): 1,
    ("func", 2): 1,
}


def typed_lines(path: Path) -> Counter:
    """News of Lua heaps by (type, line of the innermost Lua function)."""
    counts: Counter = Counter()
    stacks: dict[int, int] = {}
    for reader, event in events(path, (NEW, TYPE)):
        if event["kind"] == NEW:
            stacks[int(event["handle"])] = int(event["ref"])
        else:
            frames = lua_frames(reader, stacks[int(event["handle"])])
            counts[TYPE_NAMES[event["ref"]], frames[0].line if frames else None] += 1
    return counts


def test_interpreter_lines_are_exact(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, KNOWN)], "--trace-mem=no")
    seen = typed_lines(trace.path)
    assert {key: seen[key] for key in EXPECTED} == EXPECTED


def test_stacks_join_lua_and_c(tmp_path: Path) -> None:
    trace = record(
        tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, KNOWN)], "--trace-mem=no", "--stack-depth=40"
    )
    found = set()
    for reader, event in events(trace.path, (NEW,)):
        frames = lua_frames(reader, int(event["ref"]))
        if [f.line for f in frames] == [2, 7, 11]:
            assert [f.function for f in frames][:2] == ["pair", "method"]
            assert [f.defined for f in frames][:2] == [2, 5]
            assert not any(f.approximate for f in frames)
            names = [f.function for f in reader.stack_frames(int(event["ref"]))]
            assert names.index("method") < names.index("lua_pcall") < names.index("main")
            found.add("method")
        if frames and frames[0].line == 13:
            kinds = [(f.kind, f.function) for f in reader.stack_frames(int(event["ref"]))]
            assert ("fast", "rep") in kinds
            found.add("rep")
    assert found == {"method", "rep"}


METHODS = """\
local keep, m = {}, {}
m.__add = function() return {1} end
m.__concat = function() return {2} end
m.__div = function() return {3} end
m.__unm = function() return {4} end
m.__lt = function() keep[1] = {5} return true end
m.__eq = function() keep[1] = {6} return true end
m.__index = function(t, k) return {7} end
m.__newindex = function(t, k, v) keep[1] = {8} end
m.__le = function() keep[1] = {9} return true end
m.__pow = function() return {10} end
m.__mod = function() return {11} end
local a, b = setmetatable({}, m), setmetatable({}, m)
for i = 1, 9 do
  keep[2], keep[3], keep[4], keep[5], keep[6] = a + i, a .. b, a / b, -a, a < b
  keep[7], keep[8] = a == b, a.x
  a.y, keep[9] = i, a <= b
  keep[10], keep[11] = a ^ 2, 5 % a
end
table.move({1, 2, 3, 4}, 1, 4, 100, keep)
"""
METAMETHODS = {
    2: "__add",
    3: "__concat",
    4: "__div",
    5: "__unm",
    6: "__lt",
    7: "__eq",
    8: "__index",
    9: "__newindex",
    10: "__le",
    11: "__pow",
    12: "__mod",
}


@pytest.mark.parametrize("option", ["-joff", "-Ohotloop=2"])
def test_functions_have_luas_names(option: str, tmp_path: Path) -> None:
    """Metamethods have no name at their calls; a library function that consists of bytecode is not a main
    chunk."""
    trace = record(tmp_path / "t.ljt", ["luajit", option, script(tmp_path, METHODS)], "--trace-mem=no")
    names, built_in = {}, set()
    for reader, event in events(trace.path, (NEW,)):
        frames = lua_frames(reader, int(event["ref"]))
        if len(frames) > 1 and frames[0].line in METAMETHODS:
            names[frames[0].line] = frames[0].function
        built_in |= {(f.file, f.function, frames[1].line) for f in frames[:1] if not f.line and len(frames) > 1}
    assert names == METAMETHODS
    assert built_in == {("[builtin:move]", "move", 20)}


PROGRAMS = {
    "trees.lua": "10",
    "objects.lua": "60",
    "closures.lua": "4000",
    "coroutines.lua": "8000",
    "strings.lua": "4",
    "hashing.lua": "4000",
    "parsing.lua": "300",
    "sorting.lua": "3000",
    "tables.lua": "320",
    "cdata.lua": "40",
}


def compiles(reader: Reader, stack: int) -> bool:
    return any(f.kind == "vm" and f.function == "JIT compiler" for f in reader.stack_frames(stack))


def line_and_compiles(reader: Reader, stack: int) -> tuple[int | None, bool]:
    frames = lua_frames(reader, stack)
    return frames[0].line if frames else None, compiles(reader, stack)


def lines(path: Path) -> Counter:
    """News by line, without the JIT's own. While it records, the interpreter executes the same instructions
    and allocates what the program requests, which counts."""
    reader = Reader(str(path))
    places: dict[int, tuple[int | None, bool]] = {}  # by stack
    stacks: dict[int, int] = {}
    types: dict[int, int] = {}
    for batch in reader.batches():
        news, typed = batch[(batch["kind"] == NEW) & (batch["heap"] != 0)], batch[batch["kind"] == TYPE]
        for stack in set(news["ref"].tolist()) - places.keys():
            places[stack] = line_and_compiles(reader, stack)
        stacks.update(zip(news["handle"].tolist(), news["ref"].tolist()))
        types.update(zip(typed["handle"].tolist(), typed["ref"].tolist()))
    own = {True: ("jit", "trace", "buffer", "other", "unknown"), False: ("jit", "trace")}
    counts: Counter = Counter()
    for (stack, kind), number in Counter((stack, types.get(block)) for block, stack in stacks.items()).items():
        line, compiling = places[stack]
        if ("unknown" if kind is None else TYPE_NAMES[kind]) not in own[compiling]:
            counts[line] += number
    return counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_with_the_jit_equal_those_without(name: str, tmp_path: Path) -> None:
    """Allocations are not sunk (-O-sink), and nothing is collected, so that the same number is made: a live
    string is not made again."""

    def run(option: str) -> Counter:
        program = ["luajit", "-e", "collectgarbage('stop')", option, SOURCE / "regtest/bench" / name, PROGRAMS[name]]
        return lines(record(tmp_path / "t.ljt", program, "--trace-mem=no").path)

    with_jit, without = run("-O-sink"), run("-joff")
    both = sum(min(with_jit[line], without[line]) for line in without)
    assert without.total() > 600
    share = both / max(with_jit.total(), without.total())
    assert share >= 0.99, f"{share:.4f}, (line, with, without): " + str(
        sorted(((x, with_jit[x], without[x]) for x in with_jit | without), key=lambda d: -abs(d[1] - d[2]))[:6]
    )


INLINED = """\
local concat, keep = table.concat, {}
local function list(parts)
  return "[" .. concat(parts, ",") .. "]"
end
for i = 1, 2000 do
  keep[i] = "<" .. list({i, i}) .. (", %s>"):rep(2)
end
for i = 1, 2000 do
  local name = tostring(i + 0.5)
  keep[i] = name .. (i + 0.25)
end
"""


def test_strings_of_builtin_functions_have_their_lines_on_traces(tmp_path: Path) -> None:
    """Two strings per round on line 3, one on lines 6 and 10, and on line 9 in the interpreter only: on the
    trace the number is put into the buffer of line 10. The first calls of a trace may be assigned to another
    line."""
    trace = record(
        tmp_path / "t.ljt", ["luajit", "-e", "collectgarbage('stop')", script(tmp_path, INLINED)], "--trace-mem=no"
    )
    counts = typed_lines(trace.path)
    expected = {3: 4000, 6: 2000, 10: 2000}
    found = {line: counts["str", line] for line in (*expected, 9)}
    assert all(abs(found[line] - expected[line]) <= 40 for line in expected), found
    assert found[9] <= 200, found


def test_every_lua_block_has_a_type(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["luajit", script(tmp_path, KNOWN)], "--trace-mem=no")
    types: dict[int, str] = {}
    news = set()
    for _, event in events(trace.path, (NEW, TYPE)):
        if event["heap"] and event["kind"] == NEW:
            news.add(int(event["handle"]))
        elif event["kind"] == TYPE:
            assert int(event["handle"]) not in types
            types[int(event["handle"])] = TYPE_NAMES[event["ref"]]
    counts = Counter(types.values())
    assert len(news - types.keys()) <= 1  # the last block made, if nothing came after it
    assert counts["global"] == 1
    assert counts["other"] <= 0.02 * len(news)
    assert counts["thread"] == 1 and counts["stack"] == 2
    assert counts["tab"] >= 50 + 40 + 20 + 10 + 25


def test_states_are_told_and_follow_one_another(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["luajit", SOURCE / "regtest/bench/trees.lua", "8"], "--trace-mem=no")
    last, seen, time = None, Counter(), 0
    for _, event in events(trace.path, (STATE,)):
        state = (VM_NAMES[event["how"] & 15], int(event["ref"]))
        assert state != last
        assert event["time"] >= time
        last, time = state, int(event["time"])
        seen[state[0]] += 1
    assert {"INTERP", "C", "GC", "RECORD", "ASM", "TRACE"} <= seen.keys()


ACCESSES = """\
local t = {}
for i = 1, 1000 do t[i] = i end
local function sum()
  local s = 0
  for i = 1, 1000 do
    s = s + t[i]
  end
  return s
end
for i = 1, 100 do sum() end
"""


def roots_beside_main(path: Path) -> list[str]:
    """The stacks that don't begin at the program's main, nor in the code that runs before and after it."""
    folded = steve("export", "--format=folded", path, "-o", "-").text.splitlines()
    outside = ("main;", "(below main)", "_dl_start", "_start", "[cut at ")
    assert any(stack.startswith("main;") for stack in folded)
    return [stack for stack in folded if not stack.startswith(outside)]


@pytest.mark.parametrize("name", ["jit_recursion", "json"])
def test_stacks_at_trace_exits_begin_at_main(name: str, tmp_path: Path) -> None:
    """What the compiler allocates for a side trace, below an exit of another trace."""
    trace = record(tmp_path / "t.ljt", ["luajit", SOURCE / f"regtest/lua/{name}.lua"], "--trace-mem=no").check()
    assert not roots_beside_main(trace.path)


def test_accesses_of_traces_have_lines(tmp_path: Path) -> None:
    """Each round loads at least one element of the table."""
    counts = access_lines(record(tmp_path / "t.ljt", ["luajit", script(tmp_path, ACCESSES)]).path)
    assert 90 * 1000 <= counts[6] <= 3 * 100 * 1000
    assert counts[6] > 0.9 * counts.total()


def test_bytecode_loads_tell_lines_in_the_interpreter(tmp_path: Path) -> None:
    """Each instruction of line 6 is loaded once per round."""
    trace = record(tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, ACCESSES)])
    reader = Reader(str(trace.path))
    reader.skim()
    protos = {p.handle: p for p in map(reader.proto, range(reader.counts()["protos"]))}
    loads: Counter = Counter()
    for batch in Reader(str(trace.path)).batches():
        words = batch[(batch["kind"] == LOAD) & (batch["size"] == 4) & np.isin(batch["handle"], [*protos])]
        places, numbers = np.unique(words[["handle", "offset"]], return_counts=True)
        for (handle, offset), number in zip(places.tolist(), numbers.tolist()):
            proto = protos[handle]
            if offset >= proto.offset:
                loads[proto.lines[(offset - proto.offset) // 4]] += number
    assert loads[6] % 100_000 == 0 and loads[6] >= 2 * 100_000
    assert loads[2] == 2 * 1000 + 4  # the loop is set up by four instructions
