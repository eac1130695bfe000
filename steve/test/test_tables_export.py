"""steve export --format sqlite and tables: the real sqlite3 opens the database, its numbers equal those of the analyses,
and the queries of docs/faq.md work.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest

from steve.export.tables import BIN, BLOCK, FACT, FRAME, HEAP, MARKS, SAMPLES, SITE, STACK

DOCUMENT = Path(os.environ["LJTRACE_SRCDIR"], "docs", "tables.md")
QUERIES = DOCUMENT.with_name("faq.md")
TABLES = (BIN, BLOCK, FACT, FRAME, HEAP, MARKS, SAMPLES, SITE, STACK)
SCRIPT = """\
info command luajit app.lua
stack main@main.c:5 parse@parse.c:10 malloc
stack main@main.c:6 draw@@app.lua:3/1
stack main@main.c:5 parse@parse.c:10 xmalloc malloc
heap 0x1234 lua
thread 1
time 10
N 4096 64 1
time 12
mark begin
N 8192 300 2 1
type 8192 1 8
time 20
at draw@ui.c:5
S 4096 8
thread 2
L 4160 4
L 4104 4
mark end
M 8208 8
R 4096 12288 256 1
N 20480 40 3
N 24576 50 3
S 24576 8
thread 1
L 12288 4
sample 40 2 1 0
time 50
F 20480 3
time 90
F 8192 2 1
time 100
end exit
"""


def need_sqlite3() -> None:
    if not shutil.which("sqlite3"):
        pytest.skip("sqlite3 is not installed (package sqlite3)")


def query(path: Path, sql: str) -> list[dict]:
    """The rows of a query, by the real sqlite3."""
    done = subprocess.run(["sqlite3", "-json", path, sql], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else []


@pytest.fixture
def database(steve: Any, trace: Callable) -> Path:
    need_sqlite3()
    path = trace(SCRIPT, "app.ljt")
    done = steve("export", "--format", "sqlite", path)
    assert done.returncode == 0 and done.err.startswith(f"steve export: wrote {path}.sqlite: "), done.err
    return path.with_name("app.ljt.sqlite")


def test_blocks(database: Path) -> None:
    rows = query(database, "SELECT * FROM block ORDER BY id")
    assert [list(row) for row in rows] == [BLOCK.names()] * 4
    first, table, freed, left = rows
    assert (first["size"], first["requested"], first["resizes"], first["state"]) == (256, 64 + 256, 1, "live")
    assert (first["reads"], first["writes"], first["bytes_read"], first["bytes_written"]) == (2, 1, 8, 8)
    assert (first["free_thread"], first["thread"], first["born_time"], first["died_time"]) == (None, 1, 10, 100)
    assert (table["type"], table["how"], table["heap"], table["state"]) == ("tab", "malloc", 1, "freed")
    assert (table["free_thread"], table["died_time"], table["first_use"]) == (1, 90, 4)
    assert (freed["first_use"], freed["last_use"], freed["state"]) == (None, None, "freed")
    assert left["site"] == freed["site"] == first["site"] and left["stack"] != first["stack"]  # xmalloc only allocates


def test_sums_are_those_of_the_analyses(steve: Any, database: Path) -> None:
    sites = {row["site"]: row for row in json.loads(steve("sites", "--json", "app.ljt").out)}
    for row in query(database, "SELECT * FROM sites"):
        site = sites.pop(row["text"])
        assert (row["blocks"], row["bytes"]) == (site["blocks"], site["bytes"])
    assert not sites
    total = json.loads(steve("summary", "--json", "app.ljt").out)
    assert query(database, "SELECT sum(bytes) AS n FROM at_peak")[0]["n"] == total["bytes"]["peak_live"]
    assert query(database, "SELECT sum(bytes) AS n FROM leaks")[0]["n"] == total["bytes"]["live_at_end"]
    assert query(database, "SELECT sum(news) AS n, sum(frees) AS f FROM bin") == [{"n": 4, "f": 2}]
    lines = {(row["file"], row["line"]): row for row in json.loads(steve("lines", "--json", "app.ljt").out)}
    found = query(database, "SELECT * FROM line WHERE allocs IS NOT NULL")
    assert len(found) == len(lines)
    for row in found:
        known = lines[row["file"], row["line"]]
        assert all(row[name] == known[name] for name in row if name != "id")


def test_marks_samples_and_facts(database: Path) -> None:
    assert [(row["time"], row["name"]) for row in query(database, "SELECT * FROM mark")] == [(12, "begin"), (20, "end")]
    assert [(row["weight"], row["state"]) for row in query(database, "SELECT * FROM sample")] == [(40, "INTERP")]
    facts = {row["key"]: row["value"] for row in query(database, "SELECT * FROM fact")}
    assert facts["recording.command"] == "luajit app.lua" and facts["time_unit"] == "instructions"
    assert (facts["complete"], facts["has_accesses"], facts["schema"]) == ("yes", "yes", "1")
    assert query(database, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def queries() -> dict[str, str]:
    """The queries of the document, by number."""
    text = QUERIES.read_text().split("## Ten queries")[1]
    return dict(re.findall(r"^\*\*(\d+)\. .*?^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("number", sorted(queries(), key=int))
def test_documented_queries(database: Path, number: str) -> None:
    assert len(queries()) == 10
    rows = query(database, queries()[number])
    if number == "6":
        assert [(row["blocks"], row["bytes"]) for row in rows] == [(1, 300)]
    elif number == "9":
        assert rows == [{"thread": 2, "free_thread": 1, "blocks": 1, "bytes": 40}]
    else:
        assert rows


def test_the_document_has_every_table_column_and_view(database: Path) -> None:
    text = DOCUMENT.read_text()
    words = set(re.findall(r"`(?:\w+\.)?(\w+)`", text))
    for table in TABLES:
        assert f"**{table.name}**" in text, table.name
        assert set(table.names()) <= words, table.name
    views = {row["name"] for row in query(database, "SELECT name FROM sqlite_master WHERE type = 'view'")}
    assert views == set(re.findall(r"^\| `(\w+)` \| [^|]+\|$", text.split("## Views")[1], re.MULTILINE))
    for view in views:
        query(database, f"SELECT * FROM {view}")


def test_csv_files_are_the_same_tables(steve: Any, database: Path) -> None:
    done = steve("export", "--format", "tables", database.with_name("app.ljt"), "-o", "folder")
    assert (done.returncode, done.err) == (0, "")
    folder = database.with_name("folder")
    names = sorted(row["name"] for row in query(database, "SELECT name FROM sqlite_master WHERE type = 'table'"))
    assert sorted(path.stem for path in folder.iterdir()) == [name for name in names if not name.startswith("sqlite_")]
    for path in folder.iterdir():
        rows = query(database, f"SELECT * FROM {path.stem}")
        assert [same(row) for row in csv.DictReader(path.open())] == [same(row) for row in rows]


def same(row: dict) -> dict:
    """A row of CSV or of the database, with numbers that can be compared."""
    texts = {key: "" if value is None else str(value) for key, value in row.items()}
    return {key: float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else text for key, text in texts.items()}


def test_of_chosen_blocks(steve: Any, database: Path) -> None:
    for options, blocks in ((("--where", "size = 300"), 1), (("--from", "begin", "--to", "end"), 1)):
        done = steve("export", "-q", "--format", "sqlite", "app.ljt", "-o", "some.sqlite", *options)
        assert done.returncode == 0, done.err
        assert query(database.with_name("some.sqlite"), "SELECT count(*) AS n FROM block") == [{"n": blocks}]


def test_where_it_cannot_be_written(steve: Any, trace: Callable) -> None:
    trace(SCRIPT, "app.ljt")
    for form, message in (("sqlite", "needs a file; name one with -o"), ("tables", "makes a folder; name one")):
        done = steve("export", "--format", form, "app.ljt", "-o", "-")
        assert done.returncode == 2 and message in done.err
    done = steve("export", "--format", "tables", "app.ljt", "-o", "app.ljt/x")
    assert done.returncode == 1 and "cannot make this folder" in done.err


def test_a_trace_from_standard_input(steve: Any, trace: Callable, database: Path) -> None:
    done = steve(
        "export", "--format", "sqlite", "-", "-o", "in.sqlite", stdin=database.with_name("app.ljt").read_bytes()
    )
    assert done.returncode == 0, done.err
    assert query(database.with_name("in.sqlite"), "SELECT count(*) AS n FROM block") == [{"n": 4}]


def test_a_database_that_cannot_be_written(steve: Any, database: Path) -> None:
    """A file that must not grow ends in one line, and leaves nothing."""
    steve.prefix = ["prlimit", "--fsize=65536"]
    done = steve("export", "--format", "sqlite", database.with_name("app.ljt"), "-o", "full.sqlite")
    assert done.returncode == 1 and done.err.count("\n") == 1, done.err
    assert "cannot write the database: " in done.err and not list(database.parent.glob("full*"))
