"""steve ops: translate a memtrace to an ops file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.parallel import processes, rounds
from steve.terminal import arguments
from steve.trace import source
from steve.system.errors import UsageError
from steve.system.output import Output, wrote
from steve.system.messages import note
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.trace._memtrace import OpsFile, Trace

NAME = "ops"
HELP = "translate a memtrace to operations on numbered blocks"
EXAMPLES = f"""\
A file is written in the compact binary form, which all of steve and steve-replay read; what goes to standard
output, a pipe or a device, or is asked for by --text, is text. FILE may also be an ops or lockops file (no pipe),
whose operations are then written in the form asked for.
Of a whole binary memtrace, without --threads, --times and --salvage, the accesses are copied into the binary form and
not decoded; one process does that, whatever -j says.

Each line of the text is `HANDLE OP ADDRESS SIZE`; OP is N (new), F (free), L (load), S (store) or M
(modify). Handles count 0, 1, 2... in the order of the N; a resize is an F and an N with the next handle.
--resize keeps them as R (resize, with the new address and size) of the same handle.
--threads puts a line `# thread N` before operations done by another thread than those before, --times a line
`# time N` with the instructions executed until then: at each N, F and R, and between them about every 4096.
Accesses and frees that belong to no live block are left out and counted. Where a block is made over a live one, the
live one is freed first, and such frees are counted. --compat does as the first Steve did, which saw no realloc: both
blocks stay, an access belongs to the newest of the blocks that hold its address, and a free to the newest that begins
there. With --where or marks the file has only
the operations of the chosen blocks, as if there were no others; their handles count 0, 1, 2...

{blocks.WHERE_HELP}
examples:
  steve ops ljtrace.out.77.ljt              writes ljtrace.out.77.ljt-ops
  steve ops --text app.ljt                  the same as text; docs/ops-format.md tells both forms
  steve ops app.ljt-ops -o -                shows a binary ops file
  steve ops --threads app.ljt               for steve-replay --threads=replay
  valgrind ... 2>&1 | steve ops - >app-ops  takes classic text out of other output
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    arguments.add_output(parser, "default: FILE-ops")
    source.add_form(parser)
    processes.add_arguments(parser)
    parser.add_argument("--resize", action="store_true", help="write a resize as R instead of F and N")
    parser.add_argument("--threads", action="store_true", help="tell which thread does what")
    parser.add_argument("--times", action="store_true", help="tell when, in instructions")
    parser.add_argument("--compat", action="store_true",
                        help="of classic text: the bytes of the first Steve, where live blocks may overlap")


def whole(args: argparse.Namespace, out: Output, form: str) -> tuple[Trace, dict]:
    """Translate by one walk over the trace."""
    from steve.kernels import _ops
    trace = blocks.Blocks(NAME, args).open_chosen()
    with Progress(NAME, args.quiet) as progress:
        return trace, _ops.write_ops(trace, out.fd, progress, form=form, resizes=args.resize,
                                          threads=args.threads, times=args.times)


def in_parts(args: argparse.Namespace, out: Output, form: str) -> tuple[rounds.Whole, dict]:
    """Translate parts of the trace side by side."""
    with processes.Pool(args) as pool, Progress(NAME, args.quiet) as progress:
        return rounds.write_ops(rounds.path_of(args), out.fd, pool, progress, form=form, resizes=args.resize,
                               folder=out.folder)


def converted(args: argparse.Namespace, out: Output, form: str) -> tuple[OpsFile, dict]:
    """Write the operations of an ops or lockops file in another form."""
    from steve.kernels import _ops
    from steve.trace._memtrace import OpsFile
    if args.resize or args.threads or args.times or not blocks.is_whole(args):
        raise UsageError(f"{args.file}: is an ops file, of which all is written as it is: --resize, --threads, "
                         "--times, --where, --from and --to are for memtraces")
    if args.compat:
        raise UsageError(f"{args.file}: is an ops file; --compat is for classic text traces")
    file = OpsFile(args.file)
    with Progress(NAME, args.quiet) as progress:
        _ops.copy_ops(file, out.fd, progress, form=form)
    return file, {}


def check_compat(args: argparse.Namespace) -> None:
    """UsageError where --compat has nothing to do. What can be read once only is not looked at."""
    from steve.trace._memtrace import Trace
    if args.resize or args.threads or args.times:
        raise UsageError("--compat makes the bytes of the first Steve, which knew no --resize, --threads and --times")
    if args.file == "-" or source.is_pipe(args.file) or source.holds_operations(args.file):
        return
    if not Trace(args.file, salvage=args.salvage).stats()["is_text"]:
        raise UsageError(f"{args.file}: is a binary memtrace, in which live blocks never overlap; --compat is for "
                         "classic text traces")


def is_copied(args: argparse.Namespace, form: str) -> bool:
    """Is a file with parts written without a look at its accesses? That takes less than to hand it out."""
    from steve.kernels import _ops
    return form == "binary" and _ops.copies(source.open_trace(args))


def way_of(args: argparse.Namespace, form: str) -> Callable[..., tuple[Trace | OpsFile | rounds.Whole, dict]]:
    """Which of the functions above takes FILE."""
    if source.holds_operations(args.file):
        return converted
    divisible = form != "zstd" and not (args.threads or args.times) and blocks.divides(args)
    return in_parts if divisible and not is_copied(args, form) else whole


def run(args: argparse.Namespace) -> int:
    if args.compat:
        check_compat(args)
    output = args.output or source.result_name(args.file, "-ops")
    form = source.form_of(args, output)
    with Output(output, binary=form != "text") as out:
        trace, counts = way_of(args, form)(args, out, form)
    if trace.problem is None:
        wrote(NAME, output, args.output, "for steve lockops, histogram and steve-replay", args.quiet)
    remark = source.unmatched_note(trace, counts)
    if remark:
        note(NAME, remark, args.quiet)
    return source.verdict(NAME, trace)
