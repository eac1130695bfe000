"""Between marks, parts of a trace give the same result as one walk: random traces divided wherever possible,
the commands with processes, damage before, between and after the marks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import random
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import test_line_shards
from conftest import Steve, examples, make_trace
from reference_lives import Run, script
from steve.analysis import blocks, totals
from steve.analysis.operations import Operations
from steve.kernels import _accesses, _totals
from steve.parallel import processes, window
from steve.report.collect import ReportAnalysis
from steve.system.errors import SteveError
from steve.trace._memtrace import Trace
from test_analyses import run_steve, runs
from test_event_shards import plain_sharing, stateful
from test_live_shards import CHUNKS, DIVIDED, Everything, Shards, Sums, by_key, eventful, line_of
from test_shards import Here, report_of, silent

RUNS = examples(40)
ENDS = ((None, "b"), ("a", None), ("b", None), ("b", "b"), ("a", "b"), (None, "a"))
WHERES = (None, None, "size >= 30 and lifetime < 20", "born >= 5 and not freed or shared")
GROUPS = {"group_of": np.array([2**32 - 1, 1, 0, 1], "u4"), "largest": [2560, 2560]}
Ends = tuple[str | None, str | None]


@pytest.fixture(autouse=True, scope="module")
def here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "Pool", Shards)
        yield


def both(path: Path, where: str | None, ends: Ends, analyse: Callable[[blocks.Blocks], Any], **more: Any) -> tuple:
    """The results of one reader and of several; for an error, its text."""
    results = []
    for jobs in (1, 2):
        args = Namespace(
            file=str(path),
            where=where,
            begin=ends[0],
            end=ends[1],
            salvage=False,
            quiet=True,
            jobs=jobs,
            scheduler=None,
            divided=True,
        )
        try:
            results.append(analyse(blocks.Blocks("test", args, **more)))
        except SteveError as error:
            results.append(str(error))
    return tuple(results)


@RUNS
@given(runs(marks=True), CHUNKS, st.sampled_from(WHERES), st.sampled_from(ENDS))
def test_random_lives(run: Run, chunk: int, where: str | None, ends: Ends) -> None:
    def lives(chosen: blocks.Blocks) -> tuple:
        found = chosen.fold(Everything)
        return found.fold.lives(found.totals["peak"]), {**found.totals, "peak": 0}

    with tempfile.TemporaryDirectory() as folder:
        one, many = both(make_trace(Path(folder) / "t.ljt", script(run), chunk, 1), where, ends, lives)
        assert many == one


@RUNS
@given(runs(marks=True), CHUNKS, st.sampled_from(WHERES), st.sampled_from(ENDS))
def test_random_sums(run: Run, chunk: int, where: str | None, ends: Ends) -> None:
    def sums(chosen: blocks.Blocks) -> tuple:
        found = chosen.fold(Sums, threads=True)
        sums = found.fold.rows(found.totals["peak"])
        return [by_key(rows) for rows in sums], blocks.merged(found.lives.thread_accesses(), int)

    with tempfile.TemporaryDirectory() as folder:
        one, many = both(make_trace(Path(folder) / "t.ljt", script(run), chunk, 1), where, ends, sums)
        assert many == one


EVENTS = {
    "states": _accesses.States,
    "sharing": _accesses.Sharing,
    "windows": partial(_accesses.WorkingSet, 4),
    "reuse": partial(_accesses.Reuse, 4, 1),
    "fields": partial(_accesses.Fields, *GROUPS.values()),
    "check": _totals.Check,
}


def plain(found: Any, what: str) -> Any:
    """A result in a form that can be compared."""
    if what == "sharing":
        return plain_sharing(found)
    if what == "fields":
        return [(cell, made, cells.tolist()) for cell, made, cells in found]
    if what == "check":
        del found["left"]  # which counts for whole traces
    return found.tolist() if isinstance(found, np.ndarray) else found


@pytest.mark.parametrize("what", EVENTS)
@RUNS
@given(runs(marks=True), CHUNKS, st.sampled_from(WHERES), st.sampled_from(ENDS), st.randoms(use_true_random=True))
def test_random_events(what: str, run: Run, chunk: int, where: str | None, ends: Ends, choose: random.Random) -> None:
    def analyse(chosen: blocks.Blocks) -> Any:
        return plain(chosen.over_events(EVENTS[what]), what)

    with tempfile.TemporaryDirectory() as folder:
        one, many = both(make_trace(Path(folder) / "t.ljt", stateful(run, choose), chunk, 1), where, ends, analyse)
        assert many == one


@RUNS
@given(CHUNKS, st.sampled_from(WHERES), st.sampled_from(ENDS), st.integers(1, 150), st.randoms(use_true_random=True))
def test_random_lines(chunk: int, where: str | None, ends: Ends, steps: int, choose: random.Random) -> None:
    def lines(chosen: blocks.Blocks) -> list[dict]:
        (sums,), walked = chosen.sum_with_accesses("stack")
        return test_line_shards.rows(sums, walked.lives, walked.lines)

    program = test_line_shards.program(choose, steps).splitlines(keepends=True)
    for name in "abb":
        program.insert(choose.randint(5, len(program) - 1), f"mark {name}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", "".join(program), chunk, 1)
        one, many = both(path, where, ends, lines, by_line=True)
        assert many == one


def summary_of(chosen: blocks.Blocks) -> list:
    summary = chosen.over_trace(_totals.Summary)
    return [totals.summary_object(chosen.trace, summary), [column.tolist() for column in summary.used_stacks()]]


def lifetimes_of(chosen: blocks.Blocks) -> list:
    accesses, unmatched, found = chosen.over_trace(_totals.Lifetimes)
    return [accesses, unmatched, found.tolist()]


def ops_of(chosen: blocks.Blocks, form: str, resizes: bool) -> list:
    with tempfile.TemporaryFile() as file:
        counts = chosen.over_trace(partial(Operations, file.fileno(), form, resizes))
        file.seek(0)
        return [counts, file.read()]


# analyses that treat the chosen blocks as if there were no others
ALONE = {
    "summary": summary_of,
    "lifetimes": lifetimes_of,
    "report": lambda chosen: report_of(chosen.over_trace(partial(ReportAnalysis, 4))),
    "text": partial(ops_of, form="text", resizes=False),
    "binary": partial(ops_of, form="binary", resizes=False),
    "resizes": partial(ops_of, form="binary", resizes=True),
}


@pytest.mark.parametrize("what", ALONE)
@RUNS
@given(runs(marks=True), CHUNKS, st.sampled_from(WHERES), st.sampled_from(ENDS), st.randoms(use_true_random=True))
def test_random_traces_of_chosen_blocks(
    what: str, run: Run, chunk: int, where: str | None, ends: Ends, choose: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", stateful(run, choose), chunk, 1)
        one, many = both(path, where, ends, ALONE[what])
        assert many == one


# ---- commands -----------------------------------------------------------------------------------


def marked(steps: int) -> str:
    """The script of a program with many marks, some of them repeated."""
    lines = eventful(random.Random(11), steps).splitlines(keepends=True)
    for i in range(5, len(lines) - 1, len(lines) // 20):
        lines[i] = f"mark round\nmark {i * 20 // len(lines)}\n" + lines[i]
    return "".join(lines)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_trace(tmp_path_factory.mktemp("marks") / "marked.ljt", marked(6000), 60, 2)
    assert len(Trace(str(path)).seek_points()) > 30
    return path


def test_no_more_than_the_window_is_read(trace: Path) -> None:
    rounds = parts_of(trace)
    span = window.located(rounds, "6", "9")
    assert len(span.parts) > 2 and len(span.earlier) > 1
    assert span.earlier[-1].end == span.parts[0].first and span.parts[-1].end < len(Trace(str(trace)).seek_points())
    assert span.since > 100 and (span.begin, span.end) == ("6", "9")


def parts_of(path: Path) -> Any:
    from steve.parallel.rounds import Reading, Rounds

    pool = Here()
    pool.n = 2
    rounds = Rounds(Reading(str(path)), pool, silent)
    assert len(rounds.parts) == 2 * processes.PARTS_EACH
    return rounds


@pytest.mark.parametrize("command", DIVIDED)
def test_commands_by_processes(steve: Steve, trace: Path, command: str) -> None:
    for more in (
        ["--from", "3", "--to", "round"],
        ["--from", "8", "--where", "size >= 100 and born > 200"],
        ["--to", "12"],
    ):
        line = [*map(str, line_of(command, trace)), *more, "--json"]
        many = steve(*line, "-j", "2")
        assert (many.returncode, many.out, many.err) == (0, run_steve(*line), "")


def same(steve: Steve, *line: Any) -> tuple[int, str]:
    one, many = (steve(*line, "-j", jobs) for jobs in ("1", "2"))
    assert (many.returncode, many.out, many.err) == (one.returncode, one.out, one.err)
    return one.returncode, one.err


CHOSEN = (
    ["--where", "size >= 100 and (not freed or site ~ 'parse')"],
    ["--from", "3", "--to", "round"],
    ["--from", "8", "--where", "size >= 100 and born > 200"],
    ["--to", "12"],
    ["--where", "size > 1 and size < 1"],
)
WRITERS = {
    "ops": (["--text"], ["--binary"], ["--binary", "--resize"]),
    "summary": (["--json"],),
    "histogram": (["--json", "--parts", "none"],),
    "report": (["--json"], []),
}


@pytest.mark.parametrize("command", WRITERS)
def test_what_chosen_blocks_make(steve: Steve, trace: Path, command: str) -> None:
    for more in CHOSEN:
        for way in WRITERS[command]:
            results = []
            for jobs in ("1", "3"):
                done = steve(
                    command, *way, *more, "-j", jobs, *(() if command == "histogram" else ("-o", "result")), trace
                )
                results.append((done.returncode, done.out, done.err, written(steve.folder / "result")))
            assert results[1] == results[0] and results[0][0] == 0


def written(path: Path) -> bytes:
    """The content of a result, which is then removed; nothing if there is none."""
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    return content


def test_marks_that_do_not_come(steve: Steve, trace: Path) -> None:
    for ends in (("--from", "nowhere"), ("--to", "nowhere"), ("--from", "15", "--to", "14")):
        status, message = same(steve, "sites", "--json", *ends, trace)
        assert status == 1 and "marks in the trace: 'round', '0', '1'" in message


def test_damage(steve: Steve, trace: Path, tmp_path: Path) -> None:
    """The trace is damaged or truncated before the first mark, between the marks, or after them, where no
    command reads."""
    data = trace.read_bytes()
    for place in (4, 10, 17):
        bad = bytearray(data)
        bad[len(data) * place // 20] ^= 1
        (tmp_path / "bad.ljt").write_bytes(bad)
        (tmp_path / "cut.ljt").write_bytes(data[: len(data) * place // 20])
        for line in (["sites"], ["workingset", "--window", "300"], ["lines"], ["summary"]):
            for file in (["bad.ljt"], ["cut.ljt"], ["bad.ljt", "--salvage"]):
                status, message = same(steve, *line, "--json", *file, "--from", "7", "--to", "13")
                assert (status, message == "") == ((0, True) if place == 17 else (1, False))
        for file in (["bad.ljt"], ["cut.ljt"], ["bad.ljt", "--salvage"]):
            same(steve, "report", "--json", *file, "--from", "7", "--to", "13")
