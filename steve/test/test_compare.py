"""steve compare: intervals, places and ties, the heap for all, and that repetitions do not contradict each other.

A small substitute for steve-replay plays allocators with known times. The real program is used in the last tests.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import make_trace
from steve.allocstats.compare import compare as measured
from steve.allocstats.medians import Median, median, places, rounds_needed
from steve.allocstats.replay import Replay
from steve.commands.compare import _as_json
from steve.plots.frontier import Point, draw_plane, log_ticks
from steve.plots.style import drawing
from steve.tune.program import recorded_program

STAND_IN = """#!/usr/bin/python3 -SE
import os, sys, zlib

TIMES = {"null": 5, "fast": 20, "twin": 20, "slow": 40, "hungry": 30, "starved": 1, "broken": 1, "glibc": 40, "mimalloc": 30}
args = sys.argv[1:]

def show(answer):  # importing json and random would take longer than all the rest
    print(str(answer).replace("'", '"').replace("True", "true").replace("None", "null"))

if "--list" in args:
    show([{"name": n, "available": True, "reason": "", "least_heap": 0, "path": "/none/" + n + ".so",
        "library": "libmimalloc.so.2" if n == "mimalloc" else ""} for n in TIMES])
elif "--peakmem" in args:
    show({"live_peak": 10000})
