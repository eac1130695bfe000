"""`steve lines`: accesses of lines to own and to other blocks, distinct blocks and cache lines, kinds of
blocks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import reference_accesses as slow
from conftest import Steve
from reference_accesses import History
from reference_lives import Run
from test_analyses import RUNS, listed, runs, trace_of

ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written")


def said(row: dict) -> dict:
    """A row of steve with the names of the reference."""
    made = row["kinds"].get("malloc", {"allocs": 0, "alloc_bytes": 0})
    assert set(row["kinds"]) <= {"malloc"} and (row["allocs"], row["alloc_bytes"]) == tuple(made.values())
    assert all(row[key] == row[f"own_{key}"] + row[f"others_{key}"] for key in ACCESSES)
    return {
        **{whose: [row[f"{whose}_{key}"] for key in ACCESSES] for whose in ("own", "others")},
        "blocks": row["blocks_touched"],
        "lines": row["cache_lines_touched"],
        "made": [*made.values()],
    }


@RUNS
@given(runs(), st.integers(0, 40))
def test_line_work(run: Run, least: int) -> None:
    wanted = slow.line_work(History(run).log, lambda block: block.size >= least)
    where = ("--where", f"size >= {least}") if least else ()
    with tempfile.TemporaryDirectory() as folder:
        rows = listed(trace_of(folder, run), "lines", *where)
    assert {(row["file"], row["line"], row["function"]): said(row) for row in rows} == {
        line: {**row, "blocks": len(row["blocks"]), "lines": len(row["lines"])} for line, row in wanted.items()
    }


def by_line(steve: Steve, *arguments: str) -> dict[int, dict]:
    return {row["line"]: row for row in json.loads(steve("lines", "t.ljt", "--json", *arguments).out)}


def touching(count: int, rounds: int) -> tuple[str, list[str]]:
    """(script, blocks): in each round 3 blocks are made, and each of `count` lines accesses some of them."""
    script, touches = "stack make@a.c:1000\n", []
    for turn in range(rounds):
        script += "".join(f"N {65536 + 8192 * i} 8192 1\n" for i in range(3))
        for line in range(1, count + 1):
            for i in range(3):
                if (line + turn) % (i + 1) == 0:
                    script += f"at f@a.c:{line}\nL {65536 + 8192 * i + 64 * line} 8\nS {65536 + 8192 * i} 4\n"
                    touches.append(f"{line} {turn} {i}")
        script += "".join(f"F {65536 + 8192 * i}\n" for i in range(2 if turn % 2 else 3))
        script += f"F {65536 + 8192 * 2}\n" if turn % 2 else ""
    return script + "end exit\n", touches


def test_blocks_that_many_lines_touch(steve: Steve, trace) -> None:
    """A block is accessed by more lines than its own record can hold, repeatedly in the same slots."""
    script, touches = touching(60, 12)
    trace(script)
    rows = by_line(steve)
    for line in range(1, 61):
        own = [touch.split() for touch in touches if touch.split()[0] == str(line)]
        assert rows[line]["blocks_touched"] == len(own)
        assert rows[line]["cache_lines_touched"] == 2 * len({i for _, _, i in own})
        assert rows[line]["own_loads"] == 0 and rows[line]["others_stores"] == len(own)


def test_accesses_over_borders(steve: Steve, trace) -> None:
    """Accesses that cross the end of a cache line, of a page, of many pages, and reach the end of the address
    space."""
    top = 2**64 - 4096
    trace(
        "stack f@a.c:1\nN 65536 1000000 1\nat f@a.c:1\nL 65599 2\nat f@a.c:2\nS 69631 2\n"
        f"at f@a.c:3\nM 65600 900000\nat f@a.c:4\nL 65600 64\nN {top} 4096\nat f@a.c:5\nL {top + 4032} 64\n"
        "end exit\n"
    )
    rows = by_line(steve)
    assert {line: row["cache_lines_touched"] for line, row in rows.items() if line} == {
        1: 2,
        2: 2,
        3: (965599 // 64 - 65600 // 64 + 1),
        4: 1,
        5: 1,
    }
    assert rows[1]["own_loads"] == 1 and rows[2]["others_stores"] == 1


def test_a_lua_function_without_line_numbers(steve: Steve, trace) -> None:
    """Its allocations and its accesses are in one row."""
    trace(
        "stack main@@a.lua:0/0\nN 65536 64 1\nat main@@a.lua:0/0\nL 65536 8\nL 65544 8\nN 131072 32 1\nS 131072 8\n"
        "end exit\n"
    )
    (row,) = json.loads(steve("lines", "t.ljt", "--json").out)
    assert (row["own_loads"], row["own_stores"], row["others_loads"], row["allocs"]) == (2, 1, 0, 2)
    assert row["kinds"] == {"malloc": {"allocs": 2, "alloc_bytes": 96}}


def test_many_pages(steve: Steve, trace) -> None:
    """Enough pages that their table grows several times."""
    pages = 20_000
    loads = "".join(f"L {1048576 + 4096 * i} 8\n" for i in range(pages))
    trace("N 1048576 100000000\n" + "".join(f"at f@a.c:{line}\n{loads}" for line in (1, 2, 3)) + "end exit\n")
    rows = by_line(steve)
    assert [rows[line]["cache_lines_touched"] for line in (1, 2, 3)] == [pages] * 3
    assert [rows[line]["blocks_touched"] for line in (1, 2, 3)] == [1] * 3


def test_kinds_by_heap(steve: Steve, trace) -> None:
    trace(
        "heap 77 lua\nheap 5 custom\nstack f@a.c:1\nN 4096 16 1\nN 8192 32 1 1\nN 12288 8 1 2\nF 8192 0 1\n"
        "N 8192 40 1 2\nR 12288 16384 9 1 2\nend exit\n"
    )
    row = by_line(steve)[1]
    assert row["kinds"] == {
        "custom": {"allocs": 2, "alloc_bytes": 57},
        "unknown": {"allocs": 1, "alloc_bytes": 32},
        "malloc": {"allocs": 1, "alloc_bytes": 16},
    }
    assert list(row["kinds"]) == ["custom", "unknown", "malloc"]
    table = list(csv.DictReader(io.StringIO(steve("lines", "t.ljt", "--csv").out)))
    assert [row["kinds"] for row in table if row["line"] == "1"] == ["custom 2 57; unknown 1 32; malloc 1 16"]
    assert steve("lines", "t.ljt", "--sort", "kinds").returncode == 2


def test_programs_without_names(steve: Steve, trace: Callable[..., Path]) -> None:
    """What starts a program or a thread is not the name of all that it does."""
    stacks = (
        "__libc_start_call_main@start.h:1 [tool] [tool]",
        "clone3 start_thread@pthread.c:9 [tool]",
        "main@m.c:1 [tool]",
    )
    blocks = "".join(f"N {4096 * (i + 1)} 10 {i + 1}\n" for i in range(3))
    trace("".join(f"stack {stack}\n" for stack in stacks) + blocks + "end exit\n")
    rows = json.loads(steve("lines", "t.ljt", "--json").out)
    assert {row["function"]: row["allocs"] for row in rows} == {"[[tool]]": 2, "main": 1}
    rows = json.loads(steve("sites", "t.ljt", "--by", "function", "--json").out)
    assert sorted(row["blocks"] for row in rows) == [1, 2] and "main (m.c)" in {row["site"] for row in rows}
