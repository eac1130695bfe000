"""test_lua_profilers - require "ljtrace.misc" and ljtrace-native.h: memprof and sysprof for stock LuaJIT.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import difflib
import json
import re
from collections import Counter
from pathlib import Path

import pytest

import luastreams
from steve.profilers.memprof.reader import MemprofFile, recorded
from steve.trace._memtrace import FREE, NEW, RESIZE
from steve.trace._memtrace import Trace as Reader
from support import INTERRUPTED, NATIVE, SOURCE, Done, good, run, steve
from test_luajit_variants import FOLDER, UNKNOWN, VARIANTS

PAYLOAD = SOURCE / "regtest/native/payload.lua"
FLAGS = {"jit": [], "interpreter": ["-joff"]}
ALLOC, FREED, RESIZED = 1, 2, 3
INTERNAL, LUA, C, TRACE = 1, 2, 3, 4


def lua(
    tmp_path: Path,
    script: str,
    *argv: object,
    flags: list[str] | None = None,
    under: list[object] | None = None,
    interpreter: object = "luajit",
) -> Done:
    program = tmp_path / "p.lua"
    program.write_text('local misc = require "ljtrace.misc"\n' + script)
    return run([*(under or []), interpreter, *(flags or []), program, *argv])


def lines(done: Done) -> list[str]:
    assert done.status == 0, done.complaint
    return done.out.decode().splitlines()


# -- memprof --------------------------------------------------------------------------------------------


def events(records: list[tuple]) -> list[tuple]:
    return [r for r in records if r[0] == "event"]


def by_line(records: list[tuple]) -> Counter:
    """Allocations by line of p.lua; those of traces and internal ones by their source."""
    names, counts = {r[1]: r[2] for r in records if r[0] == "lua"}, Counter()
    for _, kind, source, place, _ in events(records):
        if kind == ALLOC:
            is_script = source == LUA and names[place[0]].endswith("p.lua")
            counts[place[1] if is_script else source] += 1
    return counts


def test_memprof_values_and_errors(tmp_path: Path) -> None:
    assert (
        lines(
            lua(
                tmp_path,
                """\
print(misc.memprof.is_running(), misc.memprof.stop())
print(misc.memprof.start("/dev/null/x"))
print(misc.memprof.start(arg[1]), misc.memprof.is_running())
print(misc.memprof.start(arg[1]))
print(misc.memprof.stop(), misc.memprof.is_running())
print(misc.memprof.stop())
print(misc.memprof.start("/dev/full"))
print(misc.memprof.start(arg[1], -1))
print(pcall(misc.memprof.start))
print((pcall(misc.memprof.start, {})))
""",
                tmp_path / "m.bin",
            )
        )
        == [
            "false\tnil\tprofiler is not running\t22",
            "nil\t/dev/null/x: Not a directory\t20",
            "true\ttrue",
            "nil\tprofiler is running already\t22",
            "true\tfalse",
            "nil\tprofiler is not running\t22",
            "nil\t/dev/full: No space left on device\t28",
            "nil\tprofiler misuse: the duration is not a number of seconds\t22",
            "false\tbad argument #1 to '?' (string expected, got no value)",
            "false",
        ]
    )
    assert len(events(luastreams.memprof(tmp_path / "m.bin"))) < 20


KNOWN = """\
local t, co = {}
assert(misc.memprof.start(arg[1]))
for i = 1, 300 do
  t[i] = {i}
