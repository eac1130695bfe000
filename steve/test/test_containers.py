"""Blocks that another allocator divides into blocks of its own, as superblocks of pools, arenas of Lua states and mapped
memory are: their bytes never count as live, not even before they are divided. Random traces against a plain reference, in
one piece and in shards; files whose list of these blocks cannot be read ahead.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import json
import random
import sqlite3
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import memtrace
import pytest

from conftest import Steve, make_trace
from steve.kernels import _totals
from steve.kernels._accesses import WorkingSet
from steve.kernels._report import BlockCells
from steve.kernels._holdings import Holdings
from steve.kernels._lives import Selection
from steve.kernels._walk import Walk
from steve.parallel import rounds
from steve.parallel.rounds import analyse_whole
from steve.report.collect import ReportAnalysis
from steve.trace._memtrace import KIND_NAMES, Trace
from steve.analysis import blocks
from test_live_shards import Everything, Many, arguments
from test_shards import Here, cells_by_group, silent

MALLOC, POOL, MMAP, INNER = range(4)  # as the heaps of a script are numbered
PLACE, PLACES = 0x10000, 6  # an outer block fits in a place
HEAD = "heap 1 custom\nheap 2 mmap\nheap 3 custom\nstack main outer\nstack main pool\nstack main inner\n"
WINDOW = 16


def script(choose: random.Random, steps: int) -> str:
    """Blocks of malloc and mmap, many of which get pieces, which may get pieces themselves; resizes and frees of all."""
    lines, outer, pieces = [HEAD], {}, {}
    for _ in range(steps):
        at = PLACE * choose.randint(1, PLACES)
        size = choose.randint(1, 15) * 0x1000
        what = choose.random()
        if at not in outer:
            outer[at] = choose.choice((MALLOC, MMAP))
            lines.append(f"N {at} {size} 1 {outer[at]}\n")
        elif what < 0.3:
            piece = at + 0x400 * choose.randint(0, 20)
            heap = choose.choice((POOL, POOL, INNER))
            pieces[piece] = heap
            lines.append(f"N {piece} {choose.choice((0x40, 0x200))} {2 if heap == POOL else 3} {heap}\n")
        elif what < 0.5 and pieces:
            piece = choose.choice(sorted(pieces))
            lines.append(f"F {piece} 2 {pieces.pop(piece)}\n")
        elif what < 0.6:
            lines.append(f"R {at} {at} {size} 1 {outer[at]}\n")
        elif what < 0.8:
            lines.append(f"{choose.choice('LSM')} {at + choose.randrange(0x5000)} 4\n")
        else:
            lines.append(f"F {at} 1 {outer.pop(at)}\n")
    return "".join(lines) + "end exit\n"


class Moment(NamedTuple):
    """What is live after an event: bytes by handle, without those of containers; and the number of operations so far."""

    live: dict[int, int]
    operations: int

    @property
    def bytes(self) -> int:
        return sum(self.live.values())


class Reference:
    """A plain walk over the events. A container is a block that an implied Free ends, directly before the New of a
    block of another heap inside of it."""

    def __init__(self, path: Path) -> None:
        events = [dict(zip(e.dtype.names, e.tolist())) for b in Trace(str(path)).batches(copy=True) for e in b]
        self.containers = self.divided(events)
        self.moments: list[Moment] = []
        self.stacks: dict[int, int] = {}
        live: dict[int, int] = {}
        operations = 0
        for event in events:
            kind, handle = KIND_NAMES[event["kind"]], event["handle"]
            operations += event["kind"] <= KIND_NAMES.index("modify")
            if kind == "new":
                self.stacks[handle] = event["ref"]
            if kind in ("new", "resize"):
                live[handle] = 0 if handle in self.containers else event["size"]
            elif kind == "free":
                del live[handle]
            self.moments.append(Moment(dict(live), operations))
        self.allocated = sum(e["size"] for e in events if KIND_NAMES[e["kind"]] in ("new", "resize"))

    def divided(self, events: list[dict[str, Any]]) -> set[int]:
        found, ended = set(), []
        for event in events:
            kind = KIND_NAMES[event["kind"]]
            if kind == "free":
                ended.append(event)
                continue
            if kind == "new":
                inside = (
                    block["handle"]
                    for block in ended
                    if block["heap"] != event["heap"] in (POOL, INNER)
                    and block["addr"] <= event["addr"]
                    and event["addr"] + event["size"] <= block["addr"] + block["size"]
                    and block["how"] >> 4 & 1
                )
                found |= set(inside)
            ended = []
        return found

    @property
    def peak(self) -> Moment:
        return max(self.moments, key=lambda moment: moment.bytes)  # the first of several

    def by_stack(self, moment: Moment) -> dict[int, int]:
        found: dict[int, int] = {}
        for handle, size in moment.live.items():
            found[self.stacks[handle]] = found.get(self.stacks[handle], 0) + size
        return {stack: size for stack, size in found.items() if size}


@pytest.fixture(params=range(24))
def path(request: Any, tmp_path: Path) -> Path:
    choose = random.Random(request.param)
    return make_trace(tmp_path / "t.ljt", script(choose, 40 + 10 * request.param), choose.choice((1, 2, 7)), 1)


def both(path: Path, make: Any) -> list[Any]:
    """The results of an analysis in one piece and in shards."""
    return [
        analyse_whole(Walk(Trace(str(path))), make),
        rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(make),
    ]


def test_summary_and_profile(path: Path) -> None:
    known = Reference(path)
    peak, last = known.peak, known.moments[-1]
    assert Trace(str(path)).has_containers() == bool(known.containers)
    for summary in both(path, _totals.Summary):
        found = summary.totals
        assert (found["peak_bytes"], found["live_bytes"]) == (peak.bytes, last.bytes)
        assert found["allocated"] == known.allocated
        stacks, rows = summary.used_stacks()
        of_stacks = dict(zip(stacks.tolist(), rows["live_bytes"].tolist()))
        assert {stack: size for stack, size in of_stacks.items() if size} == known.by_stack(last)
    for report in both(path, partial(ReportAnalysis, 400, True)):
        profile = report.profile
        stacks, rows = profile.stacks()
        assert (profile.totals()["peak_bytes"], profile.totals()["live_bytes"]) == (peak.bytes, last.bytes)
        assert profile.timeline()["live_bytes_most"].max() == peak.bytes
        for name, moment in (("peak_bytes", peak), ("live_bytes", last)):
            found = dict(zip(stacks.tolist(), rows[name].tolist()))
            assert {stack: size for stack, size in found.items() if size} == known.by_stack(moment)


def test_lives(path: Path) -> None:
    known = Reference(path)
    for chosen in (blocks.Blocks("test", arguments(path)), Many(path, chosen=Selection())):
        found = chosen.fold(Everything)
        lives = found.fold.lives(found.totals["peak"])
        assert found.totals["peak_bytes"] == known.peak.bytes
        at_peak = {life["handle"]: life["peak_bytes"] for life in lives if life["peak_bytes"]}
        assert at_peak == {handle: size for handle, size in known.peak.live.items() if size}
        assert sum(life["bytes"] for life in lives) == known.allocated


def test_holdings(path: Path) -> None:
    known, history = Reference(path), Holdings(Trace(str(path)))
    history.walk_all()
    history.finish()
    rows = dict(zip(history.stacks().tolist(), history.rows()["peak"].tolist()))
    assert {stack: size for stack, size in rows.items() if size} == known.by_stack(known.peak)
    assert history.rows()["bytes"].sum() == known.allocated


def test_cells(path: Path) -> None:
    """Of the report: the page takes what was freed from what was allocated."""
    known = Reference(path)
    one, many = both(path, partial(BlockCells, 10))
    assert cells_by_group(one) == cells_by_group(many)
    assert one.maxima()[["most", "at"]].tolist() == many.maxima()[["most", "at"]].tolist()
    assert one.maxima()["most"].max() == known.peak.bytes
    cells = one.cells()
    assert cells["allocated"].sum() == known.allocated
    assert cells["allocated"].sum() - cells["freed"].sum() == known.moments[-1].bytes


def test_working_set(path: Path) -> None:
    known = Reference(path)
    for windows in both(path, partial(WorkingSet, WINDOW)):
        ends = [next(m for m in known.moments if m.operations == WINDOW * (i + 1)) for i in range(len(windows) - 1)]
        assert windows["live_bytes"].tolist() == [moment.bytes for moment in (*ends, known.moments[-1])]


ARENA = (
    HEAD
    + f"N {PLACE} 60000 1 0\nN {3 * PLACE} 500 1 0\nmark filled\n"
    + (f"N {PLACE} 1000 2 1\nN {PLACE + 4096} 2000 2 1\nF {3 * PLACE} 1 0\nend exit\n")
)


def figures(steve: Steve, path: str | Path, *more: str, stdin: bytes = b"") -> dict[str, Any]:
    return json.loads(steve("summary", path, "--json", *more, stdin=stdin).out)


def test_the_peak_of_an_arena(steve: Steve, trace: Any) -> None:
    """Sites have at the peak what the peak is."""
    path = trace(ARENA)
    found = figures(steve, path)
    assert (found["bytes"]["peak_live"], found["bytes"]["live_at_end"]) == (3500, 3000)
    assert found["bytes"]["allocated"] == 63500 and "peak_reserve" not in found
    rows = json.loads(steve("sites", path, "--json").out)
    assert {row["site"]: row["live_bytes_at_peak"] for row in rows} == {"outer < main": 500, "pool < main": 3000}
    assert "divided" not in steve("sites", path).out


def test_what_the_allocator_of_a_divided_block_did_not_free(steve: Steve, trace: Any) -> None:
    """A pool that is never freed: the pieces count as live; the block of malloc is a sum of its own, at its site."""
    kept = f"N {5 * PLACE} 4000 1 0\nN {5 * PLACE} 100 2 1\n"
    freed = f"N {6 * PLACE} 8000 1 0\nN {6 * PLACE} 100 2 1\nF {6 * PLACE} 1 0\n"
    path = trace(
        f"info divided_blocks 2\ninfo divided_bytes 64000\n{ARENA.replace('end exit', kept + freed + 'end exit')}"
    )
    for more in ((), ("-j", "2")):
        rows = {row["site"]: row for row in json.loads(steve("leaks", path, "--json", *more).out)}
        assert {site: (row["bytes"], row["divided"]) for site, row in rows.items()} == {
            "pool < main": (3100, 0),
            "outer < main": (0, 64000),
        }
    text = steve("leaks", path).out
    assert "besides, 2 blocks of 64,000 bytes that other allocators, such as pools, divide were not freed" in text
    before = json.loads(steve("leaks", path, "--to", "filled", "--json").out)
    assert [row["divided"] for row in before] == [None], "what was freed afterwards is not known"
    assert figures(steve, path)["divided"] == {"blocks": 2, "bytes": 64000}
    assert "blocks divided, not freed" in steve("summary", path).out
    assert "divided" not in figures(steve, path, "--where", "size > 10")
    with memtrace.open(str(path)) as reading:
        known = [(event.size, event.container, event.kept) for event in reading if event.kind == "new"]
    assert known[:2] == [(60000, True, True), (500, False, False)] and (8000, True, False) in known


def test_what_is_not_of_c_is_not_called_unreachable(steve: Steve, trace: Any) -> None:
    """Where pointers to blocks of C were searched for, and nothing is known of Lua: null, not 0."""
    path = trace("heap 1 lua\nstack main c\nstack main lua\ninfo reach done\nN 4096 10 1 0\nN 8192 20 2 1\nend exit\n")
    rows = {row["site"]: row for row in json.loads(steve("leaks", path, "--json").out)}
    assert {site: row["reachable"] for site, row in rows.items()} == {"c < main": 10, "lua < main": None}


def test_pools_of_one_name_are_a_row(steve: Steve, trace: Any) -> None:
    path = trace(
        "heap 1 custom\nheap 2 custom\nheap 3 custom\ninfo heap_name.1 request\ninfo heap_name.2 request\n"
        "N 4096 10 0 1\nN 8192 20 0 2\nN 12288 40 0 3\nF 8192 0 2\nend exit\n"
    )
    rows = {row["site"]: row for row in json.loads(steve("sites", path, "--by", "pool", "--json").out)}
    assert {name: (row["blocks"], row["bytes"], row["live_bytes_at_end"]) for name, row in rows.items()} == {
        "request": (2, 30, 10),
        "custom pool 0x3": (1, 40, 40),
    }


def test_exports_agree_on_the_peak(steve: Steve, trace: Any, tmp_path: Path) -> None:
    path = trace(ARENA)
    for form in ("perfetto", "sqlite", "massif"):
        assert steve("export", path, "--format", form, "-o", f"t.{form}").returncode == 0
    live = [e for e in json.loads((tmp_path / "t.perfetto").read_text())["traceEvents"] if "live" in e["name"]]
    assert max(value for e in live for value in e["args"].values()) == 3500
    with contextlib.closing(sqlite3.connect(tmp_path / "t.sqlite")) as database:
        assert database.execute("SELECT sum(bytes) FROM at_peak").fetchone() == (3500,)
        assert database.execute("SELECT id FROM block WHERE container").fetchall() == [(0,)]
    assert "mem_heap_B=3500\n" in (tmp_path / "t.massif").read_text()


def test_no_rule_judges_an_arena(steve: Steve, trace: Any) -> None:
    """It ends at its first piece, and its pieces have the accesses: it is neither short-lived nor never accessed. The other
    block of its site, of 500 bytes, is freed by the program."""
    path = trace(ARENA.replace("end exit", f"S {PLACE + 4096} 8\nL {PLACE + 4096} 8\nL {PLACE} 8\nend exit"))
    found = json.loads(steve("findings", path, "--json", "--by", "line").out)
    sums = {(row["finding"], site["site"]): site["bytes"] for row in found for site in row["sites"]}
    assert {rule: size for (rule, site), size in sums.items() if site == "outer"} == {
        "never_touched": 500,
        "short_lived": 500,
    }
    rows = json.loads(steve("temporaries", path, "--json", "--by", "line").out)
    assert {row["site"]: row["bytes"] for row in rows} == {"outer": 500}


def test_the_events_of_the_binding(trace: Any) -> None:
    """And those of the Python package for other programs."""
    path = trace(ARENA)
    divided = [(event.kind, event.handle) for event in memtrace.open(str(path)) if event.container]
    assert divided == [("new", 0), ("free", 0)]


def test_windows(steve: Steve, trace: Any) -> None:
    """Before its first piece an arena does not count either."""
    path = trace(ARENA)
    for window, peak in ((("--to", "filled"), 500), (("--from", "filled"), 3000)):
        rows = json.loads(steve("sites", path, "--json", *window).out)
        assert sum(row["live_bytes_at_peak"] for row in rows) == peak


def test_made_again_at_the_same_place(steve: Steve, trace: Any) -> None:
    """Of two blocks at one address, the one that is not divided counts."""
    again = f"N {PLACE} 5000 1 0\nN {PLACE} 100 2 1\nF {PLACE} 1 0\n"
    whole = f"N {PLACE} 700 1 0\nR {PLACE} {PLACE} 900 1 0\nF {PLACE} 1 0\n"
    found = figures(steve, trace(HEAD + again + whole + again + "end exit\n"))
    assert found["bytes"]["peak_live"] == 900


def test_resized(steve: Steve, trace: Any) -> None:
    """A block that grows before it is divided; one that is resized after that is another block."""
    lines = f"N {PLACE} 5000 1 0\nR {PLACE} {PLACE} 9000 1 0\nN {PLACE} 100 2 1\nR {PLACE} {PLACE} 300 1 0\n"
    found = figures(steve, trace(HEAD + lines + "end exit\n"))
    assert (found["bytes"]["peak_live"], found["bytes"]["live_at_end"]) == (300, 300)


@pytest.mark.parametrize("form", ["pipe", "compressed", "cut"])
def test_a_list_that_cannot_be_read_ahead(form: str, steve: Steve, trace: Any, tmp_path: Path) -> None:
    """Then an arena counts until its first piece, as in files of 0.1.0."""
    path = trace("info peak_reserve 60000\n" + ARENA)
    if form == "pipe":
        found = figures(steve, "-", stdin=path.read_bytes())
    elif form == "compressed":
        subprocess.run(["zstd", "-q", path, "-o", tmp_path / "t.ljt.zst"], check=True)
        found = figures(steve, tmp_path / "t.ljt.zst")
    else:
        data = path.read_bytes()
        at = data.rindex(b"\xabljtCHK\n", 0, data.rindex(b"\xabljtCHK\n"))  # that of END
        (tmp_path / "cut.ljt").write_bytes(data[:at])
        found = json.loads(steve("summary", tmp_path / "cut.ljt", "--json").out)
    assert found["bytes"]["peak_live"] == 60500 and found["peak_reserve"] == 60000
    assert figures(steve, path)["bytes"]["peak_live"] == 3500


def test_commands_agree_on_the_peak(steve: Steve, tmp_path: Path) -> None:
    """Processes that read parts of the trace, too."""
    path = make_trace(tmp_path / "t.ljt", script(random.Random(1), 4000), 64, 1)
    peak = Reference(path).peak.bytes
    for jobs in ("1", "3"):
        assert figures(steve, path, "-j", jobs)["bytes"]["peak_live"] == peak
        rows = json.loads(steve("sites", path, "--json", "-j", jobs).out)
        assert sum(row["live_bytes_at_peak"] for row in rows) == peak
        report = json.loads(steve("report", path, "--json", "-j", jobs).out)
        assert report["totals"]["peak_bytes"] == peak
