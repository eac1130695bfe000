"""Each sum of steve/kernels/base/sums.def is the same in shards as in one walk, and it is noticed if one is lost.

A sum that is forgotten where shards are merged is wrong with -j only, and in silence. So for each sum of the table the
result of one walk is compared with those of shards; then the sum is removed from what all shards but the first report,
and the result has to differ.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from conftest import make_trace
from steve.analysis import blocks, folds
from steve.analysis.lives import LifeAnalysis, LifeResult
from steve.analysis.rules import DEFAULTS, limits, site_limits
from steve.commands import lines, resizes, sites, threads, types
from steve.export.profile import METRICS
from steve.kernels import _accesses, _report, _site_sums, _sums, _totals
from steve.parallel import rounds
from steve.report.collect import ReportAnalysis
from steve.system.errors import SteveError
from steve.terminal import listing
from steve.trace import rollups
from test_line_shards import Program
from test_live_shards import arguments, eventful
from test_shards import Here, silent

TABLE = _sums.table()
GROUPS = np.array([2**32 - 1, 1, 0, 1, 0], "u4")  # of stacks, for Fields
THRESHOLDS = {**DEFAULTS, "capacity": 90, "min_size": 20}
# a kernel without sums of accesses by themselves: they are part of other rows
CONTAINED = {"access_sums", "site_rules_sums"}
# what shards need not report: the kernel computes it from other sums, or numbers it anew; or it is that of blocks that
# live on, which no shard has as lives
NOT_REPORTED = {
    ("group", "peak"),
    ("ended_lives_row", "peak"),
    ("group", "live_blocks"),
    ("group", "live_bytes"),
    ("lives_totals", "time"),
    ("profile_tally", "epoch"),
    ("summary_stack", "epoch"),
    ("profile_totals", "bytes_read"),
    ("profile_totals", "bytes_written"),
    ("linework_row", "cache_lines"),
}


def eventful_with_moves() -> str:
    """The script of a program with all kinds of events, and with large blocks that are moved often in a short life."""
    lines = eventful(random.Random(7), 6000).splitlines()
    one, other = 0x900000, 0x902000
    moving = [f"N {one} 5000 1 0", *[f"R {one} {other} 6000 2 0", f"R {other} {one} 6100 2 0"] * 5, f"F {one} 3"]
    most = [f"N {one} 7000 1 0", *[f"R {one} {other} 8000 2 0", f"R {other} {one} 7900 2 0"] * 10, f"F {one} 3"]
    found = []
    for i, line in enumerate(lines):
        found.append(line)
        if i > 10 and i % 150 == 0:
            found += most if i == 3000 else moving
        if i > 10 and i % 700 == 0:
            found += ["lost 3 full", f"mark m{i}", f"N {0xA00000 + 32 * i} 24 1 0"]
    return "\n".join(found) + "\n"


def lines_of_lua() -> str:
    program = Program(random.Random(3))
    for _ in range(3000):
        program.deed()
    return "\n".join(program.lines) + "\nend exit\n"


class Case(NamedTuple):
    """An analysis, and what is compared of its result. script: of the trace. sent: the columns of rows, as shards
    report them, where these are not those of the table."""

    make: Callable[[], Any]
    plain: Callable[[Any], Any]
    script: Callable[[], str] = eventful_with_moves
    sent: Any = None


def rows_of(array: np.ndarray, *without: str) -> list:
    return [[row[name].tolist() for name in array.dtype.names if name not in without] for row in array]


def plain_lives(found: LifeResult) -> Any:
    totals = found.lives.totals()
    tables = found.fold.rows(totals["peak"])
    return {**totals, "peak": 0}, [(one.numbers.tolist(), rows_of(one.rows, "peak")) for one in tables]


def plain_table(found: LifeResult) -> Any:
    keys, rows = found.fold.table(found.lives.totals()["operations"])
    return keys.tolist(), rows_of(rows)


def plain_findings(found: LifeResult) -> Any:
    return [(keys.tolist(), rows_of(rows)) for keys, rows in found.fold.table()]


def plain_ended(found: LifeResult) -> Any:
    keys, rows = found.fold.table(found.lives.totals()["peak"])
    return keys.tolist(), rows_of(rows, "peak")


def plain_profile(found: ReportAnalysis) -> Any:
    profile = found.profile
    tallies = [(ids.tolist(), rows_of(rows, "epoch")) for ids, rows in (profile.stacks(), profile.heaps())]
    return profile.totals(), tallies, profile.timeline().tolist()


def plain_summary(found: _totals.Summary) -> Any:
    return found.totals, found.events, found.threads, [column.tolist() for column in found.used_stacks()]


def plain_cells(found: ReportAnalysis) -> Any:
    groups = found.cells.groups().tolist()
    return sorted((groups[group], *sums) for group, *sums in found.cells.cells().tolist())


def plain_lines(found: LifeResult) -> Any:
    """By the name of a line, because shards number the lines in another order."""
    work, made = found.lives.line_work()
    rows = [(str(found.lines.line(i)), work[i].tobytes(), made[i].tobytes()) for i in range(len(work))]
    return sorted(row for row in rows if any(row[1]) or any(row[2]))


REPORT = partial(ReportAnalysis, 16, True)
SITE_SUMS = Case(
    partial(LifeAnalysis, partial(_site_sums.SiteSums, site_limits(THRESHOLDS))), plain_table, sent=_site_sums.SITE_SUMS
)
PROFILE, SUMMARY = Case(REPORT, plain_profile), Case(_totals.Summary, plain_summary)
LIVES = Case(partial(LifeAnalysis, partial(folds.Sums, "stack", "free_thread")), plain_lives)
LINES = Case(partial(LifeAnalysis, folds.Passed, by_line=True), plain_lines, lines_of_lua)
CASES = {
    "group": LIVES,
    "lives_totals": LIVES,
    "finding": Case(partial(LifeAnalysis, partial(_site_sums.Findings, limits(DEFAULTS))), plain_findings),
    "ended_lives_row": Case(partial(LifeAnalysis, _site_sums.EndedLives), plain_ended),
    "site_rules_totals": SITE_SUMS,
    "site_rules_changes": SITE_SUMS,
    "profile_tally": PROFILE,
    "profile_totals": PROFILE,
    "timeline_bin": PROFILE,
    "summary_stack": SUMMARY,
    "summary_totals": SUMMARY,
    "cells_sums": Case(REPORT, plain_cells, sent=_report.CELL),
    "linework_row": LINES,
    "linework_made": LINES,
    "luawork_bytes": Case(REPORT, ReportAnalysis.work, lines_of_lua),
    "fields_cell": Case(
        partial(_accesses.Fields, GROUPS, [4096, 4096]), lambda found: [(*one, cells.tolist()) for *one, cells in found]
    ),
    "sharing_row": Case(_accesses.Sharing, lambda found: found[0].tolist()),
    "states_row": Case(_accesses.States, lambda found: sorted(found.tolist())),
}


class Pool(Here):
    """A pool that works in this process, with the parts of -j N."""

    def __init__(self, n: int) -> None:
        self.n = n


class Changed:
    """An analysis that gets other partial results, as change() makes them: but for the first `n`."""

    def __init__(self, make: Callable[[], Any], change: Callable[[Any], Any], n: int) -> None:
        self._analysis, self._change, self._n = make(), change, n

    def __getattr__(self, name: str) -> Any:
        return getattr(self._analysis, name)

    def merge(self, found: Any) -> None:
        self._n -= 1
        self._analysis.merge(found if self._n >= 0 else self._change(found))


def lost(found: Any, columns: np.dtype, path: tuple[str, ...], merge: str) -> Any:
    """A copy of a partial result in which a sum is 0 in all rows; one that is that of the last shard is too small."""
    if isinstance(found, np.ndarray) and found.dtype == columns:
        copy = found.copy()
        column = copy
        for name in path[:-1]:
            column = column[name]
        column[path[-1]] = column[path[-1]] - 1 if merge == "LAST" else 0
        return copy
    if isinstance(found, dict):
        return {key: lost(value, columns, path, merge) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        parts = [lost(value, columns, path, merge) for value in found]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return found


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], str]], Path]:
    """The trace of a script, in many chunks."""
    folder = tmp_path_factory.mktemp("sums")
    made: dict[Any, Path] = {}

    def trace_of(script: Callable[[], str]) -> Path:
        if script not in made:
            made[script] = make_trace(folder / f"{len(made)}.ljt", script(), 100, 1)
        return made[script]

    return trace_of


def in_shards(path: Path, make: Callable[[], Any], n: int = 4) -> Any:
    return rounds.Rounds(rounds.Reading(str(path)), Pool(n), silent).run(make)


def test_all_rows_are_tested() -> None:
    assert {*CASES} | CONTAINED == {*TABLE}


@pytest.mark.parametrize("row", CASES)
def test_shards_are_the_whole(traces: Any, row: str) -> None:
    case = CASES[row]
    path = traces(case.script)
    whole = case.plain(blocks.Blocks("test", arguments(path)).over_events(case.make))
    for n in (1, 2, 4):
        assert case.plain(in_shards(path, case.make, n)) == whole


@pytest.mark.parametrize("n", (1, 2, 4))
def test_sites_at_the_peak_add_up_to_it(traces: Any, n: int) -> None:
    """And at the end, in each part that a peak may be in."""
    found = in_shards(traces(eventful_with_moves), _totals.Summary, n)
    _, rows = found.used_stacks()
    assert len(rows) > 1 and found.totals["peak_bytes"] > found.totals["live_bytes"] > 0
    assert int(rows["peak_bytes"].sum()) == found.totals["peak_bytes"]
    assert int(rows["live_bytes"].sum()) == found.totals["live_bytes"]


def sums_of(row: str) -> Iterator[tuple[tuple[str, ...], _sums.Sum]]:
    """The sums of a row and of those that it contains."""
    for one in TABLE[row]:
        if one.row:
            yield from (((one.name, *path), inner) for path, inner in sums_of(one.row))
        else:
            yield (one.name,), one


@pytest.mark.parametrize("row", CASES)
def test_a_sum_that_is_not_merged_is_noticed(traces: Any, row: str) -> None:
    case = CASES[row]
    path = traces(case.script)
    whole = case.plain(in_shards(path, case.make))
    columns = _sums.dtype_of(row) if case.sent is None else case.sent
    for names, one in sums_of(row):
        if (row, names[0]) in NOT_REPORTED or one.unit == "KEYS":
            continue
        if case.sent is not None and len(names) == 2:  # seen as an array of three numbers
            names = names[:1]
        first = one.merge in ("ADD", "LAST")  # the most may be that of the first shard
        changed = partial(Changed, case.make, partial(lost, columns=columns, path=names, merge=one.merge), first)
        try:
            assert case.plain(in_shards(path, changed)) != whole, (row, names)
        except SteveError:
            pass  # the sum was missed


def merged_by_rule(merge: str, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What the table says of two columns."""
    rules = {"ADD": np.add, "MOST": np.maximum, "BITS": np.bitwise_or}
    return rules[merge](one, other) if merge in rules else other if merge == "LAST" else one


