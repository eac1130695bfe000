"""Behaviour of commands while they work: a progress bar on terminals only, and no incomplete files after an
interrupt.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from concurrent.futures.process import _ThreadWakeup
from pathlib import Path
from collections.abc import Callable

import pytest

from conftest import Steve, make_trace
from steve.system.errors import SteveError
from steve.parallel.processes import Pool

# commands that read a memtrace, with the arguments that make them write into the folder they run in
READERS = {
    "info": ("--json",),
    "summary": (),
    "sites": (),
    "lines": (),
    "types": (),
    "states": (),
    "threads": (),
    "resident": (),
    "map": ("--json",),
    "leaks": (),
    "temporaries": (),
    "resizes": (),
    "globals": (),
    "lifetimes": (),
    "heat": (),
    "fields": (),
    "sharing": (),
    "workingset": (),
    "reuse": (),
    "findings": (),
    "check": (),
    "memtrace": (),
    "ops": (),
    "lockops": ("--full",),
    "histogram": ("--parts", "json-ops,lifetime,statistics"),
    "report": (),
    "export": ("--format", "pprof"),
    "flame": (),
    "dump": (),
}
SECONDS = 300  # timeout for what takes about a second on an idle machine
# show the bar at once instead of after two seconds of work, which would make the test slow
AT_ONCE = (
    "import sys, steve.terminal.progress; steve.terminal.progress.PATIENCE = -1.0\n"
    "from steve.cli import main; sys.exit(main())"
)


def on_terminal(folder: Path, *arguments: object) -> tuple[int, str, bytes]:
    """Run a command whose standard error is a terminal: (status, text on the terminal, standard output)."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    with open(folder / "stdout", "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, *map(str, arguments)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=follower,
            env={**os.environ, "TERM": "xterm"},
        )
    os.close(follower)
    got = b""
    while True:
        try:
            more = os.read(leader, 65536)
        except OSError:  # the other end of the terminal is closed
            break
        if not more:
            break
        got += more
    os.close(leader)
    return process.wait(SECONDS), got.decode(), (folder / "stdout").read_bytes()


def bare(text: str) -> str:
    """The text without control sequences of the terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with many batches."""
    script = "N 4096 64\nN 8192 64\n" + "L 4096 4\nS 8200 8\n" * 60000 + "F 4096\nend exit\n"
    return make_trace(tmp_path_factory.mktemp("long") / "t.ljt", script, 100)


@pytest.mark.parametrize("command", sorted(READERS))
def test_bar_on_a_terminal(tmp_path: Path, long: Path, command: str) -> None:
    status, shown, out = on_terminal(tmp_path, command, *READERS[command], "-o", tmp_path / "result", long)
    assert status == 0, shown
    # label, bar, amount, and the remaining time or room for it; dump does not know its total
    remaining = "" if command == "dump" else r"(-:--:--|\d:\d\d:\d\d)"
    assert re.search(rf"{command}.*━.*\d/(\d|\?).* (bytes|kB|MB).*{remaining}", bare(shown)), shown
    assert b"\x1b" not in out and "━".encode() not in out


def test_rate_and_remaining_time(tmp_path: Path) -> None:
    program = (
        "import time; from steve.terminal import progress; progress.PATIENCE = -1.0\n"
        "with progress.Progress('work') as bar:\n"
        "    for done in range(6):\n        bar(done << 20, 10 << 20); time.sleep(0.05)\n"
    )
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", program], stderr=follower, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    got = b""
    while select.select([leader], [], [], SECONDS)[0]:
        try:
            got += os.read(leader, 65536)
        except OSError:
            break
    os.close(leader)
    assert process.wait(SECONDS) == 0
    assert re.search(r"5\.2/10\.5 MB \d+(\.\d+)? \wB/s \d:\d\d:\d\d", bare(got.decode())), got


def test_no_bar_elsewhere_and_when_quiet(tmp_path: Path, long: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, "sites", long, "-o", "x"], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stderr == b""
    assert on_terminal(tmp_path, "sites", "-q", long, "-o", "x")[1] == ""


# ---- interrupts -------------------------------------------------------------------------------

CLASSIC = b">>> N 4096 64\n" + b">>> L 4096 4\n" * 20000


def unread(fd: int) -> int:
    """The number of bytes waiting in a pipe."""
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]


