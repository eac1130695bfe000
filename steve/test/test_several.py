"""Several memtraces as one, as a server leaves one for each worker: the rows are the sums of those of the files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import base64
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import Steve
from steve.analysis import several
from steve.analysis.blocks import Blocks
from steve.analysis.several import Joined
from steve.command import Command
from steve.commands.sites import add_sums
from steve.report.processes import Ends, Found, Line, sentences_of
from steve.system.errors import SteveError
from browser_page import history
from test_report import checked_page

Maker = Callable[..., Path]

# commands whose rows are added up, the columns that name a row, and those that are no sums
LISTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sites": (("site",), ("largest", "mean_lifetime", "utilisation")),
    "lines": (("function", "file", "line"), ("mean_lifetime", "kinds")),
    "types": (("type",), ("largest", "mean_lifetime", "utilisation", "share")),
    "threads": (("thread", "name"), ()),
    "states": (("state", "starts"), ("heap", "trace", "share")),
    "leaks": (("site",), ("mean_age", "share")),
    "temporaries": (("site",), ("mean_lifetime", "share")),
    "resizes": (("site",), ("longest", "first_size", "last_size")),
    "lifetimes": (("from_size", "to_size", "from", "to"), ("share", "cumulative")),
    "heat": (("from", "to"), ("share", "cumulative", "traffic_share", "traffic_cumulative")),
    "reuse": (("cache_bytes", "cache_lines", "from_distance", "to_distance"), ("misses", "miss_ratio")),
    "sharing": (("site",), ("by_chance", "threads", "places")),
}
WORKERS = 4
# a worker: 2 blocks of which one is freed, and as many leaks as the number of the worker
WORKER = """\
info pid {pid}
stack main serve@w.c:10 malloc
stack main keep@w.c:{line} malloc
N 0x1000 1000 1
N 0x2000 64 1
F 0x1000
"""


def worker(number: int, line: int = 20) -> str:
    """The script of a worker's trace."""
    leaks = "".join(f"N {0x10000 + 0x100 * i:#x} 100 2\n" for i in range(number))
    return WORKER.format(pid=7000 + number, line=line) + leaks + "end exit\n"


@pytest.fixture
def workers(trace: Maker, tmp_path: Path) -> list[str]:
    """The files of the workers, in a folder."""
    (tmp_path / "w").mkdir()
    return [trace(worker(n), f"w/nginx.{7000 + n}.ljt").relative_to(tmp_path).as_posix() for n in range(WORKERS)]


def rows_of(steve: Steve, *arguments: object) -> list[dict]:
    done = steve(*arguments, "--json")
    assert done.returncode == 0, done.err
    return json.loads(done.out)


def added(lists: list[list[dict]], names: tuple[str, ...], others: tuple[str, ...]) -> dict[tuple, dict[str, Any]]:
    """The sums of the rows of each name."""
    found: dict[tuple, dict[str, Any]] = defaultdict(dict)
    for row in (row for rows in lists for row in rows):
        sums = found[tuple(row[name] for name in names)]
        for key in row.keys() - {*names, *others}:
            value = row[key]
            sums[key] = value if key not in sums or isinstance(value, str) or value is None else sums[key] + value
    return found


def random_trace(seed: int) -> str:
    """The script of a trace that has some sites which others do not have."""
    return history(seed).replace("main@app.c:11 draw@ui.c:20", f"main@app.c:11 draw@ui.c:{20 + seed}")


def by_process(command: str) -> tuple[str, str]:
    """The option that tells the rows of processes apart."""
    return ("--by", "stack,process" if LISTS[command][0] == ("site",) and command != "sharing" else "process")


@pytest.mark.parametrize("command", LISTS)
def test_rows_are_sums(steve: Steve, trace: Maker, command: str) -> None:
    names, others = LISTS[command]
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(3)]
    alone = [rows_of(steve, command, file) for file in files]
    together = rows_of(steve, command, *files)
    assert len(together) < sum(map(len, alone))
    assert added([together], names, others) == added(alone, names, others)
    apart = rows_of(steve, command, *files, *by_process(command))
    for file, rows in zip(files, alone):
        mine = [{key: row[key] for key in row if key != "process"} for row in apart if row["process"] == file]
        assert added([mine], names, others) == added([rows], names, others)
    assert len(apart) == sum(map(len, alone))


def test_misses_add_up(steve: Steve, trace: Maker) -> None:
    """of processes that have a cache each; of a larger cache than a process needs, its misses are those of first touches."""
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(3)]
    alone = [{row["cache_lines"]: row["misses"] for row in rows_of(steve, "reuse", file)} for file in files]
    found = rows_of(steve, "reuse", *files)
    assert found and len(found) == max(map(len, alone))
    for row in found:
        assert row["misses"] == sum(misses.get(row["cache_lines"], min(misses.values())) for misses in alone)
    assert "each process with a cache of its own" in steve("reuse", *files).out


