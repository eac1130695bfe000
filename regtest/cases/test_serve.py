"""test_serve - profiles for pprof of a program that is running, and dumps of its heap: `ljtrace run --http, --dump-...`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from support import NATIVE, SECONDS, good, run, started, wait_for

HEAPED = NATIVE / "heaped"
GO = shutil.which("go")
STEPS = 100


class Program:
    """heaped, being recorded and served."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path) -> None:
        self.process, self.errors = process, errors

    def step(self) -> None:
        """STEPS steps; returns when they are done."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    @property
    def url(self) -> str:
        found = re.search(r"serving (http://127\.0\.0\.1:\d+/debug/pprof/)", self.errors.read_text())
        assert found is not None
        return found[1]

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(SECONDS)


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Program]:
    errors = folder / "errors"
    argv = ["ljtrace", "run", f"--out={folder}/t.ljt", *options, HEAPED, STEPS]
    with open(errors, "wb") as file, started(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
    ) as process:
        yield Program(process, errors)


def top(source: object, sample: str, folder: Path) -> dict[str, float]:
    """Go's own list of functions: the flat value of each, as a number. folder: for files of its own."""
    text = good(
        [
            GO,
            "tool",
            "pprof",
            "-top",
            "-nodecount=0",
            "-nodefraction=0",
            "-unit=B" if "space" in sample else "-unit=minimum",
            f"-sample_index={sample}",
            source,
        ],
        env={"PPROF_TMPDIR": str(folder)},
    ).text
    rows = [line.split() for line in text.splitlines() if re.match(r"\s+[\d.]+\w*\s+[\d.]+%", line)]
    return {row[-1]: float(row[0].rstrip("Bnsmu")) for row in rows}


def fresh(read: "object", expected: float) -> None:
    """The recorder writes once a second: wait until a profile shows a number, and assert that it does."""
    wait_for(lambda: read() == expected, f"{expected} in a profile", 60)  # type: ignore[operator]


