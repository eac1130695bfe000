"""What is done with the parts of a trace, and how the results become those of the whole, exactly.

Ops: a first round counts the operations and handles of each part and finds which handle each slot has at
its end; with that known the second round writes all pieces at once, and they are put one behind the other.
Pieces of the binary form begin where one of its blocks does: a worker skips what belongs to the piece before
and reads on into the next part.

Lifetimes: a first round as for ops; in the second each part counts what the blocks that live in it are
accessed.

Lives of blocks: see steve.analysis.lives.

Summary: one round; a part tells by slot which blocks lived on at its end and which ended that were made
before it; heights of the heap are relative to the beginning of the part.

A part that is damaged is the last one, as for one reader. With --salvage parts begin only where everything before
is sound, so that the last one holds all the damage.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from steve.system.errors import SteveError
from steve.parallel.checkpoints import Checkpoint, Surveyed, checkpoints_of, survey
from steve.parallel.window import Cut, walked
from steve.parallel.processes import PARTS_EACH, Part, Pool, split
from steve.system.tempfiles import scratch_folder

if TYPE_CHECKING:
    import argparse

    import numpy as np

    from steve.kernels._accesses import Analysis, Walk
    from steve.kernels._lives import Selection
    from steve.trace._memtrace import Trace
    from steve.system.errors import TraceError
    from steve.parallel.window import Span, Window
    from steve.terminal.progress import Progress

SURVEY = 0.2  # of the time of an analysis that looks at accesses
SLOT_NONE, SLOT_MADE = 1, 2  # of steve/kernels/totals/part_sizes.h


def asked(args: "argparse.Namespace") -> bool:
    """Do the arguments ask for parts?"""
    return args.jobs != 1 or args.scheduler is not None


class Salvaged(str):
    """The path of a trace of which damaged chunks are left out.

    Parts begin before the first damaged chunk only: what is lost there, and what becomes of blocks that were made or
    freed in it, one reader tells, of all that comes behind."""


def path_of(args: "argparse.Namespace") -> str:
    """The path of the trace, for Rounds."""
    return Salvaged(args.file) if args.salvage else args.file


def open_whole(path: str, freed: bool = False) -> "Trace":
    from steve.trace._memtrace import Trace
    return Trace(str(path), salvage=isinstance(path, Salvaged), freed=freed)


def sound_seek_points(trace: "Trace", path: str) -> int:
    """How many points parts can begin at."""
    return trace.sound_seek_points() if isinstance(path, Salvaged) else len(trace.seek_points())


def has_parts(path: str) -> bool:
    """Is it a file that can be read in more parts than one?"""
    return path != "-" and os.path.isfile(path) and sound_seek_points(open_whole(path), path) > 1


class View(NamedTuple):
    """A part of a trace, as tasks are told of it: points first to end; cut: what counts of it."""
    path: str
    first: int
    end: int
    cut: Cut = Cut(0)

    def open(self, freed: bool = False) -> "Trace":
        """A trace that delivers all of it; freed: with accesses to freed memory."""
        trace = open_whole(self.path, freed)
        trace.read_range(self.first, self.end)
        return trace

    def window(self) -> "Optional[Window]":
        """What to walk through it with, None if no end of a window is here."""
        return self.cut.window()


class Whole:
    """What is left to know of a trace that was read in parts: as a Trace that was read to its end. trace: of which
    only the last part was read."""

    def __init__(self, trace: "Trace", problem: "Optional[TraceError]", stats: List[dict]) -> None:
        self.trace = trace
        self.name, self.problem, self._parts = trace.name, problem, stats

    def stats(self) -> dict:
        """Those of the last part; what counts events is the sum of all; how far the trace went, any part may
        tell."""
        result = self.trace.stats()
        for name in ("instructions", "nanoseconds"):
            result[name] = max(part[name] for part in self._parts)
        for name in ("events", "unmatched_free", "unmatched_access"):
            result[name] = sum(part[name] for part in self._parts)
        return result

    def __getattr__(self, name: str) -> Any:
        """Definitions: all are known once the last part was read."""
        return getattr(self.trace, name)


class Rounds:
    """A trace, its parts and the workers; every round gives a result for each part up to a damaged one. span: of
    steve.parallel.window.located(): the parts are those between two marks, and `earlier` are those before."""

    def __init__(self, path: str, pool: Pool, progress: "Progress", span: "Optional[Span]" = None) -> None:
        self.path, self.pool, self.progress = type(path)(os.path.abspath(path)), pool, progress
        self.name, self.span = path, span
        self._trace = open_whole(path)
        self._sound, self._points = sound_seek_points(self._trace, path), len(self._trace.seek_points())
        self.earlier: List[Part] = []
        self.parts: List[Part] = []
        self.problem: "Optional[TraceError]" = None
        self.stats: List[dict] = []
        self._last: "Optional[Tuple[Part, Trace]]" = None
        if span is None:
            self.divide(0, self._points)
        else:
            self.earlier = span.earlier
            self._have(span.parts)

    def divide(self, first: int, end: int) -> bool:
        """Have parts from one point up to another only; false if they are those that there were."""
        before = self.parts
        self._have(split(self._trace, PARTS_EACH * self.pool.n, self._sound, first, end))
        return self.parts != before

    def _have(self, parts: List[Part]) -> None:
        self.parts, first = list(parts), parts[0].first
        self._begin = self._trace.seek_points()[first][2] if first else 0
        self._end = parts[-1].bytes

    def view(self, i: int, onward: bool = False) -> View:
        """Part i for tasks; onward: with all that comes behind it."""
        part = self.parts[i]
        cut = Cut(0) if self.span is None else self.span.cut(i, onward)
        return View(self.path, part.first, self._points if onward else part.end, cut)

    def tell(self, part: Part, before: float, share: float) -> None:
        """Show that a part is done by a round that is this share of the work; before: what was done before it."""
        total = self._end - self._begin
        self.progress(int(before * total + (part.bytes - self._begin) * share), total)

    def first(self, task: Any, *more: Any, share: float = 1.0) -> List[Any]:
        """task(view, *more) for each part: its results; share: how much of the work it is."""
        return [result for _, result in self.each(task, [more] * len(self.parts), 0.0, share)]

    def run(self, make: "Callable[[], Analysis]", chosen: "Optional[Selection]" = None) -> Any:
        """The result of the analysis that make() makes, of the chosen blocks, each part being a shard."""
        analysis, share = make(), 0.0
        bits = None if chosen is None else chosen.part()
        if analysis.needs:
            share = SURVEY
        checkpoints = self._checkpoints(analysis, share)
        more = [(make, bits, checkpoint) for checkpoint in checkpoints]
        analysis.merge(partial for _, partial in self.each(analyse, more, share, 1 - share, analysis.onward))
        whole = self.whole()
        analysis.know(whole)
        to_mark = self.span is not None and self.span.end is not None
        analysis.end(0 if to_mark else end_of(whole), self.span is not None)
        return analysis.result()

    def _checkpoints(self, analysis: "Analysis", share: float) -> List[Checkpoint]:
        """What the analysis needs to know where the parts begin; share: of the work."""
        needs, points = analysis.needs, self._trace.seek_points()
        surveys, earlier = [Surveyed()] * len(self.parts), []
        if needs:
            last = tuple(what for what in needs if what != "threads")  # nobody asks what they did at the end
            more = [(needs,)] * (len(self.parts) - 1) + [(last,)]
            earlier = self.before(survey, needs) if "threads" in needs else []
            surveys = [surveyed for _, surveyed in self.each(survey, more, 0.0, share)]
        shards = [(self.view(i), points[part.first][1]) for i, part in enumerate(self.parts)]
        found = checkpoints_of(shards, earlier, surveys)
        if "definitions" in needs:
            known = analysis.know(self.whole())
            for checkpoint in found:
                checkpoint.definitions = known
        return found

    def each(self, task: Any, more: Sequence[tuple], begin: float, share: float,
             onward: bool = False) -> Iterator[Tuple[Part, Any]]:
        """task(view, *more[i]) for each part i: the part and the result; begin: how much of the work
        was done before; onward: parts are read beyond their ends, after a round that found out how far the trace goes."""
        tasks = [(self.view(i, onward), *own) for i, own in enumerate(more)]
        if onward:
            for part, (result, _, _) in zip(self.parts, self.pool.run(task, tasks)):
                yield part, result
                self.tell(part, begin, share)
            return
        self.stats, self.problem, done = [], None, 0
        for part, (result, problem, stats) in zip(self.parts, self.pool.run(task, tasks)):
            done += 1
            self.stats.append(stats)
            if stats["damaged_chunks"] and part is not self.parts[-1]:
                raise SteveError(f"{self.name}: is damaged where no checksum tells it; read it without -j")
            yield part, result
            self.tell(part, begin, share)
            if problem is not None:
                self.problem = problem.of(self.name)
                break
        del self.parts[done:]

    def before(self, task: Any, *more: Any) -> List[Any]:
        """task(view, *more) for each of the earlier parts: its results."""
        tasks = [(View(self.path, part.first, part.end), *more) for part in self.earlier]
        return [result for result, _, _ in self.pool.run(task, tasks)]

    def whole(self) -> Whole:
        """What is left to know after a round."""
        part = self.parts[-1]
        if self._last is None or self._last[0] != part:
            view = self.view(len(self.parts) - 1)
            trace = view._replace(path=self.name).open()
            if not isinstance(self.path, Salvaged):  # nothing is asked of it that depends on its accesses
                trace.pass_accesses()
            self._last = part, walked(trace, view.window())
        return Whole(self._last[1], self.problem, self.stats)


# ---- analyses of events ------------------------------------------------------------------------


def analyse(view: View, make: "Callable[[], Analysis]", chosen: Any,
            checkpoint: Checkpoint) -> "Tuple[Any, Optional[TraceError], dict]":
    """Task: what an analysis makes of a part; chosen: the part() of a Selection, or None."""
    from steve.kernels._accesses import Walk
    from steve.kernels._lives import Selection
    bits = None
    if chosen is not None:
        selection = Selection()
        selection.join(chosen)
        bits = selection.as_bits()
    analysis = make()
    walk = Walk(view.open(analysis.freed), view.window(), bits, part=True, since=view.cut.since)
    analysis.begin(walk, checkpoint)
    analysis.feed(walk)
    return analysis.partial(), walk.trace.problem, walk.trace.stats()


def analyse_whole(walk: "Walk", make: "Callable[[], Analysis]") -> Any:
    """The result of an analysis of a whole trace, which is one shard, in this process."""
    analysis, window = make(), walk.window
    analysis.begin(walk, None)
    analysis.feed(walk)
    to_mark = window is not None and window.now == "after"
    analysis.end(0 if to_mark else end_of(walk.trace), window is not None)
    return analysis.result()


def end_of(trace: "Trace | Whole") -> int:
    """When the program of a trace that was read to its end ended, in instructions; 0 if that is not known."""
    return 0 if trace.problem is not None else trace.stats()["totals"]["instructions"]


# ---- summary ----------------------------------------------------------------------------------


def summarise(view: View) -> Tuple[dict, "Optional[TraceError]", dict]:
    """Task: the summary of a part."""
    from steve.kernels import _totals
    trace = view.open()
    part = _totals.Summary(trace).part()
    return part, trace.problem, trace.stats()


class Summary:
    """As steve.kernels._totals.Summary, of parts that are added in their order."""

    def __init__(self) -> None:
        import numpy as np
        self.events: Dict[str, int] = {}
        self.totals: Dict[str, int] = {}
        self._threads = np.zeros(1024, "u8")
        self._size = np.zeros(0, "u8")   # by slot, of live blocks
        self._stack = np.zeros(0, "u4")  # likewise
        self._stacks: "Optional[np.ndarray]" = None

    def add(self, part: dict) -> None:
        """Take the summary of the next part."""
        self._add_totals(part["totals"])
        self.events = {name: self.events.get(name, 0) + n for name, n in part["events"].items()}
        self._threads |= part["threads"]
        self._add_stacks(part["stacks"])
        self._end(part["ended"])
        self._begin(part["live"], part["blocks"])

    def _add_totals(self, part: Dict[str, int]) -> None:
        """The heap of a part is that of its beginning, and what it tells."""
        sums = self.totals
        for what in ("bytes", "blocks"):
            height = sums.get(f"live_{what}", 0) + part[f"peak_{what}"]
            sums[f"peak_{what}"] = max(sums.get(f"peak_{what}", 0), height)
        for name in ("allocated", "freed", "read", "written", "live_bytes", "live_blocks", "lost"):
            sums[name] = sums.get(name, 0) + part[name]
        sums["last_event"] = part["last_event"]

    def _add_stacks(self, rows: "np.ndarray") -> None:
        import numpy as np
        if self._stacks is None:
            self._stacks = rows
            return
        sums = np.zeros(max(len(rows), len(self._stacks)), rows.dtype)
        for one in (rows, self._stacks):
            for name in rows.dtype.names:
                sums[name][:len(one)] += one[name]
        self._stacks = sums

    def _end(self, slots: "np.ndarray") -> None:
        """Blocks of earlier parts ended: they no longer live where they were made."""
        import numpy as np
        assert self._stacks is not None
        np.subtract.at(self._stacks["live_blocks"], self._stack[slots], np.uint64(1))
        np.subtract.at(self._stacks["live_bytes"], self._stack[slots], self._size[slots])

    def _begin(self, slots: "np.ndarray", blocks: "np.ndarray") -> None:
        """Blocks live at the end of a part."""
        import numpy as np
        more = int(slots.max()) + 1 - len(self._size) if len(slots) else 0
        if more > 0:
            self._size = np.concatenate((self._size, np.zeros(more, "u8")))
            self._stack = np.concatenate((self._stack, np.zeros(more, "u4")))
        self._size[slots], self._stack[slots] = blocks["size"], blocks["stack"]

    @property
    def threads(self) -> int:
        return sum(int(word).bit_count() for word in self._threads)

    def stacks(self) -> "np.ndarray":
        return self._stacks


def summary_of(path: str, pool: Pool, progress: "Progress") -> Tuple[Whole, Summary]:
    """The summary of a trace."""
    rounds, summary = Rounds(path, pool, progress), Summary()
    for part in rounds.first(summarise):
        summary.add(part)
    return rounds.whole(), summary


# ---- ops --------------------------------------------------------------------------------------


class Start(NamedTuple):
    """What stands before a part: operations; handles given out; handle of each slot, plus 1."""
    operations: int
    next_handle: int
    handles: "np.ndarray"


def survey_handles(view: View, resizes: bool) -> Tuple[tuple, "Optional[TraceError]", dict]:
    """Task: operations and handles of a part."""
    from steve.kernels import _totals
    trace = view.open()
    return _totals.survey_of(trace, resizes=resizes), trace.problem, trace.stats()


def starts_of(surveys: List[tuple]) -> List[Start]:
    """Where each part starts, and after them where the trace ends."""
    import numpy as np
    at = Start(0, 0, np.zeros(0, "u8"))
    starts = [at]
    for operations, handles, slots in surveys:
        known = np.zeros(max(len(at.handles), len(slots)), "u8")
        known[:len(at.handles)] = at.handles
        made = np.flatnonzero(slots >= SLOT_MADE)
        known[made] = slots[made] - SLOT_MADE + at.next_handle + 1
        known[:len(slots)][slots == SLOT_NONE] = 0
        at = Start(at.operations + operations, at.next_handle + handles, known)
        starts.append(at)
    return starts


def write_piece(view: View, start: Start, skip: int, count: int, piece: tuple, how: dict,
                folder: Optional[str]) -> Any:
    """Task: write a piece into a file of a folder, whose path comes back; without a folder its bytes do; and accesses
    to no block."""
    from steve.kernels import _ops
    trace = view.open()
    with tempfile.NamedTemporaryFile(dir=folder, delete=folder is None) as file:
        stray = _ops.write_ops_piece(trace, file.fileno(), start.handles, start.next_handle, skip, count,
                                         piece=piece, **how)
        return file.name if folder is not None else Path(file.name).read_bytes(), stray


def pieces_of(rounds: Rounds, starts: List[Start], grain: int) -> Iterator[tuple]:
    """(view, start, operations to skip, to write, piece) for each piece; grain: they begin at multiples of it."""
    begins = [-(-start.operations // grain) * grain for start in starts[:-1]] + [starts[-1].operations]
    begins = [min(begin, begins[-1]) for begin in begins]
    last = max((i for i in range(len(begins) - 1) if begins[i] < begins[i + 1]), default=0)
    for i in range(last + 1):
        if i == 0 or begins[i] < begins[i + 1]:
            yield (rounds.view(i, onward=True), starts[i], begins[i] - starts[i].operations, begins[i + 1] - begins[i],
                   (begins[i], i == 0, i == last))


def write_ops(path: str, fd: int, pool: Pool, progress: "Progress", *, form: str, resizes: bool,
              folder: Optional[str]) -> Tuple[Whole, dict]:
    """As steve.kernels._ops.write_ops; form: text or binary; folder: for pieces (None: that of temporary
    files)."""
    from steve.kernels._ops import PIECE
    rounds = Rounds(path, pool, progress)
    starts = starts_of(rounds.first(survey_handles, resizes, share=0.2))
    how = {"form": form, "resizes": resizes}
    with scratch_folder(".steve-", folder) as scratch:
        place = None if pool.remote else scratch
        pieces = list(pieces_of(rounds, starts, PIECE if form == "binary" else 1))
        tasks = ((*piece, how, place) for piece in pieces)
        stray = 0
        for i, (result, stray) in enumerate(pool.run(write_piece, tasks)):  # all are in the last: only damage makes any
            append(fd, result)
            rounds.tell(rounds.parts[-1], 0.0, 0.2 + 0.8 * (i + 1) / len(pieces))
    return rounds.whole(), {"ops": starts[-1].operations, "stray": stray}


# ---- lifetimes --------------------------------------------------------------------------------


def lifetimes_task(view: View, start: Start) -> tuple:
    """Task: the lifetimes of a part."""
    from steve.kernels import _totals
    return _totals.lifetimes_piece(view.open(), start.handles, start.next_handle)


def joined(pieces: List[tuple], blocks: int) -> tuple:
    """Lifetimes of the whole: a block's accesses, its own and others', are the sums over the parts it lives
    in."""
    import numpy as np
    accesses, unmatched = (sum(piece[i] for piece in pieces) for i in (0, 1))
    result = np.zeros(blocks, pieces[0][2].dtype)
    result["handle"] = np.arange(blocks)
    for _, _, rows in pieces:  # a handle stands in each but once
        for name in ("own", "other"):
            result[name][rows["handle"]] += rows[name]
    return accesses, unmatched, result


def lifetimes_of(path: str, pool: Pool, progress: "Progress") -> Tuple[Whole, tuple]:
    """As steve.kernels._totals.lifetimes_of."""
    rounds = Rounds(path, pool, progress)
    starts = starts_of(rounds.first(survey_handles, False, share=0.5))
    tasks = [(rounds.view(i), starts[i]) for i in range(len(rounds.parts))]
    pieces = []
    for part, piece in zip(rounds.parts, pool.run(lifetimes_task, tasks)):
        pieces.append(piece)
        rounds.tell(part, 0.5, 0.5)
    return rounds.whole(), joined(pieces, starts[-1].next_handle)


# ---- files ------------------------------------------------------------------------------------


def append(fd: int, piece: Any) -> None:
    """Put a piece, bytes or the path of a file that then goes away, behind what was written."""
    with open(fd, "wb", closefd=False) as out:
        if isinstance(piece, bytes):
            out.write(piece)
            return
        with open(piece, "rb") as file:
            shutil.copyfileobj(file, out, 1 << 20)
    os.unlink(piece)
