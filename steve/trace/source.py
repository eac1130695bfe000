"""Input of the subcommands: memtraces and ops files.

This module adds the arguments that all readers share, opens the files, and reports at the end what was wrong
with them. The results from a truncated file are kept, but the exit status shows the problem. The trace library
does the parsing.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
import re
import shutil
import stat
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

from steve.trace import missing
from steve.trace.reading import Reading, reading_of
from steve.system.messages import complain
from steve.system.errors import SteveError, TraceError, UsageError
from steve.system.output import is_special
from steve.terminal import arguments
from steve.terminal.units import counted

if TYPE_CHECKING:
    from steve.trace._memtrace import OpsFile, Trace

TRACE_HELP = "memtrace: .ljt or classic text; - is standard input"
ENDING = ".ljt"  # of memtraces
OPS_ENDINGS = ("-ops", "-lockops", "-lockopsfull")


def add_trace(parser: argparse.ArgumentParser, what: str = TRACE_HELP, also: tuple[str, ...] = ()) -> None:
    """Add FILE, --salvage and -q. what: the help text of FILE. also: other kinds of files that it may be."""
    arguments.reads(parser.add_argument("file", metavar="FILE", help=what), arguments.TRACE, *also)
    parser.add_argument("--salvage", action="store_true", help="skip damaged chunks and continue after them")
    arguments.add_quiet(parser)


def add_traces(parser: argparse.ArgumentParser, also: tuple[str, ...] = ()) -> None:
    """The same for a command that reads several memtraces: args.files has their names."""
    action = parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        action=Files,
        help=f"{TRACE_HELP}; several, or a folder of .ljt files, count as one",
    )
    arguments.reads(action, arguments.TRACE, *also)
    parser.add_argument("--salvage", action="store_true", help="skip damaged chunks and continue after them")
    arguments.add_quiet(parser)


class Files(argparse.Action):
    """Sets `files`: the files that are named, and those of the folders that are."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        found = [file for path in values for file in (files_of(path) if os.path.isdir(path) else [path])]
        given = {os.path.realpath(file) if file != "-" else file for file in found}
        if len(given) < len(found):
            raise argparse.ArgumentError(self, "a file is given twice; it would count twice")
        setattr(namespace, self.dest, found)


def files_of(folder: str) -> list[str]:
    """The memtraces in a folder, in the order of the numbers in their names. SteveError if there are none."""
    found = os.listdir(folder)
    names = [name for name in found if name.endswith(ENDING)]
    if drafts := sum(name.endswith(f"{ENDING}.part") for name in found):
        complain(
            "",
            f"{folder}: left out: {counted(drafts, 'recording')} that {'is' if drafts == 1 else 'are'} not complete yet",
        )
    if not names:
        raise SteveError(f"{folder}: is a folder without files that end in {ENDING}")
    return [os.path.join(folder, name) for name in sorted(names, key=natural)]


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key of names: numbers in them by their values."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def open_trace(args: argparse.Namespace, kind: type[Trace] | None = None) -> Trace:
    """Open the memtrace that the arguments of add_trace() name. kind: Trace or a subclass."""
    return reading_of(args).open(kind)


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add --binary and --text: the form of an ops file that the command writes."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--text",
        dest="form",
        action="store_const",
        const="text",
        help="write text (the default on standard output, pipes and devices), compressed if -o names "
        "a file that ends in .zst",
    )
    form.add_argument(
        "--binary",
        dest="form",
        action="store_const",
        const="binary",
        help="write the compact binary form (the default of files); all of steve and steve-replay " "read both",
    )


def form_of(args: argparse.Namespace, output: str) -> str:
    """The form of an ops file to write: "text", "zstd" (compressed text) or "binary".

    args: those of add_form(); output: where the result goes. By default streams get text, for people and other
    programs, and files the binary form, as mostly steve reads them."""
    if output.endswith(".zst"):
        if args.form == "binary":
            raise UsageError("--binary is compressed already; give -o a name that does not end in .zst")
        return "zstd"
    return args.form or ("text" if output == "-" or is_special(output) else "binary")


def result_name(path: str, ending: str) -> str:
    """The default name of a result: FILE + ending for an input FILE or FILE-ops; standard output for standard
    input."""
    if path == "-":
        return "-"
    return path.removesuffix("-ops") + ending