def test_windows_are_no_sum(steve: Steve, trace: Maker) -> None:
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(2)]
    done = steve("workingset", *files)
    assert done.returncode == 2 and "--by=process lists the windows of each process" in done.err
    found = rows_of(steve, "workingset", *files, "--window", "50", "--by", "process")
    alone = [rows_of(steve, "workingset", file, "--window", "50") for file in files]
    assert [{key: row[key] for key in row if key != "process"} for row in found] == [
        row for rows in alone for row in rows
    ]
    assert len({row["process"] for row in found}) == 2


def of_bytes(rows: list[dict]) -> dict[tuple[str, int], tuple[int, ...]]:
    """The loads, stores and modifies of each byte of the sites."""
    return {
        (row["site"], row["offset"] + i): (row["loads"], row["stores"], row["modifies"])
        for row in rows
        for i in range(row["bytes"])
    }


def test_fields_are_sums(steve: Steve, trace: Maker) -> None:
    """Of all bytes; the sites are those with most bytes in all files."""
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(3)]
    alone = [of_bytes(rows_of(steve, "fields", file, "--sites", "1000")) for file in files]
    found = of_bytes(rows_of(steve, "fields", *files, "--sites", "1000"))
    assert set(found) == {place for one in alone for place in one}
    for place, counts in found.items():
        assert counts == tuple(map(sum, zip(*(one[place] for one in alone if place in one))))
    where = ("--where", "size >= 32", "--sites", "3")
    few = rows_of(steve, "fields", *files, *where)
    most = sorted(rows_of(steve, "sites", *files, *where[:2]), key=lambda row: (-row["bytes"], row["site"]))[:3]
    assert {row["site"] for row in few} == {row["site"] for row in most}
    apart = rows_of(steve, "fields", *files, "--sites", "1000", "--by", "process")
    for name, one in zip(files, alone):
        assert of_bytes([row for row in apart if row["process"] == name]) == one
    assert "none may be a pipe" in steve("fields", "-", *files).err


def test_globals_are_of_their_processes(steve: Steve, trace: Maker) -> None:
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(3)]
    found = rows_of(steve, "globals", *files, "--share", "20", "--sort", "handle")
    for name in files:
        mine = [{key: row[key] for key in row if key != "process"} for row in found if row["process"] == name]
        assert mine and mine == rows_of(steve, "globals", name, "--share", "20", "--sort", "handle")


