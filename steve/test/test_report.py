"""steve report: its numbers against a simple reference and against `steve summary`, and the page itself.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from allocstats_files import record, series, write
from conftest import BUILD, Steve, examples, make_trace
from histories import histories
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from steve.allocstats.parse import read_allocstats
from steve.allocstats.result import fragmentation
from steve.report.sentences import SAID, _chosen

MKLOAD = Path(BUILD) / "steve" / "test" / "mkload"
VOID = {"meta", "input", "img", "br", "link", "hr"}
STACKS = "stack main f malloc\nstack main g malloc\nstack main h lj_alloc\n"


class Page(HTMLParser):
    """An HTML parser that checks that tags are balanced, and collects the page's references and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.references: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = dict(attrs)
        self.references += [values[key] or "" for key in ("src", "href", "xlink:href", "data") if key in values]
        self.ids += [values["id"] or ""] if "id" in values else []
        assert not [key for key in values if key.startswith("on")], "no handlers in attributes"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["script"]:
            self.text.append(data)


def checked_page(path: Path) -> Page:
    """The page, after a check that it is complete and self-contained."""
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>") and len(text.encode()) <= 5 << 20
    outside = [
        r for r in page.references if not r.startswith(("#", "data:image/jpeg;base64,", "data:image/svg+xml;base64,"))
    ]
    assert not outside and "@import" not in text and "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    places = set(r[1:].partition(":")[0] for r in page.references if r.startswith("#"))  # #explore:... is a view
    assert places <= set(page.ids)
    return page


# -- numbers -----------------------------------------------------------------------------------


class Block:
    """A live block of the reference."""

    def __init__(self, size: int, born: int, stack: int) -> None:
        self.size, self.born, self.stack = size, born, stack
        self.reads = self.writes = self.bytes_read = self.bytes_written = 0


class Reference:
    """The report's numbers, counted one event at a time. Stacks are numbered as in the scripts below."""

    def __init__(self) -> None:
        self.live: dict[int, Block] = {}
        self.count: Counter[str] = Counter()
        self.sites: dict[int, Counter[str]] = {}
        self.lifetimes = [Counter(), Counter()]
        self.operation = self.peak = self.most_blocks = 0
        self.at_peak: dict[int, int] = {}

    def site(self, stack: int) -> Counter[str]:
        return self.sites.setdefault(stack, Counter())

    def end(self, block: Block, life: int) -> None:
        site = self.site(block.stack)
        for key in ("reads", "writes", "bytes_read", "bytes_written"):
            site[key] += getattr(block, key)
        for key, accesses in (("unread", block.reads), ("unwritten", block.writes)):
            site[f"{key}_blocks"] += accesses == 0
            site[f"{key}_bytes"] += 0 if accesses else block.size
        self.lifetimes[0][life] += 1
        self.lifetimes[1][life] += block.size

    def peaked(self) -> None:
        self.most_blocks = max(self.most_blocks, len(self.live))
        total = sum(block.size for block in self.live.values())
        if total > self.peak:
            self.peak = total
            self.at_peak = dict(Counter())
            for block in self.live.values():
                self.at_peak[block.stack] = self.at_peak.get(block.stack, 0) + block.size

    def new(self, addr: int, size: int, stack: int) -> None:
        self.live[addr] = Block(size, self.operation, stack)
        self.site(stack)["blocks"] += 1
        self.count_bytes(size, stack)

    def count_bytes(self, size: int, stack: int) -> None:
        self.count["allocated"] += size
        self.site(stack)["bytes"] += size
        self.peaked()

    def free(self, addr: int) -> None:
        block = self.live.pop(addr)
        site = self.site(block.stack)
        site["frees"] += 1
        site["lifetimes"] += self.operation - block.born
        self.count["freed"] += block.size
        self.end(block, (self.operation - block.born).bit_length() - 1)

    def resize(self, old: int, addr: int, size: int, stack: int) -> None:
        block = self.live.pop(old)
        self.count["freed"] += block.size
        block.size, block.stack = size, stack
        self.live[addr] = block
        self.site(stack)["resizes"] += 1
        self.count_bytes(size, stack)

    def access(self, letter: str, addr: int, size: int) -> bool:
        owner = next((b for a, b in self.live.items() if a <= addr < a + b.size), None)
        if owner is None:
            return False
        owner.reads += letter != "S"
        owner.writes += letter != "L"
        owner.bytes_read += size if letter != "S" else 0
        owner.bytes_written += size if letter != "L" else 0
        return True