def wait_for(condition: Callable[[], object], process: subprocess.Popen) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("command", sorted({*READERS} - {"resident", "map"}))  # that read no pipe
def test_interrupt_leaves_nothing(tmp_path: Path, command: str) -> None:
    """A command that is interrupted while it reads leaves neither its result nor a part of it, and the signal
    ends it."""
    folder = tmp_path / "results"
    folder.mkdir()
    process = subprocess.Popen(
        ["steve", command, *READERS[command], "-o", "result", "-"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(CLASSIC)
    process.stdin.flush()
    # it reads its input, so it has begun to work
    wait_for(lambda: unread(process.stdin.fileno()) == 0, process)
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    assert (process.wait(SECONDS), process.stderr.read()) == (-signal.SIGINT, b"")
    assert os.listdir(folder) == []


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name != "result"]


def wait_until_there(folder: Path, process: subprocess.Popen) -> None:
    """Wait until temporary pieces exist or the process has ended."""
    while not leftovers(folder) and process.poll() is None:
        time.sleep(0.01)


@pytest.fixture
def parts_at_work(tmp_path: Path) -> subprocess.Popen:
    """`steve ops -j 2`, running, at a time when pieces of its result exist, or when it has ended."""
    folder, trace = tmp_path / "results", tmp_path / "large.ljt"
    folder.mkdir()
    mkload = Path(os.environ["LJTRACE_BUILDDIR"]) / "steve" / "test" / "mkload"
    subprocess.run([mkload, trace, "10000000", "500"], check=True)
    process = subprocess.Popen(["steve", "ops", "-j", "2", "-o", "result", trace], cwd=folder, stderr=subprocess.PIPE)
    wait_until_there(folder, process)
    return process


def fields_of(pid: str) -> list[str]:
    """The fields of a process in /proc (state, parent...); none if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def children_of(pid: int) -> list[str]:
    return [entry for entry in os.listdir("/proc") if entry.isdecimal() and fields_of(entry)[1:2] == [str(pid)]]


def is_alive(pid: str) -> bool:
    """Is a process running? A zombie is not."""
    return fields_of(pid)[:1] not in ([], ["Z"])


@pytest.mark.parametrize("signum", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
def test_interrupted_parts_leave_nothing(tmp_path: Path, signum: int, parts_at_work: subprocess.Popen) -> None:
    """With -j, temporary pieces of the result are made in its folder. An interrupt removes them."""
    folder = tmp_path / "results"
    parts_at_work.send_signal(signum)
    assert parts_at_work.wait(SECONDS) in (-signum, 0)  # 0: the command ended before the signal
    assert leftovers(folder) == []
    assert (parts_at_work.returncode == 0) == (folder / "result").exists()


def test_a_killed_worker_ends_it_all(tmp_path: Path, parts_at_work: subprocess.Popen) -> None:
    while not (workers := children_of(parts_at_work.pid)) and parts_at_work.poll() is None:
        time.sleep(0.01)
    for worker in workers[:1]:
        os.kill(int(worker), signal.SIGKILL)
    err = parts_at_work.communicate()[1].decode()
    assert parts_at_work.returncode == 0 or err.count("\n") == 1 and "a worker process was killed" in err
    assert leftovers(tmp_path / "results") == [] and not any(map(is_alive, workers))
    assert (parts_at_work.returncode == 0) == (tmp_path / "results/result").exists()


def test_a_broken_pool_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is left may close a pipe while Python writes to it at exit. Here that thread is slow."""
    close, before = _ThreadWakeup.close, threading.active_count()
    monkeypatch.setattr(_ThreadWakeup, "close", lambda pipe: (time.sleep(0.5), close(pipe)))
    with pytest.raises(SteveError, match="was killed"):
        with Pool(argparse.Namespace(scheduler=None, jobs=2)) as pool:
            list(pool.run(os._exit, [(1,)] * 4))
    assert threading.active_count() == before


def test_workers_die_with_a_killed_parent(parts_at_work: subprocess.Popen) -> None:
    while not (workers := children_of(parts_at_work.pid)) and parts_at_work.poll() is None:
        time.sleep(0.01)
    parts_at_work.kill()
    parts_at_work.wait(SECONDS)
    deadline = time.monotonic() + SECONDS
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, workers))


# a module that interrupts itself where Python cannot raise exceptions, then continues
CLEANS_UP = """
import signal, time
from steve import cli
class Cleans:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
        time.sleep(600)
def work(argv):
    Cleans()
    time.sleep(600)
cli.dispatch = work
cli.main([])
"""
HOLDS_BACK = """
import signal
from steve import cli
from steve.system import interrupts
def work(argv):
    with interrupts.held_back():
        signal.raise_signal(signal.SIGTERM)
        print("went on", flush=True)
    print("never")
cli.dispatch = work
cli.main([])
"""


@pytest.mark.parametrize("program,said", ((CLEANS_UP, b""), (HOLDS_BACK, b"went on\n")), ids=("lost", "held back"))
def test_no_interrupt_is_lost(program: str, said: bytes) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, said, b"")


def test_hangup_may_be_ignored(tmp_path: Path) -> None:
    """A SIGHUP that is ignored stays ignored, as under nohup(1)."""
    command = "trap '' HUP; exec steve ops - -o result"
    process = subprocess.Popen(["sh", "-c", command], cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(CLASSIC)
    process.stdin.flush()
    wait_for(lambda: unread(process.stdin.fileno()) == 0, process)
    process.send_signal(signal.SIGHUP)
    process.stdin.close()
    assert process.wait(SECONDS) == 0 and (tmp_path / "result").exists()


def test_old_result_survives_an_interrupt(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "result").write_text("precious")
    process = subprocess.Popen(["steve", "ops", "-", "-o", "result"], cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(CLASSIC)
    process.stdin.flush()
    wait_for(lambda: unread(process.stdin.fileno()) == 0, process)
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    assert process.wait(SECONDS) == -signal.SIGINT
    assert (tmp_path / "result").read_text() == "precious"
