# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a trace for the report: all its analyses are fed in one walk, and their results get names.

The findings and the lives of blocks are those of the commands. Only the profile (steve.kernels._profile) is the
report's own. Memory is bounded by live blocks, stacks and bins. If a trace is truncated or damaged, the report
covers what could be read, and `problem` says what is wrong.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steve.analysis.lives import LifeAnalysis
from steve.kernels._lives import Findings
from steve.kernels._profile import HeapProfile
from steve.kernels._walk import Analysis, feed_together
from steve.system.errors import TraceError
from steve.terminal.tables import StackText, told_apart
from steve.analysis.rules import DEFAULTS, limits
from steve.trace.policy import ShownStacks, is_own
from steve.trace.frames import frame_text, is_native, short_name
from steve.trace.stacks import Sites
from steve.analysis.totals import extent, is_complete, is_least, time_unit

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.kernels._walk import Walk
    from steve.parallel.checkpoints import Checkpoint
    from steve.parallel.rounds import Whole
    from steve.trace._memtrace import Trace

BINS = 400
FRAMES_SHOWN = 32
MOST_FOUND = 12  # sites of each rule
NAME_LIMIT = 160


@dataclass
class Site:
    """An allocation stack and the tally of its blocks (columns of steve.kernels._profile.TALLY)."""

    stack: int
    name: str
    frames: list[str]
    tally: dict[str, int]

    def mean_lifetime(self) -> float | None:
        """Operations from New to Free, over the freed blocks; None if none was freed."""
        return self.tally["lifetimes"] / self.tally["frees"] if self.tally["frees"] else None


@dataclass
class TraceData:
    """All that the report says of a trace. `stacks` is TALLY by site, at the id of a stack that stands for it, `sites`
    the named ones of interest, `found` what each rule of steve.analysis.rules finds by site (blocks and bytes), of
    `judged_bytes` in all, `found_sites` the sites that lead by a rule."""

    path: str
    info: dict[str, str]
    stats: dict[str, Any]
    totals: dict[str, int]
    timeline: np.ndarray
    stacks: np.ndarray
    found: np.ndarray
    judged_bytes: int
    found_sites: list[Site]
    sites: list[Site]
    heaps: list[tuple[str, dict[str, int]]]
    marks: list[tuple[int, int, str]]
    map_blocks: np.ndarray
    map_bytes: np.ndarray
    complete: bool
    dropped: int
    dropped_at_least: bool
    instructions: int
    time_unit: str
    problem: TraceError | None

    @property
    def accesses(self) -> int:
        """Loads, stores and modifies in the trace; 0 if it holds heap events only."""
        return self.totals["load"] + self.totals["store"] + self.totals["modify"]

    @property
    def command(self) -> str:
        """What was traced; the file's name if the trace does not say."""
        return self.info.get("command") or Path(self.path).name


def clean(text: str, limit: int = NAME_LIMIT) -> str:
    """Text of a trace fit for showing: printable, valid and not longer than `limit`."""
    text = text.encode("utf-8", "replace").decode()
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def site_name(frames: list[Any]) -> StackText:
    """The name of a site: the names of its frames, innermost first."""
    names = [
        shown_frame(f) if f is None or not f.function or not is_native(f) else short_name(f.function) for f in frames
    ]
    own = (i for i, f in enumerate(frames, 1) if f is None or is_own(f))
    return StackText(names or ["no stack recorded"], next(own, 1))


def shown_frame(frame: Any) -> str:
    """What is known of a frame, fit for showing. A long name is shown without the arguments of its templates, so that its
    place is not cut off."""
    if frame is None:
        return "unknown"
    text = frame_text(frame)
    return clean(text if len(text) <= NAME_LIMIT else frame_text(frame._replace(function=short_name(frame.function))))


def named_sites(shown: ShownStacks, stacks: np.ndarray, numbers: Iterable[int]) -> dict[int, Site]:
    """The Sites of stack ids. Their names have as many frames as it takes to tell them apart."""
    frames = {stack: shown.frames(stack) for stack in numbers}
    names = {stack: site_name(found) for stack, found in frames.items()}
    apart = told_apart(list(names.values()))
    return {
        stack: Site(stack, clean(apart[names[stack]].replace(" < ", " ← ")), texts_of(found), _row(stacks[stack]))
        for stack, found in frames.items()
    }


def texts_of(frames: list[Any]) -> list[str]:
    """The texts of the first frames of a stack, and the number of the others."""
    texts = [shown_frame(frame) for frame in frames[:FRAMES_SHOWN]]
    return texts + [f"… {len(frames) - FRAMES_SHOWN} more"] * (len(frames) > FRAMES_SHOWN)


def _row(record: np.void) -> dict[str, int]:
    return {name: int(record[name]) for name in record.dtype.names if name != "epoch"}


def by_site(rows: np.ndarray, sites: Sites) -> np.ndarray:
    """Sums over the stacks of each site, at the id of the stack that stands for it (Sites.of). rows: by stack id."""
    sums, of_stacks = np.zeros_like(rows), sites.of(np.arange(len(rows)))
    for name in rows.dtype.names:
        np.add.at(sums[name], of_stacks, rows[name])
    return sums


