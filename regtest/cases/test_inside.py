"""test_inside - what a Lua state's allocator does to memory is not in the trace, but its instructions are
counted.

The recorder removes such accesses when the allocator returns, if nothing else came in between, and leaves
them to the collector if something did: native/inside.c does both. The trace must hold what it prints. The
number of instructions is compared with a recording without accesses, from which nothing is removed.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path

import pytest

from support import NATIVE, Trace, record, steve, words

SIZES = ("70001", "70003", "70005")
CALLS, EVERY = 400, 7
MODES = ["own", "plain", "mark", "slab", "thread", "jump"]


def truth(trace: Trace) -> list[list[str]]:
    return [w for w in words(trace.run.text) if w[0] in "LSM"]


def seen(trace: Trace) -> list[list[str]]:
    """Accesses without addresses."""
    return [[w[0], w[1], *w[3:]] for w in words(trace.view("blocks", *SIZES))]


def marks(trace: Trace) -> list[tuple[str, int]]:
    """Names and times in instructions."""
    strings, found = {}, []
    for line in steve("dump", trace.path).text.splitlines():
        kind, *rest = line.split()
        fields = dict(f.split("=", 1) for f in rest if "=" in f)
        if kind == "string":
            strings[fields["id"]] = line.rsplit("=", 1)[1]
        elif kind == "mark":
            found.append((strings[fields["string"]].strip('"'), int(fields["time"])))
    return found


def between(trace: Trace) -> int:
    times = dict(marks(trace))
    return times["end"] - times["begin"]


@pytest.mark.parametrize("mode", MODES)
def test_only_the_programs_accesses_are_there(mode: str, tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "inside", mode])
    assert trace.run.status == 0
    expected = truth(trace)
    assert len(expected) > CALLS * (EVERY - 2) // EVERY
    assert seen(trace) == expected
    made = int(next(w[1] for w in words(trace.run.text) if w[0] == "marks"))
    assert made >= CALLS // EVERY if mode == "mark" else made == 0
    assert [name for name, _ in marks(trace)] == ["begin", *["inside"] * made, "end"]


@pytest.mark.parametrize("mode", [m for m in MODES if m != "thread"])
def test_its_instructions_are_counted(mode: str, tmp_path: Path) -> None:
    """Threads wait for one another in loops of unpredictable length."""
    full = record(tmp_path / "full.ljt", [NATIVE / "inside", mode])
    plain = record(tmp_path / "heap.ljt", [NATIVE / "inside", mode], "--trace-mem=no")
    assert between(full) == between(plain) > CALLS * 100
