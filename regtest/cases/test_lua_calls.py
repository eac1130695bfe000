"""test_lua_calls - what C does for a trace belongs to the line of the trace that calls it.

The lines are known by construction: each statement marked `--@k` is the only one that makes C touch its
block, which has a size of its own. Between two calls the trace itself touches no memory, or only that of
another line. How many bytes C writes is the same with and without the JIT.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from steve.trace._memtrace import CALL
from support import record, steve
from test_lua_lines import events, script

ROUNDS = 400

WORK = (
    """\
local ffi, new = require "ffi", require "table.new"
local function block(k) return ffi.new("char[?]", 20000 + 64 * k) end
local a1, a2, a3, a4, a5, a6, a7, a8 = block(1), block(2), block(3), block(4), block(5), block(6), block(7), block(8)
local s9 = ("0123456789"):rep(2020) .. ("x"):rep(40)
local t10 = new(1300, 0)
for i = 1, 1299 do t10[i] = tostring(i) end
local held = {}
for i = 1, %d do
  ffi.fill(a1, 1000 + i %% 2)                         --@1
  ffi.fill(a2, 2000 + i %% 2)                         --@2
  held[1] = i
  ffi.fill(a3, 512 + i %% 2)                          --@3
  local x = held[1]
  if x %% 3 == 0 then
    ffi.fill(a4, 600 + i %% 2)                        --@4
  else
    ffi.fill(a5, 300 + i %% 2)                        --@5
  end
  ffi.copy(a6,                                        --@6
           a7, 700 + i %% 2)
  local y =
    s9:sub(i, i + 200)                               --@9
  held[2] = y
  ffi.fill(a8, 64 + i %% 2, #y)                       --@8
  local z = table.concat(t10, ",", 1, 40 + i %% 2)    --@10
  held[3] = z
end
"""
    % ROUNDS
)

# The block of each mark: C data has 16 bytes before it, of variable size 8 more; texts a header and a NUL.
FILLED = {k: 20000 + 64 * k + 24 for k in (1, 2, 3, 4, 5, 6, 8)}
BYTES = {1: 1000.5 * ROUNDS, 2: 2000.5 * ROUNDS, 3: 512.5 * ROUNDS, 8: 64.5 * ROUNDS}


def marks() -> dict[int, int]:
    """Line by mark."""
    found = (line.split("--@") for line in WORK.splitlines())
    return {int(parts[1]): number for number, parts in enumerate(found, 1) if len(parts) == 2}


FIRST, LAST = 7, 26  # the lines that count, of all scripts here: not the first, which make, nor the very end


def touching(path: Path, size: int) -> dict[int, dict]:
    """Rows of the lines that access blocks of that size, without those that allocate and finally free
    them."""
    rows = json.loads(steve("lines", path, "--json", "--where", f"size == {size}").text)
    assert rows, size
    return {
        row["line"]: row
        for row in rows
        if row["file"].endswith(".lua") and row["loads"] + row["stores"] and FIRST <= row["line"] <= LAST
    }


def recorded(folder: Path, *options: str) -> Path:
    trace = record(folder / "t.ljt", ["luajit", *options, "-e", "collectgarbage('stop')", script(folder, WORK)])
    assert trace.run.status == 0, trace.run.complaint
    return trace.path


@pytest.mark.parametrize(
    "options", [["-jon"], ["-O-loop", "-Ohotloop=3", "-Ohotexit=2"], ["-joff"]], ids=lambda options: " ".join(options)
)
def test_what_c_does_is_at_the_line_of_the_call(options: list[str], tmp_path: Path) -> None:
    path, wanted = recorded(tmp_path, *options), marks()
    for mark, size in FILLED.items():
        rows = touching(path, size)
        assert rows.keys() == {wanted[mark]}, (mark, rows.keys())
        row = rows[wanted[mark]]
        assert row["stores"] >= ROUNDS / 4, mark
        if mark in BYTES:  # a fill may write a byte twice, where vectors overlap
            assert BYTES[mark] <= row["bytes_written"] <= 1.3 * BYTES[mark] + 32 * ROUNDS, (mark, row)


def test_c_writes_as_much_with_the_jit_as_without(tmp_path: Path) -> None:
    """C is called equally often, with the same arguments."""

    def written(option: str) -> dict[int, int]:
        path = recorded(tmp_path, option)
        return {mark: touching(path, size)[marks()[mark]]["bytes_written"] for mark, size in FILLED.items()}

    assert written("-jon") == written("-joff")


def test_texts_and_tables_that_c_reads(tmp_path: Path) -> None:
    """The text that is divided, and the table whose elements are joined."""

    def read(option: str) -> dict[int, dict[int, dict]]:
        path = recorded(tmp_path, option)
        sizes = {9: {e["size"] for _, e in events(path, (0,)) if 20200 <= e["size"] - 40 < 20240}, 10: {8 * 1301}}
        assert len(sizes[9]) == 1
        return {mark: touching(path, int(size)) for mark, (size,) in sizes.items()}

    wanted = marks()
    for option in ("-jon", "-joff"):
        for mark, rows in read(option).items():
            assert rows.keys() == {wanted[mark]}, (option, mark, rows.keys())
            assert rows[wanted[mark]]["bytes_read"] >= 200 * ROUNDS


def test_calls_are_told_on_traces_alone(tmp_path: Path) -> None:
    def calls(option: str) -> int:
        return sum(1 for _ in events(recorded(tmp_path, option), (CALL,)))

    assert calls("-joff") == 0 and calls("-jon") > ROUNDS


COLLECTED = """\
local new = require "table.new"
local kept = new(3000, 0)
for i = 1, 3000 do kept[i] = {} end
jit.off(true, false)
local sum, last = 0, {}
local function work(n)
  for i = 1, n do
    sum = sum + i % 7
    last[i % 50] = {i, sum}                          --@1
    sum = sum - 1
  end
end
jit.on(work)
work(20000)
"""


@pytest.mark.parametrize("jit", ["-jon", "-joff"])
def test_the_collector_works_for_the_line_that_makes(jit: str, tmp_path: Path) -> None:
    """It reads the table that is kept; no other statement does."""
    trace = record(tmp_path / "t.ljt", ["luajit", jit, script(tmp_path, COLLECTED)])
    assert trace.run.status == 0, trace.run.complaint
    line = next(i for i, text in enumerate(COLLECTED.splitlines(), 1) if "--@1" in text)
    rows = touching(trace.path, 8 * 3001)
    assert rows.keys() == {line} and rows[line]["loads"] >= 3000, rows.keys()
