"""test_lua_places - Lua lines where they are hard to find: under deep C stacks, in the parser, in the JIT
compiler, in states that share an allocator, after a fork; and a LuaJIT whose layout is not known.

The expected values are the construction of the scripts and what LuaJIT itself says it holds.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import FREE, LOAD, MARK, NEW, RESIZE, STATE, TYPE, TYPE_NAMES
from steve.trace._memtrace import Trace as Reader
from support import NATIVE, SOURCE, Trace, record, settled, steve, wait_for
from test_lua_lines import KNOWN, events, lua_frames, script, typed_lines

# -- deep stacks --

DEEP = """\
local keep = {}
for i = 1, 10 do
  keep[i] = deep(40)
end
for i = 11, 20 do
  keep[i] = deep(40, function()
    return {i}
  end)
end
"""


@pytest.mark.parametrize("depth", [1, 2, 3, 12, 45, 60, 150])
def test_no_stack_is_too_deep_for_the_line(depth: int, tmp_path: Path) -> None:
    trace = record(
        tmp_path / "t.ljt",
        [NATIVE / "luaplaces", "deep", script(tmp_path, DEEP)],
        "--trace-mem=no",
        f"--stack-depth={depth}",
    )
    assert trace.run.status == 0, trace.run.complaint
    seen = typed_lines(trace.path)
    assert (seen["tab", 3], seen["tab", 7], seen["func", 8]) == (10, 10, 10)
    stacks = (reader.stack_frames(int(event["ref"])) for reader, event in events(trace.path, (NEW,)))
    assert max(sum(f.kind not in ("inlined", "cut") for f in frames) for frames in stacks) <= depth


def test_what_the_calibration_takes_is_no_freed_memory(tmp_path: Path) -> None:
    """Its blocks are not the program's, and are at addresses where the program's were before."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "luaplaces", "deep", script(tmp_path, DEEP)])
    assert trace.run.status == 0, trace.run.complaint
    assert json.loads(steve("findings", "--json", "--rules", "errors", trace.path).text) == []


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_without_stacks_there_is_still_the_line(jit: str, tmp_path: Path) -> None:
    """--stack-depth=0: of Lua only the innermost line is recorded, of C nothing."""
    program = ["luajit", jit, "-Ohotloop=5", script(tmp_path, KNOWN)]
    none = record(tmp_path / "t.ljt", program, "--stack-depth=0", "--check-stacks=yes")
    assert none.run.status == 0, none.run.complaint
    stacks = [reader.stack_frames(int(event["ref"])) for reader, event in events(none.path, (NEW,))]
    assert {len(frames) for frames in stacks} == {0, 1}
    assert {frames[0].kind for frames in stacks if frames} <= {"lua", "lua-inlined", "vm"}
    assert typed_lines(none.path)["tab", 2] == 50


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_lines_do_not_depend_on_the_depth(jit: str, tmp_path: Path) -> None:
    """Nor do blocks of traces, whose machine code is called by the C frames that allocate."""

    def lines_at(depth: int) -> Counter:
        program = ["luajit", jit, "-Ohotloop=5", script(tmp_path, KNOWN)]
        return typed_lines(record(tmp_path / "t.ljt", program, "--trace-mem=no", f"--stack-depth={depth}").path)

    shallow, deep = lines_at(1), lines_at(100)
    assert shallow == deep and shallow["tab", 2] == 50


# -- the parser --

CHUNK = """\
local first = "a string of line 1"
local second =
  "a string of line 3"

local function outer(x)
  local function inner(y)
    return y .. "a string of line 7"
  end
  return inner(x),
    function() return "a string of line 10" end
end
local t = {
  "a string of line 13", key_of_line_13 = 1,
  [[a string
of line 15]],
}
return outer, t, first, second
"""
# (type, line) by construction: texts and names at their lines, prototypes at the end of their functions
COMPILED = {
    ("str", 1): 1,
    ("str", 3): 1,
    ("str", 7): 1,
    ("str", 10): 1,
    ("str", 13): 2,
    ("str", 15): 1,
    ("proto", 8): 1,
    ("proto", 10): 1,
    ("proto", 11): 1,
    ("proto", 18): 1,
}
LOADERS = {
    "load": "local f = load(io.open(arg[1]):read('*a'), '@chunk.lua')",
    "dofile": "dofile(arg[1])",
    "reader": "local s = io.open(arg[1]):read('*a') local n = 0\n"
    "local f = load(function() n = n + 1; local piece = s:sub(n * 7 - 6, n * 7) return piece end, '@chunk.lua')",
    "coroutine": "coroutine.wrap(function() loadfile(arg[1])() end)()",
    "require": "package.path = arg[1]:gsub('chunk.lua', '?.lua') require 'chunk'",
}