def test_differences_of_folders(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    """The sides are the sums of the files of each folder."""
    for side, seeds in (("a", (1, 2, 3)), ("b", (4, 5))):
        (tmp_path / side).mkdir()
        for seed in seeds:
            trace(random_trace(seed), f"{side}/{seed}.ljt")
    for by in ("stack", "function", "line", "type"):
        rows = rows_of(steve, "diff", "a", "b", "--by", by)
        sides = [{row["site"]: row for row in rows_of(steve, "sites", side, "--by", by)} for side in ("a", "b")]
        assert rows
        for row in rows:
            for side, found in zip(("a", "b"), sides):
                site = found.get(row["place"].removesuffix(" in A"), {"blocks": 0, "bytes": 0, "live_bytes_at_end": 0})
                for key, of_sites in (("blocks", "blocks"), ("bytes", "bytes"), ("live_bytes", "live_bytes_at_end")):
                    # by stack and line, rows whose lines have moved are one here
                    assert by in ("stack", "line") or row[f"{key}_{side}"] == site[of_sites]
        for key in ("blocks", "bytes"):
            change = sum(row[f"{key}_change"] for row in rows)
            assert change == sum(row[key] for row in sides[1].values()) - sum(row[key] for row in sides[0].values())
    text = steve("diff", "a", "b").out
    assert text.startswith("a (3 files) to b (2 files): blocks ") and "(at peak: each process at its own peak)" in text
    assert "(at peak: each process at its own peak)" in steve("diff", "a", "b/4.ljt").out
    assert "nothing changed" in steve("diff", "a", "a").out


def test_moved_lines_of_folders(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    """Of two builds, a line that has moved is one row; two lines of one build are two."""
    for side, moved in (("a", 0), ("b", 3)):
        (tmp_path / side).mkdir()
        for number, line in ((1, 20), (2, 20), (3, 21)):
            script = worker(number, line + moved).replace("serve@w.c:10", f"serve@w.c:{10 + moved}")
            trace(script, f"{side}/{number}.ljt")
    assert "nothing changed" in steve("diff", "a", "b", "--by", "line").out
    trace(worker(4, 24).replace("serve@w.c:10", "serve@w.c:13"), "b/3.ljt")
    rows = rows_of(steve, "diff", "a", "b", "--by", "line")
    assert [(row["place"], row["blocks_change"]) for row in rows] == [("keep (w.c:24)", 1)]


def test_means_are_of_all_blocks(steve: Steve, trace: Maker) -> None:
    """Not of the means: a file with one block counts less than one with many."""
    trace("stack main f\nN 4096 8 1\nF 4096\nend exit\n", "a.ljt")
    trace("stack main f\n" + "N 4096 8 1\nL 4096 8\nL 4096 8\nF 4096\n" * 3 + "end exit\n", "b.ljt")
    for command, column in (("sites", "mean_lifetime"), ("lines", "mean_lifetime"), ("temporaries", "mean_lifetime")):
        (row,) = [row for row in rows_of(steve, command, "a.ljt", "b.ljt") if row.get(column)]
        assert row[column] == (1 + 3 * 3) / 4
    assert rows_of(steve, "sites", "a.ljt", "b.ljt")[0]["utilisation"] == 75


def test_the_worker_that_leaks(steve: Steve, workers: list[str]) -> None:
    """Which of the processes, and which line in all of them?"""
    rows = rows_of(steve, "sites", "w", "--by", "process", "--sort", "live_bytes_at_end")
    assert [(row["site"], row["live_bytes_at_end"]) for row in rows] == [
        (f"nginx.{7000 + n}.ljt", 64 + 100 * n) for n in reversed(range(WORKERS))
    ]
    (leak, *_) = rows_of(steve, "leaks", "w", "--by", "line")
    assert (leak["site"], leak["blocks"], leak["bytes"]) == ("keep (w.c:20)", 6, 600)
    assert rows_of(steve, "sites", "w") == rows_of(steve, "sites", *workers)


def test_a_process_that_its_name_does_not_tell(steve: Steve, trace: Maker) -> None:
    trace(worker(1), "one.ljt"), trace(worker(2), "two.ljt")
    rows = rows_of(steve, "sites", "one.ljt", "two.ljt", "--by", "process")
    assert {row["site"] for row in rows} == {"one.ljt (pid 7001)", "two.ljt (pid 7002)"}


def test_lines_do_not_move(steve: Steve, trace: Maker) -> None:
    """Two processes of one program that allocate on different lines of a function do so on two lines."""
    trace(worker(1, 20), "a.ljt"), trace(worker(1, 21), "b.ljt")
    rows = rows_of(steve, "leaks", "a.ljt", "b.ljt", "--by", "line")
    assert {row["site"]: row["blocks"] for row in rows} == {
        "serve (w.c:10)": 2,
        "keep (w.c:20)": 1,
        "keep (w.c:21)": 1,
    }


def test_headings(steve: Steve, workers: list[str]) -> None:
    text = steve("sites", "w").out
    assert text.startswith("4 files: allocation sites (at peak: each process at its own peak)\n")
    assert steve("leaks", "w", "--where", "size = 100").out.startswith(
        "4 files: 6 blocks of 600 bytes never freed, where size = 100\n"
    )


def test_what_some_files_lack(steve: Steve, trace: Maker) -> None:
    """A sum of what was not recorded everywhere is not known, and headings name the files."""
    trace("info trace_mem yes\n" + worker(1), "a.ljt")
    trace("info trace_mem no\n" + worker(2), "b.ljt")
    assert [row["loads"] for row in rows_of(steve, "sites", "a.ljt", "b.ljt", "--by", "process")] == [None, None]
    assert "(b.ljt: loads and stores were not recorded)" in steve("sites", "a.ljt", "b.ljt").out


def test_damage_is_reported_for_its_file(steve: Steve, workers: list[str], tmp_path: Path) -> None:
    path = tmp_path / workers[2]
    path.write_bytes(path.read_bytes()[:-40])
    done = steve("sites", "w", "--json")
    assert done.returncode == 1 and done.err.count("\n") == 1 and workers[2] in done.err
    assert sum(row["blocks"] for row in json.loads(done.out)) == 14


def test_each_is_checked(steve: Steve, workers: list[str], tmp_path: Path) -> None:
    """by itself: one object for each, and one that is not sound is enough."""
    done = steve("check", "w", "--json")
    assert done.returncode == 0 and [one["file"] for one in json.loads(done.out)] == workers
    assert json.loads(done.out)[0] == json.loads(steve("check", workers[0], "--json").out)
    assert steve("check", "w").out.count(": sound\n") == WORKERS
    path = tmp_path / workers[1]
    path.write_bytes(path.read_bytes()[:-40])
    done = steve("check", "w", "--csv")
    assert done.returncode == 1 and workers[1] in done.err and done.out.count("\nsound,") == WORKERS


def test_folders(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    """Files in the order of the numbers in their names; other files are left out."""
    (tmp_path / "w").mkdir()
    for number in (10, 9):
        trace(worker(number), f"w/a.{number}.ljt")
    (tmp_path / "w" / "a.11.ljt.part").write_text("half")
    assert steve("sites", "w").err == "steve: w: left out: 1 recording that is not complete yet\n"
    rows = rows_of(steve, "threads", "w", "--by", "process", "--sort", "thread")
    assert [row["process"] for row in rows] == ["a.10.ljt (pid 7010)", "a.9.ljt (pid 7009)"]
    (tmp_path / "empty").mkdir()
    done = steve("sites", "empty")
    assert done.returncode == 1 and "empty: is a folder without files that end in .ljt" in done.err


def test_a_file_counts_once(steve: Steve, workers: list[str]) -> None:
    done = steve("sites", "w", workers[0])
    assert done.returncode == 2 and "given twice" in done.err


def test_results_do_not_replace_inputs(steve: Steve, workers: list[str], tmp_path: Path) -> None:
    before = (tmp_path / workers[1]).read_bytes()
    done = steve("sites", "w", "--json", "-f", "-o", workers[1])
    assert done.returncode == 2 and "is what the command reads" in done.err
    assert (tmp_path / workers[1]).read_bytes() == before


def test_marks_are_those_of_each_file(steve: Steve, trace: Maker) -> None:
    for name in ("a", "b"):
        trace(f"stack main {name}\nN 4096 8 1\nmark ready\nN 8192 16 1\nend exit\n", f"{name}.ljt")
    rows = rows_of(steve, "sites", "a.ljt", "b.ljt", "--from", "ready")
    assert [(row["site"], row["bytes"]) for row in rows] == [("a < main", 16), ("b < main", 16)]


def test_summary(steve: Steve, workers: list[str]) -> None:
    alone = [json.loads(steve("summary", "--json", file).out) for file in workers]
    found = json.loads(steve("summary", "--json", "w").out)
    assert found["files"] == WORKERS
    assert [{key: one[key] for key in one if key != "process"} for one in found["processes"]] == alone
    for group in ("events", "bytes", "blocks", "unmatched"):
        assert found[group] == {name: sum(one[group][name] for one in alone) for name in alone[0][group]}
    assert found["seconds"] == max(one["seconds"] for one in alone) and found["complete"] is True
    text = steve("summary", "w").out
    assert text.startswith("4 files: totals (at peak: each process at its own peak)\n")
    (most, *_) = [line.split() for line in text.splitlines() if line.endswith(".ljt")]
    assert most[0] == "1,364" and most[-1] == "nginx.7003.ljt"
    kept = [line.split() for line in text.splitlines() if "keep (w.c:20)" in line]
    assert kept == [["600", "6", "0", "0", "600", "6", "keep", "(w.c:20)"]] * 2, "each peak was before"


def test_summary_of_what_differs(steve: Steve, trace: Maker) -> None:
    trace("info trace_mem no\ninfo exit_status 0\nN 4096 8\nend exit\n", "a.ljt")
    trace("info trace_mem yes\ninfo signal 11\nN 4096 8\nL 4096 8\n", "b.ljt")
    done = steve("summary", "--json", "a.ljt", "b.ljt")
    found = json.loads(done.out)
    assert done.returncode == 1 and "b.ljt" in done.err
    assert found["events"]["load"] is None and found["complete"] is False
    assert found["program"] == {"ended": "several", "status": None, "signal": None}


def test_findings(steve: Steve, workers: list[str]) -> None:
    def found(*arguments: str) -> dict[str, dict]:
        return {one["finding"]: one for one in rows_of(steve, "findings", *arguments)}

    alone, together = [found(file) for file in workers], found("w")
    for rule, one in together.items():
        assert one["bytes"] == sum(each[rule]["bytes"] for each in alone)
        assert one["blocks"] == sum(row["blocks"] for row in one["sites"])
    never_freed = found("w", "--by", "process")["never_freed"]
    assert [row["bytes"] for row in never_freed["sites"]] == [364, 264, 164, 64]
    apart = found("w", "--by", "line,process")["never_freed"]["sites"]
    assert {(row["process"], row["bytes"]) for row in apart} >= {("nginx.7003.ljt", 300)}


def test_errors_name_their_processes(steve: Steve, trace: Maker) -> None:
    for number in (1, 2):
        trace(worker(number).replace("F 0x1000\n", "F 0x1000\n" * (number + 1)), f"{number}.ljt")
    errors = rows_of(steve, "findings", "1.ljt", "2.ljt", "--rules", "errors")
    (double,) = [one for one in errors if one["finding"] == "double_free"]
    assert double["errors"] == 3
    assert [(context["count"], context["process"]) for context in double["contexts"]] == [
        (2, "2.ljt (pid 7002)"),
        (1, "1.ljt (pid 7001)"),
    ]
    assert "2 x free at (no stack) in 2.ljt (pid 7002)" in steve("findings", "1.ljt", "2.ljt").out
    csv = steve("findings", "1.ljt", "2.ljt", "--csv").out
    assert csv.startswith("finding,process,blocks,") and "double_free,2.ljt (pid 7002)," in csv


def folded(text: str) -> dict[str, int]:
    """The sums of a folded file by stack."""
    return {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in text.splitlines())}


@pytest.mark.parametrize("metric", ("alloc_space", "inuse_objects", "peak_space", "loads"))
def test_exports_are_sums(steve: Steve, trace: Maker, metric: str) -> None:
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(3)]
    how = ("export", "--format", "folded", "--metric", metric, "-o", "-")
    found: dict[str, int] = defaultdict(int)
    for file in files:
        for stack, value in folded(steve(*how, file).out).items():
            found[stack] += value
    assert found and folded(steve(*how, *files).out) == found


@pytest.mark.parametrize("form", ("pprof", "speedscope", "callgrind", "csv"))
def test_an_export_of_two_equal_files(steve: Steve, trace: Maker, tmp_path: Path, form: str) -> None:
    """has the stacks of one; its numbers are twice those."""
    files = [trace(random_trace(1), f"{name}.ljt").name for name in "ab"]
    sizes = []
    for inputs in (files[:1], files):
        done = steve("export", "--format", form, *inputs, "-f", "-o", "result")
        assert done.returncode == 0, done.err
        sizes.append((tmp_path / "result").stat().st_size)
    assert sizes[0] < 1.3 * sizes[1] < 2 * sizes[0]


def widths(text: str) -> dict[str, int]:
    """The widths of the frames of a flame graph by name, in its unit."""
    found: dict[str, int] = defaultdict(int)
    for name, number in re.findall(r"<title>([^<]*): (?:[^<(]* \()?([0-9,]+) (?:bytes|samples)\)?,", text):
        found[name] += int(number.replace(",", ""))
    return found


def test_flame_graphs_are_sums(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    files = [trace(random_trace(seed), f"{seed}.ljt").name for seed in range(3)]
    for number, name in enumerate(files):
        steve("export", "--format", "folded", name, "-o", f"{number}.folded")
    for inputs in (files, ["0.folded", "1.folded", "2.folded"]):
        expected: dict[str, int] = defaultdict(int)
        for one in ([name] for name in inputs):
            for name, width in widths(steve("flame", *one, "-o", "-").out).items():
                expected[name] += width
        assert expected["all"] and widths(steve("flame", *inputs, "-o", "-").out) == expected
    assert "name it with -o" in steve("flame", *files).err
    assert "draw them apart" in steve("flame", files[0], "0.folded", "-o", "x.svg").err


def test_page_of_processes_that_went_on(steve: Steve, trace: Maker, tmp_path: Path) -> None:
    """What lives at a detach is not called never freed; of Lua, it may be garbage."""
    for heap, said in (
        ("", "allocates 97.7 KiB in 100 blocks that were not freed before the recording ended"),
        (
            "heap 0x77 lua\n",
            "has 97.7 KiB in 100 blocks that live at the end: still held, or garbage of Lua not yet collected",
        ),
    ):
        for name in ("a.ljt", "b.ljt"):
            news = "".join(f"N {0x10000 + 4096 * i} 1000 1 {int(bool(heap))}\n" for i in range(50))
            trace(f"{heap}stack main@w.c:1 keep@w.c:20\nthread 1\n{news}end detached\n", name)
        done = steve("report", "--processes", "a.ljt", "b.ljt", "-q", "-f", "-o", "p.html")
        assert done.returncode == 0, done.err
        page = " ".join(" ".join(checked_page(tmp_path / "p.html").text).split())
        assert f"keep (w.c:20) {said} (100.0% of the peaks)." in page and "that are never freed (" not in page
        assert ("not freed before the recording ended, with garbage of Lua" in page) == bool(heap)


def test_page_of_processes(steve: Steve, workers: list[str], tmp_path: Path) -> None:
    """It says which worker leaks, and which line in all of them, with the numbers of the commands."""
    done = steve("report", "w")
    assert done.returncode == 0 and "wrote w.html" in done.err
    page = " ".join(checked_page(tmp_path / "w.html").text)
    page = " ".join(page.split())
    assert "keep (w.c:20) allocates 600 B in 6 blocks that are never freed (14.1% of the peaks)." in page
    assert "in 3 processes, most in nginx.7003.ljt (50%)" in page
    names = re.findall(r"(nginx\.\d+\.ljt) [0-9.]+ K?i?B", page)
    assert names[:WORKERS] == [f"nginx.{7000 + n}.ljt" for n in reversed(range(WORKERS))]
    svg = [
        base64.b64decode(text).decode()
        for text in re.findall('svg[+]xml;base64,([^"]*)', (tmp_path / "w.html").read_text())
    ]
    assert [widths(one)["all"] for one in svg] == [4 * 1064, 4 * 1064 + 600] and widths(svg[1])["keep"] == 600
    assert steve("report", *workers, "-o", "w2.html").returncode == 0
    assert steve("report", *workers[:2], "--processes", "-o", "two.html").returncode == 0
    assert "Heap report of 2 processes" in (tmp_path / "two.html").read_text()
    assert steve("report", workers[0], "-o", "w.html").returncode == 2, "it is the page of others"


def test_pages_of_processes_that_are_refused(steve: Steve, workers: list[str]) -> None:
    for arguments, said in (
        (("w", "w"), "`steve diff` compares two folders"),
        (workers, "name it with -o"),
        (("w", "--json"), "`steve findings --json` have the numbers"),
        ((*workers, "-o", "x.svg"), "the report is a page of HTML"),
        ((*workers, "-", "-o", "x.html"), "none may be a pipe"),
    ):
        done = steve("report", *arguments)
        assert done.returncode == 2 and said in done.err, done.err


def test_formats_of_one_process(steve: Steve, workers: list[str]) -> None:
    done = steve("export", "--format", "massif", "w", "-o", "x")
    assert (
        done.returncode == 2 and "takes one FILE; pprof, folded, speedscope, callgrind, csv add up several" in done.err
    )
    assert "name it with -o" in steve("export", "--format", "csv", "w").err


def test_commands_that_read_one_file_say_so(steve: Steve, workers: list[str]) -> None:
    for inputs, status in ((["w"], 1), (workers, 2)):
        done = steve("universe", *inputs)
        assert done.returncode == status and "`steve universe` reads one file" in done.err
        assert "are read by summary, findings, sites, " in done.err


def test_what_children_inherited(steve: Steve, trace: Maker) -> None:
    """It counts in each process, which headings say unless it is left out."""
    trace("info pid 1\nN 4096 64\nend exit\n", "1.ljt")
    trace("info pid 2\ninfo forked_from_pid 1\nN 4096 64\nN 8192 32\nend exit\n", "2.ljt")
    said = "blocks that a child inherited count in each process; --where 'not inherited' leaves them out)"
    for command in ("sites", "summary", "temporaries"):
        assert said in steve(command, "1.ljt", "2.ljt").out.splitlines()[0]
    for arguments in (("leaks",), ("findings",), ("sites", "--where", "not inherited")):
        assert said not in steve(*arguments, "1.ljt", "2.ljt").out.splitlines()[0]


def test_page_of_a_process_and_its_child(steve: Steve, trace: Maker) -> None:
    """They are one program; two recordings of it are not. The trace of a child begins with the facts of its parent."""
    parents, time = "info pid 1\ninfo start_unix_seconds 100\nN 4096 64\n", "info start_unix_seconds 100\n"
    trace(f"{parents}end exit\n", "parent.ljt", 1)
    trace(f"{parents}N 8192 64\ninfo pid 2\ninfo forked_from_pid 1\nN 12288 32\nend exit\n", "child.ljt", 1)
    trace(f"{parents}N 8192 64\ninfo pid 3\ninfo forked_from_pid 1\nN 12288 32\nend exit\n", "other.ljt", 1)
    trace(f"info pid 7\n{time}N 4096 640\nend exit\n", "again.ljt", 1)
    for second, is_one in (("child.ljt", True), ("again.ljt", False), ("other.ljt", True)):
        done = steve("report", "child.ljt" if second == "other.ljt" else "parent.ljt", second, "-o", "page.html", "-f")
        assert done.returncode == 0, done.err
        assert ("both traces are of one program's processes" in done.err) == is_one, second
        assert ("<h1>What changed" in (steve.folder / "page.html").read_text()) != is_one, second


def test_page_of_workers_that_were_attached_to_at_the_same_time(steve: Steve, trace: Maker) -> None:
    """They are one program. What was recorded later, or of another command, is compared, and so are all with --changes."""

    def worker(name: str, pid: int, start: int, more: str = "command serve\ninfo attached yes") -> None:
        facts = f"info pid {pid}\ninfo start_unix_seconds {start}\ninfo executable /bin/serve\ninfo {more}\n"
        trace(f"{facts}N 4096 64\nend detached\n", name)

    worker("a.ljt", 1, 100)
    worker("beside.ljt", 2, 101)
    worker("later.ljt", 3, 200)
    worker("other.ljt", 4, 100, "command serve --fast\ninfo attached yes")
    worker("run.ljt", 5, 100, "command serve")
    worker("again.ljt", 1, 100)
    for second, is_one in (("beside", True), ("later", False), ("other", False), ("run", False), ("again", False)):
        done = steve("report", "a.ljt", f"{second}.ljt", "-o", "page.html", "-f")
        assert done.returncode == 0, done.err
        assert ("both traces are of one program's processes; --changes" in done.err) == is_one, second
        assert ("<h1>What changed" in (steve.folder / "page.html").read_text()) != is_one, second
    done = steve("report", "--changes", "a.ljt", "beside.ljt", "-o", "page.html", "-f")
    assert "one program" not in done.err and "<h1>What changed" in (steve.folder / "page.html").read_text()
    assert steve("report", "--changes", "--processes", "a.ljt", "beside.ljt").returncode == 2
    for files in (["a.ljt"], ["a.ljt", "beside.ljt", "run.ljt"], ["."]):
        done = steve("report", "--changes", *files, "-o", "page.html", "-f")
        assert done.returncode == 2 and "--changes compares two traces" in done.err


def test_sentences_name_lines_that_are_approximate() -> None:
    rule = {"finding": "growth", "sites": []}
    lines = [Line("f (a.lua:1)", Counter(bytes=5000, blocks=3), Counter({"a.ljt": 5000}))]
    totals, ends = {"peak_live": 10000, "allocated": 20000}, Ends(set(), False)
    for approximate in (set(), {"f (a.lua:1)"}):
        (found,) = sentences_of([Found(rule, lines)], totals, ends, approximate)
        assert found.line == "f (a.lua:1)"
        assert found.text.startswith("or what runs after it (see below) ") == bool(approximate), found


def test_page_says_whose_end_is_missing(steve: Steve, trace: Maker) -> None:
    """A page is sent alone: it says which process is not complete, and why."""
    for name in "ab":
        trace(f"info pid {ord(name)}\nN 4096 64\nend exit\n", f"{name}.ljt")
    whole = trace("info pid 7\nN 4096 16\nflush\nN 8192 16\nend exit\n", "c.ljt").read_bytes()
    (steve.folder / "c.ljt").write_bytes(whole[:-30])
    steve("report", "a.ljt", "b.ljt", "c.ljt", "-o", "page.html")
    page = (steve.folder / "page.html").read_text()
    (why,) = re.findall(r"<li>c\.ljt \(pid 7\): (.*?)</li>", page)
    assert why.startswith("cut off at offset") and page.count("<li>c.ljt") == 1 and "<li>a.ljt" not in page
    (ended,) = re.findall(r"<td>c\.ljt \(pid 7\)</td>.*?([^>]*)</td></tr>", page)
    assert ended.endswith(", not complete") and page.count(", not complete") == 1


def test_page_of_processes_whose_lua_states_were_closed(steve: Steve, trace: Maker) -> None:
    """Nothing of Lua is left, so none of what lives can be garbage of Lua."""
    script = "info pid {}\nheap 0x77 lua\nN 0x4000 10 0 1\n{}N 0x5000 64\nend exit\n"
    for closed in (True, False):
        for pid in (1, 2):
            trace(script.format(pid, "F 0x4000 0 1\n" if closed else ""), f"{pid}.ljt")
        assert steve("report", "1.ljt", "2.ljt", "--processes", "-f", "-o", "page.html").returncode == 0
        assert ("with garbage of Lua" in (steve.folder / "page.html").read_text()) != closed


def test_samples_of_one_rate(steve: Steve, trace: Maker) -> None:
    """Estimates add up, and so do their variances; what is sampled otherwise is refused."""
    sample = "info sample_mean 1000\ninfo sample_seed 1\nstack main f\nN 4096 100 1\nend exit\n"
    files = [trace(sample, f"{name}.ljt").name for name in "ab"]
    trace("stack main f\nN 4096 100 1\nend exit\n", "whole.ljt")
    alone = [rows_of(steve, "sites", file)[0] for file in files]
    (both,) = rows_of(steve, "sites", *files)
    assert both["bytes"] == sum(row["bytes"] for row in alone) > 200
    error = sum(row["standard_errors"]["bytes"] ** 2 for row in alone) ** 0.5
    assert both["standard_errors"]["bytes"] == pytest.approx(error, abs=0.2)
    summary = json.loads(steve("summary", "--json", *files).out)
    assert summary["sample_mean"] == 1000
    assert summary["standard_errors"]["bytes"]["allocated"] == pytest.approx(error, abs=0.2)
    for inputs in (["a.ljt", "whole.ljt"], ["whole.ljt", "a.ljt"]):
        done = steve("sites", *inputs)
        assert done.returncode == 1 and "is sampled otherwise than the files before it" in done.err


# what is read by workers, a file by each or a part of one: lists, and what is made of several of them
BY_WORKERS = [
    *((command,) for command in LISTS),
    ("summary",),
    ("findings",),
    ("globals",),
    ("workingset", "--by=process"),
]


@pytest.mark.parametrize("files", ((0, 1), (0, 1, 2, 3)), ids=("parts", "files"))
@pytest.mark.parametrize("command", BY_WORKERS, ids=lambda command: command[0])
def test_workers_of_steve_give_the_same(
    steve: Steve, trace: Maker, command: tuple[str, ...], files: tuple[int, ...]
) -> None:
    """Of two files of which one is the larger one, a worker reads a part; of four, a file."""
    names = [trace(random_trace(seed), f"{seed}.ljt", 50).name for seed in files]
    sizes = [(steve.folder / name).stat().st_size for name in names]
    assert several.is_balanced(sizes, 2) == (len(files) == 4)
    form = ["--json"] if len(files) == 2 else []  # a table has the heading, too
    done, alone = (steve(*command, *names, *how, *form) for how in (("-j", "2"), ()))
    assert (done.out, done.err, done.returncode) == (alone.out, alone.err, alone.returncode) and alone.out


@pytest.mark.parametrize("by", ("stack", "line,process", "process", "type"))
def test_workers_tell_apart(steve: Steve, workers: list[str], by: str) -> None:
    alone = steve("sites", "w", "--by", by)
    assert steve("sites", "w", "--by", by, "-j", "2").out == alone.out != ""


def test_workers_report_what_is_wrong(steve: Steve, workers: list[str], tmp_path: Path) -> None:
    """in the order of the files."""
    for name in workers[1], workers[3]:
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-40])
    done, alone = (steve("leaks", "w", *how) for how in (("-j", "2"), ()))
    assert (done.out, done.err, done.returncode) == (alone.out, alone.err, 1) and workers[3] in done.err
    (tmp_path / workers[2]).write_bytes(b"nothing of a trace" * 100)
    done = steve("leaks", "w", "-j", "2")
    assert done.returncode == 1 and done.err.splitlines()[-1].startswith(f"steve leaks: {workers[2]}: ")


