"""steve lockops: guess locks from the pattern of accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import math
import re

from steve import source
from steve.errors import UsageError
from steve.output import Output
from steve.progress import Progress, note

NAME = "lockops"
HELP = "guess from the accesses when blocks have to be locked"
EXAMPLES = """\
FILE is an ops file or a memtrace. A lockops file has lines `HANDLE OP ADDRESS SIZE` with OP N (new), F
(free), L (lock) and U (unlock); accesses are left out. A resize that the ops file has as R is kept and
counts as an operation on its block.

--simple: the macro lifetime of a block is the share of the program's accesses that fall within its life.
Blocks of less than one half are locked right after their N, for life; there is no U. Addresses are 0.

--full: a block's life counter starts at 0, gains 1 with each operation on the block and loses 0.5 (not
below 0) with each operation on any other block. The block is locked while it is above 0; L and U stand
before the operation at which that changes, U before L, then by handle. Blocks that are never freed are
never locked, and a block that dies locked is not unlocked first.

--gain, --decay and --threshold change the numbers: with --full what an operation on the block adds to
its life (1), what one on another takes (0.5), and the life above which it is locked (0); with --simple
--threshold is the macro lifetime below which a block is locked (0.5). Three decimals count.
--unlock-before-free puts a U before the F of a block that dies locked.

--compat gives the bytes of the first Steve. Simple: a block without accesses of its own counts as having
one. Full: of several lock events at one operation only that of the largest handle is kept (it collected
them by index, in the order of handles, and the last one stayed); the ops file must have no comment lines.

examples:
  steve lockops --full app-ops        writes app-lockopsfull
  steve lockops --simple app.ljt      writes app.ljt-lockops
  steve lockops --full --decay 0.1 --unlock-before-free app-ops
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "ops file or memtrace; - is standard input")
    source.add_output(parser, "default: FILE without -ops, with -lockops or -lockopsfull")
    source.add_form(parser)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--simple", action="store_true", help="lock for life or not at all, by macro lifetime")
    way.add_argument("--full", action="store_true", help="lock and unlock by the life counter")
    for name, what in (("gain", "life gained by an operation on the block (full; default: 1)"),
                       ("decay", "life lost by an operation on another (full; default: 0.5)"),
                       ("threshold", "life above which a block is locked (full; default: 0), or macro "
                                     "lifetime below which it is (simple; default: 0.5)")):
        parser.add_argument(f"--{name}", metavar="X", type=thousandths, help=what)
    parser.add_argument("--unlock-before-free", action="store_true", help="no block dies locked")
    parser.add_argument("--compat", action="store_true", help="the bytes of the first Steve, with its losses")


def thousandths(text: str) -> int:
    """An argument from 0 to 1000, in thousandths."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text) or float(text) > 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 1000 with up to three decimals")
    return round(float(text) * 1000)


def check(args: argparse.Namespace) -> None:
    """UsageError for arguments that do not go together."""
    source.form_of(args)
    changed = args.unlock_before_free or any(x is not None for x in (args.gain, args.decay, args.threshold))
    if args.compat and changed:
        raise UsageError("--compat stands for the rules of the first Steve, which cannot be changed")
    if args.simple and (args.gain is not None or args.decay is not None):
        raise UsageError("--gain and --decay are of --full; --simple has only --threshold")
    if args.gain == 0 or args.decay == 0:
        raise UsageError("--gain and --decay must be above 0")


def life_rules(args: argparse.Namespace) -> tuple:
    """Gain, decay and threshold of --full as whole numbers."""
    given = (args.gain, args.decay, args.threshold)
    rules = [default if value is None else value for value, default in zip(given, (1000, 500, 0))]
    unit = math.gcd(*rules)
    return tuple(rule // unit for rule in rules)


def run(args: argparse.Namespace) -> int:
    check(args)
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
        return _kernels.write_lockops_full(last, unfreed, fd, rules=life_rules(args), compat=args.compat,
                                           unlock_before_free=args.unlock_before_free, tick=progress,
                                           form=source.form_of(args))


def simple(args: argparse.Namespace, operations: source.Operations, last: object, fd: int) -> dict:
    """Two walks: macro lifetimes, then the locks."""
    from steve import _kernels
    with Progress("lockops: lifetimes", args.quiet) as progress:
        threshold = 500 if args.threshold is None else args.threshold
        plan = _kernels.SimplePlan(operations.open(), threshold=threshold, compat=args.compat, tick=progress)
    with Progress("lockops: locks", args.quiet) as progress:
        return _kernels.write_lockops_simple(last, plan, fd, progress, form=source.form_of(args),
                                             unlock_before_free=args.unlock_before_free)
