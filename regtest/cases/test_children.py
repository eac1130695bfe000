"""test_children - with --trace-children=yes, programs that cannot be recorded run all the same.

A program that a recorded one starts may be one that Valgrind cannot run, or be within limits, in a directory or
under a user that leave the recorder no place. Outputs and status are those without recorder.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import shutil
import stat
import struct
from pathlib import Path

import pytest

from support import NATIVE, Trace, recorder, run

CONDUCT = NATIVE / "conduct"
LOAD_AT, ELF_32, PROGRAM_32 = 0x8048000, 52, 32
EXIT_5 = bytes.fromhex("b801000000" "bb05000000" "cd80")  # mov $1,%eax; mov $5,%ebx; int $0x80


def followed(folder: Path, script: str) -> tuple[Trace, str]:
    """A shell script, with and without the recorder: the shell's trace, and what the recorder said."""
    path = folder / "traces" / "t.ljt"
    path.parent.mkdir()
    done = run([*recorder(path, "--trace-children=yes"), "/bin/sh", "-c", script])
    plain = run(["/bin/sh", "-c", script])
    of_program = [x for x in done.err_of_program.splitlines() if not x.startswith(b"valgrind: ")]
    assert (done.status, done.out, of_program) == (plain.status, plain.out, plain.err.splitlines())
    return Trace(path, done).check(), done.complaint


def test_a_setuid_program(tmp_path: Path) -> None:
    """Valgrind lets its exec fail."""
    program = Path(shutil.copy(CONDUCT, tmp_path / "conduct"))
    program.chmod(program.stat().st_mode | stat.S_ISUID)
    trace, said = followed(tmp_path, f"{program} exit3; echo $?; exec {program} exit3")
    assert trace.ending() == "exec"
    assert said.count(f"{program} runs unrecorded: it is a setuid, setgid or setcap program") == 2


def program_32(path: Path) -> Path:
    """A static 32-bit program that exits with status 5: header, one segment, three instructions."""
    size = ELF_32 + PROGRAM_32 + len(EXIT_5)
    ident = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
    start = LOAD_AT + ELF_32 + PROGRAM_32
    header = struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, start, ELF_32, 0, 0, ELF_32, PROGRAM_32, 1, 0, 0, 0)
    segment = struct.pack("<IIIIIIII", 1, 0, LOAD_AT, LOAD_AT, size, size, 5, 4096)
    path.write_bytes(ident + header + segment + EXIT_5)
    path.chmod(0o755)
    return path


def test_a_32_bit_program(tmp_path: Path) -> None:
    program = program_32(tmp_path / "x32")
    try:
        status = run([program]).status
    except OSError as why:
        pytest.skip(f"this kernel runs no 32-bit programs: {why}")
    if status != 5:
        pytest.skip(f"this kernel runs no 32-bit programs: status {status}")
    _, said = followed(tmp_path, f"{program}; echo $?; exit 3")
    assert f"{program} runs unrecorded: it is a 32-bit program" in said


def test_a_program_under_another_root(tmp_path: Path) -> None:
    """Valgrind's own files are not there."""
    shutil.copy(NATIVE / "conduct-static", tmp_path / "conduct")
    if run(["chroot", tmp_path, "/conduct", "exit3"]).status != 3:
        pytest.skip("chroot is not permitted here")
    _, said = followed(tmp_path, f"chroot {tmp_path} /conduct exit3; echo $?; exit 4")
    assert "/conduct runs unrecorded: Valgrind is not there" in said


def test_a_program_without_room_for_a_ring(tmp_path: Path) -> None:
    """Shared memory counts as a file."""
    _, said = followed(tmp_path, f"ulimit -f 10; {CONDUCT} fork; {CONDUCT} exit3; echo $?; exit 4")
    assert said.count("the program runs on, unrecorded") == 2


def test_a_program_that_may_not_write_there(tmp_path: Path) -> None:
    """The file's folder is gone when the second program starts."""
    script = f"rm -rf {tmp_path}/gone; {CONDUCT} exit3; echo $?; exit 4"
    (tmp_path / "gone").mkdir()
    done = run([*recorder(tmp_path / "gone" / "%p.ljt", "--trace-children=yes",
                          "--trace-children-skip=*/rm"), "/bin/sh", "-c", script])
    assert (done.status, done.text.splitlines()[-1]) == (4, "3")
    assert done.complaint.count("the program runs on, unrecorded") == 1


def test_the_first_program_is_not_run_unrecorded(tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / "nowhere" / "t.ljt", "--trace-children=yes"), CONDUCT, "exit3"])
    assert (done.status, done.out) == (1, b"") and "nothing was run" in done.complaint
