"""Analyses of the lives of blocks in parts of a trace (steve.parallel.rounds), joined exactly.

A part knows where it begins which blocks live there, and how large the heap is. What it makes and ends within it
gives to a fold (steve.analysis.reducers); of blocks that cross its borders it tells pieces, which are joined here in the order
of the parts: steve/kernels/lives/lives_parts.h says how. What had to be joined is given to the caller's fold.

Only operations are not known by number where a part begins. Where a filter or a fold needs these, a round that
passes over the accesses counts them first. Counting accesses of blocks that a filter chooses takes a round more.

Counting by line (fold_lines) takes a round before: see steve.analysis.line_parts.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

from steve.analysis.reducers import sums_of_all
from steve.parallel.rounds import Rounds, View, Whole, count_operations
from steve.trace.places import Places
from steve.analysis.filter import fields_of, parse

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._lives import Selection
    from steve.system.errors import TraceError
    from steve.analysis.program_errors import Faults
    from steve.analysis.reducers import Fold
    from steve.trace.line_numbers import LineNumbers
    from steve.analysis.line_parts import Begin, Known
    from steve.parallel.window import Span
    from steve.parallel.processes import Pool
    from steve.terminal.progress import Progress

SURVEY = 0.2  # of the time of a round that looks at accesses


class Walk(NamedTuple):
    """What a part is to tell. make: the fold; where: a filter; choose: the blocks it chooses; errors: those of the
    program; threads: accesses by thread; selected: blocks without which no others exist; lines: count by these."""
    make: "Callable[[], Fold]"
    where: Optional[str] = None
    choose: bool = False
    errors: bool = False
    threads: bool = False
    selected: Any = None
    lines: "Optional[Known]" = None


class Told(NamedTuple):
    """What it tells. piece: of steve.kernels._lives.Lives; chosen, errors: parts of a Selection and of Faults; lines: of
    steve.kernels._lives.line_piece()."""
    fold: Any
    piece: tuple
    chosen: Any
    errors: Any
    threads: "np.ndarray"
    lines: Optional[tuple]


# ---- tasks ------------------------------------------------------------------------------------


def used_rows(rows: "np.ndarray") -> "np.ndarray":
    """Without the rows behind the last that tells anything."""
    import numpy as np
    used = np.flatnonzero(rows["loads"] | rows["stores"] | rows["modifies"])
    return rows[:used[-1] + 1 if len(used) else 0]


def selection_of(part: Any) -> "Optional[Selection]":
    """The Selection that told a part()."""
    from steve.kernels._lives import Selection
    if part is None:
        return None
    selection = Selection()
    selection.join(part)
    return selection


def walk(view: View, how: Walk, before: int,
         begins: "Optional[Begin]") -> "Tuple[Told, Optional[TraceError], dict]":
    """Task: the lives of a part; before: operations before it; begins: needed for lines."""
    from steve.kernels._lives import Lives, Selection, line_piece
    from steve.analysis.program_errors import Faults
    trace = view.open(freed=how.errors)
    fold, chosen, met, places = how.make(), Selection(), Faults(), Places(trace)
    test = None if how.where is None else parse(how.where)
    lives = Lives(trace, view.window(), selection_of(how.selected), lines=how.lines,
                  errors=met.take if how.errors else None, part=before, begins=begins, since=view.cut.since,
                  sums=sums_of_all(fold) if test is None else None)
    for batch in lives.batches():
        keep = None if test is None else test(batch, places)
        fold.add(batch, keep)
        if how.choose and keep is not None:
            chosen.add(batch, keep)
    piece, rows = lives.piece(), lives.thread_accesses()
    told = Told(fold.part(lives.totals()["peak"]), piece, chosen.part(), met.part(),
                used_rows(rows if how.threads else rows[:0]), None if how.lines is None else line_piece(lives))
    return told, trace.problem, trace.stats()


def count_threads(view: View, chosen: Any) -> "Tuple[np.ndarray, Optional[TraceError], dict]":
    """Task: accesses by thread to the chosen blocks."""
    from steve.kernels._lives import Lives
    trace = view.open()
    lives = Lives(trace, view.window(), selection_of(chosen), part=0, since=view.cut.since)
    for _ in lives.batches():
        pass
    return used_rows(lives.thread_accesses()), trace.problem, trace.stats()


# ---- the whole --------------------------------------------------------------------------------


class Joined:
    """All lives of a trace: what a fold is given, and afterwards trace, places and lives, as a steve.analysis.blocks.Blocks
    has them. chosen, errors: filled, if there are any."""

    trace: Whole
    places: Places
    lines: "LineNumbers"

    def __init__(self, path: str, pool: "Pool", progress: "Progress", where: Optional[str],
                 chosen: "Optional[Selection]" = None, errors: "Optional[Faults]" = None,
                 threads: bool = False, selected: "Optional[Selection]" = None,
                 span: "Optional[Span]" = None) -> None:
        """threads: count accesses by thread, of all blocks or of those in `chosen`. selected: no others exist.
        span: of Rounds."""
        from steve.kernels._lives import WholeLives
        self._rounds = Rounds(path, pool, progress, span)
        self._where, self._chosen, self._errors, self._threads = where, chosen, errors, threads
        self._selected = None if selected is None else selected.part()
        self._test = None if where is None else parse(where)
        self.lives = WholeLives()

    def fold(self, make: "Callable[[], Fold]") -> "Fold":
        """The fold that make() makes, of all lives that the filter takes."""
        fold = make()
        numbered = fold.numbered or bool({"born", "died"} & fields_of(self._where or ""))
        again = self._threads and self._test is not None
        works = SURVEY * numbered + 1 + again
        befores = self._befores(SURVEY / works) if numbered else [0] * len(self._rounds.parts)
        how = Walk(make, self._where, self._chosen is not None, self._errors is not None,
                   self._threads and not again, self._selected)
        self._walk(fold, how, [(how, before, None) for before in befores], SURVEY * numbered / works, 1 / works)
        if again:
            self._count_threads((works - 1) / works, 1 / works)
        return fold

    def fold_lines(self, make: "Callable[[], Fold]") -> "Fold":
        """The same; afterwards there are lives.line_work() and `lines`, a steve.trace.line_numbers.LineNumbers. There is no
        filter, but what is selected."""
        from steve.analysis import line_parts
        from steve.kernels._lives import WholeLines
        fold, share = make(), line_parts.SURVEY / (1 + line_parts.SURVEY)
        self.lines, known, begins = line_parts.prepared(self._rounds, share)
        self.lives.count_lines(WholeLines(self._rounds.whole().trace, known))
        how = Walk(make, selected=self._selected, lines=known)
        self._walk(fold, how, [(how, 0, begin) for begin in begins], share, 1 - share)
        return fold

    def _walk(self, fold: "Fold", how: Walk, more: List[tuple], begin: float, share: float) -> None:
        """The round of the lives."""
        for part, told in self._rounds.each(walk, more, begin, share):
            self._join(fold, View(self._rounds.path, part.first, part.end), told)
        self._end(fold)

    def _befores(self, share: float) -> List[int]:
        """How many operations there are before each part."""
        befores = [0]
        for operations in self._rounds.first(count_operations, share=share):
            befores.append(befores[-1] + operations)
        return befores[:-1]

    def _join(self, fold: "Fold", view: View, told: Told) -> None:
        peak = self.lives.add(told.piece)
        fold.join(told.fold, peak)
        self.lives.add_threads(told.threads)
        if told.lines is not None:
            self.lives.add_lines(told.lines)
        if self._chosen is not None:
            self._chosen.join(told.chosen)
        if self._errors is not None:
            self._errors.join(told.errors)
        # those that ended there were made before, and so were their stacks
        places = None if self._test is None else Places(view.open())
        self._take(fold, self.lives.batches(), places)

    def _take(self, fold: "Fold", batches: "Iterator[np.ndarray]", places: Optional[Places]) -> None:
        """Give joined lives to the fold."""
        for batch in batches:
            keep = None if self._test is None or places is None else self._test(batch, places)
            fold.add(batch, keep)
            if self._chosen is not None and keep is not None:
                self._chosen.add(batch, keep)

    def _count_threads(self, begin: float, share: float) -> None:
        assert self._chosen is not None
        more = [(self._chosen.part(),)] * len(self._rounds.parts)
        for _, rows in self._rounds.each(count_threads, more, begin, share):
            self.lives.add_threads(rows)

    def _end(self, fold: "Fold") -> None:
        """What lives at the end of the trace, or of the span."""
        from steve.kernels._lives import end_of
        self.trace, span = self._rounds.whole(), self._rounds.span
        self.places = Places(self.trace)
        end = end_of(self.trace) if span is None or span.end is None else 0
        self._take(fold, self.lives.finish(end), self.places)
