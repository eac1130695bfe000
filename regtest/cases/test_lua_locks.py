"""test_lua_locks - `steve lockops --stack` of LuaJIT programs: a block is locked while a function of Lua that
touches it is on the stack.

The locks are compared with a script in which it is known when a table's lock must have ended, and with a second
computation here, event by event: slow, with sets, sharing nothing with steve's kernel except the reader.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import defaultdict
from pathlib import Path
from typing import Optional

import pytest

from steve.trace._memtrace import CALL, FREE, LOAD, MODIFY, NEW, RESIZE, STATE, VM_NAMES
from steve.trace._memtrace import Trace as Reader
from support import Trace, record, steve

FIELDS = ("kind", "handle", "ref", "thread", "heap", "size", "addr", "old_addr", "offset", "how")

# Each table has a size of its own, by which its array is known. Nothing but the functions below touches them
# after they were made: the collector is stopped.
SCRIPT = """\
local keep = {}
local function make(n) local t = {} for i = 1, n do t[i] = i end return t end
local function touch(t) return t[1] end
local function churn(n) for i = 1, n do keep[i] = {i} end end
local function hold(t) local x = t[1] churn(300) return x end
local a, b = make(3000), make(5000)
churn(100)
touch(a)
churn(100)
hold(b)
churn(100)
"""

# Library functions that call back, tail calls into C, coroutines, texts, and a collector at work.
BUSY = """\
local n = 20
local function less(a, b) return a[1] < b[1] end
local function sorted(t) return table.sort(t, less) end
local function text(t) return table.concat(t, ",") end
local kept = {}
for i = 1, n do
  local rows, words = {}, {}
  for k = 1, 20 do rows[k] = {(k * 7919 + i) % 101}; words[k] = ("word %d"):format(k * i) end
  sorted(rows)
  kept[i % 10] = text(words)
  local step = coroutine.wrap(function(t) for k = 1, #t do t[k][2] = {k}; coroutine.yield(t[k]) end end)
  for k = 1, 5 do kept[k + 10] = step(rows) end
  pcall(function() error({rows}) end)
end
collectgarbage()
"""


def recorded(folder: Path, text: str, *options: str) -> Trace:
    (folder / "script.lua").write_text(text)
    trace = record(folder / "t.ljt", ["luajit", *options, folder / "script.lua"])
    assert trace.run.status == 0, trace.run.complaint
    return trace


class Account:
    """The output of --stack, computed event by event. A C function is a name or an object, a Lua function
    (file, line)."""

    def __init__(self, path: Path) -> None:
        reader = Reader(str(path))
        reader.skim()
        self.reader = reader
        protos = [reader.proto(i) for i in range(reader.counts()["protos"])]
        self.code = {p.handle: (range(p.offset, p.offset + 4 * len(p.lines), 4), (p.file, p.defined)) for p in protos}
        self.frames = {i: self.function(reader.frame(i)) for i in range(reader.counts()["frames"])}
        self.stacks: dict[int, frozenset] = {}
        self.now: dict[int, object] = {}  # by thread: the function of Lua it runs
        self.collects: dict[int, bool] = defaultdict(bool)
        self.pins: dict[int, set] = {}  # by block: (thread, function)
        self.by_thread: dict[int, set] = defaultdict(set)  # the blocks that a thread may have pinned
        self.names: dict[int, int] = {}
        self.in_lua: dict[int, bool] = {}
        self.lines: list[str] = []
        self.made = 0
        for batch in Reader(str(path)).batches():
            for values in batch[list(FIELDS)].tolist():
                self.take(dict(zip(FIELDS, values)))

    @staticmethod
    def function(frame) -> Optional[tuple]:
        if frame is None or frame.kind in ("lua", "lua-inlined"):
            return frame and ("Lua", frame.file, frame.defined)
        return ("C", frame.function) if frame.function else frame.object and ("object", frame.object) or None

    def on_stack(self, stack: int) -> frozenset:
        if stack not in self.stacks:
            parent, frame = self.reader.stack(stack)
            above = self.on_stack(parent) if parent else frozenset()
            self.stacks[stack] = above | {self.frames[frame]}
        return self.stacks[stack]

    def take(self, event: dict) -> None:
        kind, thread = event["kind"], event["thread"]
        if kind == STATE:
            self.collects[thread] = VM_NAMES[event["how"] & 15] == "GC"
        elif kind == CALL:
            self.now[thread] = self.frames[self.reader.stack(event["ref"])[1]]
        elif kind in (NEW, FREE, RESIZE):
            self.change(event)
        elif LOAD <= kind <= MODIFY:
            self.access(event)

    def change(self, event: dict) -> None:
        kind, handle, thread = event["kind"], event["handle"], event["thread"]
        if event["ref"]:
            self.return_from(thread, event["ref"])
        if kind != NEW:
            del self.pins[handle]
            self.lines.append(f"{self.names[handle]} F {event['old_addr' if kind == RESIZE else 'addr']} 0")
        if kind != FREE:
            self.names[handle], self.pins[handle], self.in_lua[handle] = self.made, set(), bool(event["heap"])
            self.made += 1
            self.lines.append(f"{self.names[handle]} N {event['addr']} {event['size']}")

    def return_from(self, thread: int, stack: int) -> None:
        """The functions that must have returned, as a heap operation of a thread shows."""
        there = self.on_stack(stack) | {self.now.get(thread)} | ({"collector"} if self.collects[thread] else set())
        gone = []
        for handle in self.by_thread[thread] & self.pins.keys():
            left = {pin for pin in self.pins[handle] if pin[0] != thread or pin[1] in there - {None}}
            if self.pins[handle] and not left:
                gone.append(self.names[handle])
            self.pins[handle] = left
        self.by_thread[thread] = {h for h in self.by_thread[thread] if self.pins.get(h)}
        self.lines += [f"{name} U 0 0" for name in sorted(gone)]

    def access(self, event: dict) -> None:
        handle, thread = event["handle"], event["thread"]
        site = self.reader.site(event["ref"])
        own = self.frames.get(site.frame) if site.frame else None
        where, function = self.code.get(handle, ((), None))
        if own is not None and own[0] == "Lua":
            self.now[thread] = own
        elif event["kind"] == LOAD and event["size"] == 4 and event["offset"] in where:
            self.now[thread] = ("Lua", *function)
        makers = {own}
        if self.in_lua[handle] and not (own and own[0] == "Lua"):
            lua = "collector" if self.collects[thread] else self.now.get(thread)
            makers = {own} if lua is None else {lua, own} if own and own[0] == "C" else {lua}
        if not self.pins[handle]:
            self.lines.append(f"{self.names[handle]} L 0 0")
        self.pins[handle] |= {(thread, maker) for maker in makers}
        self.by_thread[thread].add(handle)


def locks(path: Path, *options: str) -> list[str]:
    return steve("lockops", "--stack", "-q", "-o", "-", path, *options).text.splitlines()


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
@pytest.mark.parametrize("text", [SCRIPT, BUSY], ids=["script", "busy"])
def test_every_lock_equals_the_slow_account(text: str, jit: str, tmp_path: Path) -> None:
    path = recorded(tmp_path, text, jit, "-Ohotloop=10").path
    found = locks(path)
    assert found == Account(path).lines
    assert sum(" U " in line for line in found) > 100


def lock_spans(lines: list[str], size: int) -> list[tuple[int, int]]:
    """For the block of that size: News before each of its locks and before the unlock that follows."""
    handle = next(line.split()[0] for line in lines if line.endswith(f" {size}") and " N " in line)
    news, spans, since = 0, [], None
    for line in lines:
        who, letter, _, _ = line.split()
        news += letter == "N"
        if who == handle and letter == "L":
            since = news
        elif who == handle and letter in "UF" and since is not None:
            spans.append((since, news))
            since = None
    return spans


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_locks_end_where_functions_return(jit: str, tmp_path: Path) -> None:
    """Allocations while `a` is only accessed do not extend its lock; `b` is locked during all allocations of
    `hold`."""
    trace = recorded(tmp_path, "collectgarbage('stop') " + SCRIPT, jit)
    lines = locks(trace.path)
    a, b = (lock_spans(lines, size) for size in (4096 * 8 + 8, 8192 * 8 + 8))
    assert a[-1][1] - a[-1][0] == 0 and a[-1][0] > a[0][1] + 90  # free for 100 tables
    assert 300 <= b[-1][1] - b[-1][0] < 400 and b[-1][0] > b[0][1] + 190
