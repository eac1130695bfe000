"""The translators against the slow reference, on random histories in binary and in classic text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import tempfile
from pathlib import Path
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

import reference
from conftest import examples, make_trace
from histories import histories, operations
from reference import Event, Op
from steve import cli
from steve.kernels import _locks, _ops, _totals
from steve.kernels._walk import Walk
from steve.parallel.rounds import analyse_whole
from steve.trace._memtrace import OpsFile, Trace

RUNS = examples(150)


def written(write: Callable[[int], object]) -> tuple[str, object]:
    """The bytes that a function writes to a descriptor, and its result."""
    with tempfile.TemporaryFile() as file:
        result = write(file.fileno())
        file.seek(0)
        return file.read().decode(), result


def ops_of(path: Path, **how: bool) -> tuple[str, dict, dict]:
    trace = Trace(str(path), **how)
    text, counts = written(lambda fd: _ops.write_ops(trace, fd))
    assert trace.problem is None
    return text, counts, trace.stats()


def as_text(folder: str, history: list[Event]) -> Path:
    path = Path(folder) / "t.memtrace"
    path.write_text(reference.classic_text(history))
    return path


def as_binary(folder: str, history: list[Event], chunk: int) -> Path:
    return make_trace(Path(folder) / "t.ljt", reference.script(history), chunk)


@RUNS
@given(histories())
def test_ops_of_text(history: list[Event]) -> None:
    expected, accesses, frees = reference.translate(history)
    with tempfile.TemporaryDirectory() as folder:
        text, counts, stats = ops_of(as_text(folder, history), text=True)
    assert text == reference.ops_text(expected)
    assert (counts["ops"], counts["unmatched"]) == (len(expected), 0)
    assert (stats["unmatched_access"], stats["unmatched_free"]) == (accesses, frees)


@RUNS
@given(histories(), st.sampled_from((0, 1, 7)))
def test_ops_of_binary(history: list[Event], chunk: int) -> None:
    expected, _, frees = reference.translate(history)
    with tempfile.TemporaryDirectory() as folder:
        text, counts, stats = ops_of(as_binary(folder, history, chunk))
    assert text == reference.ops_text(expected)
    assert (counts["ops"], stats["unmatched_free"]) == (len(expected), frees)


@RUNS
@given(
    histories(),
    st.booleans(),
    st.sampled_from((("text", False), ("zstd", False), ("binary", False), ("binary", True))),
    st.sampled_from((0, 1, 7)),
)
def test_every_form_of_ops_reads_back(history: list[Event], resizes: bool, form: tuple[str, bool], chunk: int) -> None:
    form, copy = form
    expected = reference.translate(history, resizes)[0]
    with tempfile.TemporaryDirectory() as folder:
        binary, path = as_binary(folder, history, chunk), Path(folder) / "x-ops"
        with open(path, "wb") as file:
            counts = _ops.write_ops(Trace(str(binary)), file.fileno(), form=form, resizes=resizes, copy=copy)
        assert counts["ops"] == len(expected)
        if form == "binary":
            assert path.read_bytes()[7] == (2 if copy else 1)
        file_again = OpsFile(str(path))
        text = written(lambda fd: _ops.write_ops(file_again, fd))[0]
        assert file_again.binary == (form == "binary")
    assert text == reference.ops_text(expected)


@RUNS
@given(operations())
def test_binary_lockops_are_the_text(ops: list[Op]) -> None:
    def use(source: Callable[[], OpsFile]) -> str:
        unfreed = _locks.Unfreed(source())
        with tempfile.NamedTemporaryFile() as file:
            _locks.write_lockops_full(source(), unfreed, file.fileno(), form="binary")
            again = OpsFile(file.name)
            batches = [batch for batch in again.batches(copy=True)]
            assert again.kind == "lockops" and again.binary
        letters = "NFLSMLUOR"
        return "".join(
            f"{o['handle']} {letters[o['code']]} {o['addr']} {o['size']}\n" for batch in batches for o in batch
        )

    assert with_ops(ops, use) == reference.ops_text(reference.lockops_full(ops, False))


@RUNS
@given(histories())
def test_classic_text_gives_the_same_ops(history: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        binary = as_binary(folder, history, 0)
        classic, counts = written(lambda fd: _ops.write_classic(Trace(str(binary)), fd))
        path = Path(folder) / "again.memtrace"
        path.write_text(classic)
        assert ops_of(path, text=True)[0] == ops_of(binary)[0]
    assert counts["lines"] == classic.count("\n")


def with_ops(ops: list[Op], use: Callable[[Callable[[], OpsFile]], str]) -> str:
    with tempfile.NamedTemporaryFile(suffix="-ops") as file:
        file.write(reference.ops_text(ops).encode())
        file.flush()
        return use(lambda: OpsFile(file.name))


def full_locks(ops: list[Op], compat: bool) -> str:
    def use(source: Callable[[], OpsFile]) -> str:
        unfreed = _locks.Unfreed(source())
        return written(lambda fd: _locks.write_lockops_full(source(), unfreed, fd, compat=compat))[0]

    return with_ops(ops, use)


def simple_locks(ops: list[Op], compat: bool) -> str:
    def use(source: Callable[[], OpsFile]) -> str:
        plan = _locks.SimplePlan(source(), compat=compat)
        return written(lambda fd: _locks.write_lockops_simple(source(), plan, fd))[0]

    return with_ops(ops, use)


def lockops_of(ops: list[Op], *arguments: object) -> str:
    """The output of the subcommand."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x-ops"
        path.write_text(reference.ops_text(ops))
        words = [str(word) for word in arguments]
        assert cli.guarded("lockops", [*words, "-q", "--text", str(path), "-o", f"{folder}/out"]) == 0
        return (Path(folder) / "out").read_text()