def script_and_reference(history: list[Any], stacks: list[int]) -> tuple[str, Reference]:
    """A mktrace script of a random history, and the numbers that the report must have for it."""
    lines, reference = [STACKS.rstrip(), "thread 1"], Reference()
    for event, stack in zip(history, stacks):
        happened = True
        if event.letter == "N":
            lines.append(f"N {event.addr} {event.size} {stack}")
            reference.new(event.addr, event.size, stack)
        elif event.letter == "F":
            happened = event.addr in reference.live
            lines.append(f"F {event.addr} {stack}")
            if happened:
                reference.free(event.addr)
        elif event.letter == "R":
            lines.append(f"R {event.old} {event.addr} {event.size} {stack}")
            if event.old in reference.live:
                reference.resize(event.old, event.addr, event.size, stack)
            else:
                reference.new(event.addr, event.size, stack)
        else:
            lines.append(f"{event.letter} {event.addr} {event.size}")
            happened = reference.access(event.letter, event.addr, event.size)
        reference.operation += happened
    for block in reference.live.values():
        reference.end(block, 64)
    return "\n".join(lines + ["end exit"]) + "\n", reference


def compare_sites(answer: dict[str, Any], reference: Reference) -> None:
    found = {}
    for site in answer["sites"]:
        found[1 + ("f", "g", "h").index(site["frames"][0]) if site["frames"] else 0] = site
    used = {stack for stack, tally in reference.sites.items() if tally["bytes"] or tally["blocks"]}
    assert set(found) == used
    for stack in used:
        expected = reference.sites[stack]
        for key in (
            "blocks",
            "resizes",
            "bytes",
            "frees",
            "reads",
            "writes",
            "bytes_read",
            "bytes_written",
            "unread_blocks",
            "unread_bytes",
            "unwritten_blocks",
            "unwritten_bytes",
            "lifetimes",
        ):
            assert found[stack][key] == expected[key], (stack, key)
        assert found[stack]["live_bytes"] == sum(b.size for b in reference.live.values() if b.stack == stack)
        assert found[stack]["peak_bytes"] == reference.at_peak.get(stack, 0)


@examples(40, HealthCheck.function_scoped_fixture)
@given(history=histories(), data=st.data())
def test_numbers_equal_the_plain_reference(tmp_path: Path, steve: Steve, history: list[Any], data: Any) -> None:
    stacks = data.draw(st.lists(st.integers(1, 3), min_size=len(history), max_size=len(history)))
    script, reference = script_and_reference(history, stacks)
    make_trace(tmp_path / "t.ljt", script, data.draw(st.sampled_from((0, 7))))
    result = steve("report", "t.ljt", "--json", "-q")
    assert result.returncode == 0, result.err
    answer = json.loads(result.out)
    totals = answer["totals"]
    assert totals["operations"] == reference.operation
    assert (totals["peak_bytes"], totals["most_blocks"]) == (reference.peak, reference.most_blocks)
    assert (totals["allocated"], totals["freed"]) == (reference.count["allocated"], reference.count["freed"])
    for kind, bins in zip(("blocks", "bytes"), reference.lifetimes):
        assert answer["lifetimes"][kind] == [bins[k] for k in range(65)]
    compare_sites(answer, reference)


def busy_script(n: int) -> str:
    """A trace with growth, a peak, temporaries and blocks with all kinds of lives."""
    lines = [
        "info command luajit app.lua --fast",
        "info pid 4711",
        "heap 0x7f001000 lua",
        STACKS.rstrip(),
        "thread 1",
    ]
    for i in range(n):
        addr = 0x100000 + i * 0x1000
        lines += [f"time {i * 50}", f"N {addr} {16 + i * 7 % 3000} {1 + i % 3} {i % 2}"]
        lines += [f"S {addr} 8", f"L {addr} 8"] * (i % 4) + [f"M {addr} 4"] * (i % 3 == 0)
        lines += [f"F {addr - 0x4000} {1 + i % 3} {i % 2}"] if i % 3 and i > 4 else []
        lines += ["mark half"] if i == n // 2 else []
    return "\n".join(lines + ["end exit"]) + "\n"


