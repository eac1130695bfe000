"""test_places - trouble around a recording: its file, its collector, the folders and limits it starts under.

In each case the program's output and status are those of an untraced run, and there is one clear message or
a valid trace. What a full disk does to the readers is tested in test_badinput.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import signal
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest

from support import (
    APP_C,
    NATIVE,
    SECONDS,
    Done,
    Trace,
    collectors_of,
    in_own_mounts,
    recorder,
    run,
    started,
    wait_for,
)

PROGRAM = [str(APP_C), "300"]
CONDUCT = NATIVE / "conduct"
LONG_PROGRAM = [CONDUCT, "scatter"]  # its trace can not be less than 5 million times 20 bits: 12.5 MB
WRITTEN = 16_000_000  # bytes of a trace, when a recording is surely at work: a chunk has 1.6 MB


def same(traced: Done, plain: Done) -> None:
    assert (traced.status, traced.out) == (plain.status, plain.out)
    assert traced.err_of_program == plain.err


def messages(done: Done) -> list[str]:
    return [line for line in done.complaint.splitlines() if "ljtrace:" in line or "recording" in line]


def readable_up_to_there(path: Path, some: bool = True) -> None:
    """Check that a trace is valid to its end, or cut off. In the latter case the part before the cut is valid
    (and there must be one, if `some`), and the cut is reported."""
    seen = run([NATIVE / "traceview", "events", path])
    if seen.status != 0:
        assert str(path) in seen.complaint and "offset" in seen.complaint
        assert len(seen.complaint.splitlines()) == 1
    assert b"new " in seen.out or not some
    checked = run(["steve", "check", "--salvage", path])
    broken = [line for line in checked.text.splitlines() if line.startswith("BROKEN")]
    assert all("the file can be read to its end" in line for line in broken), checked.text + checked.complaint
    assert (": sound" in checked.text) is (not broken) and checked.status == (seen.status != 0) == bool(broken)


# -- the collector -------------------------------------------------------------------------------


def while_it_runs(path: Path, happening: Callable[[], object], informed: bool) -> None:
    """Record a program and call `happening` once it is running. The program ends when the user was informed
    (if `informed`), and does the same as without the recorder. There is only one message."""
    stop, said = path.with_name("stop"), path.with_name("said")
    argv = [CONDUCT, "until", stop]
    command = [*recorder(path), *argv]
    with open(said, "wb") as err, started(command, stdout=subprocess.PIPE, stderr=err) as process:
        wait_for(lambda: path.exists() and path.stat().st_size >= WRITTEN, "the recording is at work")
        happening()
        wait_for(lambda: not informed or b"recording ended" in said.read_bytes(), "the user is informed")
        stop.touch()
        out, _ = process.communicate(timeout=SECONDS)
    done = Done(process.returncode, out, said.read_bytes())
    same(done, run(argv))
    assert sum("recording ended" in m for m in messages(done)) == informed, done.complaint


def test_collector_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"

    def kill() -> None:
        (collector,) = collectors_of(path)
        os.kill(collector, signal.SIGKILL)

    while_it_runs(path, kill, informed=True)
    readable_up_to_there(path)


def test_output_is_removed(tmp_path: Path) -> None:
    """The user removed the file. The program continues normally, and no file with that name appears."""
    path = tmp_path / "t.ljt"
    while_it_runs(path, path.unlink, informed=False)
    wait_for(lambda: not collectors_of(path), "the collector has ended")
    assert not path.exists()


# -- the disk ------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of the size that the test's parameter names."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", folder])
    if mounted.status != 0:
        pytest.skip(f"cannot mount a small tmpfs: {mounted.complaint.strip()}")
    yield folder
    run(["umount", folder])


@pytest.mark.parametrize("disk", ["64k", "2m"], indirect=True)
def test_disk_gets_full(disk: Path) -> None:
    path = disk / "t.ljt"
    done = run([*recorder(path), *LONG_PROGRAM])
    same(done, run(LONG_PROGRAM))
    ended = [m for m in messages(done) if "recording ended" in m]
    assert len(ended) == 1 and str(path) in ended[0], done.complaint
    assert path.stat().st_size > 0
    readable_up_to_there(path, some=False)


@pytest.mark.parametrize("disk", ["300k"], indirect=True)
def test_disk_gets_full_before_a_fork(disk: Path) -> None:
    """A message names the child, the child leaves no empty file, and both processes continue."""
    path = disk / "t.ljt"
    script = f'printf %1000000s x >"{disk}/rest"; ( echo a; : ); echo b; exit 3'
    for _ in range(10):  # on a busy machine, the recording may end before the fork, because the disk is full
        for file in disk.iterdir():
            file.unlink()
        done = run([*recorder(path), "/bin/sh", "-c", script])
        assert (done.status, done.out) == (3, b"a\nb\n")
        assert "No space left" in done.complaint and "did not start" not in done.complaint
        wait_for(lambda: not collectors_of(path), "the collectors have ended")
        assert sorted(p.name for p in disk.iterdir()) == ["rest", "t.ljt"]
        if "this forked child runs on unrecorded" in done.complaint:
            break
    assert done.complaint.count("this forked child runs on unrecorded") == 1, done.complaint


# -- where and under what it starts ----------------------------------------------------------------


def test_no_dev_shm(tmp_path: Path) -> None:
    """The ring needs no file system."""
    path = tmp_path / "t.ljt"
    done = in_own_mounts("mount -t tmpfs -o ro,size=4k none /dev/shm", *recorder(path), *PROGRAM)
    same(done, run(PROGRAM))
    Trace(path, done).check()


ADOPT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execvp(sys.argv[1], sys.argv[1:])"
ADOPTERS = {"subreaper": ["/usr/bin/python3", "-c", ADOPT], "first": ["unshare", "--fork", "--pid", "--kill-child"]}


@pytest.mark.parametrize("way", ADOPTERS)
def test_a_program_that_inherits_orphans(way: str, tmp_path: Path) -> None:
    """It waits for any child, but must not get the recorder's: the first process of a container, and one that
    requested it (PR_SET_CHILD_SUBREAPER)."""
    probe = run([*ADOPTERS[way], "true"])
    if probe.status != 0:
        pytest.skip(f"cannot have process ids of its own: {probe.complaint.strip()}")
    path = tmp_path / "t.ljt"
    done = run([*ADOPTERS[way], *recorder(path, "--vgdb=no"), NATIVE / "fates", "wait-any"], seconds=300)
    same(done, run([NATIVE / "fates", "wait-any"]))
    assert Trace(path, done).check().ending() == "exit"


@pytest.mark.parametrize("option", [[], ["--vgdb=no"]], ids=["", "no vgdb"])
def test_read_only_tmp(option: list[str], tmp_path: Path) -> None:
    """Valgrind itself needs files in TMPDIR. If it cannot continue it says so; it never records only a
    part."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    path = tmp_path / "t.ljt"
    done = in_own_mounts(
        f"mount -t tmpfs -o ro,size=4k none '{folder}'; TMPDIR='{folder}'; export TMPDIR",
        *recorder(path, *option),
        *PROGRAM,
    )
    if done.status != 0:
        assert f"failed to create temp file: {folder}/" in done.complaint and done.out == b""
        return
    same(done, run(PROGRAM))
    Trace(path, done).check()


