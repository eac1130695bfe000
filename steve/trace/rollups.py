"""Roll-ups of sums by stack, type or thread: what a row of a list stands for, as --by chooses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from steve.terminal import arguments
from steve.trace.frames import base_name, file_name, function_name, is_lua, is_native
from steve.trace.policy import short_in_table
from steve.trace.stacks import Sites

if TYPE_CHECKING:
    import numpy as np

    from steve.terminal.listing import Column
    from steve.trace._memtrace import Frame, Trace
    from steve.trace.places import Places

BY = ("stack", "function", "line", "file", "object", "type", "thread", "how")
POOL = "pool"  # a row for each heap, or for those of one name, of commands that say so
PROCESS = "process"  # a row for each file, of commands that read several
FEW = 4096  # rows that are made at a time
MANY = 1 << 12  # rows that are merged at a time
LUA_CODE = "Lua code"
UNKNOWN = "(unknown)"


def add_arguments(parser: argparse.ArgumentParser, several: bool = False, pools: bool = False) -> None:
    """Add --by. several: the command reads several files, so --by may tell apart the processes that they are of. pools: rows
    may be heaps."""
    text = (
        f"what a row is (default: {BY[0]}); function, line, file and object are those of `steve lines`; how: how blocks "
        "were made: malloc, calloc, new..."
    )
    if not several:
        parser.add_argument("--by", choices=BY, default=BY[0], help=text)
        return
    known = (*BY, POOL) if pools else BY
    words = (*known, PROCESS, *(f"{by},{PROCESS}" for by in known))
    action = parser.add_argument(
        "--by",
        action=By,
        metavar="WHAT",
        default=BY[0],
        help=f"{text}; {PROCESS}: the process of a file; line,{PROCESS}: the lines of each process apart. Others: "
        f"{', '.join(known)}",
    )
    parser.set_defaults(apart=False)
    action.known = known
    arguments.suggest(action, words)


def add_process(parser: argparse.ArgumentParser) -> None:
    """Add --by for a command that reads several files and whose rows are always of one kind."""
    parser.add_argument(
        "--by",
        dest="apart",
        metavar=PROCESS,
        choices=(PROCESS,),
        default="",
        help="show the rows of each process apart",
    )


class By(argparse.Action):
    """Sets `by`, one of `known` or PROCESS, and `apart`: are the rows of each process apart from those of others?"""

    known: tuple[str, ...] = BY

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        by, comma, other = values.partition(",")
        if by not in (*self.known, PROCESS) or comma and (other != PROCESS or by == PROCESS):
            known = ", ".join(map(repr, (*self.known, PROCESS)))
            raise argparse.ArgumentError(
                self, f"invalid choice: {values!r} (choose from {known}, or one and ,{PROCESS})"
            )
        namespace.by, namespace.apart = by, bool(comma)


def key_of(by: str) -> str:
    """The number in a record of a life by which sums for rows of this kind are made."""
    return "heap" if by == POOL else by if by in ("type", "thread", "how") else "stack"


def headed(columns: Sequence[Column], by: str, key: str = "site") -> tuple[Column, ...]:
    """The columns of a list of sites, with the heading that names what a row is."""
    return tuple(column._replace(head=by) if column.key == key and by != "stack" else column for column in columns)


def of_arguments(args: argparse.Namespace, places: Places) -> Rollup:
    """The roll-up that the arguments choose, for a list. args: with those of steve.trace.policy."""
    return Rollup(args.by, places, short_in_table(args))


def summed(rows: np.ndarray, order: np.ndarray, starts: np.ndarray, columns: Sequence[str] = ()) -> np.ndarray:
    """Rows summed from each start to the next one. order: indices of rows; columns: only these; (): all."""
    import numpy as np

    names = columns or rows.dtype.names
    found = np.zeros(len(starts), [(name, rows.dtype[name]) for name in names])
    if len(starts):
        for name in names:
            found[name] = reducer(name).reduceat(rows[name][order], starts)
    return found


def joined(numbers: np.ndarray, columns: Mapping[str, tuple[Sums, str]]) -> Sums:
    """Columns of several sums by row: for each name the sums and the name that the column has there. A row that is
    missing in sums is 0. numbers: of the rows, in order."""
    import numpy as np

    rows = np.zeros(len(numbers), [(name, sums.rows.dtype[column]) for name, (sums, column) in columns.items()])
    for name, (sums, column) in columns.items():
        known = np.isin(numbers, sums.numbers)
        rows[name][known] = sums.rows[column][np.searchsorted(sums.numbers, numbers[known])]
    return Sums(numbers, rows)


class Sums(NamedTuple):
    """Sums by stack, type, thread or row: the numbers of these, in order, and the sums."""

    numbers: np.ndarray
    rows: np.ndarray

    def of(self, number: int) -> np.void:
        """The row of a number, which must have one."""
        return self.rows[self.numbers.searchsorted(number)]


class Texts(NamedTuple):
    """Two texts of a row: a short one, and one that also tells it apart from other rows with the same short text."""

    short: str
    long: str


class Rollup:
    """The rows of one list: their numbers and texts. by: one of BY, or PROCESS: all is one row.

    Sums by self.key are summed by row. For "stack", the number of a row is a site (Sites.of)."""

    def __init__(self, by: str, places: Places, short: bool = False, sites: Sites | None = None) -> None:
        """sites: of the trace, if they are known with such names."""
        self.by, self.places = by, places
        self.key = key_of(by)
        shown = places.sites.shown
        if sites is None:  # those of the places have whole names
            sites = Sites(shown.trace, shown.policy._replace(short=True)) if short else places.sites
        self._sites = sites
        self._numbers: dict[Hashable, int] = {}  # by what identifies a row
        self._texts: list[Texts] = []  # by number
        self._uses: dict[str, int] = {}  # number of rows with a short text
        self._of_frames: dict[int, int] = {}
        self._frames: list[Frame | None] = []  # by number, the first one

    @property
    def sites(self) -> Sites:
        """The sites, which are the rows of "stack"."""
        return self._sites

    def numbers(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of the rows of stacks, types, threads or ways of allocation."""
        import numpy as np

        if self.by == "stack":
            return self._sites.of(keys)
        if self.by == PROCESS:
            return np.zeros(len(keys), "u4")
        if self.by == POOL:
            return self._pools(keys)
        if self.key != "stack":
            return keys
        frames, first, which = np.unique(self.places.line_frames(keys), return_index=True, return_inverse=True)
        found = np.zeros(len(frames), "u4")
        for at in np.argsort(first).tolist():  # rows are numbered in the order of their first stacks
            found[at] = self.of_frame(int(frames[at]))
        return found[which]

    def _pools(self, heaps: np.ndarray) -> np.ndarray:
        """The numbers of the rows of heaps: those to which the program gave one name are a row."""
        import numpy as np

        distinct, which = np.unique(heaps, return_inverse=True)
        info = self.places.trace.info()
        first: dict[str, int] = {}
        rows = [
            first.setdefault(name, heap) if (name := info.get(f"heap_name.{heap}")) else heap
            for heap in distinct.tolist()
        ]
        return np.array(rows, "u4")[which]

    def merged(self, sums: Sums, columns: Sequence[str] = ()) -> Sums:
        """Sums by stack, type or thread summed by row. Of columns that begin with `most` the greatest is taken.
        columns: only these; (): all."""
        import numpy as np

        numbers = self.numbers(sums.numbers)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order].astype("i8"), prepend=-1))
        return Sums(numbers[order[starts]], summed(sums.rows, order, starts, columns))

    def merged_in_parts(
        self, keys: np.ndarray, rows: Callable[[np.ndarray], np.ndarray], most: int = MANY
    ) -> Iterator[Sums]:
        """The same in parts of about so many rows, for sums with long rows. keys: such numbers, in any order;
        rows: makes the rows for indices of them."""
        import numpy as np

        by_key = np.argsort(keys, kind="stable")
        numbers = self.numbers(keys[by_key])
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order].astype("i8"), prepend=-1))
        for first in range(0, len(starts), most):
            begin, end = starts[first], starts[first + most] if first + most < len(starts) else len(order)
            some, inner = order[begin:end], starts[first : first + most] - begin
            yield Sums(numbers[some[inner]], self._summed_in_parts(rows, by_key[some], inner, most))

    def _summed_in_parts(
        self, rows: Callable[[np.ndarray], np.ndarray], indices: np.ndarray, starts: np.ndarray, most: int
    ) -> np.ndarray:
        """The rows of indices summed from each start to the next one, with at most so many rows in memory."""
        import numpy as np

        which = np.zeros(len(indices), "i8")
        which[starts[1:]] = 1
        which, found = np.cumsum(which), None
        for first in range(0, len(indices), most):
            some, of = rows(indices[first : first + most]), which[first : first + most]
            begins = np.flatnonzero(np.diff(of, prepend=-1))
            sums = summed(some, np.arange(len(some)), begins)
            found = np.zeros(len(starts), sums.dtype) if found is None else found
            for name in sums.dtype.names:
                found[name][of[begins]] = reducer(name)(found[name][of[begins]], sums[name])
        return found

    def text(self, number: int) -> str:
        """The text of a row, once the numbers of all rows are known."""
        if self.by == "stack":
            return self._sites.text(number)
        if self.by == "type":
            from steve.trace._memtrace import TYPE_NAMES

            return TYPE_NAMES[number]
        if self.by == "thread":
            return f"thread {number}"
        if self.by == POOL:
            return heap_name(self.places.trace, number)
        if self.by == "how":
            from steve.trace._memtrace import HOW_NAMES

            return HOW_NAMES[number]
        if self.by == PROCESS:
            return process_text(self.places.trace)
        texts = self._texts[number]
        return texts.short if self._uses[texts.short] == 1 else texts.long

    def more_texts(self) -> dict[str, Callable[[int], str]]:
        """Further columns of text, by their names: functions of the number of a row."""
        return {}

    def frame(self, number: int) -> Frame | None:
        """A frame of a row of functions, lines, files or objects; None if the row is of stacks without frames."""
        return self._frames[number]

    def of_frame(self, number: int) -> int:
        """The number of the row of the frame with an id."""
        if number not in self._of_frames:
            frame = self._sites.shown.named(number) if number else None
            identity, texts = IDENTITIES[self.by](frame) if frame is not None else (None, Texts(UNKNOWN, UNKNOWN))
            known = self._numbers.setdefault(identity, len(self._texts))
            if known == len(self._texts):
                self._texts.append(texts)
                self._frames.append(frame)
                self._uses[texts.short] = self._uses.get(texts.short, 0) + 1
            self._of_frames[number] = known
        return self._of_frames[number]


