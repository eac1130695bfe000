"""End-to-end tests of the replay on real threads: the same operations as in one thread, in an order that keeps
each block's own, on allocators that lock for themselves and on those that are locked.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ops_tools import (  # noqa: E402
    ALL,
    BAD,
    BUILD,
    REPLAY,
    Model,
    allocators,
    parse_result,
    random_ops,
    read_model,
    replay,
    threaded_ops,
)

LIST = {d["name"]: d for d in json.loads(replay("--list", "--json").stdout)}
OWN_LOCKS = set(allocators("PARALLEL"))


def run(path: Path, driver: str, *args: object, **kw: object) -> subprocess.CompletedProcess[str]:
    if driver in LIST and not LIST[driver]["available"]:
        pytest.skip(f"{driver}: {LIST[driver]['reason']}")
    return replay(
        "-a",
        driver,
        "--allocstats",
        path,
        "-o",
        path.parent / "result",
        "--passes",
        1,
        "--points",
        5,
        "--heap",
        "256M",
        "--threads=replay",
        *args,
        **kw,
    )


def result(path: Path, driver: str, *args: object) -> dict[str, object]:
    p = run(path, driver, *args)
    assert p.returncode == 0, p.stderr
    return parse_result(path.parent / "result")


def write(tmp_path: Path, text: str, name: str = "some-ops") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def remote_frees(text: str, workers: int) -> int:
    """Frees by another of so many workers than the one that allocated; threads are numbered by their first steps."""
    numbers: dict[str, int] = {}
    maker: dict[str, int] = {}
    now = count = 0
    for line in text.splitlines():
        if line.startswith("# thread"):
            now = numbers.setdefault(line.split()[2], len(numbers)) % workers
            continue
        handle, op = line.split()[:2]
        if op == "N":
            maker[handle] = now
        count += op == "F" and maker.pop(handle) != now
    return count


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("driver", ["glibc", "tlsf"])
def test_workers_and_remote_frees(driver: str, workers: int, tmp_path: Path) -> None:
    text = threaded_ops(4000, seed=12, threads=4)
    path = write(tmp_path, text)
    r = result(path, driver, "--workers", workers, "--check")
    assert r["thread_count"] == min(workers, 4) and r["threads_remote_frees"] == remote_frees(text, workers)
    check_totals(r, text)
    p = replay("-a", driver, "--measure", path, "--threads=replay", "--workers", workers, "--heap=256M")
    one = json.loads(p.stdout)
    assert one["threads"] == min(workers, 4) and one["threads_of_file"] == 4
    assert one["remote_frees"] == r["threads_remote_frees"] and one["operations"] == r["op_count"]
    assert one["locked_by"] == r["threads_locked_by"] and one["wall_ns"] > 0


def test_workers_need_threads(tmp_path: Path) -> None:
    p = replay("-a", "glibc", "--measure", write(tmp_path, "0 N 4096 10\n"), "--workers=2")
    assert p.returncode == 2 and "--workers goes with --threads=replay" in p.stderr


def check_halts(r: dict[str, object], m: Model) -> None:
    """When all threads wait, the live blocks are those of one thread."""
    step = len(m.used) // 100 + 1
    cuts = [*range(step, len(m.used), step), len(m.used)]
    assert r["threads_halts"] == len(cuts)
    assert r["threads_most_live"] == max(m.used[cut - 1] for cut in cuts)
    if r["driver"] not in ("null", "optimal"):
        assert r["threads_most_resident"] >= r["threads_most_live"]
        assert r["threads_most_used"] >= r["threads_most_live"]


def check_totals(r: dict[str, object], text: str) -> None:
    """The threads together did what the model did."""
    m = read_model(text)
    letters = [op for op, _ in m.ops]
    assert r["threads"] == "replay"
    assert r["total_ops"] == len(letters)
    assert r["threads_new_count"] == r["new_count"] == letters.count("N")
    assert r["threads_free_count"] == r["free_count"] == letters.count("F")
    assert r["threads_resize_count"] == r["resize_count"] == letters.count("R")
    assert r["threads_live_at_end"] == m.used[-1]
    check_halts(r, m)
    assert 0 <= r["threads_waited_share"] <= 1 and 0 <= r["threads_lock_waited_share"] <= 1


@pytest.mark.parametrize("driver", ALL)
def test_equal_to_merge(driver: str, tmp_path: Path) -> None:
    """Every block keeps its bytes while four threads use the heap, and the sums are those of one thread."""
    text = threaded_ops(20000, seed=5)
    r = result(write(tmp_path, text), driver, "--check")
    check_totals(r, text)
    assert r["thread_count"] == 4
    assert r["threads_locked_by"] == ("allocator" if driver in OWN_LOCKS else "replay")


def test_order_of_a_block(tmp_path: Path) -> None:
    """Threads that pass one block on in a circle wait for each other at every operation."""
    lines = []
    for i in range(3000):
        lines += [
            f"# thread {i % 3 + 1}",
            f"{i} N 0 {i % 300 + 1}",
            f"# thread {(i + 1) % 3 + 1}",
            f"{i} R 0 {i % 500 + 1}",
            f"# thread {(i + 2) % 3 + 1}",
            f"{i} F 0 0",
        ]
    text = "\n".join(lines) + "\n"
    r = result(write(tmp_path, text), "glibc", "--check")
    check_totals(r, text)
    assert r["threads_live_at_end"] == 0
    assert r["threads_waits"] > 0


def test_locks_are_held(tmp_path: Path) -> None:
    """Lock operations of several threads on an allocator that moves blocks."""
    text = random_ops(4000, seed=8, locks=True, most_live=80)
    lines = [f"# thread {i % 3 + 1}\n{line}" for i, line in enumerate(text.splitlines())]
    path = write(tmp_path, "\n".join(lines) + "\n", "some-lockops")
    check_totals(result(path, "jeff-compact", "--check"), path.read_text())


def test_unknown_thread_is_one(tmp_path: Path) -> None:
    """Operations before the first mark are a thread of their own."""
    text = "0 N 0 10\n1 N 0 10\n# thread 7\n0 F 0 0\n"
    r = result(write(tmp_path, text), "glibc")
    assert r["thread_count"] == 2
    check_totals(r, text)


def test_merge_is_the_default(tmp_path: Path) -> None:
    text = threaded_ops(500, seed=1)
    path = write(tmp_path, text)
    p = replay("-a", "glibc", "--allocstats", path, "-o", tmp_path / "r", "--passes", 1)
    assert p.returncode == 0, p.stderr
    r = parse_result(tmp_path / "r")
    assert r["threads"] == "merge" and "thread_count" not in r


def test_needs_threads(tmp_path: Path) -> None:
    p = run(write(tmp_path, random_ops(50, seed=1)), "glibc")
    assert p.returncode == 1 and "steve ops --threads" in p.stderr


def test_too_many_threads(tmp_path: Path) -> None:
    text = "".join(f"# thread {i + 1}\n{i} N 0 8\n" for i in range(1100))
    p = run(write(tmp_path, text), "glibc")
    assert p.returncode == 1 and "1024" in p.stderr


def test_many_threads(tmp_path: Path) -> None:
    text = "".join(f"# thread {i + 1}\n{i} N 0 8\n" for i in range(300))
    text += "".join(f"# thread {300 - i}\n{i} F 0 0\n" for i in range(300))
    check_totals(result(write(tmp_path, text), "mimalloc"), text)


@pytest.mark.parametrize("args", [["--killpercent", 10], ["--threads=some"]])
def test_usage(args: list[object], tmp_path: Path) -> None:
    p = run(write(tmp_path, threaded_ops(50, seed=1)), "glibc", *args)
    assert p.returncode == 2


def test_crash_names_the_operation(tmp_path: Path) -> None:
    """An allocator that crashes only when it is called by another thread than the first."""
    text = "# thread 1\n" + "".join(f"{i} N 0 8\n" for i in range(20)) + "# thread 2\n0 F 0 0\n20 N 0 8\n"
    p = run(write(tmp_path, text), BAD, env={"BAD_DRIVER": "alone"})
    assert p.returncode == 1
    assert "at operation 20: crashed: Segmentation fault" in p.stderr, p.stderr


def test_hang_names_the_operation(tmp_path: Path) -> None:
    text = "# thread 1\n" + "".join(f"{i} N 0 8\n" for i in range(20)) + "# thread 2\n0 F 0 0\n20 N 0 8\n"
    p = run(write(tmp_path, text), BAD, "--timeout", 5, env={"BAD_DRIVER": "stuck"})
    assert p.returncode == 1
    assert "at operation 20: did nothing for 5 s" in p.stderr, p.stderr


def steve(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["steve", *map(str, args)], capture_output=True, text=True, timeout=600, check=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of four threads that free each other's blocks."""
    folder = tmp_path_factory.mktemp("threads")
    subprocess.run(
        ["ljtrace", f"--out={folder}/t.ljt", BUILD / "regtest/native/conduct", "threads"],
        check=True,
        capture_output=True,
        timeout=600,
    )
    return folder / "t.ljt"


