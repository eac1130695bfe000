"""test_lua_host - Lua states inside other programs: lines, sums of live blocks, real hosts.

The expected values come from LuaJIT itself: lua_getinfo, asked at each allocation by the host's own allocator
function, and lua_gc, which says how many bytes a state holds (native/luahost.c).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import shutil
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator

import pytest

from steve.trace._memtrace import FREE, MARK, NEW, RESIZE
from support import NATIVE, record
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


Block = tuple[int, list[int]]  # size, lines of the Lua functions on the stack, innermost first


def expected(log: Path) -> list[Block]:
    rows = ([int(word) for word in row.split()] for row in log.read_text().splitlines())
    return [(row[0], row[1:]) for row in rows]


def traced_blocks(trace: Path) -> list[Block]:
    """Each Lua block, in order."""
    lines: dict[int, list[int]] = {}
    result = []
    for reader, event in events(trace, (NEW,)):
        stack = int(event["ref"])
        if event["heap"] and stack not in lines:
            lines[stack] = [f.line for f in lua_frames(reader, stack) if f.line]
        if event["heap"]:
            result.append((int(event["size"]), lines[stack]))
    return result


def same_lines(folder: Path, text: str, resumers: dict[int, list[int]]) -> None:
    """All lines of all stacks are those of LuaJIT. LuaJIT knows only the functions of a coroutine itself; a
    trace continues with those that resumed it: `resumers` by innermost line."""
    log = folder / "log"
    trace = record(
        folder / "t.ljt", [NATIVE / "luahost", "lines", script(folder, text), log], "--trace-mem=no", "--stack-depth=60"
    )
    assert trace.run.status == 0, trace.run.complaint
    truth = [(size, lines + resumers.get(lines[0] if lines else 0, [])) for size, lines in expected(log)]
    seen = traced_blocks(trace.path)
    start = next(i for i, (_, lines) in enumerate(truth) if lines)
    assert [size for size, _ in seen[: len(truth)]] == [size for size, _ in truth]
    differ = [(i, t, s) for i, (t, s) in enumerate(zip(truth, seen)) if i >= start and t != s]
    assert not differ, f"{len(differ)} of {len(truth) - start}: {differ[:10]}"
    assert len(truth) - start >= 200 and max(len(lines) for _, lines in truth) >= 2


def test_stacks_equal_getinfo_event_for_event(tmp_path: Path) -> None:
    same_lines(
        tmp_path,
        KNOWN.replace("coroutine.yield()", "here(); coroutine.yield()")
        .replace("routine() end", "routine(); here() end")
        .replace("    keep[11]", "    here(); keep[11]"),
        {16: [20]},
    )


def test_stacks_equal_getinfo_with_metamethods_and_callbacks(tmp_path: Path) -> None:
    same_lines(tmp_path, METHODS, {})


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


# -- real programs --


def host(name: str) -> str:
    path = shutil.which(name)
    if not path:
        pytest.skip(f"{name} is not installed")
    return path


def news_of_line(trace: Path, name: str, line: int) -> Counter:
    """News on Lua heaps whose innermost Lua function is at that line of the file, by heap. What the C library
    allocates below that line, for example for the compiler, is on heap 0."""
    counts: Counter = Counter()
    for reader, event in events(trace, (NEW,)):
        if int(event["heap"]) == 0:
            continue
        frames = lua_frames(reader, int(event["ref"]))
        if frames and frames[0].line == line and frames[0].file.endswith(name):
            counts[int(event["heap"])] += 1
    return counts


def test_neovim(tmp_path: Path) -> None:
    text = "local keep = {}\nfor i = 1, 500 do\n  keep[i] = {i}\nend\nvim.cmd('qa!')\n"
    trace = record(
        tmp_path / "t.ljt",
        [host("nvim"), "--headless", "-u", "NONE", "-i", "NONE", "-S", script(tmp_path, text)],
        "--trace-mem=no",
    )
    assert trace.run.status == 0, trace.run.complaint
    assert 500 <= news_of_line(trace.path, "script.lua", 3).total() <= 510


def test_sysbench_has_a_state_for_each_thread(tmp_path: Path) -> None:
    text = "function event()\n  local t = {}\n  for i = 1, 50 do\n    t[i] = {i}\n  end\nend\n"
    trace = record(
        tmp_path / "t.ljt",
        [
            host("sysbench"),
            script(tmp_path, text),
            "--events=40",
            "--time=0",
            "--threads=2",
            "--thread-init-timeout=600",
            "run",
        ],
        "--trace-mem=no",
    )
    assert trace.run.status == 0, trace.run.complaint
    counts = news_of_line(trace.path, "script.lua", 4)
    assert 40 * 50 <= counts.total() <= 40 * 52 and len(counts) <= 2


class Answer(BaseHTTPRequestHandler):
    served = 0

    def do_GET(self) -> None:
        Answer.served += 1  # one connection, so one thread at a time
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """A server that answers every request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


WRK = "local n = 0\nfunction request()\n  n = n + 1\n  last = {n}\n  return wrk.format('GET', '/')\nend\n"


def test_wrk(url: str, tmp_path: Path) -> None:
    """Each request makes a table, which is kept, so every request is in the trace. wrk makes one request to
    check the server, and its last one may not arrive. It ends by the clock, so on a busy machine the test may
    have to repeat it."""

    def tables(seconds: int) -> tuple[int, int]:
        before = Answer.served
        argv = [host("wrk"), "-t1", "-c1", f"-d{seconds}s", "-s", script(tmp_path, WRK), url]
        trace = record(tmp_path / "t.ljt", argv, "--trace-mem=no")
        assert trace.run.status == 0, trace.run.complaint
        return news_of_line(trace.path, "script.lua", 4).total(), Answer.served - before

    for seconds in (2, 20, 200):
        made, served = tables(seconds)
        assert served <= made <= served + 8
        if served:
            return
    assert False, "no request was served"