@pytest.mark.parametrize("row", TABLE)
def test_each_is_merged_by_its_rule(row: str) -> None:
    columns = _sums.dtype_of(row)
    rng = np.random.default_rng(1)
    one, other = (rng.integers(1, 1 << 40, (n, columns.itemsize // 8), "u8").view(columns)[:, 0] for n in (7, 9))
    longer = np.zeros(9, columns)
    longer[:7] = one
    found = _sums.merged(row, one, other)
    for names, sum_of in sums_of(row):
        columns_of = []
        for array in (longer, other, found):
            for name in names:
                array = array[name]
            columns_of.append(array)
        before, added, result = columns_of
        assert np.array_equal(result, merged_by_rule(sum_of.merge, before, added)), (row, names)


@pytest.mark.parametrize("row", TABLE)
def test_estimates_have_variances(row: str) -> None:
    """Those of them that the table names."""
    varied = [f"variance_{one.name}" for one in TABLE[row] if one.estimate == "VARIED"]
    if varied:
        columns = _sums.variances_of(row)
        assert [*columns.names] == varied and columns.itemsize == 8 * len(varied)
        return
    with pytest.raises(KeyError):
        _sums.variances_of(row)


def test_the_largest_are_known_by_their_names() -> None:
    """steve.trace.rollups sums up rows by stack without the table."""
    for row in ("group", "finding", "site_rules_sums", "profile_tally", "summary_stack"):
        assert [one.name for one in TABLE[row] if rollups.is_most(one.name) != (one.merge == "MOST")] == []


@pytest.mark.parametrize("command", (lines, resizes, sites, threads, types), ids=lambda command: command.NAME)
def test_columns_name_sums_of_the_table(command: Any) -> None:
    shown = listing.sums_of(command.COLUMNS)
    assert len(shown) > 4 and set(shown.values()) <= {one.name for one in TABLE["group"]}


def test_viewers_get_the_units_of_the_table() -> None:
    units = {one.name: one.unit for one in TABLE["group"]}
    assert {metric.key: metric.unit for metric in METRICS} == {
        metric.key: "bytes" if units[metric.key] == "BYTES" else "count" for metric in METRICS
    }


def test_columns_are_chosen() -> None:
    """Rows that have no variances yet have 0."""
    rows, variances = np.zeros(3, _sums.dtype_of("finding")), np.ones(2, _sums.variances_of("finding"))
    rows["bytes"] = 5, 6, 7
    found = _sums.chosen(["bytes", "variance_bytes"], rows, variances, np.array([2, 0]))
    assert found.tolist() == [(7, 0.0), (5, 1.0)]


def test_the_columns_are_those_of_the_kernels() -> None:
    assert _report.TALLY.names[:3] == ("blocks", "resizes", "bytes")
    with pytest.raises(KeyError):
        _sums.dtype_of("nothing")