def test_forms_of_a_real_trace(real: Path, tmp_path: Path) -> None:
    """Text and binary files have the same threads and times; without the options they have none."""
    steve("ops", "--text", "--threads", "--times", real, "-o", tmp_path / "text-ops")
    steve("ops", "--threads", "--times", real, "-o", tmp_path / "binary-ops")
    steve("ops", "--text", real, "-o", tmp_path / "plain-ops")
    marked = (tmp_path / "text-ops").read_text().splitlines()
    assert {x for x in marked if x.startswith("# thread")} >= {f"# thread {i}" for i in range(1, 6)}
    times = [int(x.split()[2]) for x in marked if x.startswith("# time")]
    assert len(times) > 8000 and times == sorted(times)
    plain = (tmp_path / "plain-ops").read_text()
    assert "#" not in plain
    assert [x for x in marked if not x.startswith("#")] == plain.splitlines()
    assert sums(tmp_path, "text-ops") == sums(tmp_path, "binary-ops")
    assert sums(tmp_path, "text-ops")["thread_count"] == 5


def sums(folder: Path, name: str) -> dict[str, object]:
    r = result(folder / name, "glibc")
    return {key: r[key] for key in r if key.endswith("_count") or key == "threads_live_at_end"}


@pytest.mark.parametrize("driver", sorted(OWN_LOCKS | {"musl", "luajit", "jeff-compact"}))
def test_real_trace(driver: str, real: Path, tmp_path: Path) -> None:
    path = tmp_path / "some-ops"
    steve("ops", "--text", "--threads", "--resize", real, "-o", path)
    r = result(path, driver, "--check")
    check_totals(r, path.read_text())


