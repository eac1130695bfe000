"""steve import: make a memtrace of another program's recording.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
import re
from types import ModuleType
from typing import TYPE_CHECKING

from steve.system.errors import SteveError, UsageError
from steve.system.messages import complain, note
from steve.system.output import Output, wrote
from steve.terminal import arguments
from steve.terminal.progress import Progress
from steve.system.tempfiles import scratch_folder
from steve.trace.symbol_files import find_file

if TYPE_CHECKING:
    from steve.importers._writer import TraceWriter
    from steve.importers.text import Lines

NAME = "import"
HELP = "make a memtrace of a recording of heaptrack, mtrace or valgrind --trace-malloc"
FORMATS = ("heaptrack", "heaptrack-raw", "mtrace", "valgrind", "text")
EXAMPLES = """\
formats, which are recognized by their beginning; each may be compressed with gzip or zstd:
  heaptrack   heaptrack.PROGRAM.PID.zst or .gz, with its stacks and times. Which of several blocks of one size and stack
              is freed is not in it; it is taken to be the youngest. Blocks get addresses that do not overlap.
  heaptrack-raw
              what heaptrack --raw writes: with addresses of blocks, so that it is known which one is freed. Functions
              and lines are looked up in the object files, if these are still the same.
  mtrace      what glibc's mtrace() writes to the file that MALLOC_TRACE names
  valgrind    the output of valgrind --trace-malloc=yes, of memcheck for example
  text        classic text, >>> OP ADDRESS SIZE (which steve also reads without import)

The memtrace says what the recording lacks (facts imported_from and lacks), and so do the titles of tables. Without
times, the time of an event is its number (time_unit: events).

examples:
  steve import heaptrack.app.4711.zst -o app.ljt
  valgrind --trace-malloc=yes ./app 2>app.log; steve import app.log && steve ops app.log.ljt
"""
CLASSIC = re.compile(rb">>> [NFLSM] \d+ \d+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.reads(
        parser.add_argument("file", metavar="FILE", help="the recording; - is standard input"), arguments.RECORDING
    )
    arguments.add_output(parser, "default: FILE.ljt")
    parser.add_argument("--from-format", choices=FORMATS, help="the format, if it is not recognized")
    arguments.add_quiet(parser)


def modules() -> dict[str, ModuleType]:
    """The module of each format but text, in the order in which they are tried."""
    from steve.importers import heaptrack, heaptrack_raw, mtrace, valgrind

    return {"heaptrack-raw": heaptrack_raw, "heaptrack": heaptrack, "mtrace": mtrace, "valgrind": valgrind}


def recognized(lines: Lines) -> str:
    """The format of a file."""
    first = lines.peek()
    for name, module in modules().items():
        if module.is_one(first):
            return name
    if any(CLASSIC.match(line) for line in first):
        return "text"
    raise SteveError(
        f"{lines.name}: is none of the formats that can be imported: {', '.join(FORMATS)}; name one with --from-format"
    )


def read_heaptrack(lines: Lines, writer: TraceWriter, progress: Progress) -> bool:
    from steve.importers import heaptrack

    return without_unknown(lines, heaptrack.read(lines, writer, progress))


def read_heaptrack_raw(lines: Lines, writer: TraceWriter, progress: Progress) -> bool:
    from steve.importers import heaptrack_raw

    return without_unknown(lines, heaptrack_raw.read(lines, writer, progress))


def without_unknown(lines: Lines, frees: int) -> bool:
    """Complain about frees of blocks that are not known. Returns whether the recording has an end."""
    if frees:
        complain(NAME, f"{lines.name}: left out {frees:,} frees of blocks from before the recording")
    return not lines.truncated


def read_mtrace(lines: Lines, writer: TraceWriter, progress: Progress) -> bool:
    from steve.importers import mtrace

    return mtrace.read(lines, writer, progress)


def read_valgrind(lines: Lines, writer: TraceWriter, progress: Progress) -> bool:
    from steve.importers import valgrind

    others = valgrind.read(lines, writer, progress)
    if others:
        complain(NAME, f"{lines.name}: left out {others:,} lines of other processes than the first")
    return not lines.truncated


def read_text(lines: Lines, writer: TraceWriter, progress: Progress) -> bool:
    from steve.trace._memtrace import Trace

    if lines.path == "-":
        raise UsageError("classic text is imported from a file, not from standard input")
    writer.fact("imported_from", "classic text")
    writer.copy(Trace(lines.path, text=True), progress)
    return True


def lacks(form: str) -> tuple[str, str]:
    """What a format lacks, and its unit of time."""
    if form == "text":
        return "threads, times, stacks", "events"
    module = modules()[form]
    return module.LACKS, module.UNIT


def name_code(path: str, fd: int) -> None:
    """Copy a trace with the names of the addresses of its code."""
    from steve.trace._memtrace import Trace
    from steve.trace._symbols import Symbols

    trace = Trace(path)
    trace.skim(None)
    Symbols([find_file(module, []) for module in trace.modules()]).rewrite(Trace(path), fd)


READ = {
    "heaptrack": read_heaptrack,
    "heaptrack-raw": read_heaptrack_raw,
    "mtrace": read_mtrace,
    "valgrind": read_valgrind,
    "text": read_text,
}


def written(lines: Lines, form: str, fd: int, progress: Progress) -> bool:
    """Write the trace of a recording. Returns whether the recording has an end."""
    from steve.importers._writer import TraceWriter

    writer = TraceWriter(fd, form == "mtrace")
    missing, unit = lacks(form)
    writer.fact("time_unit", unit)
    writer.fact("lacks", missing)
    try:
        complete = READ[form](lines, writer, progress)
    except OverflowError:
        raise lines.wrong("a number is out of range") from None
    writer.finish(complete)
    return complete


def run(args: argparse.Namespace) -> int:
    from steve.importers.text import Lines

    lines = Lines(args.file)
    form = args.from_format or recognized(lines)
    target = args.output or ("-" if args.file == "-" else args.file + ".ljt")
    with Output(target, binary=True) as out, Progress(NAME, args.quiet) as progress:
        if form == "heaptrack-raw":
            with scratch_folder("steve-import") as folder:
                unnamed = os.path.join(folder, "unnamed.ljt")
                with open(unnamed, "wb") as file:
                    complete = written(lines, form, file.fileno(), progress)
                name_code(unnamed, out.fd)
        else:
            complete = written(lines, form, out.fd, progress)
    if not complete:
        complain(NAME, f"{lines.name}: has no end; the trace covers what it has")
    note(NAME, f"{form} does not record: {lacks(form)[0]}", args.quiet)
    wrote(NAME, target, args.output, "", args.quiet)
    return 0 if complete else 1
