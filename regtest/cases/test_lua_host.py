"""test_lua_host - Lua states inside other programs: lines, sums of live blocks, real hosts.

The truth comes from LuaJIT itself: lua_getinfo, asked at each allocation by the host's own allocator function,
and lua_gc, which says how many bytes a state holds (native/luahost.c).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path

from steve._memtrace import FREE, MARK, NEW, RESIZE
from support import NATIVE, good, record
from test_lua_lines import KNOWN, events, lua_frames, script

METHODS = """\
for i = 1, 30 do
  local s = ("abc"):rep(i):upper()
  local ok = pcall(string.rep)
  local sorted = {3, 1, 2}
  table.sort(sorted, function(a, b) local t = {a, b} return t[1] < t[2] end)
  local m = setmetatable({}, {__index = function(_, k) return {k} end,
    __concat = function(a, b) return {a, b} end,
    __call = function(self, x) return {self, x} end})
  local a, b, c = m.x, m .. "y", m(i)
  s:gsub("b", function(w) return w .. i end)
  for k, v in pairs({a, b, c}) do sorted[k + 3] = {v} end
  load("return {" .. i .. "}")()
  table.concat(sorted, ",", 1, 3)
end
"""


def expected(log: Path) -> list[tuple[int, int]]:
    return [(int(size), int(line)) for size, line in map(str.split, log.read_text().splitlines())]


def told(trace: Path) -> list[tuple[int, int]]:
    """(size, line of the innermost Lua function, 0 = none) of each block of Lua, in order."""
    lines: dict[int, int] = {}
    result = []
    for reader, event in events(trace, (NEW,)):
        stack = int(event["ref"])
        if event["heap"] and stack not in lines:
            frames = lua_frames(reader, stack)
            lines[stack] = frames[0].line if frames else 0
        if event["heap"]:
            result.append((int(event["size"]), lines[stack]))
    return result


def same_lines(folder: Path, text: str) -> None:
    log = folder / "log"
    trace = record(folder / "t.ljt", [NATIVE / "luahost", "lines", script(folder, text), log], "--trace-mem=no",
                   "--stack-depth=60")
    assert trace.run.status == 0, trace.run.complaint
    truth, seen = expected(log), told(trace.path)
    start = next(i for i, (_, line) in enumerate(truth) if line)
    assert [size for size, _ in seen[:len(truth)]] == [size for size, _ in truth]
    differ = [(i, t, s) for i, (t, s) in enumerate(zip(truth, seen)) if i >= start and t != s]
    assert not differ, f"{len(differ)} of {len(truth) - start}: {differ[:10]}"
    assert len(truth) - start >= 200


def test_lines_equal_getinfo_event_for_event(tmp_path: Path) -> None:
    same_lines(tmp_path, KNOWN.replace("coroutine.yield()", "here(); coroutine.yield()")
               .replace("routine() end", "routine(); here() end").replace("    keep[11]", "    here(); keep[11]"))


def test_lines_equal_getinfo_with_metamethods_and_callbacks(tmp_path: Path) -> None:
    same_lines(tmp_path, METHODS)


def test_live_blocks_sum_to_what_the_states_hold(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "luahost", "sums"], "--trace-mem=no")
    assert trace.run.status == 0, trace.run.complaint
    live: dict[int, int] = {}
    sums = []
    for reader, event in events(trace.path, (NEW, FREE, RESIZE, MARK)):
        handle = int(event["handle"])
        if event["kind"] == MARK:
            name = reader.string(int(event["ref"]))
            if name.startswith("sum "):
                sums.append((int(name.split()[1]), sum(live.values())))
        elif event["kind"] == NEW and event["heap"]:
            live[handle] = int(event["size"])
        elif event["kind"] == FREE:
            live.pop(handle, None)
        elif event["kind"] == RESIZE and handle in live:
            live[handle] = int(event["size"])
    assert len(sums) == 9
    assert [seen for _, seen in sums] == [truth for truth, _ in sums]
