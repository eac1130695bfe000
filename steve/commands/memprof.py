"""steve memprof: the report of LuaJIT's memory profiler, from its own files or from a memtrace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
from collections.abc import Iterable

from steve.profilers import files
from steve.terminal import arguments
from steve.terminal import listing
from steve.trace import source
from steve.system.messages import complain
from steve.system.errors import SteveError, UsageError
from steve.profilers.memprof.report import Report
from steve.system.output import Output
from steve.terminal.progress import Progress

NAME = "memprof"
HELP = "report allocations by Lua line, as luajit-parse-memprof does"
EXAMPLES = """\
FILE is a file of memprof (symbols and events of version 3, or of the first RFC's version 1) or a memtrace.
The report has sections for allocations, resizes and frees, which list places, the most frequent first. Under a place,
"Overrides" names the places whose blocks it resized or freed. The last section shows what each place holds at the
end.

examples:
  steve memprof memprof.bin --leak-only --human-readable
  steve memprof app.ljt --heap-snap-interval 10
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "file of memprof, or memtrace; - is standard input", (arguments.MEMPROF,))
    arguments.add_output(parser, "the default")
    arguments.add_json(parser)
    parser.add_argument("--leak-only", action="store_true", help="report only what is held at the end")
    parser.add_argument("--human-readable", action="store_true", help="print sizes in KiB, MiB...")
    parser.add_argument(
        "--heap-snap-interval",
        metavar="SEC",
        type=listing.count,
        default=0,
        help="also report every SEC seconds what is held then",
    )
    parser.add_argument(
        "--dump", action="store_true", help="show the objects of the trace's last snapshot instead of allocations"
    )
    parser.add_argument(
        "--today", action="store_true", help="write lines as Tarantool's current parser does, not as in the first RFC"
    )
    parser.add_argument(
        "--heap",
        choices=("lua", "all"),
        default="lua",
        help="for a memtrace: LuaJIT's heaps only (the default), or all heaps",
    )


class Run:
    """The state of one run of the command: the heap being rebuilt, and the report written from it."""

    def __init__(self, args: argparse.Namespace, out: Output) -> None:
        from steve.profilers._ljstream import Heap

        self.args, self.out = args, out
        self.report, self.heap = Report(args.today, args.human_readable), Heap()

    def _write(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.out.write(line + "\n")

    def snapshot(self, seconds: int) -> None:
        """Report what is held now, if --heap-snap-interval requests it for this second."""
        if self.args.heap_snap_interval and seconds % self.args.heap_snap_interval == 0:
            self._write(self.report.snapshot(self.heap, seconds))

    def finish(self) -> None:
        """Write the report."""
        if self.args.json:
            self.out.write(json.dumps(self.report.as_json(self.heap), indent=1) + "\n")
        else:
            self._write(self.report.whole(self.heap, self.args.leak_only))


def read_profile(run: Run) -> int:
    """Report on a file of memprof; return the exit status."""
    from steve.profilers.memprof.reader import MemprofFile

    path = run.args.file
    file = MemprofFile(files.contents(path), files.name_of(path))
    if run.args.heap_snap_interval and file.version != 1:
        raise SteveError(
            f"{file.name}: version {file.version} has no time marks, which --heap-snap-interval "
            "needs; version 1 and memtraces have them"
        )
    seconds = 0

    def second() -> None:
        nonlocal seconds
        seconds += 1
        run.snapshot(seconds)

    file.read(run.heap, second)
    run.finish()
    if file.problem is not None:
        complain(NAME, f"{file.problem}; the result covers what comes before it")
    return 1 if file.problem is not None else 0


def read_trace(run: Run) -> int:
    """Report on a memtrace; return the exit status."""
    from steve.profilers.memprof.traced import Traced

    trace = source.open_trace(run.args)
    with Progress(NAME, run.args.quiet) as progress:
        Traced(trace, run.args.heap, progress).feed(run.heap, run.snapshot)
    run.finish()
    return source.verdict(NAME, trace)


def dump(args: argparse.Namespace) -> int:
    """Write the last snapshot of a memtrace (--dump); return the exit status."""
    from steve.snapshots.show import memprof_dump

    if files.is_profile(args.file):
        raise SteveError(f"{args.file}: a file of memprof has no snapshots; record a memtrace with one")
    return memprof_dump(NAME, args)


def run(args: argparse.Namespace) -> int:
    if args.json and args.heap_snap_interval:
        raise UsageError("--json writes one object, --heap-snap-interval several; give only one of them")
    if args.dump:
        return dump(args)
    with Output(args.output or "-") as out:
        state = Run(args, out)
        return read_profile(state) if files.is_profile(args.file) else read_trace(state)