def heap_name(trace: Trace, number: int) -> str:
    """The name of a heap: the one that the recording has, else that of its kind."""
    names = {"malloc": "C heap (malloc)", "lua": "Lua state", "mmap": "mmap", "custom": "custom pool"}
    heap, given = trace.heap(number), trace.info().get(f"heap_name.{number}")
    if given:
        return given
    kind = "malloc" if heap is None else heap.kind
    return names.get(kind, kind) + (f" {heap.id:#x}" if heap is not None and heap.id else "")


def process_text(trace: Trace) -> str:
    """The name of the process that a trace is of: that of the file, and the number of the process if that is not part of it."""
    name, pid = os.path.basename(trace.name), trace.info().get("pid", "")
    return name if not pid or pid in name else f"{name} (pid {pid})"


class SummedRows:
    """The rows of a list, made of sums when they are needed: see steve.terminal.listing.Rows.

    make: makes the columns of a row from its sums. The column `key` is the text of the row."""

    def __init__(
        self,
        rollup: Rollup,
        sums: Sums,
        make: Callable[[dict], dict],
        key: str = "site",
        order: np.ndarray | None = None,
    ) -> None:
        """order: indices into the sums; None: all, as they are."""
        import numpy as np

        self.rollup, self.sums, self.make, self.key = rollup, sums, make, key
        self._texts: dict[str, Callable[[int], str]] = {key: rollup.text, **rollup.more_texts()}
        self.order = np.arange(len(sums.numbers), dtype="u4") if order is None else order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, some: slice) -> list[dict]:
        made = zip(self.sums.numbers[self.order[some]].tolist(), self._made(some))
        return [{**row, **{key: text(number) for key, text in self._texts.items()}} for number, row in made]

    def _made(self, some: slice) -> Iterator[dict]:
        """The rows without their texts."""
        names = self.sums.rows.dtype.names
        return (self.make(dict(zip(names, values))) for values in self.sums.rows[self.order[some]].tolist())

    def ranked(self, order: str) -> SummedRows:
        """The same rows sorted by a column, the largest first; by the text column alphabetically."""
        import numpy as np

        if order in self._texts:
            numbers, text = self.sums.numbers[self.order].tolist(), self._texts[order]
            indices = np.array(sorted(range(len(self)), key=lambda i: text(numbers[i])), "u4")
        else:
            values = np.array(
                [row[order] or 0 for first in range(0, len(self), FEW) for row in self._made(slice(first, first + FEW))]
            )
            indices = np.argsort(-values, kind="stable")
        return SummedRows(self.rollup, self.sums, self.make, self.key, self.order[indices])

    def rest(self, first: int) -> dict:
        """One row for all rows from an index on."""
        rows = self.sums.rows[self.order[first:]]
        found = {name: reducer(name).reduce(rows[name]).item() for name in rows.dtype.names}
        none = dict.fromkeys(self._texts, "")
        return {**self.make(found), **none, self.key: f"others ({len(rows):,})"}


