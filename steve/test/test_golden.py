"""Golden tests: the exact text output of each command for one small trace.

The trace is made from golden/app.script. `make golden-update` writes the goldens anew. Read the difference
before it is committed: it is what users will see.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
from pathlib import Path

import pytest

from conftest import Steve, make_trace
from steve.command import COMMANDS

FOLDER = Path(os.environ["LJTRACE_SRCDIR"], "steve", "test", "golden")
UPDATE = bool(os.environ.get("GOLDEN_UPDATE"))
# commands whose output is tested with other files: of allocators, of profilers, and of programs
ELSEWHERE = {"allocstats", "compare", "graphs", "animate", "pins", "tune", "memprof", "sysprof", "symbolize", "serve"}
ELSEWHERE |= {"synth", "top", "import"}
CASES = {
    "diff": ["diff", "app.ljt", "other.ljt"],
    "diff-line": ["diff", "--by", "line", "app.ljt", "other.ljt"],
    "lockops-full": ["lockops", "--full", "app.ljt", "-o", "-"],
    "lockops-simple": ["lockops", "--simple", "app.ljt", "-o", "-"],
    "lockops-stack": ["lockops", "--stack", "app.ljt", "-o", "-"],
    "lockops-stats": ["lockops", "--stack", "--stats", "app.ljt"],
    "ops": ["ops", "app.ljt", "-o", "-"],
    "ops-marked": ["ops", "--resize", "--threads", "--times", "app.ljt", "-o", "-"],
    "globals": ["globals", "--share", "50", "app.ljt"],
    "temporaries": ["temporaries", "--within", "9", "app.ljt"],
    "findings": ["findings", "--min-life", "3", "--short", "4", "--chain", "1", "app.ljt"],
    "workingset": ["workingset", "--window", "5", "app.ljt"],
    "lifetimes": ["lifetimes", "--by-size", "app.ljt"],
    "histogram": ["histogram", "--parts", "none", "app.ljt"],
    "flame": ["flame", "app.ljt", "-o", "-"],
    "export-folded": ["export", "--format", "folded", "app.ljt", "-o", "-"],
    "export-callgrind": ["export", "--format", "callgrind", "app.ljt", "-o", "-"],
    "export-csv": ["export", "--format", "csv", "app.ljt", "-o", "-"],
    "export-massif": ["export", "--format", "massif", "app.ljt", "-o", "-"],
    "export-dhat": ["export", "--format", "dhat", "app.ljt", "-o", "-"],
    "export-speedscope": ["export", "--format", "speedscope", "app.ljt", "-o", "-"],
    "map": ["map", "--json", "app.ljt"],
    "report-json": ["report", "--json", "app.ljt"],
    "universe": ["universe", "app.ljt"],
    "window": ["sites", "--from", "request 1", "--to", "request 3", "app.ljt"],
    "where": ["sites", "--where", "size >= 64 and site ~ 'parse'", "app.ljt"],
    "sysprof-of-a-trace": ["sysprof", "app.ljt"],
}
COVERED = {line[0] for line in CASES.values()}
CASES.update({name: [name, "app.ljt"] for name in COMMANDS if name not in COVERED | ELSEWHERE})


def settled(text: str) -> str:
    """The text without what differs between two recordings of the trace (times, size) and without our
    version."""
    text = re.sub(r"(nanoseconds=)\d+", r"\1S", text)
    text = re.sub(r'(seconds"?:? +)[\d.]+', r"\1S", text)
    text = re.sub(r'("bytes_per_event"|bytes per event|bytes/event)(:? +)[\d.,]+', r"\1\2B", text)
    text = re.sub(r"((?:size|file size|bytes in file) +)[\d,.]+ \w+( \([\d,]+\))?", r"\1B", text)
    return re.sub(r"steve \d[\w.]*", "steve VERSION", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("golden")
    script = (FOLDER / "app.script").read_text()
    make_trace(made / "app.ljt", script)
    make_trace(made / "other.ljt", script.replace("N 20480 4096 2", "N 20480 8000 2\nN 40960 16 1 1"))
    return made


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden(folder: Path, name: str) -> None:
    done = Steve(folder, forked=False)(*CASES[name])
    assert done.returncode == 0, done.err
    text, golden = settled(done.out), FOLDER / f"{name}.golden"
    if UPDATE:
        golden.write_text(text)
    assert text and text == golden.read_text(), f"{golden}; if it is meant to be so, `make golden-update`"


def test_no_golden_without_a_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.golden")) == sorted(CASES)


def test_every_command_has_a_golden() -> None:
    assert {line[0] for line in CASES.values()} | ELSEWHERE == {*COMMANDS, "sysprof"}


def test_times_are_settled() -> None:
    lines: list[str] = settled("seconds             0.001\n").splitlines()
    assert lines == ["seconds             S"]
