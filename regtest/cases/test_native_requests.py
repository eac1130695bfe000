"""test_native_requests - marks and snapshots of C programs and Lua scripts that the native recorder records.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
from pathlib import Path

import pytest

from steve.trace._memtrace import MARK
from steve.trace._memtrace import Trace as Reader
from support import SOURCE, Done, Trace, good, record, run, started, steve
from test_native import natively
from test_universe import FLAGS, NAMES, rows, universe
from test_universe import SCRIPT as UNIVERSE

PROGRAM = """
#include "ljtrace/ljtrace.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *other(void *x) { LJTRACE_MARK("other thread"); return x; }
int main(int argc, char **argv) {
    static char longest[3000];
    pthread_t thread;
    (void)argv;
    if (argc > 1) { puts("ready"); fflush(stdout); getchar(); }
    for (int i = 0; i < 2999; i++) longest[i] = 'x';
    LJTRACE_MARK("begin");
    free(malloc(70));
    LJTRACE_MARK("");
    LJTRACE_MARK(longest);
    LJTRACE_MARK((char *)8);
    LJTRACE_START();
    LJTRACE_STOP();
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    free(malloc(71));
    LJTRACE_MARK("end");
    return 3;
}
"""
MARKS = ["begin", "", "x" * 1000, "", "other thread", "end"]
WAYS = {
    "default": [],
    "no-pie": ["-no-pie", "-fno-pie"],
    "optimised": ["-O2", "-flto"],
    "C++": ["-x", "c++"],
    "bound at once": ["-O1", "-Wl,-z,now"],
    "static": ["-static"],
}


def program(tmp_path: Path, *options: str) -> Path:
    source = tmp_path / "p.c"
    source.write_text(PROGRAM)
    good(["gcc", "-w", "-g", "-pthread", f"-I{SOURCE}", *options, "-o", tmp_path / "p", source])
    return tmp_path / "p"


def marks(path: Path) -> list[str]:
    reader = Reader(str(path))
    return [reader.string(int(e["ref"])) for batch in reader.batches() for e in batch[batch["kind"] == MARK]]


@pytest.mark.parametrize("way", WAYS)
def test_marks_of_c(way: str, tmp_path: Path) -> None:
    """Programs need not be linked with anything, and do the same without the recorder."""
    binary = program(tmp_path, *WAYS[way])
    if way == "static":
        assert run([binary]).status == 3
        return
    assert run([binary]).status == 3
    trace = natively(tmp_path / "t.ljt", [binary])
    assert trace.run.status == 3 and marks(trace.path) == MARKS

    listed = steve("summary", "--json", trace.path, "--from", "other thread", "--to", "end").text
    assert '"allocated": 71' in listed


def test_the_same_marks_as_under_valgrind(tmp_path: Path) -> None:
    binary = program(tmp_path)
    theirs = marks(record(tmp_path / "v.ljt", [binary], "--trace-mem=no").path)
    assert [m for m in theirs if not m.startswith("ljtrace:")] == MARKS


def test_after_attaching(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with started([program(tmp_path), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        with started(["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE) as recorder:
            assert recorder.stderr is not None and b"recording process" in recorder.stderr.readline()
            process.communicate(b"\n", timeout=100)
            assert process.returncode == 3 and recorder.wait(timeout=100) == 0
    assert marks(Trace(path, Done(0, b"", b"")).check().path) == MARKS


SCRIPT = """
local t = require "ljtrace"
print(t.running())
local k = {}
t.start() t.stop()
t.mark "a"
for i = 1, 50 do k[i] = {} end
t.mark "b"
t.snapshot "later"
t.snapshot()
"""


@pytest.mark.parametrize("option", ["-jon", "-joff"])
def test_marks_of_lua(option: str, tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", ["luajit", option, "-e", SCRIPT])
    assert trace.run.out == b"true\n" and marks(trace.path) == ["a", "b", "later", "snapshot"]
    assert '"blocks": 5' in steve("leaks", trace.path, "--from", "a", "--to", "b", "--json").text


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_snapshots_of_lua(flags: list[str], tmp_path: Path) -> None:
    """The bytes of all objects and the internal ones are those that the state counts, as under Valgrind."""
    trace = natively(tmp_path / "t.ljt", ["luajit", *flags, UNIVERSE])
    assert trace.run.status == 0 and "ljtrace: snapshot" not in trace.run.complaint, trace.run.complaint
    counts = [tuple(map(int, line.split())) for line in trace.run.text.splitlines()]
    for (count, afterwards), name in zip(counts, NAMES, strict=True):
        found = universe(trace.path, "--snapshot", name)
        assert count <= found["gc_total"] <= afterwards <= count + 1024
        assert found["unaccounted"] == 0 and found["internal_bytes"] > 6000
        assert found["object_bytes"] == sum(r["bytes"] + r["dead_bytes"] for r in found["types"])


def test_the_same_objects_as_under_valgrind(tmp_path: Path) -> None:
    command = ["luajit", "-joff", UNIVERSE]
    ours = universe(natively(tmp_path / "n.ljt", command).path, "--snapshot", "before")
    theirs = universe(record(tmp_path / "v.ljt", command, "--trace-mem=no").path, "--snapshot", "before")
    for kind in ("tab", "proto", "thread", "udata", "upval"):
        mine, other = rows(ours, kind), rows(theirs, kind)
        unlike = {name: (mine.get(name), other.get(name)) for name in mine | other if mine.get(name) != other.get(name)}
        assert len(unlike) <= 2, unlike  # the recorder has attached a function to the state


def test_snapshot_in_a_sample_and_without_a_state(tmp_path: Path) -> None:
    script = 'require("ljtrace").snapshot "one"'
    trace = natively(tmp_path / "t.ljt", ["luajit", "-e", script], "--sample=1k")
    assert trace.run.status == 0 and "no snapshots are taken in a sample" in trace.run.complaint
    source = tmp_path / "p.c"
    source.write_text('#include "ljtrace/ljtrace.h"\nint main(void) { LJTRACE_SNAPSHOT(); return 4; }')
    good(["gcc", "-w", f"-I{SOURCE}", "-o", tmp_path / "p", source])
    alone = natively(tmp_path / "u.ljt", [tmp_path / "p"])
    assert alone.run.status == 4 and "a snapshot was not taken" in alone.run.complaint
