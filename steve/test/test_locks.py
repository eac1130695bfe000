"""Locks from call stacks, and statistics of locks for compacting allocators, against slow references.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_lives as reference
import warm
from conftest import Steve
from reference_accesses import History
from reference_lives import Run
from test_analyses import RUNS, runs, trace_of

FUNCTIONS = [{word.split("@")[0] for word in stack.split()} for stack in reference.STACKS]
AT = [place.split("@")[0] for place in reference.PLACES]
Timed = list[tuple[int, str]]


def stack_locks(run: Run, unlock_before_free: bool) -> Timed:
    """The lines that --stack must write, each with the number of the operation that it is or precedes."""
    pins: dict[int, set[tuple[int, str]]] = {}
    names: dict[int, int] = {}
    lines: Timed = []
    now = made = 0
    for h in History(run).log:
        handle, event, thread = h.block.handle, h.step.event, h.step.thread
        if h.letter in "LSM":
            if not pins[handle]:
                lines.append((now, f"{names[handle]} L 0 0"))
            pins[handle].add((thread, AT[h.step.place]))
        else:
            on_stack = FUNCTIONS[h.step.stack]
            gone = {b: {pin for pin in pins[b] if pin[0] == thread and pin[1] not in on_stack} for b in pins}
            lines += [
                (now, f"{names[b]} U 0 0")
                for b in sorted(pins, key=lambda b: names[b])
                if pins[b] and pins[b] == gone[b]
            ]
            pins = {b: pins[b] - gone[b] for b in pins}
        if h.letter in "FR":
            if pins.pop(handle) and unlock_before_free:
                lines.append((now, f"{names[handle]} U 0 0"))
            lines.append((now, f"{names[handle]} F {h.old_addr if h.letter == 'R' else event.addr} 0"))
            now += h.letter == "R"
        if h.letter in "NR":
            names[handle], pins[handle] = made, set()
            made += 1
            lines.append((now, f"{names[handle]} N {event.addr} {h.size}"))
        now += 1
    return lines + [(now, "end")]


@RUNS
@given(runs(), st.booleans())
def test_stack(run: Run, unlock: bool) -> None:
    expected = stack_locks(run, unlock)
    with tempfile.TemporaryDirectory() as folder:
        trace_of(folder, run)
        done = warm.steve(
            ["lockops", "--stack", "-o", "-", f"{folder}/t.ljt"] + ["--unlock-before-free"] * unlock, Path(folder)
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines() == [line for _, line in expected[:-1]]


def statistics(lines: Timed) -> dict:
    """The result that --stats must have, computed from lines with times."""
    sizes: dict[str, int] = {}
    locked: dict[str, int] = {}
    holds: list[int] = []
    ever: set[tuple[str, int]] = set()
    sums = dict.fromkeys(("live_blocks", "live_bytes", "locked_blocks", "locked_bytes"), 0)
    made = died_locked = unlocks = before = 0
    states: dict[int, tuple] = {}
    for at, line in lines:
        state = (len(sizes), sum(sizes.values()), len(locked), sum(sizes[b] for b in locked))
        for name, value in zip(sums, state):
            sums[name] += value * (at - before)
        states.update({time: state for time in range(before, at)})
        before = at
        if line == "end":
            break
        block, op, _, size = line.split()
        if op == "N":
            sizes[block] = int(size)
            made += 1
        elif op == "L" and block not in locked:
            locked[block] = at
            ever.add((block, made if block not in sizes else 0))
        elif op in "UF" and block in locked:
            died_locked += op == "F"
            unlocks += op == "U"
            holds.append(at - locked.pop(block))
        if op == "F":
            del sizes[block]
    holds += [before - since for since in locked.values()]
    return {
        "blocks": made,
        "blocks_locked": len(ever),
        "locks": len(holds),
        "unlocks": unlocks,
        "died_locked": died_locked,
        "operations": before,
        "held": sum(holds),
        "longest": max(holds, default=0),
        "sums": sums,
        "states": states,
        "holds": holds,
    }


def same(found: dict, expected: dict) -> None:
    for key in ("blocks", "blocks_locked", "locks", "unlocks", "died_locked", "operations", "held", "longest"):
        assert found[key] == expected[key], key
    for key, value in expected["sums"].items():
        mean = found[f"mean_{key}"]
        assert mean is None or abs(mean - value / expected["operations"]) < 0.006
    assert [row["operation"] for row in found["time"]] == list(range(expected["operations"]))
    for row in found["time"]:
        keys = ("live_blocks", "live_bytes", "locked_blocks", "locked_bytes")
        assert tuple(row[key] for key in keys) == expected["states"][row["operation"]]
        assert row["movable_bytes"] == row["live_bytes"] - row["locked_bytes"]
    for row in found["holds"]:
        assert row["locks"] == sum(row["from"] <= held <= row["to"] for held in expected["holds"])


def json_of(folder: str, *arguments: str) -> dict:
    result = subprocess.run(
        ["steve", "lockops", "--stats", "--json", *arguments], cwd=folder, capture_output=True, check=True
    )
    return json.loads(result.stdout)


@RUNS
@given(runs())
def test_statistics(run: Run) -> None:
    expected = stack_locks(run, False)
    lines = [line for _, line in expected[:-1]]
    with tempfile.TemporaryDirectory() as folder:
        trace_of(folder, run)
        (Path(folder) / "x-lockops").write_text("".join(line + "\n" for line in lines))
        found, alone = (json_of(folder, *words) for words in (("--stack", "t.ljt"), ("x-lockops",)))
    same(found, statistics(expected))
    same(alone, statistics([*enumerate(lines), (len(lines), "end")]))


@pytest.mark.parametrize("way", ("full", "simple"))
def test_statistics_of_other_ways_count_their_locks(steve: Steve, trace, way: str) -> None:
    trace("N 4096 64\nN 8192 32\n" + "L 4096 8\n" * 3 + "L 8192 8\n" * 30 + "F 4096\nF 8192\nend exit\n")
    found = json.loads(steve("lockops", f"--{way}", "--stats", "--json", "--text", "t.ljt", "-o", "out").out)
    text = (steve.folder / "out").read_text()
    assert (found["locks"], found["unlocks"]) == (text.count(" L "), text.count(" U "))
    assert found["operations"] == 37 and found["blocks"] == 2 and len(found["time"]) == 37
    # full: block 0 is locked at its first access, operation 2; its life counter is then 3, and 0 after
    # the sixth operation on others
    assert found["held"] == {"full": 8 + 31, "simple": 0}[way]


def test_many_samples_are_thinned_out(steve: Steve, trace) -> None:
    trace("N 4096 64\n" + "L 4096 8\n" * 5000 + "end exit\n")
    found = json.loads(steve("lockops", "--stack", "--stats", "--json", "t.ljt").out)
    operations = [row["operation"] for row in found["time"]]
    assert operations == list(range(0, 5001, 32)) and found["longest"] == 5000
    assert "Over time" in steve("lockops", "--stack", "--stats", "t.ljt").out
    assert steve("lockops", "--stack", "--stats", "--csv", "t.ljt").out.count("\n") == len(operations) + 1
    assert not list(steve.folder.glob("*lockops*"))


@pytest.mark.parametrize(
    "arguments, message",
    (
        ((), "--simple, --full or --stack"),
        (("--stack", "--gain", "2"), "--stack has no --gain"),
        (("--full", "--json"), "output formats of --stats"),
        (("--stats", "-o", "x"), "writes no lockops file"),
    ),
)
def test_wrong_usage(steve: Steve, trace, arguments: tuple, message: str) -> None:
    trace("N 4096 64\nend exit\n")
    result = steve("lockops", "t.ljt", *arguments)
    assert result.returncode == 2 and message in result.err


def test_an_ops_file_has_no_stacks(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "a-ops").write_text("0 N 4096 8\n")
    result = steve("lockops", "--stack", "a-ops")
    assert result.returncode == 1 and not (tmp_path / "a-stack-lockops").exists()