@pytest.mark.parametrize("kilobytes", [50_000, 400_000, 4_000_000])
def test_limited_address_space(kilobytes: int, tmp_path: Path) -> None:
    """It works, or reports that memory is missing."""
    path = tmp_path / "t.ljt"
    done = run(["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh", *recorder(path), *PROGRAM])
    if done.status != 0:
        assert "memory" in done.complaint and done.out == b"", done.complaint
        return
    same(done, run(PROGRAM))
    Trace(path, done).check()


def test_few_descriptors_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    done = run(["sh", "-c", 'ulimit -n 20; exec "$@"', "sh", *recorder(path), *PROGRAM])
    same(done, run(PROGRAM))
    Trace(path, done).check()


def test_the_file_cannot_be_written(tmp_path: Path) -> None:
    for name in (tmp_path, tmp_path / "nowhere" / "t.ljt", Path("/dev/full")):
        done = run([*recorder(name), *PROGRAM])
        assert done.status == 1 and done.out == b""
        assert f"cannot write {name}: " in done.complaint and "--out=FILE" in done.complaint


@pytest.mark.parametrize("is_native", (False, True))
def test_no_script_is_overwritten(is_native: bool, tmp_path: Path) -> None:
    script = tmp_path / "app.lua"
    script.write_text("print(1)\n")
    done = run([*(["ljtrace", "run", f"--out={script}"] if is_native else recorder(script)), "luajit", script])
    assert done.status == (125 if is_native else 1) and done.out == b"" and script.read_text() == "print(1)\n"
    assert f"cannot write {script}: there is a file that is no trace" in done.complaint


def test_file_size_limit_from_the_start(tmp_path: Path) -> None:
    """The collector inherits the limit, and ends the recording below it: 8.7 MB."""
    path = tmp_path / "t.ljt"
    done = run(["sh", "-c", 'ulimit -f 17000; exec "$@"', "sh", *recorder(path), *LONG_PROGRAM])
    same(done, run(LONG_PROGRAM))
    assert sum("the limit on the size of files (ulimit -f) was reached" in m for m in messages(done)) == 1
    readable_up_to_there(path)
