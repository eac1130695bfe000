"""Several memtraces as one: what forks of a program left, such as the workers of a server.

The files are read one after the other, so that only one is in memory. Each is analysed as it would be alone; sums of rows with
the same name are added up. A peak is that of each process, so a sum of peaks need not have been there at one time; headings
say so.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steve.analysis.blocks import Blocks, choice_text
from steve.analysis.filter import fields_of
from steve.analysis.totals import time_unit
from steve.system.errors import SteveError
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import missing, rollups
from steve.trace.rollups import PROCESS, Rollup, SummedRows, Sums, process_text

if TYPE_CHECKING:
    import numpy as np

    from steve.system.samples import Sample
    from steve.trace._memtrace import Trace

PEAKS = "at peak: each process at its own peak"
# the column before the others with --by=...,process
COLUMNS = (Column(PROCESS, PROCESS, "the file, and the number of its process; with --by ...,process only", True),)
INHERITED = "blocks that a child inherited count in each process; --where 'not inherited' leaves them out"
FEW = 3  # files that a remark names
# the number of a row is that of its name; if each process has rows of its own, the number of its file is above these bits
FILE = 32


def columns(columns: Sequence[Column], args: argparse.Namespace, key: str = "site") -> tuple[Column, ...]:
    """The columns of a list, with the heading that names what a row is; if each process has rows of its own, with a column for
    the process. key: the column with the text of a row."""
    return (*(COLUMNS if args.apart else ()), *rollups.headed(columns, getattr(args, "by", "stack"), key))


def of_one(args: argparse.Namespace, path: str) -> argparse.Namespace:
    """The arguments of a command that reads several files, as those of one that reads one of them."""
    return argparse.Namespace(**{**vars(args), "file": path})


class Files:
    """The chosen blocks of each file that the arguments name, in turn; and then what is to be said of all of them.

    how: arguments of Blocks. chosen: those of the file that was read last."""

    def __init__(self, command: str, args: argparse.Namespace, **how: Any) -> None:
        self.command, self.args, self._how = command, args, how
        self.chosen: Blocks
        self._status = 0
        self._remarks: dict[str, list[str]] = {}  # of the files that they are true of
        self._without_accesses: list[str] = []
        self._units: set[str] = set()
        self._have_forks = False

    def __len__(self) -> int:
        return len(self.args.files)

    def __iter__(self) -> Iterator[Blocks]:
        known: Sample | None = None
        for number, path in enumerate(self.args.files):
            self.chosen = self.blocks(number)
            yield self.chosen
            if known not in (None, self.sample):
                raise SteveError(f"{path}: is sampled otherwise than the files before it; analyse such files apart")
            known = self.sample
            self._add()

    def blocks(self, number: int) -> Blocks:
        """The chosen blocks of one of the files, from its beginning."""
        return Blocks(self.command, of_one(self.args, self.args.files[number]), **self._how)

    @property
    def sample(self) -> Sample:
        """How the blocks of the files were sampled, which is the same of all that were read."""
        return self.chosen.sample

    def _add(self) -> None:
        """Note what is to be said of a file that was analysed. Of several, what was wrong with it is reported at once, so that
        its trace can be closed."""
        name = self.chosen.trace.name
        if missing.accesses(self.chosen.trace):
            self._without_accesses.append(name)
        self._units.add(time_unit(self.chosen.trace))
        self._have_forks |= "forked_from_pid" in self.chosen.trace.info()
        for remark in filter(None, self.chosen.remarks()):
            self._remarks.setdefault(remark, []).append(name)
        if len(self) > 1:
            self._status = max(self._status, self.chosen.verdict())

    def title(
        self, what: str, peaks: bool = True, inherited: bool = True, name: str = "", sample: Sample | None = None
    ) -> str:
        """A heading, as Blocks.title() has it for one file. peaks: are numbers shown of what is live at the peak? inherited: do
        blocks count that a child inherited? name: of the files; "": their number. sample: as of Blocks.title()."""
        if len(self) == 1:
            return self.chosen.title(what, sample)
        said = (self.sample if sample is None else sample).remark + "".join(
            self._of(remark, names) for remark, names in self._remarks.items()
        )
        if self._without_accesses and (
            getattr(self.args, "counts_accesses", False) or len(self._without_accesses) < len(self)
        ):
            said += self._of(" (loads and stores were not recorded)", self._without_accesses)
        notes = [PEAKS] if peaks else []
        if inherited and self._have_forks and "inherited" not in fields_of(self.args.where or ""):
            notes.append(INHERITED)
        remark = f" ({'; '.join(notes)})" if notes else ""
        return f"{name or f'{len(self)} files'}: {what}{choice_text(self.args)}{remark}{said}"

    def _of(self, remark: str, names: list[str]) -> str:
        """A remark with the files that it is true of."""
        if len(names) == len(self):
            return remark
        who = ", ".join(names) if len(names) <= FEW else f"{len(names)} of the files"
        return f" ({who}: {remark.removeprefix(' (')}"

    def columns(self, columns: Sequence[Column], of_accesses: Container[str] = ()) -> tuple[Column, ...]:
        """The columns of a listing: see Blocks.columns(). What one of the files does not have is not known of the sum."""
        if self._without_accesses:
            columns = listing.unknown(columns, of_accesses)
        unit = next(iter(self._units)) if len(self._units) == 1 else "time"
        return listing.in_unit(columns, unit)

    def check_unit(self) -> None:
        """SteveError if times of the files are not of one unit, so that they cannot be added up."""
        if len(self._units) > 1:
            raise SteveError(f"the files have times in {' and in '.join(sorted(self._units))}, which are no sum")

    def verdict(self, counts_accesses: bool = True) -> int:
        """Report what was wrong with the traces, if that was not done; return the exit status."""
        return self.chosen.verdict(counts_accesses) if len(self) == 1 else self._status


class Joined:
    """The rows of several files: sums of rows with the same name are added up, or with --by=...,process not those of different
    files. Of one file nothing is copied.

    by: what the rows are, as --by has it. sums: by the number of a row."""

    sums: Sums

    def __init__(self, args: argparse.Namespace, by: str | None = None) -> None:
        """by: what the rows are; None: what --by says."""
        from steve.trace.matched import SameNames

        self.by = args.by if by is None else by
        self._is_one, self._is_apart = len(args.files) == 1 and not args.apart, args.apart
        self._names = SameNames(self.by)
        self._processes: list[str] = []
        self._rollup: Rollup | None = None

    def add(self, rollup: Rollup, sums: Sums) -> np.ndarray:
        """Add the sums by row of the next file. Returns the numbers that its rows have among those of all."""
        self._processes.append(process_text(rollup.places.trace))
        if self._is_one:
            self._rollup, self.sums = rollup, sums
            return sums.numbers
        numbers = self._numbers(rollup, sums.numbers)
        found = Sums(numbers, sums.rows)
        if len(self._processes) > 1:
            found = _concatenated(self.sums, found)
        self.sums = _merged(found)
        return numbers

    def _numbers(self, rollup: Rollup, numbers: np.ndarray) -> np.ndarray:
        """The numbers that rows of the file that is added have among those of all."""
        import numpy as np

        file = np.uint64(len(self._processes) - 1 << FILE)
        if self.by == PROCESS:
            return np.full(len(numbers), file)
        nodes = self._names.add(rollup, numbers).astype("u8")
        return nodes | file if self._is_apart else nodes

    def rows(self, make: Callable[[dict], dict], key: str = "site") -> SummedRows:
        """The rows. make: makes the columns of one from its sums; key: the column with its text."""
        return SummedRows(self._rollup or self, self.sums, make, key)

    def row_text(self, number: int) -> str:
        """The text of a row."""
        return (self._rollup or self).text(number)

    def text(self, number: int) -> str:
        """The same of several files."""
        return self.process(number) if self.by == PROCESS else self._names.text(number & (1 << FILE) - 1)

    def process(self, number: int) -> str:
        """The process of a row."""
        return self._processes[number >> FILE]

    def more_texts(self) -> dict[str, Callable[[int], str]]:
        return {PROCESS: self.process} if self._is_apart else {}


def _concatenated(first: Sums, second: Sums) -> Sums:
    """The rows of both. A column that one does not have is 0 there."""
    import numpy as np

    types = {name: rows.dtype[name] for rows in (first.rows, second.rows) for name in rows.dtype.names}
    found = np.zeros(len(first.rows) + len(second.rows), list(types.items()))
    for rows, some in ((first.rows, found[: len(first.rows)]), (second.rows, found[len(first.rows) :])):
        for name in rows.dtype.names:
            some[name] = rows[name]
    return Sums(np.concatenate((first.numbers, second.numbers)), found)


def _merged(sums: Sums) -> Sums:
    """The sums of the rows of each number, in the order of the numbers."""
    import numpy as np

    order = np.argsort(sums.numbers, kind="stable")
    numbers = sums.numbers[order]
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)])
    return Sums(numbers[starts], rollups.summed(sums.rows, order, starts))


class Tables:
    """What is found in several files by commands whose rows are always the same, such as classes of lifetimes: joined to one
    result, or, with --by=process, one of each process. join: makes one result of two."""

    def __init__(self, args: argparse.Namespace, join: Callable[[Any, Any], Any]) -> None:
        self._is_apart, self._join = bool(args.apart), join
        self._found: list[tuple[str, Any]] = []  # with their processes

    def add(self, found: Any, trace: Trace) -> None:
        """Add the result of the next file."""
        if self._is_apart or not self._found:
            self._found.append((process_text(trace), found))
        else:
            self._found = [(name, self._join(known, found)) for name, known in self._found]

    def all(self) -> list[Any]:
        """The results."""
        return [found for _, found in self._found]

    def rows(self, make: Callable[[Any], list[dict]]) -> list[dict]:
        """The rows of all results. make: makes those of one."""
        return [{PROCESS: name, **row} if self._is_apart else row for name, found in self._found for row in make(found)]


class Added:
    """The rows of several files that are dictionaries: numbers of rows with the same `keys` are added up, or, with --by=process,
    not those of different files. means: the columns that are means, each with the column of the numbers that they are of.
    """

    def __init__(self, args: argparse.Namespace, keys: Sequence[str], means: Mapping[str, str] | None = None) -> None:
        self._is_apart, self._keys, self._means = bool(args.apart), tuple(keys), dict(means or {})
        self._rows: dict[tuple, dict] = {}

    def add(self, rows: Iterable[dict], trace: Trace) -> None:
        """Add the rows of the next file."""
        for row in rows:
            row = {PROCESS: process_text(trace), **row} if self._is_apart else row
            key = tuple(row[name] for name in self._names())
            self._rows[key] = self._sum(self._rows[key], row) if key in self._rows else row

    def rows(self) -> list[dict]:
        return list(self._rows.values())

    def _names(self) -> tuple[str, ...]:
        """The columns that are equal in rows that are added up."""
        return (PROCESS, *self._keys) if self._is_apart else self._keys

    def _sum(self, one: dict, other: dict) -> dict:
        found = {**one, **other}
        for name in one.keys() & other.keys() - {*self._names(), *self._means}:
            found[name] = _added(one[name], other[name])
        for name, of in self._means.items():
            known = [(row[name], row[of]) for row in (one, other) if row[name] is not None and row[of]]
            count = sum(number for _, number in known)
            found[name] = round(sum(value * number for value, number in known) / count, 2) if count else None
        if "standard_errors" in found:
            errors = [row.get("standard_errors", {}) for row in (one, other)]
            found["standard_errors"] = {
                name: round(sum(of.get(name, 0) ** 2 for of in errors) ** 0.5, 1) for name in {**errors[0], **errors[1]}
            }
        return found


def _added(one: Any, other: Any) -> Any:
    """The sum of two values: numbers, dictionaries of them, or texts that are equal. None: not known."""
    if one is None or other is None or isinstance(one, str):
        return one if isinstance(one, str) else None
    if isinstance(one, dict):
        both = one.keys() & other.keys()
        return {**one, **other, **{key: _added(one[key], other[key]) for key in both}}
    return one + other
