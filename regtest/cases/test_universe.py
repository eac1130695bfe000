"""test_universe - snapshots of all Lua objects, as recorded: sums, names, holders, growth, JIT on and off.

The expected values are the script's own collectgarbage("count") and what it is known to hold.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import FREE, NEW, RESIZE, TYPE, TYPE_NAMES
from steve.trace._memtrace import Trace as Reader
from support import SECONDS, SOURCE, Trace, monitor, record, recorder, run, started, steve, wait_for

SCRIPT = SOURCE / "regtest/native/universe.lua"
FLAGS = {"jit": [], "interpreter": ["-joff"], "eager jit": ["-Ohotloop=2", "-Ohotexit=2"]}
NAMES = ("before", "after", "sweeping", "last")
OBJECTS = ("str", "upval", "thread", "proto", "func", "trace", "cdata", "tab", "udata")


def universe(path: Path, *options: str) -> dict:
    return json.loads(steve("universe", path, "--json", "--top=1000", *options).text)


def rows(result: dict, kind: str) -> dict[str, int]:
    """Live objects of a type by name."""
    return {row["name"]: row["objects"] for row in result["types"] if row["type"] == kind}


@pytest.fixture(scope="module", params=FLAGS)
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("universe")
    done = record(folder / "t.ljt", ["luajit", *FLAGS[request.param], SCRIPT], "--trace-mem=no", "--universe=at-exit")
    assert done.run.status == 0 and "ljtrace: snapshot" not in done.run.complaint, done.run.complaint
    return done


def test_bytes_equal_what_the_state_counts(trace: Trace) -> None:
    counts = [tuple(map(int, line.split())) for line in trace.run.text.splitlines()]
    for (count, afterwards), name in zip(counts, NAMES, strict=True):
        found = universe(trace.path, "--snapshot", name)
        assert count <= found["gc_total"] <= afterwards <= count + 1024
        assert found["unaccounted"] == 0 and found["internal_bytes"] > 6000
        assert found["object_bytes"] == sum(r["bytes"] + r["dead_bytes"] for r in found["types"])
    last = universe(trace.path)
    assert last["snapshot"] == "at exit" and last["unaccounted"] == 0


def blocks_before(path: Path, event_numbers: list[int]) -> list[dict[int, str]]:
    """Types of the live blocks of Lua heaps, by address, at each of these numbers of events."""
    live: dict[int, str] = {}
    found, passed = [], 0
    for batch in Reader(str(path)).batches():
        for kind, addr, old, ref, heap in batch[["kind", "addr", "old_addr", "ref", "heap"]].tolist():
            while len(found) < len(event_numbers) and passed == event_numbers[len(found)]:
                found.append(dict(live))
            if kind == NEW and heap:
                live[addr] = "unknown"
            elif kind == FREE:
                live.pop(addr, None)
            elif kind == RESIZE and old in live:
                live[addr] = live.pop(old)
            elif kind == TYPE:
                live[addr] = TYPE_NAMES[ref]
            passed += 1
    return found


def test_types_are_those_of_the_walk(trace: Trace) -> None:
    """The types recorded with blocks agree with a walk over all objects: each object's block has its type,
    and no other block has the type of an object."""
    reader = Reader(str(trace.path), snapshots=True)
    reader.skim()
    snapshots = reader.snapshots()
    for snapshot, live in zip(snapshots, blocks_before(trace.path, [s.event for s in snapshots]), strict=True):
        objects = {int(o["addr"]): TYPE_NAMES[o["type"]] for o in snapshot.objects}
        here = {addr: kind for addr, kind in objects.items() if addr in live}
        assert len(objects) - len(here) <= sum(kind == "cdata" for kind in objects.values())  # aligned ones lie within
        wrong = Counter((kind, live[addr]) for addr, kind in here.items() if live[addr] != kind)
        assert wrong.pop(("thread", "global")) == 1  # the main thread begins the global state's block
        assert wrong.total() <= 1 and all(estimate == "unknown" for _, estimate in wrong), wrong  # made last
        more = {hex(addr): kind for addr, kind in live.items() if kind in OBJECTS and addr not in objects}
        assert not more


def test_objects_have_their_names(trace: Trace) -> None:
    found = universe(trace.path, "--snapshot", "before")
    cdata = rows(found, "cdata")
    assert (cdata["struct node"], cdata["point"], cdata["int [?]"], cdata["double [3]"]) == (40,) * 4
    assert rows(found, "udata")["my.proxy"] == 1
    assert rows(found, "thread") == {"": 20, "main": 1}
    assert rows(found, "tab")["_G"] == rows(found, "tab")["registry"] == 1
    assert any(re.fullmatch(r".*universe\.lua:\d+", name) for name in rows(found, "proto"))


def test_what_is_held_has_a_path(trace: Trace) -> None:
    found = universe(trace.path, "--snapshot", "after")
    paths = {row["path"] for row in found["holders"]}
    assert any(re.search(r"\.Leaky tab \S+ \.cache tab \S+$", path) for path in paths)
    everything = json.loads(steve("universe", trace.path, "--snapshot=after", "--json", "--top=100000").text)
    unreached = [r for r in everything["holders"] if r["path"] == "(not reached)" and r["object"].startswith("tab")]
    assert unreached == []  # after a full collection all tables can be reached, by upvalues and stacks, too
    held = [r["path"] for r in everything["holders"]]
    assert sum(bool(re.search(r"\.hidden upval \S+ <upvalue> tab \S+$", path)) for path in held) == 1
    local = r"\[\d+\] thread \S+ local held \(\S+universe\.lua:31\) tab \S+$"
    assert sum(bool(re.search(local, path)) for path in held) == 20


def test_difference_names_what_grew_and_its_holder(trace: Trace) -> None:
    found = universe(trace.path, "--snapshot", "after", "--diff", "before")
    tables = next(row for row in found["growth"] if row["type"] == "tab")
    assert tables["more_objects"] == 500
    news = [row["path"] for row in found["holders"] if row["object"].startswith("tab")]
    assert sum(bool(re.search(r"\.Leaky tab \S+ \.cache tab \S+ \.more\d+ tab", path)) for path in news) == 500


def test_what_waits_for_the_sweep_is_told_apart(trace: Trace) -> None:
    """During a collection, some steps have dead tables; after a full one there are none."""
    assert all(row["dead_objects"] == 0 for row in universe(trace.path, "--snapshot", "after")["types"])
    assert universe(trace.path, "--snapshot", "sweeping")["unaccounted"] == 0


DEAD = """\
local t = require "ljtrace"
collectgarbage() collectgarbage("stop")
local keep = {} for i = 1, 20000 do keep[i] = {} end
for i = 1, 20000 do keep[i] = nil end
for i = 1, 400 do collectgarbage("step", 2) collectgarbage("stop") t.snapshot("s" .. i) end
"""


def test_dead_objects_are_seen_during_the_sweep(tmp_path: Path) -> None:
    script = tmp_path / "dead.lua"
    script.write_text(DEAD.replace("400", "60"))
    path = record(tmp_path / "t.ljt", ["luajit", script], "--trace-mem=no").path
    seen = []
    for i in range(1, 61, 3):
        found = universe(path, "--snapshot", f"s{i}")
        assert found["unaccounted"] == 0
        seen.append(sum(row["dead_objects"] for row in found["types"] if row["type"] == "tab"))
    assert max(seen) > 1000 and min(seen) == 0


LEFT = """\
Keep = {}
for i = 1, 50 do Keep[i] = {name = "n" .. i, i} end
collectgarbage() collectgarbage("stop")
local function waste() for i = 1, 40 do local t = {i, x = i} end end
waste()
os.exit(0)
"""


def test_leaks_of_lua_are_told_apart(tmp_path: Path) -> None:
    """By a snapshot at exit; together they are all of its objects."""
    (tmp_path / "left.lua").write_text(LEFT)
    trace = record(tmp_path / "t.ljt", ["luajit", "-joff", tmp_path / "left.lua"], "--universe=at-exit").path
    found = json.loads(steve("leaks", "--json", trace).text)
    wasted = [row for row in found if row["site"].startswith("waste (left.lua:4)")]
    assert len(wasted) == 1 and wasted[0]["unreachable"] > 40 * 64 and wasted[0]["reachable"] == 0
    assert all(row["unreachable"] == 0 for row in found if "left.lua:2" in row["site"])
    assert sum(row["reachable"] + row["unreachable"] for row in found) == universe(trace)["object_bytes"]


def test_more_than_a_million_objects(tmp_path: Path) -> None:
    script = tmp_path / "many.lua"
    script.write_text(
        "Keep = {} for i = 1, 1100000 do Keep[i] = {} end collectgarbage()\n"
        "List = false for i = 1, 100000 do List = {List} end"
    )
    trace = record(tmp_path / "t.ljt", ["luajit", script], "--trace-mem=no", "--universe=at-exit")
    found = json.loads(steve("universe", trace.path, "--json", "--top=5").text)
    assert found["unaccounted"] == 0 and found["objects"] > 1_200_000
    assert any(row["retained"] > 64 * 1_100_000 and ".Keep tab" in row["path"] for row in found["holders"])
    assert any(row["retained"] >= 100_000 * 64 and ".List tab" in row["path"] for row in found["holders"])


def test_every_state_of_a_program_has_its_snapshot(tmp_path: Path) -> None:
    if shutil.which("nvim") is None:
        pytest.skip("nvim is not installed (package neovim)")
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    trace = record(
        tmp_path / "t.ljt", ["nvim", "--headless", "-u", "NONE", "+q"], "--trace-mem=no", "--universe=at-exit", env=env
    )
    found = universe(trace.path)
    assert found["unaccounted"] == 0 and found["objects"] > 1000


def test_no_snapshot_unless_asked_for(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["luajit", "-e", "x = {}"], "--trace-mem=no")
    done = run(["steve", "universe", trace.path])
    assert done.status == 1 and "--universe=at-exit" in done.complaint
    assert "--universe=at-exit" in run(["steve", "leaks", trace.path]).complaint


def test_what_a_closed_state_had_is_alive_at_its_mark(tmp_path: Path) -> None:
    script = tmp_path / "kept.lua"
    script.write_text("local kept = {}\nfor i = 1, 500 do\n  kept[i] = {i}\nend\n")
    trace = record(tmp_path / "t.ljt", ["luajit", script], "--trace-mem=no", "--universe=at-exit")
    at_end = json.loads(steve("leaks", trace.path, "--by=line", "--json").text)
    assert not any("kept.lua" in row["site"] for row in at_end)
    found = json.loads(steve("leaks", trace.path, "--by=line", "--json", "--to=at exit").text)
    (row,) = (row for row in found if "kept.lua:3" in row["site"])
    assert row["blocks"] >= 500 and 0 < row["unreachable"] <= row["bytes"]  # the chunk has returned
    for question, option in ((["leaks", "--to=at exit"], "--to end"), (["universe"], "--snapshot end")):
        said = steve(*question, trace.path).complaint
        assert "only local variables of the main script" in said and option in said


def test_without_lua_a_snapshot_is_refused_aloud(tmp_path: Path) -> None:
    ask = "local t = require 'ljtrace' t.snapshot('a') t.snapshot('b') print('on')"
    trace = record(tmp_path / "t.ljt", ["luajit", "-e", ask], "--lua=no")
    assert (trace.run.status, trace.run.text) == (0, "on\n")
    assert trace.run.complaint.count("with --lua=no, snapshots have no objects") == 1
    assert run(["steve", "universe", trace.path]).status == 1


def test_options_are_checked(tmp_path: Path) -> None:
    for option in ("--universe=always", "--sample-stacks=10", "--sample-stacks=x"):
        command = [*recorder(tmp_path / "t.ljt", option), "true"]
        done = run(command)
        assert done.status == 1 and option.split("=", maxsplit=1)[0] in done.complaint


@pytest.mark.parametrize("what", ["cycle", "wild", "huge"])
def test_broken_memory_ends_the_walk_not_the_program(what: str, tmp_path: Path) -> None:
    """A table is damaged during the snapshot and then repaired: the tool does not crash, and reports it."""
    script = tmp_path / "broken.lua"
    damage = {
        "cycle": "w[0] = ffi.cast('uint64_t', p)",
        "wild": "w[0] = 0x123456789000",
        "huge": "d[12] = 0x7fffffff d[13] = 0x7fffffff",
    }[what]
    script.write_text(
        f"""\
