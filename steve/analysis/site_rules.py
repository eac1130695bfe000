"""The rules that judge what a site does in the whole run (SITE_RULES of steve.analysis.rules), from the sums of
steve/kernels/lives/site_rules.h.

Growth compares what is alive at moments of the run, up to its last New: many programs free everything at their end. An
object that a garbage collector has not yet freed is alive, so such objects count only if the collector has run often
enough, and if they are more than garbage can be. Where that is not so, the sites are named as not judged.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steve.analysis.rules import PEAKS_HELD, PEAKS_REQUESTED, UNIVERSE_SHOWS, has_snapshots
from steve.trace.rollups import Rollup, Sums
from steve.terminal.units import counted, human_bytes

if TYPE_CHECKING:
    from steve.analysis.folds import Table
    from steve.kernels._site_sums import SiteSums

FEWEST_PARTS = 9  # before the last New, which leaves at least as many operations as the Frees at the end of the run
# a part is busy if it has this share of the News of a mean part; the others do not count if most parts are busy
LEAST_BUSY, MOSTLY = 0.25, 2 / 3
NAMED = 3  # sites that are not judged
# of objects of a garbage collector that rise, but not as evenly as the rule has it
UNEVEN = "of {}, what is kept rises in each part of the run, but unevenly: a longer recording tells whether it grows"
# of those that rise and of which most may be garbage
GARBAGE = "of {}, what is alive rises, but may be garbage that was not yet collected: a longer recording tells whether it grows"
# what is alive is never this many times what was requested
ALL_MAY_BE = 2.0
# where no site grows, of lines that do
LINES_GROW = (
    "no site grows, but the sites of {} together do, as of callers that take turns; steve findings --by line shows them"
)
# slope: bytes in 1,000 operations; since, until: the operations between which growth was judged; most_recent: the time of the
# last New of a site that grows
FOUND = [
    ("blocks", "u8"),
    ("size", "u8"),
    ("accesses", "u8"),
    ("slope", "f8"),
    ("since", "u8"),
    ("until", "u8"),
    ("most_recent", "u8"),
]
LATE = 0.5  # of the recording: a site that grew, and whose last New is before that, may not grow any more
BLOCKS, BYTES, ACCESSES = range(3)
NONE = Sums(np.zeros(0, "u4"), np.zeros(0, FOUND))


class Run(NamedTuple):
    """What the rules need to know of the whole run. collected: by part, the objects that a garbage collector freed; news: by
    part, the News; requested, kept: by part, as in steve/kernels/lives/site_rules.h; before: bytes that Lua states had
    when the recorder was attached, or more; inf = not known."""

    before_frees: int  # operations up to the last New
    allocated: int  # bytes requested
    peak_bytes: int
    width: int  # of a part, in operations
    collected: np.ndarray
    news: np.ndarray
    blocks: int
    bytes: int  # of all blocks that are judged
    snapshots: bool = False  # has the trace some of Lua states that grew?
    requested: np.ndarray = np.zeros(1, "u8")
    kept: np.ndarray = np.zeros(1, "i8")
    before: float = 0


class Judgement(NamedTuple):
    """found: by row, what a rule finds (FOUND); not_judged: what it could not judge, and why, as text; "" = nothing; unsure: by
    such a reason, which has {} for the number of sites, and by row, the bytes that are not judged."""

    found: np.ndarray
    not_judged: str = ""
    unsure: dict[str, np.ndarray] = {}


def run_of(sums: SiteSums, totals: Mapping[str, int], info: Mapping[str, str]) -> Run:
    """totals: of steve.kernels._lives.Lives; info: of the trace."""
    made = sums.made()["made"].sum(axis=0, dtype="u8")
    known = (totals[name] for name in ("allocated", "peak_bytes"))
    parts = sums.parts()
    of_parts = sums.width(), parts["collected"], parts["news"]
    of_heap = parts["requested"], parts["kept"]
    before = _lua_bytes_before(info)
    numbers = int(made[BLOCKS]), int(made[BYTES])
    return Run(sums.last_new() + 1, *known, *of_parts, *numbers, has_snapshots(info), *of_heap, before)


def _lua_bytes_before(info: Mapping[str, str]) -> float:
    """The most that Lua states had when the recorder was attached, in bytes: snapshots say it. Without them it is not more than
    all that the process had, which files of earlier versions do not have."""
    if "lua_bytes_before" in info:
        return float(info["lua_bytes_before"])
    return float(info.get("anonymous_before", "inf")) if info.get("attached") == "yes" else 0.0


def _garbage(run: Run, until: int) -> float:
    """The part of what was requested in the heap of a garbage collector, up to the beginning of a part, that may be garbage
    there. LuaJIT's collector frees all garbage in the time in which the program requests about as much as the heap has at
    most; and when it has run, what was made before is no garbage, but for what was dropped since then."""
    requested = run.requested[:until].astype("i8")
    total, most = int(requested.sum()), run.before + float(np.cumsum(run.kept[:until]).max(initial=0))
    runs = run.collected[:until] > 0
    ends = np.flatnonzero(runs[:-1] & ~runs[1:])
    if len(ends):
        others = np.flatnonzero(~runs[: ends[-1] + 1])
        most = min(most, float(requested[others[-1] + 1 if len(others) else 0 :].sum()))
    return min(most / total, ALL_MAY_BE) if total else 0.0


def judged(
    sums: SiteSums, rollup: Rollup, totals: Mapping[str, int], thresholds: Mapping[str, float], info: Mapping[str, str]
) -> dict[str, tuple[Sums, str]]:
    """What each rule of JUDGES finds, by its key: by row of a list, and what it could not judge. All rows together would take
    much memory. totals, info: of run_of()."""
    keys, run = sums.keys(totals["operations"]), run_of(sums, totals, info)
    parts: dict[str, list[Sums]] = {key: [NONE] for key in JUDGES}
    not_judged = dict.fromkeys(JUDGES, "")
    unsure: dict[str, dict[str, dict[int, int]]] = {key: {} for key in JUDGES}
    for some in rollup.merged_in_parts(keys, sums.rows):
        for key, judge in JUDGES.items():
            one = judge(some.rows, run, thresholds)
            not_judged[key] = one.not_judged or not_judged[key]
            kept = np.flatnonzero(one.found["size"])
            parts[key].append(Sums(some.numbers[kept], one.found[kept]))
            for reason, size in one.unsure.items():
                of_rows = zip(some.numbers[size > 0].tolist(), size[size > 0].tolist())
                unsure[key].setdefault(reason, {}).update(of_rows)
    texts = {key: not_judged[key] or _not_judged(unsure[key], rollup, run) for key in JUDGES}
    if rollup.by == "stack" and not any(len(some.rows) for some in parts["growth"]):
        lines = "" if not_judged["growth"] else _growing_lines(keys, sums, rollup, run, thresholds)
        texts["growth"] = "; ".join(filter(None, [texts["growth"], lines]))
    return {key: (Sums(*map(np.concatenate, zip(*found))), texts[key]) for key, found in parts.items()}


def _growing_lines(keys: np.ndarray, sums: SiteSums, rollup: Rollup, run: Run, thresholds: Mapping[str, float]) -> str:
    """The lines that grow, as text, of a run in which no site grows: callers that take turns allocate in a part of the run
    each. "" = none."""
    by_line, sizes = Rollup("line", rollup.places), {}
    for some in by_line.merged_in_parts(keys, sums.rows):
        size = growth(some.rows, run, thresholds).found["size"]
        sizes.update(zip(some.numbers[size > 0].tolist(), size[size > 0].tolist()))
    return _named(LINES_GROW, sizes, by_line, "line") if sizes else ""


def _short(name: str) -> str:
    """The innermost frame of a site, or the name of another row."""
    return name.split(" < ")[0]


def _not_judged(unsure: Mapping[str, Mapping[int, int]], rollup: Rollup, run: Run) -> str:
    """What could not be judged, as text: each reason with the largest sites. unsure: the bytes by reason and row."""
    texts = [_named(reason, sizes, rollup, "site") for reason, sizes in unsure.items() if sizes]
    return "; ".join([*texts, *([UNIVERSE_SHOWS] if texts and run.snapshots else [])])


def _named(reason: str, sizes: Mapping[int, int], rollup: Rollup, noun: str) -> str:
    """A reason with the number of rows, which are of this kind, and the largest of them. sizes: bytes, by row."""
    first = sorted(sizes, key=lambda number: -sizes[number])[:NAMED]
    names = [f"{_short(rollup.text(number))}: {human_bytes(sizes[number])}" for number in first]
    others = [counted(len(sizes) - NAMED, "other")] if len(sizes) > NAMED else []
    text = reason.format(counted(len(sizes), noun))
    return f"{text} ({', '.join([*names, *others])})"


def made(sums: SiteSums, rollup: Rollup) -> Sums:
    """The column `made` by row of a list."""
    keys = sums.keys(0)
    order = np.argsort(keys, kind="stable")
    return rollup.merged(Sums(keys[order], sums.made()[order]))


def _found(rows: np.ndarray, mask: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Rows of FOUND, empty where the mask is false. sums: blocks, bytes and accesses, by row."""
    found = np.zeros(len(rows), FOUND)
    for name, column in (("blocks", BLOCKS), ("size", BYTES), ("accesses", ACCESSES)):
        found[name][mask] = sums[mask, column]
    return found


