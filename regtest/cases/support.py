"""support - how the end-to-end cases run programs, record them, and look at traces.

Everything a case runs goes through `run`, which never hangs and never inherits a terminal. A trace made here
is always checked (`Trace.check`): by traceview, which knows only the format library, and by `steve check`.
The module finds the build through the environment that ./in-place sets.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping, Sequence

SOURCE = Path(os.environ["LJTRACE_SRCDIR"])
BUILD = Path(os.environ["LJTRACE_BUILDDIR"])
NATIVE = BUILD / "regtest/native"
APP_LUA = SOURCE / "examples/app.lua"
APP_C = BUILD / "examples/app"
COUNTED_LUA = SOURCE / "regtest/native/counted.lua"
SECONDS = 300

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
        """What it said on stderr, all of it."""
        return self.err.decode(errors="replace")

    @property
    def err_of_program(self) -> bytes:
        """stderr less Valgrind's lines."""
        return b"".join(x for x in self.err.splitlines(keepends=True) if not VALGRIND_LINE.match(x))


def run(argv: Sequence[object], env: Mapping[str, str] | None = None, cwd: Path | None = None,
        stdin: bytes = b"", seconds: int = SECONDS) -> Done:
    """Run a command to its end; env is added to ours."""
    done = subprocess.run([str(a) for a in argv], env={**os.environ, **(env or {})}, cwd=cwd, input=stdin,
                          capture_output=True, timeout=seconds, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def good(argv: Sequence[object], **options: object) -> Done:
    """Run a command that must succeed."""
    done = run(argv, **options)  # type: ignore[arg-type]
    assert done.status == 0, f"{' '.join(map(str, argv))}: status {done.status}\n{done.complaint[-2000:]}"
    return done


def steve(*args: object, **options: object) -> Done:
    """Run a steve command that must succeed."""
    return good(["steve", *args], **options)


def numbers(text: str) -> dict[str, int]:
    """`name value` lines as a dictionary; other lines are left out."""
    pairs = (line.split() for line in text.splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def words(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.splitlines())


@dataclass
class Trace:
    """A memtrace file and the run that made it."""
    path: Path
    run: Done

    def view(self, action: str, *args: object) -> str:
        return good([NATIVE / "traceview", action, self.path, *args]).text

    def counts(self) -> dict[str, int]:
        return numbers(self.view("counts"))

    def ending(self) -> str:
        return dict(w for w in words(self.view("counts")) if len(w) == 2)["ending"]

    def events(self) -> list[list[str]]:
        """Heap events: kind handle addr size old_size how heap thread."""
        return list(words(self.view("events")))

    def check(self) -> "Trace":
        """All rules a trace must keep, by two programs that share only the format library."""
        seen = run([NATIVE / "traceview", "validate", self.path])
        assert seen.status == 0, f"{self.path}: {seen.text}{seen.complaint}"
        assert "total_differs" not in self.view("counts")
        steve("check", self.path)
        return self


def recorder(path: Path, *options: str) -> list[object]:
    """The command that records what follows it into a file."""
    return ["valgrind", "--tool=ljtrace", f"--out={path}", *options]


def settled(path: Path, seconds: float = 20) -> None:
    """Wait until the collector, which outlives a program that was killed, has ended the file."""
    end = time.monotonic() + seconds
    while run([NATIVE / "traceview", "counts", path]).status != 0:
        assert time.monotonic() < end, f"{path} is not complete {seconds} s after the program's death"
        time.sleep(0.2)


def record(path: Path, argv: Sequence[object], *options: str, env: Mapping[str, str] | None = None) -> Trace:
    """Record a program. Its status is the caller's to judge; that the trace is sound is judged here."""
    done = run([*recorder(path, *options), *argv], env=env)
    assert path.exists(), f"no trace was written\n{done.complaint[-2000:]}"
    if done.status == -signal.SIGKILL:
        settled(path)
    return Trace(path, done).check()


def dhat_totals(path: Path, argv: Sequence[object]) -> dict[str, int]:
    """What DHAT counted over a whole run: blocks, bytes, and what was live at the end.

    DHAT comes from the installed Valgrind, so VALGRIND_LIB of the build tree is put aside. What libc holds at
    the end (output buffers) is left alone, as the recorder leaves it.
    """
    env = {k: v for k, v in os.environ.items() if k != "VALGRIND_LIB"}
    command = ["valgrind", "-q", "--tool=dhat", "--run-libc-freeres=no", "--run-cxx-freeres=no",
               f"--dhat-out-file={path}", *map(str, argv)]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=SECONDS)
    points = json.loads(path.read_text())["pps"]
    names = {"blocks": "tbk", "bytes": "tb", "end_blocks": "ebk", "end_bytes": "eb"}
    return {name: sum(p[short] for p in points) for name, short in names.items()}
