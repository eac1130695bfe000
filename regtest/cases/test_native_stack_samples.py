"""test_native_stack_samples - `ljtrace run` and `attach --sample-stacks`: stacks of C and Lua by CPU time; programs remain
as they are.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from steve.trace._memtrace import SAMPLE
from steve.trace._memtrace import Trace as Reader
from support import APP_C, INTERRUPTED, NATIVE, SOURCE, Trace, good, run, started, steve, wait_for

PAYLOAD = SOURCE / "regtest/native/payload.lua"
ROUNDS = {"": 60000, "-joff": 15000}
FLAGS = {"jit": [], "interpreter": ["-joff"]}
LUA_LINE, C_LINE = 18, 16  # of payload.lua: where each of the two is called


def sampled(path: Path, argv: list[object], *options: str, interval: str = "1ms", cwd: Path | None = None) -> Trace:
    done = run(["ljtrace", "run", f"--sample-stacks={interval}", *options, f"--out={path}", *argv], cwd=cwd)
    assert path.exists(), done.complaint
    return Trace(path, done).check()


def folded(path: Path) -> dict[tuple[str, ...], int]:
    rows = json.loads(steve("sysprof", path, "--json").text)
    return {tuple(row["stack"]): row["samples"] for row in rows}


def by_thread(path: Path) -> Counter:
    """Weights of samples by thread."""
    sums: Counter = Counter()
    for batch in Reader(str(path)).batches():
        for event in batch[batch["kind"] == SAMPLE]:
            sums[int(event["thread"])] += int(event["size"])
    return sums


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_c_and_lua_in_one_stack(flags: list[str], tmp_path: Path) -> None:
    argv = ["luajit", *flags, PAYLOAD, NATIVE / "payload.so", ROUNDS["".join(flags)]]
    trace = sampled(tmp_path / "t.ljt", argv)
    assert (trace.run.status, trace.run.out) == (0, run(argv).out)
    stacks = folded(trace.path)
    lua = {s: n for s, n in stacks.items() if any("lua_payload" in f for f in s)}
    c = {s: n for s, n in stacks.items() if "c_payload" in s}
    assert lua and c and not set(lua) & set(c)
    for stack in (*lua, *c):
        main = next(i for i, frame in enumerate(stack) if frame.startswith("main chunk"))
        assert {"main", "lua_pcall"} <= set(stack[:main])
    assert {f for s in c for f in s if "payload.lua" in f} == {f"main chunk payload.lua:{C_LINE}"}
    assert all(f"payload.lua:{LUA_LINE}" in " ".join(s) for s in lua if sum("lua_payload" in f for f in s) > 3)
    assert all(s[-depth:] == ("c_payload",) * depth for s in c if (depth := s.count("c_payload") - 1))
    known = sum(n for s, n in stacks.items() if s[0] == "main")
    assert known > 0.9 * sum(stacks.values())
    states = json.loads(steve("sysprof", trace.path, "--mode=default", "--json").text)
    assert sum(states.values()) == sum(stacks.values())
    assert states["LFUNC" if flags else "TRACE"] > 0.2 * sum(states.values())


BURN = """\
import resource, sys
n = 0
while resource.getrusage(resource.RUSAGE_SELF).ru_utime < 0.5:
    n += sum(range(1000))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def test_weights_are_the_cpu_time(tmp_path: Path) -> None:
    """Those of the time until the program says how much it used, and no more than it used in all; the rest is its exit, which
    may be long on a busy machine, and the recorder."""
    before = cpu_of_children()
    trace = sampled(tmp_path / "t.ljt", [sys.executable, "-c", BURN], interval="2ms")
    in_all = cpu_of_children() - before
    assert 0.6 * float(trace.run.out) < sum(by_thread(trace.path).values()) / 1e9 < 1.1 * in_all


def cpu_of_children() -> float:
    """Seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


THREADS = """\
import hashlib, threading, time
def work(seconds):
    found, data = hashlib.sha256(), bytes(1 << 22)
    while time.thread_time() < seconds:
        found.update(data)  # without the interpreter's lock and without allocations
    print(time.thread_time())
