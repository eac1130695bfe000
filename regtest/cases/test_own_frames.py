"""test_own_frames - what belongs to the recorder is neither in stacks nor among the blocks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from steve.trace._memtrace import FREE, NEW, RESIZE, SAMPLE
from steve.trace._memtrace import Trace as Reader
from support import NATIVE, Trace, record, steve
from test_native_lua import natively

EVENTS = (NEW, RESIZE, FREE, SAMPLE)
PLAIN = """\
local function walk(depth)
    if depth == 0 then return {} end
    local below = walk(depth - 1)
    return {below}
end
local co = coroutine.wrap(function() coroutine.yield(walk(50)) end)
co() walk(200)
"""
PROFILED = """\
local misc = require 'ljtrace.misc'
misc.memprof.start(arg[1])
local keep = {}
for i = 1, 100 do keep[i] = {i} end
misc.memprof.stop()
"""


def objects_of(path: Path) -> set[str]:
    """The object files of all frames of events, except those of the innermost frames, which are the functions that the
    program has called."""
    reader, stacks = Reader(str(path)), set()
    for batch in reader.batches():
        for kind in EVENTS:
            stacks |= set(batch["ref"][batch["kind"] == kind].tolist())
    return {frame.object for stack in stacks for frame in reader.stack_frames(stack)[1:]}


def check(trace: Trace) -> None:
    objects = objects_of(trace.path)
    assert objects - {""} and not [path for path in objects if "ljtrace" in path]
    export = trace.path.with_suffix(".folded")
    steve("export", "--format=folded", "--keep-alloc-fns", trace.path, "-o", export)
    text = export.read_text()
    assert text and not [line for line in text.splitlines() if "ljtrace" in line or "on_new" in line]


@pytest.mark.parametrize("script", [PLAIN, PROFILED], ids=["plain", "profiled"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "valgrind"])
def test_stacks_of_lua(script: str, native: bool, tmp_path: Path) -> None:
    program = tmp_path / "p.lua"
    program.write_text(script)
    argv = ["luajit", program, tmp_path / "m.bin"]
    check(natively(tmp_path / "t.ljt", argv) if native else record(tmp_path / "t.ljt", argv, "--trace-mem=no"))


def test_accesses_are_the_programs(tmp_path: Path) -> None:
    """The recorder's preload needs the addresses of states; no load of its own is in the trace."""
    program = tmp_path / "p.lua"
    program.write_text(PLAIN)
    trace = record(tmp_path / "t.ljt", ["luajit", program])
    rows = json.loads(steve("lines", "--json", trace.path).text)
    assert len(rows) > 20 and not [row for row in rows if "ljtrace/" in json.dumps(row)]


def test_threads_and_samples(tmp_path: Path) -> None:
    """The recorder replaces pthread_create, too."""
    check(natively(tmp_path / "t.ljt", ["--sample-stacks=1ms", NATIVE / "handover"]))


def totals(trace: Trace) -> tuple[int, int, int]:
    found = json.loads(steve("summary", trace.path, "--json").text)
    return found["blocks"]["total"], found["bytes"]["allocated"], found["states"]


@pytest.mark.parametrize("script", [PLAIN, PROFILED], ids=["plain", "profiled"])
def test_both_recorders_record_the_same_blocks(script: str, tmp_path: Path) -> None:
    """Each recorder, and the profilers, make a scratch state, which is not the program's. Without the compiler, whose
    blocks depend on addresses."""
    program = tmp_path / "p.lua"
    program.write_text(script)
    argv = ["luajit", "-joff", program, tmp_path / "m.bin"]
    native, traced = natively(tmp_path / "n.ljt", argv), record(tmp_path / "v.ljt", argv, "--trace-mem=no")
    assert totals(native) == totals(traced)
    assert totals(native)[2] == 1
