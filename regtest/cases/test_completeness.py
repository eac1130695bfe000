"""test_completeness - every allocation is in the trace, and nothing else.

Lua is compared with an allocator hook (native/counthook.c) in the same run; with LuaJIT's own allocator, with
the same hook in a native run. C and C++ are compared with DHAT. The sizes of accesses are tested in
test_accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import struct
from collections import Counter
from pathlib import Path

import pytest

from support import (
    APP_C,
    APP_LUA,
    COUNTED_LUA,
    NATIVE,
    SENTINELS,
    SOURCE,
    Trace,
    dhat_totals,
    good,
    numbers,
    record,
    recorder,
    started,
    wait_for,
)

COUNTS = {
    "news": "new",
    "frees": "free",
    "resizes": "resize",
    "new_bytes": "new_bytes",
    "free_bytes": "free_bytes",
    "resize_bytes": "resize_bytes",
    "live_bytes": "live_bytes",
}
LUA_RUNS = {
    "jit, whole, heap events only": ([], "1", ["--trace-mem=no"]),
    "jit, a part, with accesses": ([], "0.4", []),
    "no jit, with accesses": (["-joff"], "0.2", []),
}
HOOK_ENV = {"LUA_CPATH": f"{NATIVE}/?.so"}
LIST_FILES = ["/bin/ls", "-l", SOURCE / "regtest/lua"]
Change = tuple[str, int, int]  # new, resize: the block as it is then; free: as it was


def counted(how: str, report: Path, flags: list[str], scale: str) -> list[object]:
    arithmetic = "0.002" if "-joff" in flags else "1"
    return ["luajit", *flags, COUNTED_LUA, how, report, APP_LUA, scale, arithmetic]


def written_down(path: Path) -> list[Change]:
    """The output of counthook."""
    calls = struct.iter_unpack("=4Q", path.read_bytes())
    return [
        ("free", ptr, old) if not new else ("resize" if ptr else "new", result, new) for ptr, old, new, result in calls
    ]


def of_lua(trace: Trace) -> list[Change]:
    """Changes of Lua's heaps between the sentinels."""
    changes = [(e[0], int(e[2]), int(e[3])) for e in trace.events() if e[6] == "lua"]
    first, last = (int(size) for size in SENTINELS)
    begin = next(i for i, (kind, _, size) in enumerate(changes) if kind == "new" and 0 <= size - first < 64)
    after = changes[begin + 1 :]
    return after[: next(i for i, (kind, _, size) in enumerate(after) if kind == "new" and 0 <= size - last < 64)]


@pytest.mark.parametrize("name", LUA_RUNS)
def test_lua_allocations_are_the_hooks_one_by_one(name: str, tmp_path: Path) -> None:
    flags, scale, options = LUA_RUNS[name]
    report = tmp_path / "counts"
    trace = record(tmp_path / "t.ljt", counted("log", report, flags, scale), *options, env=HOOK_ENV)
    truth, seen = written_down(tmp_path / "counts.calls"), of_lua(trace)
    differ = [(i, t, s) for i, (t, s) in enumerate(zip(truth, seen)) if t != s]
    assert not differ, f"{len(differ)} of {len(truth)}: {differ[:5]}"
    kinds = Counter(kind for kind, *_ in seen)
    assert len(seen) == len(truth) and kinds["new"] > 1000 and kinds["free"] > 1000 and kinds["resize"] > 10


def test_lua_allocations_without_a_hook_equal_a_native_runs(tmp_path: Path) -> None:
    """LuaJIT's own allocator, called by LuaJIT only. Only the interpreter does the same in every run: the
    compiler's decisions depend on addresses."""
    report = tmp_path / "counts"
    native = good(counted("yes", report, ["-joff"], "0.4"), env=HOOK_ENV)
    truth = numbers(report.read_text())
    # "yes" and "off" are of one length, and so are the command lines
    trace = record(tmp_path / "t.ljt", counted("off", report, ["-joff"], "0.4"), "--trace-mem=no", env=HOOK_ENV)
    assert trace.run.out == native.out
    seen = numbers(trace.view("between", *SENTINELS))
    assert {k: seen[v] for k, v in COUNTS.items()} == truth
    assert truth["news"] > 1000 and truth["frees"] > 1000 and truth["resizes"] > 10


def test_lua_live_bytes_at_end_of_script_equal_gc_total(tmp_path: Path) -> None:
    """Blocks from before a hook could be set, as the state itself, count too: the hook begins at gc.total."""
    report = tmp_path / "counts"
    trace = record(tmp_path / "t.ljt", counted("off", report, [], "0.05"), "--trace-mem=no", env=HOOK_ENV)
    seen = numbers(trace.view("between", *SENTINELS))
    assert seen["live_bytes"] == numbers(report.read_text())["live_bytes"]