def ends(found: Joined, chosen: Blocks) -> None:
    """Ends the process in the place of an analysis, if the file is that of the third worker."""
    if "7002" in chosen.args.file:
        os._exit(1)
    add_sums(found, chosen)


def test_a_worker_that_is_killed(workers: list[str], tmp_path: Path) -> None:
    args = Command("sites").parser.parse_args(["-j2", "-q", *(str(tmp_path / name) for name in workers)])
    with pytest.raises(SteveError, match="or one of the files after it: a worker process was killed"):
        several.Files("sites", args).collect(partial(Joined, args), ends)


def test_states_of_several_machines(steve: Steve, trace: Maker) -> None:
    """A state is one row, whatever the numbers of heaps are; times of two units are no sum."""
    one = "heap 0x10 lua\ntime 10\nstate 1 2\nN 4096 8 0 1\ntime 40\nstate 1 0\nN 8192 8 0 1\ntime 50\nend exit\n"
    trace(one, "a.ljt"), trace(
        "heap 0x20 malloc\n" + one.replace("heap 0x10", "heap 0x30").replace("state 1", "state 2"), "b.ljt"
    )
    alone = [rows_of(steve, "states", file) for file in ("a.ljt", "b.ljt")]
    both = {row["state"]: row for row in rows_of(steve, "states", "a.ljt", "b.ljt")}
    for state, row in both.items():
        assert row["instructions"] == sum(r["instructions"] for rows in alone for r in rows if r["state"] == state)
        assert row["heap"] is None and row["trace"] is None
    assert sum(row["share"] for row in both.values()) == pytest.approx(100, abs=0.1)
    trace("info time_unit nanoseconds\n" + one, "c.ljt")
    assert "have times in instructions and in nanoseconds" in steve("states", "a.ljt", "c.ljt").err
