"""test_profilers - memprof, sysprof and flame graphs from recorded programs, with Lua frames, JIT on and off.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path

import pytest

from support import APP_C, NATIVE, SOURCE, Trace, good, record, recorder, steve

PAYLOAD = SOURCE / "regtest/native/payload.lua"
FLAGS = {"jit": [], "interpreter": ["-joff"]}
INTERVAL = 2000
LUA_LINE, C_LINE = 18, 16  # of payload.lua: where each of the two is called
ROUNDS = 40


@pytest.fixture(scope="module", params=FLAGS)
def sampled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Samples of Fibonacci numbers computed alternately in C and in Lua."""
    path = tmp_path_factory.mktemp("sampled") / "t.ljt"
    command = ["luajit", *FLAGS[request.param], PAYLOAD, NATIVE / "payload.so", ROUNDS]
    trace = record(path, command, f"--sample-stacks={INTERVAL}", "--stack-depth=100", "--trace-mem=no")
    assert (trace.run.status, trace.run.out) == (0, good(command).out)
    return trace


def folded(path: Path, *options: str) -> dict[tuple[str, ...], int]:
    rows = json.loads(steve("sysprof", path, "--json", *options).text)
    return {tuple(row["stack"]): row["samples"] for row in rows}


def test_c_and_lua_stand_in_one_stack(sampled: Trace) -> None:
    stacks = folded(sampled.path)
    lua = {s: n for s, n in stacks.items() if any("lua_payload" in f for f in s)}
    c = {s: n for s, n in stacks.items() if "c_payload" in s}
    assert lua and c and not set(lua) & set(c)
    for stack in (*lua, *c):
        main = next(i for i, frame in enumerate(stack) if frame.startswith("main chunk"))
        assert {"main", "lua_pcall"} <= set(stack[:main])
    called = {frame for s in c for frame in s if "payload.lua" in frame}
    assert called == {f"main chunk payload.lua:{C_LINE}"}
    assert all(f"payload.lua:{LUA_LINE}" in " ".join(s) for s in lua if sum("lua_payload" in f for f in s) > 3)
    # one frame as Lua calls it, then those of C, 14 deep at most; a sample need not meet the deepest
    assert all(s[-depth:] == ("c_payload",) * depth for s in c if (depth := s.count("c_payload") - 1))
    assert 12 < max(s.count("c_payload") for s in c) <= 1 + 14
    assert max(sum("lua_payload" in f for f in s) for s in lua) >= 12


def test_weights_are_the_instructions(sampled: Trace) -> None:
    """All of the time except that after the last sample and that of the recorder's own code in the
    program."""
    total = sum(folded(sampled.path).values())
    summary = json.loads(steve("summary", sampled.path, "--json").text)
    assert 0.6 * summary["instructions"] < total <= summary["instructions"]
    assert not any("lua_calibrate" in frame for stack in folded(sampled.path) for frame in stack)


def test_modes(sampled: Trace) -> None:
    states = json.loads(steve("sysprof", sampled.path, "--mode=default", "--json").text)
    assert states == json.loads(steve("sysprof", sampled.path, "--states", "--json").text)
    leaves, whole = folded(sampled.path, "--mode=leaf"), folded(sampled.path, "--mode=callgraph")
    assert sum(states.values()) == sum(leaves.values()) == sum(whole.values())
    assert all(len(stack) <= 1 for stack in leaves) and leaves[("c_payload",)] > INTERVAL
    runs_lua = "LFUNC" if "-joff" in sampled.run.complaint or states["TRACE"] == 0 else "TRACE"
    assert states[runs_lua] > 10 * INTERVAL


def test_states_agree_with_the_exact_ones(sampled: Trace) -> None:
    """The share of traces in the samples agrees with that in the recorded transitions."""
    states = json.loads(steve("sysprof", sampled.path, "--mode=default", "--json").text)
    if "TRACE" in states and states["TRACE"]:
        assert states["TRACE"] > 0.1 * sum(states.values())


