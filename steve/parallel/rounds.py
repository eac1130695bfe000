"""Runs an analysis over a trace: in this process, or divided into shards that workers read.

An analysis (steve.kernels._walk.Analysis) knows how to begin at the start of a shard, and how to merge the partial
results of all shards into exactly the result of the whole trace. A shard is a range of the trace between two seek
points; for one process, the whole trace is the only shard. What limits a shard is in its View, so that an analysis need
not know it: the marks of --from and --to, and how the file is read.

If an analysis needs to know more than the trace's own list of live blocks where a shard begins, a first round surveys
all shards but the last (steve.parallel.checkpoints).

A damaged shard is the last one, because a single reader stops at damage too. With --salvage, shards begin only before
the first damage, so that the last shard holds all of it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from steve.system.errors import SteveError
from steve.parallel.checkpoints import Checkpoint, Surveyed, checkpoints_of, survey
from steve.parallel.window import Cut, walked
from steve.parallel.processes import PARTS_EACH, Part, Pool, split
from steve.trace.reading import Reading

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from steve.kernels._accesses import ChosenTrace
    from steve.kernels._walk import Analysis, Walk
    from steve.kernels._lives import Selection
    from steve.trace._memtrace import Trace
    from steve.system.errors import TraceError
    from steve.parallel.window import Span, Window
    from steve.terminal.progress import Progress

SURVEY = 0.2  # share of the work that a survey is, for the progress shown


def requests_workers(args: "argparse.Namespace") -> bool:
    """Do the arguments request several workers?"""
    return args.jobs != 1 or args.scheduler is not None


class Only(NamedTuple):
    """The blocks that shards deliver as if there were no others. selected: the partial() of a Selection; None: all that
    the cut of a shard leaves."""

    selected: Any


class View(NamedTuple):
    """A shard, as it is sent to a worker: the seek points from first to end (without it), and what of them counts.

    only: None if the shard delivers the events that do not count, too."""

    reading: Reading
    first: int
    end: int
    cut: Cut = Cut(0)
    only: Optional[Only] = None

    def open(self, freed: bool = False) -> "Trace":
        """A trace that delivers this shard. freed: with accesses to freed memory."""
        if self.only is not None:
            return self._open_chosen(freed, self.only)
        trace = self.reading.open(freed=freed)
        trace.read_range(self.first, self.end)
        return trace

    def _open_chosen(self, freed: bool, only: Only) -> "ChosenTrace":
        from steve.kernels._accesses import ChosenTrace

        trace = self.reading.open(ChosenTrace, freed)
        trace.read_range(self.first, self.end)
        trace.choose(self.cut.window(), bits_of(only.selected), shard=True, since=self.cut.since)
        return trace

    def window(self) -> "Optional[Window]":
        """The marks between which what the shard delivers counts; None if all of it does."""
        return self.cut.window() if self.only is None else None


def bits_of(selected: Any) -> "Optional[Tuple[np.ndarray, int]]":
    """The as_bits() of the Selection whose partial() was sent; None for None."""
    if selected is None:
        return None
    from steve.kernels._lives import Selection

    selection = Selection()
    selection.merge(selected)
    return selection.as_bits()


class Whole:
    """A trace whose shards were read, for those who expect a Trace that was read to its end. trace: one whose last
    shard was read."""

    def __init__(
        self, trace: "Trace", problem: "Optional[TraceError]", stats: List[dict], before: int, ended: Optional[bool]
    ) -> None:
        """before: number of events before the first shard. ended: did a mark end the analysis, which was of what lies
        between marks? None if it was not."""
        self.trace, self._before, self._ended = trace, before, ended
        self.name, self.problem, self._parts = trace.name, problem, stats

    def stats(self) -> dict:
        """The stats of the last shard, but with the sums over all shards for numbers of events, and with the latest
        time that any shard reached."""
        result = self.trace.stats()
        for name in ("instructions", "nanoseconds"):
            result[name] = max(part[name] for part in self._parts)
        for name in ("events", "unmatched_free", "mismatched_free", "unmatched_access"):
            result[name] = sum(part[name] for part in self._parts)
        result["events"] += self._before
        if self._ended is not None:
            from steve.kernels._accesses import stats_between

            stats_between(result, [part["clock"] for part in self._parts], self._ended)
        return result

    def __getattr__(self, name: str) -> Any:
        """Definitions, which are complete once the last shard was read."""
        return getattr(self.trace, name)


class Rounds:
    """A trace, its shards and the workers.

    In a round, each shard up to a damaged one is read once. span: of steve.parallel.window.located(); the shards then
    lie between two marks, and `earlier` are those before the first mark. only: see View."""

    def __init__(
        self,
        reading: Reading,
        pool: Pool,
        progress: "Progress",
        span: "Optional[Span]" = None,
        only: Optional[Only] = None,
    ) -> None:
        self.pool, self.progress = pool, progress
        self.name, self.span, self.only = reading.path, span, only
        self._trace = reading.open()
        self.reading = reading.for_workers()
        self._sound, self._points = reading.count_points(self._trace), len(self._trace.seek_points())
        self.earlier: List[Part] = []
        self.parts: List[Part] = []
        self.problem: "Optional[TraceError]" = None
        self.stats: List[dict] = []
        self._last: "Optional[Tuple[Part, Trace]]" = None
        if span is None:
            self.divide(0, self._points)
        else:
            self.earlier = span.earlier
            self._use(span.parts)

    def divide(self, first: int, end: int) -> bool:
        """Divide the trace between two seek points into shards. False if these are the present ones."""
        before = self.parts
        self._use(split(self._trace, PARTS_EACH * self.pool.n, self._sound, first, end))
        return self.parts != before

    def _use(self, parts: List[Part]) -> None:
        self.parts, first = list(parts), parts[0].first
        self._begin = self._trace.seek_points()[first][2] if first else 0
        self._end = parts[-1].bytes

    def view(self, i: int, onward: bool = False) -> View:
        """The view of shard i; onward: together with all shards after it."""
        part = self.parts[i]
        cut = Cut(0) if self.span is None else self.span.cut(i, onward)
        return View(self.reading, part.first, self._points if onward else part.end, cut, self.only)

    # ---- an analysis ----------------------------------------------------------------------------

    def run(self, make: "Callable[[], Analysis]", chosen: "Optional[Selection]" = None) -> Any:
        """The result of the analysis that make() makes; chosen: of these blocks only."""
        analysis, share = make(), 0.0
        selected = None if chosen is None else chosen.partial()
        if analysis.needs:
            share = SURVEY
        more = [(make, selected, checkpoint) for checkpoint in self._checkpoints(analysis, share)]
        for _, partial in self._each(analyse, more, share, 1 - share, analysis.onward):
            analysis.merge(partial)
        whole = self.whole()
        analysis.know(whole)
        span = self.span if self.only is None else None
        to_mark = span is not None and span.end is not None
        analysis.end(0 if to_mark else end_of(whole), span is not None)
        return analysis.result()

    def _checkpoints(self, analysis: "Analysis", share: float) -> List[Checkpoint]:
        """What the analysis needs to know at the beginning of each shard; share: of the work."""
        needs, points = analysis.needs, self._trace.seek_points()
        surveys, earlier = [Surveyed()] * len(self.parts), []
        if needs:
            last = tuple(what for what in needs if what != "threads")  # nothing follows that needs them
            more = [(needs,)] * (len(self.parts) - 1) + [(last,)]
            earlier = self._before(survey, needs) if "threads" in needs else []
            surveys = [surveyed for _, surveyed in self._each(survey, more, 0.0, share)]
        shards = [(self.view(i), points[part.first][1]) for i, part in enumerate(self.parts)]
        found = checkpoints_of(shards, earlier, surveys)
        if "definitions" in needs:
            known = analysis.know(self.whole())
            found = [checkpoint._replace(definitions=known) for checkpoint in found]
        return found

    # ---- one round ------------------------------------------------------------------------------

    def each(self, task: Any, *more: Any) -> List[Any]:
        """The results of task(view, *more) for each shard."""
        return [result for _, result in self._each(task, [more] * len(self.parts), 0.0, 1.0)]

    def _each(
        self, task: Any, more: Sequence[tuple], begin: float, share: float, onward: bool = False
    ) -> Iterator[Tuple[Part, Any]]:
        """Yield (shard, result of task(view, *more[i])) for each shard i. A task returns (result, problem or None,
        stats).

        begin: share of the work that was done before; share: of this round. onward: shards are read beyond their ends;
        an earlier round has found the damaged one."""
        tasks = [(self.view(i, onward), *own) for i, own in enumerate(more)]
        if onward:
            for part, (result, _, _) in zip(self.parts, self.pool.run(task, tasks)):
                yield part, result
                self._show(part, begin, share)
            return
        self.stats, self.problem, done = [], None, 0
        for part, (result, problem, stats) in zip(self.parts, self.pool.run(task, tasks)):
            done += 1
            self.stats.append(stats)
            if stats["damaged_chunks"] and part is not self.parts[-1]:
                raise SteveError(f"{self.name}: is damaged, but its checksums are right; read it without -j")
            yield part, result
            self._show(part, begin, share)
            if problem is not None:
                self.problem = problem.of(self.name)
                break
        del self.parts[done:]

    def _before(self, task: Any, *more: Any) -> List[Any]:
        """The results of task(view, *more) for each of the earlier shards."""
        tasks = [(View(self.reading, part.first, part.end), *more) for part in self.earlier]
        return [result for result, _, _ in self.pool.run(task, tasks)]

    def _show(self, part: Part, before: float, share: float) -> None:
        """Show the progress: a round that is this share of the work has finished a shard. before: share of the rounds
        before."""
        total = self._end - self._begin
        self.progress(int(before * total + (part.bytes - self._begin) * share), total)

    def whole(self) -> Whole:
        """The trace after a round, as if one reader had read it."""
        part = self.parts[-1]
        if self._last is None or self._last[0] != part:
            view = self.view(len(self.parts) - 1)
            trace = view.open()
            if not self.reading.salvage:  # nothing that is needed of it depends on its accesses
                trace.pass_accesses()
            self._last = part, walked(trace, view.window())
        ended = self.span.end is not None if self.only is not None and self.span is not None else None
        before = 0 if self.span is None else self.span.events
        return Whole(self._last[1], self.problem, self.stats, before, ended)


# ---- an analysis in a worker, and in one process -----------------------------------------------


def analyse(
    view: View, make: "Callable[[], Analysis]", chosen: Any, checkpoint: Checkpoint
) -> "Tuple[Any, Optional[TraceError], dict]":
    """Task: the partial result of an analysis for a shard. chosen: the partial() of a Selection, or None for all
    blocks."""
    from steve.kernels._walk import Walk

    analysis = make()
    walk = Walk(view.open(analysis.freed), view.window(), bits_of(chosen), shard=True, since=view.cut.since)
    analysis.begin(walk, checkpoint)
    analysis.feed(walk)
    return analysis.partial(), walk.trace.problem, walk.trace.stats()


def analyse_whole(walk: "Walk", make: "Callable[[], Analysis]") -> Any:
    """The result of an analysis of a whole trace, which is one shard, in this process."""
    analysis = make()
    analysis.begin(walk, None)
    analysis.feed(walk)
    window = walk.window
    to_mark = window is not None and window.now == "after"
    analysis.end(0 if to_mark else end_of(walk.trace), window is not None)
    return analysis.result()


def end_of(trace: "Trace | Whole") -> int:
    """The time in instructions at which the program of a trace ended, after all was read; 0 if it is not known."""
    return 0 if trace.problem is not None else trace.stats()["totals"]["instructions"]
