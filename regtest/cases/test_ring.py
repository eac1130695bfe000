"""test_ring - a recorded ring holds all that the collector is given, and its replay writes the same trace.

The collector's speed is measured on recorded rings (ljtrace/bench), so they have to be
complete. The trace must hold what native/inside.c prints, whichever program wrote it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import signal
from pathlib import Path

from support import BUILD, NATIVE, SOURCE, Done, Trace, run, started, wait_for
from test_inside import seen, truth
from test_kill import BOUND, after, counted, recorded

BENCH = BUILD / "ljtrace/bench/bench_ring"
RECORD = SOURCE / "ljtrace/bench/record-ring"


def replayed(ring: Path, made: Done) -> Trace:
    path = ring.with_suffix(".ljt")
    done = run([BENCH, "-n", "1", "-o", path, ring])
    assert done.status == 0, done.complaint
    return Trace(path, made).check()


def test_the_replay_writes_what_the_program_did(tmp_path: Path) -> None:
    ring = tmp_path / "t.ring"
    made = run([RECORD, ring, NATIVE / "inside", "mark"])
    assert made.status == 0, made.complaint
    trace = replayed(ring, made)
    assert trace.ending() == "exit"
    assert len(truth(trace)) > 0
    assert seen(trace) == truth(trace)


def test_the_programs_status_is_the_recorders(tmp_path: Path) -> None:
    assert run([RECORD, tmp_path / "t.ring", "sh", "-c", "exit 3"]).status == 3
    assert run([RECORD, tmp_path / "t.ring"]).status == 2


def test_the_ring_of_a_killed_program_is_kept(tmp_path: Path) -> None:
    """The recording is complete up to the cursor, which ring_tap writes last, some time after the kill."""
    ring, path, counts = (tmp_path / name for name in ("t.ring", "t.ljt", "counts"))
    with started([RECORD, ring, NATIVE / "teller", counts]):
        wait_for(lambda: sum(counted(counts)) >= 1000, "teller is at work")

    def is_whole() -> bool:
        done = run([BENCH, "-n", "1", "-o", path, ring])
        return done.status == 0 and sum(recorded(Trace(path, done))) >= sum(counted(counts)) - BOUND

    wait_for(is_whole, "the ring is written up to the kill")
    seen = recorded(Trace(path, Done(-signal.SIGKILL, b"", b"")).check())
    assert seen == after(sum(seen))


def test_a_ring_cut_short_is_refused(tmp_path: Path) -> None:
    ring = tmp_path / "t.ring"
    assert run([RECORD, ring, "true"]).status == 0
    ring.write_bytes(ring.read_bytes()[:-8])
    done = run([BENCH, ring])
    assert done.status == 1 and "cut short" in done.complaint
    assert run([BENCH, tmp_path / "none"]).status == 1
