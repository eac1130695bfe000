"""test_native_lua - LuaJIT's heaps at native speed: the same lines as under Valgrind, and programs remain as they are.

The programs run without a collection and without sinking, so that both recordings see the same allocations. Blocks of
the compiler itself are not compared: when it compiles depends on addresses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import shutil
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import FREE, NEW, RESIZE, TYPE, TYPE_NAMES, Frame
from steve.trace._memtrace import Trace as Reader
from support import SOURCE, Trace, record, run, steve
from test_lua_lines import EXPECTED, KNOWN, roots_beside_main, script, typed_lines
from test_luajit_variants import FOLDER, UNKNOWN, VARIANTS

BENCH = {
    "trees.lua": "7",
    "closures.lua": "300",
    "strings.lua": "2",
    "objects.lua": "4",
    "parsing.lua": "10",
    "coroutines.lua": "300",
}
SCRIPTS = ("jit_allocs.lua", "jit_strings.lua", "json.lua", "matrix.lua", "queens.lua", "coroutines_deep.lua")
PROGRAMS = {
    **{
        name: ["luajit", "-O-sink", "-e", "collectgarbage('stop')", SOURCE / "regtest/bench" / name, work]
        for name, work in BENCH.items()
    },
    **{name: ["luajit", "-O-sink", "-e", "collectgarbage('stop')", SOURCE / "regtest/lua" / name] for name in SCRIPTS},
}
COMPILERS = ("jit", "trace", "buffer", "other", "unknown", "strtab")


def natively(path: Path, argv: list[object], cwd: Path | None = None) -> Trace:
    done = run(["ljtrace", "run", f"--out={path}", *argv], cwd=cwd)
    assert path.exists(), done.complaint
    return Trace(path, done).check()


def line(frames: list[Frame]) -> str:
    """FILE:LINE of the innermost frame that has one."""
    return next((f"{f.file}:{f.line}" for f in frames if f.kind in ("lua", "lua-inlined", "vm") and f.line), "")


def by_line(path: Path) -> tuple[Counter, Counter]:
    """Allocations and bytes of Lua heaps by line, without the compiler's own."""
    reader, sizes, stacks, types = Reader(str(path)), {}, {}, {}
    for batch in reader.batches():
        for event in batch[(batch["kind"] == NEW) | (batch["kind"] == TYPE)]:
            handle = int(event["handle"])
            if event["kind"] == TYPE:
                types[handle] = TYPE_NAMES[int(event["ref"])]
            elif event["heap"]:
                sizes[handle], stacks[handle] = int(event["size"]), int(event["ref"])
    lines = {stack: line(reader.stack_frames(stack)) for stack in set(stacks.values())}
    counts, sums = Counter(), Counter()
    for handle, size in sizes.items():
        if types.get(handle, "unknown") not in COMPILERS:
            counts[lines[stacks[handle]]] += 1
            sums[lines[stacks[handle]]] += size
    return counts, sums


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_equal_those_under_valgrind(name: str, tmp_path: Path) -> None:
    """Blocks of the compiler's callers in C have no line, so places without one are not compared. The order of `pairs` is
    random natively, and with it which strings are made anew."""
    under_valgrind = record(tmp_path / "v.ljt", PROGRAMS[name], "--trace-mem=no")
    trace = natively(tmp_path / "n.ljt", PROGRAMS[name])
    assert (trace.run.out, trace.run.status) == (under_valgrind.run.out, under_valgrind.run.status)
    counts, sums = by_line(trace.path)
    wanted_counts, wanted_sums = by_line(under_valgrind.path)
    assert wanted_counts.total() > 500
    for got, wanted, least in ((counts, wanted_counts, 3), (sums, wanted_sums, 128)):
        del got[""], wanted[""]
        wrong = {x: (got[x], wanted[x]) for x in got | wanted if abs(got[x] - wanted[x]) > max(least, wanted[x] / 100)}
        assert not wrong
        assert got.total() == pytest.approx(wanted.total(), rel=0.002)


def test_sites_of_two_runs_have_the_same_names(tmp_path: Path) -> None:
    """Functions without a name, as those of a stripped luajit, are known by their addresses in the file: those in memory
    differ from run to run."""
    argv = ["luajit", "-joff", SOURCE / "regtest/lua/closures.lua"]
    for name in ("a.ljt", "b.ljt"):
        natively(tmp_path / name, argv)
    sites = [
        {row["site"]: row["blocks"] for row in json.loads(steve("sites", tmp_path / name, "--json").text)}
        for name in ("a.ljt", "b.ljt")
    ]
    assert sites[0] == sites[1] and len(sites[0]) > 20
    assert any(re.search(r"0x[0-9a-f]+ \(luajit\)", site) for site in sites[0])
    assert not any(re.search(r"0x[0-9a-f]{8,} \(luajit\)", site) for site in sites[0])