def test_lockops_of_a_real_trace(real: Path, tmp_path: Path) -> None:
    """Locks belong to the thread whose operation caused them."""
    path = tmp_path / "some-ops"
    steve("ops", "--threads", real, "-o", path)
    steve("lockops", "--full", path, "-o", tmp_path / "some-lockopsfull")
    r = result(tmp_path / "some-lockopsfull", "jeff-compact")
    assert r["thread_count"] == 5 and r["lock_count"] > 0


# malloc that writes the process and the thread of each thread's first call to the file $CALLERS
CALLERS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern void *__libc_malloc(size_t);
static __thread int seen __attribute__((tls_model("initial-exec")));
void *malloc(size_t size)
{
    if (!seen++) {
        char line[64];
        int fd = open(getenv("CALLERS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
        if (write(fd, line, (size_t)snprintf(line, sizeof line, "%d %d\n", getpid(), gettid())) < 0)
            abort();
        close(fd);
    }
    return __libc_malloc(size);
}
"""


@pytest.mark.parametrize(("words", "threads"), [([], 1), (["--threads=replay"], 4)])
def test_threads_on_malloc_of_the_system(words: list[str], threads: int, tmp_path: Path) -> None:
    """Each thread of the file calls malloc of the process, and the sums are those of one thread."""
    text = threaded_ops(4000, seed=12, threads=4)
    path, callers = write(tmp_path, text), tmp_path / "callers"
    (tmp_path / "callers.c").write_text(CALLERS)
    library = tmp_path / "callers.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "callers.c"], check=True)
    p = replay("--system", path, *words, env={"LD_PRELOAD": str(library), "CALLERS": str(callers)})
    assert p.returncode == 0, p.stderr
    m, r = read_model(text), json.loads(p.stdout)
    assert r["operations"] == len(m.used) and r["live_peak"] == m.peak
    assert r["peak_resident"] >= r["end_resident"] > 0 and r["cpu_ns"] > 0 and r["wall_ns"] > 0
    assert (
        r["mean_resident"] is None
        if words and r["wall_ns"] < 1e6
        else 0 <= (r["mean_resident"] or 0) <= r["peak_resident"]
    )
    assert words or r["mean_resident"] is not None
    by_process: dict[str, int] = {}
    for line in callers.read_text().splitlines():
        process = line.split()[0]
        by_process[process] = by_process.get(process, 0) + 1
    assert threads <= max(by_process.values()) <= threads + 1  # and the thread that starts the others


def test_tables_of_the_replay_are_no_memory_of_the_allocator(tmp_path: Path) -> None:
    """Many operations on few small blocks: the threads' tables are larger than the heap."""
    turns = (
        f"# thread {turn % 4 + 1}\n" + "".join(f"{i} N 0 64\n{i} F 0 0\n" for i in range(50)) for turn in range(6000)
    )
    path = write(tmp_path, "".join(turns))
    one, four = (json.loads(replay("--system", path, *words).stdout) for words in ([], ["--threads=replay"]))
    assert one["operations"] == four["operations"] == 600_000
    assert four["peak_resident"] < one["peak_resident"] + (1 << 20)


@pytest.mark.parametrize("threads", [[], ["--threads=replay"]])
def test_a_plan_that_is_kept(threads: list[str], tmp_path: Path) -> None:
    """The next replay of the same file reads the plan; of a changed file, with other options, or if the plan is damaged or may be
    another user's, it is made again. Only what was made by a whole reading is kept."""
    path, kept = tmp_path / "ops", tmp_path / "kept"

    def operations(*more: str) -> int:
        p = replay("--system", path, *threads, *more, f"--keep-plan={kept}")
        assert p.returncode == 0 and not p.stderr, p.stderr
        return int(json.loads(p.stdout)["operations"])

    def is_made_again(*more: str) -> bool:
        before = kept.stat().st_ino
        found = operations(*more)
        assert found == count
        return kept.stat().st_ino != before

    path.write_text(threaded_ops(2000, 1))
    count = operations()
    assert kept.stat().st_mode & 0o777 == 0o600 and not list(tmp_path.glob("*.part"))
    assert not is_made_again() and not is_made_again()
    assert is_made_again("--accesses=yes")
    assert is_made_again()
    path.write_text(threaded_ops(3000, 1))
    other = operations()
    assert other > count
    count = other
    kept.write_bytes(kept.read_bytes()[:-1])
    assert is_made_again()
    for damaged in (b"", b"x" * 5000):
        kept.write_bytes(damaged)
        assert is_made_again()
    kept.chmod(0o666)
    assert is_made_again()
    kept.unlink()
    path.write_text(threaded_ops(2000, 1) + "nonsense\n")
    assert replay("--system", path, *threads, f"--keep-plan={kept}").returncode == 1
    assert not kept.exists() and not list(tmp_path.glob("*.part"))


def test_a_plan_that_cannot_be_kept(tmp_path: Path) -> None:
    """The replay is as good as without."""
    path, kept = tmp_path / "ops", tmp_path / "no folder" / "kept"
    path.write_text(threaded_ops(2000, 1))
    p = replay("--system", path, f"--keep-plan={kept}")
    assert p.returncode == 0 and json.loads(p.stdout)["operations"] == 2000
    assert "the plan of" in p.stderr and "cannot be kept: No such file or directory" in p.stderr
    with_stdin = [REPLAY, "--system", "-", f"--keep-plan={tmp_path / 'kept'}"]
    p = subprocess.run(with_stdin, input=path.read_text(), capture_output=True, text=True, check=False)
    assert p.returncode == 0 and json.loads(p.stdout)["operations"] == 2000 and not (tmp_path / "kept").exists()
    p = replay("--peakmem", path, f"--keep-plan={kept}")
    assert p.returncode == 2 and "--keep-plan goes with --system" in p.stderr


def test_threads_on_malloc_of_the_system_cannot_be_timed(tmp_path: Path) -> None:
    path = write(tmp_path, threaded_ops(100, seed=1))
    for option in ("--latency", "--pace=10"):
        p = replay("--system", path, "--threads=replay", option)
        assert p.returncode == 2 and "--threads=replay has no --pace and no --latency" in p.stderr


@pytest.mark.parametrize("working", ["last", "first"])
def test_threads_that_work_to_the_end_are_alive_when_it_is_measured(working: str, tmp_path: Path) -> None:
    """What glibc keeps for a thread is resident at the end if the thread worked until near it, and returned if not."""
    count, size = 2000, 1000
    own = [  # per thread: it frees all, and malloc keeps it for the thread
        f"# thread {number}\n"
        + "".join(f"{number}{i:04} N 0 {size}\n" for i in range(count))
        + "".join(f"{number}{i:04} F 0 0\n" for i in range(count))
        for number in (1, 2, 3)
    ]
    other = "# thread 4\n" + "".join("9 N 0 64\n9 F 0 0\n" for _ in range(40 * count))
    parts = [other, *own] if working == "last" else [*own, other]
    path = write(tmp_path, "".join(parts))
    p = replay("--system", path, "--threads=replay", env={"GLIBC_TUNABLES": "glibc.malloc.tcache_count=4000"})
    assert p.returncode == 0, p.stderr
    r = json.loads(p.stdout)
    kept = len(own) * count * size
    if working == "last":
        assert r["end_resident"] > 0.9 * kept > 3 * r["ended_resident"]
    else:
        assert r["end_resident"] < kept / 3 and abs(r["end_resident"] - r["ended_resident"]) < kept / 10