local ffi, t = require "ffi", require "ljtrace"
local victim = {{1}}
local p = tonumber(("%p"):format(victim):sub(3), 16)
local w, d = ffi.cast("uint64_t *", p), ffi.cast("uint32_t *", p)
collectgarbage() collectgarbage("stop")
local w0, d12, d13 = w[0], d[12], d[13]
{damage}
t.snapshot("broken")
w[0], d[12], d[13] = w0, d12, d13
t.snapshot("whole")
print("alive")
"""
    )
    trace = record(tmp_path / "t.ljt", ["luajit", "-joff", script], "--trace-mem=no")
    assert (trace.run.status, trace.run.text) == (0, "alive\n")
    assert "snapshot 'broken'" in trace.run.complaint and "snapshot 'whole'" not in trace.run.complaint
    assert universe(trace.path, "--snapshot", "whole")["unaccounted"] == 0


def test_the_monitor_takes_snapshots(tmp_path: Path) -> None:
    """While the script waits in its main thread; the file can be read meanwhile."""
    path, stop, script = tmp_path / "t.ljt", tmp_path / "stop", tmp_path / "wait.lua"
    script.write_text(
        "Keep = {} for i = 1, 300 do Keep[i] = {i} end local ffi = require 'ffi'\n"
        "ffi.cdef 'int usleep(unsigned);'\n"
        "while not io.open(arg[1]) do ffi.C.usleep(50000) end"
    )
    with started([*recorder(path, "--trace-mem=no"), "luajit", script, stop]) as traced:
        wait_for(lambda: live_blocks(traced.pid) >= 1000, "the script comes to its loop")
        assert "live blocks" in monitor(traced.pid, "snapshot by hand")
        stop.touch()
        traced.wait(timeout=SECONDS)
    found = universe(path, "--snapshot", "by hand")
    assert found["objects"] > 600
    assert any(re.search(r"\.Keep tab \S+$", row["path"]) for row in found["holders"])


SHOTS = 12
CHURN = """\
local keep, n = {}, 0
while not io.open(arg[1]) do
  for i = 1, 5000 do
    n = n + 1
    keep[n % 3000] = {i, tostring(n)}
  end
