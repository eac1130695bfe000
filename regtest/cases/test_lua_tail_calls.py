"""test_lua_tail_calls - stacks where traces begin in functions, and of tail calls: no frame that the program lacks.

With the JIT, tables have the stacks that they have without it, by both recorders. The loop cannot be compiled, since it
creates functions; so traces begin in the functions that it calls, after attempts at the loop that were aborted.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import NEW, TYPE, TYPE_NAMES
from support import Trace, record, run
from test_lua_lines import events, lua_frames, script

TAILS = """\
local keep = {}
local function leaf(i)
  return {i, i}
end
local function tail(i)
  return leaf(i)
end
local function two(i)
  return tail(i)
end
local function varied(...)
  return leaf(...)
end
local function joined(...)
  return table.concat({...}, "u")
end
local function choose(f, ...)
  return f(...)
end
local function count(n, last)
  if n == 0 then return last end
  return count(n - 1, {last})
end
local function protected(i)
  return pcall(leaf, i)
end
local functions = {
  function(i) local t = tail(i) keep[1] = t end,
  function(i) local t = two(i) keep[2] = t end,
  function(i) local t = varied(i, i) keep[3] = t end,
  function(i) local t = joined(i, "w") keep[4] = t end,
  function(i) local t = choose(leaf, i) keep[5] = t end,
  function(i) local t = choose(two, i) keep[6] = t end,
  function(i) local t = count(i % 4) keep[7] = t end,
  function(i) local _, t = protected(i) keep[8] = t end,
}
for i = 1, 300 do
  for k = 1, #functions do
    keep[9] = function() return i end
    functions[k](i)
  end
end
local again = coroutine.wrap(function()
  while true do
    local t = two(1)
    coroutine.yield(t)
  end
end)
for i = 1, 100 do
  keep[10] = again()
end
"""


def recorded(recorder: str, path: Path, *argv: object) -> Trace:
    if recorder == "valgrind":
        return record(path, ["luajit", *argv], "--trace-mem=no")
    return Trace(path, run(["ljtrace", "run", f"--out={path}", "luajit", *argv])).check()


def stacks_of_tables(path: Path) -> Counter:
    """The lines of the stack of each table, innermost first."""
    lines, stacks, tables = {}, {}, set()
    for reader, event in events(path, (NEW, TYPE)):
        handle, ref = int(event["handle"]), int(event["ref"])
        if event["kind"] == TYPE and TYPE_NAMES[ref] == "tab":
            tables.add(handle)
        elif event["kind"] == NEW and event["heap"]:
            if ref not in lines:
                lines[ref] = tuple(f.line for f in lua_frames(reader, ref) if f.line)
            stacks[handle] = lines[ref]
    return Counter(stacks[handle] for handle in tables)


@pytest.mark.parametrize("recorder", ["valgrind", "native"])
def test_stacks_with_the_jit_are_those_without(recorder: str, tmp_path: Path) -> None:
    program = script(tmp_path, TAILS)
    wanted = stacks_of_tables(recorded(recorder, tmp_path / "off.ljt", "-joff", program).path)
    assert sum(len(stack) > 1 for stack in wanted) >= 9
    for name, options in (("on", ()), ("early", ("-Ohotloop=3", "-Ohotexit=2", "-O-sink"))):
        found = stacks_of_tables(recorded(recorder, tmp_path / f"{name}.ljt", *options, program).path)
        assert not found.keys() - wanted.keys()
        assert found.total() >= wanted.total() - 5


LIBRARY = """\
local keep = {}
local function first(i)
  return table.concat({i, "first"})
end
local function second(i)
  return table.concat({i, "second"})
end
local join = table.concat
for i = 1, 50 do
  keep[1] = first(i)
  keep[2] = second(i)
  keep[3] = join({i, "third"})
  keep[4] = ("x"):rep(i + 40)
end
"""


@pytest.mark.parametrize("recorder", ["valgrind", "native"])
def test_library_functions_have_their_own_names(recorder: str, tmp_path: Path) -> None:
    """Not that of the function that they replace by a tail call, nor the one that their first caller gave them."""
    path = recorded(recorder, tmp_path / "t.ljt", "-joff", script(tmp_path, LIBRARY)).path
    found: dict[int, set[str]] = {}
    for reader, event in events(path, (NEW,)):
        frames = reader.stack_frames(int(event["ref"]))
        inner = next((i for i, f in enumerate(frames) if f.kind == "fast"), None)
        if event["heap"] and inner is not None and inner + 1 < len(frames):
            found.setdefault(frames[inner + 1].line, set()).add(frames[inner].function)
    assert {line: found.get(line) for line in range(10, 14)} == {
        10: {"concat"},
        11: {"concat"},
        12: {"concat"},
        13: {"rep"},
    }
