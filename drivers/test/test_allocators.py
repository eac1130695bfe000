"""End-to-end tests of what the allocators of our own do, of resizing, and of the measures over a whole run.

Each policy is shown on a heap small enough to know every chunk of; Jeff's bytes and links are tested in
test_jeff.c. What holds for every driver is in test_replay.py.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ops_tools import (  # noqa: E402
    ALL,
    BAD,
    JEFF,
    TAGGED,
    Model,
    moving_ops,
    parse_result,
    random_ops,
    read_model,
    replay,
)

LIST = {d["name"]: d for d in json.loads(replay("--list", "--json").stdout)}


def stats(driver: str, path: Path, *args: object, status: int = 0, **kw: object) -> dict[str, object]:
    """Run --allocstats on an ops file and return the result, which is stored next to it."""
    if driver in LIST and not LIST[driver]["available"]:
        pytest.skip(f"{driver}: {LIST[driver]['reason']}")
    out = path.parent / "result"
    p = replay("-a", driver, "--allocstats", path, "-o", out, "--passes", 1, *args, **kw)
    assert p.returncode == status, p.stderr
    return parse_result(out)


def write(tmp_path: Path, text: str, name: str = "some-ops") -> tuple[Path, Model]:
    path = tmp_path / name
    path.write_text(text)
    return path, read_model(text)


# -- policies ------------------------------------------------------------------------------------------

# chunks of 128, 32, 64 and 32 bytes; the third is freed, then the first, then a block fits the third exactly
HOLES = "0 N 0 100\n1 N 0 16\n2 N 0 48\n3 N 0 16\n2 F 0 0\n0 F 0 0\n4 N 0 48\n"


@pytest.mark.parametrize(
    ("driver", "chunks", "highest"),
    [
        ("firstfit", 3, 256),  # splits the first hole of its list, the one freed last
        ("bestfit", 2, 256),  # fills the hole that fits
        ("nextfit", 3, 320),  # goes on where it was: above
        ("tlsf", 2, 256),  # the list for 64 has just that hole
    ],
)
def test_choice_of_the_chunk(driver: str, chunks: int, highest: int, tmp_path: Path) -> None:
    last = stats(driver, write(tmp_path, HOLES)[0], "--heap", 65536)["alloc_stats"][-1]
    first = stats(driver, write(tmp_path, "0 N 0 16\n")[0], "--heap", 65536)["alloc_stats"][0]
    tables = first["highest"] - 32  # what the fit itself has at the bottom of the heap
    assert (last["free_chunks"], last["highest"] - tables) == (chunks, highest)


@pytest.mark.parametrize("driver", TAGGED)
def test_tagged_join_all(driver: str, tmp_path: Path) -> None:
    """When all blocks are freed, in any order, one chunk is left, as large as the first."""
    text = random_ops(2000, seed=3)
    lines = [line.split() for line in text.splitlines()]
    live = {line[0] for line in lines if line[1] == "N"} - {line[0] for line in lines if line[1] == "F"}
    text += "".join(f"{h} F 0 0\n" for h in sorted(live))
    path, _ = write(tmp_path, text)
    last = stats(driver, path, "--heap", "8M", "--check", "--points", 20)["alloc_stats"][-1]
    assert (last["used"], last["free_chunks"]) == (0, 1)
    # the lists of tlsf are 1/16 of their size wide
    assert last["free"] * (15 / 16 if driver == "tlsf" else 1) <= last["maxmem"] <= last["free"]


def test_buddy_rounds_up_to_powers_of_two(tmp_path: Path) -> None:
    news = "".join(f"{h} N 0 {size}\n" for h, size in enumerate((33, 32, 1000, 1024)))
    path, model = write(tmp_path, news + "".join(f"{h} F 0 0\n" for h in (2, 0, 1, 3)))
    points = stats("buddy", path, "--heap", 65536)["alloc_stats"]
    units = 65536 // 33 * 32
    taken = [64, 96, 1120, 2144, 1120, 1056, 1024, 0]
    assert [units - p["free"] for p in points] == taken
    assert [p["used"] for p in points] == model.used
    assert points[-1]["maxmem"] == 32768 and points[-1]["highest"] == 0


def test_optimal_is_the_live_bytes(tmp_path: Path) -> None:
    path, model = write(tmp_path, random_ops(500, seed=4, resize=0.1))
    points = stats("optimal", path, "--heap", model.peak)["alloc_stats"]
    assert [p["highest"] for p in points] == model.used
    assert [p["maxmem"] for p in points] == [model.peak - u for u in model.used]
    assert stats("optimal", path, "--heap", model.peak - 1, status=2)["complete"] is False


def test_jeff_needs_compaction(tmp_path: Path) -> None:
    """In a heap with little room, only the compacting variants complete, with every byte in place."""
    path, model = write(tmp_path, moving_ops(3000, seed=8), "moves-lockops")
    for driver in JEFF:
        r = stats(driver, path, "--heap", "1.5x", "--check", "--points", 60, status=2 if driver == "jeff" else 0)
        assert r["complete"] is (driver != "jeff")
        for p in r["alloc_stats"]:
            assert p["locked"] == model.locked[p["op_index"]]


def test_spoiled_block_is_found_after_compaction(tmp_path: Path) -> None:
    path, _ = write(tmp_path, moving_ops(3000, seed=8), "moves-lockops")
    r = stats(BAD, path, "--heap", "3x", "--check", "--points", 2, status=1, env={"BAD_DRIVER": "spoils"})
    assert "was overwritten at byte 0" in r["error"]


def test_forced_compaction(tmp_path: Path) -> None:
    text = "".join(f"{h} N 0 1000\n" for h in range(20)) + "".join(f"{h} F 0 0\n" for h in range(0, 20, 2))
    path, _ = write(tmp_path, text + "1 L 0 0\n0 O 0 0\n1 U 0 0\n20 N 0 16\n", "forced-lockops")
    chunks = {d: stats(d, path, "--heap", "64K", "--check")["alloc_stats"][-1]["free_chunks"] for d in JEFF}
    assert chunks == {"jeff": 11, "jeff-compact": 2, "jeff-coalesce": 2}


# -- resizing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ALL)
def test_resizes_equal_the_model(driver: str, tmp_path: Path) -> None:
    path, model = write(tmp_path, random_ops(2000, seed=6, resize=0.2))
    r = stats(driver, path, "--heap", "128M", "--check", "--points", 50)
    assert r["resize_count"] == sum(op == "R" for op, _ in model.ops) > 100
    assert (r["live_peak"], r["total_requested"], r["op_count"]) == (model.peak, model.total, 2000)
    for p in r["alloc_stats"]:
        i = p["op_index"]
        assert (p["op"], p["size"]) == model.ops[i]
        assert (p["used"], p["blocks"]) == (model.used[i], model.blocks[i])
    assert r["realloc_time_p50"] >= 0


def test_resize_of_locked_and_huge_blocks(tmp_path: Path) -> None:
    text = "0 N 0 10\n0 L 0 0\n0 R 0 600000000\n0 R 0 5\n1 N 0 8\n0 U 0 0\n0 F 0 0\n"
    path, model = write(tmp_path, text, "odd-lockops")
    for driver in ("firstfit", "jeff-compact", "example_user"):
        r = stats(driver, path, "--heap", "2G", "--touch", "none")
        assert [(p["op"], p["used"]) for p in r["alloc_stats"]] == [
            (op, used) for (op, _), used in zip(model.ops, model.used, strict=True)
        ]
        assert r["odd_locks"] == 0
        assert [p["locked"] for p in r["alloc_stats"]] == [0, 600000000, 5, 5, 0]


def test_resize_of_a_dead_block(tmp_path: Path) -> None:
    path = tmp_path / "bad-ops"
    path.write_text("0 N 0 8\n0 F 0 0\n0 R 0 9\n")
    p = replay("--peakmem", path)
    assert p.returncode == 1 and "operation 2 (R): handle 0 is not live" in p.stderr


def test_fragmentation_of_mapped_and_resident_bytes_differ(tmp_path: Path) -> None:
    """Memory that was mapped but never touched is not resident."""
    path, _ = write(tmp_path, "".join(f"{i} N 0 {1 << 20}\n" for i in range(16)))
    r = stats("glibc", path, "--heap", "64M", "--touch", "first")
    assert r["fragmentation_1"] > -1 and r["fragmentation_resident_1"] < -90
    assert "fragmentation_resident_1" not in stats("null", path, "--heap", "64M")


# -- the whole run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["firstfit", "luajit"])
def test_fragmentation_measures(driver: str, tmp_path: Path) -> None:
    """All four measures computed again, from a result with a point for each operation."""
    path, model = write(tmp_path, random_ops(1500, seed=7))
    r = stats(driver, path, "--heap", "16M", "--points", 1500)
    for held_as, key in (("committed", "fragmentation"), ("resident", "fragmentation_resident")):
        points = [(p["used"], p[held_as], p["size"] if p["op"] == "N" else 0) for p in r["alloc_stats"]]
        weight = sum(size for _, _, size in points)
        mean = sum(size * held / live for live, held, size in points if live) / weight
        most = max(points, key=lambda p: p[0])
        held_most = max((p for p in points if p[0]), key=lambda p: p[1])
        wanted = [mean, most[1] / most[0], held_most[1] / held_most[0], held_most[1] / most[0]]
        found = [r[f"{key}_{i}"] for i in range(1, 5)]
        assert found == pytest.approx([(w - 1) * 100 for w in wanted], abs=0.002), key
    share = sum(p["maxmem"] for p in r["alloc_stats"]) / 1500 / (16 << 20) * 100
    assert r["maxmem_share"] == pytest.approx(share, abs=0.002)
    units, largest = -(-model.peak // 16), -(-max(s for op, s in model.ops if op == "N") // 16)
    log = largest.bit_length() - 1
    assert r["robson_bound"] == (units + units * log // 2 - largest + 1) * 16


def need(name: str) -> None:
    """Skip, with the reason, if a driver cannot be used."""
    if not LIST[name]["available"]:
        pytest.skip(f"{name}: {LIST[name]['reason']}")


def min_heap(driver: str, path: Path) -> dict[str, object]:
    p = replay("-a", driver, "--min-heap", path, "--json")
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def test_min_heap_is_known(tmp_path: Path) -> None:
    path, _ = write(tmp_path, "0 N 0 100\n1 N 0 100\n0 F 0 0\n1 F 0 0\n2 N 0 300\n")
    assert min_heap("bump", path)["min_heap"] == 16 + 304
    assert min_heap("optimal", path)["min_heap"] == 304
    assert min_heap("firstfit", path)["min_heap"] == 16 + 304 + 16


@pytest.mark.parametrize("driver", [name for name in ALL if name != "null"])
def test_min_heap_is_the_smallest(driver: str, tmp_path: Path) -> None:
    """--heap accepts what --min-heap prints, for every allocator, and refuses the next smaller size."""
    need(driver)
    path, model = write(tmp_path, random_ops(2000, seed=9, largest=15))
    found = min_heap(driver, path)
    assert found["live_peak"] == model.peak <= found["min_heap"]
    whole = stats(driver, path, "--heap", found["min_heap"], "--points", 1, "--passes", 1)
    assert whole["complete"] and whole["heap_size"] == found["min_heap"]
    stats(driver, path, "--heap", found["min_heap"] - found["step"], "--points", 1, "--passes", 1, status=2)


def test_touch(tmp_path: Path) -> None:
    path, _ = write(tmp_path, f"0 N 0 {64 << 20}\n")
    resident = {
        t: stats("firstfit", path, "--heap", "1G", "--touch", t)["alloc_stats"][0]["resident"]
        for t in ("none", "first", "pages", "all")
    }
    assert resident["none"] <= resident["first"] < 1 << 20
    assert resident["pages"] >= 64 << 20 and resident["all"] >= 64 << 20


def page_faults(driver: str, path: Path, touch: str) -> int:
    need(driver)
    p = replay("-a", driver, "--measure", path, "--heap=256M", "--touch", touch)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)["minor_faults"]


@pytest.mark.parametrize("driver", ["jemalloc", "firstfit", "glibc", "jeff-compact"])
@pytest.mark.parametrize("grows", [False, True])
def test_page_faults_of_the_timed_replay_are_those_of_the_blocks(driver: str, grows: bool, tmp_path: Path) -> None:
    """Blocks that live to the end, of three pages each. jemalloc writes nothing to them."""
    count, pages = 700, 3 * 700
    text = "".join(f"{i} N {4096 + 16384 * i} {16 if grows else 3 * 4096}\n" for i in range(count))
    if grows:
        text += "".join(f"{i} R {4096 + 16384 * i} {3 * 4096}\n" for i in range(count))
    path, _ = write(tmp_path, text)
    found = page_faults(driver, path, "pages")
    assert pages <= found < 1.35 * pages
    if driver == "jemalloc":
        assert page_faults(driver, path, "none") < pages / 2, "realloc copies to one page of each block"
    assert page_faults("null", path, "pages") < 10


def test_accesses_touch_what_the_program_did(tmp_path: Path) -> None:
    """Of a large block, only the pages that the file reads or writes become resident, and only on request. An
    access beyond the end of a block is cut off there."""
    size, at = 64 << 20, 1 << 20
    reach = "".join(f"0 S {at + i * 4096} 8\n" for i in range(1000)) + f"0 M {at + size - 4} 4096\n"
    path, _ = write(tmp_path, f"0 N {at} {size}\n{reach}0 L {at + 8 * 4096} 4\n1 N 0 8\n")
    resident = {
        a: stats("firstfit", path, "--heap", "1G", "--touch", "none", "--accesses", a, "--points", 2)["alloc_stats"][1][
            "resident"
        ]
        for a in ("no", "yes")
    }
    assert resident["no"] < 1 << 20
    # those at the block's ends may share their page with the allocator's own bytes
    assert 998 * 4096 <= resident["yes"] - resident["no"] <= 1002 * 4096


@pytest.mark.parametrize("driver", ["null", "firstfit", "jeff-compact", "glibc", "mimalloc"])
def test_accesses_spoil_nothing(driver: str, tmp_path: Path) -> None:
    """All of every block is used between the operations, and keeps its pattern; counts are unchanged."""
    lines, places = [], {}
    for line in random_ops(2000, seed=12, resize=0.1).splitlines():
        handle, op, addr, size = line.split()
        lines.append(line)
        if op == "F":
            del places[handle]
            continue
        places[handle] = (int(addr), int(size))
        for other, (start, length) in list(places.items())[-3:]:
            lines += [f"{other} S {start} {length}", f"{other} L {start + length // 2} 4"]
    path, model = write(tmp_path, "\n".join(lines) + "\n")
    r = stats(driver, path, "--heap", "64M", "--check", "--points", 50, "--accesses", "yes")
    assert [p["used"] for p in r["alloc_stats"]] == [model.used[p["op_index"]] for p in r["alloc_stats"]]


def test_warm_runs(tmp_path: Path) -> None:
    """The operations are repeated in one process, on the null driver, too, and the counts are unchanged."""
    path, model = write(tmp_path, random_ops(20000, seed=2))
    r = stats("firstfit", path, "--points", 3)
    assert r["warm_time_per_op"] > 0 and r["null_warm_time_per_op"] > 0
    assert (r["total_ops"], r["rounds"]) == (len(model.ops), 1)
