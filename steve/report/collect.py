# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a trace for the report: all its analyses are fed in one walk, and their results get names.

The findings and the lives of blocks are those of the commands. Only the profile (steve.kernels._report) is the
report's own. Memory is bounded by live blocks, stacks and bins. If a trace is truncated or damaged, the report
covers what could be read, and `problem` says what is wrong.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from steve.analysis import folds, looks, lua_held, site_rules
from steve.analysis.blocks import is_whole
from steve.analysis.folds import Passed, Together
from steve.analysis.lives import LifeAnalysis
from steve.analysis.lost import Reached, Runtime, is_leak, searched
from steve.kernels._accesses import Course
from steve.kernels._report import TALLY, VARIANCES, BlockCells, HeapProfile, LuaWork
from steve.kernels._site_sums import EndedLives, Findings, SiteSums
from steve.kernels._walk import Analysis, feed_together
from steve.system.samples import VARIANCE, Sample, variance
from steve.system.errors import TraceError
from steve.terminal.tables import StackText, times, told_apart
from steve.analysis.offsets import Accessed
from steve.analysis.rules import ALL, CHURN, DEFAULTS, LEAKED, PINNED_PAGES, RULES, limits, site_limits
from steve.report.lua_growth import LuaGrowth, LuaHeld, lua_snapshots
from steve.report import line_work, offsets, resident
from steve.report.addresses import addresses
from steve.report.sources import Sources
from steve.report.names import shown_frame, site_name
from steve.report.windows import NAME_LIMIT, Cells, Kept, Linked, clean, explorable, timeline_of
from steve.trace import earlier_blocks, earlier_code, missing
from steve.trace.policy import ShownStacks, is_own
from steve.trace.frames import is_lua
from steve.trace import runtimes
from steve.trace.rollups import Rollup, Sums, heap_name
from steve.analysis.totals import extent, is_complete, is_least, not_freed, time_unit

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.kernels._walk import Walk
    from steve.parallel.checkpoints import Checkpoint
    from steve.parallel.rounds import Whole
    from steve.trace._memtrace import Trace
    from steve.trace.places import Places

BINS = 400
FRAMES_SHOWN = 32
NEVER_FREED = "never_freed"  # the key of the rule
LONG_NAME = 600  # characters of a name that tells sites apart
MOST_FOUND = 12  # sites of each rule
FOUND_VARIANCES = (variance("blocks"), variance("bytes"))  # of what a rule finds, in a sample of the blocks
# totals that are estimates in a sample of the blocks, with their columns in the tallies of the heaps
TOTALS = {
    "new": "blocks",
    "free": "frees",
    "resize": "resizes",
    "allocated": "bytes",
    "peak_bytes": "peak_bytes",
    "peak_blocks": "peak_blocks",
    "live_bytes": "live_bytes",
    "live_blocks": "live_blocks",
    "bytes_read": "bytes_read",
    "bytes_written": "bytes_written",
}


@dataclass
class Site:
    """An allocation stack and the tally of its blocks (columns of steve.kernels._report.TALLY). lua: how many of the frames
    there are up to the outermost one of Lua; own: the first of those of the program, and the one after the last."""

    stack: int
    name: str
    frames: list[str]
    tally: dict[str, Any]
    lua: int
    own: tuple[int, int]

    def mean_lifetime(self) -> float | None:
        """Operations from New to Free, over the freed blocks; None if none was freed."""
        return self.tally["lifetimes"] / self.tally["frees"] if self.tally["frees"] else None