end
local s = ("x"):rep(5000)
co = coroutine.wrap(function()
  for i = 1, 40 do
    coroutine.yield({i, i})
  end
end)
for i = 1, 40 do co() end
t = nil
collectgarbage()
assert(misc.memprof.stop())
"""


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_memprof_lines(flags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    lines(lua(tmp_path, KNOWN, path, flags=flags))
    records = luastreams.memprof(path)
    counts = by_line(records)
    assert counts[10] == 40 and counts[7] >= 1  # the coroutine's, and the string's
    assert counts[5] + counts[TRACE] >= 300 and (counts[TRACE] > 200 or flags)
    assert flags == [] or 300 <= counts[5] <= 302
    freed = [e for e in events(records) if e[1] == FREED]
    assert len(freed) >= 300 and all(e[2] == INTERNAL for e in freed)
    assert luastreams.encode(records) == path.read_bytes()


def test_memprof_and_steve(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    lines(lua(tmp_path, KNOWN, path))
    names = {ALLOC: "alloc", FREED: "free", RESIZED: "realloc"}
    expected = [(names[kind], *numbers) for _, kind, _, _, numbers in events(luastreams.memprof(path))]
    file = MemprofFile(path.read_bytes(), str(path))
    assert [(e[0], *e[2:]) for e in recorded(file)] == expected and file.problem is None
    text = good(["luajit-parse-memprof", path]).text
    assert re.search(r"TRACE \[\d+\] started at @.*p\.lua:4: \d+\t", text)
    assert re.search(r"@.*p\.lua:8, line 10: 40\t", text)


COUNTED = """\
local count, keep = collectgarbage, {}
local function used() return count("count") * 1024 end
assert(misc.memprof.start(arg[1]))
local before = used()
for i = 1, 20000 do keep[i % 700] = {i, tostring(i)} end
for i = 1, 50 do keep[i] = coroutine.create(function() end) end
keep = nil
collectgarbage() collectgarbage()
local after = used()
assert(misc.memprof.stop())
print(after - before)
"""


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_memprof_bytes_are_those_that_lua_counts(flags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    difference = float(lines(lua(tmp_path, COUNTED, path, flags=flags))[0])
    live = 0
    for _, kind, _, _, numbers in events(luastreams.memprof(path)):
        live += numbers[1] if kind == ALLOC else -numbers[1] if kind == FREED else numbers[3] - numbers[1]
    assert live == pytest.approx(difference, abs=2048)


def sizes(path: Path) -> list[tuple]:
    """The events of LuaJIT's heaps in a trace: kind, address, size of what there is after it."""
    found = []
    for batch in Reader(str(path)).batches():
        for e in batch[batch["heap"] != 0]:
            kind = {NEW: ALLOC, FREE: FREED, RESIZE: RESIZED}.get(int(e["kind"]))
            if kind:
                found.append((kind, int(e["addr"]), int(e["size"]) if kind != FREED else 0))
    return found


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_memprof_has_the_events_of_the_native_recorder(flags: list[str], tmp_path: Path) -> None:
    path, trace = tmp_path / "m.bin", tmp_path / "t.ljt"
    lines(lua(tmp_path, KNOWN, path, flags=flags, under=["ljtrace", "run", f"--out={trace}"]))
    seen = []
    for _, kind, _, _, numbers in events(luastreams.memprof(path)):
        seen.append(
            (kind, numbers[2], numbers[3])
            if kind == RESIZED
            else (kind, numbers[0], numbers[1] if kind == ALLOC else 0)
        )
    known = sizes(trace)
    starts = [i for i in range(len(known)) if known[i : i + 20] == seen[:20]]
    assert starts and any(known[i : i + len(seen)] == seen for i in starts)