def test_sysprof_file_and_back(sampled: Trace, tmp_path: Path) -> None:
    exported = tmp_path / "sysprof.bin"
    steve("export", "--format=sysprof", sampled.path, "-o", exported)
    text = good(["luajit-parse-sysprof", exported]).text
    stacks = [line.rpartition(" ")[0].split(";") for line in text.splitlines()]
    assert any("c_payload" in s and any("payload.lua" in f for f in s) for s in stacks)
    assert any(sum(bool(re.search(r"payload\.lua:\d+$", f)) for f in s) > 5 for s in stacks)


def test_flame_graph_of_a_trace(sampled: Trace, tmp_path: Path) -> None:
    """Samples if there are any; allocations otherwise or on request."""
    svg = tmp_path / "s.svg"
    steve("flame", sampled.path, "-o", svg)
    text = svg.read_text()
    assert "c_payload" in text and "lua_payload" in text and "instructions" in text
    steve("flame", sampled.path, "--metric=alloc_space", "-o", svg)
    assert "instructions" not in svg.read_text() and "bytes" in svg.read_text()


def test_samples_are_the_same_in_every_run(tmp_path: Path) -> None:
    runs = [record(tmp_path / f"{i}.ljt", [APP_C, "200"], f"--sample-stacks={INTERVAL}") for i in range(2)]
    first, second = (steve("sysprof", run.path).text for run in runs)
    assert first == second and "main" in first


def test_accesses_do_not_change_the_samples(tmp_path: Path) -> None:
    options = ("--trace-mem=yes", "--trace-mem=no")
    runs = [
        record(tmp_path / f"{i}.ljt", [APP_C, "200"], f"--sample-stacks={INTERVAL}", option)
        for i, option in enumerate(options)
    ]
    first, second = (folded(run.path) for run in runs)
    assert sum(first.values()) == pytest.approx(sum(second.values()), rel=0.01)


ALLOCATES = """\
local keep = {}
local function make(i)
  return {i, i}
end
for i = 1, 3000 do
  keep[i] = make(i)
end
local function lose()
  for i = 1, 500 do keep[-1] = ("x"):rep(40 + i) end
end
lose()
"""


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_memprof_of_a_recorded_script(flags: list[str], tmp_path: Path) -> None:
    script = tmp_path / "a.lua"
    script.write_text(ALLOCATES)
    path = record(tmp_path / "t.ljt", ["luajit", *flags, script], "--trace-mem=no").path
    counts = {}
    for line in good(["luajit-parse-memprof", path]).text.partition("REALLOCATIONS")[0].splitlines():
        found = re.match(r"@.*a\.lua:\d+, line (\d+): (\d+)\t", line)
        if found:
            counts[int(found[1])] = counts.get(int(found[1]), 0) + int(found[2])
    assert 2970 <= counts[3] <= 3000 and 490 <= counts[9] <= 510
    exported = tmp_path / "memprof.bin"
    steve("export", "--format=memprof", path, "-o", exported)
    again = good(["luajit-parse-memprof", exported]).text
    assert "ALLOCATIONS" in again and "a.lua" in again


def test_memprof_dump_shows_the_universe(tmp_path: Path) -> None:
    script = tmp_path / "a.lua"
    script.write_text(ALLOCATES + "Held = setmetatable({{}}, {})\n")
    path = record(tmp_path / "t.ljt", ["luajit", script], "--trace-mem=no", "--universe=at-exit").path
    text = good(["luajit-parse-memprof", "--dump", path]).text
    assert text.startswith("===== MEMORY SNAPSHOT\n") and text.count("@LJ_TTAB") > 3000
    assert re.search(r"metatable => LJ_TTAB 0x", text)


def test_sampling_can_be_off(tmp_path: Path) -> None:
    path = record(tmp_path / "t.ljt", [APP_C, "200"], "--sample-stacks=0").path
    assert not any(e[0] == "sample" for e in Trace(path, record(tmp_path / "u.ljt", ["true"]).run).events())
    assert recorder(path)[0] == "valgrind"
