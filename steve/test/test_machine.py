"""The events of a Lua virtual machine, states and types, against simple references on random runs.

A run is a list of commands of mktrace, with two Lua heaps and the C heap, three threads, and states entered
at any time.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Tuple

from hypothesis import given
from hypothesis import strategies as st

from conftest import examples, make_trace
from steve import cli
from steve.trace._memtrace import TYPE_NAMES, VM_NAMES

RUNS = examples(25)
HEAPS = "heap 0x1000 lua\nheap 0x2000 lua\n"
TRACE = VM_NAMES.index("TRACE")
GRID = 64
CHUNK = 5  # events of a chunk
Command = Tuple  # command, numbers


@st.composite
def runs(draw: st.DrawFn) -> list[Command]:
    """A strategy for lists of commands. Each heap has a grid of its own for its blocks, and every access is in
    a live block."""
    live: dict[int, int] = {}  # size by address
    run: list[Command] = []
    time = 0
    for _ in range(draw(st.integers(0, 80))):
        word = draw(st.sampled_from(["N", "N", "F", "R", "L", "S", "M", "type", "state", "thread", "time"]))
        addr = 0x10000 + GRID * draw(st.integers(0, 11))
        heap, size = addr // GRID % 3, draw(st.integers(8, GRID))
        if word == "N" and addr not in live:
            run.append(("N", addr, size, 0, heap))
            live[addr] = size
        elif word == "F" and live.pop(addr, 0):
            run.append(("F", addr, 0, heap))
        elif word == "R" and addr in live:
            run.append(("R", addr, addr, size, 0, heap))
            live[addr] = size
        elif word in "LSM" and addr in live:
            run.append((word, addr + draw(st.integers(0, live[addr] - 8)), draw(st.sampled_from((1, 2, 4, 8)))))
        elif word == "type" and heap:
            run.append(("type", addr, heap, draw(st.integers(1, len(TYPE_NAMES) - 1))))
        elif word == "state":
            run.append(
                ("state", draw(st.integers(1, 2)), draw(st.integers(0, len(VM_NAMES) - 1)), draw(st.integers(1, 3)))
            )
        elif word == "thread":
            run.append(("thread", draw(st.integers(1, 3))))
        elif word == "time":
            time += draw(st.integers(1, 1000))
            run.append(("time", time))
    return run


def listed(run: list[Command], command: str) -> list[dict]:
    """The output of steve for the run."""
    script = HEAPS + "".join(" ".join(map(str, words)) + "\n" for words in run) + "end exit\n"
    with tempfile.TemporaryDirectory() as folder:
        path, out = make_trace(Path(folder) / "t.ljt", script, CHUNK), Path(folder) / "out"
        assert cli.guarded(command, [str(path), "--json", "-q", "-o", str(out)]) == 0
        return json.loads(out.read_text())


def states(run: list[Command]) -> dict[tuple, Counter]:
    """The expected sums by (state, trace, heap). The time between two events belongs to the thread of the
    first. Accesses and types have the time of the last other event, or that of the start of their chunk if the
    previous chunk was full."""
    rows: dict[tuple, Counter] = defaultdict(Counter)
    now: dict[int, tuple] = {}
    sizes: dict[int, int] = {}
    none = ("none", 0, 0)
    thread, clock, since, began, events = 1, 0, 0, 0, 0
    last = None  # thread of the last event
    for word, *numbers in run:
        if word == "thread":
            thread = numbers[0]
        elif word == "time":
            clock = numbers[0]
        elif word != "type" or numbers[0] in sizes:
            moment = max(since, began) if word in ("L", "S", "M", "type") else clock
            rows[now.get(thread if last is None else last, none)]["instructions"] += moment - since
            last, since = thread, moment
            happen(rows, now, sizes, thread, word, numbers)
            events += 1
            began = began if events % CHUNK else clock
    rows[now.get(1 if last is None else last, none)]["instructions"] += clock - since
    return rows


def happen(
    rows: dict[tuple, Counter], now: dict[int, tuple], sizes: dict[int, int], thread: int, word: str, numbers: list[int]
) -> None:
    """Count one event in the state of its thread."""
    if word == "state":
        heap, vm, trace = numbers
        now[thread] = (VM_NAMES[vm], trace if vm == TRACE else 0, heap)
        rows[now[thread]]["entries"] += 1
        return
    row = rows[now.get(thread, ("none", 0, 0))]
    if word == "N":
        row.update(allocs=1, alloc_bytes=numbers[1])
        sizes[numbers[0]] = numbers[1]
    elif word == "F":
        row.update(frees=1, free_bytes=sizes.pop(numbers[0]))
    elif word == "R":
        row.update(alloc_bytes=numbers[2], free_bytes=sizes[numbers[0]])
        sizes[numbers[0]] = numbers[2]
    elif word != "type":
        row.update(
            loads=word == "L",
            stores=word == "S",
            modifies=word == "M",
            bytes_read=numbers[1] * (word in "LM"),
            bytes_written=numbers[1] * (word in "SM"),
        )


@RUNS
@given(runs())
def test_states(run: list[Command]) -> None:
    found = {(row["state"], row["trace"], row["heap"]): row for row in listed(run, "states")}
    heaps = {heap for _, _, heap in found if heap}
    expected = states(run)
    expected[("none", 0, 0)].update()
    assert len(heaps) <= 2 and set(found) == set(expected)
    for key, counts in expected.items():
        for name in (
            "entries",
            "instructions",
            "allocs",
            "alloc_bytes",
            "frees",
            "free_bytes",
            "loads",
            "stores",
            "modifies",
            "bytes_read",
            "bytes_written",
        ):
            assert found[key][name] == counts[name], (key, name)


def types(run: list[Command]) -> dict[str, Counter]:
    """The expected sums by type. A block has the type that was reported last."""
    done: list[Counter] = []
    live: dict[int, Counter] = {}
    for word, *numbers in run:
        if word == "N":
            live[numbers[0]] = Counter(blocks=1, bytes=numbers[1], size=numbers[1], type=0)
            done.append(live[numbers[0]])
        elif word == "F":
            live.pop(numbers[0]).update(frees=1)
        elif word == "R":
            live[numbers[0]].update(resizes=1, bytes=numbers[2])
            live[numbers[0]]["size"] = numbers[2]
        elif word == "type" and numbers[0] in live:
            live[numbers[0]]["type"] = numbers[2]
        elif word in ("L", "S", "M"):
            live[numbers[0] // GRID * GRID].update(
                loads=word == "L",
                stores=word == "S",
                modifies=word == "M",
                bytes_read=numbers[1] * (word in "LM"),
                bytes_written=numbers[1] * (word in "SM"),
            )
    rows: dict[str, Counter] = defaultdict(Counter)
    for block in done:
        end = {} if block["frees"] else {"live_blocks_at_end": 1, "live_bytes_at_end": block["size"]}
        rows[TYPE_NAMES[block["type"]]].update(Counter(block) + Counter(end))
    return rows


@RUNS
@given(runs())
def test_types(run: list[Command]) -> None:
    found = {row["type"]: row for row in listed(run, "types")}
    expected = types(run)
    assert set(found) == set(expected)
    for name, counts in expected.items():
        for key in (
            "blocks",
            "bytes",
            "resizes",
            "frees",
            "live_bytes_at_end",
            "live_blocks_at_end",
            "loads",
            "stores",
            "modifies",
            "bytes_read",
            "bytes_written",
        ):
            assert found[name][key] == counts[key], (name, key)
