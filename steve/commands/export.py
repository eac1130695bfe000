"""steve export: write a trace in the formats of other viewers.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import gzip
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from steve.analysis import blocks, several
from steve.terminal import arguments
from steve.trace import policy, source
from steve.system.errors import UsageError, meant
from steve.system.messages import note
from steve.system.output import Output, wrote
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.system.samples import Sample
    from steve.trace._memtrace import Trace
    from steve.trace.policy import ShownStacks

NAME = "export"
HELP = "write a trace in the format of another viewer"
READS_SAMPLES = True
GZIP = 4  # level for heaptrack: 6 takes several times as long, for 2 to 10% fewer bytes of large files


class Outcome(NamedTuple):
    """What is known when a format was written: the exit status, and how the blocks of the trace were sampled."""

    status: int
    sample: Sample


class Format(NamedTuple):
    """One output format."""

    ending: str
    """Appended to the input's name if there is no -o."""
    meaning: str
    """Text for --help."""
    run: Callable[[argparse.Namespace, Any], Outcome]
    """Writes the file, an Output, or the folder, given by its path."""
    chooses: bool = False
    """Do --where, --from and --to apply?"""
    is_folder: bool = False
    """Is the result a folder of files?"""
    is_profile: bool = False
    """Is it made of sums by stack, which may be those of several files?"""


def write_all(out: Output, texts: Iterable[str]) -> None:
    """Write pieces of text, joined to pieces of at least 1 MiB."""
    gathered, size = [], 0
    for text in texts:
        gathered.append(text)
        size += len(text)
        if size > 1 << 20:
            out.write("".join(gathered))
            gathered, size = [], 0
    out.write("".join(gathered))


def with_profile(write: Callable) -> Callable[[argparse.Namespace, Output], Outcome]:
    """Turn a function write(profile, args, out), which writes sums by stack, into a run function of a Format."""

    def run(args: argparse.Namespace, out: Output) -> Outcome:
        from steve.export.joined import profile_of

        files = several.Files(NAME, args)
        write(profile_of(files), args, out)
        return Outcome(files.verdict(), files.sample)

    return run


def write_pprof(profile: object, args: argparse.Namespace, out: Output) -> None:
    from steve.export.pprof import pprof

    for piece in pprof(profile):
        out.write_bytes(piece)


def write_folded(profile: object, args: argparse.Namespace, out: Output) -> None:
    from steve.export.folded import Folds, lines
    from steve.export.profile import BY_NAME

    write_all(out, lines(Folds(profile, BY_NAME[args.metric])))


def write_speedscope(profile: object, args: argparse.Namespace, out: Output) -> None:
    from steve.trace._memtrace import VERSION
    from steve.export.speedscope import speedscope

    write_all(out, speedscope(profile, VERSION))


def write_callgrind(profile: object, args: argparse.Namespace, out: Output) -> None:
    from steve.trace._memtrace import VERSION
    from steve.export.callgrind import callgrind

    write_all(out, callgrind(profile, VERSION))


def write_csv(profile: object, args: argparse.Namespace, out: Output) -> None:
    from steve.export.csv import table

    write_all(out, table(profile))


def without_accesses(chosen: blocks.Blocks) -> Trace:
    """Open the trace of the selected blocks without its accesses."""
    trace = chosen.open_chosen()
    if not chosen.args.salvage:  # with --salvage accesses are read as well, to find damaged chunks
        trace.pass_accesses()
    return trace


def shown_stacks(trace: Trace, args: argparse.Namespace) -> ShownStacks:
    """The stacks of the trace as the arguments let them be shown."""
    return policy.ShownStacks(trace, policy.of_arguments(args))


def outcome(trace: Trace) -> Outcome:
    """That of a format which was made of this trace."""
    return Outcome(source.verdict(NAME, trace), trace.sample)


def run_massif(args: argparse.Namespace, out: Output) -> Outcome:
    """Write massif's format, which needs two walks: the second finds the trees of the snapshots."""
    from steve.kernels._holdings import Holdings
    from steve.export.massif import Sampler, held, massif

    chosen = blocks.Blocks(NAME, args, again=True)
    trace = without_accesses(chosen)
    with Progress(NAME, args.quiet) as progress:
        history = Holdings(trace, progress)
        snapshots, peak = Sampler().run(history), held(history, "peak")
    del history
    with Progress(f"{NAME}: trees", args.quiet) as progress:
        write_all(out, massif(shown_stacks(trace, args), snapshots, peak, Holdings(without_accesses(chosen), progress)))
    return outcome(trace)


