"""--where, --from and --to: every command that reports on blocks has them, and they mean the same everywhere.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import gzip
import json
import tempfile
from pathlib import Path
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import reference_lives
import warm
from conftest import Steve, examples
from reference import Event
from reference_lives import Block, Lives, Run, Step
from steve.command import COMMANDS
from test_analyses import WHERES, run_steve, runs, trace_of

WINDOWS = ((None, None), (None, "b"), ("a", None), ("b", "b"))


# ---- translators and totals, against the reference applied to the selected events only ------------


def owners(run: Run) -> list[tuple[Event, int]]:
    """Each event with the handle of its block, -1 if it has none."""
    live: dict[int, tuple[int, int]] = {}
    made, result = 0, []
    for step in run:
        if isinstance(step, str):
            continue
        event = step.event
        former = event.old if event.letter == "R" else event.addr
        if event.letter in "LSM":
            found = [handle for start, (size, handle) in live.items() if start <= event.addr < start + size]
            handle = found[0] if found else -1
        else:
            handle = live.pop(former)[1] if event.letter in "FR" and former in live else -1
            if event.letter in "NR":
                made, handle = (made + 1, made) if handle < 0 else (made, handle)
                live[event.addr] = (event.size, handle)
        result.append((event, handle))
    return result


def chosen_history(run: Run, window: tuple, keep: Callable[[Block], bool], all_kept: bool) -> list[Event]:
    """The selected events as a history of their own."""
    handles = {block.handle for block in Lives(run, *window).blocks if keep(block)}
    made = iter(owners(run))
    within, history = window[0] is None, []
    for step in run:
        if isinstance(step, str):
            if within and step == window[1]:
                break
            within = within or step == window[0]
            continue
        event, handle = next(made)
        if within and (handle in handles or (all_kept and handle < 0 and event.letter == "F")):
            history.append(event)
    return history


def chosen_options(window: tuple, where: str) -> list[str]:
    ends = [("--from", window[0]), ("--to", window[1]), ("--where", where)]
    return [word for name, value in ends if value for word in (name, value)]


FEWER = examples(25)
CHOICES = st.tuples(runs(marks=True), st.sampled_from(WINDOWS), st.sampled_from(("", *sorted(WHERES))))


@FEWER
@given(CHOICES)
def test_ops_and_locks(given_choice: tuple) -> None:
    run, window, where = given_choice
    ops, _, _ = reference.translate(chosen_history(run, window, WHERES.get(where, lambda b: True), not where))
    with tempfile.TemporaryDirectory() as folder:
        path, options = str(trace_of(folder, run)), chosen_options(window, where)
        assert run_steve("ops", path, "--text", *options) == reference.ops_text(ops)
        assert run_steve("lockops", path, "--full", "--text", *options) == reference.ops_text(
            reference.lockops_full(ops, False)
        )
        assert run_steve("lockops", path, "--simple", "--text", *options) == reference.ops_text(
            reference.lockops_simple(ops, False)
        )


@FEWER
@given(CHOICES)
def test_summary(given_choice: tuple) -> None:
    run, window, where = given_choice
    history = chosen_history(run, window, WHERES.get(where, lambda b: True), not where)
    expected = reference.totals(history)
    with tempfile.TemporaryDirectory() as folder:
        path = trace_of(folder, run)
        found = json.loads(run_steve("summary", str(path), "--json", *chosen_options(window, where)))
    for name in ("new", "free", "resize", "load", "store", "modify"):
        assert found["events"][name] == expected[name]
    for name, key in (
        ("allocated", "allocated"),
        ("freed", "freed"),
        ("peak_live", "peak_bytes"),
        ("live_at_end", "live_bytes"),
        ("read", "read"),
        ("written", "written"),
    ):
        assert found["bytes"][name] == expected[key]
    assert found["blocks"]["peak_live"] == expected["peak_blocks"]
    # frees that match no block belong to no selected block
    assert found["unmatched"] == {"free": 0 if where else reference.translate(history)[2], "access": 0}
    assert found["complete"] is True


@FEWER
@given(CHOICES)
def test_histogram(given_choice: tuple) -> None:
    run, window, where = given_choice
    history = chosen_history(run, window, WHERES.get(where, lambda b: True), not where)
    total, lives = reference.lifetimes(reference.translate(history)[0])
    with tempfile.TemporaryDirectory() as folder:
        path = str(trace_of(folder, run))
        how = ["-q", "--parts", "lifetime", "-o", f"{folder}/x"]
        done = warm.steve(["histogram", path, *how, *chosen_options(window, where)])
        found = json.loads(Path(folder, "x-lifetime").read_text())
    assert (done.returncode, done.stderr) == (0, b"") and found["mod-op-count"] == total
    assert {int(handle): tuple(pair) for handle, pair in found["lifetime-ops"].items()} == lives


def beyond(run: Run) -> list[Event]:
    """The accesses that begin in a block and end beyond it."""
    live: dict[int, int] = {}
    result = []
    for event, handle in owners(run):
        if event.letter in "FR" and handle >= 0:
            live.pop(event.old if event.letter == "R" else event.addr, None)
        if event.letter in "NR":
            live[event.addr] = event.size
        if event.letter in "LSM" and handle >= 0:
            start = max(addr for addr, size in live.items() if addr <= event.addr < addr + size)
            result += [event] if event.addr + event.size > start + live[start] else []
    return result


@FEWER
@given(CHOICES)
def test_check(given_choice: tuple) -> None:
    run, window, where = given_choice
    history = chosen_history(run, window, WHERES.get(where, lambda b: True), not where)
    crossing = {id(event) for event in beyond(run)}
    with tempfile.TemporaryDirectory() as folder:
        found = json.loads(run_steve("check", str(trace_of(folder, run)), "--json", *chosen_options(window, where)))
    assert found["sound"] and found["live_at_end"] == reference.totals(history)["live_blocks"]
    assert found["crossing"]["count"] == sum(id(event) in crossing for event in history)
    assert not where or found["events"] == len(history)
    assert ("skipped" in found["rules"]["totals"]) == (any(window) or bool(where))


# ---- every command ----------------------------------------------------------------------------

# commands that do not report on blocks, but on the file, on snapshots or on other kinds of files
OTHERS = {
    "info",
    "dump",
    "symbolize",
    "import",
    "serve",
    "top",
    "universe",
    "resident",
    "map",
    "allocstats",
    "compare",
    "pins",
    "tune",
    "synth",
    "graphs",
    "animate",
    "memprof",
    "sysprof",
}
ARGUMENTS = {
    "diff": ("t.ljt", "--json"),
    "ops": ("-o", "-"),
    "memtrace": (),
    "lockops": ("--full", "--stats", "--json"),
    "histogram": ("--parts", "none", "--json"),
    "export": ("--format", "folded", "-o", "-"),
    "flame": ("-o", "-"),
}


def rows_without(rows: list[dict], *names: str) -> bool:
    return all(row[name] == 0 for row in rows for name in names)


# the output when no block is selected
NOTHING = {
    "summary": lambda out: set(json.loads(out)["events"].values()) == {0},
    "states": lambda out: rows_without(json.loads(out), "allocs", "frees", "loads", "stores"),
    "workingset": lambda out: rows_without(json.loads(out), "accesses", "bytes", "lines", "blocks"),
    "findings": lambda out: rows_without(json.loads(out), "blocks", "bytes"),
    "histogram": lambda out: json.loads(out)["blocks"] == 0,
    "lockops": lambda out: json.loads(out)["blocks"] == 0,
    "report": lambda out: json.loads(out)["sites"] == [],
    "flame": lambda out: "parse" not in out,
    "export": lambda out: out == "",
    "ops": lambda out: out == "",
    "memtrace": lambda out: out == "",
    "check": lambda out: json.loads(out)["live_at_end"] == 0 and json.loads(out)["sound"],
}


def command_line(command: str) -> list[str]:
    return [command, "-q", "t.ljt", *ARGUMENTS.get(command, ("--json",))]


@pytest.fixture
def choosable(steve: Steve, trace: Callable[..., Path]) -> Steve:
    """t.ljt: marks at its beginning and end, two threads, three sites, a temporary, a resize, a global."""

    def at(letter: str, addr: int, size: int, thread: int, stack: int, old: int = 0) -> Step:
        return Step(Event(letter, addr, size, old), thread, stack, 0)

    run: Run = ["start", at("N", 4096, 64, 1, 0), at("N", 8192, 100, 2, 1)]
    run += [at("L", 4096 + 8 * (i % 8), 8, 1 + i % 2, 0) for i in range(40)]
    run += [at("S", 8192, 4, 1, 1), at("N", 12288, 16, 1, 2), at("F", 12288, 0, 1, 2), "empty", "empty"]
    run += [at("R", 16384, 200, 1, 2, 4096), at("M", 16384, 8, 2, 0), at("F", 8192, 0, 1, 1), "end"]
    trace(
        reference_lives.script(run)
        .replace("end exit", "time 5000\nmark end\nend exit")
        .replace("mark end\ntime", "time")
    )
    return steve


def plain(out: str) -> str:
    """The output without what may differ: times interpolated between marks, the marks, check's rules for whole
    traces, the rule of findings that is not judged between marks, and what leaks knows at the end of the trace only."""
    if not out.startswith("{"):
        out = out.replace('"not_judged": "--from and --to choose marks"', '"not_judged": null')
        return out.replace('"divided": null', '"divided": 0')
    found = json.loads(out)
    found.pop("seconds", None)
    if "rules" in found:
        del found["events"], found["rules"]["totals"], found["rules"]["counts"], found["rules"]["left"]
    return json.dumps({name: value for name, value in found.items() if name != "totals"}) + json.dumps(
        {name: value for name, value in found.get("totals", {}).items() if "mark" not in name}
    )


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in OTHERS])
def test_every_command_takes_a_choice(choosable: Steve, command: str) -> None:
    line = command_line(command)
    whole = choosable(*line)
    assert whole.returncode == 0 and whole.out, whole.err
    every = choosable(*line, "--where", "size >= 0")
    assert every.returncode == 0, every.err
    # errors of the program are reported for the whole trace only; this trace has none
    assert plain(every.out) == plain(whole.out)
    none = choosable(*line, "--where", "size > 1Gi")
    assert none.returncode == 0, none.err
    assert NOTHING.get(command, lambda out: json.loads(out) == [])(none.out), none.out
    between = choosable(*line, "--from", "empty", "--to", "empty")
    assert between.returncode == 0, between.err
    assert NOTHING.get(command, lambda out: json.loads(out) == [])(between.out), between.out
    if command != "states":  # their state is unknown at a mark
        same = choosable(*line, "--from", "start", "--to", "end")
        assert plain(same.out) == plain(whole.out)
    missing = choosable(*line, "--from", "start", "--to", "nowhere")
    assert missing.returncode == 1 and "no mark 'nowhere' after 'start'" in missing.err
    wrong = choosable(*line, "--where", "colour = 3")
    assert wrong.returncode == 2 and "--where: column 1: " in wrong.err


@pytest.mark.parametrize("command", sorted(OTHERS))
def test_others_refuse_a_choice(steve: Steve, command: str) -> None:
    result = steve(command, "--where", "size >= 0", "x")
    assert result.returncode == 2 and "--where" in result.err


@pytest.mark.parametrize("command", (("lockops", "--full"), ("histogram", "--parts", "none")))
def test_an_ops_file_has_no_choice(steve: Steve, tmp_path: Path, command: tuple) -> None:
    (tmp_path / "a-ops").write_text("0 N 4096 8\n")
    result = steve(*command, "a-ops", "--where", "size > 1")
    assert result.returncode == 2 and "a-ops: is an ops file; --where" in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["a-ops"]


def test_from_standard_input(choosable: Steve, tmp_path: Path) -> None:
    """Selecting blocks needs two reads, but standard input can be read only once."""
    data = (tmp_path / "t.ljt").read_bytes()
    for command in ("summary", "ops", "lockops", "report"):
        line = [word if word != "t.ljt" else "-" for word in command_line(command)]
        for options in (("--where", "size > 64"), ("--from", "start", "--to", "empty")):
            named = choosable(*command_line(command), *options).out
            piped = choosable(*line, *options, stdin=data)
            assert piped.returncode == 0, piped.err
            out = piped.out.replace("standard input", "t.ljt").replace('"-"', '"t.ljt"')
            assert of_one_reading(command, out) == of_one_reading(command, named)


def of_one_reading(command: str, out: str) -> str:
    """The output; of the report without the accesses by offset, which take another reading of the trace."""
    if command != "report":
        return out
    return json.dumps({key: value for key, value in json.loads(out).items() if key != "by_offset"})


EXPORTS = ("pprof", "folded", "speedscope", "callgrind", "csv", "dhat", "massif", "heaptrack")


@pytest.mark.parametrize("form", EXPORTS)
def test_every_export_takes_a_choice(choosable: Steve, tmp_path: Path, form: str) -> None:
    def exported(*options: str) -> bytes:
        done = choosable("export", "-q", "--format", form, "t.ljt", "-o", "out", *options)
        assert done.returncode == 0, done.err
        data = (tmp_path / "out").read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data

    whole = exported()
    assert exported("--where", "size >= 0") == whole and b"parse" in whole and b"draw" in whole
    some = exported("--where", "site ~ 'draw'")
    assert b"draw" in some and b"grow" not in some
    assert b"draw" not in exported("--from", "empty", "--to", "empty")


def test_exported_samples_are_of_no_block(choosable: Steve) -> None:
    result = choosable("export", "--format", "sysprof", "t.ljt", "--where", "size > 1")
    assert result.returncode == 2 and "belong to no block" in result.err
