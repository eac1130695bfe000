"""steve ops: translate a memtrace to an ops file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.parallel import processes
from steve.trace.reading import reading_of
from steve.terminal import arguments
from steve.trace import source
from steve.system.errors import UsageError
from steve.system.output import Output, wrote
from steve.system.messages import note
from steve.system.tempfiles import scratch_folder
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.parallel.rounds import Whole
    from steve.trace._memtrace import OpsFile, Trace

NAME = "ops"
HELP = "translate a memtrace to operations on numbered blocks"
EXAMPLES = f"""\
Files are written in the compact binary form, which all commands of steve and steve-replay read. Standard output,
pipes and devices get text, as do files with --text. FILE may also be an ops or lockops file (not a pipe), whose
operations are then written in the requested form.
If a whole binary memtrace is translated to the binary form without --threads, --times and --salvage, its accesses are
copied without decoding them. One process does that, and -j has no effect.

Each line of the text is `HANDLE OP ADDRESS SIZE`; OP is N (new), F (free), L (load), S (store) or M
(modify). Handles count 0, 1, 2... in the order of the N. A resize is written as an F and an N with the next handle;
with --resize, as an R with the same handle and the new address and size.
--threads writes a line `# thread N` wherever the thread changes. --times writes lines `# time N` with the number of
instructions executed so far: at each N, F and R, and between them about every 4096 instructions.
Accesses and frees that match no live block are left out and counted. If a new block overlaps a live one, a free of the
live one is inserted, and such frees are counted. With --compat they are not, as in the first Steve, which did not
record realloc: both blocks stay, an access belongs to the newest block that contains its address, and a free to the
newest block that begins there. With --where or marks, the file has only the operations of the selected blocks, as if
there were no others; their handles count 0, 1, 2...

{blocks.WHERE_HELP}
examples:
  steve ops ljtrace.out.77.ljt              writes ljtrace.out.77.ljt-ops
  steve ops --text app.ljt                  the same as text; docs/ops-format.md describes both forms
  steve ops app.ljt-ops -o -                shows a binary ops file
  steve ops --threads app.ljt               for steve-replay --threads=replay
  valgrind ... 2>&1 | steve ops - >app-ops  extracts classic text from other output
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, (arguments.OPS,))
    arguments.add_output(parser, "default: FILE-ops")
    source.add_form(parser)
    processes.add_arguments(parser)
    parser.add_argument("--resize", action="store_true", help="write a resize as R instead of F and N")
    parser.add_argument("--threads", action="store_true", help="write which thread does each operation")
    parser.add_argument("--times", action="store_true", help="write the times of operations, in instructions")
    parser.add_argument(
        "--compat",
        action="store_true",
        help="for classic text: write the bytes of the first Steve, where live blocks may overlap",
    )


def translated(args: argparse.Namespace, out: Output, form: str) -> tuple[Trace | Whole, dict]:
    """Translate a memtrace. Returns the trace and counts of events left out, as the other way does."""
    from steve.analysis.operations import Operations

    in_shards = not (form == "zstd" or args.threads or args.times or is_copied(args, form))
    chosen = blocks.Blocks(NAME, args)
    with ExitStack() as stack:
        folder = None
        if in_shards and args.jobs != 1 and not args.scheduler:  # the workers of a cluster need not see a folder
            folder = stack.enter_context(scratch_folder(".steve-", out.folder))
        make = partial(Operations, out.fd, form, args.resize, args.threads, args.times, folder)
        counts = chosen.over_trace(make, in_shards)
    return chosen.trace, counts


def converted(args: argparse.Namespace, out: Output, form: str) -> tuple[OpsFile, dict]:
    """Write the operations of an ops or lockops file in another form."""
    from steve.kernels import _ops
    from steve.trace._memtrace import OpsFile

    if args.resize or args.threads or args.times or not blocks.is_whole(args):
        raise UsageError(
            f"{args.file}: is an ops file, whose operations are written unchanged; --resize, --threads, "
            "--times, --where, --from and --to are for memtraces"
        )
    if args.compat:
        raise UsageError(f"{args.file}: is an ops file; --compat is for classic text traces")
    file = OpsFile(args.file)
    with Progress(NAME, args.quiet) as progress:
        _ops.copy_ops(file, out.fd, progress, form=form)
    return file, {}


def check_compat(args: argparse.Namespace) -> None:
    """UsageError if --compat would have no effect. Files that can be read only once are not checked."""
    from steve.trace._memtrace import Trace

    if args.resize or args.threads or args.times:
        raise UsageError("--compat writes the bytes of the first Steve, which had no --resize, --threads and --times")
    if args.file == "-" or source.is_pipe(args.file) or source.holds_operations(args.file):
        return
    if not Trace(args.file, salvage=args.salvage).stats()["is_text"]:
        raise UsageError(
            f"{args.file}: is a binary memtrace, in which live blocks never overlap; --compat is for "
            "classic text traces"
        )


def is_copied(args: argparse.Namespace, form: str) -> bool:
    """Can the accesses be copied without decoding them? That is faster than translating shards in parallel."""
    from steve.kernels import _ops

    return (
        form == "binary"
        and blocks.is_whole(args)
        and reading_of(args).has_shards()
        and _ops.copies(source.open_trace(args))
    )


def run(args: argparse.Namespace) -> int:
    if args.compat:
        check_compat(args)
    output = args.output or source.result_name(args.file, "-ops")
    form = source.form_of(args, output)
    with Output(output, binary=form != "text") as out:
        way = converted if source.holds_operations(args.file) else translated
        trace, counts = way(args, out, form)
    if trace.problem is None:
        wrote(NAME, output, args.output, "for steve lockops, histogram and steve-replay", args.quiet)
    remark = source.unmatched_note(trace, counts)
    if remark:
        note(NAME, remark, args.quiet)
    return source.verdict(NAME, trace)
