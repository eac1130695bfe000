"""The rules that judge what a site does in the whole run: their sums against the slow reference, and their decisions.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from conftest import Steve
from reference_lives import Block, Lives, Run, granule
from steve.analysis import site_rules
from steve.analysis.rules import DEFAULTS, UNIVERSE_SHOWS, site_limits
from steve.kernels._site_sums import ENDED, SITE_SUMS, SiteSums
from steve.kernels import _lives
from steve.trace._memtrace import Trace
from steve.trace.rollups import Sums
from test_analyses import RUNS, runs, trace_of

PARTS = 32
HALF = PARTS // 2
THRESHOLDS = {**DEFAULTS, "capacity": 40, "short": 7, "min_size": 20}


def extent(block: Block) -> int:
    """Bytes to the end of the last part of the block that was used."""
    used = [part for part in block.parts if part * granule(block.size) < block.size]
    return min((max(used) + 1) * granule(block.size), block.size) if used else 0


def summed(blocks: list[Block], size: str = "size") -> list[int]:
    sizes = [b.size - extent(b) if size == "unused" else b.size for b in blocks]
    return [len(blocks), sum(sizes), sum(len(b.uses) for b in blocks)]


@RUNS
@given(runs())
def test_sums(run: Run) -> None:
    """The parts of the run become wider while the lives are added."""
    expected = Lives(run)
    sums, stacks = SiteSums(site_limits(THRESHOLDS)), {}
    with tempfile.TemporaryDirectory() as folder:
        lives = _lives.Lives(Trace(str(trace_of(folder, run))))
        for batch in lives.batches():
            sums.add(batch)
            stacks.update(zip(batch["handle"].tolist(), batch["stack"].tolist()))
    keys, rows = sums.table(expected.now)
    width = sums.width()
    assert HALF * width < max(expected.now, HALF + 1) and expected.now <= PARTS * width
    news = np.bincount([block.born // width for block in expected.blocks], minlength=PARTS)
    assert sums.parts()["news"].tolist() == news.tolist()
    assert sums.last_new() == max((block.born for block in expected.blocks), default=0)
    assert keys.tolist() == sorted(set(stacks.values()))
    for key, row in zip(keys.tolist(), rows):
        own = [block for block in expected.blocks if stacks[block.handle] == key]
        spare = [b for b in own if b.size >= 20 and 0 < extent(b) < 0.4 * b.size]
        assert row["made"].tolist() == summed(own)
        assert row["brief"].tolist() == summed([b for b in own if b.freed and (b.news == 0 or b.died - b.born <= 7)])
        assert row["spare"].tolist() == summed(spare, "unused")
        assert row["frees"] == sum(b.freed for b in own) and row["managed"] == 0
        for part in range(-(-expected.now // width)):
            at = part * width
            alive = [b for b in own if b.born <= at and (not b.freed or b.died > at)]
            assert np.cumsum(row["bytes"])[part] == sum(b.size for b in alive)
            assert np.cumsum(row["blocks"])[part] == len(alive)


def run_of(**facts: object) -> site_rules.Run:
    """A run of 1,600 operations in 16 parts up to its last New, in all of which a garbage collector has freed something."""
    always = np.ones(PARTS, "u8")
    usual = site_rules.Run(1600, 10**9, 10**6, 100, always, always, 100_000, 10**8)
    return usual._replace(**facts)


def rows_of(alive: list[int], **columns: object) -> np.ndarray:
    """A site with so many bytes alive at the beginnings of the parts, and then none."""
    rows = np.zeros(1, SITE_SUMS)
    rows["bytes"] = np.diff([0, *alive, *[0] * (PARTS + 1 - len(alive))])
    for name, value in columns.items():
        rows[name] = value
    return rows


STEADY = [10_000 * part for part in range(16)]
# What is alive, what grows, and in how many parts: 14 for the whole run without its first part, 7 for the second half
COURSES = {
    "steady": (STEADY, 140_000, 14),
    "from the middle on": ([max(0, part - 8) * 10_000 for part in range(16)], 70_000, 7),
    "in rounds of three parts": ([part // 3 * 30_000 for part in range(16)], 150_000, 14),
    "a fifth without": ([*STEADY[:9], *[STEADY[8]] * 4, *STEADY[13:]], 0, 1),
    "a fifth with little": ([*STEADY[:9], *[STEADY[8] + 1000 * i for i in range(4)], *STEADY[13:]], 0, 1),
    "only to the middle": ([min(part, 8) * 10_000 for part in range(16)], 0, 1),
    "too little": ([part * 4000 for part in range(16)], 0, 1),
    "little of what is alive": ([10**6 + 10_000 * part for part in range(16)], 0, 1),
    "falling": (STEADY[::-1], 0, 1),
}


@pytest.mark.parametrize("course", COURSES)
def test_growth(course: str) -> None:
    alive, grown, parts = COURSES[course]
    (found,) = site_rules.growth(rows_of(alive), run_of(), DEFAULTS).found
    assert (found["size"], found["slope"]) == (grown, round(grown / (100 * parts) * 1000, 2))
    assert (found["since"], found["until"]) == ((1500 - 100 * parts, 1500) if grown else (0, 0))


@pytest.mark.parametrize("idle, grown", [(4, 100_000), (6, 0)])
def test_times_without_allocations_do_not_count(idle: int, grown: int) -> None:
    """Nothing grows while nothing is allocated, if the program allocates in most of the run."""
    end = 15 - idle
    rows, news = rows_of([*STEADY[: end + 1], *[STEADY[end]] * idle]), np.full(PARTS, 100, "u8")
    news[end:15] = 10
    (found,) = site_rules.growth(rows, run_of(news=news), DEFAULTS).found
    assert found["size"] == grown
    assert found["slope"] == round(grown / (100 * (end - 1)) * 1000, 2)
    news[end:15] = 30
    assert site_rules.growth(rows, run_of(news=news), DEFAULTS).found["size"] == 0, "it allocates"


def unsure_of(rows: np.ndarray, run: site_rules.Run) -> dict[str, list[int]]:
    """The beginnings of the reasons why growth is not judged, with the bytes by row."""
    found = site_rules.growth(rows, run, DEFAULTS).unsure
    return {reason[:16]: sizes.tolist() for reason, sizes in found.items() if sizes.any()}


RARE, GARBAGE, UNEVEN = "objects of the g", "of {}, what is a", "of {}, what is k"


def test_growth_of_objects_needs_rounds_of_the_collector() -> None:
    rows = rows_of(STEADY, managed=100)
    assert site_rules.growth(rows, run_of(), DEFAULTS).found["size"] == 140_000
    once, early, twice = (np.zeros(PARTS, "u8") for _ in range(3))
    once[[8, 9, 10]] = early[[1, 2, 14]] = twice[[8, 9, 12]] = 1000
    assert site_rules.growth(rows, run_of(collected=once), DEFAULTS).found["size"] == 0
    assert site_rules.growth(rows, run_of(collected=early), DEFAULTS).found["size"] == 0
    assert site_rules.growth(rows, run_of(collected=twice), DEFAULTS).found["size"] == 140_000
    assert site_rules.growth(rows_of(STEADY), run_of(collected=once), DEFAULTS).found["size"] == 140_000
    assert unsure_of(rows, run_of()) == {} and unsure_of(rows, run_of(collected=once)) == {RARE: [140_000]}
    assert unsure_of(rows_of(STEADY), run_of(collected=once)) == {}
    level = rows_of([140_000] * 16, managed=100)
    assert unsure_of(level, run_of(collected=once)) == {}, "it does not grow"


def test_the_collector_must_run_while_the_objects_rise() -> None:
    """What rises after the last collection may be garbage."""
    late = rows_of([max(0, part - 8) * 10_000 for part in range(16)], managed=100)
    before = np.zeros(PARTS, "u8")
    before[1:8] = 1000
    assert site_rules.growth(late, run_of(collected=before), DEFAULTS).found["size"] == 0
    assert unsure_of(late, run_of(collected=before)) == {RARE: [70_000]}
    assert site_rules.growth(late, run_of(), DEFAULTS).found["size"] == 70_000


def test_what_may_all_be_garbage_is_not_judged() -> None:
    """The program has requested so little that the objects of a site may all be garbage that is not yet collected."""
    requested, kept = np.zeros(PARTS, "u8"), np.zeros(PARTS, "i8")
    requested[:15], kept[0] = 10, 75
    run = run_of(requested=requested, kept=kept)
    for requested, grown, unsure in ((300_000, 140_000, {}), (300_001, 0, {GARBAGE: [140_000]})):
        rows = rows_of(STEADY, managed=100, requested=requested)
        assert site_rules.growth(rows, run, DEFAULTS).found["size"] == grown
        assert unsure_of(rows, run) == unsure
    assert site_rules.growth(rows_of(STEADY), run, DEFAULTS).found["size"] == 140_000, "blocks of malloc are no garbage"


def test_the_part_that_may_be_garbage() -> None:
    """That which is requested while the program requests as much as its objects are at most, or since a collection began that
    has ended."""
    numbers = np.array([100, 200, 100, 50, 1000], "u8"), np.array([100, 150, -120, 10, 1000])

    def garbage(*collected: int) -> float:
        run = run_of(requested=numbers[0], kept=numbers[1], collected=np.array(collected))
        return site_rules._garbage(run, 4)

    assert garbage(0, 0, 0, 0, 9) == 250 / 450 and garbage(0, 0, 9, 9, 0) == 250 / 450, "none has ended"
    assert garbage(0, 0, 9, 0, 0) == 150 / 450 and garbage(0, 9, 9, 0, 0) == 250 / 450
    assert garbage(9, 9, 9, 0, 0) == 250 / 450 and garbage(9, 0, 9, 0, 9) == 150 / 450
    assert site_rules._garbage(run_of(collected=np.zeros(PARTS, "u8")), 0) == 0
    larger = run_of(requested=numbers[0], kept=numbers[1], collected=np.zeros(5, "u8"), before=150)
    assert site_rules._garbage(larger, 4) == 400 / 450, "what was there at an attach takes its time, too"
    unknown = larger._replace(before=float("inf"))
    assert site_rules._garbage(unknown, 4) > 1, "nothing is known until a collection has ended"
    ended = unknown._replace(collected=np.array([0, 0, 9, 0, 0]))
    assert site_rules._garbage(ended, 4) == 150 / 450


def test_after_an_attach_growth_is_judged_when_a_collection_has_ended() -> None:
    """How much of what is new may be garbage depends on the size of the heap, which only a snapshot tells."""
    numbers = {"attached": "yes", "anonymous_before": "600"}
    assert site_rules._lua_bytes_before(numbers) == 600
    assert site_rules._lua_bytes_before({**numbers, "lua_bytes_before": "500"}) == 500
    assert site_rules._lua_bytes_before({"attached": "yes"}) == float("inf"), "a file of an earlier version"
    assert site_rules._lua_bytes_before({}) == 0
    run = run_of(before=float("inf"), requested=np.full(PARTS, 10_000, "u8"), kept=np.full(PARTS, 10, "i8"))
    still = np.zeros(PARTS, "u8")
    still[1:] = 1000
    rising = rows_of(STEADY, managed=1, requested=140_000)
    assert site_rules.growth(rising, run._replace(collected=still), DEFAULTS).found["size"] == 0
    assert unsure_of(rising, run._replace(collected=still)) == {GARBAGE: [140_000]}
    paused = still.copy()
    paused[2::2] = 0
    assert site_rules.growth(rising, run._replace(collected=paused), DEFAULTS).found["size"] > 0


def test_sites_that_are_not_judged_are_named() -> None:
    class Names:
        def text(self, number: int) -> str:
            return f"f{number} (a.lua:{number}) < main"

    run = run_of(snapshots=True)
    unsure = {"of {}, one": {1: 10, 2: 2048}, "none of {}": {}, "of {}, many": {k: k for k in range(3, 9)}}
    assert site_rules._not_judged(unsure, Names(), run) == (
        "of 2 sites, one (f2 (a.lua:2): 2 KiB, f1 (a.lua:1): 10 B); "
        f"of 6 sites, many (f8 (a.lua:8): 8 B, f7 (a.lua:7): 7 B, f6 (a.lua:6): 6 B, 3 others); {UNIVERSE_SHOWS}"
    )
    assert site_rules._not_judged({"of {}": {}}, Names(), run) == ""


def test_garbage_that_grows_with_the_heap_is_not_what_grows() -> None:
    """There is more of it each time before the collector runs, and little afterwards; blocks of malloc would be a leak."""
    alive = [5000] * len(STEADY)
    for number, moment in enumerate(next(site_rules._stretches(np.full(len(STEADY) - 1, 100), 5))):
        alive[moment] = 5000 + 30_000 * number
    assert site_rules.growth(rows_of(alive, managed=100), run_of(), DEFAULTS).found["size"] == 0
    assert site_rules.growth(rows_of(alive), run_of(), DEFAULTS).found["size"] == 150_000
    beside = [garbage + held for garbage, held in zip(alive, STEADY)]
    assert site_rules.growth(rows_of(beside, managed=100), run_of(), DEFAULTS).found["size"] == 0, "mostly garbage"
    kept = [garbage + 4 * held for garbage, held in zip(alive, STEADY)]
    assert site_rules.growth(rows_of(kept, managed=100), run_of(), DEFAULTS).found["size"] > 500_000


def test_objects_that_rise_unevenly_are_not_judged() -> None:
    """What is kept rises in each part, in one by very little, as where the collector runs seldom: it may grow or not."""
    moments = next(site_rules._stretches(np.full(len(STEADY) - 1, 100), 5))
    kept = np.interp(range(len(STEADY)), moments, [0, 40_000, 80_000, 80_500, 120_000, 160_000]).astype(int).tolist()
    assert site_rules.growth(rows_of(kept, managed=100), run_of(), DEFAULTS).found["size"] == 0
    assert unsure_of(rows_of(kept, managed=100), run_of()) == {UNEVEN: [kept[moments[-1]]]}
    assert unsure_of(rows_of(kept), run_of()) == {}, "blocks of malloc are no garbage"
    kept[moments[3]] = kept[moments[2]] - 1
    assert unsure_of(rows_of(kept, managed=100), run_of()) == {}, "it fell"


def test_growth_needs_parts() -> None:
    short = run_of(before_frees=8, width=1)
    found, not_judged, _ = site_rules.growth(rows_of(STEADY), short, DEFAULTS)
    assert found["size"] == 0 and not_judged.startswith("the run up to its last New (8 operations) is too short")
    assert site_rules.growth(rows_of(STEADY), run_of(), {**DEFAULTS, "parts": 14}).found["size"] == 140_000
    assert site_rules.growth(rows_of(STEADY), run_of(), {**DEFAULTS, "parts": 15}).found["size"] == 0


@pytest.mark.parametrize(
    "made, brief, share, is_found",
    [(10_000, 9000, 10, True), (9999, 9999, 10, False), (10_000, 8999, 10, False), (999, 999, 0, False)],
)
def test_a_hot_line(made: int, brief: int, share: int, is_found: bool) -> None:
    rows = rows_of([], made=(made, 8 * made, 3), brief=(brief, 8 * brief, 2), frees=brief)
    (found,) = site_rules.temporary_line(rows, run_of(), {**DEFAULTS, "hot": share}).found
    assert found.tolist() == ((brief, 8 * brief, 2, 0.0, 0, 0, 0) if is_found else (0, 0, 0, 0.0, 0, 0, 0))


@pytest.mark.parametrize(
    "held, requested, managed, is_found",
    [
        (2e10, 8 * 10**6, 10_000, True),
        (2.1e10, 8 * 10**6, 10_000, False),
        (2e10, 7_990_000, 10_000, False),
        (2e10, 8 * 10**6, 0, False),
    ],
)
def test_a_hot_line_in_the_heap_of_a_collector(held: float, requested: int, managed: int, is_found: bool) -> None:
    rows = rows_of([], made=(10_000, 80_000, 3), frees=10_000, held=held, managed=managed)
    (found,), not_judged, _ = site_rules.temporary_line(rows, run_of(allocated=requested), DEFAULTS)
    assert found["blocks"] == (10_000 if is_found else 0)
    assert not_judged == (
        "objects of the garbage collector, because the program requested 7.9 times its peak of live bytes; at least 8 are "
        "needed"
        if requested == 7_990_000
        else ""
    )


@pytest.mark.parametrize(
    "died, others, peak, is_found",
    [
        (262144, 0, 65536, True),
        (262144, 0, 65537, False),
        (262143, 0, 1, False),
        (10**6, 19 * 10**6, 0, True),
        (10**6, 19 * 10**6 + 1, 0, False),
    ],
)
def test_churn(died: int, others: int, peak: int, is_found: bool) -> None:
    """Of two sites, judged by what died in all and by what is live of the site at the peak."""
    rows = np.zeros(2, ENDED)
    rows["blocks"], rows["bytes"], rows["accesses"] = (7, 8), (died, others), 5
    rows["peak_bytes"] = peak, 0
    found = site_rules.churn(Sums(np.array([4, 9], "u4"), rows), DEFAULTS)
    of_first = [row for number, row in zip(found.numbers.tolist(), found.rows.tolist()) if number == 4]
    assert of_first == ([(7, died, 5, 0.0, 0, 0, 0)] if is_found else [])


@pytest.mark.parametrize(
    "unused, size, is_found", [(65536, 10**6, True), (65535, 10**6, False), (65536, 10**8, False)]
)
def test_capacity(unused: int, size: int, is_found: bool) -> None:
    rows = rows_of([], spare=(100, unused, 7))
    (found,) = site_rules.capacity(rows, run_of(bytes=size), DEFAULTS).found
    assert found.tolist() == ((100, unused, 7, 0.0, 0, 0, 0) if is_found else (0, 0, 0, 0.0, 0, 0, 0))


def test_a_site_that_made_nothing_later_is_named(steve: Steve, trace: Callable[..., Path]) -> None:
    """Growth is judged by operations, most of which may be in a short time: the index grew in the first 0.4 of 1.4 seconds."""

    def script(later: int) -> str:
        lines = [
            "info recorder native",
            "info time_unit nanoseconds",
            "stack main@a.c:1 index@a.c:2",
            "stack main@a.c:1",
        ]
        for i in range(4000):
            lines += [f"time {100_000 * min(i, 3950) + later * max(i - 3950, 0)}"]
            lines += [f"N {0x100000 + 256 * i} 200 1"] if i < 3950 else []
            lines += ["N 4096 64 2", "F 4096"]
        return "\n".join([*lines, "end exit", ""])

    def growing(path: Path) -> dict[str, Any]:
        (found,) = [one for one in json.loads(steve("findings", "--json", path).out) if one["finding"] == "growth"]
        assert [row["site"].split(" <")[0] for row in found["sites"]] == ["index (a.c:2)"]
        return found

    text = "the last block at 395 ms of 1.38 s"
    early, steady = trace(script(20_000_000), "early.ljt"), trace(script(100_000), "steady.ljt")
    (ended,) = growing(early)["ended"]
    assert ended == {"site": "index (a.c:2) < main (a.c:1)", "last_new": 394_900_000, "text": text}
    assert f"no longer in the second half of the recording: index (a.c:2) ({text})" in steve("findings", early).out
    assert growing(steady)["ended"] == [] and "no longer in the" not in steve("findings", steady).out
    for path, said in ((early, True), (steady, False)):
        assert steve("report", path, "-q", "-f", "-o", "page.html").returncode == 0
        assert (", the last one at 395 ms of 1.38 s (" in (steve.folder / "page.html").read_text()) == said
