"""test_lua_images - LuaJIT linked into a program, loaded and unloaded, several in one process; and one that
lacks functions.

The expected values are what each LuaJIT says it holds, and the construction of the script (native/luaimages.c).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import shutil
from collections import Counter
from pathlib import Path

from steve.trace._memtrace import TYPE_NAMES
from support import NATIVE, Trace, good, record, steve
from test_lua_lines import NEW, TYPE, events, lua_frames
from test_lua_places import layout_messages, live_bytes_at_marks

LIBRARY = "libluajit-5.1.so.2"
TIMES = 18  # more than there is room for images at one time


def tables(path: Path) -> Counter:
    """Tables by (file, line) of the innermost Lua function."""
    counts: Counter = Counter()
    stacks: dict[int, int] = {}
    for reader, event in events(path, (NEW, TYPE)):
        if event["kind"] == NEW:
            stacks[int(event["handle"])] = int(event["ref"])
        elif TYPE_NAMES[event["ref"]] == "tab":
            frames = lua_frames(reader, stacks[int(event["handle"])])
            if frames:
                counts[Path(frames[0].file).name, frames[0].line] += 1
    return counts


def sums_hold(trace: Trace, marks: int) -> None:
    assert trace.run.status == 0, trace.run.complaint
    assert not trace.run.err_of_program and not layout_messages(trace), trace.run.complaint
    sums = live_bytes_at_marks(trace.path)
    assert len(sums) == marks
    assert [seen for _, seen in sums] == [truth for truth, _ in sums]


def machines(path: Path) -> Counter:
    """Rows of the states of interpreters and traces: one interpreter per Lua state."""
    return Counter(row["state"] for row in json.loads(steve("states", path, "--json").text))


def test_linked_in_without_exports(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "luaimages"])
    sums_hold(trace, 2)
    assert tables(trace.path)["own.lua", 3] == 2000
    assert machines(trace.path)["INTERP"] == 1 and machines(trace.path)["TRACE"] >= 1


def test_loaded_and_unloaded_over_and_over(tmp_path: Path) -> None:
    """The same library at other addresses, and at the same ones, next to another LuaJIT."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "luaimages", TIMES, LIBRARY], "--trace-mem=no")
    sums_hold(trace, 2 + 2 * TIMES)
    counts = tables(trace.path)
    assert (counts["own.lua", 3], counts["loaded.lua", 3]) == (2000, 2000 * TIMES)
    assert machines(trace.path)["INTERP"] == 1 + TIMES and machines(trace.path)["TRACE"] >= 1 + TIMES


def test_another_library_where_one_was(tmp_path: Path) -> None:
    """A copy under another name, opened by a relative path."""
    host = good(["ldd", NATIVE / "luahost"]).text
    library = next(line.split()[2] for line in host.splitlines() if LIBRARY in line)
    shutil.copy(library, tmp_path / "libother.so")
    other = os.path.relpath(tmp_path / "libother.so")
    trace = record(tmp_path / "t.ljt", [NATIVE / "luaimages", 6, LIBRARY, other], "--trace-mem=no")
    sums_hold(trace, 2 + 2 * 6)
    counts = tables(trace.path)
    assert (counts["own.lua", 3], counts["loaded.lua", 3]) == (2000, 2000 * 6)


def test_functions_that_are_missing_are_said(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "halflua"])
    assert trace.run.status == 0
    assert len(layout_messages(trace)) == 1
    assert "lua_getallocf is not among its symbols" in trace.run.complaint
    assert "blocks of its own allocator are not recorded" in trace.run.complaint
