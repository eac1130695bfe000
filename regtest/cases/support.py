"""support - how the end-to-end cases run programs, record them, and look at traces.

Everything a case runs goes through `run` or `started`, which never hang, never inherit a terminal, and leave
no running process: each command is a process group, which is killed as one. A test that waits, waits for a
condition (`wait_for`), never for a time. A trace made here is always checked (`Trace.check`): by traceview,
which knows only the format library, and by `steve check`. The module finds the build through the environment
that ./in-place sets.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator, Mapping, Sequence

import pytest

SOURCE = Path(os.environ["LJTRACE_SRCDIR"])
sys.path.insert(0, str(SOURCE / "regtest"))
import warm  # noqa: E402

BUILD = Path(os.environ["LJTRACE_BUILDDIR"])
NATIVE = BUILD / "regtest/native"
# a chunk for luajit -e: begins to interrupt the program by signal SIGNAL (0 = SIGRTMAX) every 500 microseconds
INTERRUPTED = (
    f'local ffi = require "ffi" ffi.cdef "int interrupt(int, int);" '
    f'assert(ffi.load("{NATIVE}/interrupts.so").interrupt(SIGNAL, 500) == 0)'
)
APP_LUA = SOURCE / "examples/app.lua"
APP_C = BUILD / "examples/app"
COUNTED_LUA = SOURCE / "regtest/native/counted.lua"
SECONDS = 300  # for what takes about a second on an idle machine

# Valgrind's own tools are not in the build tree, which VALGRIND_LIB names
INSTALLED_VALGRIND = ("env", "-u", "VALGRIND_LIB", "valgrind")

# lines Valgrind itself writes: ==123== text, --123-- text, **123** text
VALGRIND_LINE = re.compile(rb"^(==|--|\*\*)\d+(==|--|\*\*)")

# Sizes of counthook.c's sentinels
SENTINELS = ("77711", "77713")


@dataclass
class Done:
    """How a program ended: exit status (negative: the signal) and its outputs."""

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def complaint(self) -> str:
        """All of its standard error."""
        return self.err.decode(errors="replace")

    @property
    def err_of_program(self) -> bytes:
        """stderr without Valgrind's lines."""
        return b"".join(x for x in self.err.splitlines(keepends=True) if not VALGRIND_LINE.match(x))


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(SECONDS)


