"""Tables: which columns are left out on narrow terminals, what a pipe gets, and what findings show first.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Steve
from steve.terminal import listing, tables
from steve.terminal.listing import Column

COLUMNS = (
    Column("blocks", "blocks", "x"),
    Column("bytes", "bytes", "x"),
    Column("loads", "loads", "x"),
    Column("stores", "stores", "x"),
    Column("site", "site", "x", True),
)
ROWS = [
    {
        "blocks": 1,
        "bytes": 10**12,
        "loads": 10**9,
        "stores": 10**9,
        "site": "parse (parser.lua:10) < accept (server.lua:20) < main",
    }
]


def shown(monkeypatch: pytest.MonkeyPatch, width: int, order: Any = None) -> str:
    monkeypatch.setattr(tables, "room", lambda: width)
    return listing.text("a title that may be longer than the window is wide", ROWS, COLUMNS, None, True, order)


def test_all_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 200)
    assert "no room" not in text and ROWS[0]["site"] in text and "1,000,000,000,000   1,000,000,000" in text


@pytest.mark.parametrize("width", range(40, 100, 7))
@pytest.mark.parametrize("order", (None, "stores"))
def test_numbers_make_room_for_texts(monkeypatch: pytest.MonkeyPatch, width: int, order: Any) -> None:
    lines = shown(monkeypatch, width, order).splitlines()
    assert lines[0] == "a title that may be longer than the window is wide"
    table = [line for line in lines[2:] if "no room" not in line]
    assert max(map(len, table)) <= max(width, 56)  # the text column, the first column and the sort column must stay
    head = next(line for line in table if "blocks" in line)
    column = head.index("site")
    site = " ".join(line[column:].strip() for line in table[table.index(head) + 2 :] if line.strip())
    assert site.split() == ROWS[0]["site"].split()  # none of it is cut off
    assert order is None or "stores" in head
    missing = [c.head for c in COLUMNS if c.head not in head]
    said = [line for line in lines if line.startswith("no room for the columns: ")]
    assert [line.split(";")[0] for line in said] == (
        ["no room for the columns: " + ", ".join(missing)] if missing else []
    )


@pytest.mark.parametrize("n", (0, 1, listing.BATCH, 2 * listing.BATCH + 1))
def test_rows_written_some_at_a_time(n: int) -> None:
    rows = [{**ROWS[0], "blocks": i, "site": f'"{i}"\n,'} for i in range(n)]
    assert "".join(listing.json_parts(rows, COLUMNS)) == json.dumps(rows, indent=1) + "\n"
    apart = "".join(listing.csv_text([row], COLUMNS).partition("\n")[2] for row in rows)
    assert listing.csv_text(rows, COLUMNS) == "blocks,bytes,loads,stores,site\n" + apart


def test_the_mark_of_calls_in_a_row_is_explained() -> None:
    """A table explains it if it shows one."""
    for frame, remark in (
        (tables.times("f (a.c:7)", 3), tables.LEGEND),
        (tables.times("f (a.c:7)", 1), ""),
        ("max x", ""),
    ):
        table = tables.columns("sites", ["blocks", "site"], [[1, tables.StackText([frame, "main"], 1)]], left=["site"])
        assert table.remark == remark
        assert (tables.LEGEND in tables.render([table], False)) == bool(remark)


LONG = "stack main@m.c:1 std::vector<std::basic_string<char,std::char_traits<char>,std::allocator<char>>>::grow@v.h:5\n"
WIDE = LONG + "".join(f"stack main@m.c:{i} a_function_with_a_long_name_{i}@file.c:{i}\n" for i in range(2, 9))
WIDE += "".join(f"N {4096 * i} 16 {i}\n" for i in range(1, 9)) + "end exit\n"


def test_a_pipe_gets_a_line_for_each_row(steve: Steve, trace: Callable[..., Path]) -> None:
    """With short names and all columns, unless COLUMNS limits the width; --names=full shows whole names."""
    trace(WIDE)
    lines = steve("sites", "-q", "t.ljt").out.splitlines()
    assert len(lines) == 12 and "std::vector<std::basic_string<...>>::grow (v.h:5)" in lines[4]
    assert "std::vector<std::basic_string<...>>::grow" in steve("summary", "-q", "t.ljt").out
    assert "allocator<char>" in steve("sites", "-q", "--names=full", "t.ljt").out
    narrow = steve("sites", "-q", "t.ljt", env={**os.environ, "COLUMNS": "60"}).out.splitlines()
    assert len(narrow) > 12 and max(map(len, narrow[:-1])) <= 60
    found = steve("findings", "-q", "t.ljt", env={**os.environ, "COLUMNS": "60"}).out.split("found nothing")[0]
    assert max(map(len, found.splitlines())) <= 72  # the title of a rule is one line


def test_ascii(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(WIDE.replace("file.c:2", "f\u00efle.c:2"))
    for command in (("sites",), ("summary",), ("findings",), ("leaks",), ("info",), ("top", "--once")):
        done = steve(*command, "-q", "t.ljt", env={**os.environ, "LC_ALL": "C"})
        assert done.returncode == 0 and done.out.isascii()
    assert "\u2500" in steve("sites", "-q", "t.ljt", env={**os.environ, "LC_ALL": "C.UTF-8"}).out


@pytest.mark.parametrize("top, more", [(7, "1 more row; "), (6, "2 more rows; ")])
def test_rows_left_out(steve: Steve, trace: Callable[..., Path], top: int, more: str) -> None:
    trace(WIDE)
    assert f"\n{more}--top shows more\n" in steve("sites", "-q", "--top", top, "t.ljt").out


def test_findings_begin_with_what_was_found(steve: Steve, trace: Callable[..., Path]) -> None:
    trace("info recorder native\ninfo trace_mem no\n" + WIDE)
    done = steve("findings", "-q", "t.ljt")
    first, nothing = done.out.index("Never freed: 8 blocks"), done.out.index("\nfound nothing: ")
    last = done.out.index("\nnot looked for: ")
    assert "Unused capacity, Never accessed" in done.out[last:] and "(the trace holds no accesses)\n" in done.out[last:]
    assert first < nothing < last and "(nothing)" not in done.out