def test_memprof_ends_with_the_state(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    lines(lua(tmp_path, "assert(misc.memprof.start(arg[1])) for i = 1, 100 do local t = {i} end", path))
    assert len(events(luastreams.memprof(path))) > 50


def test_memprof_on_a_full_disk(tmp_path: Path) -> None:
    """The disk is full after the start: the program goes on, and stop() says so."""
    script = "assert(misc.memprof.start(arg[1]))\nfor i = 1, 1e5 do local t = {i, {}} end\nprint(misc.memprof.stop())"
    path = tmp_path / "m.bin"
    program = tmp_path / "p.lua"
    program.write_text('local misc = require "ljtrace.misc"\njit.off()\n' + script)
    done = run(["sh", "-c", 'trap "" XFSZ; ulimit -f 200; exec luajit "$@"', "sh", program, path])
    assert lines(done) == ["nil\tmemprof: File too large\t27"]
    assert path.stat().st_size > 64 << 10


def test_memprof_for_a_time(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    done = lua(
        tmp_path,
        """\
assert(misc.memprof.start(arg[1], 1))
local start = os.time()
while misc.memprof.is_running() and os.time() - start < 20 do
  keep = {{}}
  for _ = 1, 10000 do end  -- few events, because reading them takes much longer than this
end
print(os.time() - start < 10, misc.memprof.stop())
""",
        path,
    )
    assert lines(done) == ["true\tnil\tprofiler is not running\t22"]
    assert len(events(luastreams.memprof(path))) > 1000


def test_memprof_for_a_part_of_a_second(tmp_path: Path) -> None:
    """Nothing is recorded after the end, nor is a loop without allocations needed to notice it."""
    path = tmp_path / "m.bin"
    done = lua(
        tmp_path,
        """\
assert(misc.memprof.start(arg[1], 0.05))
local keep = {{}}
local start = os.time()
while misc.memprof.is_running() and os.time() - start < 20 do end
keep[2] = {{}}
print(os.time() - start < 10, misc.memprof.is_running())
print(misc.memprof.start(arg[1]), misc.memprof.stop())
""",
        path,
        flags=["-joff"],
    )
    assert lines(done) == ["true\tfalse", "true\ttrue"]


RECORDED = """local table_new = require "table.new"
jit.opt.start(3, "hotloop=10") jit.flush()
collectgarbage() collectgarbage()
assert(misc.memprof.start(arg[1]))
local t = table_new(20, 0)
for i = 1, 20 do
  t[i] = "memprof-" .. i
end
t = nil
collectgarbage()
assert(misc.memprof.stop())
"""


def test_memprof_while_the_compiler_records(tmp_path: Path) -> None:
    """The program runs on while its trace is recorded. The line has what it allocates until the trace is compiled: with
    hotloop=10 that is in the tenth or eleventh round."""
    path = tmp_path / "m.bin"
    lines(lua(tmp_path, RECORDED, path))
    counts = by_line(luastreams.memprof(path))
    assert counts[8] + counts[TRACE] == 20 and 9 <= counts[8] <= 11, counts
    assert counts[6] == 2


def test_memprof_has_no_blocks_of_its_own(tmp_path: Path) -> None:
    """Two strings and a table are all that is allocated and freed; the second profile of a state is like the first."""
    script = (
        "local garbage = collectgarbage\n"
        "local function once(path)\n"
        "  garbage() garbage()\n"
        "  assert(misc.memprof.start(path))\n"
        "  local t = {'a' .. path, path .. 'b'}\n"
        "  t = nil\n"
        "  garbage()\n"
        "  assert(misc.memprof.stop())\n"
        "end\n"
        "once(arg[1]) once(arg[2])\n"
    )
    paths = [tmp_path / "1.bin", tmp_path / "2.bin"]
    lines(lua(tmp_path, script, *paths, flags=["-joff"]))
    for path in paths:
        found = events(luastreams.memprof(path))
        assert by_line(luastreams.memprof(path)) == {6: 3}
        assert sum(e[1] == FREED for e in found) == 3, found


@pytest.mark.parametrize("profiler", ["memprof", "sysprof", "both"])
def test_scripts_do_the_same(profiler: str, tmp_path: Path) -> None:
    """All scripts, one after the other in one process; sysprof is interrupted ten times as often as by its timer."""
    folder = SOURCE / "regtest/lua"
    scripts = sorted(x.name for x in folder.glob("*.lua") if x.name != "run.lua")
    start = "require 'ljtrace.misc'"
    if profiler != "sysprof":
        start += f" assert(require 'ljtrace.misc'.memprof.start('{tmp_path}/m.bin'))"
    if profiler != "memprof":
        start += " " + INTERRUPTED.replace("SIGNAL", "27") if profiler == "sysprof" else ""
        start += f" assert(require 'ljtrace.misc'.sysprof.start{{mode='C', interval=1, path='{tmp_path}/s.bin'}})"
    plain = run(["luajit", "run.lua", *scripts], cwd=folder)
    profiled = run(["luajit", "-e", start, "run.lua", *scripts], cwd=folder)
    changed = list(difflib.unified_diff(*(x.out.decode().splitlines() for x in (plain, profiled)), n=1, lineterm=""))
    assert (profiled.status, changed) == (plain.status, [])
    if profiler != "sysprof":
        assert len(events(luastreams.memprof(tmp_path / "m.bin"))) > 10000
    if profiler != "memprof":
        luastreams.sysprof(tmp_path / "s.bin")


# -- sysprof --------------------------------------------------------------------------------------------


def test_sysprof_values_and_errors(tmp_path: Path) -> None:
    assert (
        lines(
            lua(
                tmp_path,
                """\
local start = misc.sysprof.start
print(misc.sysprof.stop())
print(start{mode = "C", path = "/dev/null/x"})
print(start{})
print(start{mode = "X"})
print(start{mode = "D", interval = 0})
print(start{mode = "D", interval = -1})
print(start{mode = "D", interval = "x"})
print(start{mode = "C", path = {}})
print(start{mode = "C", path = "/dev/full"})
print(start{mode = "C", path = arg[1]})
print(start{mode = "C", path = arg[1]})
print(misc.sysprof.stop())
print(misc.sysprof.stop())
print(start{mode = "D", path = "/dev/null/x"}, misc.sysprof.stop())
print(pcall(start, 1))
""",
                tmp_path / "s.bin",
            )
        )
        == [
            "nil\tprofiler is not running\t22",
            "nil\t/dev/null/x: Not a directory\t20",
            "nil\tprofiler misuse: mode must be D, L or C\t22",
            "nil\tprofiler misuse: mode must be D, L or C\t22",
            *["nil\tprofiler misuse: interval must be a number of milliseconds, 1 or more\t22"] * 3,
            "nil\tprofiler misuse: path must be a string\t22",
            "nil\t/dev/full: No space left on device\t28",
            "true",
            "nil\tprofiler is running already\t22",
            "true",
            "nil\tprofiler is not running\t22",
            "true\ttrue",
            "false\tbad argument #1 to '?' (table expected, got number)",
        ]
    )
    table, records = luastreams.sysprof(tmp_path / "s.bin")
    assert {"lua_pcall", "lua_call", "malloc"} <= {s[2] for s in table} and len(records) < 5


BURN = """\
assert(misc.sysprof.start{mode = arg[1], interval = 1, path = arg[2]})
local ok, why = pcall(function() arg = {[0] = arg[0], arg[3], arg[4]}; assert(loadfile(arg[0]))(arg[1], arg[2]) end)
assert(misc.sysprof.stop())
local r = misc.sysprof.report()
io.stderr:write(r.samples)
for state, n in pairs(r.vmstate) do io.stderr:write(" ", state, "=", n) end
"""


def burn(tmp_path: Path, mode: str, flags: list[str], rounds: int) -> tuple[Done, dict[str, int], int]:
    """Profile payload.lua. Returns the counters of report() and the number of samples as well."""
    script = BURN.replace("arg[0], arg[3]", f"'{PAYLOAD}', arg[3]").replace(
        "loadfile(arg[0])", f"loadfile('{PAYLOAD}')"
    )
    done = lua(tmp_path, script, mode, tmp_path / "s.bin", NATIVE / "payload.so", rounds, flags=flags)
    assert done.status == 0, done.complaint
    total, *states = done.err.decode().split()
    return done, {x.split("=")[0]: int(x.split("=")[1]) for x in states}, int(total)


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_sysprof_modes(flags: list[str], tmp_path: Path) -> None:
    rounds = 15000 if flags else 60000
    expected = run(["luajit", *flags, PAYLOAD, NATIVE / "payload.so", rounds]).out
    names = ["INTERP", "LFUNC", "FFUNC", "CFUNC", "GC", "EXIT", "RECORD", "OPT", "ASM", "TRACE"]
    for mode in "DLC":
        done, states, total = burn(tmp_path, mode, flags, rounds)
        assert done.out == expected and sum(states.values()) == total > 20 and set(states) == set(names)
        assert states["LFUNC" if flags else "TRACE"] > total / 4
        if mode == "D":
            assert not (tmp_path / "s.bin").exists()
            continue
        _, records = luastreams.sysprof(tmp_path / "s.bin")
        samples = [r for r in records if r[0] == "sample"]
        assert Counter(names[s[1]] for s in samples) == Counter({k: n for k, n in states.items() if n})
        depths = [max(len(s[2]), len(s[3])) for s in samples if s[1] != 9]  # a trace has no stack
        assert not flags or (max(depths) == 1 if mode == "L" else max(depths) > 5)
        text = good(["luajit-parse-sysprof", tmp_path / "s.bin"]).text
        assert sum(int(x.rpartition(" ")[2]) for x in text.splitlines()) == total


def test_sysprof_stacks_of_c_and_lua(tmp_path: Path) -> None:
    """All of the recursion in C and in Lua, joined by readers at lua_pcall."""
    burn(tmp_path, "C", ["-joff"], 15000)
    rows = json.loads(steve("sysprof", tmp_path / "s.bin", "--json").text)
    stacks = {tuple(row["stack"]): row["samples"] for row in rows}
    total = sum(stacks.values())
    inner_lua = {s: n for s, n in stacks.items() if sum(f.endswith("payload.lua:6") for f in s) > 3}
    inner_c = {s: n for s, n in stacks.items() if s.count("c_payload") > 3}
    assert sum(inner_lua.values()) > total / 50 and sum(inner_c.values()) > total / 50
    for stack in (*inner_lua, *inner_c):
        names = [i for i, f in enumerate(stack) if f in ("main", "lua_pcall")]
        assert names and max(i for i, f in enumerate(stack) if f.startswith("@")) > names[0]


REPLACED = """\
local ffi, library, other, path = require "ffi", arg[1], arg[2], arg[3]
ffi.cdef "unsigned long work(unsigned long n)"
local loaded = ffi.load(library)
if other ~= "" then os.rename(other, library) end
assert(misc.sysprof.start{mode = "C", interval = 1, path = path})
while misc.sysprof.report().samples < 20 and os.clock() < 60 do loaded.work(1e6) end
assert(misc.sysprof.stop())
"""
WORK = """\
static __attribute__((noinline)) unsigned long NAME(unsigned long n)
{
    volatile unsigned long sum = 0;
    while (n--)
        sum += n;
    return sum;
}
unsigned long work(unsigned long n) { return NAME(n) + 1; }
"""


@pytest.mark.parametrize("replaced", [False, True])
def test_sysprof_of_a_library_that_was_replaced(replaced: bool, tmp_path: Path) -> None:
    """There are no names of the functions of the file that is there now."""
    (tmp_path / "work.c").write_text(WORK)
    for name in ("mine", "other"):
        good(["gcc", "-O1", "-shared", "-fPIC", f"-DNAME={name}", "-o", tmp_path / f"{name}.so", tmp_path / "work.c"])
    given = [tmp_path / "mine.so", tmp_path / "other.so" if replaced else "", tmp_path / "s.bin"]
    assert lua(tmp_path, REPLACED, *given, flags=["-joff"]).status == 0
    rows = json.loads(steve("sysprof", tmp_path / "s.bin", "--json").text)
    names = {name for row in rows for name in row["stack"]}
    assert ("[mine.so]" if replaced else "mine") in names
    assert not names & ({"other", "mine", "work"} if replaced else {"other", "[mine.so]"})


# Use the CPU until there are samples. On a virtual machine that rarely runs, CPU time can pass without a timer's tick.
SAMPLED = """\
while misc.sysprof.report().samples < 20 and os.clock() < 60 do
  for i = 1, 1e5 do keep[#keep % 1000 + 1] = {i} end
end
"""


def test_sysprof_ends_with_the_state(tmp_path: Path) -> None:
    script = "assert(misc.sysprof.start{mode='C', interval=1, path=arg[1]})\nlocal keep = {}\n" + SAMPLED
    lines(lua(tmp_path, script, tmp_path / "s.bin"))
    assert len(luastreams.sysprof(tmp_path / "s.bin")[1]) > 10


FORKS = f"""\
local ffi = require "ffi"
ffi.cdef "int fork(void); int waitpid(int, void *, int);"
assert(misc.memprof.start(arg[1]))
assert(misc.sysprof.start{{mode = "C", interval = 1, path = arg[2]}})
local child, keep = ffi.C.fork(), {{}}
if child == 0 then
  for i = 1, 1e6 do keep[i % 1000 + 1] = {{i}} end
else
{SAMPLED}
end
if child ~= 0 then ffi.C.waitpid(child, nil, 0) end
"""


def test_a_forked_child_leaves_the_files_alone(tmp_path: Path) -> None:
    lines(lua(tmp_path, FORKS, tmp_path / "m.bin", tmp_path / "s.bin"))
    assert len(events(luastreams.memprof(tmp_path / "m.bin"))) > 1000
    assert len(luastreams.sysprof(tmp_path / "s.bin")[1]) > 10


# -- the functions for C --------------------------------------------------------------------------------

MEMPROF = """\
not running: 1, stopped 0
no options: 1, stopped 0
no writer: 1, stopped 0
no on_stop: 1, stopped 0
started: 0, stopped 0
is running: 1, stopped 0
started twice: 1, stopped 0
another state: 1, stopped 0
stopped by another state: 1, stopped 0
stopped by a coroutine: 0, stopped 1
is running: 0, stopped 1
stopped twice: 1, stopped 1
writer fails at once: 3, stopped 1
writer fails later: started: 0, stopped 1
writer fails later: stopped: 3, stopped 2
on_stop fails: started: 0, stopped 2
on_stop fails: stopped: 3, stopped 3
started: 0, stopped 3
closed: is running: 0, stopped 4
"""

SYSPROF = """\
not running: 2, stopped 0
no callbacks: 1, stopped 0
writer: 0, stopped 0
on_stop: 0, stopped 0
no backtracer: 1, stopped 0
backtracer: 0, stopped 0
no options: 1, stopped 0
wrong mode: 1, stopped 0
no interval: 1, stopped 0
no buffer: 1, stopped 0
started: 0, stopped 0
started twice: 2, stopped 0
another state: 2, stopped 0
stopped by another state: 1, stopped 0
a writer while it runs: 1, stopped 0
stopped: 0, stopped 1
report: 0
samples: many, sum: equal
stopped twice: 2, stopped 1
counts: started: 0, stopped 1
counts: stopped: 0, stopped 1
report: 0
samples: many, sum: equal
writer fails at once: 4, stopped 1
on_stop fails: started: 0, stopped 1
on_stop fails: stopped: 4, stopped 2
closed: started: 0, stopped 2
closed: 2, stopped 3
"""


@pytest.mark.parametrize("profiler, statuses", [("memprof", MEMPROF), ("sysprof", SYSPROF)])
def test_statuses_of_the_functions_for_c(profiler: str, statuses: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    assert good([NATIVE / "profiled", profiler, path]).text == statuses
    if profiler == "memprof":
        assert len(events(luastreams.memprof(path))) > 10000
    else:
        assert sum(r[0] == "sample" for r in luastreams.sysprof(path)[1]) > 10


def test_a_backtracer_of_the_program(tmp_path: Path) -> None:
    """In mode LEAF it is stopped after one frame."""
    path = tmp_path / "x.bin"
    good([NATIVE / "profiled", "leaf", path])
    samples = [r for r in luastreams.sysprof(path)[1] if r[0] == "sample"]
    assert len(samples) > 10 and all(s[3] == [0x1000] and len(s[2]) <= 1 for s in samples)


def test_the_header_alone(tmp_path: Path) -> None:
    for compiler, name in (("gcc", "x.c"), ("g++", "x.cc")):
        source = tmp_path / name
        source.write_text('#include "ljtrace/ljtrace-native.h"\nint main(void) { return luaM_memprof_isrunning(); }\n')
        good(
            [
                compiler,
                "-std=c11" if compiler == "gcc" else "-std=c++11",
                "-Wall",
                "-Werror",
                "-pedantic",
                "-c",
                f"-I{SOURCE}",
                source,
                "-o",
                tmp_path / "x.o",
            ]
        )


# -- ljtrace run --lua-api ------------------------------------------------------------------------------


def test_global_misc_on_request(tmp_path: Path) -> None:
    script = tmp_path / "p.lua"
    script.write_text(
        'print(misc ~= nil, package.preload["ljtrace.misc"] ~= nil)\n'
        'if misc then print(require("ljtrace.misc").memprof.stop())\n'
        f'print(misc.memprof.start("{tmp_path}/m.bin"), misc.memprof.stop()) end\n'
    )
    out = f"--out={tmp_path}/t.ljt"
    assert lines(run(["ljtrace", "run", out, "luajit", script])) == ["false\tfalse"]
    assert lines(run(["ljtrace", "run", out, "--lua-api", "luajit", script], env={"LUA_CPATH": ""})) == [
        "true\ttrue",
        "nil\tprofiler is not running\t22",
        "true\ttrue",
    ]
    luastreams.memprof(tmp_path / "m.bin")


# -- other builds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in UNKNOWN])
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_other_builds(name: str, flags: list[str], tmp_path: Path) -> None:
    interpreter = FOLDER / name / "luajit"
    if not interpreter.exists():
        pytest.skip(f"LuaJIT `{name}` is not in {FOLDER}: `make luajit-variants` builds it")
    if name == "nojit" and not flags:
        pytest.skip("has no JIT compiler")
    path = tmp_path / "m.bin"
    lines(lua(tmp_path, KNOWN, path, flags=flags, interpreter=interpreter))
    counts = by_line(luastreams.memprof(path))
    assert counts[10] == 40 and counts[5] + counts[TRACE] >= 300