@pytest.mark.parametrize("name", ["jit_recursion", "json"])
def test_stacks_at_trace_exits_begin_at_main(name: str, tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", ["luajit", SOURCE / f"regtest/lua/{name}.lua"])
    assert not roots_beside_main(trace.path)


def test_stacks_join_lua_and_c(tmp_path: Path) -> None:
    program = tmp_path / "p.lua"
    program.write_text(
        "local function made(i) return {i} end\n"
        "local keep = {}\n"
        "for i = 1, 200 do keep[i % 3 + 1] = made(i) end\n"
        "('x'):gsub('x', function() keep[9] = {1, 2, 3, 4} end)\n"
    )
    reader = Reader(str(natively(tmp_path / "t.ljt", ["luajit", program]).path))
    found = Counter()
    for batch in reader.batches():
        for event in batch[batch["kind"] == NEW]:
            frames = reader.stack_frames(int(event["ref"]))
            lua = tuple(f.line for f in frames if f.kind in ("lua", "lua-inlined"))
            if lua and frames[-1].function in ("_start", "__libc_start_main", "main"):
                found[lua] += 1
    assert found[1, 3] == 200 and found[4, 4] >= 1


PROTECTED = """
local kept = {}
local function made(i) local t = { i } return t end
for i = 1, 20000 do local ok, t = pcall(made, i) kept[i % 10] = t end
"""


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "valgrind"])
def test_a_function_has_not_the_name_of_what_calls_it(is_native: bool, tmp_path: Path) -> None:
    """pcall calls it, also where both are inlined in machine code."""
    path = tmp_path / "protected.lua"
    path.write_text(PROTECTED)
    argv = ["luajit", "-Ohotloop=3", path]
    trace = natively(tmp_path / "t.ljt", argv) if is_native else record(tmp_path / "t.ljt", argv, "--trace-mem=no")
    reader = Reader(str(trace.path))
    reader.skim()
    frames = [reader.frame(number) for number in range(1, reader.counts()["frames"] + 1)]
    of_made = [frame for frame in frames if frame and frame.defined == 3 and frame.line == 3]
    assert any(frame.trace for frame in of_made), "it is compiled"
    assert {frame.function for frame in of_made} == {f"{path}:3"}


def test_scripts_do_the_same(tmp_path: Path) -> None:
    """All scripts, one after the other in one process."""
    folder = SOURCE / "regtest/lua"
    argv = ["luajit", "run.lua", *sorted(x.name for x in folder.glob("*.lua") if x.name != "run.lua")]
    trace, plain = natively(tmp_path / "t.ljt", argv, cwd=folder), run(argv, cwd=folder)
    assert (trace.run.status, trace.run.out) == (plain.status, plain.out)


SEEN = """\
collectgarbage() collectgarbage()
print(collectgarbage('count') * 1024)
local keys = {}
for k in pairs(debug.getregistry()) do keys[#keys + 1] = tostring(type(k) == 'string' and k or type(k)) end
table.sort(keys)
print(#debug.getregistry(), table.concat(keys, ' '))
for i = 1, 9 do
    local p = newproxy(true)
    getmetatable(p).__gc = function() io.write(i, ' ') end
end
local keep = {}
for i = 1, 3000 do keep[i % 7 + 1] = {i, 'x' .. i} end
collectgarbage() collectgarbage()
print(collectgarbage('count') * 1024)
"""


@pytest.mark.parametrize("option", ["-joff", "-jon"])
def test_lua_sees_the_same_heap(option: str, tmp_path: Path) -> None:
    """The recorder adds no object to a state. With the compiler on, its machine code is at other addresses in each run,
    so the sizes that depend on those are not compared."""
    program = tmp_path / "p.lua"
    program.write_text(SEEN)
    argv = ["luajit", option, program]
    plain, trace = run(argv), natively(tmp_path / "t.ljt", argv)
    assert len(plain.out.split()) > 14
    assert trace.run.out == plain.out


def test_a_program_may_observe_its_compiler(tmp_path: Path) -> None:
    """A function of the program's own at LuaJIT's event "record" takes nothing away from the lines on traces."""
    program = tmp_path / "p.lua"
    program.write_text(
        "local n = 0\n"
        "local function count() n = n + 1 end\n"
        "jit.attach(count, 'record')\n"
        "local keep = {}\n"
        "for i = 1, 2000 do\n"
        "    keep[i] = {i}\n"
        "    keep[-i] = 'x' .. i\n"
        "end\n"
        "print(n > 0)\n"
    )
    trace = natively(tmp_path / "t.ljt", ["luajit", "-O-sink", program])
    counts, _ = by_line(trace.path)
    assert trace.run.out == b"true\n"
    assert counts[f"{program}:6"] >= 2000 and counts[f"{program}:7"] >= 2000, counts