threads = [threading.Thread(target=work, args=(seconds,)) for seconds in (0.2, 0.6)]
for t in threads: t.start()
for t in threads: t.join()
"""


def test_each_thread_by_its_own_clock(tmp_path: Path) -> None:
    """Compared with what each thread says that it used, since equal work takes unequal time on a busy machine."""
    trace = sampled(tmp_path / "t.ljt", [sys.executable, "-c", THREADS])
    used = sorted((1e9 * float(line) for line in trace.run.text.splitlines()), reverse=True)
    for found, thread in zip((weight for _, weight in by_thread(trace.path).most_common(2)), used, strict=True):
        assert 0.6 * thread < found < 1.1 * thread


BLOCKED = """\
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
"""


def test_programs_that_block_all_signals(tmp_path: Path) -> None:
    trace = sampled(tmp_path / "t.ljt", [sys.executable, "-c", BLOCKED + BURN], interval="4ms")
    assert sum(by_thread(trace.path).values()) > 0.6 * float(trace.run.out) * 1e9


def test_forked_children(tmp_path: Path) -> None:
    """The child's file has its time, and the parent's has none of it, whatever that one's start and end take."""
    program = "import os\nif os.fork(): os.wait()\nelse:\n " + BURN.replace("\n", "\n ")
    before = cpu_of_children()
    done = run(
        ["ljtrace", "run", "--sample-stacks=2ms", f"--out={tmp_path}/%p.ljt", sys.executable, "-I", "-c", program]
    )
    assert done.status == 0
    wait_for(lambda: len(list(tmp_path.glob("*.ljt"))) == 2, "the child's file is complete")
    sums = sorted(sum(by_thread(path).values()) for path in tmp_path.glob("*.ljt"))
    child, in_all = 1e9 * float(done.out), 1e9 * (cpu_of_children() - before)
    assert len(sums) == 2 and sums[1] > 0.6 * child and sum(sums) < 1.1 * in_all, (sums, child, in_all)


ALLOCATES = """\
local keep = {}
for n = 1, 6 do
  for i = 1, 200000 do keep[i] = {i, i} end
end
"""


def test_time_in_the_allocator_is_the_programs(tmp_path: Path) -> None:
    """The ring is locked while LuaJIT's allocator runs."""
    script = tmp_path / "a.lua"
    script.write_text(ALLOCATES)
    for flags in FLAGS.values():
        trace = sampled(tmp_path / "t.ljt", ["luajit", *flags, script])
        stacks = folded(trace.path)
        assert sum(n for s, n in stacks.items() if s[0] == "main") > 0.9 * sum(stacks.values())
        assert sum(n for s, n in stacks.items() if any("a.lua:3" in f for f in s)) > 0.5 * sum(stacks.values())


def test_scripts_do_the_same(tmp_path: Path) -> None:
    """All scripts in one process, interrupted ten times as often as by the timer of the recorder."""
    folder = SOURCE / "regtest/lua"
    argv = [
        "luajit",
        "-e",
        INTERRUPTED.replace("SIGNAL", "0"),
        "run.lua",
        *sorted(x.name for x in folder.glob("*.lua") if x.name != "run.lua"),
    ]
    trace, plain = sampled(tmp_path / "t.ljt", argv, interval="100us", cwd=folder), run(argv, cwd=folder)
    assert (trace.run.status, trace.run.out) == (plain.status, plain.out)


def test_views(tmp_path: Path) -> None:
    argv = ["luajit", PAYLOAD, NATIVE / "payload.so", ROUNDS[""]]
    path = sampled(tmp_path / "t.ljt", argv).path
    steve("flame", path, "-o", tmp_path / "s.svg")
    assert "nanoseconds" in (tmp_path / "s.svg").read_text()
    steve("export", "--format=sysprof", path, "-o", tmp_path / "s.bin")
    assert "c_payload" in steve("sysprof", tmp_path / "s.bin").text


def test_no_samples(tmp_path: Path) -> None:
    assert not by_thread(sampled(tmp_path / "t.ljt", [APP_C, "200"], interval="0").path)


@pytest.mark.parametrize("interval", ["", "10", "1us", "99us", "-5ms", "61s", "10m", "ms", "18446744073709551617s"])
def test_wrong_intervals(interval: str, tmp_path: Path) -> None:
    done = run(["ljtrace", "run", f"--sample-stacks={interval}", f"--out={tmp_path}/t.ljt", "true"])
    assert done.status == 125 and "--sample-stacks takes a CPU time" in done.complaint


# -- ljtrace attach --------------------------------------------------------------------------------------------------

