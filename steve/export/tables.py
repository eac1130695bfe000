"""A trace as tables: blocks, sites, stacks, frames, lines, heaps, samples, marks, and the events over time.

The exports sqlite and tables (CSV) write the same tables. Two walks make them: the first one, without accesses, defines
the names and has the marks and samples; the second has the blocks, in the order of their ends, and the bins. Memory is
O(live blocks + stacks). docs/tables.md describes the columns, docs/faq.md has queries for usual questions.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from steve.analysis.folds import Passed, Together
from steve.analysis.lives import LifeAnalysis
from steve.analysis.totals import is_complete, time_unit
from steve.kernels._report import HeapProfile
from steve.kernels._sums import dtype_of
from steve.kernels._walk import Walk, feed_together
from steve.trace._memtrace import (
    HOW_NAMES,
    MARK,
    REACH_NAMES,
    SAMPLE,
    TYPE_NAMES,
    VERSION,
    VM_NAMES,
    Trace,
)
from steve.trace import missing
from steve.trace.frames import function_name
from steve.trace.places import Places
from steve.trace.policy import Policy
from steve.trace.stacks import Sites

if TYPE_CHECKING:
    from steve.terminal.progress import Progress

BINS = 1000
FEW = 8192  # rows that are made at a time
SCHEMA = 1  # number of this schema


class Table(NamedTuple):
    """A table: its columns, each with its SQL type."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


def table(name: str, /, **columns: str) -> Table:
    return Table(name, tuple(columns.items()))


INT, TEXT, NUMBER, KEY = "INTEGER", "TEXT", "NUMERIC", "INTEGER PRIMARY KEY"
FACT = table("fact", key=TEXT, value=TEXT)
HEAP = table("heap", id=KEY, kind=TEXT, address=INT)
FRAME = table("frame", id=KEY, function=TEXT, file=TEXT, line=INT, object=TEXT, address=INT, kind=TEXT)
STACK = table("stack", id=KEY, caller=INT, frame=INT, site=INT)
SITE = table("site", id=KEY, text=TEXT, function=TEXT, file=TEXT, line_id=INT)
BLOCK = table(
    "block",
    id=INT,
    heap=INT,
    type=TEXT,
    how=TEXT,
    state=TEXT,
    size=INT,
    requested=INT,
    resizes=INT,
    born=INT,
    died=INT,
    born_time=INT,
    died_time=INT,
    thread=INT,
    free_thread=INT,
    stack=INT,
    site=INT,
    reads=INT,
    writes=INT,
    bytes_read=INT,
    bytes_written=INT,
    used=INT,
    first_use=INT,
    last_use=INT,
    container=INT,
)
MARKS = table("mark", id=KEY, time=INT, thread=INT, name=TEXT)
SAMPLES = table("sample", id=KEY, time=INT, thread=INT, stack=INT, heap=INT, state=TEXT, weight=INT)
BIN = table("bin", id=KEY, **dict.fromkeys(dtype_of("timeline_bin").names, INT))


# columns of BLOCK and BIN that are not known of a trace without loads and stores
OF_ACCESSES = ("reads", "writes", "bytes_read", "bytes_written", "used")


class Column(NamedTuple):
    """A column of a table in some rows."""

    numbers: np.ndarray
    """int64"""
    words: list[str] | None
    """The texts that the numbers stand for; None: the column has numbers."""
    unknown: np.ndarray | int | None
    """Numbers that are not known are equal to this, or to that of this array."""


class Writer(Protocol):
    """What stores tables."""

    def make(self, table: Table) -> None:
        """Make an empty table."""

    def rows(self, table: Table, rows: Iterable[Sequence]) -> None:
        """Append rows to a table. A value is an int, a float, a str or None."""

    def columns(self, table: Table, columns: list[Column]) -> None:
        """Append rows to a table, given as columns."""


def signed(number: int) -> int:
    """A 64-bit number as SQL has them."""
    return number - (1 << 64) if number >> 63 else number


def states() -> list[str]:
    """The states of blocks by reach, and that of freed ones: what became of a block."""
    return ["live", *REACH_NAMES[1:], "freed"]


