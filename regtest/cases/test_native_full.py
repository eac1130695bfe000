"""test_native_full - programs that make events faster than the native recorder can write them (--when-full).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import BADFREE, FREE, NEW, RESIZE
from steve.trace._memtrace import Trace as Reader
from support import (
    NATIVE,
    SECONDS,
    Done,
    Trace,
    child_of,
    collectors_of,
    good,
    run,
    settled,
    started,
    steve,
    wait_for,
)

HURRIED = NATIVE / "hurried"
PAIRS = 400_000  # by each of two threads: half as many records again as the ring holds
KINDS = ("allocations", "frees", "resizes")
IMPLIED = 16  # a bit beside `how`


class Hurried:
    """The program, recorded with a collector that is stopped while most of the events are made."""

    def __init__(self, tmp_path: Path, *options: str, argv: tuple[object, ...] = (), ending: str = "end") -> None:
        self.path, self.gate = tmp_path / "t.ljt", tmp_path / "gate"
        program = argv or (HURRIED, self.gate, 2, PAIRS)
        command = ["ljtrace", "run", f"--out={self.path}", *options, *program]
        with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            wait_for(lambda: collectors_of(self.path), "the collector runs")
            (collector,) = collectors_of(self.path)
            os.kill(collector, signal.SIGSTOP)
            try:
                self.gate.touch()
                assert process.stdout.readline() == b"done\n", "the program does not wait"
                if ending == "kill":
                    os.kill(child_of(process.pid, program[0]), signal.SIGKILL)
            finally:
                os.kill(collector, signal.SIGCONT)
            wait_for(lambda: caught_up(collector), "the collector has caught up")
            self.gate.unlink()
            out, err = process.communicate(timeout=SECONDS)
            self.trace = Trace(self.path, Done(process.returncode, out, err)).check()

    def lost(self) -> dict[str, int]:
        return json.loads(steve("summary", "--json", self.path).text)["lost"]


def caught_up(collector: int) -> bool:
    """Has the collector ended, or do its threads sleep and have used no processor time lately? A thread that only waits
    for a processor does not sleep."""

    def states() -> list[tuple[str, ...]]:
        fields = (
            stat.read_text().rpartition(")")[2].split() for stat in Path(f"/proc/{collector}/task").glob("*/stat")
        )
        return [(found[0], found[11], found[12]) for found in fields]

    try:
        before = states()
        time.sleep(0.3)
        return states() == before and all(state == "S" for state, *_ in before)
    except OSError:
        return True


def recorded(trace: Trace) -> Counter[str]:
    """Numbers of the events of hurried's threads."""
    found: Counter[str] = Counter()
    for batch in Reader(str(trace.path)).batches():
        ours = batch[((batch["size"] == 24) | (batch["size"] == 40)) & (batch["how"] & IMPLIED == 0)]
        for name, kind in (("new", NEW), ("free", FREE), ("resize", RESIZE)):
            found[name] += int((ours["kind"] == kind).sum())
    return found


def count(path: Path, kind: int, size: int | None = None) -> int:
    """Number of the events of a kind, or of those of blocks of a size. There are too many to list them as text."""
    of_kind = (batch[batch["kind"] == kind] for batch in Reader(str(path)).batches())
    return sum(len(found) if size is None else int((found["size"] == size).sum()) for found in of_kind)


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Hurried:
    return Hurried(tmp_path_factory.mktemp("full"), "--when-full=drop")