def run_dhat(args: argparse.Namespace, out: Output) -> Outcome:
    from steve.kernels._holdings import Holdings
    from steve.export.dhat import dhat

    trace = blocks.Blocks(NAME, args).open_chosen()
    with Progress(NAME, args.quiet) as progress:
        history = Holdings(trace, progress)
        history.walk_all()
    history.finish()
    write_all(out, dhat(history, shown_stacks(trace, args)))
    return outcome(trace)


def run_heaptrack(args: argparse.Namespace, out: Output) -> Outcome:
    from steve.export.heaptrack import HeaptrackWriter

    trace = without_accesses(blocks.Blocks(NAME, args, every_block="a heaptrack file"))
    with Progress(NAME, args.quiet) as progress, os.fdopen(os.dup(out.fd), "wb") as file, gzip.GzipFile(
        "", "wb", GZIP, file, mtime=0
    ) as packed:
        HeaptrackWriter(shown_stacks(trace, args), packed.write).run(progress)
    return outcome(trace)


def run_perfetto(args: argparse.Namespace, out: Output) -> Outcome:
    from steve.export.perfetto import TraceEvents, perfetto

    trace = without_accesses(blocks.Blocks(NAME, args, every_block="a file for Perfetto"))
    with Progress(NAME, args.quiet) as progress:
        found = TraceEvents(trace, progress)
    write_all(out, perfetto(found))
    return outcome(trace)


def run_memprof(args: argparse.Namespace, out: Output) -> Outcome:
    from steve.profilers.memprof.traced import Traced
    from steve.profilers.memprof.writer import MemprofWriter

    trace = blocks.Blocks(NAME, args, every_block="a file of memprof").open_chosen()
    writer = MemprofWriter(out.fd)
    with Progress(NAME, args.quiet) as progress:
        Traced(trace, args.heap, progress).feed(writer)
    writer.finish()
    return outcome(trace)


def run_sysprof(args: argparse.Namespace, out: Output) -> Outcome:
    from steve.profilers.sysprof import traced
    from steve.profilers.sysprof.writer import SysprofWriter

    trace, writer = source.open_trace(args), SysprofWriter(out.fd)
    with Progress(NAME, args.quiet) as progress:
        found = traced.collect(trace, progress)
    traced.write(trace, found, writer)
    writer.finish()
    return outcome(trace)


def write_tables(args: argparse.Namespace, writer: Any, what: str) -> Outcome:
    """Write the tables of the trace with a writer of steve.export.tables. what: they are, for messages."""
    from steve.commands import lines
    from steve.export.tables import write_tables as write_all_tables

    chosen = blocks.Blocks(NAME, args, again=True, by_line=True, every_block=what)
    columns = [c.key for c in lines.COLUMNS if not (c.is_text or c.is_group or c.key == "line")]
    with writer:
        trace = write_all_tables(
            without_accesses(chosen),
            chosen.open_chosen,
            policy.of_arguments(args),
            writer,
            (columns, lambda: lines.recorded_rows(chosen)),
            lambda what: Progress(f"{NAME}: {what}", args.quiet),
        )
        writer.finish()
    return outcome(trace)


def run_sqlite(args: argparse.Namespace, out: Output) -> Outcome:
    from steve.export.sqlite import Database

    return write_tables(args, Database(out.working_path), "a database")


def run_tables(args: argparse.Namespace, folder: str) -> Outcome:
    from steve.export.csv_tables import Folder

    return write_tables(args, Folder(folder), "tables of blocks")


