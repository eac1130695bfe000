"""test_lua_accesses - accesses of JIT traces have the line of the bytecode that they were recorded from.

The lines are known by construction: each statement marked `--@k` touches an array of its own, which has a
size of its own, and no other statement touches it. Traces come from loops of many lines, calls inlined over
lines and functions, loops unrolled, metamethods, protected calls, recursion, C data, and side traces.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import LOAD, MODIFY, NEW, STORE, Frame
from steve.trace._memtrace import Trace as Reader
from support import record
from test_lua_lines import LUA_KINDS, script

SLOTS = 500  # of array 0; array k has k more

WORK = """\
local new, ffi = require "table.new", require "ffi"
local A = {}
local function fill()
  for k = 1, 20 do
    A[k] = new(500 + k, 0)
    for i = 1, 500 do A[k][i] = i end
  end
  for k = 21, 24 do
    A[k] = ffi.new("double[?]", 500 + k * 10)
  end
end
jit.off(fill)
fill()
local a1, a2, a3, a4, a5, a6 = A[1], A[2], A[3], A[4], A[5], A[6]

local function body(n)
  local s = 0
  for i = 1, n do
    local x = a1[i]                                  --@1
    a2[i] = x                                        --@2
    local y = a3[i]                                  --@3
    a4[i] =
      x + y                                          --@4
    s = s +
      a5[i]                                          --@5
    local z = a6[i + 1]                              --@6
    s = s + x * y - z
  end
  return s
end

local a7, a8, a9 = A[7], A[8], A[9]
local function inner(i)
  local v = a7[i]                                    --@7
  return v
end
local function outer(i, x)
  a8[i] = x                                          --@8
  local v = inner(i)
  return v + x
end
local function calls(n)
  local s = 0
  for i = 1, n do
    s = s + outer(i, s % 7)
    a9[i] = s                                        --@9
  end
  return s
end

local a10, a11 = A[10], A[11]
local function unrolled(n)
  local s = 0
  for i = 1, n do
    for j = 1, 3 do
      s = s + a10[j + i]                             --@10
      a11[i] = j                                     --@11
    end
  end
  return s
end

local a12, a13, a14 = A[12], A[13], A[14]
local function sides(n)
  local s = 0
  for i = 1, n do
    if i % 3 == 0 then
      a12[i] = s                                     --@12
    elseif i % 3 == 1 then
      s = s + a13[i]                                 --@13
    else
      a14[i] = i                                     --@14
    end
  end
  return s
end

local a15, a16, a17 = A[15], A[16], A[17]
local object = setmetatable({}, {__index = function(_, i)
  local v = a15[i]                                   --@15
  return v
end, __add = function(_, i)
  a16[i] = i                                         --@16
  return i
end})
local function protected(i)
  a17[i] = i                                         --@17
  return i
end
local function metamethods(n)
  local s = 0
  for i = 1, n do
    s = s + object[i]
    s = s + (object + i)
    local _, v = pcall(protected, i)
    s = s + v
  end
  return s
end

local a18, a19 = A[18], A[19]
local function down(i)
  if i == 0 then return 0 end
  local v = a18[i]                                   --@18
  a19[i] = v                                         --@19
  v = v + down(i - 1)
  return v
end

local c21, c22, c23, c24 = A[21], A[22], A[23], A[24]
local function cdata(n)
  local s = 0
  for i = 1, n do
    local x = c21[i]                                 --@21
    c22[i] = x + i                                   --@22
    s = s +
      c23[i - 1]                                     --@23
    c24[i] = s                                       --@24
  end
  return s
end

for _ = 1, 8 do
  body(450) calls(450) unrolled(450) sides(450) metamethods(450) down(80) cdata(450)
end
"""


def marked_lines() -> dict[int, int]:
    """Line by array."""
    found = (line.split("--@") for line in WORK.splitlines())
    return {int(parts[1]): number for number, parts in enumerate(found, 1) if len(parts) == 2}


def array_of(size: int) -> int | None:
    """The array whose block has that size. Slot 0 exists in tables, too; C data of variable size has three
    more words."""
    words, rest = divmod(size, 8)
    if rest == 0 and 1 <= words - SLOTS - 1 < 20:
        return words - SLOTS - 1
    tens, rest = divmod(words - SLOTS - 3, 10)
    return tens if rest == 0 and 21 <= tens <= 24 else None


class Account:
    """The accesses to the arrays: on traces by line, and anywhere."""

    def __init__(self, path: Path) -> None:
        self.on_traces: dict[int, Counter] = {}
        self.stores: Counter = Counter()
        self.all_on_traces = self.approximate = 0
        reader, arrays, counts = Reader(str(path)), {}, Counter()
        for batch in reader.batches():
            kinds = batch["kind"]
            news = batch[kinds == NEW]
            arrays.update(zip(news["handle"].tolist(), map(array_of, news["size"].tolist())))
            accesses = batch[(kinds == LOAD) | (kinds == STORE) | (kinds == MODIFY)]
            counts.update(zip(*(accesses[name].tolist() for name in ("kind", "handle", "ref"))))
        for (kind, handle, site), n in counts.items():
            self.access(kind, arrays.get(handle), reader.frame(reader.site(site).frame), n)

    def access(self, kind: int, array: int | None, frame: Frame, n: int) -> None:
        on_trace = frame.kind in LUA_KINDS
        self.all_on_traces += n * on_trace
        self.approximate += n * (on_trace and frame.approximate)
        if array is not None:
            self.stores[array] += n * (kind == STORE)
            if on_trace:
                self.on_traces.setdefault(array, Counter())[frame.line] += n


@pytest.mark.parametrize(
    "options",
    [[], ["-O-loop"], ["-O-fuse"], ["-Ohotloop=3", "-Ohotexit=2"]],
    ids=lambda options: " ".join(options) or "default",
)
def test_accesses_of_traces_are_at_their_lines(options: list[str], tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["luajit", *options, script(tmp_path, WORK)])
    assert trace.run.status == 0, trace.run.complaint
    account, wanted = Account(trace.path), marked_lines()
    assert account.on_traces.keys() == wanted.keys() and len(wanted) == 23
    for array, lines in account.on_traces.items():
        assert lines.keys() == {wanted[array]}, (array, wanted[array], lines)
        assert lines.total() >= 200, (array, lines)
    assert account.approximate == 0 and account.all_on_traces > 50_000


def test_the_jit_stores_what_the_interpreter_stores(tmp_path: Path) -> None:
    """Loads may be optimised away; the stores of each round to another place in a table are not."""

    def stores(option: str) -> Counter:
        counts = Account(record(tmp_path / "t.ljt", ["luajit", option, script(tmp_path, WORK)]).path).stores
        return Counter({k: n for k, n in counts.items() if k < 20 and k != 11})  # 11: three rounds to one place

    with_jit, without = stores("-jon"), stores("-joff")
    assert with_jit == without and len(without) == 18 and min(without.values()) > 500
