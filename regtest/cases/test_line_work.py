"""test_line_work - `steve lines`: own and others' blocks, distinct blocks and cache lines, kinds, of LuaJIT
programs.

The results are compared with two others. The counts per line of a script are known by construction: doubling
the work of a line adds exactly that work. And the events are counted here a second time, one by one: slowly,
with sets, sharing nothing with steve's kernel except the reader.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest

from steve.analysis import blocks
from steve.kernels._lives import Lives
from steve.report.collect import ReportAnalysis
from steve.trace._memtrace import (
    CALL,
    FREE,
    HOW_NAMES,
    LOAD,
    MODIFY,
    NEW,
    RESIZE,
    STATE,
    STORE,
    TYPE,
    TYPE_NAMES,
    VM_NAMES,
)
from steve.trace._memtrace import Trace as Reader
from steve.trace.line_numbers import LineNumbers
from steve.parallel.window import Window
from steve.trace.places import Places
from support import record, steve

FIELDS = ("kind", "handle", "ref", "thread", "heap", "size", "addr", "offset", "how")
ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written")

SCRIPT = """\
local n, keep, other = %d, {}, {}
for i = 1, n do
  keep[i] = {i}
end
local sum = 0
for i = 1, n do
  sum = sum + keep[i][1]
end
local function fill(t) t[1] = 2 end
for i = 1, n do
  local own = {1, 2, 3}; own[1] = 2; own[2] = 3; own[3] = 4
end
for i = 1, n do
  fill(keep[i])
end
for i = 1, n do keep[i] = nil end
for i = 1, n do
  other[1] = ("%%d is a string"):format(i)
end
"""
MAKE, READ, FILL, OWN, CALLS, TEXT = 3, 7, 9, 11, 14, 18


def functions(path: Path, *options: str) -> dict[tuple[int, str], dict]:
    """Rows of `steve lines` of script.lua by line and function. Functions that allocate nothing may have no
    name."""
    rows = json.loads(steve("lines", path, "--json", *options).text)
    found = [row for row in rows if row["file"].endswith("script.lua")]
    by_function = {
        (row["line"], row["function"] if row["function"] in ("main chunk", "parser") else "fill"): row for row in found
    }
    assert len(by_function) == len(found)
    return by_function


def lines(path: Path, *options: str) -> dict[int, dict]:
    """Rows of the events at each line; the row of a function that begins and ends on its line is separate."""
    found = functions(path, *options)
    return {line: found.get((line, "fill")) or found[line, "main chunk"] for line, name in found if name != "parser"}


def recorded(folder: Path, text: str, *options: str) -> Path:
    (folder / "script.lua").write_text(text)
    trace = record(folder / "t.ljt", ["luajit", *options, "-e", "collectgarbage('stop')", folder / "script.lua"])
    assert trace.run.status == 0, trace.run.complaint
    return trace.path


def test_counts_are_those_of_the_construction(tmp_path: Path) -> None:
    """Without the JIT. The work of 800 rounds less that of 400 is that of 400."""
    n = 400
    few, many = (lines(recorded(tmp_path, SCRIPT % count, "-joff")) for count in (n, 2 * n))
    more = {
        line: {key: many[line][key] - few[line][key] for key in many[line] if isinstance(many[line][key], int)}
        for line in (MAKE, READ, FILL, OWN, CALLS, TEXT)
    }
    for line, kind in ((MAKE, "tab"), (OWN, "tab"), (TEXT, "str")):
        assert [rows[line]["kinds"][kind]["allocs"] for rows in (few, many)] == [n, 2 * n]
    assert all(many[line]["allocs"] == 0 for line in (READ, CALLS))
    # each table is touched by the line that made it, by those that read and fill it, and by no other
    assert [more[line]["blocks_touched"] for line in (MAKE, READ, FILL)] == [n, n, n]
    assert more[CALLS]["blocks_touched"] == 0 and more[READ]["own_loads"] == 0
    assert more[FILL]["others_stores"] >= n and more[FILL]["own_stores"] == 0
    # three elements stored by the line that made the table: 8 bytes each
    assert more[OWN]["own_stores"] >= 3 * n and more[OWN]["own_bytes_written"] >= 3 * 8 * n
    assert more[OWN]["blocks_touched"] == n


@pytest.mark.parametrize("options", ((), ("-joff",)))
def test_the_report_has_the_same_bytes(options: tuple[str, ...], tmp_path: Path) -> None:
    """It counts the accesses of sites, and moves those that belong to Lua instructions."""
    path = recorded(tmp_path, SCRIPT % 300, *options)
    wanted: dict[str, Counter[tuple[str, int]]] = {"bytes_read": Counter(), "bytes_written": Counter()}
    for row in json.loads(steve("lines", path, "--json").text):
        for name, sums in wanted.items():
            sums[row["file"], row["line"] if row["file"] else 0] += row[name]
    parser = argparse.ArgumentParser()
    blocks.add_arguments(parser)
    blocks.add_shards(parser)
    analysis = blocks.Blocks("report", parser.parse_args([str(path)])).over_trace(partial(ReportAnalysis, by_line=True))
    found = {(file, line): amounts for file, of_file in analysis.work().items() for line, amounts in of_file.items()}
    assert any(file.endswith("script.lua") and line == READ for file, line in found)
    for place in found.keys() | {place for sums in wanted.values() for place, n in sums.items() if n and place[1]}:
        assert found.get(place) == (wanted["bytes_read"][place], wanted["bytes_written"][place]), place


def maker_lines(reader: Reader) -> dict[int, dict[int, int]]:
    """By handle of a prototype's block: the line of each instruction offset."""
    protos = (reader.proto(i) for i in range(reader.counts()["protos"]))
    return {
        p.handle: {p.offset + 4 * i: (p.file, line, function_name(p.defined)) for i, line in enumerate(p.lines)}
        for p in protos
    }


