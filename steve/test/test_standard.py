"""Standard streams that are closed, full or without a reader: one line of error, the right status, and no
output in wrong files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import pty
import subprocess
from pathlib import Path
from collections.abc import Callable

import pytest

from conftest import Steve
from steve.command import COMMANDS
from test_conduct import READERS

SCRIPT = """\
stack main f malloc
thread 1
N 0x1000 100
S f@a.c:3 0x1000 8
L f@a.c:4 0x1008 4
F 0x1000
N 0x2000 200
end exit
"""
# commands that write a file even without -o
TO_FILES = ("ops", "lockops", "histogram", "report", "export", "flame")


@pytest.fixture
def shell(steve: Steve, trace: Callable[..., Path]) -> Callable[..., tuple[int, str, str]]:
    """Runs `steve ARGUMENTS` with redirections by the shell: (status, standard output, standard error)."""
    trace(SCRIPT)

    def run(arguments: str, redirections: str, program: str = "steve") -> tuple[int, str, str]:
        done = subprocess.run(
            ["sh", "-c", f"{program} {arguments} {redirections}"],
            cwd=steve.folder,
            timeout=600,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


def arguments_of(command: str) -> str:
    return " ".join((command, "t.ljt", *(READERS[command])))


@pytest.mark.parametrize("command", [name for name in READERS if name not in TO_FILES])
@pytest.mark.parametrize("output, why", [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")])
def test_output_that_cannot_be_written(command: str, output: str, why: str, shell: Callable) -> None:
    status, _, said = shell(arguments_of(command), output)
    assert status == 1 and len(said.splitlines()) == 1
    assert said.startswith(f"steve {command}: standard output: ") and said.endswith(f"{why}\n")


@pytest.mark.parametrize("command", [*READERS])
def test_messages_that_nobody_gets(command: str, shell: Callable) -> None:
    """Lost messages change neither the result nor the status."""
    options = "" if command in TO_FILES and command not in ("report", "flame") else "-o result"
    usual = shell(arguments_of(command), options)
    for nowhere in ("2>&-", "2>/dev/full"):
        status, out, _ = shell(arguments_of(command), f"{options} {nowhere}")
        assert (status, out) == usual[:2]


def test_errors_that_nobody_gets(shell: Callable) -> None:
    assert shell("nope", "2>&-")[0] == 2 and shell("sites nope.ljt", "2>/dev/full")[0] == 1


def test_no_file_is_taken_for_a_stream_that_is_closed(shell: Callable, steve: Steve) -> None:
    wanted = shell("sites t.ljt --json", "")[1]
    for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
        assert shell("sites t.ljt --json -o out.json", closed)[0] == 0
        assert (steve.folder / "out.json").read_text() == wanted, closed
        (steve.folder / "out.json").unlink()
    status, _, said = shell("sites -", "<&-")
    assert status == 1 and "standard input" in said and "Bad file descriptor" in said


@pytest.mark.parametrize("arguments", ["--help", "help", "--version", "sites --help", "help sites"])
def test_help_that_cannot_be_written(arguments: str, shell: Callable) -> None:
    for output in (">&-", ">/dev/full"):
        status, _, said = shell(arguments, output)
        assert status == 1 and len(said.splitlines()) == 1, said
    assert shell(arguments, "| true")[0] == 0 and shell(arguments, "| true")[2] == ""
    assert shell(arguments, "2>&-")[0] == 0


def test_help_of_a_command(shell: Callable, steve: Steve) -> None:
    for command in COMMANDS:
        texts = [(done.returncode, done.out, done.err) for done in (steve("help", command), steve(command, "--help"))]
        assert texts[0] == texts[1] and texts[0][0] == 0 and texts[0][1]
    status, _, said = shell("help site", "")
    assert status == 2 and "did you mean 'sites'" in said
    assert shell("help sites lines", "")[0] == 2


def test_the_replayer(shell: Callable) -> None:
    assert shell("ops t.ljt", "-o t.ops")[0] == 0
    for arguments in ("--help", "--list"):
        for output in (">&-", ">/dev/full"):
            status, _, said = shell(arguments, output, program="steve-replay")
            assert (status, said) == (1, "steve-replay: standard output cannot be written\n")
        assert shell(arguments, "2>&-", program="steve-replay")[0] == 0


# -- files that are written ---------------------------------------------------------------------


def test_results_have_the_name_of_their_trace(shell: Callable, steve: Steve) -> None:
    """The result of another trace is not overwritten. The name is reported unless the user chose it."""
    (steve.folder / "other.ljt").write_bytes((steve.folder / "t.ljt").read_bytes())
    for command, ending in (
        ("report", ".html"),
        ("flame", ".svg"),
        ("ops", "-ops"),
        ("lockops --full", "-lockopsfull"),
        ("export --format pprof", ".pb.gz"),
        ("export --format folded", ".folded"),
    ):
        for name in ("t.ljt", "other.ljt"):
            status, _, said = shell(f"{command} {name}", "")
            assert status == 0 and f"wrote {name}{ending}: " in said and (steve.folder / (name + ending)).exists()
        assert shell(f"{command} -q {name}", "")[2] == ""
        assert "wrote" not in shell(f"{command} {name} -o chosen{'.html' * (command == 'report')}", "")[2]


@pytest.mark.parametrize(
    "arguments, why",
    [
        ("flame t.ljt -o x.png", "a flame graph is an SVG file"),
        ("report t.ljt -o x.pdf", "a page of HTML"),
        ("report t.ljt --json -o x.html", "--json writes JSON"),
        ("export --format pprof --metric peak_space t.ljt", "--metric is for --format folded"),
        ("export --format pprof --heap all t.ljt", "--heap is for --format memprof"),
        ("report t.ljt --json --film x.avi", "with --json they have no effect"),
    ],
)
def test_what_would_come_out_otherwise_than_asked_is_refused(
    arguments: str, why: str, shell: Callable, steve: Steve
) -> None:
    status, _, said = shell(arguments, "")
    assert status == 2 and why in said and len(said.splitlines()) == 1
    assert not list(steve.folder.glob("x.*"))


@pytest.mark.parametrize(
    "arguments", ["ops --binary -o - t.ljt", "export --format pprof -o - t.ljt", "lockops --full --binary -o - t.ljt"]
)
def test_a_terminal_gets_no_binary(arguments: str, steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    leader, follower = pty.openpty()
    done = subprocess.run(
        ["steve", *arguments.split()], cwd=steve.folder, stdout=follower, stderr=subprocess.PIPE, text=True, timeout=600
    )
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2 and "standard output is a terminal" in done.stderr
    assert (
        subprocess.run(["steve", *arguments.split()], cwd=steve.folder, stdout=subprocess.PIPE, timeout=600).returncode
        == 0
    )
