"""Kernels that read a trace in batches, on a trace whose segments have several words, against simple
references.

The random histories of the other tests are written access by access, so their segments have one word each.
Here the accesses come in longer segments, and some of their words refer to no block. The references are fed
with the single events of the same file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import reference
from conftest import BUILD, Steve
from reference import Event, Rules
from steve.kernels import _lives, _locks, _totals
from steve.kernels._walk import Walk
from steve.parallel.rounds import analyse_whole
from steve.trace._memtrace import FREE, LOAD, MODIFY, NEW, Trace
from steve.trace.line_numbers import LineNumbers
from steve.trace.places import Places

MKLOAD = Path(BUILD) / "steve" / "test" / "mkload"
LETTERS = "NFRLSM"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "load.ljt"
    subprocess.run([MKLOAD, path, "4000", "40"], check=True)
    return path


@pytest.fixture(scope="module")
def history(trace: Path) -> list[Event]:
    rows = np.concatenate([batch.copy() for batch in Trace(str(trace)).batches()])
    return [
        Event(LETTERS[row["kind"]], int(row["addr"]), 0 if row["kind"] == FREE else int(row["size"]))
        for row in rows
        if row["kind"] <= MODIFY
    ]


class Always:
    """A window that excludes nothing, but makes the walk process every event separately."""

    def begin(self) -> str:
        return "within"

    def state(self, mark: str) -> str:
        return "within"


def test_more_live_blocks_than_stay_near(tmp_path: Path) -> None:
    """The reader prefetches the data of this many blocks. Each event still belongs to the block that its New
    made."""
    path, live = tmp_path / "many.ljt", {}
    subprocess.run([MKLOAD, path, "100000", "40000"], check=True)
    for batch in Trace(str(path)).batches():
        for row in batch[batch["kind"] <= MODIFY]:
            if row["kind"] == NEW:
                live[row["handle"]] = row["addr"], row["size"]
            addr, size = live.pop(row["handle"]) if row["kind"] == FREE else live[row["handle"]]
            assert addr <= row["addr"] < addr + size
    summary = analyse_whole(Walk(Trace(str(path))), _totals.Summary)
    assert summary.events["new"] - summary.events["free"] == len(live) == 40000


def test_ops(steve: Steve, trace: Path, history: list[Event]) -> None:
    assert steve("ops", "--text", "-o", "out-ops", trace).returncode == 0
    ops = reference.translate(history)[0]
    assert (steve.folder / "out-ops").read_text() == reference.ops_text(ops)


@pytest.mark.parametrize("compat", [False, True])
def test_full_locks(tmp_path: Path, trace: Path, history: list[Event], compat: bool) -> None:
    ops = reference.translate(history)[0]
    with open(tmp_path / "locks", "wb") as out:
        _locks.write_lockops_full(Trace(str(trace)), _locks.Unfreed(Trace(str(trace))), out.fileno(), compat=compat)
    expected = reference.lockops_full(ops, compat, Rules())
    assert (tmp_path / "locks").read_text() == reference.ops_text(expected)
    assert sum(op.letter == "L" for op in expected) > 100


def test_summary(trace: Path, history: list[Event]) -> None:
    summary = analyse_whole(Walk(Trace(str(trace))), _totals.Summary)
    letters = Counter(event.letter for event in history)
    assert [summary.events[name] for name in ("new", "free", "resize", "load", "store", "modify")] == [
        letters[letter] for letter in LETTERS
    ]
    read = sum(event.size for event in history if event.letter in "LM")
    written = sum(event.size for event in history if event.letter in "SM")
    assert (summary.totals["read"], summary.totals["written"]) == (read, written)
    assert summary.threads == 2


def test_lives(trace: Path) -> None:
    plain = _lives.Lives(Trace(str(trace)), Always())
    batched = _lives.Lives(Trace(str(trace)))
    rows = [np.concatenate([batch.copy() for batch in lives.batches()]) for lives in (plain, batched)]
    assert len(rows[0]) > 100 and rows[0]["loads"].sum() > 100
    np.testing.assert_array_equal(*[np.sort(found, order="handle") for found in rows])
    assert plain.totals() == batched.totals()
    for plain_sums, batch_sums in (
        (plain.site_accesses(), batched.site_accesses()),
        (plain.thread_accesses(), batched.thread_accesses()),
    ):
        np.testing.assert_array_equal(plain_sums, batch_sums)


def test_lines(trace: Path) -> None:
    work = []
    for window in (Always(), None):
        reader = Trace(str(trace))
        lines = LineNumbers(Places(reader))
        lives = _lives.Lives(reader, window, lines=lines)
        assert sum(len(batch) for batch in lives.batches()) > 100
        lines.reach_all()
        work.append([array.copy() for array in lives.line_work()])
    assert work[0][0]["own"]["counts"].sum() + work[0][0]["others"]["counts"].sum() > 1000
    for plain, batched in zip(*work):
        np.testing.assert_array_equal(plain, batched)


def test_passed_accesses(trace: Path, history: list[Event]) -> None:
    reader = Trace(str(trace))
    reader.pass_accesses()
    kinds = np.concatenate([batch["kind"].copy() for batch in reader.batches()])
    assert [LETTERS[kind] for kind in kinds if kind <= MODIFY] == [
        event.letter for event in history if event.letter in "NFR"
    ]
    assert reader.stats()["passed"] == sum(event.letter in "LSM" for event in history)
    assert NEW in kinds and LOAD not in kinds
