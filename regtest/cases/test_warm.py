"""test_warm - commands that run in forks (regtest/warm.py) do what new processes do.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warm
from support import SOURCE, record, run, wait_for

COMMANDS = (
    ["summary", "--json", "t.ljt"],
    ["sites", "t.ljt"],
    ["check", "none.ljt"],
    ["lines", "--nonsense"],
    ["nonsense"],
    ["help", "leaks"],
    ["ops", "-"],
    ["sites", "-j2", "t.ljt"],
    [],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("warm")
    record(made / "t.ljt", ["/bin/true"])
    return made


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_the_result_is_that_of_a_new_process(arguments: list[str], folder: Path) -> None:
    forked, new = warm.steve(arguments, folder), run(["steve", *arguments], cwd=folder)
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.status, new.out, new.err)


def test_environment_and_folder_are_those_of_the_call(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warm.steve(["report", "t.ljt"], folder).returncode == 0 and (folder / "t.ljt.html").exists()
    assert warm.steve(["sites", "t.ljt"], tmp_path).returncode == 1
    wide = warm.steve(["sites", "t.ljt"], folder).stdout
    monkeypatch.setenv("COLUMNS", "50")
    assert warm.steve(["sites", "t.ljt"], folder).stdout == run(["steve", "sites", "t.ljt"], cwd=folder).out != b""
    monkeypatch.delenv("COLUMNS")
    assert warm.steve(["sites", "t.ljt"], folder).stdout == wide


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.ljt")  # and nobody writes
    with pytest.raises(subprocess.TimeoutExpired):
        warm.steve(["summary", "t.ljt"], tmp_path, seconds=0.5)
    assert warm.steve(["--version"]).returncode == 0


def test_the_server_ends_with_its_user() -> None:
    program = "import warm; warm.steve(['--version']); print(warm._server[0]._process.pid)"
    done = run([sys.executable, "-c", program], env={"PYTHONPATH": f"{SOURCE}/regtest:{os.environ['PYTHONPATH']}"})
    server = Path(f"/proc/{int(done.text)}/cmdline")
    wait_for(lambda: not server.exists() or b"warm" not in server.read_bytes(), "the server has ended")
