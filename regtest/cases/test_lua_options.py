"""test_lua_options - --lua=no and --lua-states=no leave out what they should, and nothing else.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

from steve.trace._memtrace import FREE, NEW, RESIZE, STATE, TYPE
from steve.trace._memtrace import Trace as Reader
from support import SOURCE, record

SCRIPT = """\
local keep = {}
for i = 1, 200 do keep[i] = {i} end
collectgarbage()
"""
LUA_KINDS = ("lua", "lua-inlined", "fast", "vm")


def recorded(folder: Path, name: str, *options: str) -> tuple[Counter[int], int, int]:
    """Events of each kind, blocks with a Lua frame, and blocks made by line 2 of the script."""
    script, path = folder / "script.lua", folder / f"{name}.ljt"
    script.write_text(SCRIPT)
    trace = record(path, ["luajit", "-joff", script], *options)
    assert trace.run.status == 0, trace.run.complaint
    reader, kinds, lua, line = Reader(str(path)), Counter[int](), 0, 0
    for batch in reader.batches():
        kinds.update(int(kind) for kind in batch["kind"])
        for event in batch[batch["kind"] == NEW]:
            frames = [f for f in reader.stack_frames(int(event["ref"])) if f.kind in LUA_KINDS]
            lua += bool(frames)
            line += bool(frames) and frames[0].line == 2
    return kinds, lua, line


def test_without_lua(tmp_path: Path) -> None:
    """The same blocks, with C stacks; the virtual machine is not examined."""
    kinds, lua, _ = recorded(tmp_path, "plain", "--trace-mem=no", "--lua=no")
    full, full_lua, line = recorded(tmp_path, "full", "--trace-mem=no")
    assert line >= 200 and full_lua >= 200 and full[TYPE] > 200 and full[STATE] > 0
    assert lua == kinds[TYPE] == kinds[STATE] == 0
    for kind in (NEW, FREE, RESIZE):
        assert kinds[kind] == full[kind], "the heap is the same"


def test_without_states(tmp_path: Path) -> None:
    """Lines and types are unchanged, also in the collector's work, which is otherwise recognised by
    states."""
    kinds, lua, line = recorded(tmp_path, "stateless", "--lua-states=no")
    full, full_lua, full_line = recorded(tmp_path, "full")
    assert kinds[STATE] == 0 and full[STATE] > 0
    assert (lua, line) == (full_lua, full_line) and line >= 200
    for kind in (NEW, FREE, RESIZE, TYPE):
        assert kinds[kind] == full[kind]


def test_options_are_documented() -> None:
    page = (SOURCE / "docs/ljtrace.1").read_text()
    assert r"\-\-lua=" in page and r"\-\-lua\-states=" in page
