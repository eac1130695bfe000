"""test_lua_coroutines - stacks continue, at a coroutine's bottom, with the thread that resumed it.

The construction of the script says how coroutines nest, and which resumes which from which line.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import NEW
from support import record
from test_lua_lines import events, lua_frames, script

MADE = 8 * 381  # bytes asked for by the blocks that count: arrays for 380 elements from 1 on

SCRIPT = """\
local new, keep = require "table.new", {}
local function body(n)
  for i = 1, n do
    keep[i % 100] = new(380, 0)
    if i % 10 == 0 then coroutine.yield(i) end
  end
end
local function inner(n)
  local co = coroutine.wrap(body)
  for _ = 1, n / 10 do co(n) end
end
local function outer(n)
  local co = coroutine.create(function() inner(n) return 1 end)
  local _, done = coroutine.resume(co)
  return done
end
for _ = 1, 20 do outer(100) end
"""
LINES = [4, 10, 13, 14, 17]  # body, which inner resumes, which runs in a coroutine that outer resumes

BY_C = """\
local ffi, new = require "ffi", require "table.new"
ffi.cdef "int lua_resume(void *, int);"
local keep = {}
local function body()
  for i = 1, 30 do
    keep[i] = new(380, 0)
  end
end
local function resume(co)
  local L = ffi.cast("void *", tonumber(tostring(co):match("0x(%x+)"), 16))
  local status = ffi.C.lua_resume(L, 0)
  return status
end
jit.off(resume)
for _ = 1, 10 do
  resume(coroutine.create(body))
end
"""
LINES_BY_C = [6, 11, 16]


def made(folder: Path, text: str, *options: str, depth: int = 40) -> tuple[Counter, str, Path]:
    """How often blocks were allocated, by the lines of their stacks and whether C's functions are around
    them; the tool's messages."""
    trace = record(
        folder / "t.ljt",
        ["luajit", *options, script(folder, text)],
        "--trace-mem=no",
        f"--stack-depth={depth}",
        "--check-stacks=yes",
    )
    assert trace.run.status == 0, trace.run.complaint
    counts: Counter = Counter()
    for reader, event in events(trace.path, (NEW,)):
        if event["size"] == MADE and event["heap"]:
            names = [f.function for f in reader.stack_frames(int(event["ref"]))]
            around = "lua_pcall" in names and "main" in names[names.index("lua_pcall") :]
            counts[tuple(f.line for f in lua_frames(reader, int(event["ref"]))), around] += 1
    return counts, trace.run.complaint, trace.path


@pytest.mark.parametrize("options", [["-joff"], ["-jon", "-Ohotloop=5"]], ids=["interpreter", "traces"])
def test_the_resumers_stack_stands_below(options: list[str], tmp_path: Path) -> None:
    counts, said, path = made(tmp_path, SCRIPT, *options)
    assert counts.keys() == {(tuple(LINES), True)}, counts
    assert 2000 <= counts.total() <= (2000 if options == ["-joff"] else 2020)  # what a trace is left in is done again
    met = [
        int(word)
        for line in said.splitlines()
        if "Lua stacks, of which" in line
        for word in line.split()
        if word.isdigit()
    ]
    assert len(met) == 2 and met[1] >= 0.7 * met[0], said  # kept, and checked by a walk
    reader, event = next((r, e) for r, e in events(path, (NEW,)) if e["size"] == MADE and e["heap"])
    kinds = [(f.kind, f.function) for f in reader.stack_frames(int(event["ref"]))]
    assert ("fast", "resume") in kinds and ("fast", "co") in kinds, kinds  # what resumed, by the names it was called


def test_a_short_stack_keeps_the_innermost(tmp_path: Path) -> None:
    counts, _, _ = made(tmp_path, SCRIPT, "-joff", depth=7)
    assert sum(counts.values()) == 2000
    for (lines, _), _ in counts.items():
        assert 1 <= len(lines) < 5 and list(lines) == LINES[: len(lines)], lines


def test_a_coroutine_that_c_resumes(tmp_path: Path) -> None:
    """lua_resume has frames of its own on the C stack, between those of the coroutine and of the resumer."""
    counts, _, _ = made(tmp_path, BY_C, "-joff")
    assert counts == {(tuple(LINES_BY_C), True): 300}, counts


def test_what_wrap_makes_is_one_frame_for_each_call(tmp_path: Path) -> None:
    """The result does not depend on the number of coroutines."""
    text = (
        "local new, keep = require 'table.new', {}\nfor i = 1, 200 do\n"
        "  local co = coroutine.wrap(function() keep[1] = new(380, 0) end)\n  co()\nend\n"
    )
    trace = record(tmp_path / "t.ljt", ["luajit", "-joff", script(tmp_path, text)], "--trace-mem=no")
    stacks = Counter(int(e["ref"]) for _, e in events(trace.path, (NEW,)) if e["size"] == MADE and e["heap"])
    assert sum(stacks.values()) == 200 and len(stacks) == 1, stacks