def verdict(command: str, source: Trace | OpsFile) -> int:
    """Report on stderr what was wrong with a source that was read to its end; return the exit status."""
    problem = source.problem
    lacking = missing.text(source) if hasattr(source, "info") else ""
    if lacking:
        complain(command, f"{source.name}: {lacking}")
    shared = getattr(source, "shared_addresses", 0)
    if shared:
        complain(
            command,
            f"{source.name}: {shared} N or R make a block at the address of a live one, as in files of "
            "`steve ops --compat`; each is a block of its own here",
        )
    if problem is not None and problem.code == "growing":
        complain(command, f"{problem}; the result covers that")
        return 0
    if problem is not None:
        complain(command, f"{problem}; the result covers what comes before it")
        return 1
    damaged = source.stats()["damaged_chunks"] if hasattr(source, "stats") else 0
    if not damaged:
        return 0
    for text in source.damages():
        complain(command, f"{source.name}: left out: {text}")
    complain(command, f"{source.name}: {damaged} damaged chunks were left out")
    return 1


def unmatched_note(source: Trace | OpsFile, counts: dict | None = None) -> str:
    """A remark on events that match no live block, and on frees that were inserted because a New overlapped a live
    block; "" if there are none of either. counts: the numbers of further unmatched accesses that a kernel found."""
    accesses = (counts or {}).get("unmatched", 0)
    frees = implied = 0
    if hasattr(source, "stats"):
        stats = source.stats()
        accesses += stats["unmatched_access"]
        frees, implied = stats["unmatched_free"], stats["implied_free"]
    remarks = []
    if accesses or frees:
        remarks.append(f"left out what matched no live block: accesses {accesses}, frees {frees}")
    if implied:
        remarks.append(
            f"inserted a free of each live block that a new one overlaps: {implied} "
            "(--compat keeps both, as the first Steve did)"
        )
    return f"{source.name}: {'; '.join(remarks)}" if remarks else ""


def holds_operations(path: str) -> bool:
    """Is it a regular file that begins like an ops or lockops file? Pipes are not read."""
    from steve.trace._memtrace import OpsFile

    if path == "-" or not os.path.isfile(path) or os.path.getsize(path) == 0:
        return False
    file = OpsFile(path)
    try:
        file.probe()
    except TraceError:
        return file.binary
    return True


class Operations:
    """Operations that can be read more than once.

    reading: of an ops file or a memtrace. Standard input and pipes are first copied to a temporary file without a name,
    which disappears with the process; `reading` is then of that file."""

    def __init__(self, reading: Reading) -> None:
        path = reading.path
        self.name = "standard input" if path == "-" else reading.name or path
        self.reading = reading._replace(name=self.name)
        self._spool: IO[bytes] | None = None
        self._is_ops: bool | None = path.endswith(OPS_ENDINGS) or None
        if path == "-" or is_pipe(path):
            self._copy()

    def _copy(self) -> None:
        self._spool = tempfile.TemporaryFile()
        if self.reading.path == "-":
            shutil.copyfileobj(sys.stdin.buffer, self._spool, 1 << 20)
        else:
            with open(self.reading.path, "rb") as pipe:
                shutil.copyfileobj(pipe, self._spool, 1 << 20)
        self._spool.flush()
        self.reading = self.reading._replace(path=f"/proc/self/fd/{self._spool.fileno()}")

    def is_ops(self) -> bool:
        """Is it an ops file, not a memtrace? SteveError if it is neither."""
        if self._is_ops is None:
            self._is_ops = self._looks_like_ops()
            if not self._is_ops:
                self._expect_memtrace()
        return self._is_ops

    def open(self) -> Trace | OpsFile:
        """Open the file anew, at its first operation."""
        from steve.trace._memtrace import OpsFile

        return OpsFile(self.reading.path, self.name) if self.is_ops() else self.open_trace()

    def open_trace(self, freed: bool = False, snapshots: bool = False, kind: type[Trace] | None = None) -> Trace:
        """Open the file anew as a memtrace. freed, snapshots: see Trace; kind: Trace or a subclass."""
        return self.reading.open(kind, freed, snapshots)

    def _expect_memtrace(self) -> None:
        """SteveError if the file is not a memtrace."""
        try:
            self.reading._replace(every_block="").open().probe()
        except TraceError as error:
            if error.code != "format":
                raise
            raise SteveError(f"{self.name}: is neither a memtrace nor an ops file") from None

    def _looks_like_ops(self) -> bool:
        """Is the first line an operation? An empty file raises SteveError, because only an ending of OPS_ENDINGS can
        make it an ops file."""
        from steve.trace._memtrace import OpsFile

        if os.path.exists(self.reading.path) and os.path.getsize(self.reading.path) == 0:
            raise SteveError(f"{self.name}: is empty; an empty ops file has a name that ends with -ops")
        file = OpsFile(self.reading.path, self.name)
        try:
            file.probe()
        except TraceError as error:
            if file.binary or error.code not in ("format", "corrupt"):
                raise
            return False
        return True


def is_pipe(path: str) -> bool:
    """Can the file be read only once: is it a pipe, socket or character device?"""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