else:
    name, heap = args[args.index("-a") + 1], int(args[args.index("--heap") + 1])
    with open(os.environ["CALLS"], "a+") as log:
        log.write(f"{name} {heap}\\n")
        log.seek(0)
        calls = log.read().count(f"{name} ")
    if name == "starved" or name == "hungry" and heap < 60000:
        sys.exit("steve-replay: out of memory" and 2)
    if name == "broken":
        sys.stderr.write("steve-replay: broken: at operation 3: crashed\\n")
        sys.exit(1)
    cpu = 1000 * TIMES[name] + zlib.crc32(f"{name} {calls}".encode()) % 2000  # the same noise in every run
    space = {"fast": 30000, "slow": 20000}.get(name, 30000)
    if "--pace=7000" in args:  # it takes long, and memory is returned
        cpu, space = 9 * cpu, space // 2
    show({"driver": name, "heap": heap, "confined": True, "operations": 1000, "cpu_ns": cpu, "wall_ns": cpu,
        "minor_faults": 3, "major_faults": 0, "yields": 0, "preemptions": 0, "memory_calls": 7, "cycles": None,
        "instructions": None, "cache_misses": None, "dtlb_misses": None, "p50_ns": 5, "p99_ns": 50, "p999_ns": 100,
        "max_ns": 1000, "timed": 990, "left_out": 10, "clock_step_ns": 10.0, "clock_cost_ns": 30.0, "live_peak": 10000,
        "resident": space, "end_resident": space // 2, "mapped": 40000, "used": 10000, "usable": 12000, "headers": 800, "outside": 0})
"""


def test_intervals_contain_the_median_and_shrink() -> None:
    chance = random.Random(1)
    few, many = ([chance.gauss(100, 10) for _ in range(n)] for n in (9, 200))
    for values in (few, many):
        one = median(values)
        assert min(values) <= one.low <= one.value <= one.high <= max(values)
    assert median(many).high - median(many).low < (median(few).high - median(few).low) / 2
    assert median([7.0]).as_list() == [7, 7, 7]


def test_the_level_of_the_intervals() -> None:
    """Almost 95 of 100 intervals contain the true median."""
    chance = random.Random(2)
    hits = 0
    for _ in range(300):
        one = median([chance.gauss(0, 1) for _ in range(21)])
        hits += one.low <= 0 <= one.high
    assert hits >= 0.89 * 300


def test_places_and_ties() -> None:
    chance = random.Random(3)

    def rounds(mean: float) -> list[float]:
        return [mean + chance.uniform(-1, 1) for _ in range(11)]

    found = places({"c": rounds(30), "a": rounds(10), "b": rounds(10.1), "d": rounds(50)})
    assert found.order[2:] == ["c", "d"]
    assert found.place == {"a": (1, 2), "b": (1, 2), "c": (3, 3), "d": (4, 4)}
    assert ("a", "b") not in found.better and ("b", "a") not in found.better and ("b", "c") in found.better


@pytest.mark.parametrize(("count", "needed"), ((1, 6), (2, 6), (6, 10), (10, 11), (19, 13)))
def test_with_too_few_rounds_nothing_is_certain(count: int, needed: int) -> None:
    """Chance alone can give all differences the same sign, so rounds of equal allocators must be many."""
    assert rounds_needed(count) == needed
    chance = random.Random(count)
    for rounds in (needed - 1, needed):
        better = [5 + chance.random() for _ in range(rounds)]
        found = places(
            {"a": better, **{f"z{n}": [one + 9 + chance.random() for one in better] for n in range(1, count)}}
        )
        assert bool(found.better) == (rounds >= needed and count > 1)


def test_differences_that_do_not_vary_are_certain_at_once() -> None:
    assert places({"a": [8192.0] * 5, "b": [12288.0] * 5, "c": [8192.0] * 5}).better == [("a", "b"), ("c", "b")]


def test_what_slows_a_whole_round_is_no_difference() -> None:
    """The noise of the machine is greater than the difference, but the same for all in a round."""
    chance = random.Random(4)
    load = [chance.uniform(0, 100) for _ in range(11)]
    found = places({"a": [10 + x for x in load], "b": [11 + x + chance.uniform(-0.5, 0.5) for x in load]})
    assert found.better == [("a", "b")]


@pytest.fixture(name="stand_in")
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("STEVE_REPLAY", str(program))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    (tmp_path / "app-ops").write_text("0 N 4096 100\n0 F 4096 0\n")
    return tmp_path


def compare(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["steve", "compare", *map(str, words)], capture_output=True, text=True, check=False)


def test_rounds_heap_and_ranking(stand_in: Path) -> None:
    done = compare(stand_in / "app-ops", "--allocator", "fast,twin,slow,hungry", "--rounds", 9, "--json")
    result = json.loads(done.stdout)
    assert result["space_in_program"] is None
    assert done.returncode == 0, done.stderr
    assert 60000 <= result["heap"] < 63000 + 4096, "the least of the series in which all complete"
    assert result["time"]["places"] == {"fast": [1, 2], "twin": [1, 2], "hungry": [3, 3], "slow": [4, 4]}
    assert result["space"]["places"]["slow"] == [1, 1] and result["space"]["places"]["fast"] == [2, 4]
    assert result["frontier"][-1] == "slow" and len(result["frontier"]) == 2
    by_name = {one["allocator"]: one for one in result["results"]}
    value, low, high = by_name["slow"]["time_ns"]
    assert 33 < low <= value <= high < 37, "without the cost of the null driver"
    assert 5 <= result["null_time_ns"][0] <= 7 and by_name["slow"]["usable"] == [12000] * 3
    assert by_name["slow"]["cycles"] is None and len(by_name["slow"]["rounds"]) == 9
    calls = [line.split() for line in (stand_in / "calls").read_text().splitlines()]
    measured = [name for name, heap in calls if int(heap) == result["heap"]][-5 * 9 :]
    orders = {tuple(measured[i : i + 5]) for i in range(0, 45, 5)}
    assert all(sorted(order) == ["fast", "hungry", "null", "slow", "twin"] for order in orders) and len(orders) > 3
    assert Path(result["figures"][0]).read_bytes()[:4] == b"\x89PNG"
    assert result["figures"] == [str(stand_in / "app-ops-compare.png")]


def test_the_table(stand_in: Path) -> None:
    done = compare(stand_in / "app-ops", "--allocator", "fast,slow", "--rounds", 5, "-o", stand_in / "x.svg")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split()[:2] == ["place", "allocator"]
    fast = lines[2]
    assert fast.startswith("1") and "<10 ns" in fast and " 6.7%  " in fast and " 2.7%  " in fast and " 57.3%  " in fast
    assert "100 single timings were left out" in done.stdout and "the clock's step is 10 ns" in done.stdout
    assert "the frontier of time and space: fast, slow" in done.stdout
    assert lines[-1] == "this machine does not give counters of cycles, instructions, cache misses, dtlb misses"
    assert (stand_in / "x.svg").exists() and "wrote" in done.stderr


def test_with_a_duration_the_memory_alone_is_of_the_long_replays(stand_in: Path) -> None:
    allocators = ("--allocator", "glibc,fast,slow", "--rounds", 9, "--json")
    plain, long = (
        {
            one["allocator"]: one
            for one in json.loads(compare(stand_in / "app-ops", *allocators, *more).stdout)["results"]
        }
        for more in ((), ("--duration", "7s"))
    )
    for name, space in {"glibc": 30000, "fast": 30000, "slow": 20000}.items():
        assert (plain[name]["resident"][0], plain[name]["end_resident"][0]) == (space, space // 2)
        assert (long[name]["resident"][0], long[name]["end_resident"][0]) == (space // 2, space // 4)
        assert long[name]["time_ns"][0] < 2 * plain[name]["time_ns"][0]
    done = compare(stand_in / "app-ops", "--allocator", "fast,broken", "--rounds", 9, "--duration", "7s")
    assert "broken" in done.stderr and done.returncode == 1 and "fast" in done.stdout


def test_what_is_better_than_the_usual_one(stand_in: Path) -> None:
    done = compare(stand_in / "app-ops", "--allocator", "glibc,fast,twin,slow", "--rounds", 9)
    faster, smaller = next(line for line in done.stdout.splitlines() if line.startswith("certainly")).split("; ")
    first, others = faster.split(": ")
    assert re.fullmatch(r"certainly faster than glibc, which takes \d+\.\d ns per operation", first)
    found = re.findall(r"(\w+) \((\d+\.\d)% less, at \d+\.\d ns per operation\)", others)
    assert sorted(name for name, _ in found) == ["fast", "twin"] and all(40 < float(less) < 75 for _, less in found)
    assert re.fullmatch(
        r"certainly less memory at the peak of this replay: slow \(33\.3% less, at \d+\.\d ns per operation\)", smaller
    ), smaller
    few = compare(stand_in / "app-ops", "--allocator", "fast,twin", "--rounds", 5).stdout
    assert "certainly" not in few
    assert "5 rounds are too few to be certain of a difference between 2 allocators; it takes 6" in few
    assert "too few" not in done.stdout and "not known" not in done.stdout
    few = compare(stand_in / "app-ops", "--allocator", "glibc,fast,slow", "--rounds", 5).stdout
    (line,) = (line for line in few.splitlines() if line.startswith("certainly"))
    assert (
        "ns per operation: not known; certainly less memory at the peak of this replay: " in line and "none" not in line
    )
    assert "5 rounds are too few to be certain of a difference between 3 allocators; it takes 7" in few


@pytest.mark.parametrize(
    ("allocators", "said"),
    [
        ("glibc,mimalloc", None),
        (
            "glibc,mimalloc,fast",
            "mimalloc (LD_PRELOAD: see `steve help compare`); all others but glibc are for comparison only",
        ),
        ("fast,slow", "none of these (LD_PRELOAD: see `steve help compare`); all others are for comparison only"),
    ],
)
def test_what_a_program_can_be_started_with(stand_in: Path, allocators: str, said: str | None) -> None:
    lines = compare(stand_in / "app-ops", "--allocator", allocators, "--rounds", 5).stdout.splitlines()
    start = "a program can be started with "
    assert [line.removeprefix(start) for line in lines if line.startswith(start)] == ([said] if said else [])


def test_failures_do_not_stop_the_others(stand_in: Path) -> None:
    done = compare(stand_in / "app-ops", "--allocator", "fast,starved,broken", "--rounds", 5)
    assert done.returncode == 1 and "fast" in done.stdout
    assert "no result of starved: out of memory in every heap" in done.stderr
    assert "failed broken: broken: at operation 3: crashed" in done.stderr
    done = compare(stand_in / "app-ops", "--allocator", "starved", "--rounds", 5)
    assert done.returncode == 1 and "no allocator gave a result" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["--rounds", "4"], 2, "--rounds: '4' is not a number from 5 to 999"),
        (["--seed", "x"], 2, "--seed"),
        (["--duration", "soon"], 2, "'soon' is not a time"),
        (["--format", "gif"], 2, "--format"),
        (["--allocator", "none"], 2, "unknown allocator"),
    ],
)
def test_wrong_usage(words: list[str], status: int, error: str, stand_in: Path) -> None:
    done = compare(stand_in / "app-ops", *words)
    assert done.returncode == status and error in done.stderr


@pytest.mark.parametrize("count", [6, 24, 40])
def test_labels_of_crowded_points_do_not_overlap(count: int) -> None:
    """Two crowds of points with long error bars, as option sets of two allocators are, and some beside them."""
    from matplotlib.text import Text

    chance, points = random.Random(count), []
    for number in range(count):
        space = chance.choice((36, 44)) + chance.uniform(0, 0.3) + (number % 5 == 0) * 4
        time = 30 + chance.uniform(0, 3)
        wide = Median(time, time - chance.uniform(0, 2), time + chance.uniform(0, 4), 5)
        points.append(
            Point(
                f"{number}" if count < 40 else f"allocator {number}",
                "black",
                Median(space, space, space + 0.1, 5),
                wide,
            )
        )
    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(7, 4))
        draw_plane(axes, points, "space", "time")
        figure.canvas.draw()
        labels = [Text.get_window_extent(text) for text in axes.texts]  # without the lines to the points
        signs = [axes.transData.transform((point.space.value, point.time.value)) for point in points]
        inside = axes.get_window_extent()
    assert len(labels) == count
    assert not [(a, b) for a, b in itertools.combinations(labels, 2) if a.overlaps(b)]
    assert not [(label, at) for label in labels for at in signs if label.contains(*at)]
    assert not [one for one in labels if not (inside.contains(one.x0, one.y0) and inside.contains(one.x1, one.y1))]


def test_labels_are_beside_the_frontier() -> None:
    """A label does not lie on the dashed line if there is room elsewhere."""
    from matplotlib.text import Text

    from steve.plots.frontier import _crosses

    at = {
        "luajit": (1.15, 16.9),
        "mimalloc": (1.55, 8.7),
        "jemalloc": (1.6, 16.9),
        "tbbmalloc": (1.64, 15.4),
        "musl": (1.3, 38),
    }
    points = [Point(name, "black", Median(x, x, x, 5), Median(y, y, y, 5)) for name, (x, y) in at.items()]
    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(10, 5))
        draw_plane(axes, points, "space", "time")
        figure.canvas.draw()
        (line,) = [each for each in axes.lines if "frontier" in str(each.get_label())]
        corners = axes.transData.transform(line.get_xydata()).tolist()
        labels = {text.get_text(): Text.get_window_extent(text).extents for text in axes.texts}
    assert len(corners) == 3 and set(labels) == set(at)
    for name, box in labels.items():
        assert not any(_crosses((*one, *other), tuple(box)) for one, other in zip(corners, corners[1:])), name


@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.parametrize("high", [2.6, 4, 9.5, 30, 70, 1e3, 1e6, 1e9])
def test_ticks_of_logarithmic_axes(base: int, high: float) -> None:
    """There are some, not too many, and no large part of the axis is without."""
    ticks = log_ticks(0.9, high, base)
    assert 2 <= len(ticks) <= 10 and ticks == sorted(set(ticks))
    gaps = np.diff(np.log([0.9, *ticks, high])) / np.log(high / 0.9)
    assert max(gaps) < 0.45


# -- with the real steve-replay ----------------------------------------------------------------


def _ops(path: Path) -> Path:
    chance, live, lines = random.Random(9), [], []
    for handle in range(20000):
        lines.append(f"{handle} N {4096 + 64 * handle} {int(2 ** chance.uniform(3, 11))}")
        live.append(handle)
        if len(live) > 500:
            lines.append(f"{live.pop(chance.randrange(len(live)))} F 0 0")
    path.write_text("\n".join(lines) + "\n")
    return path


SOME = ("glibc", "jemalloc", "mimalloc", "luajit", "firstfit", "buddy")


@pytest.mark.skipif(not shutil.which("steve-replay"), reason="steve-replay is not built")
def test_three_repetitions_do_not_contradict_each_other(tmp_path: Path) -> None:
    ops = _ops(tmp_path / "app-ops")
    replay = Replay()
    drivers = [one for one in replay.drivers() if one.available and one.name in SOME]
    if len(drivers) < 5:
        pytest.skip(f"only {len(drivers)} of the allocators to compare are there")
    results, rounds = [], rounds_needed(len(drivers))
    for seed in (1, 2, 3):
        found = measured(replay, str(ops), drivers, 4 << 20, rounds, seed, (), lambda done, total: None)
        assert not found.failures
        results.append(_as_json(found, [], []))
    for measure in ("time", "space"):
        certain = [{(a, b) for a, b in one[measure]["certain"]} for one in results]
        # on a busy machine, no difference between times may be certain
        assert all(certain) or measure == "time", "some differences are certain"
        claimed = set().union(*certain)
        print(measure, [len(pairs) for pairs in certain], file=sys.stderr)
        assert not {(b, a) for a, b in claimed} & claimed
    for one in results:
        for entry in one["results"]:
            assert entry["resident"][0] >= entry["used"][0] and entry["mapped"][0] > 0
            assert entry["usable"] is None or entry["usable"][0] >= entry["used"][0]
            assert 0 <= entry["p50_ns"][0] <= entry["p99_ns"][0] <= entry["p999_ns"][0] <= entry["max_ns"][0]
            assert entry["minor_faults"][0] > 10


def test_blocks_that_no_library_allocates(tmp_path: Path) -> None:
    """Those of pools and Lua states are replayed, too, which is said."""
    plain = "stack main\nN 4096 64 1\nend exit\n"
    pools = "heap 1 custom\nheap 2 lua\nstack main\nN 4096 64 1 1\nN 8192 64 1 2\nend exit\n"
    for script, others in ((plain, ()), (pools, ("Lua states", "pools of the program"))):
        found = recorded_program(str(make_trace(tmp_path / "t.ljt", script)), {})
        assert found.others == others and bool(found.remark_on_others()) == bool(others)
        assert bool(found.remark_on_left_out()) == bool(others)
    assert found.remark_on_others().startswith(
        "operations on Lua states and pools of the program are replayed as calls of malloc"
    )
    assert found.remark_on_left_out().startswith("blocks of Lua states and pools of the program are left out")


def _usable(*names: str) -> None:
    """Skip the test if one of these drivers cannot be used."""
    for driver in Replay().drivers():
        if driver.name in names and not driver.available:
            pytest.skip(f"{driver.name}: {driver.reason}")


def test_memory_that_is_returned_after_some_time(tmp_path: Path) -> None:
    """jemalloc keeps free pages for up to ten seconds: a replay at full speed has all of them at the end. When it returns them
    depends on when it is called, which a busy machine delays; so it may try again."""
    _usable("jemalloc")
    count = 20000
    made = [f"{n} N {65536 + 4096 * n} 2000" for n in range(count)]
    freed = [f"{n} F 0 0" for n in range(count)]
    later = [f"{n} {code} {65536} 64" for n in range(count, 5 * count) for code in "NF"]
    (tmp_path / "app-ops").write_text("\n".join([*made, *freed, *later]) + "\n")
    command = ["steve-replay", "-a", "jemalloc", "--measure", "app-ops", "--heap=256M"]

    def replayed(*more: str) -> dict[str, Any]:
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    fast, slow = replayed(), replayed("--pace=12000")
    for _ in range(2):
        if slow["end_resident"] >= 0.6 * fast["end_resident"]:
            slow = replayed("--pace=12000")
    assert fast["end_resident"] > 2000 * count and 0 < slow["end_resident"] < 0.6 * fast["end_resident"]
    assert slow["wall_ns"] < 10e9, "only the replay that measures space takes that long"
    assert fast["resident"] >= fast["end_resident"] and slow["resident"] >= 2000 * count


def test_the_program_of_the_trace(tmp_path: Path) -> None:
    """The memtrace is beside the ops file: its allocator is the reference, and its time is set against the operations'."""
    _usable("jemalloc", "mimalloc")
    script = "import time\nx = [bytes(1000) for n in range(20000)]\ndel x\ntime.sleep(2)"
    program = ["/usr/bin/python3", "-S", "-c", script]
    env = {**os.environ, "LD_PRELOAD": "libmimalloc.so.2.0"}
    if b"cannot be preloaded" in subprocess.run(["/bin/true"], env=env, capture_output=True, check=True).stderr:
        pytest.skip("libmimalloc2.0 is not installed")
    subprocess.run(["ljtrace", "run", "--out=app.ljt", *program], cwd=tmp_path, env=env, check=True, timeout=300)
    subprocess.run(["steve", "ops", "app.ljt", "-q"], cwd=tmp_path, check=True)
    ops = tmp_path / "app.ljt-ops"
    text = compare(ops, "--allocator", "glibc,jemalloc,mimalloc", "--rounds", 5).stdout
    assert re.search(
        r"\nthe program ran on mimalloc \(/\S*libmimalloc\.so\.2\.0\)\n"
        r"certainly faster than mimalloc, which takes [\d.]+ ns per operation: ",
        text,
    )
    times = (
        r"\nall operations of the program take mimalloc ([\d.]+ .s)(?:, \w+ [\d.]+ .s)*: (\d+\.\d%)(?:, \d+\.\d%)* of "
    )
    elapsed = re.search(times + r"the ([\d.]+) s that elapsed, with all waits\n", text)
    too_short = (
        r"what jemalloc and mimalloc return after some time is not seen; --duration=(\d+)s replays it in this time"
    )
    duration = re.search(too_short, text)
    assert "at the peak of this replay: not known, since mimalloc may return some while the program runs" in text
    assert elapsed and duration and 2 < float(elapsed[3]) <= int(duration[1]) < float(elapsed[3]) + 1.1, text
    assert "  at end  " in text
    bounds = {
        name: bool(re.search(rf"\n *[-\d]+ +{name} .* up to ", text)) for name in ("glibc", "jemalloc", "mimalloc")
    }
    assert bounds == {"glibc": False, "jemalloc": True, "mimalloc": True}, text
    only = compare(ops, "--allocator", "glibc,bump", "--rounds", 5).stdout
    assert "not seen" not in only and "the program ran on mimalloc (" in only
    done = compare(ops, "--allocator", "mimalloc", "--rounds", 5, "--duration", "0.5s")
    assert "after the first of 5 rounds: about " in done.stderr
    assert (
        "not seen" not in done.stdout
        and "up to" not in done.stdout
        and "this takes 2.5 s at least: 5 replays of 0.5 s, 4 at a time" in done.stderr
    )
    result = json.loads(compare(ops, "--allocator", "glibc,mimalloc", "--rounds", 5, "--json").stdout)
    assert result["space_in_program"].startswith("not known, since mimalloc may return some while the program runs")
    assert result["reference"] == result["program"]["allocator"] == "mimalloc" and 2 < result["program"]["seconds"] < 60
    assert all(one["end_resident"][0] <= one["resident"][0] for one in result["results"])
    (tmp_path / "app.ljt").unlink()
    alone = compare(ops, "--allocator", "glibc,mimalloc", "--rounds", 5).stdout
    assert (
        "the file does not say on which allocator the program runs; the reference is glibc (its memtrace says it"
        in alone
    )
    assert "what mimalloc returns after some time is not seen, if the program took longer; --duration=TIME" in alone


def test_a_program_that_asks_its_allocator(tmp_path: Path) -> None:
    """What it allocates may depend on the allocator, as where it drops entries when all its blocks have a size."""
    source = "#include <malloc.h>\nint main(void) { void *p = malloc(99); return !p%s; }\n"
    for name, condition in (("asks", " || !malloc_usable_size(p) || malloc_trim(0) < 0"), ("plain", "")):
        (tmp_path / f"{name}.c").write_text(source % condition)
        subprocess.run(["cc", "-o", name, f"{name}.c"], cwd=tmp_path, check=True)
        record = ["ljtrace", "run", f"--out={name}.ljt", f"./{name}"]
        subprocess.run(record, cwd=tmp_path, check=True, capture_output=True, timeout=300)
        program = recorded_program(str(tmp_path / f"{name}.ljt"), {})
        assert (
            program.as_dict()["asks"]
            == list(program.asks)
            == (["malloc_usable_size", "malloc_trim"] if name == "asks" else [])
        )
        subprocess.run(["steve", "ops", f"{name}.ljt", "-q"], cwd=tmp_path, check=True)
        text = compare(tmp_path / f"{name}.ljt-ops", "--allocator", "glibc,bump", "--rounds", 5).stdout
        assert ("the executable has the names malloc_usable_size and malloc_trim: if it calls them" in text) == (
            name == "asks"
        ), text
        assert ("not known, since the program may return some by malloc_trim" in text) == (name == "asks"), text
        assert ("in the program, the order of space is not known)" in text) == (name == "asks"), text
        assert bool(re.search(r"  \d(-\d)?\?  +\d", text)) == (name == "asks"), text
    (tmp_path / "asks").unlink()
    assert not recorded_program(str(tmp_path / "asks.ljt"), {}).asks


def test_the_name_of_the_memtrace_is_said(tmp_path: Path) -> None:
    """Of an ops file without its memtrace, under which names both are looked for. A memtrace has no such remark."""
    for name in ("app-ops", "app.ljt-ops", "app"):
        (tmp_path / name).write_text("0 N 4096 8\n")
        said = recorded_program(str(tmp_path / name), {}).described("glibc")
        assert said.endswith(
            "the reference is glibc (its memtrace says it, if it is beside the ops file: app.ljt of app.ljt-ops or app-ops)"
        )
    alone = recorded_program(str(make_trace(tmp_path / "other.ljt", "N 4096 8\nend exit\n")), {}).described("glibc")
    assert alone.endswith("the reference is glibc")


@pytest.mark.skipif(not shutil.which("steve-replay"), reason="steve-replay is not built")
def test_throughput_on_threads(tmp_path: Path) -> None:
    chance, lines = random.Random(5), []
    for handle in range(3000):
        lines += [f"# thread {chance.randrange(3) + 1}", f"{handle} N {4096 + 64 * handle} 40"]
        lines += [f"# thread {chance.randrange(3) + 1}", f"{handle} F 0 0"]
    ops = tmp_path / "app-ops"
    ops.write_text("\n".join(lines) + "\n")
    done = compare(ops, "--threads", "1,2,3", "--allocator", "null,glibc,tlsf", "--rounds", 5, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["threads"] == [1, 2, 3] and result["threads_of_file"] == 3
    for one in result["results"]:
        for threads, (value, low, high) in one["rates"].items():
            assert 0 < low <= value <= high and len(one["rounds"][threads]) == 5
        assert one["rounds"]["1"][0]["remote_frees"] == 0 < one["rounds"]["3"][0]["remote_frees"]
        assert (one["rounds"]["2"][0]["locked_by"] == "replay") == (one["allocator"] == "tlsf")
    assert result["figures"] == [str(tmp_path / "app-ops-threads.png")]
    done = compare(ops, "--threads", "2", "--allocator", "glibc", "--rounds", 5)
    assert done.returncode == 0 and done.stdout.split()[:3] == ["allocator", "2", "thr."]
    assert compare(ops, "--threads", "0").returncode == 2
    assert "it has no --duration" in compare(ops, "--threads", "2", "--duration", "1s").stderr
