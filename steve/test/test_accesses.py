"""The analyses of accesses and lives that test_analyses does not cover, against slow references on random
runs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import json
import tempfile
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_accesses as slow
import reference_lives as reference
from conftest import Steve, make_trace
from reference import Event
from reference_accesses import History
from reference_lives import Block, Run, Step
from steve.analysis.bins import LinearBins, LogBins
from steve.command import COMMANDS, Command
from test_analyses import RUNS, listed, runs, trace_of

FILTERS = {(): lambda block: True, ("--where", "size >= 30"): lambda block: block.size >= 30}
filters = st.sampled_from(sorted(FILTERS))


def of(run: Run, command: str, *arguments: str) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        return listed(trace_of(folder, run), command, *arguments)


@RUNS
@given(runs(), st.integers(1, 40), filters)
def test_working_set(run: Run, length: int, where: tuple) -> None:
    expected = slow.working_set(History(run).log, length, FILTERS[where])
    rows = of(run, "workingset", "--window", str(length), *where)
    assert [{key: row[key] for key in expected[0]} for row in rows] == expected


@RUNS
@given(runs(), st.sampled_from((16, 64)), filters)
def test_reuse(run: Run, line: int, where: tuple) -> None:
    log = History(run).log
    rows = of(run, "reuse", "--line", str(line), *where)
    for row in rows:
        assert row["misses"] == slow.misses(log, line, row["cache_lines"], FILTERS[where])
    chosen = [h for h in log if h.letter in "LSM" and FILTERS[where](h.block)]
    assert bool(rows) == bool(chosen)
    if rows:
        touches = sum(len({address // line for address in slow.touched(h)}) for h in chosen)
        assert sum(row["touches"] for row in rows) + rows[-1]["misses"] == touches


@RUNS
@given(runs(), filters)
def test_sharing(run: Run, where: tuple) -> None:
    expected = {reference.SITES[stack]: n for stack, n in slow.shared_blocks(History(run).log, FILTERS[where]).items()}
    assert {row["site"]: row["shared_blocks"] for row in of(run, "sharing", *where)} == expected


@RUNS
@given(runs(), filters)
def test_fields(run: Run, where: tuple) -> None:
    history = History(run)
    rows = of(run, "fields", "--sites", "3", *where)
    assert all(row["cell"] == 1 for row in rows)
    for stack, site in enumerate(reference.SITES):
        own = [row for row in rows if row["site"] == site]
        found = {
            offset: [row["loads"], row["stores"], row["modifies"]]
            for row in own
            for offset in range(row["offset"], row["offset"] + row["bytes"])
            if row["loads"] + row["stores"] + row["modifies"]
        }
        assert found == slow.fields(history.log, stack, FILTERS[where])
        sizes = [h.size for h in history.log if h.letter in "NR" and h.block.stack == stack and FILTERS[where](h.block)]
        assert sum(row["bytes"] for row in own) == max(sizes, default=0)


def test_fields_of_large_blocks(steve: Steve, trace) -> None:
    trace("stack f\nN 65536 1000000 1\nL 65536 8\nS 1065528 8\nend exit\n")
    rows = json.loads(steve("fields", "t.ljt", "--json").out)
    assert [(row["offset"], row["bytes"], row["cell"], row["loads"], row["stores"]) for row in rows] == [
        (0, 256, 256, 1, 0),
        (256, 999680 - 256 + 256, 256, 0, 0),
        (999936, 64, 256, 0, 1),
    ]


@RUNS
@given(runs())
def test_resizes(run: Run) -> None:
    log = [h for h in History(run).log if h.letter == "R"]
    rows = {row["site"]: row for row in of(run, "resizes")}
    for stack, site in enumerate(reference.SITES):
        own = [h for h in log if h.block.stack == stack]
        assert (site in rows) == bool(own)
        if own:
            moved = [h for h in own if h.old_addr != h.step.event.addr]
            handles = [h.block.handle for h in own]
            assert (rows[site]["resizes"], rows[site]["resized"]) == (len(own), len(set(handles)))
            assert (rows[site]["moves"], rows[site]["copied"]) == (
                len(moved),
                sum(min(h.size, h.old_size) for h in moved),
            )
            assert rows[site]["longest"] == max(handles.count(handle) for handle in handles)


@RUNS
@given(runs(), st.sampled_from((0, 10, 50, 100)))
def test_globals(run: Run, share: int) -> None:
    lives = History(run)
    rows = of(run, "globals", "--share", str(share), "--accesses", "2")
    assert {row["handle"]: row["accesses"] for row in rows} == {
        b.handle: len(b.uses) for b in lives.blocks if len(b.uses) >= 2 and b.died - b.born >= lives.now * (share / 100)
    }


def allocated_during(history: History, block: Block) -> int:
    """Bytes requested after the block's New, up to its end."""
    seen = [i for i, h in enumerate(history.log) if h.block is block and h.letter == "N"][0]
    ends = [i for i, h in enumerate(history.log) if h.block is block and h.letter == "F"]
    return sum(h.size for h in history.log[seen + 1 : (ends or [None])[0]] if h.letter in "NR")


