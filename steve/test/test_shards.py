"""Work in shards gives the same bytes as work in one piece: random traces, a larger one, a Dask cluster,
damage.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import reference_lives
from conftest import BUILD, Steve, examples, make_trace
from histories import histories
from reference import Event
from reference_lives import Run
from steve.analysis import totals
from steve.analysis.operations import Operations
from steve.kernels._report import TALLY, BlockCells
from steve.kernels import _ops, _totals
from steve.kernels._walk import Walk
from steve.parallel import processes, rounds
from steve.parallel.rounds import analyse_whole
from steve.report.collect import ReportAnalysis
from steve.trace._memtrace import Trace
from steve.system.errors import SteveError
from test_analyses import runs

MKLOAD = Path(BUILD) / "steve" / "test" / "mkload"
SHOWN = [name for name in TALLY.names if name != "epoch"]
SECONDS = 300  # timeout for what takes about a second on an idle machine
# the binary form is copied by one process, unless damage has to be skipped
FORMS = (["--text"], ["--binary", "--salvage"], ["--text", "--resize"], ["--resize", "--salvage"], ["--binary"])


class Here:
    """A pool that works in this process, with so many parts that short ones have one or two chunks."""

    n, remote = 12, False

    def run(self, function: Any, tasks: Any) -> Iterator[Any]:
        return (function(*task) for task in tasks)


def silent(done: int, total: int) -> None:
    """A progress that shows nothing."""


def ops_in_shards(path: Path, form: str, resizes: bool) -> bytes:
    with tempfile.TemporaryFile() as file:
        rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(partial(Operations, file.fileno(), form, resizes))
        file.seek(0)
        return file.read()


def summary_in_shards(reading: rounds.Reading) -> tuple[rounds.Whole, _totals.Summary]:
    shards = rounds.Rounds(reading, Here(), silent)
    summary = shards.run(_totals.Summary)
    return shards.whole(), summary


def ops_in_one(path: Path, form: str, resizes: bool) -> bytes:
    with tempfile.TemporaryFile() as file:
        _ops.write_ops(Trace(str(path)), file.fileno(), form=form, resizes=resizes, copy=False)
        file.seek(0)
        return file.read()


@examples(60)
@given(histories(), st.sampled_from((1, 3, 8)), st.sampled_from(("text", "binary")), st.booleans())
def test_random_ops(history: list[Event], chunk: int, form: str, resizes: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", reference.script(history), chunk, 1)
        assert ops_in_shards(path, form, resizes) == ops_in_one(path, form, resizes)


@examples(60)
@given(histories(), st.sampled_from((1, 3, 8)))
def test_random_summaries(history: list[Event], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", reference.script(history), chunk, 1)
        one = Trace(str(path))
        expected = analyse_whole(Walk(one), _totals.Summary)
        whole, summary = summary_in_shards(rounds.Reading(str(path)))
        assert totals.summary_object(whole, summary) == totals.summary_object(one, expected)
        assert [x.tolist() for x in summary.used_stacks()] == [x.tolist() for x in expected.used_stacks()]


@examples(60)
@given(histories(), st.sampled_from((1, 3, 8)))
def test_random_lifetimes(history: list[Event], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", reference.script(history), chunk, 1)
        accesses, unmatched, expected = _totals.lifetimes_of(Trace(str(path)))
        found = rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(_totals.Lifetimes)
        assert (accesses, unmatched, expected.tolist()) == (*found[:2], found[2].tolist())


def cells_by_group(cells: BlockCells) -> list:
    """The cells, with groups instead of their numbers."""
    groups = cells.groups().tolist()
    return sorted((groups[group], *row) for group, *row in cells.cells().tolist())


def report_of(analysis: ReportAnalysis) -> list:
    """All numbers of a report, without what is internal to the kernel, and without rows that are 0."""
    profile, cells = analysis.profile, analysis.cells
    tallies = [
        [(number, row) for number, row in zip(numbers.tolist(), rows[SHOWN].tolist()) if any(row)]
        for numbers, rows in (profile.stacks(), profile.heaps())
    ]
    return [
        profile.totals(),
        *tallies,
        profile.timeline().tolist(),
        profile.marks().tolist(),
        *(numbers.tolist() for numbers in profile.lifetime_map()),
        analysis.found.bytes(),
        cells.width(),
        cells_by_group(cells),
        [part.tobytes() for table in analysis.found.table() for part in table],
        analysis.work(),
        analysis.course.bins().tolist(),
        analysis.course.clock(),
        analysis.site_sums.width(),
        analysis.site_sums.parts().tolist(),
        [part.tobytes() for part in analysis.site_sums.table(analysis.life_totals()["operations"])],
    ]


@examples(80)
@given(runs(marks=True), st.sampled_from((1, 3, 8)), st.sampled_from((2, 4, 400)))
def test_random_reports(run: Run, chunk: int, bins: int) -> None:
    """bins: with few, the timeline's bins are wider than shards."""
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", reference_lives.script(run), chunk, 1)
        make = partial(ReportAnalysis, bins, True)
        expected = analyse_whole(Walk(Trace(str(path))), make)
        assert report_of(rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(make)) == report_of(expected)