@pytest.mark.skipif(GO is None, reason="go tool pprof is not installed (package golang-go)")
def test_go_tool_pprof_of_a_running_program(tmp_path: Path) -> None:
    with running(tmp_path, "--http=0", "--sample-stacks=1ms") as program:
        program.step()
        fresh(lambda: top(program.url + "heap", "inuse_space", tmp_path).get("keep"), STEPS * 1000)
        program.step()
        fresh(lambda: top(program.url + "heap", "inuse_space", tmp_path).get("keep"), 2 * STEPS * 1000)
        allocated = top(program.url + "allocs", "alloc_objects", tmp_path)
        assert (allocated["keep"], allocated["pass"]) == (2 * STEPS, 2 * STEPS * 9)
        assert "pass" not in {
            name for name, value in top(program.url + "heap", "inuse_objects", tmp_path).items() if value
        }
        asking = subprocess.Popen(
            [str(GO), "tool", "pprof", "-top", program.url + "profile?seconds=3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        while asking.poll() is None:
            program.step()
        text = asking.communicate(timeout=SECONDS)[0]
        assert re.search(r"Type: cpu", text) and re.search(r"\bburn\b", text), text
        assert program.end() == 7


def test_dumps(tmp_path: Path) -> None:
    """A dump after each 100,000 bytes allocated, and one for each signal; the program gets no signal."""
    with running(tmp_path, "--dump-every=100000", "--dump-signal=USR2") as program:
        program.step()  # 190,000 bytes in all
        wait_for((tmp_path / "t.0001.pb.gz").exists, "the first dump", 60)
        assert not (tmp_path / "t.0002.pb.gz").exists()
        program.process.send_signal(signal.SIGUSR2)
        wait_for((tmp_path / "t.0002.pb.gz").exists, "the requested dump", 60)
        program.step()  # 380,000
        assert program.end() == 7
    assert sorted(path.name for path in tmp_path.glob("*.gz")) == [f"t.{i:04}.pb.gz" for i in range(1, 5)]
    said = program.errors.read_text()
    assert "wrote" in said and "4 dumps" in said
    if GO is None:
        pytest.skip("what the dumps hold was not compared: go tool pprof is not installed (package golang-go)")
    assert top(tmp_path / "t.0002.pb.gz", "inuse_space", tmp_path)["keep"] == STEPS * 1000
    assert top(tmp_path / "t.0002.pb.gz", "alloc_objects", tmp_path)["pass"] == STEPS * 9


def test_the_program_is_as_without(tmp_path: Path) -> None:
    argv = [HEAPED, STEPS]
    plain = run(argv, stdin=b"\n\n")
    served = run(
        ["ljtrace", "run", f"--out={tmp_path}/t.ljt", "--http=0", "--dump-high-water=10k", *argv], stdin=b"\n\n"
    )
    assert (plain.status, plain.out) == (served.status, served.out) == (7, b"done\ndone\n")
    assert all(re.match(r"ljtrace: |steve serve: ", line) for line in served.complaint.splitlines())


@pytest.mark.parametrize(
    "options, message",
    [
        (["--http=nowhere"], "is neither a port nor ADDRESS:PORT"),
        (["--http=0", "--keep=last", "--max-size=32m"], "need a file that is kept whole, not --keep=last"),
        (["--dump-every=x"], "--dump-every takes a number of bytes"),
        (["--dump-signal=KILL"], "is USR1, USR2 or HUP"),
    ],
)
def test_wrong_options(options: list[str], message: str, tmp_path: Path) -> None:
    """The program does not run."""
    done = run(["ljtrace", "run", f"--out={tmp_path}/t.ljt", *options, "touch", tmp_path / "ran"])
    assert done.status == 125 and message in done.complaint and not (tmp_path / "ran").exists()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(["ljtrace", "run", f"--out={tmp_path}/t.ljt", f"--http={port}", "touch", tmp_path / "ran"])
    assert done.status == 125 and f"cannot serve on 127.0.0.1, port {port}" in done.complaint
    assert not (tmp_path / "ran").exists()


def test_without_steve(tmp_path: Path) -> None:
    folders = [folder for folder in os.environ["PATH"].split(":") if not Path(folder, "steve").exists()]
    done = run(
        [shutil.which("ljtrace"), "run", f"--out={tmp_path}/t.ljt", "--http=0", "true"], env={"PATH": ":".join(folders)}
    )
    assert done.status == 125 and "cannot start steve" in done.complaint


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--http=0", "--dump-high-water=50k") as program:
        program.step()
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
        killed = next(int(child) for child in children if os.path.samefile(f"/proc/{child}/exe", HEAPED))
        os.kill(killed, signal.SIGKILL)
        assert program.process.wait(SECONDS) == -signal.SIGKILL
    assert (tmp_path / "t.0001.pb.gz").exists()


def test_attached(tmp_path: Path) -> None:
    """Only blocks since the attach are in the profiles; the program is not harmed."""
    errors = tmp_path / "errors"
    with started([HEAPED, STEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process, open(errors, "wb") as file:
        program = Program(process, errors)
        program.step()
        attaching = ["ljtrace", "attach", f"--out={tmp_path}/t.ljt", "--http=0", "--dump-signal=USR1", process.pid]
        with started(attaching, stderr=file) as attach:
            wait_for(lambda: b"recording process" in errors.read_bytes(), "the recording begins", 60)
            program.step()
            profile = f"{program.url}heap"
            attach.send_signal(signal.SIGUSR1)
            wait_for((tmp_path / "t.0001.pb.gz").exists, "the requested dump", 60)
            if GO is not None:
                fresh(lambda: top(profile, "inuse_space", tmp_path).get("keep"), STEPS * 1000)
            attach.send_signal(signal.SIGINT)
            assert attach.wait(SECONDS) == 0
        program.step()
        assert program.end() == 7
