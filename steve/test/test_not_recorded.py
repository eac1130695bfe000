"""What was not recorded is not 0: loads and stores that a trace lacks, as against a program that makes none.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Steve
from steve.command import COMMANDS, Command

BLOCKS = "stack main@m.c:5 make@m.c:2\nN 4096 64 1\nN 8192 100 1\nF 4096 1\nend exit\n"
UNTOUCHED = "info trace_mem yes\n" + BLOCKS
NATIVE = "info recorder native\ninfo time_unit nanoseconds\ninfo trace_mem no\n" + BLOCKS
WHY = "the trace has no loads and stores"
OF_ACCESSES = {
    "sites": ("loads", "stores", "modifies", "bytes_read", "bytes_written", "utilisation", "shared"),
    "types": ("loads", "stores", "utilisation"),
    "threads": ("loads", "stores", "shared_blocks"),
    "lines": ("loads", "own_loads", "others_stores", "blocks_touched", "cache_lines_touched"),
    "heat": ("from", "to", "accesses", "traffic", "never_accessed"),
    "fields": ("loads", "stores", "modifies"),
    "workingset": ("accesses", "bytes", "blocks"),
    "states": ("loads", "stores"),
}


@pytest.fixture(params=("untouched", "native"))
def recorded(request: pytest.FixtureRequest, trace: Callable[..., Path]) -> tuple[Path, bool]:
    """A trace without accesses, and whether they were recorded."""
    is_recorded = request.param == "untouched"
    return trace(UNTOUCHED if is_recorded else NATIVE), is_recorded


def found(steve: Steve, *line: object) -> list:
    done = steve(*line, "--json")
    assert done.returncode == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("command", OF_ACCESSES)
def test_columns(steve: Steve, recorded: tuple[Path, bool], command: str) -> None:
    path, is_recorded = recorded
    rows = found(steve, command, path)
    values = {row[column] for row in rows for column in OF_ACCESSES[command]}
    assert rows and (values == {None}) == (not is_recorded), values
    table = list(csv.DictReader(io.StringIO(steve(command, path, "--csv").out)))
    assert ({row[column] for row in table for column in OF_ACCESSES[command]} == {""}) == (not is_recorded)


@pytest.mark.parametrize("command", [name for name in COMMANDS if Command(name).counts_accesses])
def test_what_counts_them_says_so(steve: Steve, recorded: tuple[Path, bool], command: str) -> None:
    """In the heading, and by a remark."""
    path, is_recorded = recorded
    done = steve(command, path)
    assert ("(loads and stores were not recorded)" in done.out) == (not is_recorded)
    assert (f"{WHY}, which this command counts" in done.err) == (not is_recorded)
    assert WHY not in steve(command, "-q", path).err


def test_globals(steve: Steve, recorded: tuple[Path, bool]) -> None:
    path, is_recorded = recorded
    rows = found(steve, "globals", "--accesses", "0", "--share", "1", path)
    assert len(rows) == 2 and {row["accesses"] for row in rows} == {0 if is_recorded else None}
    assert (WHY in steve("globals", path).err) == (not is_recorded)


def test_summary(steve: Steve, recorded: tuple[Path, bool]) -> None:
    path, is_recorded = recorded
    figures, nothing = found(steve, "summary", path), 0 if is_recorded else None
    assert [figures["events"][name] for name in ("load", "store", "modify")] == [nothing] * 3
    assert (figures["bytes"]["read"], figures["bytes"]["written"]) == (nothing, nothing)
    assert figures["unmatched"] == {"free": 0, "access": nothing} and figures["events"]["new"] == 2
    assert found(steve, "histogram", "--parts", "none", path)["accesses"] == nothing


def test_findings(steve: Steve, recorded: tuple[Path, bool]) -> None:
    """A program that touches none of its blocks."""
    path, is_recorded = recorded
    done, rules = steve("findings", path), {rule["finding"]: rule for rule in found(steve, "findings", path)}
    assert ("Unused capacity, Never accessed" in done.out) == (not is_recorded)
    if is_recorded:
        assert "Never accessed: 2 blocks, 164 bytes (100.00%), 0 accesses" in done.out
        assert (rules["never_touched"]["blocks"], rules["never_touched"]["accesses"]) == (2, 0)
    else:
        assert "never_touched" not in rules and rules["never_freed"]["accesses"] is None


def test_report(steve: Steve, recorded: tuple[Path, bool]) -> None:
    path, is_recorded = recorded
    assert steve("report", path, "-o", "r.html").returncode == 0
    text = (path.parent / "r.html").read_text()
    assert ("The trace holds no accesses" in text) == (not is_recorded) and ("Never accessed" in text) == is_recorded


def test_filter(steve: Steve, recorded: tuple[Path, bool]) -> None:
    """A filter on accesses chooses no block by what is not known."""
    path, is_recorded = recorded
    for expression in ("accesses = 0", "not shared and size > 1", "utilisation < 10%", "idle = 0"):
        done = steve("sites", path, "--where", expression)
        assert done.returncode == (0 if is_recorded else 1), done.err
        assert is_recorded or (WHY in done.err and done.out == "")
    assert steve("sites", path, "--where", "size > 1").returncode == 0


def test_exports(steve: Steve, recorded: tuple[Path, bool]) -> None:
    path, is_recorded = recorded
    (row,) = csv.DictReader(io.StringIO(steve("export", "--format", "csv", "-o", "-", path).out))
    assert {row["loads"], row["reads"]} == {"0" if is_recorded else ""} and row["alloc_space"] == "164"
    dhat = json.loads(steve("export", "--format", "dhat", "-o", "-", path).out)
    assert dhat["bkacc"] == is_recorded == ("rb" in dhat["pps"][0]) and dhat["tu"] == (
        "instrs" if is_recorded else "ns"
    )
    callgrind = steve("export", "--format", "callgrind", "-o", "-", path).out
    assert (" loads stores\n" in callgrind) == is_recorded
    done = steve("flame", "--metric", "loads", "-o", "-", path)
    assert (done.returncode == 0) == is_recorded and (is_recorded or WHY in done.err)
    assert steve("export", "--format", "sqlite", "-o", "t.sqlite", path).returncode == 0
    tables, nothing = sqlite3.connect(path.parent / "t.sqlite"), 0 if is_recorded else None
    assert tables.execute("SELECT DISTINCT reads, writes, bytes_read, used FROM block").fetchall() == [(nothing,) * 4]
    assert tables.execute("SELECT DISTINCT reads, writes FROM bin").fetchall() == [(nothing,) * 2]
    assert tables.execute("SELECT DISTINCT loads, blocks_touched FROM line").fetchall() == [(nothing,) * 2]
    assert tables.execute("SELECT count(*) FROM never_read").fetchone() == (int(is_recorded),)


def test_top(steve: Steve, recorded: tuple[Path, bool]) -> None:
    path, is_recorded = recorded
    done = steve("top", "--once", "--accesses", path)
    assert ("written" in done.out) == is_recorded and (WHY in done.err) == (not is_recorded)
    assert done.returncode == 0 and "cut off" not in done.err
    assert (steve("top", "--once", "--accesses", "--sort", "read", path).returncode == 0) == is_recorded


def test_diff(steve: Steve, trace: Callable[..., Path]) -> None:
    """What one trace lacks has no change, so it is no difference."""
    of, native = trace(UNTOUCHED.replace("F 4096", "S 4096 8\nF 4096"), "v.ljt"), trace(NATIVE, "r.ljt")
    done = steve("diff", of, native)
    assert done.out.startswith(
        f"{of} to {native}: blocks +0, bytes +0, peak_bytes +0, live_bytes +0, accesses not recorded"
    )
    assert found(steve, "diff", of, native) == []
    bigger = trace(NATIVE.replace("8192 100", "8192 101"), "b.ljt")
    (row,) = found(steve, "diff", of, bigger)
    assert [row[f"accesses_{side}"] for side in ("a", "b", "change")] == [1, None, None] and row["bytes_change"] == 1
    assert "accesses" not in steve("diff", of, bigger).out.split("\n")[2]
    refused = steve("diff", of, bigger, "--fail-if", "accesses > 0")
    assert refused.returncode == 2 and "cannot be judged: accesses was not recorded in both traces" in refused.err
    assert steve("diff", of, bigger, "--fail-if", "site.allocated > +0").returncode == 1


def test_who_moved_blocks_is_said(steve: Steve, trace: Callable[..., Path]) -> None:
    script = "N 4096 64\nR 4096 8192 100\nend exit\n"
    for facts, replaced in (("info valgrind 3.19.0\n", True), ("info recorder native\n", False), ("", False)):
        done = steve("resizes", trace(facts + script))
        assert "1 resizes, 64 bytes copied" in done.out
        assert ("with the allocator of Valgrind" in done.out) == replaced == ("`ljtrace run` records these" in done.err)
    assert "Valgrind" not in steve("resizes", trace("info valgrind 3.19.0\nN 4096 64\nend exit\n")).out