@RUNS
@given(runs(), st.sampled_from(("operations", "bytes")), st.sampled_from(("log", "linear")), st.booleans())
def test_lifetimes(run: Run, unit: str, bins: str, by_size: bool) -> None:
    history = History(run)
    lives = [
        (b.died - b.born if unit == "operations" else allocated_during(history, b), b.size) for b in history.blocks
    ]
    rows = of(run, "lifetimes", "--unit", unit, "--bins", bins, *(["--by-size"] if by_size else []))
    assert sum(row["blocks"] for row in rows) == len(lives)
    for row in rows:
        inside = [
            size
            for life, size in lives
            if row["from"] <= life <= row["to"] and row["from_size"] <= size <= (row["to_size"] if by_size else size)
        ]
        assert (row["blocks"], row["bytes"]) == (len(inside), sum(inside))


def test_lifetimes_in_time(steve: Steve, trace) -> None:
    trace("time 10\nN 4096 8\ntime 30\nF 4096\nN 4096 8\ntime 100\nL 4096 8\nF 4096\nend exit\n")
    rows = json.loads(steve("lifetimes", "t.ljt", "--json", "--unit", "instructions").out)
    assert [(row["from"], row["to"], row["blocks"]) for row in rows] == [(16, 31, 1), (64, 127, 1)]
    assert steve("lifetimes", "t.ljt", "--unit", "nanoseconds").returncode == 0
    assert steve("lifetimes", "t.ljt", "--unit", "fortnights").returncode == 2


def test_lives_reach_the_end(steve: Steve, trace) -> None:
    """A block that is never freed lives until the program ends, even if the heap is not used any more."""
    trace(
        "N 4096 8\nN 8192 8\nF 8192\ntime 40\nmark m\nN 8192 8\ntime 70\nL 8192 8\ntime 100\nend exit\n", chunk_events=1
    )
    for jobs in ((), ("-j", "3")):
        for options, lived in (((), (100, 60)), (("--from", "m"), (60,)), (("--to", "m"), (40,))):
            for instructions in lived:
                where = f"instructions = {instructions} and not freed"
                rows = json.loads(steve("sites", "t.ljt", "--json", "--where", where, *options, *jobs).out)
                assert [row["blocks"] for row in rows] == [1], (options, instructions, jobs)


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 200), max_size=40))
def test_bins(values: list[int]) -> None:
    for make in (LogBins, LinearBins):
        bins = make()
        for i in range(0, len(values), 7):
            part = np.array(values[i : i + 7], "u8")
            bins.add(part, np.ones(len(part), "u8"))
        rows = list(bins)
        assert [count for first, last, count, _ in rows] == [
            sum(first <= value <= last for value in values) for first, last, _, _ in rows
        ]
        assert sum(count for _, _, count, _ in rows) == sum(weight for *_, weight in rows) == len(values)