def test_numbers_equal_the_summary(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(busy_script(3000))
    report = json.loads(steve("report", "t.ljt", "--json").out)
    assert steve("report", "t.ljt", "--json", "-o", "numbers.json").out == ""
    assert json.loads((steve.folder / "numbers.json").read_text()) == report
    summary = json.loads(steve("summary", "t.ljt", "--json").out)
    totals = report["totals"]
    assert {name: totals[name] for name in summary["events"]} == summary["events"]
    assert summary["bytes"] == {
        "allocated": totals["allocated"],
        "freed": totals["freed"],
        "peak_live": totals["peak_bytes"],
        "live_at_end": totals["live_bytes"],
        "read": totals["bytes_read"],
        "written": totals["bytes_written"],
    }
    assert summary["blocks"] == {
        "total": totals["new"],
        "peak_live": totals["most_blocks"],
        "live_at_end": totals["live_blocks"],
    }
    assert summary["complete"] == report["complete"] is True
    assert sum(heap["bytes"] for heap in report["heaps"]) == totals["allocated"]


def test_timeline_is_bounded_and_keeps_the_peak(steve: Steve, trace: Callable[..., Path]) -> None:
    lines = [f"N {0x1000 + i * 16} 16\nF {0x1000 + i * 16}" for i in range(2000)]
    lines[777] = "N 0x90000000 1000000\nF 0x90000000"
    trace("thread 1\n" + "\n".join(lines) + "\nend exit\n")
    assert steve("report", "t.ljt", "-o", "r.html").returncode == 0
    page = checked_page(steve.folder / "r.html")
    text = " ".join(page.text)
    assert "peak 977 KiB" in text and "operation 1,554" in text
    assert len(re.findall(r"at most 977 KiB in 1 block;", text)) == 3, "one interval in each of the drawings"


# -- the page ----------------------------------------------------------------------------------


def test_all_marks_are_lines_below_the_peak(steve: Steve, trace: Callable[..., Path]) -> None:
    """The text of the peak is drawn after them, so that they do not cross it."""
    lines = [line for i in range(1, 41) for line in (f"N {4096 * i} 100 1", f"mark m{i}")]
    trace("\n".join(["stack main", *lines, "end exit"]) + "\n")
    assert steve("report", "t.ljt", "-o", "page.html", "-q").returncode == 0
    page = (steve.folder / "page.html").read_text()
    chart = next(svg for svg in re.findall(r"<svg.*?</svg>", page, re.S) if "peaktext" in svg)
    assert chart.count('class="mark"') == 40
    assert chart.rindex('class="mark"') < chart.index("peaktext") and "only the first" not in page


def test_marks_that_are_left_out_are_counted(steve: Steve, trace: Callable[..., Path]) -> None:
    """In the text of both pages; --json has the number of all marks."""
    lines = [line for i in range(1, 151) for line in (f"N {4096 * i} 100 1", f"mark m{i}")]
    trace("\n".join(["stack main", *lines, "end exit"]) + "\n")
    assert steve("report", "t.ljt", "-o", "page.html", "-q").returncode == 0
    page = (steve.folder / "page.html").read_text()
    assert page.count("Of 150 marks, only the first 100 are shown.") == 1
    assert json.loads(steve("report", "--json", "t.ljt").out)["totals"]["marks"] == 150
    assert steve("report", "t.ljt", "t.ljt", "-o", "changes.html", "-q").returncode == 0
    page = (steve.folder / "changes.html").read_text()
    assert [f"Of 150 marks of {side}, only the first 100 are known here." in page for side in "AB"] == [True, True]


def test_page_with_everything(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(busy_script(3000))
    files = [write(steve.folder, name, series(120, k + 1)) for k, name in enumerate(("glibc", "mimalloc", "own"))]
    result = steve("report", "t.ljt", "-o", "r.html", "--allocstats", *files)
    assert result.returncode == 0, result.err
    page = checked_page(steve.folder / "r.html")
    text = " ".join(page.text)
    for words in (
        "luajit app.lua --fast",
        "process 4711",
        "Complete.",
        "Memory over time",
        "Lifetimes",
        "Size and lifetime",
        "Lua state 0x7f001000",
        "Never accessed:",
        "Never freed:",
        "by guest instructions",
        "mimalloc",
        "Speed",
        "Space",
        "never freed",
    ):
        assert words in text, words
    assert page.tags["svg"] >= 10 and {"f", "g", "h"} <= {part.strip() for part in page.text}
    summary = json.loads(steve("summary", "t.ljt", "--json").out)
    raw = (steve.folder / "r.html").read_text()
    assert f'title="{summary["bytes"]["peak_live"]:,} bytes"' in raw
    assert f'title="{summary["blocks"]["total"]:,}"' in raw


def test_comparison_of_allocators(steve: Steve, trace: Callable[..., Path]) -> None:
    """Passes with their spread, fragmentation as a number and as a curve. A file without them has dashes."""
    trace(busy_script(50))
    full = [record(i, used=1000 if i < 90 else 1, resident=1500 if i else 4000) for i in range(100)]
    known = {"replay_time_per_op": 20.0, "replay_times_per_op": [25.0, 20.0, 22.0], "fragmentation_1": 47.5}
    files = [write(steve.folder, "glibc", full, **known), write(steve.folder, "plain", series(100, 3))]
    result = steve("report", "t.ljt", "-o", "r.html", "--allocstats", *files)
    assert result.returncode == 0, result.err
    text = " ".join(checked_page(steve.folder / "r.html").text)
    assert "20.0 ns" in text and "25.0 %" in text and "47.5 %" in text and "–" in text
    assert "Resident beyond live bytes, percent" in (steve.folder / "r.html").read_text()
    stats = read_allocstats(files[0])
    assert [fragmentation(stats)[i] for i in (0, 50, 99)] == [300.0, 50.0, 149900.0]
    assert "300 %" in text and "000 %" not in text  # the scale fits the largest live size
    bare = write(steve.folder, "bare", [record(i) for i in range(5)])
    assert fragmentation(read_allocstats(bare)) is None


def test_hostile_names_stay_text(steve: Steve, trace: Callable[..., Path]) -> None:
    evil = '</title><script>alert(1)</script>"onload="x'
    trace(
        f"info command {evil}\ninfo {evil[:8]} {evil}\nstack main {evil} malloc\nthread 1\n"
        f"N 4096 2000 1\nmark {evil}\nL 4096 8\nend exit\n",
        "<evil>.ljt",
    )
    assert steve("report", "<evil>.ljt", "-o", "r.html").returncode == 0
    page = checked_page(steve.folder / "r.html")
    assert page.tags["script"] == 2, "only the page's own, and its data"
    assert any("alert(1)" in text for text in page.text)


def test_page_is_capped(steve: Steve, trace: Callable[..., Path]) -> None:
    deep = [" ".join(f"function_{i}_{k}_" + "x" * 140 for k in range(20)) for i in range(1200)]
    lines = ["thread 1"] + [f"stack {names}" for names in deep]
    lines += [f"N {0x1000 * (i + 1)} 2048 {i + 1}" for i in range(1200)]
    trace("\n".join(lines + ["end exit"]) + "\n")
    assert steve("report", "t.ljt", "-o", "r.html", "--sites", "1200").returncode == 0
    page = checked_page(steve.folder / "r.html")
    assert "of 1,200" in " ".join(page.text)


def test_small_and_empty_traces(steve: Steve, trace: Callable[..., Path]) -> None:
    for script in (
        "end exit\n",
        "thread 1\nN 4096 1\nend exit\n",
        "thread 1\nN 4096 0\nF 4096\nend killed\n",
    ):
        trace(script)
        result = steve("report", "t.ljt", "-o", "r.html")
        assert result.returncode == 0, result.err
        checked_page(steve.folder / "r.html")


def test_classic_text(steve: Steve) -> None:
    (steve.folder / "memtrace").write_text(
        "noise\n>>> N 4096 100\n>>> S 4100 4\n>>> L 4100 4\n>>> N 9000 7\n>>> F 4096 0\n"
    )
    assert steve("report", "memtrace", "-o", "r.html").returncode == 0
    text = " ".join(checked_page(steve.folder / "r.html").text)
    assert "classic text" in text and "by guest instructions" not in text and "no stack recorded" in text


def test_heap_events_only(steve: Steve, trace: Callable[..., Path]) -> None:
    trace("thread 1\nN 4096 5000\nF 4096\nN 4096 70\nend exit\n")
    assert steve("report", "t.ljt", "-o", "r.html").returncode == 0
    text = " ".join(checked_page(steve.folder / "r.html").text)
    assert "Never freed" in text and "Never accessed" not in text and "holds no accesses" in text
    assert "never read" not in text


def test_cut_trace_is_reported_up_to_the_cut(steve: Steve, trace: Callable[..., Path]) -> None:
    whole = trace(busy_script(3000), chunk_events=1000)
    data = whole.read_bytes()
    (steve.folder / "cut.ljt").write_bytes(data[: len(data) * 2 // 3])
    result = steve("report", "cut.ljt", "-o", "r.html")
    assert result.returncode == 1 and "cut.ljt" in result.err and "Traceback" not in result.err
    text = " ".join(checked_page(steve.folder / "r.html").text)
    assert "Not complete." in text
    report = json.loads(steve("report", "cut.ljt", "--json").out)
    summary = json.loads(steve("summary", "cut.ljt", "--json").out)
    assert report["totals"]["new"] == summary["events"]["new"] > 100 and report["complete"] is False


def test_standard_output(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(busy_script(100))
    result = steve("report", "t.ljt", "-o", "-")
    assert result.returncode == 0 and result.out.startswith("<!DOCTYPE html>")


def test_bad_input(steve: Steve, trace: Callable[..., Path], no_leftovers: Callable[[], list[str]]) -> None:
    trace(busy_script(50))
    (steve.folder / "foreign").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(500))
    other = write(steve.folder, "a", [record(0)], ops="x-ops"), write(steve.folder, "b", [record(0)], ops="y-ops")
    cases = [
        (("missing.ljt",), 1, "missing.ljt"),
        (("foreign",), 1, "foreign"),
        ((), 2, "usage"),
        (("t.ljt", "-o", "no/folder/r.html"), 1, "no/folder"),
        (("t.ljt", "--sites", "-3"), 2, "--sites"),
        (("t.ljt", "--allocstats", "foreign"), 1, "foreign: line 1"),
        (("t.ljt", "--film", "none.avi"), 1, "none.avi"),
        (("t.ljt", "--allocstats", *other), 1, "different programs"),
        (("t.ljt", "--film", "foreign"), 1, "foreign"),
    ]
    for arguments, status, message in cases:
        result = steve("report", *arguments)
        assert (result.returncode, message in result.err) == (status, True), (arguments, result.err)
        assert "Traceback" not in result.err
    assert not no_leftovers() and not (steve.folder / "report.html").exists()


def test_every_event_of_many_batches_is_counted(steve: Steve, tmp_path: Path) -> None:
    """The bins of the timeline end within segments, and nothing is lost there."""
    subprocess.run([MKLOAD, tmp_path / "t.ljt", "5000000", "500"], check=True)
    totals = json.loads(steve("report", "t.ljt", "--json").out)["totals"]
    events = json.loads(steve("summary", "t.ljt", "--json").out)["events"]
    assert {kind: totals[kind] for kind in events} == events
    assert totals["operations"] == sum(events.values()) >= 5_000_000


def test_findings_are_those_of_the_command(steve: Steve, trace: Callable[..., Path]) -> None:
    """The report finds the same as `steve findings`, rule by rule; what is kept until the last mark is a sentence of
    the page."""
    trace(busy_script(3000))
    of_report = json.loads(steve("report", "t.ljt", "--json").out)["findings"]
    rules = json.loads(steve("findings", "--json", "t.ljt").out)
    of_command = [row for row in rules if row.get("blocks") and row["finding"] != "kept"]
    assert {"never_touched", "low_utilisation", "never_freed"} <= {row["finding"] for row in of_report}
    assert of_report == [{key: row[key] for key in of_report[0]} for row in of_command]
    assert steve("report", "t.ljt", "-o", "r.html").returncode == 0
    text = " ".join(checked_page(steve.folder / "r.html").text)
    for row in of_report:
        assert f"{row['title']}: " in text and f"{row['blocks']:,} blocks" in text


def test_a_site_has_a_sentence_for_each_kind_of_trouble(steve: Steve, trace: Callable[..., Path]) -> None:
    """Blocks that are never freed and never accessed; what the C library made for itself has none."""
    lines = [
        "info trace_mem yes",
        "stack main@a.c:1 waste@a.c:5 malloc",
        "stack main@a.c:1 use@a.c:6 malloc",
        "thread 1",
    ]
    lines += [f"N {4096 * (i + 1)} 4000 1" for i in range(30)]
    lines += ["N 0x1000000 100 2", "S 0x1000000 100", "L 0x1000000 100", "F 0x1000000 2", "end exit"]
    trace("\n".join(lines) + "\n")
    assert steve("report", "t.ljt", "-o", "r.html").returncode == 0
    page = " ".join(" ".join(checked_page(steve.folder / "r.html").text).split())
    for said in ("are never freed (", "nothing ever accesses ("):
        assert f"waste (a.c:5) allocates 117 KiB in 30 blocks that {said}" in page


def test_an_attach_without_events_says_what_it_is(steve: Steve, trace: Callable[..., Path]) -> None:
    facts = "info recorder native\ninfo attached yes\ninfo time_unit nanoseconds\n"
    for more, words in (
        ("", "ljtrace attach --existing-blocks does that for C"),
        (
            "info universe now\n",
            "What Lua had before the attach is in the snapshot, which steve universe shows; ljtrace attach",
        ),
        ("info existing_blocks 0\ninfo existing_bytes 0\n", ""),
    ):
        trace(f"{facts}{more}thread 1\nend detached\n")
        assert steve("report", "t.ljt", "-q", "-f", "-o", "r.html").returncode == 0
        page = " ".join(" ".join(checked_page(steve.folder / "r.html").text).split())
        said = r"Nothing was allocated or freed( in [\d.]+ \S+)?: while it was recorded, the process was idle or used memory"
        assert re.search(said, page) and words in page and page.count("--existing-blocks") == bool(words)
    trace("thread 1\nend exit\n")
    assert steve("report", "t.ljt", "-q", "-f", "-o", "r.html").returncode == 0
    page = " ".join(checked_page(steve.folder / "r.html").text)
    assert re.search(r"Nothing was allocated or freed[^:]*: the recording has no block\.", page)


def test_garbage_that_waits_is_not_accused(steve: Steve, trace: Callable[..., Path]) -> None:
    """At a detach most of what lives in a Lua heap is garbage of the last lines. What grows comes first, and then what is sure;
    the words about garbage are true."""
    lines = [
        "info recorder native",
        "heap 0x77 lua",
        "stack main@a.lua:1 keep@s.lua:5",
        "stack main@a.lua:1 page@r.lua:9",
        "thread 1",
    ]
    live: list[int] = []
    for i in range(3000):
        lines += [f"time {i * 10}", f"N {0x100000 + i * 64} 150 1 1"] if i % 3 == 0 else []
        lines.append(f"N {0x900000 + i * 1024} 300 2 1")
        live.append(0x900000 + i * 1024)
        if i % 400 == 399:  # the collector
            lines += [f"F {addr} 2 1" for addr in live]
            live = []
    trace("\n".join([*lines, "end detached"]) + "\n")
    assert steve("report", "t.ljt", "-q", "-o", "r.html").returncode == 0
    page = " ".join(" ".join(checked_page(steve.folder / "r.html").text).split())
    grows = page.index("keep (s.lua:5) keeps more and more")
    waits = page.index(
        "page (r.lua:9) has 58.6 KiB in 200 blocks of Lua that live at the end: not yet collected, or still held ("
    )
    assert grows < waits and "that are never freed (" not in page
    assert (
        "in 1,200 blocks not freed before the recording ended, with garbage of Lua that was not yet collected" in page
    )
    of_c = "\n".join([*lines, "end detached"]).replace("heap 0x77 lua\n", "heap 0x77 custom\n")
    trace(of_c + "\n", "c.ljt")
    assert steve("report", "c.ljt", "-q", "-o", "c.html").returncode == 0
    page = " ".join(" ".join(checked_page(steve.folder / "c.html").text).split())
    assert "garbage of Lua" not in page and "not yet collected" not in page
    assert "in 200 blocks that were not freed before the recording ended (" in page


def test_the_path_of_a_sentence_is_the_programs(steve: Steve, trace: Callable[..., Path]) -> None:
    """Of C++, without the frames of its library at both ends; the section of findings has all of them."""
    trace(
        "stack std::thread::_Invoker::operator()@/usr/include/c++/12/bits/std_thread.h:9 work@server.cc:70 fill@server.cc:23 "
        "std::vector<int>::push_back@/usr/include/c++/12/bits/stl_vector.h:7\nthread 1\nN 4096 5000 1\nend exit\n"
    )
    assert steve("report", "t.ljt", "-q", "-o", "r.html").returncode == 0
    page = (steve.folder / "r.html").read_text()
    first = page.partition('<ol class="first"')[2].partition("</li>")[0]
    assert "<b>fill (server.cc:23)</b>" in first and ">fill (server.cc:23) ← work (server.cc:70)</span>" in first
    assert "stl_vector.h:7" in page.partition('id="findings"')[2]


def test_sentences_about_one_block() -> None:
    for key, rule in SAID.items():
        assert "4.88 KiB" in rule.text(5000, 1) and (
            "1 block" in rule.text(5000, 1) or key in ("pinned_pages", "held")
        ), key
        for words in ("that are", "that live ", "that die,", "to them", "they are"):
            assert words not in rule.text(5000, 1), key
    assert "1 object with its parts that lives at the end" in SAID["held"].text(5000, 1)
    assert SAID["idle_tail"].text(5000, 2) == "allocates 4.88 KiB in 2 blocks that are idle long before their end"
    assert SAID["idle_tail"].text(5000, 1) == "allocates 4.88 KiB in 1 block that is idle long before its end"


def test_what_grows_because_it_leaks_is_called_a_leak() -> None:
    """A site of which more than half of what was added leaks has no sentence on growth."""
    large, small, other = (SimpleNamespace(stack=stack) for stack in (1, 2, 3))
    data: Any = SimpleNamespace(of_runtime=(), of_collector=(), totals={"peak_bytes": 1000}, judged_bytes=1000)

    def found(key: str, *sites: tuple[object, int]) -> Any:
        return SimpleNamespace(key=key, sites=[(site, "line", 1, size, 0) for site, size in sites])

    leaked, growth = found("leaked", (large, 336), (small, 32)), found("growth", (large, 446), (other, 60))
    chosen = [(each.key, each.site.stack) for each in _chosen(data, [leaked, growth])]
    assert chosen == [("leaked", 1), ("growth", 3), ("leaked", 2)]
    chosen = [(each.key, each.site.stack) for each in _chosen(data, [found("leaked", (large, 100)), growth])]
    assert ("growth", 1) in chosen, "most of what was added does not leak"


def test_what_is_kept_until_the_last_mark(steve: Steve, trace: Callable[..., Path]) -> None:
    """It was made after the first mark, or since the beginning if there is one only."""
    script = "N 4096 70000\nmark begin\nN 0x100000 80000\nN 0x200000 90000\nmark begin\nF 0x200000\nmark begin\nN 0x200000 99999\n"
    for marks, kept in ((3, [80000]), (1, [70000, 80000]), (0, None)):
        first = (
            script
            if marks == 3
            else script.replace("mark begin\n", "", 2)
            if marks
            else script.replace("mark begin\n", "")
        )
        trace(f"{first}end exit\n")
        (rule,) = json.loads(steve("findings", "t.ljt", "--rules", "kept", "--json").out)
        assert rule["bytes"] == sum(kept or []) and rule["blocks"] == len(kept or [])
        assert (rule["not_judged"] or "").startswith("" if kept else "there is no mark; ljtrace.mark")
    trace(f"{script}end exit\n")
    text = steve("findings", "t.ljt", "--from", "begin").out
    assert "Kept until the last mark (--from and --to choose marks)" in text


def test_what_a_rule_could_not_judge_is_said(steve: Steve, trace: Callable[..., Path]) -> None:
    trace("N 4096 64\nend exit\n")
    why = "the run up to its last New (1 operation) is too short, or too small a part of the whole run"
    rows = {row["finding"]: row for row in json.loads(steve("findings", "--json", "t.ljt").out)}
    assert rows["growth"]["not_judged"] == why and rows["growth"]["blocks"] == 0
    assert rows["temporary_line"]["not_judged"] is None and rows["never_freed"]["not_judged"] is None
    text = steve("findings", "t.ljt", "--rules", "growth,temporary_line").out
    assert f"\nnot judged: Growing ({why})\n" in text and "\nfound nothing: Hot line of temporaries\n" in text
    not_searched = rows["leaked"]["not_judged"]
    assert not_searched == "the recorder did not search for pointers at the end"
    of_report = json.loads(steve("report", "t.ljt", "--json").out)["not_judged"]
    assert of_report == {"growth": why, "leaked": not_searched}
    assert steve("report", "t.ljt", "-o", "r.html").returncode == 0
    page = " ".join(checked_page(steve.folder / "r.html").text)
    assert f"Not judged by the rule “Growing”: {why}." in page
    assert f"Not judged by the rule “Leaked”: {not_searched}." in page
    trace("N 4096 64\nN 8192 64\nend exit\n", "u.ljt")
    text = steve("findings", "t.ljt", "u.ljt", "--rules", "growth").out
    assert f"\nnot judged: Growing ({why}; 1 other reason in other files: see steve findings u.ljt)\n" in text
    assert "other reason" not in steve("findings", "t.ljt", "t.ljt", "--rules", "growth").out


def test_lines_that_grow_though_none_of_their_sites_does(steve: Steve, trace: Callable[..., Path]) -> None:
    """Callers take turns, and each makes blocks in a third of the run only."""
    stacks = "".join(f"stack main caller@a.c:{n} leak@a.c:9\n" for n in range(3))
    news = [f"N {4096 * (n + 1):#x} 1000 {1 + n // 300}\n" for n in range(900)]
    trace(f"{stacks}{''.join(news)}end exit\n")
    text = steve("findings", "t.ljt", "--rules", "growth").out
    assert "no site grows, but the sites of 1 line together do" in text and "(leak (a.c:9): " in text
    assert "found nothing" not in text
    (rule,) = json.loads(steve("findings", "t.ljt", "--rules", "growth", "--by", "line", "--json").out)
    assert rule["bytes"] > 500_000 and rule["not_judged"] is None
    (rule,) = json.loads(steve("findings", "t.ljt", "--rules", "growth", "--by", "function", "--json").out)
    assert rule["bytes"] > 500_000 and rule["not_judged"] is None
    trace(f"{stacks}{''.join(news).replace('1000 1', '1000 2').replace('1000 3', '1000 2')}end exit\n")
    assert "together" not in steve("findings", "t.ljt", "--rules", "growth").out, "one site grows"


@functools.cache
def width_of(text: str) -> float:
    """The width of a label, in pixels for the page's font."""
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, size=12).get_extents().width


def label_spans(drawing: str) -> list[tuple[float, float]]:
    """The left and right ends of the labels below a plot."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for x, y, text in re.findall(
        r'<text class="label" x="([\d.]+)" y="([\d.]+)" text-anchor="middle">([^<]+)<', drawing
    ):
        half = width_of(text) / 2
        rows.setdefault(y, []).append((float(x) - half, float(x) + half))
    (spans,) = rows.values()
    return spans


@pytest.mark.parametrize("columns", range(1, 64))
def test_labels_of_lifetimes_never_collide(columns: int) -> None:
    from steve.report.charts import FOREVER, _lifetime_plot, _map_plot, decimal_ticks, human_count

    counts = np.zeros((64, FOREVER + 1), "u8")
    counts[3, columns - 1] = counts[3, FOREVER] = 7
    for drawing in (
        _lifetime_plot(counts[3], "blocks", human_count, decimal_ticks),
        _map_plot(counts, "blocks", human_count),
    ):
        spans = label_spans(str(drawing))
        assert len(spans) >= 2 and "never freed" in drawing
        assert all(left[1] + 3 < right[0] for left, right in zip(spans, spans[1:]))
        assert spans[-1][1] < 960, "the last label is cut"


# -- where the page goes -----------------------------------------------------------------------


def test_the_report_of_another_trace_is_kept(steve: Steve, trace: Callable[..., Path]) -> None:
    """Unless -f is given. The report of the same trace is replaced."""
    for name in ("a & b.ljt", "c.ljt"):
        trace(STACKS + "thread 1\nN 4096 16 1\nend exit\n", name)
    assert steve("report", "a & b.ljt", "-o", "r.html").returncode == 0
    assert steve("report", "a & b.ljt", "-o", "r.html").returncode == 0
    kept = (steve.folder / "r.html").read_bytes()
    refused = steve("report", "c.ljt", "-o", "r.html")
    assert refused.returncode == 2 and "a & b.ljt; -f replaces it" in refused.err
    assert (steve.folder / "r.html").read_bytes() == kept
    assert steve("report", "c.ljt", "-o", "r.html", "-f").returncode == 0
    assert (steve.folder / "r.html").read_bytes() != kept


def test_open(steve: Steve, trace: Callable[..., Path]) -> None:
    """--open shows the page in the browser that BROWSER names."""
    trace(STACKS + "thread 1\nN 4096 16 1\nend exit\n")
    browser = steve.folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" >"$0.shown"\n')
    browser.chmod(0o755)
    shown = steve("report", "t.ljt", "--open", env={**os.environ, "BROWSER": f"{browser} %s"})
    assert shown.returncode == 0
    assert (steve.folder / "browser.shown").read_text() == (steve.folder / "t.ljt.html").as_uri() + "\n"
    for wrong in (["--json"], ["-o", "-"]):
        assert steve("report", "t.ljt", "--open", *wrong).returncode == 2


def test_calls_in_a_row_are_one(steve: Steve, trace: Callable[..., Path]) -> None:
    """A function that calls itself is shown once, with the number of calls."""
    trace("stack main tree tree tree leaf malloc\nthread 1\nN 4096 16 1\nend exit\n")
    assert steve("report", "t.ljt").returncode == 0
    text = "".join(checked_page(steve.folder / "t.ljt.html").text)
    assert "tree x3" in text and "tree ← tree" not in text
    assert json.loads(steve("report", "t.ljt", "--json").out)["sites"][0]["frames"] == ["leaf", *["tree"] * 3, "main"]


def test_blocks_from_before_the_attach_are_said(steve: Any, trace: Callable[..., Path]) -> None:
    """They are in the numbers of what was allocated, and of what grows."""
    blocks = "N 4096 100 1\nN 8192 200 1\nN 16384 50 1\nend detached\n"
    trace("info attached yes\ninfo existing_blocks 2\ninfo existing_bytes 300\nstack main\n" + blocks)
    html = steve("report", "-q", "-o", "-", "t.ljt").out
    assert "all bytes ever asked for; a resize asks for its new size; 300 B of them from before the attach" in html
    assert "at most 3 lived at once; 2 of them from before the attach" in html
    assert "growth: made in the window and alive at its end, or there before the attach" in html
    trace("stack main\n" + blocks)
    assert "before the attach" not in steve("report", "-q", "-o", "-", "t.ljt").out.partition("<script")[0]


def test_names_of_code_keep_their_letters() -> None:
    from steve.report.page import as_sentence

    assert (
        as_sentence("malloc_trim(0) returns") == "malloc_trim(0) returns"
        and as_sentence("free memory") == "Free memory"
    )