FORMATS: dict[str, Format] = {
    "pprof": Format(
        ".pb.gz",
        "`go tool pprof`: memory allocated, in use and accessed, by stack",
        with_profile(write_pprof),
        True,
        is_profile=True,
    ),
    "folded": Format(
        ".folded",
        "folded stacks of one --metric, for flamegraph.pl and speedscope",
        with_profile(write_folded),
        True,
        is_profile=True,
    ),
    "speedscope": Format(
        ".speedscope.json", "https://www.speedscope.app", with_profile(write_speedscope), True, is_profile=True
    ),
    "callgrind": Format(
        ".callgrind", "callgrind_annotate, kcachegrind", with_profile(write_callgrind), True, is_profile=True
    ),
    "csv": Format(".csv", "a table with a row for each stack", with_profile(write_csv), True, is_profile=True),
    "sqlite": Format(".sqlite", "sqlite3: every block, in tables with views", run_sqlite, True),
    "tables": Format("-tables", "pandas, DuckDB: the same tables as CSV files in a folder", run_tables, True, True),
    "dhat": Format(".dhat.json", "Valgrind's dh_view.html", run_dhat, True),
    "massif": Format(".massif", "ms_print, massif-visualizer: the heap over time", run_massif, True),
    "heaptrack": Format(".heaptrack.gz", "heaptrack_print, heaptrack_gui: every allocation", run_heaptrack, True),
    "perfetto": Format(
        ".trace.json", "https://ui.perfetto.dev: the heap, rates, states and marks over time", run_perfetto, True
    ),
    "memprof": Format(".memprof", "luajit-parse-memprof: the events of LuaJIT's heaps", run_memprof, True),
    "sysprof": Format(".sysprof", "luajit-parse-sysprof: the samples of a trace recorded with them", run_sysprof),
}
BINARY = (".gz", ".memprof", ".sysprof", ".sqlite")  # file name endings of binary formats
EXAMPLES = (
    """\
formats (in brackets the ending that is added to the name of FILE by default):
"""
    + "".join(f"  {name:<12}{known.meaning} ({known.ending})\n" for name, known in FORMATS.items())
    + f"""
{blocks.WHERE_HELP}
pprof, folded, speedscope, callgrind and csv add up several FILEs, or those of a folder; then -o names the result.
--where, --from and --to work with all formats but {', '.join(n for n, known in FORMATS.items() if not known.chooses)}.

examples:
  steve export --format pprof app.ljt && go tool pprof -top app.ljt.pb.gz
  steve export --format speedscope,sqlite app.ljt
  steve export --format folded --metric peak_space app.ljt -o - | flamegraph.pl >app.svg
"""
)


def formats(text: str) -> list[str]:
    """argparse type: names of FORMATS with commas between."""
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in FORMATS:
            known = meant(name, FORMATS) or f" (choose from {', '.join(FORMATS)})"
            raise argparse.ArgumentTypeError(f"invalid choice: '{name}'{known}")
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from steve.export.profile import BY_NAME

    source.add_traces(parser)
    arguments.add_output(parser, "default: FILE with another ending")
    format_option = parser.add_argument(
        "--format",
        metavar="FORMAT",
        dest="formats",
        required=True,
        type=formats,
        help="see below; several with commas between",
    )
    arguments.suggest(format_option, FORMATS, are_list=True)
    blocks.add_choice(parser)
    policy.add_arguments(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        choices=list(BY_NAME),
        help="for folded: " + ", ".join(BY_NAME) + " (default: alloc_space)",
    )
    parser.add_argument("--heap", choices=("lua", "all"), help="for memprof: LuaJIT's heaps only (the default), or all")


def check(args: argparse.Namespace) -> None:
    """UsageError for options that would have no effect, and for one output of several formats."""
    for name in args.formats:
        if not FORMATS[name].chooses and (args.where, args.begin, args.end) != (None, None, None):
            raise UsageError(
                f"--format {name} writes samples, which belong to no block; --where, --from and --to "
                "work with other formats"
            )
    for option, value, name in (("--metric", args.metric, "folded"), ("--heap", args.heap, "memprof")):
        if value is not None and name not in args.formats:
            given = ",".join(args.formats)
            raise UsageError(f"{option} is for --format {name}; with --format {given} it has no effect")
    if len(args.files) > 1:
        check_several(args)
    if len(args.formats) > 1 and (args.output is not None or args.file == "-"):
        raise UsageError("several formats go to files beside FILE, which has to be a file, without -o")


def check_several(args: argparse.Namespace) -> None:
    """UsageError if what is wanted is not of several files."""
    sums = [name for name, known in FORMATS.items() if known.is_profile]
    for name in args.formats:
        if name not in sums:
            raise UsageError(
                f"--format {name} writes the history of one process, so it takes one FILE; {', '.join(sums)} add up several"
            )
    if args.output is None:
        raise UsageError("several files make one result; name it with -o")


def write(args: argparse.Namespace, name: str) -> int:
    """Write one format; return the exit status."""
    known = FORMATS[name]
    target = args.output or ("-" if args.file == "-" else args.file + known.ending)
    if known.is_folder:
        if target == "-":
            raise UsageError(f"--format {name} makes a folder; name one with -o")
        status, sample = known.run(args, target)
    else:
        with Output(target, binary=known.ending.endswith(BINARY)) as out:
            status, sample = known.run(args, out)
    if sample:
        note(NAME, f"the numbers are {sample.how}", args.quiet)
    if known.is_folder and args.output is None:
        note(NAME, f"wrote the folder {target}, for {known.meaning.split(': ')[0]}", args.quiet)
    wrote(NAME, target, args.output, f"for {known.meaning.split(': ')[0]}", args.quiet)
    return status


def run(args: argparse.Namespace) -> int:
    args.file, args.apart = args.files[0], False
    check(args)
    args.metric, args.heap = args.metric or "alloc_space", args.heap or "lua"
    return max(write(args, name) for name in args.formats)