@RUNS
@given(runs())
def test_heat(run: Run) -> None:
    made = History(run).blocks
    rows = of(run, "heat")
    for row in rows:
        heat = [(b, (b.bytes_read + b.bytes_written) / b.size) for b in made]
        own = [
            b
            for b, traffic in heat
            if (
                traffic == 0
                if row["to"] == 0
                else traffic > 0 and row["from"] <= traffic and (row["to"] is None or traffic < row["to"])
            )
        ]
        assert (row["blocks"], row["bytes"]) == (len(own), sum(b.size for b in own))
        assert row["never_accessed"] == sum(b.size - b.used() for b in own)
        assert row["accesses"] == sum(len(b.uses) for b in own)
    assert sum(row["blocks"] for row in rows) == len(made)


@RUNS
@given(runs(), runs())
def test_diff(first: Run, second: Run) -> None:
    sides = [History(first), History(second)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            make_trace(trace_of(folder, first).with_name(name), reference.script(run))
            for name, run in (("a.ljt", first), ("b.ljt", second))
        ]
        rows = {row["place"]: row for row in listed(paths[0], "diff", str(paths[1]))}
    measures: list[tuple[str, Callable[[Block], int]]] = [
        ("blocks", lambda b: 1),
        ("bytes", lambda b: b.bytes),
        ("peak_bytes", lambda b: b.peak_bytes),
        ("live_bytes", lambda b: 0 if b.freed else b.size),
        ("accesses", lambda b: len(b.uses)),
    ]
    for stack, site in enumerate(reference.SITES):
        for key, measure in measures:
            a, b = (sum(measure(block) for block in side.blocks if block.stack == stack) for side in sides)
            row = rows.get(site, {f"{key}_change": 0})
            assert row[f"{key}_change"] == b - a
            assert site not in rows or (row[f"{key}_a"], row[f"{key}_b"]) == (a, b)


# those that list what they find about the chosen blocks of one trace
LISTING = [
    c.name for c in map(Command, COMMANDS) if c.has_option("--sort") and c.has_option("--where") and len(c.inputs) == 1
]


@pytest.mark.parametrize("command", LISTING)
def test_every_analysis(steve: Steve, trace, tmp_path, command: str) -> None:
    run: Run = [
        Step(Event("N", 4096, 8), 1, 0, 0),
        "m",
        Step(Event("N", 8192, 8), 1, 0, 0),
        Step(Event("L", 8192, 8), 2, 0, 0),
        Step(Event("R", 8192, 9, 8192), 2, 0, 0),
    ]
    path = trace(reference.script(run))
    assert steve(command, "t.ljt").returncode == 0
    if command != "findings":
        assert "\n" in steve(command, "t.ljt", "--csv").out
    piped = steve(command, "-", "--json", "--where", "size > 1", stdin=path.read_bytes())
    assert piped.returncode == 0 and piped.out == steve(command, "t.ljt", "--json").out
    assert "columns (names of JSON" in steve(command, "--help").out
    result = steve(command, "t.ljt", "--from", "m", "--to", "x")
    assert result.returncode == 1 and "no mark 'x' after 'm'; marks in the trace: 'm'" in result.err
    assert steve(command, "t.ljt", "--sort", "colour").returncode == 2
    (tmp_path / "cut.ljt").write_bytes(path.read_bytes()[:-30])
    assert steve(command, "cut.ljt", "-o", "out").returncode == 1
    assert steve(command, "missing").returncode == 1