def test_report_by_processes(steve: Steve, large: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.ljt").write_bytes(large.read_bytes()[: large.stat().st_size * 2 // 3])
    data = bytearray(large.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for more in ([large], ["cut.ljt"], ["bad.ljt"], ["bad.ljt", "--salvage"]):
        for way, jobs in ((["--json"], 2), (["-o", "-"], 4)):
            one, many = (steve("report", *way, "-j", n, *more) for n in (1, jobs))
            assert one.returncode == (more != [large]) and one.out != ""
            assert (many.returncode, many.out, many.err) == (one.returncode, one.out, one.err)


def test_summaries_of_damaged_traces(tmp_path: Path) -> None:
    """Blocks that were made in a lost chunk and freed after it belong to no part and are not subtracted from
    the heap."""
    script = "".join(f"N {0x1000 * i} 8\nF {0x1000 * (i - 20)}\nL {0x1000 * i} 4\n" for i in range(21, 160))
    script += "".join(f"F {0x1000 * i}\n" for i in range(140, 160))
    whole = make_trace(tmp_path / "whole.ljt", "".join(f"N {0x1000 * i} 8\n" for i in range(1, 21)) + script, 16, 1)
    data = bytearray(whole.read_bytes())
    for at in range(100, len(data) - 300, 41):
        data[at] ^= 0x10
        (tmp_path / "t.ljt").write_bytes(data)
        data[at] ^= 0x10
        reading = rounds.Reading(str(tmp_path / "t.ljt"), salvage=True)
        one = reading.open()
        expected = analyse_whole(Walk(one), _totals.Summary)
        found, summary = summary_in_shards(reading)
        assert totals.summary_object(found, summary) == totals.summary_object(one, expected)
        heap = expected.totals
        assert 0 <= heap["live_bytes"] <= heap["peak_bytes"] and 0 <= heap["live_blocks"] <= heap["peak_blocks"]


def test_parts_are_many() -> None:
    """The tests above are meaningful only if the traces have several parts."""
    with tempfile.TemporaryDirectory() as folder:
        script = "".join(f"N {0x1000 * i} 8\nL {0x1000 * i} 4\n" for i in range(1, 100))
        path = make_trace(Path(folder) / "t.ljt", script, 3, 1)
        trace = Trace(str(path))
        found = processes.split(trace, 100)
        assert len(found) > 5 and found[0].first == 0 and found[-1].end == len(trace.seek_points())
        assert [part.end for part in found[:-1]] == [part.first for part in found[1:]]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with several seek points, and with several blocks of binary ops in each part."""
    path = tmp_path_factory.mktemp("parts") / "large.ljt"
    subprocess.run([MKLOAD, path, "1700000", "500", "200000"], check=True)
    assert len(Trace(str(path)).seek_points()) > 2
    return path


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_processes(steve: Steve, large: Path, form: list[str], no_leftovers: Any) -> None:
    for name, jobs in (("one", []), ("parts", ["-j", "2"])):
        assert steve("ops", *form, *jobs, "-o", name, large).returncode == 0
    assert (steve.folder / "one").stat().st_size > 0
    subprocess.run(["cmp", "one", "parts"], cwd=steve.folder, check=True)
    assert sorted(os.listdir(steve.folder)) == ["one", "parts"]


def test_summary_by_processes(steve: Steve, large: Path) -> None:
    for how in ([], ["--json"]):
        assert steve("summary", *how, "-j", "2", large).out == steve("summary", *how, large).out


def test_histogram_by_processes(steve: Steve, large: Path) -> None:
    for how in (["--json"], []):
        line = ["histogram", *how, "--parts", "lifetime,statistics", large]
        one, many = (steve(*line, "-j", jobs, "-o", f"r{jobs}") for jobs in (1, 2))
        assert one.returncode == 0 and many.out == one.out.replace("r1-", "r2-")
    for name in ("lifetime", "statistics"):
        subprocess.run(["cmp", f"r1-{name}", f"r2-{name}"], cwd=steve.folder, check=True)


def test_what_is_no_memtrace(steve: Steve, tmp_path: Path) -> None:
    """In this case one process does all the work."""
    (tmp_path / "a-ops").write_text("0 N 64 8\n0 L 64 4\n")
    line = ["histogram", "--json", "--parts", "none", "a-ops"]
    assert steve(*line, "-j", "2").out == steve(*line).out != ""


@pytest.mark.parametrize("form", ([], ["--text"], ["--resize"]), ids=" ".join)
def test_ops_of_chosen_blocks(steve: Steve, large: Path, form: list[str]) -> None:
    """With more operations than a block of a binary file."""
    for name, jobs in (("one", []), ("parts", ["-j", "2"])):
        assert steve("ops", *form, *jobs, "--where", "size > 100", "-o", name, large).returncode == 0
    assert (steve.folder / "one").stat().st_size > 0
    subprocess.run(["cmp", "one", "parts"], cwd=steve.folder, check=True)


def test_damaged_in_the_middle(steve: Steve, large: Path, tmp_path: Path) -> None:
    data = bytearray(large.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for command in (["ops", "-o"], ["summary", "-f", "-o"]):
        one, many = (steve(*command, f"r{jobs}", "-j", jobs, "bad.ljt") for jobs in (1, 2))
        assert one.returncode == many.returncode == 1 and one.err == many.err != ""
        subprocess.run(["cmp", "r1", "r2"], cwd=tmp_path, check=True)


def test_salvaged(steve: Steve, large: Path, tmp_path: Path) -> None:
    """All damage is in the last part: a chunk with blocks and accesses is lost, and later events refer to
    them."""
    data, (*_, last) = bytearray(large.read_bytes()), Trace(str(large)).seek_points()
    data[last[2] + (len(data) - last[2]) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    assert Trace(str(tmp_path / "bad.ljt")).sound_seek_points() > 1
    commands = [["ops", *form, "-f", "-o"] for form in FORMS] + [
        ["summary", "-f", "-o"],
        ["histogram", "--json", "--parts", "none", "-o"],
    ]
    for command in commands:
        one, many = (steve(*command, f"r{jobs}", "-j", jobs, "--salvage", "bad.ljt") for jobs in (1, 2))
        assert (one.returncode, one.err) == (many.returncode, many.err) and "damaged chunks were left out" in one.err
        assert one.out == many.out
        if command[0] != "histogram":
            subprocess.run(["cmp", "r1", "r2"], cwd=tmp_path, check=True)


def test_cut_off(steve: Steve, large: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.ljt").write_bytes(large.read_bytes()[: large.stat().st_size * 2 // 3])
    one, many = (steve("summary", "-j", jobs, "cut.ljt") for jobs in (1, 2))
    assert one.returncode == many.returncode == 1 and one.err == many.err != "" and one.out == many.out


def test_what_has_no_parts(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(">>> N 1000 8\n>>> L 1000 4\n")
    assert steve("ops", "-j", "4", "-o", "-", "t").out == steve("ops", "-o", "-", "t").out
    assert steve("ops", "-j", "x", "t").returncode == 2


def test_a_killed_worker() -> None:
    with pytest.raises(SteveError, match="a worker process was killed"):
        with processes.Pool(Namespace(scheduler=None, jobs=2)) as pool:
            list(pool.run(os._exit, [(1,), (1,), (1,)]))


# ---- a real Dask cluster ----------------------------------------------------------------------

CONNECT = "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, each of which is a process of its own."""
    pytest.importorskip("distributed", reason="python3-distributed is not installed")
    import dask

    patience = {f"distributed.comm.timeouts.{what}": f"{SECONDS}s" for what in ("connect", "tcp")}
    with pytest.MonkeyPatch.context() as patch, dask.config.set(patience):
        patch.setenv(CONNECT, f"{SECONDS}s")
        patch.setenv(CONNECT.replace("CONNECT", "TCP"), f"{SECONDS}s")
        with started_cluster(tmp_path_factory.mktemp("dask")) as address:
            yield address


@contextmanager
def started_cluster(folder: Path) -> Iterator[str]:
    log = open(folder / "scheduler.log", "w+")
    common = ["--no-dashboard", "--host", "127.0.0.1"]
    # each worker runs in the process that is started here, and no limit on memory or time applies to it
    alone = ["--nthreads", "1", "--no-nanny", "--memory-limit", "0"]

    def start(what: str, *options: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options, *common]
        processes.append(subprocess.Popen(command, cwd=folder, stderr=log, stdout=log))

    processes: list[subprocess.Popen] = []
    try:
        start("scheduler", "--port", "0")
        address = address_in(folder / "scheduler.log", processes[0])
        for i in range(2):
            start("worker", address, *alone, "--name", f"w{i}")
        wait_for_workers(address, 2)
        yield address
    finally:
        for process in reversed(processes):
            process.kill()  # workers have no children, and their files are removed with the folder
        for process in processes:
            process.wait()
        log.close()


def address_in(path: Path, process: subprocess.Popen) -> str:
    """The address that a scheduler prints in its log."""
    while process.poll() is None:
        found = re.search(r"Scheduler at:\s+(tcp://\S+)\n", path.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    pytest.fail(f"the scheduler ended: {path.read_text()[-2000:]}")


def wait_for_workers(address: str, n: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(n, timeout=SECONDS)


def test_on_a_cluster(steve: Steve, large: Path, cluster: str) -> None:
    for form in (*FORMS[:2], FORMS[-1]):
        for name, how in (("one", []), ("parts", ["--scheduler", cluster])):
            result = steve("ops", *form, *how, "-o", name, large)
            assert result.returncode == 0, result.err
        subprocess.run(["cmp", "one", "parts"], cwd=steve.folder, check=True)
    for line in (
        ["summary", "--json"],
        ["histogram", "--json", "--parts", "none"],
        ["findings", "--json"],
        ["threads", "--json", "--where", "born > 1000 and site ~ 'make'"],
        ["lines", "--json"],
        ["sharing", "--json"],
        ["reuse", "--json"],
    ):
        assert steve(*line, "--scheduler", cluster, large).out == steve(*line, large).out != ""


def test_files_on_a_cluster(steve: Steve, large: Path, cluster: str) -> None:
    """A worker reads a file; names are those that were given, also with another working directory."""
    for i in range(4):
        os.link(large, steve.folder / f"{i}.ljt")
    for line in (["summary"], ["sites", "--by", "line,process"], ["leaks"], ["findings"], ["lifetimes"]):
        files = [f"{i}.ljt" for i in range(4)]
        done, alone = (steve(*line, *how, *files) for how in (["--scheduler", cluster], []))
        assert (done.out, done.err, done.returncode) == (alone.out, alone.err, 0)


def test_both_workers_take_part(large: Path, cluster: str) -> None:
    with processes.Pool(Namespace(scheduler=cluster, jobs=1)) as pool:
        everybody = set(pool._workers.run(os.getpid).values())
        assert pool.n == 2 and len(everybody) == 2
        # the scheduler decides which worker gets a task; it may be the same one for some time
        assert any(set(pool.run(os.getpid, [()] * 20)) == everybody for _ in range(100))


@pytest.mark.parametrize("failures,says", (("0", "were killed"), ("9", "all workers of the cluster are gone")))
def test_killed_workers_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: str, says: str) -> None:
    """Dask gives the work to other workers, a limited number of times, and then waits for new workers."""
    pytest.importorskip("distributed", reason="python3-distributed is not installed")
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", failures)
    monkeypatch.setattr(processes, "CLUSTER_PATIENCE", 0.5)
    with started_cluster(tmp_path) as address, pytest.raises(SteveError, match=says):
        with processes.Pool(Namespace(scheduler=address, jobs=1)) as pool:
            list(pool.run(os._exit, [(1,)]))


def test_no_scheduler(steve: Steve, large: Path) -> None:
    pytest.importorskip("distributed", reason="python3-distributed is not installed")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        result = steve("summary", "--scheduler", address, large, env={**os.environ, CONNECT: "1s"})
    assert result.returncode == 1 and "no Dask scheduler answers" in result.err


@pytest.mark.parametrize(
    "address",
    (
        "",
        "here",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:0",
        "127.0.0.1:65536",
        "tcp://127.0.0.1:port",
        "udp://127.0.0.1:8786",
        "tcp://a/b:8786",
    ),
)
def test_what_is_no_address_of_a_scheduler(steve: Steve, large: Path, address: str) -> None:
    result = steve("summary", "--scheduler", address, large)
    assert result.returncode == 2 and "is no address of a scheduler like tcp://" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("address", ("localhost:8786", "tcp://10.0.0.1:1", "tls://[::1]:8786", "tcp://a-b.c:65535"))
def test_addresses_of_schedulers(address: str) -> None:
    assert processes.address(address) == address