@dataclass
class TraceData:
    """All that the report says of a trace. `standard_errors`: of totals, in a sample of the blocks. `all_sites` is their
    number, `sites` the named ones of interest, `explorable` the data of steve.report.windows, `linked` how links name
    sites in it, `kept` what was kept between marks, `found` what each rule of steve.analysis.rules finds by site, by
    the rule's key, `not_judged` what it could not judge, as text (steve.analysis.site_rules.FOUND, and FOUND_VARIANCES
    for rules about blocks), of `judged_bytes` in all, `found_sites` the sites that lead by a rule, by number,
    `of_runtime` those of them whose blocks the C library made for itself, `approximate_lines` what to know
    of lines that are not exact or "", `accesses` whether loads and stores were recorded, `accesses_in_part` that they were in a
    part of the run only or ""."""

    path: str
    info: dict[str, str]
    stats: dict[str, Any]
    totals: dict[str, int]
    sample: Sample
    standard_errors: dict[str, float]
    timeline: np.ndarray
    all_sites: int
    found: dict[str, Sums]
    not_judged: dict[str, str]
    judged_bytes: int
    found_sites: dict[int, Site]
    lines: dict[int, str]
    linked: Linked
    kept: Kept | None
    of_runtime: set[int]
    sites: list[Site]
    heaps: list[tuple[str, dict[str, Any]]]
    marks: list[tuple[int, int, str]]
    map_blocks: np.ndarray
    map_bytes: np.ndarray
    explorable: str
    complete: bool
    dropped: int
    dropped_at_least: bool
    not_seen: dict[str, Any]
    approximate_lines: str
    resized_before: str  # what to know of blocks from before the attach that were resized
    approximate: frozenset[str]  # the lines that it is about
    changed_sources: list[str]  # files that were changed since, and are not on the page
    instructions: int
    time_unit: str
    accesses: bool
    accesses_in_part: str
    problem: TraceError | None
    resident: dict[str, Any] | None = None
    """of steve.report.resident."""
    owners: resident.OwnerTables | None = None
    """Whose the resident pages were at the look with most of them."""
    kept_free: tuple[looks.KeptFree | None, str] = (None, "")
    """What the allocators kept at the last look, or why that is not known."""
    free_call: str = ""
    """of steve.analysis.looks."""
    addresses: dict[str, Markup] = field(default_factory=dict)
    """of steve.report.addresses."""
    accessed_sites: dict[int, Site] = field(default_factory=dict)
    """The sites of by_offset, by number."""
    by_offset: offsets.ByOffset | None = None
    of_collector: set[int] = field(default_factory=set)
    """The sites with blocks in the heap of a garbage collector."""
    held: dict[int, lua_held.Held] = field(default_factory=dict)
    """By site, what snapshots say of its blocks of Lua."""
    lua_growth: LuaGrowth | None = None
    lua_held: LuaHeld | None = None
    not_freed: str = "never freed"
    """What is true of the blocks that live at the end."""

    @property
    def command(self) -> str:
        """What was traced; the file's name if the trace does not say."""
        return self.info.get("command") or Path(self.path).name


def line_text(places: Places, site: int) -> str:
    """The text of the line of a site."""
    number = places.line_frame(site)
    frame = places.sites.shown.named(number) if number else None
    return shown_frame(frame) if frame is not None else clean(places.sites.frame_text(number))


def runs(texts: list[str]) -> list[str]:
    """Texts of frames, those of calls in a row as one."""
    return [times(text, len(list(run))) for text, run in groupby(texts)]


def named_sites(shown: ShownStacks, tallies: Sums, numbers: Iterable[int]) -> dict[int, Site]:
    """The Sites with numbers. Their names have as many frames as it takes to tell them apart."""
    frames = {site: shown.frames(site) for site in numbers}
    names = {site: site_name(found) for site, found in frames.items()}
    texts = fitting(told_apart(list(names.values())))
    return {
        site: Site(
            site,
            texts[names[site]],
            texts_of(found),
            _row(tallies.of(site), shown.trace.sample),
            lua_frames(found),
            own_frames(found),
        )
        for site, found in frames.items()
    }


def fitting(apart: dict[StackText, str]) -> dict[StackText, str]:
    """Names fit for showing. A long one is shown without frames in its middle if it then still is the only such name.
    apart: of told_apart()."""
    whole = {name: " ← ".join(parts_of(name, text)) for name, text in apart.items()}
    short = {name: without_middle(parts_of(name, text)) for name, text in apart.items()}
    uses = Counter(short.values())
    return {
        name: clean(text)
        if len(text) <= NAME_LIMIT
        else clean(short[name] if uses[short[name]] == 1 else text, LONG_NAME)
        for name, text in whole.items()
    }


def parts_of(name: StackText, text: str) -> tuple[str, ...]:
    """The frames of a name that are in its text, which is cut after one of them."""
    n = 0
    while n < len(name.parts) and len(" < ".join(name.parts[:n])) < len(text):
        n += 1
    return name.parts[:n]