def two_blocks(accesses: int, others: int) -> list[Op]:
    """One block is accessed many times, then not for a long time: its deadline is far beyond the ring of
    deadlines."""
    ops = [Op(0, "N", 64, 8), Op(1, "N", 128, 8)]
    ops += [Op(0, "L", 64, 4)] * accesses + [Op(1, "S", 128, 4)] * others
    return ops + [Op(0, "L", 64, 4), Op(0, "F", 64, 0), Op(1, "F", 128, 0)]


def many_due_at_once(blocks: int) -> list[Op]:
    """The life counters of all blocks reach the threshold at the same operation."""
    ops = [Op(i, "N", 64 * i, 8) for i in range(blocks)]
    for k, i in enumerate(reversed(range(blocks))):
        ops += [Op(i, "L", 64 * i, 4)] * (1 + (blocks - k) % 3)
    return ops + [Op(0, "S", 0, 4)] * (4 * blocks) + [Op(i, "F", 64 * i, 0) for i in range(blocks)]


@RUNS
@given(operations(), st.booleans())
@example(two_blocks(1, 1), False)
@example(two_blocks(700, 1500), False)
@example(two_blocks(2000, 3000), True)
@example(many_due_at_once(24), False)
@example(many_due_at_once(24), True)
def test_full_locks(ops: list[Op], compat: bool) -> None:
    assert full_locks(ops, compat) == reference.ops_text(reference.lockops_full(ops, compat))


@RUNS
@given(operations(), st.booleans())
@example([Op(0, "N", 64, 8), Op(0, "F", 64, 0)], False)
@example([Op(0, "N", 64, 8), Op(0, "F", 64, 0)], True)
def test_simple_locks(ops: list[Op], compat: bool) -> None:
    assert simple_locks(ops, compat) == reference.ops_text(reference.lockops_simple(ops, compat))


@RUNS
@given(
    operations(),
    st.sampled_from((0.001, 0.5, 1, 7.25)),
    st.sampled_from((0.25, 1, 1000)),
    st.sampled_from((0, 0.5, 3)),
    st.booleans(),
)
@example(two_blocks(700, 1500), 7.25, 0.25, 3, True)
@example(many_due_at_once(24), 0.5, 0.25, 0.5, True)
def test_rules_of_full_locks(ops: list[Op], gain: float, decay: float, threshold: float, unlock: bool) -> None:
    given_rules = ["--gain", gain, "--decay", decay, "--threshold", threshold]
    text = lockops_of(ops, "--full", *given_rules, *(["--unlock-before-free"] if unlock else []))
    # in thousandths, so that the reference uses integers
    rules = reference.Rules(round(gain * 1000), round(decay * 1000), round(threshold * 1000), unlock)
    assert text == reference.ops_text(reference.lockops_full(ops, False, rules))


@RUNS
@given(operations(), st.sampled_from((0, 0.2, 0.5, 0.875, 1)), st.booleans())
def test_rules_of_simple_locks(ops: list[Op], threshold: float, unlock: bool) -> None:
    more = ["--unlock-before-free"] if unlock else []
    text = lockops_of(ops, "--simple", "--threshold", threshold, *more)
    assert text == reference.ops_text(reference.lockops_simple(ops, False, threshold, unlock))


