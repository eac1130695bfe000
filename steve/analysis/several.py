"""Several memtraces as one: what forks of a program left, such as the workers of a server.

The files are read one after the other, so that only one is in memory; or with -j and --scheduler each worker reads one at a
time. Each is analysed as it would be alone; sums of rows with the same name are added up. A peak is that of each
process, so a sum of peaks need not have been there at one time; headings say so.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from steve.analysis.blocks import Blocks, choice_text
from steve.analysis.filter import fields_of
from steve.analysis.totals import time_unit
from steve.parallel.processes import Pool, WorkerKilled
from steve.parallel.rounds import requests_workers
from steve.system import messages
from steve.system.errors import SteveError
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.progress import Progress
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


def for_worker(args: argparse.Namespace, path: str) -> argparse.Namespace:
    """The same for a worker, which may have another working directory and needs no further workers."""
    return argparse.Namespace(
        **{**vars(args), "file": os.path.abspath(path), "file_name": path, "jobs": 1, "scheduler": None}
    )


class Said(NamedTuple):
    """What is to be said of a file that was analysed, beside what was found in it. status: the exit status, 0 if it is not
    known yet."""

    name: str
    sample: Sample
    remarks: list[str]
    has_accesses: bool
    unit: str
    is_fork: bool
    status: int


class Collected(Protocol):
    """What a command finds in files. join() adds what was found in others, which come after those that were added."""

    def join(self, other: Any) -> None:
        ...


Found = TypeVar("Found", bound=Collected)


def said_of(chosen: Blocks, status: int) -> Said:
    """What is to be said of a file that was analysed. status: the exit status."""
    trace = chosen.trace
    return Said(
        trace.name,
        chosen.sample,
        [remark for remark in chosen.remarks() if remark],
        not missing.accesses(trace),
        time_unit(trace),
        "forked_from_pid" in trace.info(),
        status,
    )


def analysed(
    command: str, args: argparse.Namespace, how: dict, make: Callable[[], Found], add: Callable[[Found, Blocks], None]
) -> tuple[Found, Said, list[str]]:
    """Task: what make() makes, with one file added; and the messages of the analysis."""
    with messages.kept() as lines:
        chosen, found = Blocks(command, args, **how), make()
        add(found, chosen)
        return found, said_of(chosen, chosen.verdict()), lines


def is_balanced(sizes: Sequence[int], workers: int) -> bool:
    """Have so many workers the same to do, about, if each file is read by one of them? Else the files are divided.
    sizes: of the files in bytes; 0 of what is no file."""
    return all(sizes) and max(sizes) * workers <= sum(sizes)


class Files:
    """The chosen blocks of each file that the arguments name, in turn; and then what is to be said of all of them.

    how: arguments of Blocks. chosen: those of the file that was read last in this process."""

    def __init__(self, command: str, args: argparse.Namespace, **how: Any) -> None:
        self.command, self.args, self._how = command, args, how
        self.chosen: Blocks
        self._said: list[Said] = []

    def __len__(self) -> int:
        return len(self.args.files)

    def __iter__(self) -> Iterator[Blocks]:
        for number in range(len(self)):
            self.chosen = self.blocks(number)
            yield self.chosen
            # of several, what was wrong with one is reported at once, so that its trace can be closed
            self._add(said_of(self.chosen, self.chosen.verdict() if len(self) > 1 else 0))

    def collect(self, make: Callable[[], Found], add: Callable[[Found, Blocks], None]) -> Found:
        """What make() makes, with all files added. If workers are requested, and the files are about as large, a worker reads
        a file; else it reads a part of one. add: adds a file. Both functions, and what they make of one of several files, can
        be sent to other processes."""
        found = make()
        if len(self) == 1:
            for chosen in self:
                add(found, chosen)
        elif not requests_workers(self.args) or not self._collect_by_workers(found, make, add):
            for chosen in self:
                of_one = make()
                add(of_one, chosen)
                found.join(of_one)
        return found

    def _collect_by_workers(
        self, found: Found, make: Callable[[], Found], add: Callable[[Found, Blocks], None]
    ) -> bool:
        """Add all files to what was found, by workers that read one file at a time; False if that would make some wait for
        others long."""
        sizes = [os.path.getsize(path) if os.path.isfile(path) else 0 for path in self.args.files]
        with Pool(self.args) as pool, Progress(self.command, self.args.quiet) as progress:
            if not is_balanced(sizes, pool.n):
                return False
            tasks = [(self.command, for_worker(self.args, path), self._how, make, add) for path in self.args.files]
            try:
                for of_one, said, lines in pool.run(analysed, tasks):
                    for line in lines:
                        messages.say(line)
                    found.join(of_one)
                    self._add(said)
                    progress(sum(sizes[: len(self._said)]), sum(sizes))
            except WorkerKilled as error:
                path = self.args.files[len(self._said)]
                raise SteveError(f"{path}, or one of the files after it: {error}") from None
        return True

    def blocks(self, number: int) -> Blocks:
        """The chosen blocks of one of the files, from its beginning."""
        return Blocks(self.command, of_one(self.args, self.args.files[number]), **self._how)

    def _add(self, said: Said) -> None:
        if self._said and said.sample != self.sample:
            raise SteveError(f"{said.name}: is sampled otherwise than the files before it; analyse such files apart")
        self._said.append(said)

    @property
    def sample(self) -> Sample:
        """How the blocks of the files were sampled, which is the same of all that were read."""
        return self._said[0].sample

    @property
    def unit(self) -> str:
        """The unit of their times."""
        units = {said.unit for said in self._said}
        return units.pop() if len(units) == 1 else "time"

    def _without_accesses(self) -> list[str]:
        """The names of the files without loads and stores."""
        return [said.name for said in self._said if not said.has_accesses]

    def have_accesses(self) -> bool:
        """Were loads and stores recorded of some of the files?"""
        return any(said.has_accesses for said in self._said)

    def title(
        self, what: str, peaks: bool = True, inherited: bool = True, name: str = "", sample: Sample | None = None
    ) -> str:
        """A heading, as Blocks.title() has it for one file. peaks: are numbers shown of what is live at the peak? inherited: do
        blocks count that a child inherited? name: of the files; "": their number. sample: as of Blocks.title()."""
        if len(self) == 1:
            return self.chosen.title(what, sample)
        of_remarks: dict[str, list[str]] = {}
        for of_file in self._said:
            for remark in of_file.remarks:
                of_remarks.setdefault(remark, []).append(of_file.name)
        said = (self.sample if sample is None else sample).remark
        said += "".join(self._of(remark, names) for remark, names in of_remarks.items())
        lacking = self._without_accesses()
        if lacking and (getattr(self.args, "counts_accesses", False) or len(lacking) < len(self)):
            said += self._of(" (loads and stores were not recorded)", lacking)
        notes = [PEAKS] if peaks else []
        if inherited and any(of.is_fork for of in self._said) and "inherited" not in fields_of(self.args.where or ""):
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
        if self._without_accesses():
            columns = listing.unknown(columns, of_accesses)
        return listing.in_unit(columns, self.unit)

    def check_unit(self) -> None:
        """SteveError if times of the files are not of one unit, so that they cannot be added up."""
        units = sorted({said.unit for said in self._said})
        if len(units) > 1:
            raise SteveError(f"the files have times in {' and in '.join(units)}, which are no sum")

    def verdict(self, counts_accesses: bool = True) -> int:
        """Report what was wrong with the traces, if that was not done; return the exit status."""
        if len(self) == 1:
            return self.chosen.verdict(counts_accesses)
        return max(said.status for said in self._said)


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
        self._add(Sums(numbers, sums.rows))
        return numbers

    def join(self, other: Joined) -> None:
        """Add the rows of other files."""
        import numpy as np

        nodes = other.sums.numbers & np.uint64((1 << FILE) - 1)
        files = other.sums.numbers - nodes + np.uint64(len(self._processes) << FILE)
        if self.by != PROCESS:
            nodes = self._names.add_joined(other._names, nodes.astype("u4")).astype("u8")
        self._processes += other._processes
        self._add(Sums(nodes | files if self.by == PROCESS or self._is_apart else nodes, other.sums.rows))

    def _add(self, sums: Sums) -> None:
        """Add sums of rows with the numbers that are of all files."""
        self.sums = _merged(_concatenated(self.sums, sums) if hasattr(self, "sums") else sums)

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
        self._add(process_text(trace), found)

    def join(self, other: Tables) -> None:
        """Add the results of other files."""
        for name, found in other._found:
            self._add(name, found)

    def _add(self, name: str, found: Any) -> None:
        if self._is_apart or not self._found:
            self._found.append((name, found))
        else:
            self._found = [(first, self._join(known, found)) for first, known in self._found]

    def all(self) -> list[Any]:
        """The results."""
        return [found for _, found in self._found]

    def rows(self, make: Callable[[Any], list[dict]]) -> list[dict]:
        """The rows of all results. make: makes those of one."""
        return [{PROCESS: name, **row} if self._is_apart else row for name, found in self._found for row in make(found)]


class Added:
    """The rows of several files that are dictionaries: numbers of rows with the same `keys` are added up, or, with
    --by=process, not those of different files. means: the columns that are means, each with the column of the numbers
    that they are of.
    """

    def __init__(self, args: argparse.Namespace, keys: Sequence[str], means: Mapping[str, str] | None = None) -> None:
        self._is_apart, self._keys, self._means = bool(args.apart), tuple(keys), dict(means or {})
        self._rows: dict[tuple, dict] = {}

    def add(self, rows: Iterable[dict], trace: Trace) -> None:
        """Add the rows of the next file."""
        self._add({PROCESS: process_text(trace), **row} if self._is_apart else row for row in rows)

    def join(self, other: Added) -> None:
        """Add the rows of other files."""
        self._add(other.rows())

    def _add(self, rows: Iterable[dict]) -> None:
        for row in rows:
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