def compiled(path: Path, ending: str = "chunk.lua") -> Counter:
    """Blocks by (type, line) that the parser allocated for a chunk."""
    counts: Counter = Counter()
    stacks: dict[int, int] = {}
    for reader, event in events(path, (NEW, TYPE)):
        if event["kind"] == NEW:
            stacks[int(event["handle"])] = int(event["ref"])
            continue
        frames = reader.stack_frames(stacks[int(event["handle"])])
        parser = next((f for f in frames if f.kind in ("lua", "lua-inlined", "vm") and f.line), None)
        if parser and parser.kind == "vm" and parser.function == "parser" and parser.file.endswith(ending):
            counts[TYPE_NAMES[event["ref"]], parser.line] += 1
    return counts


@pytest.mark.parametrize("how", LOADERS)
def test_what_the_parser_makes_is_at_the_line_it_compiles(how: str, tmp_path: Path) -> None:
    """Texts that occur for the first time, and prototypes; names may exist already."""
    (tmp_path / "chunk.lua").write_text(CHUNK)
    trace = record(
        tmp_path / "t.ljt",
        ["luajit", "-joff", script(tmp_path, LOADERS[how]), tmp_path / "chunk.lua"],
        "--trace-mem=no",
    )
    assert trace.run.status == 0, trace.run.complaint
    seen = compiled(trace.path)
    for key, least in COMPILED.items():
        assert seen[key] == least or key[0] == "str" and key[1] in (1, 3) and least <= seen[key] <= 3, (key, seen)
    assert {line for _, line in seen} <= set(range(1, 19))
    assert sum(n for (kind, _), n in seen.items() if kind == "proto") == 4


def test_the_call_that_loads_stands_below_the_parser(tmp_path: Path) -> None:
    (tmp_path / "chunk.lua").write_text(CHUNK)
    text = "local function loads(name)\n  local f = loadfile(name)\n  return f\nend\nlocal f = loads(arg[1])\n"
    trace = record(
        tmp_path / "t.ljt",
        ["luajit", script(tmp_path, text), tmp_path / "chunk.lua"],
        "--trace-mem=no",
        "--stack-depth=60",
    )
    found = 0
    for reader, event in events(trace.path, (NEW,)):
        frames = reader.stack_frames(int(event["ref"]))
        names = [f.function for f in frames]
        if "parser" in names and frames[names.index("parser")].file.endswith("chunk.lua"):
            assert [f.line for f in lua_frames(reader, int(event["ref"]))] == [2, 5]
            assert names.index("parser") < names.index("lua_loadx") < names.index("loads") < names.index("lua_pcall")
            found += 1
    assert found > 15


def test_an_error_ends_the_parser(tmp_path: Path) -> None:
    """What follows a chunk that does not compile is not assigned to the parser."""
    text = "for i = 1, 20 do\n  local f, why = load('x = \\n\\n= 1', '=bad')\n  keep = {i}\nend\n"
    trace = record(tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, text)], "--trace-mem=no")
    assert compiled(trace.path, "bad")["tab", 1] == 20  # that of its constants
    assert typed_lines(trace.path)["tab", 3] == 20


def test_the_compiler_of_traces_works_for_a_line(tmp_path: Path) -> None:
    """All allocations of the JIT compiler have the line that it records, or recorded last."""
    trace = record(tmp_path / "t.ljt", ["luajit", SOURCE / "regtest/bench/objects.lua", "40"], "--trace-mem=no")
    lined = bare = 0
    for reader, event in events(trace.path, (NEW,)):
        if any(f.function == "JIT compiler" for f in reader.stack_frames(int(event["ref"]))):
            frames = lua_frames(reader, int(event["ref"]))
            lined, bare = lined + bool(frames and frames[0].line), bare + (not frames or not frames[0].line)
    assert lined >= 5 and bare == 0


# -- a layout that is not known --


def live_bytes_at_marks(path: Path) -> list[tuple[int, int]]:
    """(the program's own figure of what its states hold, sum of the live blocks of Lua heaps) at each mark
    `sum N`."""
    live: dict[int, int] = {}
    sums = []
    for reader, event in events(path, (NEW, FREE, RESIZE, MARK)):
        handle, kind = int(event["handle"]), event["kind"]
        if kind == MARK and reader.string(int(event["ref"])).startswith("sum "):
            sums.append((int(reader.string(int(event["ref"])).split()[1]), sum(live.values())))
        elif kind == FREE:
            live.pop(handle, None)
        elif kind == NEW and event["heap"] or kind == RESIZE and handle in live:
            live[handle] = int(event["size"])
    return sums


def layout_messages(trace: Trace) -> list[str]:
    return [line for line in trace.run.complaint.splitlines() if "the layout of the LuaJIT in" in line]


