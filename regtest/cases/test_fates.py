"""test_fates - processes that end, replace or disturb themselves do the same under the recorder, and their
traces are valid.

Outputs and status equal those of an untraced run. The trace passes every check, says how the process ended, and
holds the events before and, where the process lives, after what happened. Kills from outside are in test_kill,
trouble with files and folders in test_places.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import shutil
from pathlib import Path

import pytest

from support import NATIVE, Done, Trace, record, run, settled, wait_for, words

FATES = NATIVE / "fates"
BEFORE, AFTER = "12347", "43211"
STORMS = int(os.environ.get("LJTRACE_FAULTS") or 1)
ENDING = ("_exit", "quick_exit", "handled-term")
LIVING = (
    "vfork-exec",
    "posix_spawn",
    "system",
    "failing-exec",
    "sigchld",
    "wait-any",
    "close-all",
    "limit-nofile",
    "limit-fsize",
    "dlopen",
    "sigaltstack",
    "longjmp",
    "64-threads",
    "seccomp",
    "seccomp-kill",
)


def fate(mode: str, folder: Path) -> Trace:
    trace = record(folder / "t.ljt", [FATES, mode])
    plain = run([FATES, mode])
    assert plain.status not in (2, 99) and plain.status >= 0, "the test program itself failed"
    unchanged(trace.run, plain)
    return trace


def unchanged(traced: Done, plain: Done) -> None:
    assert (traced.status, traced.out) == (plain.status, plain.out)
    assert traced.err_of_program == plain.err


def sizes(trace: Trace) -> list[str]:
    return [e[3] for e in trace.events() if e[0] == "new"]


@pytest.mark.parametrize("mode", ENDING)
def test_ways_to_end(mode: str, tmp_path: Path) -> None:
    trace = fate(mode, tmp_path)
    assert trace.ending() == "exit"
    assert BEFORE in sizes(trace) and AFTER not in sizes(trace)


def test_handler_of_the_last_signal_is_seen(tmp_path: Path) -> None:
    assert "3015" in sizes(fate("handled-term", tmp_path))


@pytest.mark.parametrize("mode", LIVING)
def test_ways_to_live_on(mode: str, tmp_path: Path) -> None:
    trace = fate(mode, tmp_path)
    assert trace.ending() == "exit"
    assert sizes(trace).count(BEFORE) == 1 and sizes(trace).count(AFTER) == 1


def test_threads_blocks_are_all_there(tmp_path: Path) -> None:
    trace = fate("64-threads", tmp_path)
    events = trace.events()
    made = [e for e in events if e[0] == "new" and e[5] == "malloc" and 0 < int(e[3]) <= 300]
    assert len(made) >= 64 * 300
    assert len({e[7] for e in made}) >= 64, "threads are distinguished"
    freed_elsewhere = {e[1]: e[7] for e in made}
    assert any(e[0] == "free" and freed_elsewhere.get(e[1], e[7]) != e[7] for e in events)


def test_everything_at_once(tmp_path: Path) -> None:
    """64 threads, signals on stacks on the heap, children that allocate and children that execute another
    program: each process except the latter has a trace. `make faults` repeats this."""
    plain = run([NATIVE / "storm"])
    assert plain.text == "handled 320, ended 8, executed 8\n"
    for turn in range(STORMS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        trace = record(folder / "t.ljt", [NATIVE / "storm"])
        unchanged(trace.run, plain)
        assert trace.ending() == "exit"
        counted = [w[0] for w in words(trace.view("blocks", "60123"))].count("M")
        assert counted == 320
        made = [e for e in trace.events() if e[0] == "new" and e[5] == "malloc" and 0 < int(e[3]) <= 300]
        assert len(made) >= 64 * 60 * 5
        check_children(folder, 8)
        shutil.rmtree(folder)


def check_children(folder: Path, count: int) -> None:
    """Their traces are complete once their collectors have ended. Children that executed another program
    leave none."""

    def traces() -> list[Path]:
        return [p for p in folder.iterdir() if p.name != "t.ljt"]

    wait_for(lambda: len(traces()) == count and all(p.suffix != ".part" for p in traces()), "children have traces")
    for path in traces():
        settled(path)
        assert Trace(path, run(["true"])).check().ending() == "exit"


def test_jumped_over_blocks_stay_live(tmp_path: Path) -> None:
    """200 jumps over 21 frames each, and as many calls that return."""
    trace = fate("longjmp", tmp_path)
    small = [e for e in trace.events() if 0 < int(e[3]) <= 21]
    assert sum(e[0] == "new" for e in small) == 400 * 21
    assert sum(e[0] == "free" for e in small) == 200 * 21


def test_handler_on_a_heap_stack(tmp_path: Path) -> None:
    """The kernel stores each signal's frame there."""
    trace = fate("sigaltstack", tmp_path)
    stores = [w for w in words(trace.view("blocks", "65536")) if w[0] == "S"]
    assert sum(int(w[4]) > 400 for w in stores) == 100
    assert trace.counts()["modify"] + min(trace.counts()["load"], trace.counts()["store"]) >= 100


def test_exceptions(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "throws"])
    plain = run([NATIVE / "throws"])
    unchanged(trace.run, plain)
    assert plain.text.count("caught 200, alive 0") == 4
    assert trace.counts()["new"] > 4 * 200 * 16


def test_what_a_new_handler_made_room_for_is_news(tmp_path: Path) -> None:
    """operator new failed, then got the block from malloc: the block is recorded again, and its delete is no
    error."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "refused"])
    assert [e[0] for e in trace.events() if e[0] in ("new", "free") and "4321" in e[3:4]].count("new") == 2
    assert trace.counts()["badfree"] == 0