def without_middle(parts: tuple[str, ...]) -> str:
    """The first frame, and as many of the last ones as there is room for, at least one."""
    last, room = len(parts) - 1, NAME_LIMIT - len(parts[0]) - len(parts[-1])
    while last > 1 and len(parts[last - 1]) + 3 <= room:
        last -= 1
        room -= len(parts[last]) + 3
    return " ← ".join((parts[0], *(["…"] if last > 1 else []), *parts[max(last, 1) :]))


def own_frames(frames: list[Any]) -> tuple[int, int]:
    """The frames from the innermost one of the program's own code to the outermost one, of those that are shown; all, if there
    is none."""
    own = [at for at, frame in enumerate(frames[:FRAMES_SHOWN]) if frame is None or is_own(frame)]
    return (own[0], own[-1] + 1) if own else (0, len(frames))


def lua_frames(frames: list[Any]) -> int:
    """The number of frames up to the outermost one of Lua; 0: there is none, or it is not among those that are shown."""
    found = max((at for at, frame in enumerate(frames, 1) if frame is not None and is_lua(frame)), default=0)
    return found if found <= FRAMES_SHOWN else 0


def texts_of(frames: list[Any]) -> list[str]:
    """The texts of the first frames of a stack, and the number of the others."""
    texts = [shown_frame(frame) for frame in frames[:FRAMES_SHOWN]]
    return texts + [f"… {len(frames) - FRAMES_SHOWN} more"] * (len(frames) > FRAMES_SHOWN)


def tally_columns(sample: Sample) -> list[str]:
    """Those of tallies, with variances only in a sample of the blocks."""
    return [*(name for name in TALLY.names if name != "epoch"), *(VARIANCES.names if sample else ())]


def _row(record: np.void, sample: Sample) -> dict[str, Any]:
    """A tally; in a sample of the blocks, with its standard errors."""
    names = [name for name in record.dtype.names if not name.startswith(VARIANCE)]
    found = {name: float(record[name]) for name in record.dtype.names if name.startswith(VARIANCE)}
    return {**{name: int(record[name]) for name in names}, **sample.standard_errors(found, {n: n for n in names})}


def _standard_errors(heaps: np.ndarray, sample: Sample) -> dict[str, float]:
    """Of the totals of a sample; {} if the trace is none. heaps: TALLY by heap."""
    found = {name: float(heaps[name].sum()) for name in heaps.dtype.names if name.startswith(VARIANCE)}
    return sample.standard_errors(found, TOTALS).get("standard_errors", {})


