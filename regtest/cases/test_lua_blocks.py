"""test_lua_blocks - blocks of LuaJIT programs whose lines are hard to find: on traces, while a trace is
recorded, of C code that Lua calls. And no byte is lost, however the garbage collector is driven.

The results are known by the construction of the scripts, and from gc.total as the script itself reads it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import FREE, MARK, NEW, RESIZE, STATE, TYPE, TYPE_NAMES, VM_NAMES
from steve.trace._memtrace import Trace as Reader
from support import NATIVE, SOURCE, record
from test_native import natively
from test_lua_lines import PROGRAMS, compiles, events, lua_frames, script

# -- on traces --

MAKERS = ("trees.lua", "objects.lua", "strings.lua", "hashing.lua", "parsing.lua", "sorting.lua")
SCRIPTS = ("jit_allocs.lua", "jit_strings.lua", "jit_side.lua", "jit_exits.lua", "jit_flush.lua", "jit_recursion.lua")


def on_traces(path: Path) -> Counter:
    """Blocks requested while the machine ran a trace: the number with exactly that line, with any line, and
    of all."""
    counts: Counter = Counter()
    running = False
    for reader, event in events(path, (NEW, STATE)):
        if event["kind"] == STATE:
            running = VM_NAMES[event["how"] & 15] == "TRACE"
        elif running and event["heap"]:
            frames = lua_frames(reader, int(event["ref"]))
            lined = bool(frames and frames[0].line)
            counts.update(all=1, lined=lined, exact=lined and frames[0].trace > 0 and not frames[0].approximate)
    return counts


def test_what_is_made_on_traces_has_lines(tmp_path: Path) -> None:
    """All programs together: 99.9% have a line. Each is the line of the bytecode from which the call was
    recorded."""
    total: Counter = Counter()
    programs = [[SOURCE / "regtest/bench" / name, PROGRAMS[name]] for name in MAKERS]
    for program in programs + [[SOURCE / "regtest/lua" / name] for name in SCRIPTS]:
        trace = record(tmp_path / "t.ljt", ["luajit", *program], "--trace-mem=no")
        assert trace.run.status == 0, trace.run.complaint
        total += on_traces(trace.path)
    assert total["all"] > 30_000
    assert total["lined"] >= 0.999 * total["all"] and total["exact"] >= 0.999 * total["all"], total


RETURNING = """\
local function square(n)
  local rows = {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do rows[i][j] = i * j end
  end
  return rows
end
local keep = {}
for i = 1, 60 do
  keep[i] = square(12)
end
"""


def test_traces_that_return_below_their_start_keep_the_caller(tmp_path: Path) -> None:
    """A side trace that begins in the function returns from it and calls it again, where it is inlined.
    Allocations are not sunk, because tables that are allocated on both sides of an exit count."""
    trace = record(
        tmp_path / "t.ljt",
        ["luajit", "-e", "collectgarbage('stop')", "-O-sink", script(tmp_path, RETURNING)],
        "--trace-mem=no",
        "--stack-depth=40",
    )
    stacks: dict[int, int] = {}
    seen: Counter = Counter()
    for reader, event in events(trace.path, (NEW, TYPE)):
        if event["kind"] == NEW:
            stacks[int(event["handle"])] = int(event["ref"])
        elif TYPE_NAMES[event["ref"]] == "tab":
            frames = [f for f in lua_frames(reader, stacks[int(event["handle"])]) if f.file.endswith("script.lua")]
            seen[tuple(f.line for f in frames), any(f.kind == "lua-inlined" for f in frames)] += 1
    made = Counter({key: n for key, n in seen.items() if key[0][:1] in ((2,), (4,))})
    assert {lines for lines, _ in made} == {(2, 11), (4, 11)}, made
    assert made[(2, 11), False] + made[(2, 11), True] == 60 and made[(2, 11), True] > 20, made


# -- parts --

PARTS = """\
local keep, buffer = {}, require "string.buffer"
for i = 1, 21 do
  keep[i] = buffer.new()
  keep[i]:put("begun", ("text"):rep(100 + i))
end
for i = 1, 5000 do keep[i] = "unlike any other " .. i end
"""


def sizes_of_types(path: Path) -> dict[str, list[int]]:
    size: dict[int, int] = {}
    types: dict[str, list[int]] = {}
    for _, event in events(path, (NEW, TYPE)):
        if event["kind"] == NEW:
            size[int(event["handle"])] = int(event["size"])
        else:
            types.setdefault(TYPE_NAMES[event["ref"]], []).append(size[int(event["handle"])])
    return types


@pytest.mark.parametrize("jit", ["-joff", "-Ohotloop=2"])
def test_string_tables_and_buffers_have_their_types(jit: str, tmp_path: Path) -> None:
    """A string table that grows is a new block, which is not yet in its place when the old one is freed."""
    trace = record(tmp_path / "t.ljt", ["luajit", jit, script(tmp_path, PARTS)], "--trace-mem=no")
    types = sizes_of_types(trace.path)
    grown = sorted(types["strtab"])
    assert len(grown) >= 5 and all(b == 2 * a for a, b in zip(grown, grown[1:])), grown
    assert 21 <= len(types["buffer"]) <= 25, types["buffer"]


def test_what_lies_where_strings_were_is_no_string(tmp_path: Path) -> None:
    """The first text of a buffer, in a block that has the rest of a freed string of its size."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "luastale"], "--trace-mem=no")
    assert trace.run.status == 0 and int(trace.run.text) >= 40, trace.run.complaint
    assert sizes_of_types(trace.path)["buffer"].count(32) >= 40


def test_what_lies_where_tables_were_is_no_table(tmp_path: Path) -> None:
    """Blocks of buffers in which all that a freed table had is still there. The collector's list has no such table."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "luastale", "tables"], "--trace-mem=no", "--universe=at-exit")
    assert trace.run.status == 0 and int(trace.run.text) >= 40, trace.run.complaint
    assert sizes_of_types(trace.path)["buffer"].count(64) >= 40
    assert "internal bytes are not" not in trace.run.complaint, trace.run.complaint


def test_buffers_are_no_tables(tmp_path: Path) -> None:
    """The beginning of a buffer is where a table has its array. Among so many, all bytes of addresses occur
    where a table says that it is one."""
    made = "local keep, buffer = {}, require 'string.buffer'\nfor i = 1, 3000 do keep[i] = buffer.new():put('x') end\n"
    trace = record(tmp_path / "t.ljt", ["luajit", script(tmp_path, made)], "--trace-mem=no")
    assert sizes_of_types(trace.path)["buffer"].count(32) >= 3000


def test_string_tables_are_no_other_objects(tmp_path: Path) -> None:
    """They begin with pointers to strings; the addresses of some of these look like an object's header."""
    states = 201
    trace = record(
        tmp_path / "t.ljt", ["luajit", SOURCE / "regtest/native/manystates.lua", str(states - 1)], "--trace-mem=no"
    )
    types = sizes_of_types(trace.path)
    tables = Counter(types["strtab"])
    assert len([size for size, n in tables.items() if n == states]) >= 2, tables
    assert max(types["cdata"]) < min(tables)


# -- while a trace is recorded --

RECORDED = """\
local keep = {}
for i = 1, 30 do
  local t = {i}
  keep[i] = t
  keep[i + 100] = "a text " .. i
  keep[i + 200] = function() return i end
end
"""


def test_what_the_interpreter_makes_is_not_the_compilers(tmp_path: Path) -> None:
    """While the instructions of the loop are recorded, the interpreter executes each. Its tables, texts and
    functions are counted under their lines only, and the compiler's own blocks under the compiler."""
    trace = record(
        tmp_path / "t.ljt",
        ["luajit", "-Ohotloop=5", "-e", "collectgarbage('stop')", script(tmp_path, RECORDED)],
        "--trace-mem=no",
    )
    stacks, made, recording = {}, Counter(), Counter()
    state = ""
    for reader, event in events(trace.path, (NEW, TYPE, STATE)):
        if event["kind"] == STATE:
            state = VM_NAMES[event["how"] & 15]
        elif event["kind"] == NEW:
            stacks[int(event["handle"])] = int(event["ref"]), state
        elif event["heap"]:
            stack, then = stacks[int(event["handle"])]
            frames, kind = lua_frames(reader, stack), TYPE_NAMES[event["ref"]]
            if frames and frames[0].line and not compiles(reader, stack):
                made[kind, frames[0].line] += 1
                recording[kind] += then == "RECORD"
            if kind == "trace":
                assert compiles(reader, stack)
    assert (made["tab", 3], made["str", 5], made["func", 6]) == (30, 30, 30), made
    assert recording["tab"] and recording["str"], recording  # some were made then


# -- C code that Lua calls --

CALLS_C = """\
local ffi = require "ffi"
ffi.cdef "void *malloc(size_t); void free(void *);"
local function leaf(n)
  local p = ffi.C.malloc(n)
  ffi.C.free(p)
end
local function middle(n)
  leaf(n)
  local f = io.open("/dev/null")
  f:close()
end
for i = 1, 200 do
  leaf(70000 + i)
end
middle(12345)
coroutine.wrap(function() leaf(23456) end)()
"""


def joined(reader: Reader, stack: int) -> tuple[list[int], bool]:
    """Lines of the Lua functions of a stack; whether C's function is above them; and what called Lua
    below."""
    frames = reader.stack_frames(stack)
    names = [f.function for f in frames]
    lua = [i for i, f in enumerate(frames) if f.kind in ("lua", "lua-inlined")]
    below = names[lua[-1] :] if lua else []
    around = bool(below) and frames[0].kind in ("host", "inlined") and "lua_pcall" in below and "main" in below
    return [frames[i].line for i in lua], around and names.index("lua_pcall") < names.index("main")


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_blocks_of_c_have_the_lua_stack_that_asked_for_them(jit: str, tmp_path: Path) -> None:
    trace = record(
        tmp_path / "t.ljt",
        ["luajit", jit, "-Ohotloop=5", script(tmp_path, CALLS_C)],
        "--trace-mem=no",
        "--stack-depth=60",
    )
    assert trace.run.status == 0, trace.run.complaint
    news, frees, compiled, files = {}, {}, 0, 0
    for reader, event in events(trace.path, (NEW, FREE)):
        if event["heap"]:
            continue
        lines, around = joined(reader, int(event["ref"]))
        if event["kind"] == NEW and (int(event["size"]) > 70000 or event["size"] in (12345, 23456)):
            news[int(event["handle"])] = int(event["size"]), lines, around
            compiled += any(f.trace for f in lua_frames(reader, int(event["ref"])))
        elif event["kind"] == FREE and int(event["handle"]) in news:
            frees[int(event["handle"])] = lines, around
        files += event["kind"] == NEW and lines == [9, 15] and around
    assert len(news) == len(frees) == 202 and files >= 1 and (jit == "-joff") == (compiled == 0)
    for handle, (size, lines, around) in news.items():
        below = {12345: [8, 15], 23456: [16, 16]}.get(size, [13])
        assert (lines, around) == ([4, *below], True), size
        assert frees[handle] == ([5, *below], True), size


MAPS = """\
local ffi = require "ffi"
ffi.cdef "void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);"
local function leaf(n)
  local p = ffi.C.mmap(nil, n, 3, 34, -1, 0)
  ffi.C.munmap(p, n)
end
for i = 1, 200 do
  leaf(70000 + i)
end
"""


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_mappings_have_the_lua_stack_that_asked_for_them(jit: str, tmp_path: Path) -> None:
    trace = record(
        tmp_path / "t.ljt",
        ["luajit", jit, "-Ohotloop=5", script(tmp_path, MAPS)],
        "--trace-mem=no",
        "--stack-depth=60",
        "--heap=malloc,luajit,mmap",
        "--check-stacks=yes",
    )
    assert trace.run.status == 0, trace.run.complaint
    news, freed = {}, 0
    for reader, event in events(trace.path, (NEW, FREE)):
        lines, around = joined(reader, int(event["ref"]))
        if event["kind"] == NEW and 70000 < event["size"] <= 70200:
            news[int(event["handle"])] = lines, around
        elif event["kind"] == FREE and int(event["handle"]) in news:
            assert (lines, around) == ([5, 8], True)
            freed += 1
    assert len(news) == freed == 200 and set(map(str, news.values())) == {"([4, 8], True)"}


# -- the collector, driven by hand --

DRIVEN = """\
local ljtrace = require "ljtrace"
local mark, count = ljtrace.mark, collectgarbage
local before, after, n, keep, made = {}, {}, 0, {}, 0
for i = 1, 400 do before[i], after[i] = 0, 0 end
mark("the first call finds the function")
local function check()
  n = n + 1
  before[n] = count("count")
  mark("here")
  after[n] = count("count")
end
local function work(rounds)
  for i = 1, rounds do
    made = made + 1
    keep[made % 50] = {made, tostring(made), function() return made end}
    if made % 20 == 0 then keep[made % 50] = coroutine.wrap(function() coroutine.yield(keep) end) keep[made % 50]() end
  end
end
check()
collectgarbage("stop")
for _ = 1, 20 do work(30) check() end                                            -- nothing is collected
for _ = 1, 60 do collectgarbage("step") work(3) check() end                      -- step after step
for _ = 1, 20 do collectgarbage("step", 20) collectgarbage("stop") check() end   -- larger ones
for generation = 1, 8 do                                                         -- as generations would be
  collectgarbage("stop")
  work(40)
  check()
  repeat check() until collectgarbage("step", 10) or n > 300
  collectgarbage("restart")
  work(40)
  check()
end
collectgarbage("setpause", 110) collectgarbage("setstepmul", 1000)
for _ = 1, 20 do work(50) check() end
collectgarbage() check()
keep = nil
collectgarbage() collectgarbage() check()
for i = 1, n do print(string.format("%d %d", before[i] * 1024, after[i] * 1024)) end
"""


@pytest.mark.parametrize("native", [False, True], ids=["valgrind", "native"])
@pytest.mark.parametrize("options", [["-joff"], ["-Ohotloop=5"], ["-O-sink"]], ids=" ".join)
def test_live_blocks_are_gc_total_however_the_collector_is_driven(
    options: list[str], native: bool, tmp_path: Path
) -> None:
    program = ["luajit", *options, script(tmp_path, DRIVEN)]
    path = tmp_path / "t.ljt"
    trace = natively(path, program) if native else record(path, program, "--trace-mem=no")
    assert trace.run.status == 0, trace.run.complaint
    live: dict[int, int] = {}
    sums = []
    for reader, event in events(trace.path, (NEW, FREE, RESIZE, MARK)):
        handle, kind = int(event["handle"]), event["kind"]
        if kind == MARK and reader.string(int(event["ref"])) == "here":
            sums.append(sum(live.values()))
        elif kind == FREE:
            live.pop(handle, None)
        elif kind == NEW and event["heap"] or kind == RESIZE and handle in live:
            live[handle] = int(event["size"])
    pairs = [tuple(map(int, line.split())) for line in trace.run.text.splitlines()]
    assert len(sums) == len(pairs)
    # `mark` is Lua: once it is hot, the compiler allocates in the middle of it
    shown, truth = zip(*((total, before) for total, (before, after) in zip(sums, pairs) if before == after))
    assert shown == truth and len(truth) > 130
    assert any(b < a for a, b in zip(truth, truth[1:])) and any(b > a for a, b in zip(truth, truth[1:]))