def growth(rows: np.ndarray, run: Run, thresholds: Mapping[str, float]) -> Judgement:
    """By row, what the rule finds: blocks and bytes by which it grows, accesses to all its blocks, and the slope, in
    bytes in 1,000 operations. What grows in the whole run may do so in rounds that are as long as a fifth of it. While the
    program allocates hardly anything, nothing can grow: a long search, or a collection of all garbage before the end.
    """
    parts = -(-run.before_frees // run.width)
    found = np.zeros(len(rows), FOUND)
    if parts < FEWEST_PARTS or parts - 2 < thresholds["parts"]:
        length = counted(run.before_frees, "operation")
        return Judgement(
            found, f"the run up to its last New ({length}) is too short, or too small a part of the whole run"
        )
    unsure = {reason: np.zeros(len(rows), "u8") for reason in (_rare_rounds(run, thresholds), GARBAGE, UNEVEN)}
    rare, garbage, uneven = unsure.values()
    for moments in _stretches(run.news[: parts - 1], int(thresholds["parts"])):
        enough = _has_collected(run.collected[: parts - 1], moments[0], thresholds)
        one = _growth_in(rows, moments, thresholds)
        one["slope"] = np.round(1000 * one["size"] / ((moments[-1] - moments[0]) * float(run.width)), 2)
        one["since"], one["until"] = (np.where(one["size"] > 0, at * run.width, 0) for at in (moments[0], moments[-1]))
        one["most_recent"] = np.where(one["size"] > 0, rows["most_recent"], 0)
        is_plain, alive = rows["managed"] == 0, np.cumsum(rows["bytes"], axis=1)[:, moments[-1]]
        is_more = is_plain | (alive >= _garbage(run, moments[-1]) * rows["requested"])
        np.maximum(rare, one["size"], out=rare, where=~(enough | is_plain))
        np.maximum(garbage, one["size"], out=garbage, where=(enough & ~is_more))
        found = np.where((found["size"] == 0) & (enough | is_plain) & is_more, one, found)
        rises = enough & is_more & _grows_unevenly(rows, moments, thresholds)
        np.maximum(uneven, alive.astype("u8"), out=uneven, where=rises)
    known = found["size"] > 0
    for size in unsure.values():
        size[known] = 0
        known |= size > 0
    return Judgement(found, unsure=unsure)


def no_longer(found: np.ndarray, end: int) -> np.ndarray:
    """By row of what growth() found, did the site make nothing in the last part of the recording? The parts in which growth is looked
    for have as many operations, and most of these may be in a short time. end: the time at the end of the recording."""
    return (found["size"] > 0) & (found["most_recent"] < LATE * end)


def _stretches(news: np.ndarray, parts: int) -> Iterator[np.ndarray]:
    """The stretches of the run in which growth is looked for, each as the moments that divide it into equal parts: the
    whole run and its second half; then, if it allocates little in some of it, the same without that time. A moment is
    the number of a part that begins there. news: by part, without the last one."""
    busy = 1 + np.flatnonzero(len(news[1:]) * news[1:] >= LEAST_BUSY * float(news[1:].sum()))
    every = np.arange(1, len(news))
    for some in (every,) if len(busy) in (0, len(every)) or len(busy) < MOSTLY * len(every) else (every, busy):
        edges = np.append(some[0], some + 1)
        for judged in (len(some), max(parts, -(-len(some) // 2))):
            if judged <= len(some):
                yield edges[np.linspace(len(some) - judged, len(some), parts + 1).round().astype(int)]


def _rare_rounds(run: Run, thresholds: Mapping[str, float]) -> str:
    """Why growth of a garbage collector's objects is not judged, with {} for the number of sites."""
    return (
        "objects of the garbage collector of {}, because it freed some in "
        f"{np.count_nonzero(run.collected):,} parts of the run, too few or not while these rose; {thresholds['parts']} are "
        "needed, or two with a pause between"
        + (
            ""
            if run.snapshots
            else "; snapshots tell garbage from what is kept (--universe=growing, ljtrace.snapshot): `steve universe` shows what "
            "grew between them"
        )
    )


def _has_collected(collected: np.ndarray, first: int, thresholds: Mapping[str, float]) -> bool:
    """Has the garbage collector run often enough for growth from the first part judged on to be no garbage? It has if it freed
    objects in many parts since then. LuaJIT's also runs when the heap has doubled, which is seldom in a program whose temporaries
    are not allocated, because the JIT compiler has sunk them. Two collections with a pause between them are then enough,
    if they end after the first step: what was garbage before is gone, so garbage alone would not grow in each step."""
    runs = collected > 0
    if np.count_nonzero(runs[first:]) >= thresholds["parts"]:
        return True
    ends = np.flatnonzero(runs & ~np.append(runs[1:], False))
    return np.count_nonzero(ends >= first + (len(collected) - first) / thresholds["parts"]) >= 2


def _growth_in(rows: np.ndarray, at: np.ndarray, thresholds: Mapping[str, float]) -> np.ndarray:
    """By row, what grows between any two consecutive moments, which are numbers of parts of the run."""
    course = np.cumsum(rows["bytes"], axis=1)
    alive, blocks = course[:, at], np.cumsum(rows["blocks"], axis=1)[:, at]
    grown, least = alive[:, -1] - alive[:, 0], np.diff(alive, axis=1).min(axis=1)
    steady = (least > 0) & (4 * (len(at) - 1) * least >= grown)
    steady &= (rows["managed"] == 0) | _is_held(course, at, grown)
    mask = steady & (grown >= thresholds["growth"]) & (4 * grown >= alive[:, -1])
    more = np.maximum(blocks[:, -1] - blocks[:, 0], 0)
    return _found(rows, mask, np.column_stack([more, grown, rows["made"][:, ACCESSES].astype("i8")]))


def _grows_unevenly(rows: np.ndarray, at: np.ndarray, thresholds: Mapping[str, float]) -> np.ndarray:
    """By row of the heap of a garbage collector, does the least that is alive rise from each two moments to the next, in all by
    as much as is found, though it may rise much more in some parts than in others?"""
    course = np.cumsum(rows["bytes"], axis=1)
    least = _least_between(course, at)
    grown = least[:, -1] - least[:, 0]
    rises = (np.diff(least, axis=1) > 0).all(axis=1) & (grown >= thresholds["growth"])
    return (rows["managed"] > 0) & rises & (4 * grown >= course[:, at[-1]])


def _least_between(course: np.ndarray, at: np.ndarray) -> np.ndarray:
    """By row, the least that is alive from each moment to the next."""
    return np.minimum.reduceat(course[:, : at[-1]], at[:-1], axis=1)


def _is_held(course: np.ndarray, at: np.ndarray, grown: np.ndarray) -> np.ndarray:
    """By row, does at least half of the growth remain when the garbage collector has run? Where a heap grows, the
    collector waits longer each time, so that garbage grows with it; but the least that is alive between two moments does not.
    course: what is alive at the beginning of each part."""
    least = _least_between(course, at)
    return (np.diff(least, axis=1).min(axis=1) > 0) & (2 * (least[:, -1] - least[:, 0]) >= grown)


def temporary_line(rows: np.ndarray, run: Run, thresholds: Mapping[str, float]) -> Judgement:
    """By row, the temporaries of hot sites; of the heap of a garbage collector, all blocks that are freed."""
    made, frees = rows["made"][:, BLOCKS], rows["frees"]
    hot = (made >= thresholds["least_hot"]) & (100 * made >= thresholds["hot"] * run.blocks)
    enough = thresholds["brief"] / 100 * made
    brief = rows["brief"][:, BLOCKS] >= enough
    rounds = run.allocated >= PEAKS_REQUESTED * run.peak_bytes
    soon = rows["held"] <= frees * (PEAKS_HELD * float(run.peak_bytes))
    objects = hot & (rows["managed"] == made)
    collected = objects & (frees >= enough) & soon & rounds
    sums = np.where(brief[:, None], rows["brief"], rows["made"])
    found = _found(rows, (hot & brief) | collected, sums)
    return Judgement(found, _few_requests(run) if not rounds and (objects & ~brief).any() else "")


def _few_requests(run: Run) -> str:
    """Why temporaries in the heap of a garbage collector are not judged."""
    times = 10 * run.allocated // max(run.peak_bytes, 1) / 10
    return (
        f"objects of the garbage collector, because the program requested {times:.1f} times its peak of live bytes; at least "
        f"{PEAKS_REQUESTED} are needed"
    )


def capacity(rows: np.ndarray, run: Run, thresholds: Mapping[str, float]) -> Judgement:
    """By row, the blocks with unused capacity, and its bytes."""
    unused = rows["spare"][:, BYTES]
    enough = (unused >= thresholds["least_spare"]) & (100 * unused >= thresholds["spare"] * run.bytes)
    return Judgement(_found(rows, enough, rows["spare"]), "")


def pinned_pages(pins: Sums, sites: Sums, thresholds: Mapping[str, float]) -> Sums:
    """By row, what the rule finds: the blocks, and the bytes of pages beyond their own. pins: the rows of
    steve.allocstats.pins.pinned; sites: made() of the same rows and others."""
    size, pinned = pins.rows["bytes"], pins.rows["pinned"]
    some = np.flatnonzero((pinned >= thresholds["pinned"] * size) & (pinned - size >= thresholds["least_pinned"]))
    found = np.zeros(len(some), FOUND)
    found["blocks"], found["size"] = pins.rows["blocks"][some], (pinned - size)[some].round()
    known = np.searchsorted(sites.numbers, pins.numbers[some])
    found["accesses"] = sites.rows["made"][known, ACCESSES]
    return Sums(pins.numbers[some], found)


def leaked(lost: Table | None, rollup: Rollup) -> tuple[Sums, str]:
    """By row, the lost blocks; and what could not be judged. lost: of Reached.lost(), None without a search for pointers."""
    if lost is None:
        return NONE, "the recorder did not search for pointers at the end"
    sums = rollup.merged(Sums(*lost))
    found = np.zeros(len(sums.rows), FOUND)
    found["blocks"], found["size"], found["accesses"] = (sums.rows[name] for name in ("blocks", "bytes", "accesses"))
    return Sums(sums.numbers, found), ""


def churn(sums: Sums, thresholds: Mapping[str, float]) -> Sums:
    """By row, the blocks that died, and their bytes when they did. sums: those of
    steve.kernels._site_sums.EndedLives. What is kept until the end and freed then is live at the peak, too."""
    size, at_peak = sums.rows["bytes"], sums.rows["peak_bytes"]
    much = (size >= thresholds["least_churn"]) & (100 * size >= thresholds["churn"] * int(size.sum()))
    some = np.flatnonzero(much & (size >= thresholds["turns"] * at_peak))
    found = np.zeros(len(some), FOUND)
    found["blocks"], found["size"] = sums.rows["blocks"][some], size[some]
    found["accesses"] = sums.rows["accesses"][some]
    return Sums(sums.numbers[some], found)


JUDGES = {"growth": growth, "temporary_line": temporary_line, "capacity": capacity}