def test_an_unknown_layout_is_said_once_and_harms_nothing(tmp_path: Path) -> None:
    """All blocks and sums are recorded, those of C, too; no line, type or state is invented."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "oddlua", script(tmp_path, KNOWN)])
    assert trace.run.status == 0, trace.run.complaint
    assert len(layout_messages(trace)) == 1 and "a situation of the script: did not occur" in trace.run.complaint
    sums = live_bytes_at_marks(trace.path)
    assert len(sums) == 1 and sums[0][0] == sums[0][1] > 20_000
    reader = Reader(str(trace.path))
    reader.skim()
    assert reader.counts()["protos"] == reader.counts()["traces"] == 0
    kinds, sizes = Counter(), Counter()
    for reader, event in events(trace.path, (NEW, TYPE)):
        kinds.update(["type"] if event["kind"] == TYPE else [f.kind for f in reader.stack_frames(int(event["ref"]))])
        sizes[int(event["size"])] += event["kind"] == NEW and not event["heap"]
    assert set(kinds) <= {"host", "inlined"} and sizes[7001] == 1


# -- states that share an allocator and its pointer --

SHARED = """\
local name, keep = ..., {}
if name == "main" then
  for i = 1, 30 do
    keep[i] = {i}
    if i % 10 == 0 then inner() end
    keep[i + 30] = "a text of main " .. i
  end
elseif name == "inner" then
  for i = 1, 20 do
    keep[i] = {i}
  end
else
  for i = 1, 500 do
    keep[i] = {i}
  end
end
"""


def test_states_that_share_an_allocator_have_lines(tmp_path: Path) -> None:
    trace = record(
        tmp_path / "t.ljt",
        [NATIVE / "luaplaces", "shared", script(tmp_path, SHARED)],
        "--trace-mem=no",
        "--stack-depth=60",
    )
    assert trace.run.status == 0, trace.run.complaint
    assert len({int(event["heap"]) for _, event in events(trace.path, (NEW,)) if event["heap"]}) == 5
    seen = typed_lines(trace.path)
    assert (seen["tab", 4], seen["str", 6], seen["tab", 10], seen["tab", 14]) == (30, 30, 3 * 20, 500)
    assert sum(n for (kind, _), n in seen.items() if kind == "global") == 5
    ((truth, live),) = live_bytes_at_marks(trace.path)
    assert live == truth


# -- forks --

FORKS = """\
local ffi = require "ffi"
ffi.cdef "int fork(void); int waitpid(int, int *, int);"
local t = {}
for i = 1, 200 do t[i] = {i} end
local function sum()
  local s = 0
  for i = 1, 200 do
    s = s + t[i][1]
  end
  return s
end
sum()
local child = ffi.C.fork()
for i = 1, 50 do sum() end
if child ~= 0 then ffi.C.waitpid(child, nil, 0) end
"""


def types_by_address(path: Path, until_inherited: bool) -> dict[int, str]:
    """Types of the live blocks at the end or, for a forked child, at its beginning."""
    types: dict[int, str] = {}
    for _, event in events(path, (NEW, FREE, RESIZE, TYPE, LOAD)):
        if until_inherited and event["kind"] in (LOAD, FREE, RESIZE):
            break
        if event["kind"] == TYPE:
            types[int(event["addr"])] = TYPE_NAMES[event["ref"]]
        elif event["kind"] == FREE:
            types.pop(int(event["addr"]), None)
    return types


def child_of(parent: Path) -> Path:
    """The trace of the only child, after its collector has ended."""

    def children() -> list[Path]:
        return [path for path in parent.parent.glob(f"{parent.stem}.*.ljt")]

    wait_for(children, "there is a trace of the child")
    (path,) = children()
    settled(path)
    return path


def test_a_forked_child_knows_types_lines_and_states(tmp_path: Path) -> None:
    """Its functions and blocks were made before its trace begins."""
    parent = record(tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, FORKS)])
    assert parent.run.status == 0, parent.run.complaint
    child = child_of(tmp_path / "t.ljt")
    Trace(child, parent.run).check()
    inherited = {int(e["handle"]) for _, e in events(child, (NEW,)) if e["how"] >> 4 & 1 and e["heap"]}
    typed = [int(e["handle"]) for _, e in events(child, (TYPE,)) if int(e["handle"]) in inherited]
    assert len(typed) == len(set(typed)) and len(inherited) - len(typed) <= 1  # the last one made before
    counts = Counter(types_by_address(child, True).values())
    assert counts["tab"] >= 201 and counts["proto"] >= 5 and counts["global"] == 1
    rows = {
        row["line"]: row
        for row in json.loads(steve("lines", child, "--json").text)
        if row["file"].endswith("script.lua")
    }
    assert rows[8]["loads"] >= 50 * 200 * 5 and rows[8]["blocks_touched"] >= 201
    first = next(event["kind"] for _, event in events(child, (STATE, LOAD)))
    assert first == STATE