SPINS = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int s_end;
static volatile unsigned long s_sum;
__attribute__((noinline)) void spin_quietly(void) { while (!s_end) s_sum++; }
__attribute__((noinline)) void spin_with_blocks(void) {
    while (!s_end) { for (int i = 0; i < 100000; i++) s_sum++; free(malloc(50)); }
}
static void *quiet(void *x) { spin_quietly(); return x; }
static void *busy(void *x) { spin_with_blocks(); return x; }
static void late(int signal) { (void)signal; }
int main(int argc, char **argv) {
    pthread_t a, b;
    (void)argv;
    if (argc > 1) /* all real-time signals are in use */
        for (int i = SIGRTMIN; i <= SIGRTMAX; i++) signal(i, late);
    pthread_create(&a, NULL, quiet, NULL);
    pthread_create(&b, NULL, busy, NULL);
    puts("ready"); fflush(stdout);
    getchar();
    s_end = 1;
    pthread_join(a, NULL); pthread_join(b, NULL);
    struct sigaction action;
    sigaction(SIGRTMAX, NULL, &action);
    return action.sa_handler == (argc > 1 ? late : SIG_DFL) ? 7 : 8;
}
"""


@contextmanager
def spinning(tmp_path: Path, *argv: str, **how: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program with two threads that spend processor time; one of them makes no blocks. It must not be harmed."""
    source = tmp_path / "spins.c"
    source.write_text(SPINS)
    good(["gcc", "-O1", "-g", "-pthread", "-o", tmp_path / "spins", source])
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    with started([tmp_path / "spins", *argv], **pipes, **how) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process
        assert process.communicate(b"\n", timeout=100) == (b"", b"") and process.returncode == 7


def attached(path: Path, pid: int, *options: str) -> tuple[Trace, str]:
    done = run(["ljtrace", "attach", f"--out={path}", "--seconds=1", *options, pid])
    assert done.status == 0, done.complaint
    return Trace(path, done).check(), done.complaint


def cpu_time(pid: int) -> float:
    """What all threads of a process have used, in nanoseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e9 / os.sysconf("SC_CLK_TCK")


def test_attached_program(tmp_path: Path) -> None:
    """All threads are sampled by the CPU time that they use, also in a second recording; then no signal comes."""
    with spinning(tmp_path) as process:
        for i in range(3):
            options = [] if i == 1 else ["--sample-stacks=5ms"]
            before = cpu_time(process.pid)
            trace, said = attached(tmp_path / f"{i}.ljt", process.pid, *options)
            assert "sampled" not in said
            caught = re.findall(r"SigCgt:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())
            assert not int(caught[0], 16) >> 63, "SIGRTMAX has its usual action again"
            stacks = folded(trace.path) if i != 1 else {}
            names = ("spin_quietly", "spin_with_blocks")
            spent = {f: sum(n for s, n in stacks.items() if f in s) for f in names}
            if i == 1:
                assert trace.counts()["sample"] == 0
            else:
                assert all(n >= 20e6 for n in spent.values())
                assert sum(spent.values()) <= cpu_time(process.pid) - before + 0.1e9


def test_program_that_uses_all_signals(tmp_path: Path) -> None:
    with spinning(tmp_path, "signals") as process:
        trace, said = attached(tmp_path / "t.ljt", process.pid, "--sample-stacks=5ms")
        assert "stacks are not sampled: the program uses all real-time signals" in said
        assert trace.counts()["new"] > 0 and trace.counts()["sample"] == 0


def test_threads_without_timers(tmp_path: Path) -> None:
    """A timer needs room for a pending signal."""
    program = ["prlimit", "--sigpending=0", "ljtrace", "run", "--sample-stacks=5ms", f"--out={tmp_path / 't.ljt'}"]
    done = run([*program, sys.executable, "-c", "print(sum(range(10**6)))"])
    assert done.status == 0 and "the kernel gives them no timer" in done.complaint
    facts = json.loads(steve("info", "--json", tmp_path / "t.ljt").text)["recording"]
    assert "the kernel gives them no timer" in facts["problems"]
    with spinning(tmp_path) as process:
        good(["prlimit", "--sigpending=0", "--pid", process.pid])
        _, said = attached(tmp_path / "u.ljt", process.pid, "--sample-stacks=5ms")
        assert "the kernel gives them no timer" in said
