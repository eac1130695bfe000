"""An analysis of the lives of blocks, in one shard or in several: see steve.kernels._walk.Analysis.

Lives go to a fold (steve.analysis.folds). A shard knows which blocks live at its beginning, and the size of the
heap. Lives that begin and end in a shard go to its fold. Of lives that cross its borders it reports pieces, which
are joined in the order of the shards (steve/kernels/lives/lives.h defines how) and then go to the fold of the
whole.

If a filter or a fold needs the numbers of operations, a checkpoint must contain the number before the shard. Counting
by line needs the stacks of the blocks that live at the beginning of a shard, what threads did last, and the numbers of
all lines.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from steve.analysis.filter import fields_of, parse
from steve.analysis.folds import Fold, Passed, unfiltered_groups_of
from steve.trace.line_numbers import KnownLines, LineNumbers
from steve.trace.places import Places
from steve.trace.policy import Policy

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.program_errors import Faults
    from steve.kernels._lives import Lives, Selection, WholeLives
    from steve.kernels._walk import Walk
    from steve.parallel.checkpoints import Checkpoint
    from steve.parallel.rounds import View, Whole


class Partial(NamedTuple):
    """What a shard reports. lives, chosen, errors: the partial() of Lives, a Selection and Faults; lines: of
    steve.kernels._lives.line_partial()."""

    view: View
    fold: Any
    lives: tuple
    chosen: Any
    errors: Any
    threads: np.ndarray
    lines: tuple | None


class LifeResult(NamedTuple):
    """What a LifeAnalysis has found.

    fold: that of the lives. totals: the fields of struct lives_totals. lives: the counts of steve.kernels._lives.Lives, which
    take as much memory as the live blocks did. lines: the numbers of lines, if they were counted. chosen: a Selection of what
    the filter selected, if it was to be kept; met: the Faults, if they were. places: of the trace that was read."""

    fold: Any
    totals: dict[str, int]
    lives: Lives | WholeLives
    lines: LineNumbers | None
    chosen: Selection
    met: Faults
    places: Places


class LifeAnalysis:
    """What a fold makes of the lives that a filter selects; the result is a LifeResult.

    choose: keep what the filter selects; errors: keep the errors of the program; by_line: count lines. threads: shards report
    accesses by thread. selected: the partial() of a Selection; other blocks are treated as if they did not exist. policy: how
    stacks are shown."""

    onward = False

    def __init__(
        self,
        make: Callable[[], Fold],
        where: str | None = None,
        choose: bool = False,
        errors: bool = False,
        threads: bool = False,
        by_line: bool = False,
        selected: Any = None,
        policy: Policy = Policy(),
    ) -> None:
        from steve.analysis.program_errors import Faults
        from steve.kernels._lives import Selection

        self._fold: Fold = make()
        self._met, self._chosen = Faults(), Selection()
        self._policy = policy
        self._where, self._choose, self._threads, self._by_line = where, choose, threads, by_line
        self._test = None if where is None else parse(where)
        self._selected = Selection() if selected is not None else None
        if self._selected is not None:
            self._selected.merge(selected)
        self.freed = errors
        self._lives: Any = None
        self._lines: LineNumbers | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """See steve.parallel.checkpoints."""
        if self._by_line:
            return ("owners", "threads", "definitions")
        numbered = self._fold.needs_operation_numbers or {"born", "died"} & fields_of(self._where or "")
        return ("operations",) if numbered else ()

    # ---- a shard --------------------------------------------------------------------------------

    def begin(self, walk: Walk, checkpoint: Checkpoint | None) -> None:
        from steve.kernels._lives import Lives

        self._places = Places(walk.trace, self._policy)
        part: dict[str, Any] = {}
        if checkpoint is not None:
            self._view = checkpoint.view
            part = {
                "part": checkpoint.operations,
                "since": checkpoint.view.cut.since,
                "begins": (checkpoint.owners, checkpoint.threads),
            }
        elif self._by_line:
            self._lines = LineNumbers(self._places)
        known = self._lines if checkpoint is None else checkpoint.definitions
        self._lives = Lives(
            walk.trace,
            walk.window,
            self._selected,
            walk.tick,
            known if self._by_line else None,
            self._met.take if self.freed else None,
            sums=unfiltered_groups_of(self._fold) if self._test is None else None,
            **part,
        )

    def feed(self, walk: Walk) -> None:
        self._take(self._lives.batches(), self._places)

    def take_batch(self, walk: Walk) -> None:
        batch = self._lives.take_batch(walk)
        if batch is not None:
            self._take([batch], self._places)

    def fed(self, walk: Walk) -> None:
        self._take(self._lives.rest(), self._places)

    def _take(self, batches: Iterable[np.ndarray], places: Places) -> None:
        """Give lives to the fold."""
        for batch in batches:
            keep = None if self._test is None else self._test(batch, places)
            self._fold.add(batch, keep)
            if self._choose and keep is not None:
                self._chosen.add(batch, keep)

    def partial(self) -> Partial:
        from steve.kernels._lives import line_partial

        lives = self._lives
        found, rows = lives.partial(), lives.thread_accesses()
        return Partial(
            self._view,
            self._fold.partial(lives.totals()["peak"]),
            found,
            self._chosen.partial(),
            self._met.partial(),
            rows if self._threads else rows[:0],
            line_partial(lives) if self._by_line else None,
        )

    # ---- the whole ------------------------------------------------------------------------------

    def know(self, whole: Whole) -> KnownLines | None:
        """See Analysis. Returns the numbers of all lines, if shards need them."""
        self._trace, self._places = whole, Places(whole, self._policy)
        if not self._by_line or self._lines is not None:
            return None
        self._lines = LineNumbers(self._places)
        self._lines.reach_all()
        return KnownLines(*self._lines.reach(0, 0, 0), self._lines.count())

    def merge(self, shard: Partial) -> None:
        from steve.kernels._lives import WholeLines, WholeLives

        if self._lives is None:
            self._lives = WholeLives()
            if self._lines is not None:
                self._lives.count_lines(WholeLines(self._trace.trace, self._lines))
        peak = self._lives.merge(shard.lives)
        self._fold.merge(shard.fold, peak)
        self._lives.merge_threads(shard.threads)
        if shard.lines is not None:
            self._lives.merge_lines(shard.lines)
        self._chosen.merge(shard.chosen)
        self._met.merge(shard.errors)
        # of blocks from earlier shards that ended in this one, whose trace defines their stacks
        self._take(self._lives.batches(), None if self._test is None else Places(shard.view.open(), self._policy))

    def end(self, time: int, between: bool) -> None:
        from steve.kernels._lives import WholeLives

        if isinstance(self._lives, WholeLives):
            self._take(self._lives.finish(time), self._places)

    def drop_fold(self) -> None:
        """Keep the fold no longer, which has all lives; results have another one, with nothing."""
        self._fold = Passed()

    def result(self) -> LifeResult:
        totals = self._lives.totals()
        return LifeResult(self._fold, totals, self._lives, self._lines, self._chosen, self._met, self._places)