@pytest.mark.parametrize("command", ("workingset", "reuse", "sharing", "fields"))
def test_only_what_was_made_after_the_mark_counts(steve: Steve, trace, command: str) -> None:
    before: Run = [Step(Event("N", 4096, 64), 1, 0, 0), Step(Event("L", 4096, 8), 1, 0, 0)]
    after: Run = [
        Step(Event("N", 8192, 64), 1, 1, 0),
        Step(Event("S", 8192, 8), 1, 0, 0),
        Step(Event("L", 8200, 8), 2, 0, 0),
    ]
    trace(reference.script([*before, "m", Step(Event("L", 4096, 8), 2, 0, 0), *after, "n", *before[1:]]))
    trace(reference.script([*after[:1], *after[1:]]), "alone.ljt")
    part, alone = (
        json.loads(steve(command, *arguments, "--json").out)
        for arguments in (("t.ljt", "--from", "m", "--to", "n"), ("alone.ljt",))
    )
    for row in (*part, *alone):
        row.pop("operations", None)  # the load from an older block counts as an operation, too
    assert part == alone and part


def test_reuse_of_many_lines(steve: Steve, trace) -> None:
    """40,000 lines in turn, four times: the tree is renumbered and extended, and every distance is known."""
    lines = 40_000
    sweep = "".join(f"L {65536 + 64 * i} 8\n" for i in range(lines))
    trace(f"N 65536 {64 * lines}\n" + sweep * 4 + "end exit\n")
    rows = json.loads(steve("reuse", "t.ljt", "--json").out)
    assert [(row["cache_lines"], row["misses"]) for row in rows][-2:] == [(32768, 4 * lines), (65536, lines)]
    sampled = json.loads(steve("reuse", "t.ljt", "--json", "--sample", "8").out)[-1]
    assert abs(sampled["misses"] - lines) < lines / 20 and sampled["cache_lines"] == 65536


NATIVE = "info recorder native\ninfo time_unit nanoseconds\nthread 1\ntime 5\nN 4096 64\ntime 9\nF 4096\nend exit\n"
# of each command, the columns that are not known without loads and stores, and the headings of its table
UNKNOWN = {
    "sites": ({"utilisation", "shared"}, "blocks bytes at peak at end lifetime (ops) site"),
    "types": ({"utilisation"}, "blocks bytes % of bytes frees at peak at end lifetime (ops) type"),
    "threads": ({"shared_blocks"}, "thread name allocs bytes frees foreign at peak at end"),
    "states": (set(), "state trace entries nanoseconds % allocs bytes freed starts at"),
    "lines": (
        {f"{whose}_{key}" for whose in ("own", "others") for key in ("loads", "stores", "modifies")}
        | {f"{whose}_bytes_{how}" for whose in ("own", "others") for how in ("read", "written")}
        | {"blocks_touched", "cache_lines_touched"},
        "allocs bytes frees at peak at end line",
    ),
}


@pytest.mark.parametrize("command", UNKNOWN)
def test_accesses_that_were_not_recorded_are_unknown(steve: Steve, trace, command: str) -> None:
    trace(NATIVE)
    keys, heads = UNKNOWN[command]
    keys = keys | {"loads", "stores", "modifies", "bytes_read", "bytes_written"}
    (row,) = json.loads(steve(command, "--json", "t.ljt").out)
    assert {key for key, value in row.items() if value is None} == keys
    (line,) = csv.DictReader(steve(command, "--csv", "t.ljt").out.splitlines())
    assert line.keys() == row.keys() and all(line[key] == "" for key in keys)
    assert f" {heads} " in f" {' '.join(steve(command, 't.ljt').out.split())} "
    trace(NATIVE.replace("info recorder native\n", "").replace("time 9\n", "L 4096 8\ntime 9\n"))
    (row,) = json.loads(steve(command, "--json", "t.ljt").out)
    assert (row["loads"], row["stores"], row["bytes_read"]) == (1, 0, 8) and None not in row.values()


def test_the_working_set_of_a_trace_without_accesses(steve: Steve, trace) -> None:
    trace(NATIVE)
    (row,) = json.loads(steve("workingset", "--json", "t.ljt").out)
    known = {"first": 0, "operations": 2, "instructions": 9, "live_bytes": 0}
    assert row == {**dict.fromkeys(("accesses", "bytes", "lines", "line_bytes", "blocks", "share")), **known}
    assert "operation nanoseconds live" in " ".join(steve("workingset", "t.ljt").out.split())