class Names:
    """All that the first walk finds: the sites of the stacks, and the rows of marks and samples."""

    def __init__(self, trace: Trace, policy: Policy, writer: Writer, tick: Progress | None) -> None:
        self.trace, self.writer = trace, writer
        self._marks = self._samples = 0
        walked = 0
        for batch in trace.batches():
            self._events(batch)
            walked += 1
            if tick is not None and walked % 256 == 0:
                tick(*trace.progress())
        self.places = Places(trace, policy)
        sites = Sites(trace, policy) if policy.short else self.places.sites  # these have whole names
        self.site_of: np.ndarray = sites.of(np.arange(max(trace.counts()["stacks"], 1), dtype="u4"))
        # by site, whether it makes blocks: the second walk finds out
        self.has_blocks = np.zeros(len(self.site_of), bool)
        self._sites = sites

    def _events(self, batch: np.ndarray) -> None:
        """The marks and samples of a batch."""
        for event in batch[batch["kind"] == MARK]:
            self._marks += 1
            row = (self._marks, int(event["time"]), int(event["thread"]), self.trace.string(int(event["ref"])))
            self.writer.rows(MARKS, [row])
        samples = batch[batch["kind"] == SAMPLE]
        if len(samples):
            first, self._samples = self._samples + 1, self._samples + len(samples)
            vm = [VM_NAMES[how] if heap else None for how, heap in zip(samples["how"] & 15, samples["heap"].tolist())]
            columns = [samples[name].astype("i8").tolist() for name in ("time", "thread", "ref", "heap")]
            weights = samples["size"].astype("i8").tolist()
            self.writer.rows(SAMPLES, zip(range(first, self._samples + 1), *columns, vm, weights))

    def write(self, line_of: Callable[[str, int, str], int | None]) -> None:
        """Write heaps, frames, stacks and sites. line_of(file, line, function): the id of a line."""
        counts = self.trace.counts()
        self.writer.rows(HEAP, map(self._heap, range(max(counts["heaps"], 1))))
        self.writer.rows(FRAME, map(self._frame, range(counts["frames"])))
        for first in range(0, counts["stacks"], FEW):
            self.writer.columns(STACK, self._stacks(first, min(first + FEW, counts["stacks"])))
        sites = np.flatnonzero(self.has_blocks)
        self.places.name_stacks(int(sites.max(initial=0)) + 1)
        self.writer.rows(SITE, (self._site(site, line_of) for site in sites.tolist()))

    def _heap(self, number: int) -> tuple:
        heap = self.trace.heap(number)
        return (number, "malloc", 0) if heap is None else (number, heap.kind, signed(heap.id))

    def _frame(self, number: int) -> tuple:
        frame = self.trace.frame(number)
        if frame is None:
            return (number, "", "", 0, "", 0, "host")
        function = function_name(frame)
        return (number, function, frame.file, frame.line, frame.object, signed(frame.ip), frame.kind)

    def _stacks(self, first: int, end: int) -> list[Column]:
        """The rows of the stacks from one id to before another."""
        callers, frames = np.zeros(end - first, "i8"), np.zeros(end - first, "i8")
        begin = max(first, 1)
        callers[begin - first :], frames[begin - first :] = self.trace.stack_links(begin, end)
        sites = self.site_of[first:end].astype("i8")
        sites[~self.has_blocks[sites]] = -1
        numbers = (np.arange(first, end), callers, frames, sites)
        return [Column(column, None, -1 if column is sites else None) for column in numbers]

    def _site(self, site: int, line_of: Callable[[str, int, str], int | None]) -> tuple:
        line = self.places.stack_line(site)
        return (
            site,
            str(self._sites.text(site)),
            line.function,
            line.file,
            line_of(line.file, line.line, line.function),
        )


class Blocks:
    """A fold (steve.analysis.reducers) that writes the lives of blocks."""

    numbered = True

    def __init__(self, writer: Writer, names: Names) -> None:
        self.writer, self.names = writer, names
        self._not_recorded = dict.fromkeys(OF_ACCESSES, 0) if missing.accesses(names.trace) else {}
        self._words = {"type": list(TYPE_NAMES), "how": list(HOW_NAMES), "state": states()}

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        lives = batch if keep is None else batch[keep]
        if not len(lives):
            return
        stacks, site_of = lives["stack"], self.names.site_of
        sites = site_of[np.where(stacks < len(site_of), stacks, 0)]
        self.names.has_blocks[sites] = True
        made: dict[str, Any] = {
            "id": lives["handle"],
            "state": np.where(lives["freed"] != 0, len(self._words["state"]) - 1, lives["reach"]),
            "requested": lives["bytes"],
            "site": sites,
            "container": lives["container"] + lives["kept"],
            "reads": lives["loads"] + lives["modifies"],
            "writes": lives["stores"] + lives["modifies"],
        }
        died = np.ascontiguousarray(lives["died"], "i8")
        unknown = {"free_thread": 0, "first_use": died, "last_use": died, **self._not_recorded}
        self.writer.columns(
            BLOCK,
            [
                Column(
                    np.ascontiguousarray(made[name] if name in made else lives[name], "i8"),
                    self._words.get(name),
                    unknown.get(name),
                )
                for name in BLOCK.names()
            ],
        )