def interesting(stacks: np.ndarray, most: int) -> list[int]:
    """Stack ids with the most bytes, and those that lead in another respect; by bytes, at most about 2 *
    most."""
    used = np.flatnonzero(stacks["bytes"] + stacks["blocks"])
    chosen: dict[int, None] = {}
    for key, count in (
        ("bytes", most),
        ("peak_bytes", most // 4),
        ("live_bytes", most // 4),
        ("blocks", most // 4),
        ("unread_bytes", most // 4),
        ("unwritten_bytes", most // 4),
    ):
        chosen.update(_leading(stacks[key], used, count))
    chosen.update((int(i), None) for i in used[:most] if len(chosen) < most)
    return sorted(chosen, key=lambda i: (-int(stacks["bytes"][i]), i))


def _leading(values: np.ndarray, among: np.ndarray, count: int) -> dict[int, None]:
    """The ids with the greatest values, at most so many; none whose value is 0."""
    order = among[np.argsort(values[among], kind="stable")[::-1][:count]]
    return {int(i): None for i in order if values[i]}


def _leading_by_rule(found: np.ndarray, most: int) -> set[int]:
    """Stack ids with the most bytes that some rule finds, at most so many for each."""
    every = np.arange(len(found))
    return {stack for bytes_found in found["bytes"].T for stack in _leading(bytes_found, every, most)}


def _heap_name(trace: Trace | Whole, number: int) -> str:
    heap = trace.heap(number)
    names = {"malloc": "C heap (malloc)", "lua": "Lua state", "mmap": "mmap", "custom": "custom pool"}
    kind = "malloc" if heap is None else heap.kind
    return names.get(kind, kind) + (f" {heap.id:#x}" if heap is not None and heap.id else "")


class _Both:
    """The fold of two folds that take the same lives."""

    numbered = False

    def __init__(self, *folds: Any) -> None:
        self.folds = folds

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        for fold in self.folds:
            fold.add(batch, keep)

    def part(self, peak: int) -> list[Any]:
        return [fold.part(peak) for fold in self.folds]

    def join(self, part: list[Any], peak: int) -> None:
        for fold, of_fold in zip(self.folds, part):
            fold.join(of_fold, peak)


class ReportAnalysis(Analysis):
    """The analyses of the report, fed by one walk. The result is the object itself, with profile and found. bins: the
    most that the timeline has."""

    needs = HeapProfile.needs

    def __init__(self, bins: int = BINS) -> None:
        self.profile, self.found = HeapProfile(bins), Findings(limits(DEFAULTS))
        self._lives = LifeAnalysis(lambda: _Both(self.found, self.profile))

    def begin(self, walk: Walk, checkpoint: Checkpoint | None) -> None:
        self.profile.begin(walk, checkpoint)
        self._lives.begin(walk, checkpoint)

    def feed(self, walk: Walk) -> None:
        feed_together(walk, (self.profile, self._lives))

    def partial(self) -> tuple:
        return self.profile.partial(), self._lives.partial()

    def know(self, whole: Whole) -> None:
        self.profile.know(whole)
        self._lives.know(whole)

    def merge(self, partials: Iterable[tuple]) -> None:
        self._lives.merge(self._joined(partials))

    def _joined(self, partials: Iterable[tuple]) -> Iterator[Any]:
        """The partial results of the lives. Each one is yielded after the profile knows the stacks of its shard."""
        for profile, lives in partials:
            self.profile.merge([profile])
            yield lives

    def end(self, time: int, between: bool) -> None:
        self._lives.end(time, between)
        self.profile.end(time, between)

    def result(self) -> ReportAnalysis:
        return self


def collect(chosen: Blocks, sites: int = 60) -> TraceData:
    """Read the trace of a report to its end. TraceError if nothing of it can be read. sites: greatest number of
    them."""
    found = chosen.over_trace(ReportAnalysis)
    return _described(chosen, found.profile, found.found, sites)


def _described(chosen: Blocks, profile: HeapProfile, found: Findings, sites: int) -> TraceData:
    trace = chosen.trace
    heaps, stats, totals, of_trace = profile.heaps(), trace.stats(), profile.totals(), Sites(trace, chosen.policy)
    stacks, by_rule = by_site(profile.stacks(), of_trace), by_site(found.rows(), of_trace)
    map_blocks, map_bytes = profile.lifetime_map()
    leading, listed = sorted(_leading_by_rule(by_rule, MOST_FOUND)), interesting(stacks, sites)
    named = named_sites(of_trace.shown, stacks, {*leading, *listed})
    return TraceData(
        path=chosen.args.file,
        info={clean(k): clean(v, 1000) for k, v in trace.info().items()},
        stats=stats,
        totals=totals,
        timeline=profile.timeline(),
        stacks=stacks,
        found=by_rule,
        judged_bytes=found.bytes(),
        found_sites=[named[i] for i in leading],
        sites=[named[i] for i in listed],
        heaps=[(_heap_name(trace, i), _row(heaps[i])) for i in range(len(heaps)) if heaps["blocks"][i]],
        marks=_marks(trace, profile),
        map_blocks=map_blocks,
        map_bytes=map_bytes,
        complete=is_complete(trace, totals["lost"]),
        dropped=max(stats["totals"]["dropped"], totals["lost"]),
        dropped_at_least=is_least(stats),
        instructions=extent(stats, {"last_event": totals["time"]})["instructions"],
        time_unit=time_unit(trace),
        problem=trace.problem,
    )


def _marks(trace: Trace | Whole, profile: HeapProfile) -> list[tuple[int, int, str]]:
    """(operation, instructions, name) of the first named points."""
    return [(int(m["operation"]), int(m["time"]), clean(trace.string(int(m["string"])))) for m in profile.marks()]
