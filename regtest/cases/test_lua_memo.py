"""test_lua_memo - stacks of Lua that are found without a walk are the same as if they were walked.

The tool's own check (--check-stacks=yes) walks for every stack that it has found, and stops if it differs. Most stacks
must be found, because otherwise little would have been compared.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
from pathlib import Path

import pytest

from steve.trace._memtrace import NEW
from support import SOURCE, record
from test_lua_lines import events, lua_frames

SAID = re.compile(r"(\d+) Lua stacks, of which (\d+) were found without a walk")
SCRIPTS = (
    "coroutines",
    "ffi_callback",
    "gc_churn",
    "jit_allocs",
    "jit_exits",
    "jit_flush",
    "jit_recursion",
    "load",
    "meta_call",
    "meta_gc",
    "parser",
    "recursion",
    "tailcalls",
    "varargs",
)
PROGRAMS = {"closures": 5000, "coroutines": 5000, "trees": 9, "parsing": 200}


def checked(tmp_path: Path, argv: list[object], *options: str) -> tuple[int, int]:
    """The number of stacks, and of those found without a walk."""
    trace = record(tmp_path / "x.ljt", argv, "--trace-mem=no", "--check-stacks=yes", *options)
    assert trace.run.status == 0, trace.run.complaint
    said = SAID.search(trace.run.complaint)
    assert said, trace.run.complaint
    return int(said[1]), int(said[2])


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("jit", ("-jon", "-joff"))
def test_scripts(script: str, jit: str, tmp_path: Path) -> None:
    taken, known = checked(tmp_path, ["luajit", jit, SOURCE / f"regtest/lua/{script}.lua"])
    assert 0 < known < taken


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("depth", (2, 12, 40, 200))
def test_programs(program: str, depth: int, tmp_path: Path) -> None:
    """The result does not depend on how many frames are kept."""
    argv: list[object] = ["luajit", SOURCE / f"regtest/bench/{program}.lua", PROGRAMS[program]]
    taken, known = checked(tmp_path, argv, f"--stack-depth={depth}")
    assert known > taken / 2 or depth > 12


def test_frames_do_not_take_each_others_names(tmp_path: Path) -> None:
    """More places than the cache has entries: the C function under which the script runs keeps its name,
    although many of them share its entry."""
    path = tmp_path / "places.lua"
    path.write_text("local keep = {}\n" + "keep[1] = {}\n" * 20000)
    trace = record(tmp_path / "t.ljt", ["luajit", path], "--trace-mem=no", "--check-stacks=yes")
    assert trace.run.status == 0, trace.run.complaint
    stacks = [
        [frame.line for frame in lua_frames(reader, int(event["ref"]))] for reader, event in events(trace.path, (NEW,))
    ]
    ours = [lines for lines in stacks if lines and lines[0] > 1]
    assert len(ours) >= 20000 and all(len(lines) == 1 for lines in ours)
