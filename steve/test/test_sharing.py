"""False sharing of cache lines: threads that alternate on the same lines, against a slow reference, in one
walk and in parts; what is reported and what is not.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import random
import tempfile
from pathlib import Path
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_accesses as slow
from conftest import Steve, examples, make_trace
from reference import Event
from reference_accesses import History
from reference_lives import Run, Step, script
from steve.analysis import blocks
from steve.kernels import _accesses
from steve.parallel import rounds
from steve.commands import sharing
from test_event_shards import choice, plain_sharing
from test_live_shards import CHUNKS, arguments
from test_shards import Here, silent

RUNS = examples(100)
PAGE = 4096
IDS = (3, 5, 9)  # indices of reference_lives.STACKS
WHERES = {None: lambda block: True, "size >= 12": lambda block: block.size >= 12}


def turns(choose: random.Random, steps: int) -> Run:
    """Threads that take turns of several accesses, mostly to places of their own in a few small blocks that are
    made and freed meanwhile."""
    run: Run = []
    live: list[tuple[int, int]] = []  # address, size
    free = [PAGE + 24 * i for i in range(8)]

    def step(letter: str, addr: int, size: int, thread: int) -> None:
        run.append(Step(Event(letter, addr, size), thread, choose.randint(0, 2), 0))

    while len(run) < steps:
        thread = choose.randint(1, 3)
        if free and (not live or choose.random() < 0.2):
            live.append((free.pop(choose.randrange(len(free))), choose.randint(1, 24)))
            step("N", *live[-1], thread)
        elif choose.random() < 0.03:
            addr, size = live.pop(choose.randrange(len(live)))
            step("F", addr, size, thread)
            free.append(addr)
        for _ in range(choose.choice((1, 3, 9)) if live else 0):
            addr, size = live[thread % len(live)] if choose.random() < 0.9 else choose.choice(live)
            own = min(thread * 2, size - 1) if choose.random() < 0.9 else choose.randrange(size)
            step(choose.choice("LSM"), addr + own, choose.randint(1, min(size - own, 12)), thread)
    return run


@RUNS
@given(st.integers(20, 400), CHUNKS, st.sampled_from(list(WHERES)), st.randoms(use_true_random=True))
def test_random_turns(steps: int, chunk: int, where: str | None, choose: random.Random) -> None:
    run = turns(choose, steps)
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), 5 * chunk, 1)
        one = blocks.Blocks("test", arguments(path, where)).over_events(_accesses.Sharing)
        many = rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(_accesses.Sharing, choice(path, where))
    lines, tests = slow.false_lines(History(run).log, WHERES[where])
    assert plain_sharing(many) == plain_sharing(one)
    found = [
        (*line[:5], round(line[5], 12), *((thread, IDS.index(stack), *rest) for thread, stack, *rest in line[6:]))
        for line in plain_sharing(one)[1]
    ]
    threads = [h.step.thread for h in History(run).log if h.letter in "LSM" and WHERES[where](h.block)]
    changes = sum(a != b for a, b in zip(threads, threads[1:]))
    assert (found, *one[2:]) == (lines, tests, changes)


# ---- what is reported ---------------------------------------------------------------------------

STACKS = "stack main make@a.c:1 malloc\nstack main other@b.c:2 malloc\n"


def turn(thread: int, *accesses: str, times: int = 1000) -> str:
    """A turn of a thread, which repeats the same accesses."""
    return f"thread {thread}\nat main@a.c:9\n" + "".join(access + "\n" for access in accesses) * times


def rows_of(steve: Steve, trace: Callable, *lines: str) -> list[dict]:
    trace(STACKS + "".join(line + "\n" if line[-1] != "\n" else line for line in lines) + "end exit\n")
    rows = json.loads(steve("sharing", "t.ljt", "--json").out)
    return [row for row in rows if row["lines"]]


BLOCK = ("thread 1", f"N {PAGE} 256 1")
ONE, TWO = turn(2, f"M {PAGE + 64} 4"), turn(3, f"M {PAGE + 68} 4")


def test_neighbouring_counters(steve: Steve, trace: Callable) -> None:
    (row,) = rows_of(steve, trace, *BLOCK, *[ONE, TWO] * 5)
    assert row["site"] == "make (a.c:1) < main"
    assert (row["interleaved"], row["lines"], row["threads"]) == (8000, 1, 2)  # without the first and the last turn
    assert row["by_chance"] == pytest.approx(8.0**-8)
    assert row["places"] == {"64-67 | 68-71": {"lines": 1, "interleaved": 8000}}


def test_the_turns_do_not_matter(steve: Steve, trace: Callable) -> None:
    """With the same accesses in more and shorter turns, the number approaches what would interleave."""
    for n in (4, 10, 100):
        short = [turn(thread, f"M {PAGE + 4 * thread} 4", times=20000 // n) for thread in (2, 3)]
        (row,) = rows_of(steve, trace, *BLOCK, *short * n)
        assert row["interleaved"] == 40000 - 2 * 20000 // n


def test_a_reader_beside_a_writer(steve: Steve, trace: Callable) -> None:
    (row,) = rows_of(steve, trace, *BLOCK, *[turn(2, f"L {PAGE} 8"), turn(3, f"S {PAGE + 60} 4")] * 5)
    assert list(row["places"]) == ["0-7 read | 60-63"]


def test_small_blocks_of_two_sites_in_one_line(steve: Steve, trace: Callable) -> None:
    rows = rows_of(
        steve,
        trace,
        "thread 1",
        f"N {PAGE} 16 1",
        f"N {PAGE + 32} 16 2",
        *[turn(2, f"M {PAGE} 4"), turn(3, f"M {PAGE + 32} 8")] * 5,
    )
    assert {row["site"]: list(row["places"]) for row in rows} == {
        "make (a.c:1) < main": ["0-3 | 0-7 of other (b.c:2)"],
        "other (b.c:2) < main": ["0-7 | 0-3 of make (a.c:1)"],
    }
    rows = rows_of(
        steve,
        trace,
        "thread 1",
        f"N {PAGE} 16 1",
        f"N {PAGE + 32} 16 1",
        *[turn(2, f"M {PAGE} 4"), turn(3, f"M {PAGE + 32} 8")] * 5,
    )
    assert [list(row["places"]) for row in rows] == [["0-3 | 0-7 of another"]]


def test_blocks_that_are_made_anew_beside_a_counter(steve: Steve, trace: Callable) -> None:
    """One thread makes and frees small blocks in a line, while another one uses the rest of the line all the
    time."""
    churn = f"thread 3\nN {PAGE + 32} 16 2\n" + turn(3, f"M {PAGE + 32} 8", times=100) + f"F {PAGE + 32} 2\n"
    rows = rows_of(steve, trace, "thread 1", f"N {PAGE} 16 1", *[turn(2, f"M {PAGE} 4"), churn * 10] * 5)
    assert {row["interleaved"] for row in rows} == {8000}


NOTHING = {
    "far apart": [*BLOCK, *[ONE, turn(3, f"M {PAGE + 192} 4")] * 9],
    "the same bytes": [*BLOCK, *[ONE, turn(3, f"M {PAGE + 64} 4")] * 9],
    "nobody writes": [*BLOCK, *[turn(2, f"L {PAGE} 4"), turn(3, f"L {PAGE + 4} 4")] * 9],
    "handed over once": [*BLOCK, turn(1, f"S {PAGE + 64} 8"), ONE, ONE, TWO, TWO],
    "by each thread once": [*BLOCK, *[turn(thread, f"M {PAGE + 4 * thread} 4") for thread in range(2, 12)]],
    "with a lock in the line": [
        *BLOCK,
        *[turn(thread, f"M {PAGE} 4", f"M {PAGE + 4 * thread} 4", f"S {PAGE} 4") for thread in (2, 3)] * 9,
    ],
    "freed and made again": [
        f"thread {thread}\nN {PAGE} 64 1\n" + turn(thread, f"M {PAGE + 8 * thread} 4") + f"F {PAGE} 1"
        for thread in (2, 3) * 9
    ],
    "used now and then": [
        *BLOCK,
        f"N {2 * PAGE} 64 1",
        f"N {3 * PAGE} 64 1",
        *[turn(thread, f"M {PAGE + 4 * thread} 4") + turn(thread, f"M {thread * PAGE} 4") for thread in (2, 3)] * 9,
    ],
    "hardly used": [*BLOCK, *[turn(thread, f"M {PAGE + 4 * thread} 4", times=50) for thread in (2, 3)] * 9],
    "a queue": [
        *BLOCK,
        *[turn(thread, *(f"{letter} {PAGE + 8 * i} 8" for i in range(16))) for thread, letter in ((2, "S"), (3, "L"))]
        * 9,
    ],
}


@pytest.mark.parametrize("what", NOTHING)
def test_nothing_is_told(steve: Steve, trace: Callable, what: str) -> None:
    assert rows_of(steve, trace, *NOTHING[what]) == []


def test_many_lines_need_more_evidence(steve: Steve, trace: Callable) -> None:
    """Two returns are enough for a single line, but not for one of many lines to which threads return."""
    assert rows_of(steve, trace, *BLOCK, *[ONE, TWO] * 2)
    many = [turn(thread, *(f"M {2 * PAGE + 64 * i} 4" for i in range(8)), times=200) for thread in (2, 3)]
    assert not rows_of(steve, trace, *BLOCK, f"N {2 * PAGE} 512 1", *[ONE, TWO] * 2, *many * 9)


def test_bytes() -> None:
    assert sharing.ranges(0b1011, 8) == "8-9, 11"
    assert sharing.ranges(2**64 - 1, 128) == "128-191"
    assert sharing.ranges(1 << 63, -60) == "3"


def test_too_few_turns_are_said(steve: Steve, trace: Callable) -> None:
    rows_of(steve, trace, *BLOCK, *[ONE, TWO] * 2)
    assert "threads took only 4 turns: see --help" in steve("sharing", "t.ljt").out
    rows_of(steve, trace, *BLOCK, *[ONE, TWO] * 20)
    assert "turns" not in steve("sharing", "t.ljt").out
    rows_of(steve, trace, *BLOCK, ONE)
    assert "turns" not in steve("sharing", "t.ljt").out
