"""test_children - programs that a recorded one starts run as without the recorder, or fail as without it.

With --trace-children=yes it may be a program that Valgrind cannot run. Or its limits, its directory or its
user may prevent recording. Outputs and status are those without the recorder. An exec that the kernel refuses
gives the kernel's errno, with and without --trace-children=yes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import shutil
import stat
import struct
from pathlib import Path

import pytest

from support import NATIVE, Trace, recorder, run, settled

CONDUCT = NATIVE / "conduct"
LOAD_AT, ELF_32, PROGRAM_32 = 0x8048000, 52, 32
EXIT_5 = bytes.fromhex("b801000000" "bb05000000" "cd80")  # mov $1,%eax; mov $5,%ebx; int $0x80


def followed(folder: Path, script: str) -> tuple[Trace, str]:
    """A shell script, with and without the recorder: the shell's trace and the recorder's messages."""
    path = folder / "traces" / "t.ljt"
    path.parent.mkdir()
    done = run([*recorder(path, "--trace-children=yes"), "/bin/sh", "-c", script])
    plain = run(["/bin/sh", "-c", script])
    of_program = [x for x in done.err_of_program.splitlines() if not x.startswith(b"valgrind: ")]
    assert (done.status, done.out, of_program) == (plain.status, plain.out, plain.err.splitlines())
    settled(path)  # where the program went on unrecorded, the collector may still be at work
    return Trace(path, done).check(), done.complaint


def test_a_program_that_inherits_a_filter(tmp_path: Path) -> None:
    """A filter of system calls that kills for one that the recorder otherwise makes."""
    trace, said = followed(tmp_path, f"exec {NATIVE / 'fates'} seccomp-exec")
    assert "recording ended" not in said
    others = [trace.path.with_name(f"t.{n}.ljt") for n in (2, 3)]
    for path in others:
        settled(path)
    images = [trace, *(Trace(path, trace.run).check() for path in others)]
    assert [image.ending() for image in images] == ["exec", "exec", "exit"]


def test_a_setuid_program(tmp_path: Path) -> None:
    """An exec that Valgrind lets fail."""
    program = Path(shutil.copy(CONDUCT, tmp_path / "conduct"))
    program.chmod(program.stat().st_mode | stat.S_ISUID)
    trace, said = followed(tmp_path, f"{program} exit3; echo $?; exec {program} exit3")
    assert trace.ending() == "exec"
    assert said.count(f"{program} runs unrecorded: it is a setuid, setgid or setcap program") == 2


def test_a_wrapper_that_executes_the_program(tmp_path: Path) -> None:
    """Without --trace-children=yes the trace ends with the wrapper, and a message says so. There is no message about
    children that the program starts."""
    said = run([*recorder(tmp_path / "t.ljt"), "env", CONDUCT, "exit3"])
    assert said.status == 3
    assert said.complaint.count(f"{CONDUCT} runs unrecorded: only --trace-children=yes records") == 1
    quiet = run([*recorder(tmp_path / "s.ljt"), "/bin/sh", "-c", "/bin/true; /bin/true; :"])
    assert quiet.status == 0 and "unrecorded" not in quiet.complaint


@pytest.mark.parametrize("children", ["no", "yes"])
def test_a_program_that_executes_itself_by_a_link(children: str, tmp_path: Path) -> None:
    """The kernel takes the link for Valgrind, which a message says; the path to which the link leads works."""

    def said(path: str) -> str:
        code = f"import os, sys; os.execv({path}, ['python3', '-c', 'print(1)'])"
        program = os.path.realpath("/usr/bin/python3")
        return run([*recorder(tmp_path / "t.ljt", f"--trace-children={children}"), program, "-S", "-c", code]).complaint

    link = "/proc/self/exe"
    assert said(repr(link)).count(f"{link} is Valgrind's own program here") == 1
    assert "Valgrind's own" not in said(f"os.readlink({link!r})")


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
    """Valgrind's own files are missing."""
    shutil.copy(NATIVE / "conduct-static", tmp_path / "conduct")
    if run(["chroot", tmp_path, "/conduct", "exit3"]).status != 3:
        pytest.skip("chroot is not permitted here")
    _, said = followed(tmp_path, f"chroot {tmp_path} /conduct exit3; echo $?; exit 4")
    assert "/conduct runs unrecorded: Valgrind does not exist" in said


def test_a_program_without_room_for_a_ring(tmp_path: Path) -> None:
    """Shared memory is limited like files."""
    _, said = followed(tmp_path, f"ulimit -f 10; {CONDUCT} fork; {CONDUCT} exit3; echo $?; exit 4")
    assert said.count("the program runs on, unrecorded") == 2


def test_a_program_that_may_not_write_there(tmp_path: Path) -> None:
    """The folder of the file is missing when the second program starts."""
    script = f"rm -rf {tmp_path}/gone; {CONDUCT} exit3; echo $?; exit 4"
    (tmp_path / "gone").mkdir()
    done = run(
        [
            *recorder(tmp_path / "gone" / "%p.ljt", "--trace-children=yes", "--trace-children-skip=*/rm"),
            "/bin/sh",
            "-c",
            script,
        ]
    )
    assert (done.status, done.text.splitlines()[-1]) == (4, "3")
    assert done.complaint.count("the program runs on, unrecorded") == 1


def test_the_first_program_is_not_run_unrecorded(tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / "nowhere" / "t.ljt", "--trace-children=yes"), CONDUCT, "exit3"])
    assert (done.status, done.out) == (1, b"") and "nothing was run" in done.complaint


def made(path: Path, content: str | bytes, mode: int = 0o755) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def for_another_machine(program: Path, path: Path) -> Path:
    """The same program with a header for AArch64."""
    content = bytearray(program.read_bytes())
    content[18:20] = struct.pack("<H", 183)
    return made(path, bytes(content))


