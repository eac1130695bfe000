"""test_output - where a trace goes and how much of it: files of several images, pipes, text, limits,
snapshots, functions to watch.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import signal
from pathlib import Path

import pytest

from support import (
    NATIVE,
    SECONDS,
    Done,
    Trace,
    collectors_of,
    good,
    monitor,
    numbers,
    record,
    recorder,
    run,
    settled,
    started,
    steve,
    wait_for,
    words,
)

HEAPS, REQUESTS = NATIVE / "heaps", NATIVE / "requests"
CONDUCT, LIMITED = NATIVE / "conduct", NATIVE / "limited"
SUPER = "80001"
NOTHING = Done(0, b"", b"")


def images(folder: Path, count: int) -> list[Trace]:
    """The traces in a folder, once they are all complete."""
    wait_for(lambda: len(list(folder.iterdir())) == count, f"{count} files in {folder}")
    paths = sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name))  # the first has no number
    for path in paths:
        settled(path)
    return [Trace(path, NOTHING).check() for path in paths]


@pytest.mark.parametrize("out,names", [("t.ljt", ["t.ljt", "t.2.ljt"]), ("%n.ljt", None), ("%p.ljt", None)])
def test_an_image_after_exec_has_its_own_file(out: str, names: list[str] | None, tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / out, "--trace-children=yes"), CONDUCT, "exec"])
    assert done.text.endswith("from the new image\n")
    first, second = images(tmp_path, 2)
    assert names is None or [first.path.name, second.path.name] == names
    assert {first.ending(), second.ending()} == {"exec", "exit"}


def test_another_run_replaces_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        record(tmp_path / "t.ljt", ["/bin/true"])
    assert [p.name for p in tmp_path.iterdir()] == ["t.ljt"]


def test_a_child_that_runs_a_traced_program(tmp_path: Path) -> None:
    """The shell's child is forked and executes another program: one file for the shell, one for the
    program."""
    done = run([*recorder(tmp_path / "%p.ljt", "--trace-children=yes"), "/bin/sh", "-c", f"{HEAPS} malloclike; exit 3"])
    assert done.status == 3
    traces = images(tmp_path, 2)
    assert sum(any(e[3] == SUPER for e in t.events()) for t in traces) == 1


def test_each_of_a_tree_of_processes_has_a_file(tmp_path: Path) -> None:
    """Without %p the first process writes the file; neither grandchildren nor programs of children replace
    it."""
    done = run([*recorder(tmp_path / "t.ljt"), "/bin/sh", "-c", "( ( echo a; : ); echo b; : ); echo c; exit 3"])
    assert (done.status, done.out) == (3, b"a\nb\nc\n")
    first, *others = images(tmp_path, 3)
    assert first.path.name == "t.ljt"
    assert [t.ending() for t in (first, *others)] == ["exit"] * 3


def test_programs_that_children_run_have_files(tmp_path: Path) -> None:
    """The shell waits for each program: one file is complete when the next begins."""
    script = f"{HEAPS} malloclike; {HEAPS} many; {HEAPS} malloclike; exit 3"
    done = run([*recorder(tmp_path / "t.ljt", "--trace-children=yes"), "/bin/sh", "-c", script])
    assert done.status == 3
    first, *others = images(tmp_path, 4)
    assert first.path.name == "t.ljt" and first.counts()["new"] > 0
    assert sum(any(e[3] == SUPER for e in t.events()) for t in (first, *others)) == 2
    assert sum(t.counts()["new"] >= 200000 for t in others) == 1


def test_a_command_takes_the_trace(tmp_path: Path) -> None:
    plain = record(tmp_path / "a.ljt", [HEAPS, "malloclike"])
    good([*recorder(Path(f"|cat > {tmp_path}/b.ljt")), HEAPS, "malloclike"])
    piped = Trace(tmp_path / "b.ljt", plain.run).check()
    assert piped.events() == plain.events()


@pytest.mark.parametrize("name", ["|cat >{}/t.ljt", "/dev/fd/7"])
def test_programs_that_are_started_leave_the_stream_alone(name: str, tmp_path: Path) -> None:
    """Their output would be mixed with that of the first process, or overwrite it."""
    path = tmp_path / "t.ljt"
    traced = [*recorder(Path(name.format(tmp_path)), "--trace-children=yes"), "/bin/sh", "-c", f"{HEAPS} many; exit 3"]
    done = run(["sh", "-c", '"$@" 7>"$0"', tmp_path / "other" if "cat" in name else path, *traced])
    assert done.status == 3
    assert done.complaint.count("with %p in its name") == 1, done.complaint
    assert 0 < Trace(path, done).check().counts()["new"] < 200000


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    done = run([*recorder(Path("|cat >/dev/null; exit 3")), HEAPS, "malloclike"])
    assert done.status == 0
    assert done.complaint.count("cannot write |cat >/dev/null; exit 3") == 1


def test_a_reader_that_goes_away_is_told() -> None:
    """The message describes the first error, not what could not be decoded after it."""
    done = run([*recorder(Path("|head -c 50000 >/dev/null")), HEAPS, "many"])
    assert done.status == 0
    assert done.complaint.count("its reader has ended") == 1, done.complaint


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_takes_the_trace(name: str, tmp_path: Path) -> None:
    done = good([*recorder(Path(name)), HEAPS, "malloclike"])
    (tmp_path / "t.ljt").write_bytes(done.out)
    assert len(Trace(tmp_path / "t.ljt", done).check().events()) == 8


def test_an_open_descriptor_takes_the_trace(tmp_path: Path) -> None:
    """As a shell's --out=>(COMMAND) passes it. A closed descriptor is an error, even if the recorder itself
    uses the number."""
    path = tmp_path / "t.ljt"
    done = good(["sh", "-c", '"$@" 7>"$0"', path, *recorder(Path("/dev/fd/7")), HEAPS, "malloclike"])
    assert len(Trace(path, done).check().events()) == 8
    for number in range(3, 10):
        done = run([*recorder(Path(f"/dev/fd/{number}")), HEAPS, "malloclike"])
        assert done.status == 1 and f"cannot write /dev/fd/{number}: Bad file descriptor" in done.complaint


def test_children_put_no_files_beside_a_device(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    done = run([*recorder(tmp_path / "null"), "/bin/sh", "-c", "( echo a; : ); exit 3"])
    assert (done.status, done.out) == (3, b"a\n")
    assert [p.name for p in tmp_path.iterdir()] == ["null"]


def test_live_text_is_the_traces_text(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "named"])
    done = good([*recorder(Path("-"), "--text=yes"), HEAPS, "named"])
    lines = done.text.splitlines()
    assert re.fullmatch(r"# ljtrace: process \d+@\d+", lines[0])
    expected = steve("memtrace", trace.path).text.splitlines()
    assert [x.split()[1::2] for x in lines[1:]] == [x.split()[1::2] for x in expected]  # addresses may differ
    assert len(expected) > 8


def test_text_is_read_by_the_tools(tmp_path: Path) -> None:
    done = good([*recorder(tmp_path / "t.txt", "--text=yes"), HEAPS, "many"])
    assert numbers(steve("summary", "--json", tmp_path / "t.txt").text) is not None
    assert done.status == 0
    steve("check", tmp_path / "t.txt")
    lines = (tmp_path / "t.txt").read_text().splitlines()
    assert sum(line.startswith(">>> N") for line in lines) == 200000


KINDS = ("new", "free", "resize", "load", "store", "modify")


def missing(trace: Trace, whole: Trace, kinds: tuple[str, ...] = KINDS) -> int:
    """The number of events of a trace that are not in another one of the same program."""
    return sum(whole.counts()[k] - trace.counts()[k] for k in kinds)


@pytest.mark.parametrize("option", ["--trace-mem=yes", "--trace-mem=no"])
def test_size_limit(option: str, tmp_path: Path) -> None:
    """All missing events are counted, except accesses after the limit."""
    whole = record(tmp_path / "w.ljt", [HEAPS, "many"], option)
    trace = record(tmp_path / "t.ljt", [HEAPS, "many"], "--max-size=200k", option)
    assert trace.run.status == 0
    assert trace.ending() == "limit"
    assert 50 << 10 < trace.path.stat().st_size <= 200 << 10 < whole.path.stat().st_size
    dropped = trace.counts()["dropped"]
    assert missing(trace, whole, KINDS[:3]) <= dropped <= missing(trace, whole)
    assert option == "--trace-mem=yes" or dropped == missing(trace, whole)
    assert f"at least {dropped} events were dropped" in trace.run.complaint
    kept, _, last = trace.view("events").rstrip("\n").rpartition("\n")
    assert last.startswith("lost ") and whole.view("events").startswith(f"{kept}\n")


# Accesses that a program makes long after a limit of 200k, and the most that are recorded of them: the ring holds
# 3.4 million, and the code is translated anew within 100,000 superblocks.
LATER, RECORDED = 30_000_000, 8_000_000


def test_size_limit_ends_the_accesses(tmp_path: Path) -> None:
    """Events that would be dropped are not recorded. Heap events are, and instructions are counted as
    usual."""
    whole = record(tmp_path / "w.ljt", [LIMITED, LATER, 100], "--trace-mem=no")
    trace = record(tmp_path / "t.ljt", [LIMITED, LATER, 100], "--max-size=200k")
    assert trace.ending() == "limit" and trace.run.out == whole.run.out
    assert trace.counts()["new"] < 10
    assert 2 * 100 < trace.counts()["dropped"] < RECORDED
    limited, unlimited = (json.loads(steve("summary", "--json", x.path).text) for x in (trace, whole))
    assert limited["dropped_at_least"] and not unlimited["dropped_at_least"]
    assert limited["instructions"] == unlimited["instructions"]


def test_child_of_a_process_at_its_limit(tmp_path: Path) -> None:
    """The child has a file of its own, with its accesses: code is translated again."""
    parent = record(tmp_path / "t.ljt", [LIMITED, LATER, 0, "fork"], "--max-size=200k")
    assert parent.ending() == "limit" and parent.counts()["dropped"] < RECORDED
    _, child = images(tmp_path, 2)
    assert child.ending() == "exit"
    assert child.counts()["store"] == 1000


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_control_of_a_process_at_its_limit(killed: bool, tmp_path: Path) -> None:
    """Nothing that follows does harm: commands, the end of the recording, the end of its collector."""
    path, stop, said = tmp_path / "t.ljt", tmp_path / "stop", tmp_path / "said"
    with open(said, "wb") as err, started(
        [*recorder(path, "--max-size=200k"), LIMITED, LATER, 1000, stop], stderr=err
    ) as traced:
        wait_for(lambda: "dropped since --max-size" in monitor(traced.pid, "status"), "the limit is reached")
        for command in ("off", "on", "mark later", "snapshot"):
            monitor(traced.pid, command)
        assert "accesses dropped since --max-size" in monitor(traced.pid, "status")
        if killed:
            os.kill(*collectors_of(path), signal.SIGKILL)
        else:
            monitor(traced.pid, "stop")
            assert "recording has ended" in monitor(traced.pid, "on")
        stop.touch()
        assert traced.wait(timeout=SECONDS) == 0
    assert (b"recording ended: the collector was killed" in said.read_bytes()) == killed
    assert killed or Trace(path, run(["true"])).check().ending() == "limit"


@pytest.mark.parametrize("size", ["1k", "-5", "", "12x", "5mm"])
def test_silly_limits_are_refused(size: str, tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / "t.ljt", f"--max-size={size}"), "true"])
    assert done.status == 1 and "--max-size takes" in done.complaint


def test_limit_that_is_not_reached(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "malloclike"], "--max-size=1m")
    assert trace.ending() == "exit" and trace.counts()["dropped"] == 0


def offsets(trace: Trace) -> list[int]:
    return [int(w[3]) for w in words(trace.view("blocks", SUPER)) if w[0] == "S"]


def test_functions_to_watch(tmp_path: Path) -> None:
    """51: after a longjmp, the call ends at the next return."""

    def watch(*patterns: str) -> list[int]:
        options = [f"--toggle-fn={p}" for p in patterns]
        return offsets(record(tmp_path / "t.ljt", [HEAPS, "toggle"], *options))

    assert watch() == [10, 20, 21, 22, 30, 40, 41, 42, 51, 60, 70, 80]
    assert watch("watched_one") == [20, 21, 22]
    assert watch("watched_*") == [20, 21, 22, 40, 41, 42, 51, 70]
    assert watch("watched_one", "deeper") == [20, 21, 22, 51]


def test_functions_of_cxx_to_watch(tmp_path: Path) -> None:
    """By the name in the source, with or without parameters."""

    def watch(pattern: str) -> list[int]:
        return offsets(record(tmp_path / "t.ljt", [NATIVE / "methods"], f"--toggle-fn={pattern}"))

    assert watch("shop::Till::put") == watch("shop::Till::put(int) const") == watch("shop::*::put") == [10, 11]
    assert watch("shop::Till::operator()") == [20, 21]
    assert watch("shop::each") == watch("shop::each(void (*)(int))") == [10, 11, 30]
    assert watch("shop::Till") == []


def test_no_function_of_that_name(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "toggle"], "--toggle-fn=nonesuch")
    assert "no function matched" in trace.run.complaint
    assert offsets(trace) == [] and trace.counts()["new"] >= 1


def statistics(pid: int, command: str) -> list[int]:
    """Events, live blocks, bytes written, as a monitor command prints them; empty if it prints none."""
    found = re.search(r"(\d+) events, (\d+) live blocks, (\d+) bytes", monitor(pid, command))
    return [int(number) for number in found.groups()] if found else []


def test_snapshot_and_status(tmp_path: Path) -> None:
    """What was recorded before a snapshot can be read while the program continues."""
    path, stop = tmp_path / "t.ljt", tmp_path / "stop"
    with started([*recorder(path), REQUESTS, "wait", stop]) as traced:
        wait_for(lambda: statistics(traced.pid, "status") >= [20], "the recorder reports 20 events")
        events, _, size = statistics(traced.pid, "snapshot")
        assert events >= 20 and size <= os.path.getsize(path)
        seen = run([NATIVE / "traceview", "events", path])
        assert "cut" in seen.complaint or "truncated" in seen.complaint or seen.status == 1
        assert len(seen.text.splitlines()) >= 2
        stop.touch()
        traced.wait(timeout=SECONDS)
    assert Trace(path, NOTHING).check().ending() == "exit"
