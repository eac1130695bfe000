"""Where steve writes its results: rejected places, links, permissions, interruption, a reader that stops
early.

test_cli.py tests the contents of the results.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import signal
import subprocess
import time
from pathlib import Path
from collections.abc import Callable

import pytest

from conftest import Steve
from test_cli import CLASSIC, OPS, READERS, SCRIPT, Maker, one_line


@pytest.mark.parametrize("command", [c for c in READERS if c[0] != "histogram"])
def test_output_cannot_be_written(
    steve: Steve, trace: Maker, tmp_path: Path, command: tuple, no_leftovers: Callable[[], list[str]]
) -> None:
    trace(SCRIPT)
    one_line(steve(*command, "-q", "t.ljt", "-o", "nowhere/result"), 1, "nowhere/result: cannot write in")
    (tmp_path / "folder").mkdir()
    one_line(steve(*command, "-q", "t.ljt", "-o", "folder"), 1, "folder: is a folder")
    one_line(steve(*command, "-q", "t.ljt", "-o", "/dev/full"), 1, "/dev/full: ", "No space left")
    assert no_leftovers() == []


def test_histogram_cannot_be_written(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "app-ops").write_text(OPS)
    one_line(steve("histogram", "-o", "nowhere/app", "app-ops"), 1, "nowhere/app-json-ops: cannot write")


def test_folder_without_write_permission(bound_by_permissions: Steve, trace: Maker, tmp_path: Path) -> None:
    trace(SCRIPT)
    (tmp_path / "closed").mkdir(mode=0o555)
    result = bound_by_permissions("ops", "t.ljt", "-o", "closed/x")
    one_line(result, 1, "closed/x: cannot write in", "Permission denied")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ops", "x-ops"),
        ("ops", "x-ops", "-o", "link"),
        ("sites", "x-ops", "-o", "x-ops"),
        ("report", "x-ops", "-o", "x-ops"),
        ("diff", "t.ljt", "x-ops", "-o", "x-ops"),
        ("export", "--format", "folded", "x-ops", "-o", "./x-ops"),
    ],
)
def test_no_result_replaces_its_input(steve: Steve, trace: Maker, tmp_path: Path, arguments: tuple) -> None:
    trace(SCRIPT)
    content = trace(SCRIPT, "x-ops").read_bytes()
    (tmp_path / "link").symlink_to("x-ops")
    one_line(steve(*arguments), 2, "is what the command reads", "-o")
    assert (tmp_path / "x-ops").read_bytes() == content


def test_only_files_that_are_read_are_inputs(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    """Files with the name of an option's value are not inputs."""
    trace(SCRIPT)
    for name, arguments in (
        ("text", ("ops", "--text")),
        ("full", ("lockops", "--full")),
        ("loads", ("sites", "--sort", "loads")),
    ):
        (tmp_path / name).write_text("old")
        assert steve(*arguments, "-q", "-f", "t.ljt", "-o", name).returncode == 0, name
        assert (tmp_path / name).read_bytes() != b"old"


def test_an_old_result_stays_when_the_new_one_fails(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "result").write_text("precious")
    (tmp_path / "foreign").write_bytes(bytes(100))
    assert steve("ops", "foreign", "-o", "result").returncode == 1
    assert (tmp_path / "result").read_text() == "precious"


def test_permissions_and_links_of_results(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    trace(SCRIPT)
    steve("ops", "-q", "t.ljt", umask=0o027)
    assert (tmp_path / "t.ljt-ops").stat().st_mode & 0o777 == 0o640
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    assert steve("ops", "-q", "-f", "--text", "t.ljt", "-o", "link").returncode == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == OPS


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_no_half_file(tmp_path: Path, signum: int, no_leftovers: Callable[[], list[str]]) -> None:
    process = subprocess.Popen(
        ["steve", "ops", "-", "-o", "result"], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(CLASSIC.encode() * 50000)
    process.stdin.flush()
    wait_for(no_leftovers)
    process.send_signal(signum)
    process.stdin.close()
    assert process.wait(600) == -signum
    assert process.stderr.read() == b""
    assert os.listdir(tmp_path) == []


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; fail the test if it never does."""
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_reader_that_stops_early(trace: Maker, tmp_path: Path) -> None:
    trace("N 4096 64\n" + "L 4096 4\n" * 200000 + "end exit\n")
    for command in ("memtrace", "dump"):
        result = subprocess.run(
            ["sh", "-c", f"steve {command} t.ljt | head -n 1"], cwd=tmp_path, capture_output=True, timeout=600
        )
        assert result.stdout.count(b"\n") == 1 and result.stderr == b""


SCRIPTS = {
    "app.lua": "local x = 1\nprint(x)\n",
    "notes.txt": "To do:\n- buy milk\n",
    "package.json": '{"name": "app"}\n',
}
SCRIPTS |= {"page.html": "<!doctype html>\n<title>Mine</title>\n", "my.csv": "name,age\na,1\n", "numbers": "1\n2\n"}
KINDS = {
    "ops": ("ops",),
    "ops --text": ("ops", "--text"),
    "lockops": ("lockops", "--full"),
    "memtrace": ("memtrace",),
    "sites": ("sites",),
    "sites --csv": ("sites", "--csv"),
    "sites --json": ("sites", "--json"),
    "summary": ("summary",),
    "summary --csv": ("summary", "--csv"),
    "summary --json": ("summary", "--json"),
    "check": ("check",),
    "info": ("info",),
    "dump": ("dump",),
    "findings": ("findings",),
    "flame": ("flame",),
    "report": ("report",),
    "report --json": ("report", "--json"),
    "heat": ("heat",),
    **{f"export {form}": ("export", "--format", form) for form in ("folded", "pprof", "csv", "massif", "callgrind")},
    **{f"export {form}": ("export", "--format", form) for form in ("dhat", "speedscope", "heaptrack", "sqlite")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_only_an_earlier_result_is_replaced(steve: Steve, trace: Maker, tmp_path: Path, kind: str) -> None:
    trace(SCRIPT)
    trace(SCRIPT.replace("N 8192 300", "N 8192 400"), "u.ljt")
    for name, text in SCRIPTS.items():
        (tmp_path / "foreign").write_text(text)
        one_line(
            steve(*KINDS[kind], "-q", "t.ljt", "-o", "foreign"), 2, "foreign: is no earlier result", "-f replaces it"
        )
        assert (tmp_path / "foreign").read_text() == text
    assert steve(*KINDS[kind], "-q", "-f", "t.ljt", "-o", "foreign").returncode == 0
    again = ("-f",) if kind == "report" else ()  # it is of another trace
    assert steve(*KINDS[kind], "-q", *again, "u.ljt", "-o", "foreign").returncode == 0
    (tmp_path / "foreign").write_bytes(b"")
    assert steve(*KINDS[kind], "-q", "t.ljt", "-o", "foreign").returncode == 0


def test_forms_of_one_result_replace_each_other(steve: Steve, trace: Maker) -> None:
    trace(SCRIPT)
    for form in ("--text", "--binary", "--text"):
        assert steve("ops", form, "-q", "t.ljt", "-o", "x").returncode == 0
    one_line(steve("memtrace", "t.ljt", "-o", "x"), 2, "x: is no earlier result")


def test_an_empty_result_replaces_no_script(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    trace("end exit\n")
    for text, status in (("print(1)\n", 2), ('{"name": 1}\n', 2), ("main;parse 12\n", 0)):
        (tmp_path / "x").write_text(text)
        assert steve("export", "--format", "folded", "-q", "t.ljt", "-o", "x").returncode == status
        assert (tmp_path / "x").read_text() == (text if status else "")
