"""Completion in real shells: what bash and zsh make of a line of `steve`, `ljtrace` or `steve-replay` when Tab is pressed.

A shell runs in a pseudo terminal. Tab completes the line; then `print -r --` or `echo` is put before it, so that the
shell prints the completed line.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from collections.abc import Iterator

import pytest

from conftest import BUILD
from steve import completion_help
from steve.command import COMMANDS
from steve.completion import bash, options_of, zsh

FOLDER = Path(BUILD, "steve")
ALL = "\x1b*"  # in bash, inserts all completions
PROGRAMS = ("steve", "ljtrace", "steve-replay")
SECONDS = 60
# what is typed, and the line after Tab
UNIQUE = (
    ("steve summ", "steve summary"),
    ("steve help exp", "steve help export"),
    ("steve --ver", "steve --version"),
    ("steve sites --alloc", "steve sites --alloc-fn"),
    ("steve sites --sort mean", "steve sites --sort mean_lifetime"),
    ("steve sites --sort=mean", "steve sites --sort=mean_lifetime"),
    ("steve export --format per", "steve export --format perfetto"),
    ("steve export --format=pprof,spee", "steve export --format=pprof,speedscope"),
    ("steve findings --rules never_r", "steve findings --rules never_read"),
    ("steve sites odd", "steve sites odd\\ name.ljt"),
    ("steve sites -o odd", "steve sites -o odd\\ name.ljt"),
    ("ljtrace att", "ljtrace attach"),
    ("ljtrace run --lua-a", "ljtrace run --lua-api"),
    ("ljtrace run --keep=fi", "ljtrace run --keep=first"),
    ("ljtrace run --out=odd", "ljtrace run --out=odd\\ name.ljt"),
    ("ljtrace run --lua-api cat odd", "ljtrace run --lua-api cat odd\\ name.ljt"),
    ("ljtrace --trace-mem=n", "ljtrace --trace-mem=no"),
    ("ljtrace --heap=malloc,cus", "ljtrace --heap=malloc,custom"),
    ("steve-replay --memp", "steve-replay --memplot"),
    ("steve-replay --peakmem odd", "steve-replay --peakmem odd\\ name.ljt"),
    ("steve-replay --allocator=jeff-comp", "steve-replay --allocator=jeff-compact"),
)


class Shell:
    """An interactive shell in a pseudo terminal."""

    def __init__(self, command: list[str], folder: Path, setup: str) -> None:
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ.update(TERM="dumb", PS1="> ", HISTFILE="", HOME=str(folder))
            os.execvp(command[0], command)
        self.send(f"stty -echo; {setup}; echo rea''dy\r")
        self.read_to(r"ready\r\n")

    def send(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def read_to(self, pattern: str) -> re.Match:
        """Read the shell's output until the pattern is found in it."""
        seen, end = "", time.monotonic() + SECONDS
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 1)[0]:
                seen += os.read(self.terminal, 65536).decode(errors="replace")
                found = re.search(pattern, seen)
                if found:
                    return found
        raise AssertionError(f"no {pattern} in {seen!r}")

    def completed(self, line: str, key: str) -> str:
        """The line after a key."""
        self.send(line + key)
        time.sleep(0.3)  # the shell reads what follows as text typed later
        self.send("\x05 ]]'\x01print_line '[[\x05\r")
        return self.read_to(r"<\[\[(.*?) *\]\]>")[1]

    def end(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "odd name.ljt").touch()
    return tmp_path


@pytest.fixture
def in_bash(folder: Path) -> Iterator[Shell]:
    sources = "; ".join(f". {FOLDER}/{name}.bash" for name in PROGRAMS)
    setup = f"{sources}; print_line() {{ printf '<%s>\\n' \"$1\"; }}; bind 'set enable-bracketed-paste off'"
    shell = Shell(["bash", "--norc", "--noprofile", "-i"], folder, setup)
    yield shell
    shell.end()


@pytest.fixture
def in_zsh(folder: Path) -> Iterator[Shell]:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    setup = (
        f"bindkey -e; fpath=({FOLDER} $fpath); autoload -U compinit; compinit -u -D; unset zle_bracketed_paste; "
        "print_line() { printf '<%s>\\n' \"$1\" }"
    )
    shell = Shell(["zsh", "-f", "-i"], folder, setup)
    yield shell
    shell.end()


def test_bash_completes_what_is_unique(in_bash: Shell) -> None:
    assert {line: in_bash.completed(line, "\t") for line, _ in UNIQUE} == dict(UNIQUE)


def test_zsh_completes_what_is_unique(in_zsh: Shell) -> None:
    assert {line: in_zsh.completed(line, "\t") for line, _ in UNIQUE} == dict(UNIQUE)


def test_bash_knows_all_commands_and_options(in_bash: Shell) -> None:
    assert set(COMMANDS) < set(in_bash.completed("steve ", ALL).split())
    assert in_bash.completed("steve help ", ALL).split()[2:] == sorted(COMMANDS)
    long = sorted(name for option in options_of("sites") for name in option.names if name.startswith("--"))
    assert in_bash.completed("steve sites --", ALL).split()[2:] == long
    assert in_bash.completed("steve sites --top ", ALL) == "steve sites --top"


def test_scripts_are_those_of_the_commands() -> None:
    """The scripts that the build has made are not older than the commands."""
    assert (FOLDER / "steve.bash").read_text() == bash()
    assert (FOLDER / "_steve").read_text() == zsh()
    for name in PROGRAMS:
        subprocess.run(["bash", "-n", FOLDER / f"{name}.bash"], check=True)
    for program in (completion_help.ljtrace(), completion_help.replay()):
        assert (FOLDER / f"{program.name}.bash").read_text() == completion_help.bash(program)
        assert (FOLDER / f"_{program.name}").read_text() == completion_help.zsh(program)


def test_options_of_help() -> None:
    """Every option that --help prints is known, with what follows it."""
    for program in (completion_help.ljtrace(), completion_help.replay()):
        for command, options in program.options.items():
            text = completion_help.printed(program.name, *filter(None, [command]), "--help")
            known = {name: option for option in options for name in option.names}
            for name, value in re.findall(r"^ {2,4}(?:-\w,? +)?(--[\w-]+)(\[?=)?", text, re.M):
                assert known[name].takes_value == bool(value), (program.name, command, name)
            assert all(option.help for option in options if command), command
