"""Which blocks of a trace the arguments of a command choose, and the analyses of these blocks.

--where chooses blocks by their properties. --from and --to cut the trace at marks, as if it began with an empty heap at
the first and ended at the second. An analysis of accesses must know beforehand which blocks count, so with --where the
trace is read twice.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import copy
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Container,
    Dict,
    Hashable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from steve.parallel import processes
from steve.trace import earlier_blocks, earlier_code, missing, policy, rollups, source
from steve.system.errors import UsageError
from steve.system.messages import note
from steve.analysis.lives import LifeAnalysis, LifeResult
from steve.analysis.folds import Passed, Sums, Table
from steve.analysis.totals import reserve_remark, time_unit
from steve.parallel.window import Until, Window, located
from steve.parallel.processes import Pool
from steve.parallel.rounds import Only, Rounds, analyse_whole, requests_workers
from steve.trace.places import Places
from steve.trace.reading import reading_of
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.progress import Progress
from steve.analysis.filter import explained, parse

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._walk import Analysis
    from steve.kernels._lives import Selection
    from steve.system.samples import Sample
    from steve.trace._memtrace import Trace
    from steve.analysis.folds import Fold
    from steve.parallel.window import Span
    from steve.parallel.rounds import Whole

WHERE_HELP = f"""\
--where EXPRESSION keeps only some blocks; tests are joined by and, or, not and parentheses:
  size >= 1Ki and lifetime < 1000     numbers: = != < <= > >=; units k M G Ki Mi Gi, % of utilisation
  site ~ "parser" or not freed        texts: = != ~ !~ (~: a regular expression is found in it)
