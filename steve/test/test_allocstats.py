"""steve allocstats: heaps that grow, failures that do not affect other allocators, names and numbers of
results.

A small substitute for steve-replay plays allocators that run out of memory, crash or print nothing. The real
program is used in the tests at the end, if it is built.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from steve.allocstats.parse import read_allocstats
from steve.allocstats.runner import GROWTH, heap_bytes, heap_series
from steve.system.errors import SteveError

STAND_IN = """#!/usr/bin/python3
import json, os, signal, sys

NAMES = ("good", "hungry", "starved", "crashing", "mute", "big", "absent")
args = sys.argv[1:]


def value(option):
    return args[args.index(option) + 1]


with open(os.environ["CALLS"], "a") as log:
    log.write(json.dumps(args) + "\\n")
if "--list" in args:
    print(json.dumps([{"name": n, "available": n != "absent", "reason": "no package" * (n == "absent"),
                       "least_heap": 100000 * (n == "big")} for n in NAMES]))
elif "--peakmem" in args:
    print(json.dumps({"live_peak": 10000}))
else:
    name, heap = value("--allocator"), int(value("--heap"))
    if name == "crashing":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "mute":
        sys.exit(1)
    if name == "starved" or name == "hungry" and heap < 60000:
        sys.stderr.write("steve-replay: out of memory at operation 3\\n")
        sys.exit(2)
    record = "{'op_index': %d, 'used': 10, 'maxmem': %d, 'current_op_time': 7, 'op': 'N'}"
    rows = [record % (i, heap - i) for i in range(int(value("--points")))]
    with open(value("-o"), "w") as out:
        ops = os.path.basename(value("--allocstats"))
        out.write("driver = %r\\nopsfile = %r\\nheap_size = %d\\ntime_unit = 'ns'\\n" % (name, ops, heap))
        out.write("alloc_stats = [\\n%s\\n]\\n" % "\\n,".join(rows))