def equal_to_dhat(trace_counts: dict[str, int], empty: int, dhat: dict[str, int]) -> None:
    """DHAT counts a realloc of a live block as one more block of the new size, which is a Resize here, and a
    block of 0 bytes as one of 1 byte."""
    assert trace_counts["new"] + trace_counts["resize"] == dhat["blocks"]
    assert trace_counts["new_bytes"] + trace_counts["resize_bytes"] + empty == dhat["bytes"]
    assert trace_counts["live_blocks"] == dhat["end_blocks"]
    assert trace_counts["live_bytes"] == dhat["end_bytes"]


@pytest.mark.parametrize(
    "program",
    [[APP_C], [NATIVE / "allforms"], [NATIVE / "conduct", "threads"], LIST_FILES],
    ids=["app.c", "C++", "threads", "ls"],
)
def test_c_totals_equal_dhats(program: list[object], tmp_path: Path) -> None:
    dhat = dhat_totals(tmp_path / "dhat.json", program)
    trace = record(tmp_path / "t.ljt", program)
    assert trace.run.status == 0
    empty = sum(e[0] in ("new", "resize") and e[3] == "0" for e in trace.events())
    equal_to_dhat(trace.counts(), empty, dhat)


def test_the_last_events_are_there_every_time(tmp_path: Path) -> None:
    """The collector and the program run at the same time. The trace must not depend on which of them is
    ahead."""
    seen = set()
    for turn in range(8):
        trace = record(tmp_path / f"{turn}.ljt", LIST_FILES)
        seen.add((trace.ending(), trace.counts()["new"], trace.counts()["free"]))
    assert len(seen) == 1 and seen.pop()[0] == "exit"


def test_every_form_of_allocation_is_told_apart(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "allforms"])
    how_by_size = {(e[3], e[5]) for e in trace.events() if e[0] == "new"}
    for size, how in (
        ("101", "malloc"),
        ("0", "malloc"),
        ("105", "calloc"),
        ("203", "memalign"),
        ("384", "memalign"),
        ("305", "memalign"),
        ("407", "memalign"),
        ("501", "new"),
        ("66", "new[]"),
        ("77", "new[]"),
        ("709", "new[]"),
        ("711", "new"),
        ("713", "new[]"),
        ("7", "malloc"),
        ("22", "malloc"),
        ("551", "malloc"),
        ("119", "malloc"),
        ("123", "malloc"),
        ("4064", "malloc"),
    ):
        assert (size, how) in how_by_size, f"{how}({size})"
    assert all(e[0] != "badfree" for e in trace.events())
    assert "usable 119" in trace.run.text, "not more than was asked for: what lies beyond is not the block"
    assert ("3145728", "9437184") in [(e[4], e[3]) for e in trace.events() if e[0] == "resize"]
    resized = [(e[4], e[3]) for e in trace.events() if e[0] == "resize"]
    assert resized[-3:] == [("40", "4000"), ("4000", "400"), ("400", "400")] or {
        ("40", "4000"),
        ("4000", "400"),
        ("400", "400"),
    } <= set(resized)


def test_heap_choice(tmp_path: Path) -> None:
    """--heap= omits one heap and leaves the other unchanged. The order of strings is random in LuaJIT, and
    the compiler's decisions depend on addresses."""
    program = ["luajit", "-joff", APP_LUA, "0.05", "0.002"]
    both = record(tmp_path / "both.ljt", program, "--trace-mem=no").events()
    for heap, name in (("malloc", "malloc"), ("luajit", "lua")):
        only = record(tmp_path / f"{heap}.ljt", program, "--trace-mem=no", f"--heap={heap}").events()
        assert only
        assert Counter((e[0], e[3]) for e in only) == Counter((e[0], e[3]) for e in both if e[6] == name)


def test_a_trace_that_is_being_written(tmp_path: Path) -> None:
    """All walks, and walks by parts, read what the file contains when it is opened, and report that it is
    still being written."""
    path = tmp_path / "t.ljt"
    # slow after the first events: a command has to read all that is there when it begins
    script = """
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned);"
local t, i = {}, 0
while true do
  i = i + 1
  t[i % 1000] = {i, tostring(i)}
  if i > 40000 and i % 10 == 0 then ffi.C.usleep(1000) end
end
"""
    with started([*recorder(path), "luajit", "-e", script]):
        wait_for(lambda: path.exists() and path.stat().st_size > 4 << 20, "some of the trace is there")
        for command in (
            ["sites"],
            ["check"],
            ["lines", "--where", "size > 10"],
            ["sites", "-j2"],
            ["summary", "--json"],
        ):
            done = good(["steve", *command, path])
            assert "is still being written; it was read up to offset" in done.complaint, command
        assert not json.loads(done.text)["complete"]