def scripts(folder: Path, count: int) -> Path:
    """A chain of scripts whose interpreters are scripts; the interpreter of the last one is echo."""
    path = Path("/bin/echo")
    for i in range(count):
        path = made(folder / f"{count}-{i}", f"#!{path}\n")
    return path


def special(folder: Path) -> list[Path]:
    """Not regular files. With a pipe, Valgrind would wait for a writer for ever."""
    pipe, place = folder / "pipe", folder / "socket"
    for path, kind in ((pipe, stat.S_IFIFO), (place, stat.S_IFSOCK)):
        os.mknod(path, kind)
        path.chmod(0o755)
    (folder / "folder").mkdir()
    return [pipe, place, folder / "folder", Path("/dev/null"), made(folder / "of-pipe", f"#!{pipe}\n")]


def refused(folder: Path) -> list[Path]:
    """Files that the kernel does not execute."""
    program = (NATIVE / "tryexec").read_bytes()
    at = program.index(b"/lib64/ld-linux")
    return [
        *special(folder),
        folder / "not-there",
        folder / "plain" / "below",
        made(folder / "plain", program, 0o644),
        made(folder / "empty", ""),
        made(folder / "text", "echo text\n"),
        made(folder / "cut", program[:40]),
        made(folder / "short", program[:100]),
        made(folder / "no-loader", program[:at] + b"/gone/" + program[at + 6 :]),
        made(folder / "of-nothing", "#!   \n"),
        made(folder / "of-no-file", "#!/gone/sh -e\nexit 1\n"),
        made(folder / "of-long-path", f"#!/{'x' * 300}\n"),
        made(folder / "of-plain", f"#! {folder}/plain\n"),
        scripts(folder, 7),
    ]


def tried(folder: Path, choice: str, *arguments: object) -> tuple[int, str]:
    """The output of tryexec is the same with and without the recorder."""
    argv = [NATIVE / "tryexec", *arguments]
    plain = run(argv)
    done = run([*recorder(folder / "traces" / "%p.ljt", f"--trace-children={choice}"), *argv])
    assert (done.status, done.text) == (plain.status, plain.text)
    assert done.err_of_program == plain.err
    return plain.status, plain.text


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_files_that_are_not_executed(choice: str, tmp_path: Path) -> None:
    files = refused(tmp_path)
    (tmp_path / "traces").mkdir()
    status, text = tried(tmp_path, choice, 0, 0, *files)
    assert status == 3 and len(text.splitlines()) == len(files)
    assert len({line.split(": ")[1] for line in text.splitlines()}) >= 5
    (only,) = (tmp_path / "traces").iterdir()
    assert Trace(only, run(["true"])).check().ending() == "exit"


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_a_program_for_another_machine(choice: str, tmp_path: Path) -> None:
    program = for_another_machine(NATIVE / "tryexec", tmp_path / "aarch64")
    if run([NATIVE / "tryexec", 0, 0, program]).text != f"{program}: Exec format error\n":
        pytest.skip("this machine runs programs for AArch64")
    (tmp_path / "traces").mkdir()
    assert tried(tmp_path, choice, 0, 0, program, program)[0] == 3


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_too_many_arguments(choice: str, tmp_path: Path) -> None:
    """One argument too long, too many, too many together; half of that is allowed."""
    (tmp_path / "traces").mkdir()
    for count, size in ((1, 128 << 10), (60, 120_000), (500_000, 5)):
        assert tried(tmp_path, choice, count, size, "/bin/true")[1] == "/bin/true: Argument list too long\n"
    assert tried(tmp_path, choice, 10, 100_000, "/bin/true") == (0, "")


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_scripts(choice: str, tmp_path: Path) -> None:
    """Each interpreter gets its script and the arguments of the previous one."""
    (tmp_path / "traces").mkdir()
    for count in (1, 2, 5):
        _, text = tried(tmp_path, choice, 2, 3, scripts(tmp_path, count))
        assert len(text.split()) == count + 2
    script = made(tmp_path / "s", '#!/bin/sh -e\necho "$0" "$@"\n', 0o755)
    assert tried(tmp_path, choice, 1, 4, script) == (0, f"{script} aaaa\n")


def not_as_superuser() -> list[object]:
    """The words before a command that make file modes effective; none for users for whom they are
    effective."""
    if os.geteuid() != 0:
        return []
    dropped = "-dac_override,-dac_read_search"
    prefix: list[object] = ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}"]
    if not shutil.which("setpriv") or run([*prefix, "true"]).status != 0:
        pytest.skip("setpriv (package util-linux) is missing or may not drop the superuser's right to read all")
    return prefix


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_a_program_that_may_only_be_executed(choice: str, tmp_path: Path) -> None:
    """Valgrind cannot run it, and the recorder says so."""
    program = made(tmp_path / "only", (NATIVE / "tryexec").read_bytes(), 0o111)
    (tmp_path / "traces").mkdir()
    recording = [*recorder(tmp_path / "traces" / "%p.ljt", f"--trace-children={choice}"), NATIVE / "tryexec"]
    done = run([*not_as_superuser(), *recording, 0, 0, program])
    assert (done.status, done.text) == (3, f"{program}: Permission denied\n")
    assert f"{program} cannot be executed: Valgrind must be able to read it" in done.complaint


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_a_program_that_only_the_superuser_reads(choice: str, tmp_path: Path) -> None:
    program = made(tmp_path / "only", (NATIVE / "tryexec").read_bytes(), 0o111)
    if not os.access(program, os.R_OK):
        pytest.skip("these tests' user reads no file that nobody may read")
    (tmp_path / "traces").mkdir()
    assert tried(tmp_path, choice, 0, 0, program)[0] == 2
