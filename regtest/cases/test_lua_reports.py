"""test_lua_reports - `steve types`, `states` and `lines` on LuaJIT programs whose counts are known by construction.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path
from typing import Any

import pytest

from support import record, steve

ROUNDS, LENGTH, TABLES, THREADS = 100, 1000, 300, 12
SCRIPT = f"""\
local keep = {{}}
local function single(i) return {{i}} end
for i = 1, {TABLES} do keep[i] = single(i) end
for i = 1, {THREADS} do keep[i] = coroutine.create(single) end
local t = {{}}
for i = 1, {LENGTH} do t[i] = i end
local function sum()
  local s = 0
  for i = 1, {LENGTH} do
    s = s + t[i]
  end
  return s
end
for i = 1, {ROUNDS} do sum() end
"""


@pytest.fixture(scope="module", params=["-jon", "-joff"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lua")
    (folder / "app.lua").write_text(SCRIPT)
    return record(folder / "t.ljt", ["luajit", request.param, folder / "app.lua"]).path


def rows(command: str, trace: Path, *more: str) -> list[dict[str, Any]]:
    """The output of a command of steve."""
    return json.loads(steve(command, "--json", *more, trace).text)


def by_line(found: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The events at each line of the script. For a line that is a whole function this is the row of the
    function, not of the chunk around it. What the parser does there has a row of its own."""
    lines = [row for row in found if row["file"].endswith("app.lua") and row["function"] != "parser"]
    assert len({(row["line"], row["function"]) for row in lines}) == len(lines)
    return {row["line"]: row for row in sorted(lines, key=lambda row: row["function"] != "main chunk")}


def test_types(trace: Path) -> None:
    found = {row["type"]: row for row in rows("types", trace)}
    assert found["thread"]["blocks"] == THREADS
    assert found["stack"]["blocks"] == THREADS + 1  # that of the main thread, which is a part of GG_State
    assert TABLES + 2 <= found["tab"]["blocks"] < TABLES + 100  # and those of the libraries
    total = json.loads(steve("summary", "--json", trace).text)
    for key, whole in (
        ("blocks", total["blocks"]["total"]),
        ("bytes", total["bytes"]["allocated"]),
        ("live_bytes_at_peak", total["bytes"]["peak_live"]),
    ):
        assert sum(row[key] for row in found.values()) == whole
    tables = rows("types", trace, "--where", 'type = "tab"')
    assert [(row["type"], row["blocks"]) for row in tables] == [("tab", found["tab"]["blocks"])]


def test_sites_are_lines_of_lua(trace: Path) -> None:
    """Blocks of a Lua line have a site that begins there, not with code of LuaJIT; filters find it."""
    made = [row for row in rows("sites", trace) if row["site"].startswith("single (app.lua:2)")]
    assert sum(row["blocks"] for row in made) >= TABLES
    chosen = rows("types", trace, "--where", 'site ~ "^single .app.lua:2"')
    assert {row["type"]: row["blocks"] for row in chosen}["tab"] == TABLES
    for command in ("findings", "globals", "fields"):
        assert "app.lua" in steve(command, "--top", "100000", trace).text


def test_states_add_up(trace: Path) -> None:
    found = rows("states", trace)
    total = json.loads(steve("summary", "--json", trace).text)
    assert sum(row["instructions"] for row in found) == total["instructions"]
    for key, whole in (
        ("allocs", total["blocks"]["total"]),
        ("alloc_bytes", total["bytes"]["allocated"]),
        ("free_bytes", total["bytes"]["freed"]),
        ("bytes_read", total["bytes"]["read"]),
        ("loads", total["events"]["load"]),
        ("frees", total["events"]["free"]),
    ):
        assert sum(row[key] for row in found) == whole
    busiest = max((row for row in found if row["state"] != "none"), key=lambda row: row["instructions"])
    jit = any(row["state"] == "TRACE" for row in found)
    assert busiest["state"] == ("TRACE" if jit else "INTERP")
    assert not jit or busiest["starts"].endswith((":9", ":7", ":14"))


def test_lines(trace: Path) -> None:
    found = rows("lines", trace)
    total = json.loads(steve("summary", "--json", trace).text)
    for key, whole in (
        ("allocs", total["blocks"]["total"]),
        ("loads", total["events"]["load"]),
        ("stores", total["events"]["store"]),
        ("bytes_written", total["bytes"]["written"]),
    ):
        assert sum(row[key] for row in found) == whole
    lines = by_line(found)
    assert lines[10]["loads"] >= 0.9 * ROUNDS * LENGTH  # the element at least
    assert lines[10]["loads"] > total["events"]["load"] / 2


def test_every_load_of_the_interpreter_has_its_line(tmp_path: Path) -> None:
    """Without the JIT, a round loads at least the two instructions of line 10 and the one of the loop's
    line."""
    (tmp_path / "app.lua").write_text(SCRIPT)
    path = record(tmp_path / "t.ljt", ["luajit", "-joff", tmp_path / "app.lua"]).path
    lines = by_line(rows("lines", path))
    assert by_line(rows("lines", path, "--where", 'type = "tab"'))[2]["allocs"] == TABLES
    assert lines[10]["loads"] % (ROUNDS * LENGTH) == 0 and lines[10]["loads"] >= 3 * ROUNDS * LENGTH
    assert ROUNDS * LENGTH <= lines[9]["loads"] < lines[10]["loads"]