def interesting(tallies: Sums, most: int) -> list[int]:
    """The sites with the most bytes, and those that lead in another respect; by bytes, at most about 2 * most."""
    rows = tallies.rows
    used = np.flatnonzero(rows["bytes"] + rows["blocks"])
    chosen: dict[int, None] = {}
    for key, count in (
        ("bytes", most),
        ("peak_bytes", most // 4),
        ("live_bytes", most // 4),
        ("blocks", most // 4),
        ("unread_bytes", most // 4),
        ("unwritten_bytes", most // 4),
    ):
        chosen.update(greatest(rows[key], used, count))
    chosen.update((int(i), None) for i in used[:most] if len(chosen) < most)
    return [int(tallies.numbers[i]) for i in sorted(chosen, key=lambda i: (-int(rows["bytes"][i]), i))]


def greatest(values: np.ndarray, among: np.ndarray, count: int) -> dict[int, None]:
    """The indices with the greatest values, at most so many, of equal values the first; none whose value is 0. This is the
    one order for all that choose sites to name: another one of equal values would select sites that have no name."""
    order = among[np.argsort(-values[among].astype("i8"), kind="stable")[:count]]
    return {int(i): None for i in order if values[i]}


def _leading_by_rule(found: dict[str, Sums], most: int) -> set[int]:
    """The sites with the most bytes that some rule finds, at most so many for each."""
    return {
        int(sums.numbers[i])
        for sums in found.values()
        for i in greatest(sums.rows["size"], np.arange(len(sums.numbers)), most)
    }


def _found_by_rule(
    analysis: ReportAnalysis, of_rules: dict[str, Sums], rollup: Rollup, pins: Sums | None, lost: folds.Table | None
) -> tuple[dict[str, Sums], dict[str, str]]:
    """What each rule finds by site, by its key; and what rules could not judge, as text. of_rules: of
    take_found(); pins: see collect(); lost: of site_rules.leaked()."""
    found: dict[str, Sums] = {}
    leaked, not_searched = site_rules.leaked(lost, rollup)
    found[LEAKED.key], found[CHURN.key] = leaked, site_rules.churn(analysis.take_dead(rollup), DEFAULTS)
    for key, of_stacks in of_rules.items():
        numbers, rows = rollup.merged(of_stacks)
        sums = np.zeros(len(rows), [*site_rules.FOUND, *((name, "f8") for name in FOUND_VARIANCES)])
        for name in rows.dtype.names:
            sums[name] = rows[name]
        found[key] = Sums(numbers, sums)
    if pins is not None:
        of_sites = site_rules.made(analysis.site_sums, rollup)
        found[PINNED_PAGES.key] = site_rules.pinned_pages(rollup.merged(pins), of_sites, DEFAULTS)
    not_judged = {LEAKED.key: not_searched} if not_searched else {}
    for key, (sums, unjudged) in site_rules.judged(
        analysis.site_sums, rollup, analysis.life_totals(), DEFAULTS, rollup.places.trace.info()
    ).items():
        found[key] = sums
        not_judged.update({key: unjudged} if unjudged else {})
    del analysis.site_sums
    return found, not_judged


class ReportAnalysis(Analysis):
    """The analyses of the report, fed by one walk. The result is the object itself, with profile, cells, course and found.
    bins: the most that the timeline has; by_line: count the accesses of each line."""

    def __init__(self, bins: int = BINS, by_line: bool = False) -> None:
        self.profile, self.cells, self.course = HeapProfile(bins), BlockCells(), Course()
        self.found = Findings(limits(DEFAULTS))
        self.site_sums = SiteSums(site_limits(DEFAULTS))
        self.reached, self.dead, self.accessed = Reached(is_leak), EndedLives(), Accessed()
        self._lives = LifeAnalysis(
            lambda: Together(
                self.found, self.site_sums, self.reached, self.dead, self.accessed, Passed(self.profile.add_lives)
            )
        )
        self._moved = LuaWork() if by_line else None
        self._work: line_work.Sums | None = None  # of shards

    @property
    def needs(self) -> tuple[str, ...]:
        return (*HeapProfile.needs, *(LuaWork.needs if self._moved is not None else ()))

    def _all(self) -> tuple[Any, ...]:
        """The analyses, in the order in which they are fed."""
        moved = (self._moved,) if self._moved is not None else ()
        return (self.profile, self.cells, self.course, self._lives, *moved)

    def begin(self, walk: Walk, checkpoint: Checkpoint | None) -> None:
        for analysis in self._all():
            analysis.begin(walk, checkpoint)

    def feed(self, walk: Walk) -> None:
        feed_together(walk, self._all())

    def partial(self) -> tuple:
        lives, sums = self._lives.partial(), self._line_sums()
        return self.profile.partial(), self.cells.partial(), self.course.partial(), sums, lives

    def _line_sums(self) -> line_work.Sums | None:
        """What this walk counted for lines."""
        return line_work.sums_of(self._lives.result().lives, self._moved.result()) if self._moved is not None else None

    def know(self, whole: Whole) -> None:
        self.profile.know(whole)
        self._lives.know(whole)

    def merge(self, shard: tuple) -> None:
        profile, cells, course, sums, lives = shard
        self.profile.merge(profile)  # it knows the stacks of the shard before lives are added
        self.cells.merge(cells)
        self.course.merge(course)
        self._work = line_work.merge(self._work, sums)
        self._lives.merge(lives)

    def end(self, time: int, between: bool) -> None:
        for analysis in (self._lives, self.profile, self.cells, self.course):
            analysis.end(time, between)

    def take_found(self, sample: Sample) -> tuple[int, dict[str, Sums]]:
        """The bytes of all blocks that were judged, and what each rule about blocks finds by stack, by the rule's key. A row
        of all rules is long, and is no longer kept."""
        columns = {"blocks": "blocks", "size": "bytes", "accesses": "accesses"}
        columns.update((name, name) for name in FOUND_VARIANCES if sample)
        by_rule = {rule.key: Sums(*self.found.of_rule(number, columns)) for number, rule in enumerate(RULES)}
        judged = self.found.bytes()
        del self.found
        self._lives.drop_fold()
        return judged, by_rule

    def take_dead(self, rollup: Rollup) -> Sums:
        """The sums of the blocks that died, by row of a list, which are no longer kept by stack."""
        dead = Sums(*self.dead.table(self.life_totals()["peak"]))
        del self.dead
        return rollup.merged(dead)

    def take_tallies(self, sample: Sample) -> Sums:
        """The tallies by stack, which are no longer kept."""
        tallies = Sums(*self.profile.stacks(tally_columns(sample)))
        del self.profile
        return tallies

    def take_cells(self) -> Cells:
        """The cells, which are no longer kept otherwise."""
        cells = Cells.of(self.cells)
        del self.cells
        return cells

    def life_totals(self) -> dict[str, int]:
        """The fields of struct lives_totals."""
        return self._lives.result().totals

    def work(self) -> line_work.Work:
        """Bytes that each line reads and writes, by file and line; {} if lines are not counted."""
        sums = self._work or self._line_sums()
        return line_work.work_of(self._lives.result().places, sums) if sums is not None else {}

    def result(self) -> ReportAnalysis:
        return self


def collect(
    chosen: Blocks, sites: int = 60, with_source: bool = True, pins: Sums | None = None, with_pictures: bool = True
) -> TraceData:
    """Read the trace of a report to its end. TraceError if nothing of it can be read. sites: greatest number of
    them. with_source: look for the program's source files. with_pictures: draw the address space. pins: the pages of a
    replay by stack (steve.commands.pins.worst_by)."""
    # which line accesses a block depends on instructions that are not among the chosen events
    found = chosen.over_trace(partial(ReportAnalysis, by_line=with_source and chosen.is_whole()))
    data, accessed = _described(chosen, found, sites, with_source, pins)
    del found
    lives_at_end = data.found[NEVER_FREED].numbers
    if not data.of_collector.isdisjoint(lives_at_end.tolist()):
        data.held = lua_held.held(chosen)
    found_in_lua = lua_snapshots(chosen)
    data.lua_growth = found_in_lua if isinstance(found_in_lua, LuaGrowth) else None
    data.lua_held = found_in_lua if isinstance(found_in_lua, LuaHeld) else None
    data.by_offset = offsets.by_offset(chosen, accessed)
    look = resident.peak_look(chosen)
    if look is not None:
        data.owners = resident.owners(chosen, look)
        data.kept_free, data.free_call = looks.kept_free(chosen), looks.free_call(chosen.trace)
        data.addresses = addresses(chosen, look) if with_pictures else {}
    return data


def _described(
    chosen: Blocks, analysis: ReportAnalysis, sites: int, with_source: bool, pins: Sums | None
) -> tuple[TraceData, offsets.Wanted]:
    """What one reading of the trace finds, and what is wanted from another one."""
    trace, profile = chosen.trace, analysis.profile
    heaps, stats, totals, of_trace = (
        profile.heaps(tally_columns(trace.sample)),
        trace.stats(),
        profile.totals(),
        chosen.places.sites,
    )
    timeline, summed_timeline, (map_blocks, map_bytes) = (
        profile.timeline(),
        timeline_of(profile),
        profile.lifetime_map(),
    )
    marks = _marks(trace, profile)
    del profile
    accesses = missing.has_accesses(trace, totals["load"] + totals["store"] + totals["modify"])
    in_part = missing.accesses_in_part(trace)
    judged_bytes, of_rules = analysis.take_found(trace.sample)
    rollup = Rollup("stack", chosen.places, sites=of_trace)
    lost = analysis.reached.lost(trace) if searched(chosen) else None
    by_rule, not_judged = _found_by_rule(analysis, of_rules, rollup, pins, lost)  # which frees many sums by stack
    for rule in ALL if in_part else ():
        if rule.of_accesses:
            by_rule.pop(rule.key)
            not_judged[rule.key] = "loads and stores were recorded in a part of the run only"
    tallies, cells = rollup.merged(analysis.take_tallies(trace.sample)), analysis.take_cells()
    leading, listed = sorted(_leading_by_rule(by_rule, MOST_FOUND)), interesting(tallies, sites)
    accessed = offsets.wanted(rollup, analysis.accessed.table())
    named = named_sites(of_trace.shown, tallies, {*leading, *listed, *accessed.sites})
    of_collector = managed_sites(chosen, cells)
    all_sites = int((tallies.rows["bytes"] + tallies.rows["blocks"] > 0).sum())
    unread = Sums(tallies.numbers, tallies.rows["unread_bytes"] * (not in_part))
    del tallies  # which are long
    sources = _sources(chosen) if with_source else None
    runtime = Runtime(trace)
    over_time = resident.resident_over_time(chosen)
    times = summed_timeline["times"]
    if times and over_time and over_time["time"]:  # the axis has the looks after the last operation
        times[-1] = max(times[-1], over_time["time"][-1])
    data, linked, kept = explorable(
        trace,
        chosen.places,
        cells,
        summed_timeline,
        course_of(chosen, analysis, timeline) | ({"resident": over_time} if over_time else {}),
        marks,
        unread,
        sources,
        analysis.work(),
        accesses,
        sorted(named),
    )
    described = TraceData(
        path=chosen.args.file,
        info={clean(k): clean(v, 1000) for k, v in trace.info().items()},
        stats=stats,
        totals=totals,
        timeline=timeline,
        all_sites=all_sites,
        found=by_rule,
        not_judged={} if trace.sample else not_judged,
        judged_bytes=judged_bytes,
        found_sites={i: named[i] for i in leading},
        lines={i: line_text(chosen.places, i) for i in sorted(named)},
        sites=[named[i] for i in listed],
        sample=trace.sample,
        standard_errors=_standard_errors(heaps[1], trace.sample),
        heaps=[
            (heap_name(trace, i), _row(row, trace.sample))
            for i, row in zip(heaps[0].tolist(), heaps[1])
            if row["blocks"]
        ],
        marks=marks,
        map_blocks=map_blocks,
        map_bytes=map_bytes,
        explorable=data,
        linked=linked,
        kept=kept,
        of_runtime={i for i in leading if runtime.owns(i)},
        complete=is_complete(trace, totals["lost"]),
        dropped=max(stats["totals"]["dropped"], totals["lost"]),
        dropped_at_least=is_least(stats),
        approximate_lines=earlier_code.remark(trace),
        resized_before=earlier_blocks.remark(trace),
        approximate=frozenset(earlier_code.lines(trace)),
        changed_sources=sources.changed if sources else [],
        not_seen=runtimes.facts(trace, totals["peak_bytes"] if chosen.is_whole() else None),
        instructions=extent(stats, {"last_event": totals["time"]})["instructions"],
        time_unit=time_unit(trace),
        accesses=accesses,
        accesses_in_part=in_part,
        problem=trace.problem,
        resident=over_time,
        accessed_sites={i: named[i] for i in accessed.sites},
        of_collector=of_collector,
        not_freed=not_freed(trace),
    )
    return described, accessed


def managed_sites(chosen: Blocks, found: Cells) -> set[int]:
    """The sites with blocks in the heap of a garbage collector."""
    trace, heaps = chosen.trace, np.unique(found.groups["heap"]).tolist()
    managed = [number for number in heaps if (known := trace.heap(number)) is not None and known.kind == "lua"]
    stacks = found.groups["stack"][np.isin(found.groups["heap"], managed)]
    return set(chosen.places.sites.of(stacks).tolist())


def course_of(chosen: Blocks, analysis: ReportAnalysis, timeline: np.ndarray) -> dict[str, Any]:
    """What the timeline shows besides the heap, for the page: the instructions of garbage collectors by its bins, and
    the wall clock."""
    ends = timeline["operations_end"]
    width = int(ends[0]) if len(ends) else 1  # all but the last have it
    clock = analysis.course.clock() if is_whole(chosen.args) and time_unit(chosen.trace) != "nanoseconds" else []
    return {
        "collected": analysis.course.collected(width, len(ends)).tolist(),
        "clock": [list(column) for column in zip(*clock)] or [[], []],
    }


def _sources(chosen: Blocks) -> Sources:
    """What finds the source files of the trace."""
    began = chosen.trace.info().get("start_unix_seconds", "")
    return Sources(chosen.args.file, int(began) if began.isdigit() else 0)


def _marks(trace: Trace | Whole, profile: HeapProfile) -> list[tuple[int, int, str]]:
    """(operation, instructions, name) of the first named points."""
    return [(int(m["operation"]), int(m["time"]), clean(trace.string(int(m["string"])))) for m in profile.marks()]