fields:
{explained()}
--from MARK, --to MARK: only blocks made after the first mark of that name, and everything as if the trace
ended at the next mark TO. An operation is a New, Free, Resize, Load, Store or Modify.
"""


def add_arguments(parser: argparse.ArgumentParser, also: tuple[str, ...] = (), several: bool = False) -> None:
    """FILE, --salvage, -q, --where, --from, --to. also: other kinds of files that FILE may be; several: there may be several
    memtraces (steve.analysis.several)."""
    if several:
        source.add_traces(parser, also)
    else:
        source.add_trace(parser, also=also)
    add_choice(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """--where, --from, --to."""
    parser.add_argument("--where", metavar="EXPRESSION", help="only blocks for which this holds; see below")
    parser.add_argument("--from", dest="begin", metavar="MARK", help="begin at a named point of the program")
    parser.add_argument("--to", dest="end", metavar="MARK", help="end at a named point of the program")


def add_shards(parser: argparse.ArgumentParser) -> None:
    """-j, --scheduler, for commands whose analyses can be made of shards."""
    processes.add_arguments(parser)
    parser.set_defaults(divided=True)


def is_whole(args: argparse.Namespace) -> bool:
    """Do the arguments of add_choice() choose everything?"""
    return args.where is None and args.begin is None and args.end is None


class Read(NamedTuple):
    """A trace that was read, and the names of its code."""

    trace: "Union[Trace, Whole]"
    places: Places


class Blocks:
    """The blocks that the arguments choose, and walks over them, which return what they find. `trace` and `places` are those
    of the latest walk: what is said of the trace, such as title() and verdict(), is known when it was read."""

    def __init__(
        self,
        command: str,
        args: argparse.Namespace,
        again: bool = False,
        by_line: bool = False,
        errors: bool = False,
        every_block: str = "",
    ) -> None:
        """again: the caller will read the trace once more. by_line: fold() counts accesses by line. errors: it collects the
        errors of the program, if all blocks are chosen; this needs `again`. every_block: as of Reading; "": what the arguments
        have."""
        self.errors = errors and is_whole(args)
        self.command, self.args, self.by_line = command, args, by_line
        self._counts_accesses = getattr(args, "counts_accesses", False)
        self.policy = policy.of_arguments(args)
        self.test = parse(args.where) if args.where is not None else None
        self._given = reading_of(args)
        if every_block:
            self._given = self._given._replace(every_block=every_block)
        self._files = source.Operations(self._given) if self.test or again else None
        self.reading = self._given if self._files is None else self._files.reading
        self._selection: "Optional[Selection]" = None
        self._span: "Optional[Span]" = None
        self._searched = False
        self._read: Optional[Read] = None
        self._divided = getattr(args, "divided", False)  # can the analyses of the command be made of shards?
        self._after: Optional[str] = None  # of until()

    def until(self, mark: Optional[str], after: Optional[str] = None) -> "Blocks":
        """The blocks made since the beginning of the trace, as if it ended at a mark; None: at its end. after: that mark is the
        next one after the first mark of this name."""
        other = copy.copy(self)
        other.args = argparse.Namespace(**{**vars(self.args), "begin": None, "end": mark})
        other.errors, other._after = False, after if mark is not None else None
        other._selection, other._span, other._searched = None, None, False
        return other

    def among(self, where: str) -> "Blocks":
        """Those of the chosen blocks for which an expression of --where holds."""
        other = copy.copy(self)
        both = where if self.args.where is None else f"({self.args.where}) and {where}"
        other.args = argparse.Namespace(**{**vars(self.args), "where": both})
        other.errors, other.test = False, parse(both)
        other._files = self._files or source.Operations(self._given)
        other.reading, other._selection = other._files.reading, None
        return other

    def open_again(self, freed: bool = False, snapshots: bool = False) -> "Trace":
        """The trace from its beginning. freed: with accesses to freed memory; snapshots: with snapshots."""
        return self.reading.open(freed=freed, snapshots=snapshots)

    @property
    def trace(self) -> "Union[Trace, Whole]":
        """The trace that the latest walk has read, or reads."""
        assert self._read is not None, "no walk has read the trace"
        return self._read.trace

    @property
    def places(self) -> Places:
        """The names of its code."""
        assert self._read is not None, "no walk has read the trace"
        return self._read.places

    def _reads(self, trace: "Union[Trace, Whole]") -> "Union[Trace, Whole]":
        """A walk reads, or has read, this trace."""
        self._read = Read(trace, Places(trace, self.policy))
        return trace

    @property
    def sample(self) -> "Sample":
        """How the blocks were sampled of the trace that was read."""
        return self.trace.sample

    def is_whole(self) -> bool:
        """Are all blocks chosen?"""
        return is_whole(self.args)

    def open_chosen(self) -> "Trace":
        """The trace from its beginning, as if it held only the chosen blocks between the marks. With --where, the first
        call walks over the lives of all blocks to choose them."""
        if self.is_whole():
            return self._open()
        from steve.kernels._accesses import ChosenTrace

        selection = self._selected()
        trace = self.reading.open(ChosenTrace)
        trace.choose(self.window(), None if selection is None else selection.as_bits())
        return trace

    def _selected(self) -> "Optional[Selection]":
        """The blocks that --where chooses; None without --where."""
        if self.test is not None and self._selection is None:
            self._selection = self._choose()
        return self._selection

    def operations(self) -> "Union[source.Operations, ChosenOperations]":
        """The operations of the chosen blocks, for functions that accept an ops file or a memtrace."""
        assert self._files is not None
        return self._files if self.is_whole() else ChosenOperations(self, self._files)

    def is_from_pipe(self) -> bool:
        """Is the trace read from a pipe, so that it cannot be read again?"""
        return self.reading.path == "-" or source.is_pipe(self.reading.path)

    def window(self) -> Optional[Window]:
        """A new window between the marks; None if no marks are given."""
        if self._after is not None:
            return Until(self._after, self.args.end)
        wanted = self.args.begin is not None or self.args.end is not None
        return Window(self.args.begin, self.args.end) if wanted else None

    def _open(self) -> "Trace":
        return self.reading.open(freed=self.errors)

    def batches(self) -> "Iterator[tuple[np.ndarray, Optional[np.ndarray]]]":
        """Batches of lives, each with an array that selects the chosen ones, or None for all."""
        from steve.kernels._lives import Lives

        trace, window = self._reads(self._open()), self.window()
        with Progress(self.command, self.args.quiet) as progress:
            for batch in Lives(trace, window, tick=progress).batches():
                yield batch, None if self.test is None else self.test(batch, self.places)
        if window is not None and trace.problem is None:
            window.verify(trace.name)

    def fold(
        self, make: "Callable[[], Fold]", chosen: "Optional[Selection]" = None, threads: bool = False
    ) -> LifeResult:
        """What the fold that make() makes (see steve.analysis.folds) finds of the chosen lives; by several workers if the
        arguments request them. chosen: gets the blocks that --where chooses. threads: the result's lives.thread_accesses()
        counts only accesses to the chosen blocks; else to all, or none."""
        again = self.test is not None and (threads or self.by_line)
        found = self._lives(
            make,
            where=self.args.where,
            choose=again or chosen is not None,
            errors=self.errors,
            threads=threads and not again,
            by_line=self.by_line and not again,
        )
        if chosen is not None:
            chosen.merge(found.chosen.partial())
        if again:
            of_chosen = self._lives(Passed, threads=True, by_line=self.by_line, selected=found.chosen.partial())
            found = found._replace(lives=of_chosen.lives, lines=of_chosen.lines, places=of_chosen.places)
        return found

    def _lives(self, make: "Callable[[], Fold]", **how: Any) -> LifeResult:
        """An analysis of lives, made of the trace."""
        found = self._run(partial(LifeAnalysis, make, policy=self.policy, **how), None, self._divided)
        self._read = Read(self.trace, found.places)  # which know names already
        return found

    def _run(
        self, make: "Callable[[], Analysis]", chosen: "Optional[Selection]", divided: bool, alone: bool = False
    ) -> Any:
        """The result of an analysis of the trace. chosen: of these blocks only; divided: can it be made of shards; alone: as
        if there were no other blocks."""
        if not divided or not self._in_shards():
            return self._run_here(make, chosen, alone)
        only = Only(None if chosen is None else chosen.partial()) if alone else None
        with Pool(self.args) as pool, Progress(self.command, self.args.quiet) as progress:
            rounds = Rounds(self._given, pool, progress, self._span, only)
            result = rounds.run(make, None if alone else chosen)
            self._reads(rounds.whole())
        return result

    def _run_here(self, make: "Callable[[], Analysis]", chosen: "Optional[Selection]", alone: bool) -> Any:
        """The same in this process."""
        from steve.kernels._walk import Walk

        trace, window = (self.open_chosen(), None) if alone else (self._open(), self.window())
        bits = None if alone or chosen is None else chosen.as_bits()
        self._reads(trace)
        with Progress(self.command, self.args.quiet) as progress:
            result = analyse_whole(Walk(trace, window, bits, progress), make)
        if window is not None and trace.problem is None:
            window.verify(trace.name)
        return result

    def _in_shards(self) -> bool:
        """Are shards requested and possible? With marks, the shards that contain these are first found."""
        if self._after is not None or not requests_workers(self.args) or not self._given.has_shards():
            return False
        if self.window() is None:
            return True
        if not self._searched:
            self._searched, self._span = True, self._locate()
        return self._span is not None

    def _locate(self) -> "Optional[Span]":
        with Pool(self.args) as pool, Progress(f"{self.command}: marks", self.args.quiet) as progress:
            rounds = Rounds(self._given, pool, progress)
            return located(rounds, self.args.begin, self.args.end)

    def sum_by(self, *keys: str, chosen: "Optional[Selection]" = None, columns: Sequence[str] = ()) -> List[Any]:
        """The sums of the chosen lives by each key (see steve.kernels._lives.Groups), one table for each. chosen: as
        for fold(); columns: of the first table, as for Sums.rows()."""
        found = self.fold(partial(Sums, *keys), chosen)
        return found.fold.rows(found.totals["peak"], columns)

    def sum_with_accesses(self, *keys: str, columns: Sequence[str] = ()) -> "tuple[List[Any], LifeResult]":
        """The same, and the result, whose lives.thread_accesses() and, by line, line_work() count only accesses to the chosen
        blocks."""
        found = self.fold(partial(Sums, *keys), threads=True)
        return found.fold.rows(found.totals["peak"], columns), found

    def over_events(
        self, make: "Callable[[], Analysis]", chosen: "Optional[Selection]" = None, in_shards: bool = True
    ) -> Any:
        """The result of the analysis of events that make() makes (steve.kernels._walk.Analysis), of the chosen
        blocks; by several workers if the arguments request them and `in_shards` is true.

        chosen: as an earlier sum_by() has filled it. Without it, --where needs a walk over the lives, once."""
        if chosen is None:
            chosen = self._selected()
        return self._run(make, chosen, self._divided and in_shards)

    def over_trace(self, make: "Callable[[], Analysis]", in_shards: bool = True) -> Any:
        """The result of an analysis that reads all that a trace delivers: all of it, or what open_chosen() delivers. By
        several workers if the arguments request them and `in_shards` is true."""
        return self._run(make, None if self.is_whole() else self._selected(), in_shards, alone=not self.is_whole())

    def _choose(self) -> "Selection":
        from steve.kernels._lives import Selection

        chosen = Selection()
        self.fold(Sums, chosen)
        return chosen

    def title(self, what: str, sample: "Optional[Sample]" = None) -> str:
        """A heading with the name of the trace and the choice of blocks. That of a command with COUNTS_ACCESSES says if the
        trace has none because they were not recorded. sample: that of the numbers; None: that of the trace."""
        if self._counts_accesses and missing.accesses(self.trace):
            what += " (loads and stores were not recorded)"
        elif self._counts_accesses and missing.accesses_in_part(self.trace):
            what += " (loads and stores of a part of the run)"
        estimated = (self.sample if sample is None else sample).remark
        return f"{self.trace.name}: {what}{choice_text(self.args)}{estimated}{''.join(self.remarks())}"

    def remarks(self) -> List[str]:
        """What is to be known of the trace, for a heading."""
        return [
            imported_remark(self.trace.info()),
            missing.remark(self.trace),
            reserve_remark(self.trace),
            earlier_code.heading(self.trace),
        ]

    def columns(self, columns: Sequence[Column], of_accesses: Container[str]) -> tuple[Column, ...]:
        """The columns of a listing, for this trace. of_accesses: those that are not known without loads and stores. What
        `instructions` counts is the heading of that column."""
        if missing.accesses(self.trace):
            columns = listing.unknown(columns, of_accesses)
        return listing.in_unit(columns, time_unit(self.trace))

    def verdict(self, counts_accesses: bool = True) -> int:
        """Report what was wrong with the trace, and if lines of it are approximate; return the exit status. A command with
        COUNTS_ACCESSES also says if the trace has no accesses; counts_accesses: with these options it counts them."""
        lacking = missing.accesses(self.trace) if self._counts_accesses and counts_accesses else ""
        if lacking:
            note(self.command, f"{self.trace.name}: {lacking}", self.args.quiet)
        if resized := earlier_blocks.remark(self.trace):
            note(self.command, f"{self.trace.name}: {resized}", self.args.quiet)
        if approximate := earlier_code.remark(self.trace):
            note(self.command, f"{self.trace.name}: {approximate}", self.args.quiet)
        return source.verdict(self.command, self.trace)


def choice_text(args: argparse.Namespace) -> str:
    """The choice of blocks, for a heading."""
    parts = [f"where {args.where}"] if args.where is not None else []
    parts += [f"from '{args.begin}'"] if args.begin is not None else []
    parts += [f"to '{args.end}'"] if args.end is not None else []
    return "".join(f", {part}" for part in parts)


def imported_remark(facts: Dict[str, str]) -> str:
    """What the recording of another program lacks, for a heading; "" for a trace that was not imported."""
    if "imported_from" not in facts:
        return ""
    return f" (imported from {facts['imported_from']}, without {facts.get('lacks', '')})"


class ChosenOperations:
    """Operations of the chosen blocks of a memtrace, with the functions of source.Operations."""

    def __init__(self, chosen: Blocks, files: source.Operations) -> None:
        if files.is_ops():
            raise UsageError(f"{files.name}: is an ops file; --where, --from and --to choose blocks of a memtrace")
        self._chosen, self.name = chosen, files.name

    def open(self) -> "Trace":
        return self._chosen.open_chosen()

    open_trace = open


FEW_ROWS = 4096  # rows converted to Python numbers at a time, because each then takes twenty times the memory


def merged(rows: "Union[np.ndarray, Table]", key_of: Callable[[int], Hashable]) -> Dict[Hashable, Dict[str, int]]:
    """Sums of the rows whose numbers have the same key, by key. Rows that are all 0 are left out."""
    result: Dict[Hashable, Dict[str, int]] = {}
    numbers, rows = nonzero_rows(rows)
    names = rows.dtype.names
    most = [rollups.is_most(name) for name in names]
    for first in range(0, len(numbers), FEW_ROWS):
        some = numbers[first : first + FEW_ROWS]
        for number, row in zip(some.tolist(), rows[first : first + FEW_ROWS].tolist()):
            known = result.setdefault(key_of(number), dict.fromkeys(names, 0))
            for name, value, is_most in zip(names, row, most):
                known[name] = max(known[name], value) if is_most else known[name] + value
    return result


def nonzero_rows(rows: "Union[np.ndarray, Table]") -> "Table":
    """Those rows of an array by number that are not all 0."""
    if isinstance(rows, Table):
        return rows
    numbers = nonzero_numbers(rows)
    return Table(numbers, rows[numbers])


def nonzero_numbers(rows: "np.ndarray") -> "np.ndarray":
    """The numbers of the rows that are not all 0."""
    import numpy as np

    any_of = np.zeros(len(rows), bool)
    for name in rows.dtype.names:
        any_of |= rows[name] != 0
    return np.flatnonzero(any_of)


def share(part: float, whole: float) -> Optional[float]:
    """part / whole in percent; None if there is no whole."""
    return round(100 * part / whole, 2) if whole else None


def mean(total: float, n: int) -> Optional[float]:
    return round(total / n, 2) if n else None
