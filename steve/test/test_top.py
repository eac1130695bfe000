"""steve top: the lines of its screen fit every size, keys change what is shown, and the numbers are those of the trace.
regtest/cases/test_top.py shows it in a real terminal.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import fcntl
import json
import os
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from steve.live.keyboard import pressed
from steve.live.resident import Process, Resident
from steve.live.screen import BARS, Screen, joined, plain, resident_text, sparkline
from steve.live.trace import LiveTrace, trace_of
from steve.live.view import METRICS, ROWS, View
from steve.system.errors import SteveError
from steve.trace.policy import Policy

SCRIPT = """\
info command luajit app.lua with a long command line that no terminal of eighty columns can show
stack main@main.c:5 parse<a::very::long<name>>(int)@parser.cc:10 malloc
stack main@main.c:6 draw@@app.lua:3/1
stack main@main.c:7 \u4f60\u597d@\u4f60\u597d.c:7
heap 0x1234 lua
thread 1
time 1000
N 4096 100000 1
N 8192000 300 2 1
state 1 0
time 2000
thread 2
N 12288000 50 3
S 12288000 8
state 1 2
thread 1
F 4096 1
time 5000
end exit
"""


@pytest.fixture
def live(trace: Callable) -> LiveTrace:
    found = LiveTrace(str(trace(SCRIPT)), Policy(), accesses=True)
    found.read_all()
    return found


@pytest.mark.parametrize("accesses", (False, True))
@pytest.mark.parametrize("size", ((80, 24), (120, 40), (40, 10), (200, 60)))
@pytest.mark.parametrize("change", ({}, {"help": True}, {"typed": "x"}, {"filter": "draw"}, {"paused": True}))
def test_lines_fit(live: LiveTrace, size: tuple[int, int], change: dict, accesses: bool) -> None:
    width, height = size
    for by in ROWS:
        lines = Screen(live).lines(View(by, "live", accesses)._replace(**change), width, height)
        assert len(lines) == height
        assert all(cell_len(line.text) <= width and line.text.isprintable() for line in lines)
        assert lines[-1].text.startswith("/x_" if "typed" in change else "q quit"[:width])
    assert cell_len(lines[0].text) == width  # the state is at the right edge


def test_columns_are_aligned(live: LiveTrace) -> None:
    lines = [line.text for line in Screen(live).lines(View("function", "allocated", False), 120, 24)]
    first = next(i for i, line in enumerate(lines) if "allocated▾" in line)
    end = lines[first].index("function")
    rows = [line for line in lines[first + 1 :] if line.strip()][:-1]
    assert len(rows) == 3 and rows[0][end:].startswith("parse")
    assert all(row[end - 3] not in " " and row[end - 2 : end] == "  " for row in rows)


def test_numbers_are_those_of_the_trace(live: LiveTrace, steve: Any) -> None:
    rows = {row.place: row.values for row in live.rows("line", False)}
    names = [metric.name for metric in METRICS]
    for site in filter(lambda row: row["allocs"], json.loads(steve("lines", "--json", "t.ljt").out)):
        found = dict(zip(names, next(values for place, values in rows.items() if f":{site['line']})" in place)))
        assert (found["allocated"], found["allocs"]) == (site["alloc_bytes"], site["allocs"])
        assert (found["live"], found["blocks"]) == (site["live_bytes_at_end"], site["live_blocks_at_end"])
    assert sum(values[names.index("written")] for values in rows.values()) == 8
    now = live.moment()
    assert (now.live, now.blocks, now.peak, now.allocated, now.allocs) == (350, 2, 100350, 100350, 3)
    assert now.threads == [(1, 100300), (2, 50)]
    assert [(name, round(share)) for name, share in now.states] == [("outside Lua", 50), ("INTERP", 50)]


def test_a_trace_that_grows_faster_than_it_is_read(trace: Callable, tmp_path: Path) -> None:
    """What is written meanwhile is left for later."""
    news = "".join(f"time {1000 + i}\nN {4096 + 64 * i} 32\n" for i in range(20_000))
    written = trace(f"thread 1\n{news}end exit\n", "all.ljt", 50).read_bytes()
    part = len(written) // 10
    with (tmp_path / "growing.ljt").open("wb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a recorder does
        file.write(written[:part])
        growing = LiveTrace(file.name, Policy())
        note = growing._note

        def grows() -> None:
            note()
            file.write(written[file.tell() :][:part])

        growing._note = grows  # type: ignore[method-assign]
        growing.read_all()
        assert not growing.complete and 1000 < growing.history.held // 32 < 3000
        growing._note = note  # type: ignore[method-assign]
        file.write(written[file.tell() :])
    growing.read_all()
    assert growing.complete and growing.history.held // 32 == 20_000


def test_keys() -> None:
    view = View("line", "live", False)
    assert pressed(view, "q") is None and pressed(view, "pq") is None
    assert pressed(view, "s").sort == "blocks" and pressed(view, "sssss").sort == "live"
    assert pressed(view._replace(accesses=True), "sssss").sort == "read"
    assert pressed(view, "b").by == "function" and pressed(view, "bbbbb").by == "line"
    assert pressed(view, "p").paused and not pressed(view, "pp").paused
    assert pressed(view, "h").help and not pressed(view, "hq").help
    assert pressed(view, "/abq").typed == "abq" and pressed(view, "/ab\x7fq\r").filter == "aq"
    filtered = view._replace(filter="x")
    assert pressed(filtered, "/abc")._replace(typed=None) == filtered and pressed(filtered, "\x1b").filter == ""
    assert pressed(view, "\x1b[A") == view and pressed(view, "Z") == view


def test_sparkline() -> None:
    assert sparkline([(0, 0), (99, 70), (199, 80)], 4) == BARS[0] + BARS[7] * 2 + BARS[7]
    assert sparkline([(0, 0)], 3) == BARS[0] * 3
    assert len(sparkline([(i, i) for i in range(5000)], 77)) == 77


def test_parts_that_do_not_fit_are_counted() -> None:
    assert joined(["aaaa", "bbbb", "cccc"], 30) == "aaaa  bbbb  cccc"
    assert joined(["aaaa", "bbbb", "cccc"], 15) == "aaaa  +2 more"
    assert joined(["aaaa"], 3) == ""


def test_without_a_terminal(steve: Any, trace: Callable) -> None:
    trace(SCRIPT)
    done = steve("top", "t.ljt", "--sort", "allocated")
    assert (done.returncode, done.err) == (0, "")
    assert "live 350 B  peak 98.0 KiB  2 blocks" in done.out and "\x1b" not in done.out
    assert "draw (app.lua:3)" in done.out and "ended" in done.out.splitlines()[0]
    filtered = steve("top", "t.ljt", "--filter", "DRAW").out
    assert "line (1 of 3)" in filtered and "parse" not in filtered.split("(1 of 3)")[1]


def test_a_trace_cut_off(steve: Any, trace: Callable) -> None:
    path = trace(SCRIPT, "cut.ljt", chunk_events=4)
    path.write_bytes(path.read_bytes()[:-60])
    done = steve("top", path)
    assert done.returncode == 1 and len(done.err.splitlines()) == 1 and "allocated" in done.out


def test_wrong_usage(steve: Any, trace: Callable, tmp_path: Path) -> None:
    trace(SCRIPT)
    for line, message in (
        (("t.ljt", "--sort", "read"), "--sort read needs --accesses"),
        (("t.ljt", "--sort", "size"), "invalid choice"),
        (("t.ljt", "--delay", "0"), "is not a number of seconds"),
    ):
        done = steve("top", *line)
        assert done.returncode == 2 and message in done.err
    assert steve("top", "none.ljt").returncode == 1
    with pytest.raises(SteveError, match="no recording of process 1 is being written"):
        trace_of(1)


def test_plain_text_has_no_blanks_at_ends(live: LiveTrace) -> None:
    text = plain(Screen(live).lines(View("line", "live", False), 100, None))
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("found", "live", "is_sample", "text"),
    (
        (
            Resident(9000, 1000, True),
            2000,
            False,
            "resident 8.8 KiB: live <= 2.0 KiB, recorder 1000 B, rest >= 5.9 KiB",
        ),
        (
            Resident(9000, 1000, False),
            2000,
            False,
            "resident 8.8 KiB: live <= 2.0 KiB, recorder >= 1000 B, rest about 5.9 KiB",
        ),
        (
            Resident(9000, 1000, True),
            2000,
            True,
            "resident 8.8 KiB: live about 2.0 KiB, recorder 1000 B, rest about 5.9 KiB",
        ),
        (Resident(9000, 0, True), 99999, False, "resident 8.8 KiB: live <= 8.8 KiB, recorder 0 B, rest >= 0 B"),
        (
            Resident(9000, None, False),
            9,
            False,
            "resident 8.8 KiB, with Valgrind and the recorder; the parts are not known",
        ),
    ),
)
def test_resident_text(found: Resident, live: int, is_sample: bool, text: str) -> None:
    assert resident_text(found, live, is_sample) == text


def test_no_resident_memory_of_another_process(live: LiveTrace) -> None:
    """This process has no recorder, whatever a trace says of its number; a trace that has ended has no process."""
    assert Process(os.getpid(), True).resident([]) is None and Process(os.getpid(), False).resident([]) is None
    assert Process(1 << 30, True).resident([]) is None
    assert live.resident() is None and not any(
        "resident" in line.text for line in Screen(live).lines(View("line", "live", False), 80, 24)
    )
