"""test_pins - which sites keep pages in use: steve pins against a count of pages in plain Python.

The programs run under the tool; the allocators are the real ones, in steve-replay.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import struct
from collections import defaultdict
from pathlib import Path

import pytest

from support import good, record, run, steve

PINNED = """\
#include <stdlib.h>

static void *all[20000];

static __attribute__((noinline)) void *survivor(void)
{
    return malloc(64);
}

static __attribute__((noinline)) void *passing(void)
{
    return malloc(64);
}

int main(void)
{
    for (int i = 0; i < 20000; i++)
        all[i] = i % 64 ? passing() : survivor();
    for (int i = 0; i < 20000; i++)
        if (i % 64)
            free(all[i]);
    return 0;
}
"""
MIXED = """\
#include <stdlib.h>

static __attribute__((noinline)) char *small(int i)
{
    return malloc(i % 700);
}

static __attribute__((noinline)) char *large(int i)
{
    return malloc(3000 + i * 37 % 20000);
}

int main(void)
{
    static char *all[4000];
    for (int i = 0; i < 4000; i++)
        all[i] = i % 5 ? small(i) : large(i);
    for (int i = 0; i < 4000; i += 3)
        all[i] = realloc(all[i], i % 7 * 900 + 1);
    for (int i = 0; i < 4000; i++)
        if (i % 11)
            free(all[i]);
    return 0;
}
"""
LUA = """\
local all, kept = {}, {}
for i = 1, 20000 do all[i] = i % 64 == 0 and {i} or tostring(i) .. " goes" end
for i = 64, 20000, 64 do kept[#kept + 1] = all[i] end
all = nil
collectgarbage()
os.exit(0)
"""
PAGE = 4096


@pytest.fixture(scope="module", name="traces")
def made_traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("pins"), {}
    for name, text in (("pinned", PINNED), ("mixed", MIXED)):
        (folder / f"{name}.c").write_text(text)
        good(["gcc", "-g", "-O1", "-o", name, f"{name}.c"], cwd=folder)
        found[name] = record(folder / f"{name}.ljt", [folder / name], "--trace-mem=no").path
    return found


def rows(path: Path, *options: str) -> dict[str, dict]:
    """The rows by function."""
    return {row["site"].split(" ")[0]: row for row in json.loads(steve("pins", path, "--json", *options).text)}


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "mimalloc"])
def test_survivors_are_named(allocator: str, traces: dict[str, Path]) -> None:
    listed = json.loads(good(["steve-replay", "--list", "--json"]).text)
    if not any(entry["name"] == allocator and entry["available"] for entry in listed):
        pytest.skip(f"steve-replay has no {allocator} here")
    found = rows(traces["pinned"], "--allocator", allocator, "--at", "end")
    assert set(found) == {"survivor"}
    row = found["survivor"]
    assert (row["blocks"], row["bytes"]) == (313, 313 * 64)
    assert row["pinned"] == row["pages"] * PAGE and 300 <= row["pages"] <= 330
    assert row["times"] == round(row["pinned"] / row["bytes"], 2)
    # most blocks were on these pages (glibc has headers), and lived until all were made
    assert 14000 < row["ended"] <= 20000 - 313 and 18000 < row["ended_lifetime"] < 22000


def test_moments(traces: dict[str, Path]) -> None:
    """By default the one with the most bytes of pages beyond those of blocks."""
    idle = {}
    for at in ("worst", "peak", "end", "30000"):
        found = rows(traces["pinned"], "--at", at)
        idle[at] = sum(row["pinned"] - row["bytes"] for row in found.values())
    assert idle["worst"] >= max(idle.values()) > 3 * idle["peak"]
    assert rows(traces["pinned"]) == rows(traces["pinned"], "--at", "worst")
    peak = rows(traces["pinned"], "--at", "peak")
    assert sum(row["blocks"] for row in peak.values()) == 20000 and peak["passing"]["ended"] == 0


def counted(path: Path) -> tuple[dict[int, float], int, dict[int, tuple[int, int]]]:
    """Pinned bytes by the number of the operation that made a block, the bytes of all pages, and blocks and bytes."""
    data = path.read_bytes()
    _, blocks, pages = struct.unpack_from("=3Q", data)
    assert len(data) == 24 * (1 + blocks + pages)
    records = [struct.unpack_from("=3Q", data, 24 * (1 + i)) for i in range(blocks)]
    on_page: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for born, offset, size in records:
        for byte in range(offset, offset + max(size, 1)):
            on_page[byte // PAGE][born] += 1
    pinned: dict[int, float] = defaultdict(float)
    for owners in on_page.values():
        for born, count in owners.items():
            pinned[born] += PAGE * count / sum(owners.values())
    listed = [struct.unpack_from("=3Q", data, 24 * (1 + blocks + i))[0] for i in range(pages)]
    assert listed == sorted(on_page)
    return pinned, len(on_page) * PAGE, {born: (1, size) for born, _, size in records}


@pytest.mark.parametrize("at", ["3000", "6500"])
def test_equals_a_count_of_pages(at: str, traces: dict[str, Path], tmp_path: Path) -> None:
    """Blocks over several pages, pages of several sites, resizes. The bump allocator places them in the same way in
    each replay."""
    steve("ops", "--resize", traces["mixed"], "-o", tmp_path / "ops")
    options = ["-a", "bump", "--places", tmp_path / "ops", "-o", tmp_path / "places", f"--at={at}"]
    good(["steve-replay", *options])
    pinned, total, known = counted(tmp_path / "places")
    text = [line.split() for line in steve("ops", "--text", tmp_path / "ops", "-o", "-").text.splitlines()]
    operations = [line for line in text if len(line) == 4 and line[1] in "NFR"]
    # the program makes its blocks in order, every fifth of them large
    order = {k: i for i, k in enumerate(k for k, line in enumerate(operations) if line[1] == "N")}
    expected: dict[str, list[float]] = {"small": [0, 0, 0], "large": [0, 0, 0]}
    for born, (blocks, size) in known.items():
        sums = expected["small" if order[born] % 5 else "large"]
        for i, value in enumerate((blocks, size, pinned[born])):
            sums[i] += value
    found = rows(traces["mixed"], "--allocator", "bump", "--at", at)
    assert {name: (row["blocks"], row["bytes"]) for name, row in found.items()} == {
        name: (sums[0], sums[1]) for name, sums in expected.items()
    }
    for name, sums in expected.items():
        assert abs(found[name]["pinned"] - sums[2]) <= 1
    assert abs(sum(row["pinned"] for row in found.values()) - total) <= 2


@pytest.mark.parametrize(
    "by, name",
    [
        ("function", "survivor (pinned.c)"),
        ("line", "survivor (pinned.c:7)"),
        ("file", "pinned.c"),
        ("object", "[pinned]"),
        ("thread", "thread 1"),
        ("type", "unknown"),
    ],
)
def test_rows(by: str, name: str, traces: dict[str, Path]) -> None:
    """The rows are those of `steve sites` and `steve findings`."""
    options = (traces["pinned"], "--by", by, "--json")
    (row,) = json.loads(steve("pins", *options, "--at", "end").text)
    live = {row["site"]: row["live_blocks_at_end"] for row in json.loads(steve("sites", *options).text)}
    assert row["site"] == name and row["blocks"] == live[name] == 313
    found = json.loads(steve("findings", *options, "--allocator", "glibc", "--rules", "pinned_pages").text)
    wasted = [
        (row["site"], row["pinned"] - row["bytes"])
        for row in json.loads(steve("pins", *options).text)
        if row["pinned"] >= 8 * row["bytes"]
    ]
    assert [(site["site"], site["bytes"]) for site in found[0]["sites"]] == wasted


def test_types_of_lua(tmp_path: Path) -> None:
    """Tables among strings that are collected keep most of the pages; the blocks of each type are those of `sites`."""
    (tmp_path / "t.lua").write_text(LUA)
    path = record(tmp_path / "t.ljt", ["luajit", tmp_path / "t.lua"], "--trace-mem=no").path
    found = rows(path, "--by", "type", "--at", "end")
    sites = json.loads(steve("sites", "--by", "type", "--json", path).text)
    live = {row["site"]: (row["live_blocks_at_end"], row["live_bytes_at_end"]) for row in sites}
    assert {name: (row["blocks"], row["bytes"]) for name, row in found.items()} == {
        name: numbers for name, numbers in live.items() if numbers[0]
    }
    tables = found["tab"]
    assert 312 <= tables["blocks"] < 400 and tables["pages"] > 200 and tables["pinned"] > 20 * tables["bytes"]
    assert tables["pinned"] > sum(row["pinned"] for row in found.values()) / 2


@pytest.mark.parametrize(
    "options, says",
    [
        (("--at", "0"), "is none of worst, peak, end"),
        (("--at", "99999999"), "the trace has only 39,687 operations"),
        (("--allocator", "nosuch"), "unknown allocator 'nosuch'"),
        (("--allocator", "jeff-compact"), "moves blocks"),
        (("--heap", "100K"), "heap"),
    ],
)
def test_what_cannot_be_done(options: tuple[str, ...], says: str, traces: dict[str, Path]) -> None:
    done = run(["steve", "pins", traces["pinned"], *options])
    assert done.status in (1, 2) and says in done.complaint and not done.out, done.complaint


def test_other_input(traces: dict[str, Path], tmp_path: Path) -> None:
    steve("ops", traces["pinned"], "-o", tmp_path / "x-ops")
    done = run(["steve", "pins", tmp_path / "x-ops"])
    assert done.status == 2 and "give the memtrace" in done.complaint
    (tmp_path / "empty.ljt").write_bytes(b"")
    done = run(["steve", "pins", tmp_path / "empty.ljt"])
    assert done.status == 1 and done.complaint


def pinned(path: Path, *options: str) -> list[dict]:
    """The sites of the rule, by line; the report finds as much."""
    arguments = ("--json", "--allocator", "glibc", path)
    report = json.loads(steve("report", *arguments).text)["findings"]
    (found,) = json.loads(steve("findings", "--rules", "pinned_pages", "--by", "line", *options, *arguments).text)
    same = [f["bytes"] for f in report if f["finding"] == "pinned_pages"]
    assert sum(same) == sum(row["bytes"] for row in found["sites"]) == found["bytes"]
    return found["sites"]


def test_the_rule_finds_survivors(traces: dict[str, Path], tmp_path: Path) -> None:
    """In the mended program, survivors are allocated one after the other."""
    (row,) = pinned(traces["pinned"])
    assert row["site"] == "survivor (pinned.c:7)" and row["blocks"] == 313
    (pins,) = (found for name, found in rows(traces["pinned"], "--by", "line").items() if name == "survivor")
    assert row["bytes"] == pins["pinned"] - pins["bytes"]
    (tmp_path / "mended.c").write_text(PINNED.replace("i % 64", "i >= 313"))
    good(["gcc", "-g", "-O1", "-o", "mended", "mended.c"], cwd=tmp_path)
    assert pinned(record(tmp_path / "mended.ljt", [tmp_path / "mended"], "--trace-mem=no").path) == []


def test_the_rule_needs_a_replay_of_all(traces: dict[str, Path]) -> None:
    for options in (
        ["--rules", "pinned_pages"],
        ["--allocator", "glibc", "--where", "freed"],
    ):
        assert run(["steve", "findings", traces["pinned"], *options]).status == 2
    assert run(["steve", "report", traces["pinned"], "--json", "--allocator", "glibc", "--where", "freed"]).status == 2
