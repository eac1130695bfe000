"""test_lua_heaps - each Lua state is a heap of its own, and its last block has a type, by both recorders.

The bytes that a state holds are what lua_gc says (native/luastates.c). In the native recorder they contain what the
recorder has attached to the state.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import BADFREE, FREE, NEW, RESIZE, TYPE, TYPE_NAMES
from support import NATIVE, Trace, good, record, run, settled, steve, wait_for
from test_lua_lines import events

ENDS = ("exit", "_exit", "exec", "fork", "kill")


def recorded(recorder: str, path: Path, *arguments: str) -> Trace:
    argv = [NATIVE / "luastates", *arguments]
    if recorder == "valgrind":
        return record(path, argv, "--trace-mem=no", execs=True)
    done = run(["ljtrace", "run", f"--out={path}", *argv])
    settled(path)
    return Trace(path, done).check()


def live_blocks(path: Path) -> dict[int, tuple[int, int, str]]:
    """(heap, size, type) of each block of Lua that lives at the end, by handle."""
    live, types = {}, {}
    for _, event in events(path, (NEW, FREE, RESIZE, TYPE)):
        handle = int(event["handle"])
        if event["kind"] == TYPE:
            types[handle] = TYPE_NAMES[int(event["ref"])]
        elif event["kind"] == FREE:
            live.pop(handle, None)
        elif event["heap"]:
            live[handle] = (int(event["heap"]), int(event["size"]))
    return {handle: (*block, types.get(handle, "unknown")) for handle, block in live.items()}


def held(path: Path) -> list[int]:
    """The bytes of each heap of Lua that has blocks at the end."""
    sums: Counter = Counter()
    for heap, size, _ in live_blocks(path).values():
        sums[heap] += size
    return [sums[heap] for heap in sorted(sums)]


def files(folder: Path, wanted: int) -> list[Path]:
    """The files of the recording, complete: that of a forked child may be the last to be so."""
    wait_for(lambda: len(list(folder.glob("t*.ljt"))) >= wanted, f"{wanted} files")
    paths = sorted(folder.glob("t*.ljt"))
    assert len(paths) == wanted
    for path in paths:
        settled(path)
    return paths


def lua_states(path: Path) -> int:
    return json.loads(steve("summary", path, "--json").text)["states"]


@pytest.mark.parametrize("recorder", ["valgrind", "native"])
@pytest.mark.parametrize("what,states", [("shared", 3), ("null", 3), ("again", 10)])
def test_states_with_one_allocator_are_told_apart(what: str, states: int, recorder: str, tmp_path: Path) -> None:
    trace = recorded(recorder, tmp_path / "t.ljt", what, "exit")
    truth = [int(line) for line in trace.run.text.split()]
    assert len(truth) == (1 if what == "again" else states)
    assert held(trace.path) == truth
    assert lua_states(trace.path) == states
    assert not list(events(trace.path, (BADFREE,)))
    if what != "again":
        assert len(set(truth)) == states


@pytest.mark.parametrize("recorder", ["valgrind", "native"])
@pytest.mark.parametrize("end", ENDS)
def test_the_last_block_of_each_state_has_a_type(end: str, recorder: str, tmp_path: Path) -> None:
    trace = recorded(recorder, tmp_path / "t.ljt", "shared", end)
    paths = files(tmp_path, 2 if end == "fork" else 1)
    for path in paths:
        blocks = live_blocks(path)
        last = {heap: kind for heap, _, kind in (blocks[handle] for handle in sorted(blocks))}
        assert list(last.values()) == ["tab"] * 3
        assert "unknown" not in {kind for _, _, kind in blocks.values()}
    assert trace.run.text.count("\n") == 3


@pytest.mark.parametrize("recorder", ["valgrind", "native"])
def test_of_an_arena_the_pieces_count(recorder: str, tmp_path: Path) -> None:
    """Not the arena, of which most is never used, not even before its first piece is made. Where the list of such blocks
    cannot be read ahead, the arena is the peak, which is said."""
    path = recorded(recorder, tmp_path / "t.ljt", "arena", "exit").path
    found = json.loads(steve("summary", path, "--json").text)
    assert "peak_reserve" not in found and found["bytes"]["allocated"] > 8 << 20
    assert 0 < found["bytes"]["live_at_end"] <= found["bytes"]["peak_live"] < 1 << 20
    rows = json.loads(steve("sites", path, "--json").text)
    at_peak = [row["live_bytes_at_peak"] for row in rows]
    assert sum(at_peak) == found["bytes"]["peak_live"]
    of_lua = sum(row["live_bytes_at_peak"] for row in rows if row["site"].startswith("from_arena"))
    assert of_lua > 0.9 * sum(at_peak)
    assert "divided" not in steve("sites", path).text
    good(["zstd", "-q", path, "-o", tmp_path / "t.ljt.zst"])
    whole = json.loads(steve("summary", tmp_path / "t.ljt.zst", "--json").text)
    assert whole["peak_reserve"] == 8 << 20 <= whole["bytes"]["peak_live"]
    assert "peak not divided yet" in steve("summary", tmp_path / "t.ljt.zst").text
    assert "(the peak has 8.0 MiB that another allocator" in steve("sites", tmp_path / "t.ljt.zst").text
    shared = recorded(recorder, tmp_path / "s.ljt", "shared", "exit").path
    assert "container" not in {line.split()[0] for line in steve("dump", shared).text.splitlines()}
