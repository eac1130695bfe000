"""test_lua_functions - functions of Lua that share a line are distinguished, in every view that names
functions.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from steve.trace._memtrace import Trace as Reader
from support import record, steve

# how often: rounds of make and of a and b; tables that b makes in one
ROUNDS, MADE, SMALL = 20, 300, 40
LOCAL = f"""\
local function make(n) local t = {{}}
  for i = 1, n do t[i] = {{i}} end
  return t end
for r = 1, {ROUNDS} do make({SMALL}) end
local function a() return {{1}} end local function b() local t = {{}} for i = 1, {MADE} do t[i] = {{i}} end return t end
for r = 1, {ROUNDS} do a() b() end
"""
MODULE = """\
local M = {}
function M.pt(x, y) return {x = x, y = y} end function M.seg(p, q) return {p, q} end
for i = 1, 200 do M.seg(M.pt(i, i), M.pt(i, 0)) end
return M
"""
NAMELESS = """\
local call = pcall
local f, g = {function() return {} end, function() return {} end}, 0
for i = 1, 30 do call(f[1]) end
for i = 1, 50 do call(f[2]) end
"""


def recorded(folder: Path, text: str, *options: str, name: str = "script.lua") -> Path:
    script = folder / name
    script.write_text(text)
    trace = record(folder / "t.ljt", ["luajit", *options, script])
    assert trace.run.status == 0, trace.run.complaint
    return trace.path


def tables(path: Path, *options: str) -> dict[tuple[str, int], int]:
    """Tables by function and line of the script."""
    rows = json.loads(steve("lines", path, "--json", *options).text)
    found = [
        (row["function"], row["line"], row["kinds"].get("tab", {"allocs": 0})["allocs"])
        for row in rows
        if row["file"].endswith("script.lua") and row["function"] != "parser"
    ]
    assert len({row[:2] for row in found}) == len(found), "a function of a line has one row"
    return {(function, line): made for function, line, made in found if made}


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_functions_on_one_line_have_their_own_rows(jit: str, tmp_path: Path) -> None:
    path = recorded(tmp_path, LOCAL, jit)
    made = tables(path)
    assert made["b", 5] == ROUNDS * (MADE + 1)
    assert (made["make", 1], made["make", 2]) == (ROUNDS, ROUNDS * SMALL)
    if jit == "-joff":  # a compiled `a` makes no unused table
        assert made["a", 5] == ROUNDS
    for function, total in (("a", made["a", 5]), ("b", made["b", 5]), ("make", made["make", 1] + made["make", 2])):
        chosen = tables(path, "--where", f'function = "{function}"')
        assert {name for name, _ in chosen} == {function} and sum(chosen.values()) == total


def test_methods_on_one_line_are_told_apart_and_compared(tmp_path: Path) -> None:
    path = recorded(tmp_path, MODULE, "-joff")
    assert tables(path) == {("main chunk", 1): 1, ("pt", 2): 400, ("seg", 2): 200}
    (tmp_path / "more").mkdir()
    second = recorded(tmp_path / "more", MODULE.replace("200", "300"), "-joff")
    rows = json.loads(steve("diff", path, second, "--by", "function", "--json").text)
    changes = {row["place"].split(" (")[0]: row["blocks_change"] for row in rows if "script.lua" in row["place"]}
    assert changes["pt"] == 400 and changes["seg"] == 100


def test_a_function_that_is_loaded_again_is_the_same(tmp_path: Path) -> None:
    """Each time another prototype for the same place in the source; its tables have one row."""
    (tmp_path / "module.lua").write_text("return function() return {} end, function() return {} end\n")
    path = recorded(
        tmp_path,
        f"""\
for i = 1, 7 do
  local first, second = dofile("{tmp_path}/module.lua")
  first() second() second()
end
""",
        "-joff",
    )
    rows = json.loads(steve("lines", path, "--json").text)
    made = {
        row["function"]: row["allocs"]
        for row in rows
        if row["file"].endswith("module.lua") and row["function"] in ("first", "second")
    }
    assert made == {"first": 7, "second": 14}


def test_functions_without_a_name_are_numbered(tmp_path: Path) -> None:
    path = recorded(tmp_path, NAMELESS, "-joff")
    made = {name.rsplit("/", 1)[-1]: count for (name, line), count in tables(path).items() if line == 2}
    assert made == {"main chunk": 1, "script.lua:2": 30, "script.lua:2#2": 50}


def test_the_main_chunk_has_one_name(tmp_path: Path) -> None:
    path = recorded(tmp_path, LOCAL)
    reader = Reader(str(path))
    reader.skim()
    frames = [reader.frame(i) for i in range(1, reader.counts()["frames"])]
    assert {f.function for f in frames if f.kind in ("lua", "lua-inlined") and not f.defined} == {"main chunk"}
    assert "main chunk" in {reader.proto(i).function for i in range(reader.counts()["protos"])}


def test_names_of_files_are_whole(tmp_path: Path) -> None:
    """Names up to the length of the longest path. If the source text is the name of a chunk, its beginning is shown."""
    name = "@" + "x" * 2000 + "/script.lua"
    text = "x" * 10_000
    path = recorded(
        tmp_path,
        f"""\
for i = 1, 10 do load("return {{}}", "{name}")() end
for i = 1, 10 do load("return {{}} -- {text}")() end
""",
        "-joff",
    )
    files = {row["file"] for row in json.loads(steve("lines", path, "--json").text)}
    assert name[1:] in files
    assert {file for file in files if "return" in file} == {f'[string "return {{}} -- {text[:32]}..."]'}