COUNTED = """\
local keep = {}
for i = 1, 3000 do keep[i] = {i, tostring(i)} end
for i = 1, 3000, 2 do keep[i] = nil end
collectgarbage() collectgarbage()
print(collectgarbage("count") * 1024)
os.exit(0)
"""


def test_live_bytes_equal_what_lua_counts(tmp_path: Path) -> None:
    program = tmp_path / "p.lua"
    program.write_text(COUNTED)
    trace = natively(tmp_path / "t.ljt", ["luajit", program])
    live: dict[int, int] = {}
    for batch in Reader(str(trace.path)).batches():
        for event in batch[batch["heap"] != 0]:
            if event["kind"] in (NEW, RESIZE):
                live[int(event["handle"])] = int(event["size"])
            elif event["kind"] == FREE:
                live.pop(int(event["handle"]), None)
    assert sum(live.values()) == pytest.approx(float(trace.run.out), abs=2048)


SHARED = """\
import ctypes
for i in range(2):
    lua = ctypes.CDLL("libluajit-5.1.so.2")
    lua.luaL_newstate.restype = ctypes.c_void_p
    states = [ctypes.c_void_p(lua.luaL_newstate()) for _ in range(3)]
    for n, state in enumerate(states):
        lua.luaL_openlibs(state)
        assert not lua.luaL_loadstring(state, b"local t = {}\\nfor i = 1, 500 do\\n  t[i] = {i}\\nend")
        assert not lua.lua_pcall(state, 0, 0, 0)
    for state in states:
        lua.lua_close(state)
"""


def test_several_states_of_a_library_loaded_later(tmp_path: Path) -> None:
    path = natively(tmp_path / "t.ljt", [sys.executable, "-c", SHARED]).path
    counts = Counter({place.split(":")[-1]: n for place, n in by_line(path)[0].items()})
    assert counts["3"] >= 2 * 3 * 500


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in UNKNOWN])
@pytest.mark.parametrize("option", ["-jon", "-joff"])
def test_lines_of_other_builds(name: str, option: str, tmp_path: Path) -> None:
    interpreter = FOLDER / name / "luajit"
    if not interpreter.exists():
        pytest.skip(f"LuaJIT `{name}` is not in {FOLDER}: `make luajit-variants` builds it")
    if name == "nojit" and option == "-jon":
        pytest.skip("has no JIT compiler")
    trace = natively(tmp_path / "t.ljt", [interpreter, option, script(tmp_path, KNOWN)])
    assert trace.run.status == 0
    counts = typed_lines(trace.path)
    assert {key: counts[key] for key in EXPECTED} == EXPECTED


SYSBENCH = """\
function event()
  local t = {}
  for i = 1, 50 do
    t[i] = {i}
  end
end
"""


def without_numbers(text: str) -> list[str]:
    """The lines of sysbench's report without its measurements, which differ in each run."""
    return [re.sub(r"[\d.]+", "0", line).replace(" ", "") for line in text.splitlines()]


@pytest.mark.parametrize("option", ["-jon", "-joff"])
def test_sysbench(option: str, tmp_path: Path) -> None:
    """A state for each thread; the report, the status and the number of events are those without the recorder."""
    if not shutil.which("sysbench"):
        pytest.skip("sysbench is not installed: apt-get install sysbench")
    program = script(tmp_path, ("jit.off()\n" if option == "-joff" else "") + SYSBENCH)
    argv = ["sysbench", program, "--events=400", "--time=0", "--threads=3", "--thread-init-timeout=600", "run"]
    trace, plain = natively(tmp_path / "t.ljt", argv), run(argv)
    assert trace.run.status == plain.status == 0
    assert without_numbers(trace.run.text) == without_numbers(plain.text)
    assert re.search(r"total number of events: +400$", trace.run.text, re.MULTILINE)
    line = 5 if option == "-joff" else 4
    counts = Counter({place.split(":")[-1]: n for place, n in by_line(trace.path)[0].items() if ".lua:" in place})
    assert 400 * 50 <= counts[str(line)] <= 400 * 52


def test_finding_the_layout_makes_few_system_calls(tmp_path: Path) -> None:
    """Whether a page can be read costs a system call: each is asked for once, not for each word of it."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    log = tmp_path / "calls"
    program = ["ljtrace", "run", f"--out={tmp_path}/n.ljt", "luajit", "-e", "local t = {}"]
    run(["strace", "-f", "-e", "trace=rt_sigprocmask", "-o", log, *program])
    asked = re.findall(r"rt_sigprocmask\(0xffffffff", log.read_text())
    assert 0 < len(asked) < 2000
