"""steve lockops: guess locks from the pattern of accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve import source
from steve.output import Output
from steve.progress import Progress, note

NAME = "lockops"
HELP = "guess from the accesses when blocks have to be locked"
EXAMPLES = """\
FILE is an ops file or a memtrace. A lockops file has lines `HANDLE OP ADDRESS SIZE` with OP N (new), F
(free), L (lock) and U (unlock); accesses are left out.

--simple: the macro lifetime of a block is the share of the program's accesses that fall within its life.
Blocks of less than one half are locked right after their N, for life; there is no U. Addresses are 0.

--full: a block's life counter starts at 0, gains 1 with each operation on the block and loses 0.5 (not
below 0) with each operation on any other block. The block is locked while it is above 0; L and U stand
before the operation at which that changes, U before L, then by handle. Blocks that are never freed are
never locked, and a block that dies locked is not unlocked first.

--compat gives the bytes of the first Steve. Simple: a block without accesses of its own counts as having
one. Full: of several lock events at one operation only that of the largest handle is kept (it collected
them by index, in the order of handles, and the last one stayed); the ops file must have no comment lines.

examples:
  steve lockops --full app-ops        writes app-lockopsfull
  steve lockops --simple app.ljt      writes app.ljt-lockops
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "ops file or memtrace; - is standard input")
    source.add_output(parser, "default: FILE without -ops, with -lockops or -lockopsfull")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--simple", action="store_true", help="lock for life or not at all, by macro lifetime")
    form.add_argument("--full", action="store_true", help="lock and unlock by the life counter")
    parser.add_argument("--compat", action="store_true", help="the bytes of the first Steve, with its losses")


def run(args: argparse.Namespace) -> int:
    operations = source.Operations(args.file, args.salvage)
    last = operations.open()
    output = args.output or source.result_name(args.file, "-lockopsfull" if args.full else "-lockops")
    with Output(output) as out:
        counts = (full if args.full else simple)(args, operations, last, out.fd)
    remark = source.unmatched_note(last, counts)
    if remark:
        note(NAME, remark, args.quiet)
    return source.verdict(NAME, last)


def full(args: argparse.Namespace, operations: source.Operations, last: object, fd: int) -> dict:
    """Two walks: which blocks die, then the locks."""
    from steve import _kernels
    with Progress("lockops: blocks that are freed", args.quiet) as progress:
        unfreed = _kernels.Unfreed(operations.open(), progress)
    with Progress("lockops: locks", args.quiet) as progress:
        return _kernels.write_lockops_full(last, unfreed, fd, compat=args.compat, tick=progress)


def simple(args: argparse.Namespace, operations: source.Operations, last: object, fd: int) -> dict:
    """Two walks: macro lifetimes, then the locks."""
    from steve import _kernels
    with Progress("lockops: lifetimes", args.quiet) as progress:
        plan = _kernels.SimplePlan(operations.open(), compat=args.compat, tick=progress)
    with Progress("lockops: locks", args.quiet) as progress:
        return _kernels.write_lockops_simple(last, plan, fd, progress)