end
"""


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_snapshots_at_any_moment_add_up(flags: list[str], tmp_path: Path) -> None:
    """Also for a program that does little but allocate objects: one in ten moments is during an
    allocation."""
    path, stop, script = tmp_path / "t.ljt", tmp_path / "stop", tmp_path / "churn.lua"
    script.write_text(CHURN)
    with started([*recorder(path, "--trace-mem=no"), "luajit", *flags, script, stop]) as traced:
        wait_for(lambda: live_blocks(traced.pid) >= 3000, "the script comes to its loop")
        for i in range(SHOTS):
            monitor(traced.pid, f"snapshot s{i}")
            before = events(traced.pid)
            wait_for(lambda before=before: events(traced.pid) > before + 100, "the script goes on")
        stop.touch()
        traced.wait(timeout=SECONDS)
    reader = Reader(str(path), snapshots=True)
    reader.skim()
    snapshots = reader.snapshots()
    assert [s.name for s in snapshots] == [f"s{i}" for i in range(SHOTS)]
    assert [int(s.objects["size"].sum()) + s.internal - s.total for s in snapshots] == [0] * SHOTS


def events(pid: int) -> int:
    found = re.search(r"(\d+) events", monitor(pid, "status"))
    return int(found[1]) if found else 0


def live_blocks(pid: int) -> int:
    found = re.search(r"(\d+) live blocks", monitor(pid, "status"))
    return int(found[1]) if found else 0