"""


class Bench:
    """A folder with an ops file, the substitute for steve-replay, and the log of its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ops = folder, folder / "app-ops"
        self.ops.write_text("0 N 4096 16\n0 F 4096 0\n")
        self.program = folder / "stand-in"
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)
        self.log = folder / "calls"

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "STEVE_REPLAY": str(self.program), "CALLS": str(self.log), **environment}
        return subprocess.run(
            ["steve", "allocstats", *arguments],
            capture_output=True,
            text=True,
            env=env,
            cwd=self.folder,
            check=False,
        )

    def heaps(self, allocator: str) -> list[int]:
        """The heap sizes with which the allocator was tried, in order."""
        return [int(c[c.index("--heap") + 1]) for c in self.calls() if "--heap" in c and allocator in c]

    def calls(self) -> list[list[str]]:
        """The arguments of all calls of the substitute."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_heap_series_grows_by_five_percent_up_to_ten_times() -> None:
    heaps = heap_series(1 << 20)
    assert heaps[0] == 1 << 20 and (10 << 20) / GROWTH < heaps[-1] <= (10 << 20) + 4096
    assert all(1.04 < b / a < 1.06 for a, b in zip(heaps, heaps[1:]))
    assert len(heap_series(4096)) == len(set(heap_series(4096)))


@pytest.mark.parametrize(
    "text,size", [("4x", 40960), ("1.5x", 16384), ("65536", 65536), ("64K", 65536), ("2M", 2 << 20)]
)
def test_sizes_of_heaps(text: str, size: int) -> None:
    assert heap_bytes(text, 10000) == size


@pytest.mark.parametrize("text", ["", "x", "many", "-5", "0", "0x", "nanx", "1e99x", "9999999999999999999G"])
def test_impossible_sizes_are_refused(text: str) -> None:
    with pytest.raises(SteveError, match="--heap"):
        heap_bytes(text, 10000)


def test_failures_do_not_spread(bench: Bench) -> None:
    result = bench(str(bench.ops), "--json", "--points", "20")
    assert result.returncode == 1
    answer = json.loads(result.stdout)
    assert [(r["allocator"], r["heap"]) for r in answer["results"]] == [(n, 102400) for n in ("good", "hungry", "big")]
    failed = {f["allocator"]: f["reason"] for f in answer["failed"]}
    assert set(failed) == {"crashing", "mute"}
    given_up = {f["allocator"]: f["reason"] for f in answer["given_up"]}
    assert "SIGSEGV" in failed["crashing"] and "given up" in given_up["starved"] and "exit status 1" in failed["mute"]
    assert answer["skipped"] == [{"allocator": "absent", "reason": "no package"}]
    assert "without absent, not available here" in result.stderr
    names = sorted(path.name for path in bench.folder.glob("*-allocstats"))
    assert names == [f"app-ops-{name}-kill0-allocstats" for name in ("big", "good", "hungry")]


def test_heap_grows_until_it_is_enough(bench: Bench) -> None:
    result = bench(str(bench.ops), "--allocator", "hungry,starved", "-q")
    assert result.returncode == 0, "running out of memory is a finding about the allocator, not a failure"
    assert "no result of starved: out of memory in every heap" in result.stderr
    assert bench(str(bench.ops), "--allocator", "starved").returncode == 1, "nothing gave a result"
    tried = bench.heaps("hungry")
    heaps = heap_series(40960)
    least = next(heap for heap in heaps if heap >= 60000)
    assert tried[0] == 40960 and tried[-1] == least and heaps[heaps.index(least) - 1] in tried
    assert len(tried) < 12, "the series is bisected"
    assert read_allocstats(str(bench.folder / "app-ops-hungry-kill0-allocstats")).heap_size == least
    assert bench.heaps("starved")[:2] == [heaps[0], heaps[-1]]


def test_an_allocator_that_needs_more_starts_with_more(bench: Bench) -> None:
    assert bench(str(bench.ops), "--allocator", "big").returncode == 0
    assert bench.heaps("big") == [102400]


def test_all_get_the_heap_that_the_hungriest_needs(bench: Bench) -> None:
    answer = json.loads(bench(str(bench.ops), "--allocator", "good,hungry,starved", "--json").stdout)
    least = next(heap for heap in heap_series(40960) if heap >= 60000)
    assert [(r["allocator"], r["heap"]) for r in answer["results"]] == [("good", least), ("hungry", least)]
    assert [f["allocator"] for f in answer["given_up"]] == ["starved"]
    assert bench.heaps("good") == [40960, least]
    for name in ("good", "hungry"):
        assert read_allocstats(str(bench.folder / f"app-ops-{name}-kill0-allocstats")).heap_size == least


def test_a_heap_in_bytes_is_not_rounded(bench: Bench) -> None:
    assert bench(str(bench.ops), "--allocator", "good", "--heap", "50001").returncode == 0
    assert bench.heaps("good") == [50001]


def test_an_old_result_does_not_survive_a_failure(bench: Bench) -> None:
    old = bench.folder / "app-ops-crashing-kill0-allocstats"
    old.write_text("from another day")
    assert bench(str(bench.ops), "--allocator", "crashing").returncode == 1
    assert not old.exists()


def test_environment_of_the_old_scripts(bench: Bench) -> None:
    result = bench(str(bench.ops), "-o", "results", ALLOCATOR="./drivers/plot_good", KILLPERCENT="30", CORES="2")
    assert result.returncode == 0, result.stderr
    assert (bench.folder / "results" / "app-ops-good-kill30-allocstats").exists()
    single = bench(str(bench.ops), ALLOCATOR="good", KILLPERCENT="100000")
    assert single.returncode == 0 and (bench.folder / "app-ops-good-kill0-allocstats").exists()


def test_table(bench: Bench) -> None:
    result = bench(str(bench.ops), "--allocator", "good")
    assert result.returncode == 0
    assert result.stdout.splitlines()[0].split()[:2] == ["allocator", "heap"]
    assert result.stdout.splitlines()[2].split()[0] == "good" and "7 ns" in result.stdout


CASES = [
    (["--allocator", "unheard-of"], 2, "unknown allocator 'unheard-of'; there are: good"),
    (["--allocator", "absent"], 1, "absent cannot be used: no package"),
    (["--allocator", ","], 2, "no allocator named"),
    (["--heap", "tiny"], 1, "--heap tiny"),
    (["--points", "none"], 2, "--points"),
    (["--points", "0"], 2, "--points"),
    (["--killpercent", "300"], 2, "--killpercent"),
    (["--cores", "0"], 2, "--cores"),
    (["-o", "/proc/no"], 1, "/proc/no"),
    (["--bogus"], 2, "--bogus"),
]


@pytest.mark.parametrize("arguments,status,message", CASES)
def test_wrong_usage(bench: Bench, arguments: list[str], status: int, message: str) -> None:
    result = bench(str(bench.ops), *arguments)
    assert (result.returncode, message in result.stderr) == (status, True), result.stderr
    assert "Traceback" not in result.stderr


def test_missing_things_are_named(bench: Bench) -> None:
    missing = bench("nothing-ops")
    assert missing.returncode == 1 and "nothing-ops: no such file" in missing.stderr
    no_program = bench(str(bench.ops), STEVE_REPLAY="/nowhere/replay")
    assert no_program.returncode == 1 and "/nowhere/replay: no such program" in no_program.stderr
    bench.program.write_text("#!/bin/sh\necho hello\n")
    assert "not JSON" in bench(str(bench.ops)).stderr


def test_unwritable_folder(bench: Bench) -> None:
    folder = bench.folder / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):
        pytest.skip("running as root: no folder is unwritable")
    result = bench(str(bench.ops), "-o", str(folder))
    assert result.returncode == 1 and "not writable" in result.stderr


# -- the real program --------------------------------------------------------------------------


def make_ops(path: Path, seed: int, n: int = 4000) -> tuple[int, int]:
    """Make a random ops file of N and F; return (live peak, number of operations)."""
    choice, live, lines, used, peak = random.Random(seed), {}, [], 0, 0
    for handle in range(n):
        size = choice.choice((16, 24, 40, 100, 600, 4000))
        lines.append(f"{handle} N {4096 + handle * 8192} {size}")
        live[handle] = size
        used += size
        peak = max(peak, used)
        while len(live) > 200 or choice.random() < 0.4 and live:
            victim = choice.choice(list(live))
            used -= live.pop(victim)
            lines.append(f"{victim} F {4096 + victim * 8192} 0")
    path.write_text("\n".join(lines) + "\n")
    return peak, len(lines)


@pytest.fixture
def real(tmp_path: Path) -> Path:
    if shutil.which("steve-replay") is None:
        pytest.skip("steve-replay is not on PATH: build it first")
    return tmp_path


def test_real_allocators(real: Path) -> None:
    ops = real / "app-ops"
    peak, operations = make_ops(ops, 1)
    result = subprocess.run(
        ["steve", "allocstats", str(ops), "--points", "100", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    found = {r["allocator"]: r for r in answer["results"]}
    assert {"glibc", "jemalloc", "mimalloc", "luajit", "firstfit"} <= set(found) and "example_user" not in found
    for name, row in found.items():
        stats = read_allocstats(row["path"])
        assert row["complete"] and row["live_peak"] == peak, name
        assert stats.column("op_index")[-1] <= operations - 1 and 50 <= len(stats) <= 102
        assert (stats.column("current_op_time") >= 0).all()


def min_heaps(ops: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["steve", "allocstats", "--min-heap", str(ops), *arguments], capture_output=True, text=True, check=False
    )


def test_smallest_heaps(real: Path) -> None:
    """The heaps found are enough and smaller ones are not. A failure affects only its allocator. No files are
    written next to the ops file."""
    ops = real / "app-ops"
    peak, _ = make_ops(ops, 3, 600)
    answer = min_heaps(ops, "--allocator", "firstfit,optimal,buddy,jemalloc", "--cores", "2", "--json")
    assert answer.returncode == 0, answer.stderr
    found = {r["allocator"]: r for r in json.loads(answer.stdout)["results"]}
    assert list(found) == ["firstfit", "optimal", "buddy", "jemalloc"] and found["optimal"]["min_heap"] == peak
    for name in ("firstfit", "buddy"):
        least = found[name]["min_heap"]
        for heap, status in ((least, 0), (least - found[name]["step"], 2)):
            command = ["steve-replay", "-q", "-a", name, "--allocstats", ops, "-o", real / "r", "--heap", str(heap)]
            assert subprocess.run(command, capture_output=True, check=False).returncode == status
        assert found[name]["live_peak"] == peak and found[name]["factor"] == pytest.approx(least / peak, abs=1e-3)
    assert sorted(p.name for p in real.iterdir()) == ["app-ops", "r"]
    lines = min_heaps(ops, "--allocator", "firstfit,optimal").stdout.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["optimal", "firstfit"]
    assert lines[2].split()[3] == str(peak)


@pytest.mark.parametrize(
    "more", (["--heap", "4x"], ["--killpercent", "5"], ["-o", "x"], ["--threads", "replay"], ["--timeout", "x"])
)
def test_smallest_heap_for_wrong_usage(real: Path, more: list[str]) -> None:
    (real / "app-ops").write_text("0 N 0 16\n")
    answer = min_heaps(real / "app-ops", "--allocator", "optimal", *more)
    assert answer.returncode == 2 and more[0] in answer.stderr and not answer.stdout


def test_smallest_heap_for_bad_files(real: Path) -> None:
    assert min_heaps(real / "absent").returncode == 1
    (real / "bad-ops").write_text("0 N 0 16\n1 F 0 0\n")
    answer = min_heaps(real / "bad-ops", "--allocator", "optimal,bump")
    assert answer.returncode == 1 and "bad-ops" in answer.stderr and "Traceback" not in answer.stderr


def test_timeout_and_passes_reach_the_replay(bench: Bench) -> None:
    assert bench(str(bench.ops), "--allocator", "good", "--timeout", "7", "--passes", "2").returncode == 0
    assert {"--timeout=7", "--passes=2"} <= set(bench.calls()[-1])
    assert bench(str(bench.ops), "--allocator", "good", "--passes", "0").returncode == 2


def test_threads_and_resizes_reach_the_replay(real: Path) -> None:
    """Removing the accesses keeps all else, and real threads perform all operations."""
    ops = real / "app-ops"
    ops.write_text(
        "# thread 1\n0 N 64 100\n0 S 64 8\n# thread 2\n1 N 512 10\n0 R 1024 300\n" "# thread 1\n0 F 1024 0\n"
    )
    result = subprocess.run(
        ["steve", "allocstats", str(ops), "--allocator", "glibc", "--threads", "replay", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    row = json.loads(result.stdout)["results"][0]
    assert row["live_peak"] == 310
    text = Path(row["path"]).read_text()
    for line in ("resize_count = 1", "threads_resize_count = 1", "thread_count = 2", "threads_live_at_end = 10"):
        assert line in text.splitlines()


def test_accesses_make_no_difference(real: Path) -> None:
    """Ops files with and without accesses give equal results, and results name the user's ops file, not a
    temporary copy."""
    plain, full = real / "plain" / "app-ops", real / "full" / "app-ops"
    for path in (plain, full):
        path.parent.mkdir()
    make_ops(plain, 2, 500)
    lines = [
        line if " F " in line else f"{line}\n{line.split()[0]} L {line.split()[2]} 4"
        for line in plain.read_text().splitlines()
    ]
    full.write_text("# a comment\n" + "\n".join(lines) + "\n")
    found = []
    for ops in (plain, full):
        command = ["steve", "allocstats", str(ops), "--allocator", "firstfit", "-q", "--points", "50"]
        assert subprocess.run(command, check=False).returncode == 0
        stats = read_allocstats(f"{ops}-firstfit-kill0-allocstats")
        assert stats.header["opsfile"] == "app-ops"
        found.append([stats.column(key).tolist() for key in ("op_index", "used", "maxmem", "highest")])
    assert found[0] == found[1]


def test_lockops_are_replayed_whole(real: Path) -> None:
    ops = real / "app-lockops"
    ops.write_text("0 N 0 64\n0 L 0 0\n1 N 0 32\n1 F 0 0\n")
    command = ["steve", "allocstats", str(ops), "--allocator", "firstfit", "-q"]
    assert subprocess.run(command, check=False).returncode == 0
    stats = read_allocstats(str(real / "app-lockops-firstfit-kill0-allocstats"))
    assert stats.header["lock_count"] == 1


def test_real_bad_ops_fail_clearly(real: Path) -> None:
    bad = real / "bad-ops"
    bad.write_text("0 N 4096 16\n7 F 1 0 nonsense\n")
    result = subprocess.run(["steve", "allocstats", str(bad)], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "bad-ops" in result.stderr and "Traceback" not in result.stderr