def is_most(name: str) -> bool:
    """Is the sum of several rows the largest of theirs? By the name of the sum: those that sums.def calls MOST in rows by stack
    begin so."""
    return name.startswith("most")


def reducer(name: str) -> np.ufunc:
    """How values of a column are combined."""
    import numpy as np

    return np.maximum if is_most(name) else np.add


Identified = tuple[Hashable, Texts]


def by_function(frame: Frame) -> Identified:
    """A function is identified by its name and its file; of Lua, by where it is defined."""
    if not frame.function:
        return by_object(frame)
    name, file = function_name(frame), file_name(frame)
    if is_lua(frame) and frame.defined:
        nth = f" #{frame.nth + 1}" if frame.nth else ""
        return (
            (frame.file, frame.defined, frame.nth),
            Texts(f"{name} ({file}:{frame.defined})", f"{name} ({frame.file.lstrip('@=')}:{frame.defined}{nth})"),
        )
    place = frame.file or frame.object
    short = f"{name} ({base_name(place)})" if place else name
    return (frame.function, place), Texts(short, f"{name} ({place})" if place else name)


def by_line(frame: Frame) -> Identified:
    """A line, with its function."""
    if not frame.file:
        return by_function(frame)
    function, texts = by_function(frame)
    name = function_name(frame) or UNKNOWN
    at = f":{frame.line}" if frame.line else ""
    nth = f" #{frame.nth + 1}" if frame.nth else ""
    return (
        (function, frame.file, frame.line),
        Texts(f"{name} ({file_name(frame)}{at})", f"{name} ({frame.file.lstrip('@=')}{at}{nth})"),
    )


def by_file(frame: Frame) -> Identified:
    """A source file; of code without one, the object."""
    if not frame.file:
        return by_object(frame)
    return ("file", frame.file), Texts(file_name(frame), frame.file.lstrip("@="))


def by_object(frame: Frame) -> Identified:
    """An object file, or all code of Lua."""
    if frame.object:
        return ("object", frame.object), Texts(f"[{os.path.basename(frame.object)}]", f"[{frame.object}]")
    text = LUA_CODE if not is_native(frame) else frame.function or UNKNOWN
    return ("object", text), Texts(text, text)


IDENTITIES: dict[str, Callable[[Frame], Identified]] = {
    "function": by_function,
    "line": by_line,
    "file": by_file,
    "object": by_object,
}
