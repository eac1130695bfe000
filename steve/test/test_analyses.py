"""The lives of blocks and the analyses made from them, against the slow reference on random runs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import io
import json
import tempfile
from pathlib import Path
from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_lives as reference
from conftest import Steve, examples, make_trace
from histories import histories
from reference import Event
from reference_lives import Lives, Run, Step
from steve import cli
from steve.analysis import blocks
from steve.kernels import _lives
from steve.trace._memtrace import Trace

RUNS = examples(50)
FIELDS = (
    "handle size bytes resizes born died first_use last_use loads stores modifies bytes_read "
    "bytes_written used news thread free_thread freed shared"
).split()


def scaled(event: Event, scale: int) -> Event:
    """The same event in a heap with larger blocks. Accesses keep their widths."""
    size = event.size if event.letter in "LSM" else event.size * scale
    return Event(event.letter, event.addr * scale, size, event.old * scale)


@st.composite
def runs(draw: st.DrawFn, marks: bool = False) -> Run:
    """A strategy for histories with threads, several stacks and places, and the marks a and b once or twice."""
    scale = draw(st.sampled_from((1, 3, 40)))
    run: Run = [
        Step(scaled(event, scale), draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(0, 1)))
        for event in draw(histories(80))
    ]
    for name in ("a", "b", "b") if marks else ():
        run.insert(draw(st.integers(0, len(run))), name)
    return run


def trace_of(folder: str, run: Run) -> Path:
    return make_trace(Path(folder) / "t.ljt", reference.script(run), 7)


def rows_of(lives: Lives) -> dict[int, dict]:
    return {block.handle: {name: block.record()[name] for name in FIELDS} for block in lives.blocks}


def found_rows(batches: List) -> dict[int, dict]:
    return {int(row["handle"]): {name: int(row[name]) for name in FIELDS} for batch in batches for row in batch}


@RUNS
@given(runs())
def test_lives(run: Run) -> None:
    expected = Lives(run)
    with tempfile.TemporaryDirectory() as folder:
        lives = _lives.Lives(Trace(str(trace_of(folder, run))))
        groups = _lives.Groups("stack")
        batches = []
        for batch in lives.batches():
            batches.append(batch.copy())
            groups.add(batch)
    totals = lives.totals()
    assert found_rows(batches) == rows_of(expected)
    assert (totals["operations"], totals["peak_bytes"]) == (expected.now, expected.peak)
    assert sum(groups.rows(totals["peak"])["peak_bytes"]) == expected.peak


@RUNS
@given(runs(marks=True), st.sampled_from(((None, "b"), ("a", None), ("b", None), ("b", "b"))))
def test_lives_between_marks(run: Run, ends: tuple) -> None:
    expected = Lives(run, *ends)
    with tempfile.TemporaryDirectory() as folder:
        lives = _lives.Lives(Trace(str(trace_of(folder, run))), blocks.Window(*ends))
        found = found_rows([batch.copy() for batch in lives.batches()])
    # operations on blocks from before the part that counts are counted like others
    assert found == rows_of(expected)


def run_steve(*arguments: str) -> str:
    """The output of a subcommand that is run in this process."""
    with tempfile.NamedTemporaryFile("r") as file:
        assert cli.guarded(arguments[0], [*arguments[1:], "-q", "-o", file.name]) == 0
        return Path(file.name).read_text()


def listed(path: Path, *arguments: str) -> list[dict]:
    return json.loads(run_steve(arguments[0], str(path), "--json", *arguments[1:]))


def sums(lives: Lives, key: str, value: str) -> dict[object, int]:
    result: dict[object, int] = {}
    for block in lives.blocks:
        name = getattr(block, key)
        result[name] = result.get(name, 0) + block.record()[value]
    return result


@RUNS
@given(runs())
def test_lines(run: Run) -> None:
    expected = Lives(run)
    with tempfile.TemporaryDirectory() as folder:
        rows = listed(trace_of(folder, run), "lines")
    found = {(row["file"], row["line"], row["function"]): row for row in rows}
    for key, column in (("bytes", "alloc_bytes"), ("freed", "frees"), ("peak_bytes", "live_bytes_at_peak")):
        for stack, value in sums(expected, "stack", key).items():
            assert found[reference.LINES[stack]][column] == value
    accesses = [access for block in expected.blocks for access in block.by_line]
    for place, line in enumerate(reference.PLACE_LINES):
        own = [size for at, _, letter, size in accesses if at == place and letter in "LM"]
        assert found.get(line, {"bytes_read": 0})["bytes_read"] == sum(own)
    assert sum(row["loads"] for row in rows) == sum(letter == "L" for _, _, letter, _ in accesses)


@RUNS
@given(runs(), st.integers(1, 3000))
def test_accesses_of_chosen_blocks_only(run: Run, least: int) -> None:
    chosen = [block for block in Lives(run).blocks if block.size >= least]
    with tempfile.TemporaryDirectory() as folder:
        path = trace_of(folder, run)
        rows = listed(path, "threads", "--where", f"size >= {least}")
        lines = listed(path, "lines", "--where", f"size >= {least}")
    found = {row["thread"]: row for row in rows}
    for thread in (1, 2, 3):
        nothing = dict.fromkeys(("stores", "allocs", "frees", "shared_blocks", "foreign_frees"), 0)
        row = found.get(thread, nothing)
        assert row["stores"] == sum(
            t == thread and letter == "S" for block in chosen for _, t, letter, _ in block.by_line
        )
        assert row["allocs"] == sum(block.thread == thread for block in chosen)
        assert row["frees"] == sum(block.free_thread == thread for block in chosen)
        assert row["foreign_frees"] == sum(block.free_thread == thread != block.thread for block in chosen)
        assert row["shared_blocks"] == sum(block.shared and block.thread == thread for block in chosen)
    assert sum(row["stores"] for row in lines) == sum(block.count["S"] for block in chosen)


@RUNS
@given(runs())
def test_leaks_and_sites(run: Run) -> None:
    expected = Lives(run)
    with tempfile.TemporaryDirectory() as folder:
        path = trace_of(folder, run)
        leaks, sites = listed(path, "leaks"), listed(path, "sites")
    live = [block for block in expected.blocks if not block.freed]
    wanted = {
        site: sum(block.size for block in live if block.stack == i)
        for i, site in enumerate(reference.SITES)
        if any(block.stack == i for block in live)
    }
    assert {row["site"]: row["bytes"] for row in leaks} == wanted
    assert {row["site"]: row["live_bytes_at_end"] for row in sites if row["live_blocks_at_end"]} == wanted
    for row in sites:
        own = [block for block in expected.blocks if block.stack == reference.SITES.index(row["site"])]
        assert row["blocks"] == len(own) and row["largest"] == max(block.size for block in own)
        lifetime = sum(block.died - block.born for block in own) / len(own)
        assert row["mean_lifetime"] == round(lifetime, 2)
        size = sum(block.size for block in own)
        assert row["utilisation"] == (round(100 * sum(b.used() for b in own) / size, 2) if size else None)


@RUNS
@given(runs(marks=True), st.sampled_from(("stack", "thread", "free_thread", "type", "how")), st.booleans())
def test_sums_made_as_lives_end(run: Run, key: str, whole: bool) -> None:
    added, direct = _lives.Groups(key), _lives.Groups(key)
    with tempfile.TemporaryDirectory() as folder:
        path = str(trace_of(folder, run))
        listing, summed = (
            _lives.Lives(Trace(path), None if whole else blocks.Window("a", "b"), sums=sums) for sums in (None, direct)
        )
        for batch in listing.batches():
            added.add(batch)
        assert sum(len(batch) for batch in summed.batches()) == 0
    rows = [sums.rows(listing.totals()["peak"]) for sums in (added, direct)]
    assert rows[0].tobytes() == rows[1].tobytes() and listing.totals() == summed.totals()


@RUNS
@given(runs(), st.none() | st.just("at once") | st.integers(0, 30))
def test_temporaries(run: Run, within: int | str | None) -> None:
    made = Lives(run).blocks
    short = [b for b in made if b.freed]
    options = []
    if within == "at once":
        short, options = [b for b in short if b.news == 0], ["--at-once"]
    elif isinstance(within, int):
        short, options = [b for b in short if b.died - b.born <= within], ["--within", str(within)]
    with tempfile.TemporaryDirectory() as folder:
        rows = listed(trace_of(folder, run), "temporaries", *options)
    assert {row["site"]: (row["temporaries"], row["bytes"]) for row in rows} == {
        site: (sum(b.stack == i for b in short), sum(b.bytes for b in short if b.stack == i))
        for i, site in enumerate(reference.SITES)
        if any(b.stack == i for b in short)
    }


RULES = {
    "never_touched": lambda b, life: not b.uses,
    "never_read": lambda b, life: b.count["S"] > 0 and not b.count["L"] + b.count["M"],
    "never_written": lambda b, life: b.count["L"] > 0 and not b.count["S"] + b.count["M"],
    "written_once": lambda b, life: (
        b.count["S"] > 0
        and not b.count["L"] + b.count["M"]
        and life >= 12
        and b.bytes_written <= b.size
        and b.uses[-1] - b.born <= life * 0.4
    ),
    "short_lived": lambda b, life: b.freed and life <= 7,
    "low_utilisation": lambda b, life: b.uses and b.size >= 20 and b.used() < b.size * 0.3,
    "late_first_use": lambda b, life: b.uses and life >= 12 and b.uses[0] - b.born > life * 0.25,
    "idle_tail": lambda b, life: b.uses and life >= 12 and b.died - b.uses[-1] > life * 0.5,
    "resize_chain": lambda b, life: b.resizes >= 2,
    "never_freed": lambda b, life: not b.freed,
}
THRESHOLDS = ("--early 40 --short 7 --utilisation 30 --min-size 20 --min-life 12 --late 25 --idle 50 --chain 2").split()


@RUNS
@given(runs())
def test_findings(run: Run) -> None:
    made = Lives(run).blocks
    with tempfile.TemporaryDirectory() as folder:
        rows = listed(trace_of(folder, run), "findings", *THRESHOLDS)
    found = {row["finding"]: row for row in rows if "sites" in row}  # test_faults has the tests of the other findings
    accesses = any(b.uses for b in made)
    # test_site_rules and test_resident have their tests
    of_sites = {"leaked", "kept", "growth", "temporary_line", "churn", "kept_free"}
    without = {"short_lived", "resize_chain", "never_freed"}
    assert set(found) == (set(RULES) | of_sites | {"capacity"} if accesses else without | of_sites)
    for key, row in found.items():
        if key not in RULES:
            assert row["blocks"] == 0 and not row["sites"]
            continue
        wanted = [b for b in made if RULES[key](b, b.died - b.born)]
        assert (row["blocks"], row["bytes"]) == (len(wanted), sum(b.size for b in wanted))
        assert row["accesses"] == (sum(len(b.uses) for b in wanted) if accesses else None)
        assert row["blocks"] == sum(site["blocks"] for site in row["sites"])


WHERES = {
    "size >= 30 and lifetime < 20": lambda b: b.size >= 30 and b.died - b.born < 20,
    "not (freed or stores = 0)": lambda b: not (b.freed or b.count["S"] == 0),
    "loads > stores or resizes != 0 and live": lambda b: b.count["L"] > b.count["S"]
    or (b.resizes != 0 and not b.freed),
    "site ~ 'parse' and function != \"parse\"": lambda b: b.stack == 2,
    "file = 'ui.c' or stack !~ 'malloc < parse'": lambda b: b.stack in (1, 2),
    "thread == free_thread": lambda b: b.thread == b.free_thread,
    "utilisation < 50% and 0.05k >= size": lambda b: b.used() / max(b.size, 1) < 0.5 and b.size <= 50,
    "idle <= first_use and heap = 'malloc'": lambda b: b.died - (b.uses or [b.died])[-1]
    <= (b.uses or [b.died])[0] - b.born,
    "accesses = 0 or reads < writes": lambda b: not b.uses or b.count["L"] < b.count["S"],
    "how ~ 'alloc' and news >= 1 and shared": lambda b: b.news >= 1 and b.shared,
    "not not size<1KiB": lambda b: b.size < 1024,
    r"site !~ '\'' and site ~ '\w\.c:7'": lambda b: b.stack == 2,
}


@RUNS
@given(runs(), st.sampled_from(sorted(WHERES)))
def test_where(run: Run, expression: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = listed(trace_of(folder, run), "sites", "--where", expression)
    chosen = [b for b in Lives(run).blocks if WHERES[expression](b)]
    assert sum(row["blocks"] for row in rows) == len(chosen)
    assert sum(row["bytes"] for row in rows) == sum(b.bytes for b in chosen)


WRONG = (
    ("size >", 7, "expected a field or a number"),
    ("size >= 3 and", 14, "expected a field"),
    ("(size > 3", 10, "for the '(' of column 1"),
    ("size = 3 4", 10, "expected `and`"),
    ("colour = 3", 1, "fields are: size"),
    ("site = 3", 8, "text in quotes"),
    ("site > 'x'", 6, "after site"),
    ("size ~ 3", 6, "expected = !="),
    ("site ~ '('", 8, "no regular expression"),
    ("size > 'x'", 8, "a field"),
    ("size > 3; freed", 9, "makes no sense"),
    ("size > 3KB", 8, "no unit"),
    ("", 1, "a field"),
    ("size > 3 AND freed", 10, "did you mean 'and'?"),
    ("sise > 3", 1, "did you mean 'size'?"),
    ("lifetime > 5%", 12, "% goes with utilisation"),
    ("5% < 6", 1, "% goes with"),
    ("freed = 1", 7, "`and`, `or`"),
    ("type = 'float'", 8, "there are: "),
    ("heap != 'Lua'", 9, "did you mean 'lua'?"),
    ("size > 0x10", 8, "unit"),
    ("site ~ 'x", 8, "not closed"),
    ("(" * 60 + "freed" + ")" * 60, 51, "nested more than 50"),
    ("__import__('os')", 1, "fields are"),
)


@pytest.mark.parametrize("expression, column, message", WRONG)
def test_wrong_expressions(steve: Steve, trace, expression: str, column: int, message: str) -> None:
    trace("N 4096 8\nend exit\n")
    result = steve("sites", "t.ljt", "--where", expression)
    assert result.returncode == 2 and result.out == ""
    assert result.err.count("\n") == 1
    assert f"--where: column {column}: " in result.err and message in result.err


def test_forms(steve: Steve, trace) -> None:
    run: Run = [Step(Event("N", 4096 + 64 * i, 8 + i), 1, i % 3, 0) for i in range(9)]
    path = trace(reference.script(run))
    text, rows = steve("sites", path).out, json.loads(steve("sites", path, "--json", "--top", "2").out)
    assert "allocation sites" in text and "grow (buf.c:7)" in text
    assert [row["site"] for row in rows] == [reference.SITES[2], reference.SITES[1], "others (1)"]
    assert rows[2]["bytes"] == sum(8 + i for i in range(0, 9, 3))
    table = list(csv.DictReader(io.StringIO(steve("sites", path, "--csv", "--sort", "site").out)))
    assert [row["site"] for row in table] == sorted(reference.SITES)
    assert table[0]["blocks"] == "3" and list(table[0]) == list(rows[0])
    assert "2 more rows" in steve("sites", path, "--top", "1").out
    assert "(nothing)" in steve("leaks", path, "--where", "freed").out


def test_without_accesses_rules_about_them_are_left_out(steve: Steve, trace) -> None:
    trace("N 4096 8\nF 4096\nend exit\n")
    result = steve("findings", "t.ljt")
    assert "Unused capacity, Never accessed" in result.out and not result.err
    assert "(the trace holds no accesses)" in result.out
    assert "not looked for: Unused capacity, Never accessed" in steve("findings", "t.ljt", "--json").err
    assert "Short-lived: 1 block, 8 bytes" in result.out
    assert steve("findings", "t.ljt", "--rules", "x").returncode == 2
    assert steve("findings", "t.ljt", "--idle", "101").returncode == 2