def test_every_dropped_event_is_counted(hurried: Hurried) -> None:
    lost, kept = hurried.lost(), recorded(hurried.trace)
    made = {"allocations": 2 * PAIRS, "frees": 2 * PAIRS, "resizes": 2 * PAIRS // 16}
    assert all(lost[kind] > made[kind] / 10 for kind in KINDS), "the ring was full"
    # the stacks of threads and the like are allocated and freed in the gap, too
    assert 0 <= kept["new"] + lost["allocations"] - made["allocations"] < 20
    assert 0 <= kept["resize"] + lost["resizes"] - made["resizes"] < 20
    orphans = json.loads(steve("info", "--json", hurried.path).text)["recording"].get("orphan_frees", "0")
    assert -20 < kept["free"] + lost["frees"] + int(orphans) - made["frees"] < 20


def test_records_of_the_gap(hurried: Hurried) -> None:
    """LOST records have the numbers by kind, and nothing that follows from the gap is an error of the program."""
    dump = good(["steve", "dump", hurried.path]).text
    strings = dict(re.findall(r'^string id=(\d+) text="ring full: (\w+)"', dump, re.MULTILINE))
    sums: Counter[str] = Counter()
    for events, string in re.findall(r"^lost events=(\d+) string=(\d+) ", dump, re.MULTILINE):
        sums[strings[string]] += int(events)
    assert {kind: sums[kind] for kind in KINDS} == {kind: hurried.lost()[kind] for kind in KINDS}
    assert count(hurried.path, BADFREE) == 0
    around = {kind: count(hurried.path, kind, 1000) for kind in (NEW, FREE)}
    assert around == {NEW: 100, FREE: 100}, "what is before and after the gap is recorded"


@pytest.mark.parametrize("command", ["summary", "leaks", "sites", "lines", "info", "check", "flame", "lifetimes"])
def test_views_say_what_is_missing(command: str, hurried: Hurried) -> None:
    done = run(["steve", command, hurried.path])
    total = sum(hurried.lost().values())
    assert done.status == 0 and f"{total:,} events are missing" in done.complaint
    assert "counts as live until" in done.complaint


def test_headings_and_exports_say_that_events_are_missing(hurried: Hurried, tmp_path: Path) -> None:
    short = f"({sum(hurried.lost().values()):,} events are missing)"
    assert short in steve("leaks", hurried.path).text and short in steve("summary", hurried.path).text
    for ending in ("callgrind", "massif", "dhat"):
        target = tmp_path / f"out.{ending}"
        steve("export", "--format", ending, hurried.path, "-o", target)
        assert short in target.read_text()


def test_check_is_sound_and_says_so(hurried: Hurried) -> None:
    report = json.loads(steve("check", "--json", hurried.path).text)
    assert report["sound"] and report["lost"] == hurried.lost()
    assert re.search(r"^note .* events are missing", steve("check", hurried.path).text, re.MULTILINE)
    summary = json.loads(steve("summary", "--json", hurried.path).text)
    assert not summary["complete"] and summary["dropped"] == sum(summary["lost"].values())
    recording = json.loads(steve("info", "--json", hurried.path).text)["recording"]
    assert recording["when_full"] == "drop" and int(recording["lost_frees"]) == report["lost"]["frees"]


def test_killed_in_the_gap(tmp_path: Path) -> None:
    """The numbers are not lost with the program."""
    found = Hurried(tmp_path, "--when-full=drop", ending="kill")
    lost, kept = found.lost(), recorded(found.trace)
    assert found.trace.ending() == "killed"
    assert 0 <= kept["new"] + lost["allocations"] - 2 * PAIRS < 20


def test_sample_with_gaps(tmp_path: Path) -> None:
    found = Hurried(tmp_path, "--when-full=drop", "--sample=16")
    assert found.lost()["allocations"] > PAIRS / 10
    assert count(found.path, BADFREE) == 0


LUA = """
local gate, pairs, ffi = arg[1], tonumber(arg[2]), require "ffi"
ffi.cdef "int access(const char *, int); int usleep(unsigned);"
-- without events, so that the collector can catch up
local function exists() ffi.C.usleep(1000) return ffi.C.access(gate, 0) == 0 end
io.write("ready\\n") io.flush()
while not exists() do end
local sum = 0
for i = 1, pairs do
    local t = {i, {i}}
    local f = loadstring("return " .. i % 5000) -- prototypes, whose blocks are used again
    sum = sum + #t + f()
end
io.write("done\\n") io.flush()
while exists() do end
for i = 1, 1000 do sum = sum + #{i, i} end
print(sum)
"""


def test_lua(tmp_path: Path) -> None:
    """LuaJIT goes on as without the recorder, and the trace is sound."""
    script = tmp_path / "hurried.lua"
    script.write_text(LUA)
    found = Hurried(tmp_path, "--when-full=drop", argv=("luajit", script, tmp_path / "gate", 60_000))
    assert found.trace.run.status == 0 and int(found.trace.run.out) > 0
    assert found.lost()["allocations"] > 1000
    assert "hurried.lua" in steve("lines", found.path).text


def test_attached(tmp_path: Path) -> None:
    path, gate = tmp_path / "t.ljt", tmp_path / "gate"
    with started([HURRIED, gate, 2, PAIRS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        options = [f"--out={path}", "--when-full=drop"]
        with started(["ljtrace", "attach", *options, process.pid], stderr=subprocess.PIPE) as recorder:
            assert recorder.stderr is not None and b"recording process" in recorder.stderr.readline()
            (collector,) = collectors_of(path)
            os.kill(collector, signal.SIGSTOP)
            gate.touch()
            assert process.stdout.readline() == b"done\n"
            os.kill(collector, signal.SIGCONT)
            gate.unlink()
            assert process.wait(timeout=SECONDS) == 0 and recorder.wait(timeout=SECONDS) == 0
    Trace(path, Done(0, b"", b"")).check()
    assert json.loads(steve("summary", "--json", path).text)["lost"]["allocations"] > PAIRS / 10
    assert count(path, BADFREE) == 0


def test_program_waits_by_default(tmp_path: Path) -> None:
    """With a stopped collector it makes no progress; when that goes on, nothing is missing."""
    path, gate = tmp_path / "t.ljt", tmp_path / "gate"
    command = ["ljtrace", "run", f"--out={path}", HURRIED, gate, 2, PAIRS]
    with started(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        wait_for(lambda: collectors_of(path), "the collector runs")
        (collector,) = collectors_of(path)
        os.kill(collector, signal.SIGSTOP)
        gate.touch()
        program = child_of(process.pid, HURRIED)
        tasks = Path(f"/proc/{program}/task")
        wait_for(lambda: all("futex" in (t / "wchan").read_text() for t in tasks.iterdir()), "all threads wait")
        os.kill(collector, signal.SIGCONT)
        assert process.stdout.readline() == b"done\n"
        gate.unlink()
        assert process.wait(timeout=SECONDS) == 0
    settled(path)
    trace = Trace(path, Done(0, b"", b"")).check()
    assert recorded(trace)["new"] == 2 * PAIRS and "lost" not in json.loads(steve("summary", "--json", path).text)
