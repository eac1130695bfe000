"""test_control - what a program, its user and the kernel can make the recorder do: on, off, marks, forks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from support import NATIVE, SECONDS, Trace, monitor, record, recorder, run, settled, started, steve, wait_for, words

REQUESTS = NATIVE / "requests"
BLOCK, OTHER = "60001", "60003"


def stores(trace: Trace) -> list[int]:
    """Offsets of the stores to the program's block."""
    return [int(w[3]) for w in words(trace.view("blocks", BLOCK)) if w[0] == "S"]


def marks(trace: Trace) -> int:
    return sum(e[0] == "mark" for e in trace.events())


def facts(trace: Trace) -> dict[str, str]:
    return json.loads(steve("info", "--json", trace.path).text)["recording"]


def heap_events(trace: Trace) -> list[str]:
    return [e[0] for e in trace.events() if e[0] != "mark"]


def test_requests_switch_accesses_on_and_off(tmp_path: Path) -> None:
    always = record(tmp_path / "a.ljt", [REQUESTS, "switch"])
    assert stores(always) == [1, 2]  # on from the start; the program's STOP ends it
    later = record(tmp_path / "b.ljt", [REQUESTS, "switch"], "--start-off=yes")
    assert stores(later) == [2]
    assert heap_events(later) == heap_events(always)
    assert marks(always) == 2  # the program's own, and one for `off`
    assert marks(later) == 4


def test_what_was_switched_off_is_not_zero(tmp_path: Path) -> None:
    """Accesses that were never on were not recorded, and those of a part of the run judge no block and no gate."""
    script = ["luajit", "-e", "local t = {} for i = 1, 100 do t[i] = {i} end"]
    never = record(tmp_path / "n.ljt", script, "--start-off=yes")
    assert facts(never)["accesses"] == "none"
    assert json.loads(steve("summary", "--json", never.path).text)["events"]["load"] is None
    always = record(tmp_path / "a.ljt", script)
    assert "accesses" not in facts(always)
    part = record(tmp_path / "p.ljt", [REQUESTS, "switch"], "--start-off=yes")
    assert facts(part)["accesses"] == "part"
    assert "in a part of the run only" in json.loads(steve("summary", "--json", part.path).text)["not_recorded"][0]
    for trace in (never, part):
        assert "Never accessed:" not in steve("findings", trace.path).text
        done = run(["steve", "check", "--fail-if=errors > 0", trace.path])
        assert done.status == 2 and "cannot be judged: accesses were" in done.complaint
        page = tmp_path / "page.html"
        steve("report", trace.path, "-o", page, "-f")
        assert "ever accesses" not in page.read_text() and "ever accessed:" not in page.read_text()
    assert run(["steve", "check", "--fail-if=errors > 0", always.path]).status == 0


def test_requests_do_nothing_outside_valgrind() -> None:
    assert run([REQUESTS, "switch"]).status == 0


@pytest.mark.parametrize("lua", ["yes", "no"])
def test_names_that_cannot_be_read(lua: str, tmp_path: Path) -> None:
    """Marks at address 0, at an invalid address, or without an end before an unmapped page."""
    plain = run([NATIVE / "badnames"])
    trace = record(tmp_path / "t.ljt", [NATIVE / "badnames"], f"--lua={lua}")
    assert plain.status == 7 and plain.text.count("open 14") == 3
    assert (trace.run.status, trace.run.out) == (plain.status, plain.out)
    assert marks(trace) == 3 and trace.ending() == "exit"
    assert [e[0] for e in trace.events() if e[3:4] == ["60007"]] == ["new", "free"]


def children(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.name != "t.ljt" and p.suffix != ".part")


def test_a_forked_child_has_a_trace_of_its_own(tmp_path: Path) -> None:
    parent = record(tmp_path / "t.ljt", [REQUESTS, "fork"])
    assert parent.run.status == 0
    # the file of system()'s child goes when the collector has seen its exec
    wait_for(lambda: len(children(tmp_path)) == 1, "the child has a file")
    (path,) = children(tmp_path)
    settled(path)
    child = Trace(path, parent.run).check()
    assert "not in this file" in run(["steve", "summary", parent.path]).complaint
    assert [e[0] for e in parent.events() if e[3] == OTHER] == []
    inherited, *_ = [e for e in child.events() if e[0] == "new"]
    assert [e[0] for e in child.events() if e[3] == BLOCK] == ["new", "free"]
    assert inherited[3] == BLOCK
    assert sum(e[0] == "new" and e[3] == OTHER for e in child.events()) == 1000
    assert [(w[0], w[3]) for w in words(child.view("blocks", BLOCK))] == [("S", "7")]


def test_forked_children_can_be_left_out(tmp_path: Path) -> None:
    parent = record(tmp_path / "t.ljt", [REQUESTS, "fork"], "--trace-fork=no")
    assert parent.run.status == 0
    assert children(tmp_path) == []


def test_the_kernels_accesses_are_exact(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [REQUESTS, "kernel"])
    length = len(trace.run.out)
    accesses = [(w[0], int(w[3]), int(w[4])) for w in words(trace.view("blocks", BLOCK))]
    assert accesses == [("S", 100, length), ("L", 100, length)]
    assert ("L", 0, len("/proc/self/comm") + 1) in [
        (w[0], int(w[3]), int(w[4])) for w in words(trace.view("blocks", OTHER))
    ]


@pytest.mark.parametrize("option", [(), ("--trace-children=yes",)], ids=["", "trace-children"])
def test_monitor_commands_and_forked_children(option: tuple[str, ...], tmp_path: Path) -> None:
    """Valgrind serves children with --trace-children=yes; otherwise the parent reports that it does not."""
    wait = "my $p = fork; if (!$p) { sleep 1 while !-e $ARGV[0]; exit } waitpid $p, 0"
    with started([*recorder(tmp_path / "t.ljt", *option), "perl", "-e", wait, tmp_path / "stop"]) as traced:
        try:
            wait_for(lambda: "recording to" in monitor(traced.pid, "status"), "vgdb reaches the recorder")
            wait_for(lambda: list(tmp_path.glob("t.*.ljt.part")), "the child records")
            child = int(next(tmp_path.glob("t.*.ljt.part")).name.split(".")[1])
            answers = monitor(traced.pid, "status"), monitor(child, "status")
        finally:
            (tmp_path / "stop").touch()
        assert traced.wait(timeout=SECONDS) == 0
    assert ("vgdb reaches them only if" in answers[0], f"recording to {tmp_path}/t." in answers[1]) == (
        not option,
        bool(option),
    ), answers


def test_monitor_commands(tmp_path: Path) -> None:
    path, stop = tmp_path / "t.ljt", tmp_path / "stop"
    with started([*recorder(path), REQUESTS, "wait", stop]) as traced:
        wait_for(lambda: "recording to" in monitor(traced.pid, "status"), "vgdb reaches the recorder")
        assert "accesses on" in monitor(traced.pid, "status")
        monitor(traced.pid, "off")
        assert "accesses off" in monitor(traced.pid, "status")
        monitor(traced.pid, "on")
        monitor(traced.pid, "mark halfway there")
        assert "needs a NAME" in monitor(traced.pid, "mark")
        monitor(traced.pid, "stop")
        for command in ("status", "on", "mark too late", "snapshot", "stop"):
            assert "recording has ended" in monitor(traced.pid, command)
        assert "mark NAME" in monitor(traced.pid, "help")
        stop.touch()
        assert traced.wait(timeout=SECONDS) == 0
    trace = Trace(path, run(["true"])).check()
    assert trace.ending() == "stopped"
    assert marks(trace) == 3