@contextmanager
def started(
    argv: Sequence[object], env: Mapping[str, str] | None = None, cwd: Path | None = None, **options: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, with the outputs that the options name. What is still running at the end of the block
    is killed."""
    streams = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
    process = subprocess.Popen(
        [str(a) for a in argv], env={**os.environ, **(env or {})}, cwd=cwd, process_group=0, **{**streams, **options}
    )  # type: ignore[call-overload]
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def run(
    argv: Sequence[object],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    seconds: int = SECONDS,
) -> Done:
    """Run a command to its end, with env added to this process's environment."""
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    with started(argv, env, cwd, **pipes) as process:
        out, err = process.communicate(stdin, timeout=seconds)
        return Done(process.returncode, out, err)


def wait_for(condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds. The test fails if it does not hold in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not so after {seconds} s"
        time.sleep(0.05)


def good(argv: Sequence[object], **options: object) -> Done:
    """Run a command that must succeed."""
    return succeeded(argv, run(argv, **options))  # type: ignore[arg-type]


def succeeded(argv: Sequence[object], done: Done) -> Done:
    assert done.status == 0, f"{' '.join(map(str, argv))}: status {done.status}\n{done.complaint[-2000:]}"
    return done


def in_own_mounts(script: str, *argv: object) -> Done:
    """Run a command after a shell script that changes mounts; no other process sees the changes."""
    probe = run(["unshare", "-m", "true"])
    if probe.status != 0:
        pytest.skip(f"cannot have mounts of its own: {probe.complaint.strip()}")
    return run(["unshare", "-m", "sh", "-c", f'set -e; {script}; exec "$@"', "sh", *argv])


def steve(*args: object, **options: object) -> Done:
    """Run a steve command that must succeed; without options not in a new process of Python (warm.py)."""
    if options:
        return good(["steve", *args], **options)
    done = warm.steve([os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in args], seconds=SECONDS)
    return succeeded(done.args, Done(done.returncode, done.stdout, done.stderr))


def numbers(text: str) -> dict[str, int]:
    """`name value` lines as a dictionary; other lines are omitted."""
    pairs = (line.split() for line in text.splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def words(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.splitlines())


@dataclass
class Trace:
    """A memtrace file and the run that made it."""

    path: Path
    run: Done
    _totals: dict[tuple[int, int], str] = field(default_factory=dict, repr=False, compare=False)

    def view(self, action: str, *args: object) -> str:
        return good([NATIVE / "traceview", action, self.path, *args]).text

    def state(self) -> tuple[int, int]:
        """What changes when the file does."""
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def totals(self) -> str:
        """What traceview counts; once for a file that has not changed."""
        state = self.state()
        if state not in self._totals:
            self._totals[state] = self.view("counts")
        return self._totals[state]

    def counts(self) -> dict[str, int]:
        return numbers(self.totals())

    def ending(self) -> str:
        return dict(w for w in words(self.totals()) if len(w) == 2)["ending"]

    def events(self) -> list[list[str]]:
        """Heap events: kind handle addr size old_size how heap thread."""
        return list(words(self.view("events")))

    def check(self) -> "Trace":
        """Check the trace by two programs that share only the format library."""
        state, seen = self.state(), run([NATIVE / "traceview", "validate", self.path])
        assert seen.status == 0, f"{self.path}: {seen.text}{seen.complaint}"
        self._totals[state] = seen.text
        assert "total_differs" not in seen.text
        steve("check", self.path)
        return self


def recorder(path: Path, *options: str) -> list[object]:
    """The command line that records the program after it into a file."""
    return ["valgrind", "--tool=ljtrace", f"--out={path}", *options]


def settled(path: Path) -> None:
    """Wait until the collector, which outlives a killed program, has completed the file."""
    wait_for(lambda: run([NATIVE / "traceview", "counts", path]).status == 0, f"{path} is complete")


def processes() -> Iterator[tuple[int, list[bytes]]]:
    """All processes, with their arguments; one that ends meanwhile is left out."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(entry.parent.name), entry.read_bytes().split(b"\0")
        except OSError:
            continue


def collectors_of(path: Path) -> list[int]:
    """The processes that write a trace: they are not children of a test, and have the path among their
    arguments."""
    name = b"ljtrace-collector"
    return [pid for pid, words in processes() if words[0].endswith(name) and os.fsencode(path) in words]


def child_of(parent: int, program: object) -> int:
    """The child of a process that executes a program."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    wanted = os.fsencode(str(program))
    (pid,) = (pid for pid, words in processes() if str(pid) in children and words[0] == wanted)
    return pid


def monitor(pid: int, command: str) -> str:
    """The recorder's answer to a monitor command of a running program."""
    return run(["vgdb", f"--pid={pid}", *command.split()]).text


def record(
    path: Path, argv: Sequence[object], *options: str, env: Mapping[str, str] | None = None, execs: bool = False
) -> Trace:
    """Record a program. The caller checks its status; the trace is checked here. execs: the program ends by
    an exec, and does not wait for the collector then."""
    done = run([*recorder(path, *options), *argv], env=env)
    assert path.exists(), f"no trace was written\n{done.complaint[-2000:]}"
    if done.status == -signal.SIGKILL or execs:
        settled(path)
    return Trace(path, done).check()


def native(path: Path, *options: str) -> list[object]:
    """The command line that records the program after it into a file, without Valgrind."""
    return ["ljtrace", "run", f"--out={path}", *options]


def natively(path: Path, argv: Sequence[object], *options: str, **how: object) -> Trace:
    """Record a program without Valgrind. The caller checks its status; the trace is checked here."""
    done = run([*native(path, *options), *argv], **how)  # type: ignore[arg-type]
    assert path.exists(), done.complaint
    if done.status == -signal.SIGKILL:
        settled(path)
    return Trace(path, done).check()


def dhat_totals(path: Path, argv: Sequence[object]) -> dict[str, int]:
    """What DHAT counted over a whole run: blocks, bytes, and what was live at the end. Memory that libc holds
    at the end (output buffers) is not freed, as under the recorder."""
    good(
        [
            *INSTALLED_VALGRIND,
            "-q",
            "--tool=dhat",
            "--run-libc-freeres=no",
            "--run-cxx-freeres=no",
            f"--dhat-out-file={path}",
            *argv,
        ]
    )
    points = json.loads(path.read_text())["pps"]
    names = {"blocks": "tbk", "bytes": "tb", "end_blocks": "ebk", "end_bytes": "eb"}
    return {name: sum(p[short] for p in points) for name, short in names.items()}