@RUNS
@given(operations())
def test_no_lock_event_is_lost(ops: list[Op]) -> None:
    text = full_locks(ops, False).splitlines()
    for handle in reference.handles_of(ops):
        own = [line.split()[1] for line in text if line.startswith(f"{handle} ")]
        letters = [letter for letter in own if letter in "LU"]
        assert letters == [letter for _, letter in reference.lock_events(ops, handle)]


def binary_ops(path: Path, write: Callable[[int], object]) -> OpsFile:
    """The binary ops file that a function writes, at `path`."""
    with open(path, "wb") as file:
        write(file.fileno())
    return OpsFile(str(path))


def foretold_locks(file: OpsFile | Trace) -> str:
    """The full locks of a file that lists the never-freed blocks; the list is checked here, too."""
    unfreed = _locks.Unfreed(file)
    assert unfreed.foretold
    return written(lambda fd: _locks.write_lockops_full(file, unfreed, fd))[0]


@RUNS
@given(histories(), st.sampled_from((0, 7)))
def test_traces_say_what_is_never_freed(history: list[Event], chunk: int) -> None:
    expected = reference.lockops_full(reference.translate(history)[0], False)
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(str(as_binary(folder, history, chunk)))
        assert foretold_locks(trace) == reference.ops_text(expected)


@RUNS
@given(histories(), st.booleans(), st.booleans(), st.sampled_from((0, 3)))
def test_ops_files_say_what_is_never_freed(history: list[Event], resizes: bool, copy: bool, chunk: int) -> None:
    expected = reference.lockops_full(reference.translate(history, resizes)[0], False)
    with tempfile.TemporaryDirectory() as folder:
        source = str(as_binary(folder, history, chunk))
        file = binary_ops(
            Path(folder) / "x-ops",
            lambda fd: _ops.write_ops(Trace(source), fd, form="binary", resizes=resizes, copy=copy),
        )
        assert foretold_locks(file) == reference.ops_text(expected)


@RUNS
@given(operations())
def test_copies_of_ops_files_say_it_too(ops: list[Op]) -> None:
    with tempfile.TemporaryDirectory() as folder:

        def use(source: Callable[[], OpsFile]) -> str:
            return foretold_locks(
                binary_ops(Path(folder) / "x-ops", lambda fd: _ops.copy_ops(source(), fd, form="binary"))
            )

        assert with_ops(ops, use) == reference.ops_text(reference.lockops_full(ops, False))


@RUNS
@given(operations())
def test_lifetimes(ops: list[Op]) -> None:
    total, expected = reference.lifetimes(ops)
    with tempfile.NamedTemporaryFile(suffix="-ops") as file:
        file.write(reference.ops_text(ops).encode())
        file.flush()
        accesses, unmatched, blocks = _totals.lifetimes_of(OpsFile(file.name))
        handles = written(lambda fd: _ops.write_handles(OpsFile(file.name), fd))[0]
    assert (accesses, unmatched) == (total, 0)
    assert {int(b["handle"]): (int(b["own"]), int(b["other"])) for b in blocks} == expected
    assert handles == str([op.handle for op in ops])


def test_locks_of_a_memtrace_equal_those_of_its_ops(tmp_path: Path) -> None:
    history = [Event("N", 4096 + 64 * i, 32) for i in range(20)]
    history += [Event("LSM"[i % 3], 4096 + 64 * (i * i % 20), 4) for i in range(500)]
    history += [Event("F", 4096 + 64 * i, 0) for i in range(20)]
    path = make_trace(tmp_path / "t.ljt", reference.script(history))
    unfreed = _locks.Unfreed(Trace(str(path)))
    text = written(lambda fd: _locks.write_lockops_full(Trace(str(path)), unfreed, fd))[0]
    assert text == full_locks(reference.translate(history)[0], False)
    assert "U" in text


@RUNS
@given(histories())
def test_summary(history: list[Event]) -> None:
    expected = reference.totals(history)
    with tempfile.TemporaryDirectory() as folder:
        summary = analyse_whole(Walk(Trace(str(as_binary(folder, history, 0)))), _totals.Summary)
    found = {**summary.events, **summary.totals}
    assert {name: found[name] for name in expected} == expected
    _, stacks = summary.used_stacks()
    assert sum(stacks["bytes"]) == expected["allocated"]
    assert sum(stacks["live_bytes"]) == expected["live_bytes"]


@RUNS
@given(histories(), st.sampled_from((0, 3)))
def test_every_trace_of_the_writer_is_sound(history: list[Event], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = analyse_whole(Walk(Trace(str(as_binary(folder, history, chunk)))), _totals.Check)
    assert {name: rule["count"] for name, rule in found["rules"].items()} == dict.fromkeys(_totals.RULES, 0)
    assert found["live"] == reference.totals(history)["live_blocks"]