def function_name(defined: int) -> str:
    """The scripts have one function besides the main chunk."""
    return "fill" if defined else "main chunk"


class Account:
    """The work of every Lua line, computed event by event."""

    def __init__(self, path: Path) -> None:
        reader = Reader(str(path))
        reader.skim()
        self.code, self.reader = maker_lines(reader), Reader(str(path))
        self.rows: dict = defaultdict(
            lambda: {
                "own": [0] * 5,
                "others": [0] * 5,
                "blocks": set(),
                "lines": set(),
                "kinds": defaultdict(lambda: [0, 0]),
            }
        )
        self.sites: dict[int, tuple | None] = {}
        self.at: dict[int, tuple] = {}  # by thread: the line that it executes, and whether on a trace
        self.made: dict[int, tuple] = {}  # by thread: line and heap of its last New
        self.collects: dict[int, tuple | None] = {}  # by thread: for which line the collector works on traces
        self.blocks: dict[int, list] = {}  # by handle: line, type, bytes asked for
        for batch in self.reader.batches():
            for values in batch[list(FIELDS)].tolist():
                self.take(dict(zip(FIELDS, values)))
        for handle in list(self.blocks):
            self.end(handle)

    def lua_line(self, frame) -> tuple | None:
        """The current line of Lua code, or of the parser (vm)."""
        if not frame or not frame.line or frame.kind not in ("lua", "lua-inlined", "vm"):
            return None
        return frame.file, frame.line, frame.function if frame.kind == "vm" else function_name(frame.defined)

    @staticmethod
    def without_number(frames: list) -> tuple | None:
        """The place of the innermost Lua function, of which LuaJIT does not know the current line."""
        return next(((f.file, 0, function_name(f.defined)) for f in frames if f.kind in ("lua", "lua-inlined")), None)

    def take(self, event: dict) -> None:
        kind, handle = event["kind"], event["handle"]
        if kind == NEW:
            frames = self.reader.stack_frames(event["ref"])
            line = next((self.lua_line(f) for f in frames if self.lua_line(f)), self.without_number(frames))
            in_lua = bool(event["heap"])  # C's blocks have no type: the function that made them is used instead
            self.made[event["thread"]] = line, event["heap"]
            self.blocks[handle] = [line, "unknown" if in_lua else HOW_NAMES[event["how"] & 15], event["size"], in_lua]
        elif kind == FREE:
            self.end(handle)
        elif kind == RESIZE:
            self.blocks[handle][2] += event["size"]
        elif kind == TYPE:
            self.blocks[handle][1] = TYPE_NAMES[event["ref"]]
        elif kind in (LOAD, STORE, MODIFY):
            self.access(event)
        elif kind == CALL:
            self.at[event["thread"]] = self.lua_line(self.reader.stack_frames(event["ref"])[0]), True
        elif kind == STATE:
            self.go_over(event["thread"], VM_NAMES[event["how"] & 15] == "GC", event["heap"])

    def go_over(self, thread: int, collects: bool, heap: int) -> None:
        """Process a state change. The collector's work on a trace belongs to the last line before it."""
        line, heap_made = self.made.get(thread, (None, None))
        self.collects.pop(thread, None)
        if collects and heap == heap_made:
            self.collects[thread] = line

    def end(self, handle: int) -> None:
        line, kind, size, _ = self.blocks.pop(handle)
        made = self.rows[line]["kinds"][kind]
        made[0] += 1
        made[1] += size

    def site_line(self, site: int) -> tuple | None:
        if site not in self.sites:
            self.sites[site] = self.lua_line(self.reader.frame(self.reader.site(site).frame))
        return self.sites[site]

    def access(self, event: dict) -> None:
        kind, handle, size = event["kind"], event["handle"], event["size"]
        code = self.code.get(handle, {})
        if kind == LOAD and size == 4 and event["offset"] in code:
            self.at[event["thread"]] = code[event["offset"]], False
        line = self.site_line(event["ref"])
        if line is not None:
            self.at[event["thread"]] = line, True
        elif self.blocks[handle][3]:
            line, on_trace = self.at.get(event["thread"], (None, False))
            line = self.collects.get(event["thread"], line) if on_trace else line
        row, reads, writes = self.rows[line], kind in (LOAD, MODIFY), kind in (STORE, MODIFY)
        found = row["own" if self.blocks[handle][0] == line else "others"]
        for i, more in enumerate((kind == LOAD, kind == STORE, kind == MODIFY, size * reads, size * writes)):
            found[i] += more
        row["blocks"].add(handle)
        row["lines"] |= set(range(event["addr"] // 64, (event["addr"] + max(size, 1) - 1) // 64 + 1))


# What C does on traces: fills, copies, texts, tables that grow, and the collector.
IN_C = """\
local ffi, n = require "ffi", %d
collectgarbage("restart")
local a, b = ffi.new("double[?]", 1000), ffi.new("double[?]", 1100)
local s, t, made = ("a text of some length "):rep(20), {}, {}
for i = 1, n * 20 do
  ffi.fill(a, 700 + i %% 2)
  ffi.copy(b, a, 900 + i %% 2)
  local x = s:sub(i %% 50, i %% 50 + 60)
  t[#t + 1] = #x
  made[i %% 7] = {x, x .. i}
end
"""


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
@pytest.mark.parametrize("text", [SCRIPT, IN_C], ids=["script", "in C"])
def test_every_number_equals_the_slow_account(text: str, jit: str, tmp_path: Path) -> None:
    path = recorded(tmp_path, text % 60, jit, "-Ohotloop=10")
    account, rows = Account(path).rows, functions(path)
    wanted = {line[1:]: row for line, row in account.items() if line and line[0].endswith("script.lua")}
    assert wanted.keys() == rows.keys() and len(rows) > 8
    for line, row in rows.items():
        truth = wanted[line]
        assert [row[f"own_{key}"] for key in ACCESSES] == truth["own"], line
        assert [row[f"others_{key}"] for key in ACCESSES] == truth["others"], line
        assert [row[key] for key in ACCESSES] == [a + b for a, b in zip(truth["own"], truth["others"])]
        assert (row["blocks_touched"], row["cache_lines_touched"]) == (len(truth["blocks"]), len(truth["lines"]))
        assert {kind: tuple(made.values()) for kind, made in row["kinds"].items()} == {
            kind: tuple(made) for kind, made in truth["kinds"].items()
        }


def test_functions_from_before_a_mark_have_lines_after_it(tmp_path: Path) -> None:
    """Only blocks allocated after the mark count, accessed by a function that existed before."""
    text = (
        'local t, keep = require "ljtrace", {}\nlocal function read(x)\n  return x[1]\nend\n'
        'read({0})\nt.mark("here")\n'
        "for i = 1, 200 do\n  keep[i] = {i}\n  read(keep[i])\nend\n"
    )
    path = recorded(tmp_path, text, "-joff")
    rows = lines(path, "--from", "here")
    assert rows[8]["kinds"]["tab"] == {"allocs": 200, "alloc_bytes": rows[8]["kinds"]["tab"]["alloc_bytes"]}
    assert rows[3]["blocks_touched"] == 200 and rows[3]["others_loads"] >= 200
    assert 5 not in rows


def worked(path: Path, window: Window | None) -> tuple:
    reader = Reader(str(path))
    numbers = LineNumbers(Places(reader))
    walk = Lives(reader, window, lines=numbers)
    for _ in walk.batches():
        pass
    numbers.reach_all()
    return tuple(array.copy() for array in walk.line_work())


@pytest.mark.parametrize("program", ("sort", "luajit", "luajit -joff"))
def test_what_patterns_do_is_what_their_accesses_do(tmp_path: Path, program: str) -> None:
    """C code that moves records across cache lines, and Lua code: accesses of one word and line are joined,
    or counted one by one, as they are where a window may end."""
    (tmp_path / "words").write_text("".join(f"{i * 7919 % 1009} {'x' * (i % 90)}\n" for i in range(1000)))
    (tmp_path / "script.lua").write_text(SCRIPT % 200)
    data = tmp_path / ("words" if program == "sort" else "script.lua")
    path = record(tmp_path / "t.ljt", [*program.split(), data]).path
    (packed, made), (plain, plainly_made) = worked(path, None), worked(path, Window(None, "never"))
    assert (packed["own"]["counts"] + packed["others"]["counts"]).sum() > 1000 and packed["cache_lines"].sum() > 100
    for name in packed.dtype.names:
        assert (packed[name] == plain[name]).all(), name
    assert (made["bytes"] == plainly_made["bytes"]).all() and (made["blocks"] == plainly_made["blocks"]).all()