class Lines:
    """The ids of lines, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, int, str], int] = {}

    def number(self, file: str, line: int, function: str) -> int | None:
        """The id of a line; None if it is not known."""
        return self.ids.setdefault((file, line, function), len(self.ids) + 1) if file or function else None


def line_table(columns: Iterable[str]) -> Table:
    """The table of lines. columns: the columns of numbers of `steve lines`."""
    return table("line", id=KEY, file=TEXT, line=INT, function=TEXT, **{name: NUMBER for name in columns})


def write_lines(writer: Writer, lines: Lines, columns: Sequence[str], rows: Iterable[dict]) -> None:
    """Write the lines. rows: those of `steve lines`, of which `columns` are written. Lines of sites that have no row have
    unknown numbers."""
    known = line_table(columns)
    found = {(row["file"], row["line"], row["function"]): row for row in rows}
    for place in found:
        lines.number(*place)
    nothing: dict[str, Any] = {}
    writer.rows(
        known,
        ((id, *place, *(found.get(place, nothing).get(name) for name in columns)) for place, id in lines.ids.items()),
    )


def write_blocks(trace: Trace, names: Names, writer: Writer, tick: Progress | None) -> dict[str, int]:
    """Write the blocks and bins of a trace. Returns the totals of the profile."""
    profile = HeapProfile(BINS)
    lives = LifeAnalysis(lambda: Together(Blocks(writer, names), Passed(profile.add_lives)))
    walk = Walk(trace, None, None, tick)
    profile.begin(walk, None)
    lives.begin(walk, None)
    feed_together(walk, (profile, lives))
    profile.end(0, False)
    bins = profile.timeline()
    rows = bins.astype([(n, "i8") for n in bins.dtype.names]).tolist()
    if missing.accesses(trace):
        unknown = [name in OF_ACCESSES for name in bins.dtype.names]
        rows = [[None if lacks else value for lacks, value in zip(unknown, row)] for row in rows]
    writer.rows(BIN, ((i, *row) for i, row in enumerate(rows, 1)))
    return profile.totals()


def facts(trace: Trace, totals: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The rows of FACT: about the tables, the trace and the recording."""
    yield "schema", str(SCHEMA)
    yield "steve", VERSION
    yield "trace", trace.name
    yield "time_unit", time_unit(trace)
    yield "complete", "yes" if is_complete(trace, totals["lost"]) else "no"
    accesses = totals["load"] + totals["store"] + totals["modify"]
    yield "has_accesses", "yes" if missing.has_accesses(trace, accesses) else "no"
    for name in ("operations", "peak_bytes", "peak_operation", "peak_time", "peak_blocks"):
        yield name, str(totals[name])
    for key, value in trace.info().items():
        yield f"recording.{key}", value


def in_pieces(rows: Iterable[Sequence]) -> Iterator[list[Sequence]]:
    """The rows, FEW at a time."""
    left = iter(rows)
    while some := list(islice(left, FEW)):
        yield some


def write_tables(
    first: Trace,
    second: Callable[[], Trace],
    policy: Policy,
    writer: Writer,
    lines: tuple[Sequence[str], Callable[[], Iterable[dict]]],
    progress: Callable[[str], Progress],
) -> Trace:
    """Write all tables. first: the trace without accesses; second(): opens it with them; lines: the columns of `steve
    lines` and a function that returns its rows; progress(what): shows the progress of a walk. Returns the second
    trace."""
    for each in (FACT, HEAP, FRAME, STACK, SITE, BLOCK, MARKS, SAMPLES, BIN, line_table(lines[0])):
        writer.make(each)
    with progress("names") as tick:
        names = Names(first, policy, writer, tick)
    trace = second()
    with progress("blocks") as tick:
        totals = write_blocks(trace, names, writer, tick)
    numbered = Lines()
    columns, rows = lines
    names.write(numbered.number)
    del first, names  # frees memory for the lines
    write_lines(writer, numbered, columns, rows())
    writer.rows(FACT, facts(trace, totals))
    return trace
