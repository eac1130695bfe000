"""steve lockops: guess locks from the pattern of accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import math
import os
import re
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.terminal import arguments
from steve.terminal import listing
from steve.trace import source
from steve.system.errors import UsageError
from steve.analysis.lock_stats import COLUMNS, object_of, samples_of, text
from steve.system.output import Output, wrote
from steve.system.messages import note
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.kernels._locks import LockStats

NAME = "lockops"
HELP = "guess from the accesses when blocks have to be locked"
ENDINGS = {"simple": "-lockops", "full": "-lockopsfull", "stack": "-stack-lockops"}
EXAMPLES = """\
FILE is an ops file or a memtrace. A lockops file has lines `HANDLE OP ADDRESS SIZE` with OP N (new), F
(free), L (lock) and U (unlock); accesses are left out. A resize that the ops file has as R is kept and
counts as an operation on its block. As of `steve ops`, a file is written in the binary form unless --text or
--compat asks for text.

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

--stack (memtraces only): a block is locked while a function that touches it is on the call stack, as far as
the trace tells. An access by function f of thread t pins the block; the pin goes before the first later New,
Free or Resize of t whose stack does not contain f, for only then is it known that f has returned. A block is
locked while it has a pin. So locks last up to the next heap operation of the thread. An access to a block of a
Lua heap is by the function of Lua whose instruction it belongs to (as for `steve lines`), and by the function of
C that does it, if that has a name; the function of Lua whose instructions t executed last counts as on the stack;
what the collector does pins up to the end of its step. A function of Lua is known by its file and the line where it
begins. Recursion and functions that cannot be told apart lengthen locks; other code without names counts as one
function for each object file; where a trace has no stacks, nothing is ever unlocked; record deep stacks, for a
frame cut off looks as if it had returned. Blocks that are never freed are locked like others.

--stats says what the locks mean for an allocator that compacts: how many blocks and bytes are live, locked
and free to move, over time, and how long locks are held, in operations of FILE. Alone it reads a lockops
file, in which each line counts as one operation; with one of the ways above, the locks found go to -o FILE,
or nowhere. --csv gives the state over time; --json an object with the totals, the list "holds" and that list
as "time".

{columns}

--compat gives the bytes of the first Steve. Simple: a block without accesses of its own counts as having
one. Full: of several lock events at one operation only that of the largest handle is kept (it collected
them by index, in the order of handles, and the last one stayed); the ops file must have no comment lines.

--where, --from and --to, for memtraces only: as of the operations that `steve ops` makes with them (what is left
out still tells --stack which function of Lua runs).

{where}
examples:
  steve lockops --full app-ops        writes app-lockopsfull
  steve lockops --simple app.ljt      writes app.ljt-lockops
  steve lockops --stack app.ljt       writes app.ljt-stack-lockops
  steve lockops --stack --stats app.ljt
  steve lockops --stats app-lockopsfull
  steve lockops --full --decay 0.1 --unlock-before-free app-ops
""".replace("{columns}", listing.explained(COLUMNS)).replace("{where}", blocks.WHERE_HELP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "ops file or memtrace; - is standard input")
    blocks.add_choice(parser)
    arguments.add_output(parser, "default: FILE without -ops, with -lockops, -lockopsfull or -stack-lockops")
    source.add_form(parser)
    way = parser.add_mutually_exclusive_group()
    for name, what in (("simple", "lock for life or not at all, by macro lifetime"),
                       ("full", "lock and unlock by the life counter"),
                       ("stack", "lock while a function that touches the block is on the call stack")):
        way.add_argument(f"--{name}", dest="way", action="store_const", const=name, help=what)
    parser.add_argument("--stats", action="store_true",
                        help="show what the locks mean for a compacting allocator")
    parser.add_argument("--json", action="store_true", help="--stats as one JSON object")
    parser.add_argument("--csv", action="store_true", help="the samples of --stats as comma-separated values")
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
    if args.way is None and not args.stats:
        raise UsageError("name a way to guess locks, --simple, --full or --stack; or --stats of a lockops file")
    if (args.json or args.csv) and not args.stats or args.json and args.csv:
        raise UsageError("--json and --csv are forms of --stats, of which there can be one")
    if args.way is None and args.output is not None:
        raise UsageError("--stats alone makes no lockops file for -o; its table goes to standard output")
    numbers = any(x is not None for x in (args.gain, args.decay, args.threshold))
    if args.way == "stack" and (args.compat or numbers):
        raise UsageError("--stack knows no --gain, --decay, --threshold and --compat")
    changed = args.unlock_before_free or numbers
    if args.compat and changed:
        raise UsageError("--compat stands for the rules of the first Steve, which cannot be changed")
    if args.way == "simple" and (args.gain is not None or args.decay is not None):
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
    if args.way is None:
        return of_lockops(args)
    from steve.kernels import _locks
    output = args.output or (os.devnull if args.stats else source.result_name(args.file, ENDINGS[args.way]))
    args.form = form_of(args, output)
    stats = _locks.LockStats() if args.stats else None
    operations = blocks.Blocks(NAME, args, again=True).operations()
    last = operations.open_trace() if args.way == "stack" else operations.open()
    with Output(output, binary=args.form != "text") as out:
        counts = WAYS[args.way](args, operations, last, out.fd, stats)
    if last.problem is None:
        wrote(NAME, output, args.output, "for steve-replay and steve allocstats", args.quiet)
    if stats is not None:
        report(args, last.name, stats)
    remark = source.unmatched_note(last, counts)
    if remark:
        note(NAME, remark, args.quiet)
    return source.verdict(NAME, last)


def form_of(args: argparse.Namespace, output: str) -> str:
    """The form of the result. The first Steve's bytes are text."""
    if args.compat and args.form is None:
        args.form = "text"
    return source.form_of(args, output)


def of_lockops(args: argparse.Namespace) -> int:
    """--stats of a lockops file."""
    from steve.kernels import _locks
    from steve.trace._memtrace import OpsFile
    if not blocks.is_whole(args):
        raise UsageError("--where, --from and --to choose blocks of a memtrace, not of a lockops file")
    stats, file = _locks.LockStats(), OpsFile(args.file, kind="lockops")
    with Progress("lockops: statistics", args.quiet) as progress:
        stats.walk(file, progress)
    report(args, file.name, stats)
    return source.verdict(NAME, file)


def report(args: argparse.Namespace, name: str, stats: LockStats) -> None:
    """Write what --stats asks for."""
    with Output("-") as out:
        if args.csv:
            out.write(listing.csv_text(samples_of(stats), COLUMNS))
        elif args.json:
            out.write(json.dumps(object_of(name, stats), indent=2) + "\n")
        else:
            out.write(text(name, stats))


def full(args: argparse.Namespace, operations: source.Operations, last: object, fd: int,
         stats: LockStats | None) -> dict:
    """Two walks: which blocks die, then the locks."""
    from steve.kernels import _locks
    with Progress("lockops: blocks that are freed", args.quiet) as progress:
        unfreed = _locks.Unfreed(operations.open(), progress)
    with Progress("lockops: locks", args.quiet) as progress:
        return _locks.write_lockops_full(last, unfreed, fd, rules=life_rules(args), compat=args.compat,
                                           unlock_before_free=args.unlock_before_free, tick=progress,
                                           form=args.form, stats=stats)


def simple(args: argparse.Namespace, operations: source.Operations, last: object, fd: int,
           stats: LockStats | None) -> dict:
    """Two walks: macro lifetimes, then the locks."""
    from steve.kernels import _locks
    with Progress("lockops: lifetimes", args.quiet) as progress:
        threshold = 500 if args.threshold is None else args.threshold
        first = operations.open()
        plan = _locks.SimplePlan(first, threshold=threshold, compat=args.compat, tick=progress)
    if stats is None and hasattr(last, "pass_accesses") and first.problem is None and not args.salvage:
        last.pass_accesses()  # the locks stand at News; only --stats asks which operations these are
    with Progress("lockops: locks", args.quiet) as progress:
        return _locks.write_lockops_simple(last, plan, fd, progress, form=args.form,
                                             unlock_before_free=args.unlock_before_free, stats=stats)


def stack(args: argparse.Namespace, operations: source.Operations, last: object, fd: int,
          stats: LockStats | None) -> dict:
    """One walk over the events."""
    from steve.kernels import _locks
    with Progress("lockops: locks", args.quiet) as progress:
        return _locks.write_lockops_stack(last, fd, unlock_before_free=args.unlock_before_free,
                                            tick=progress, form=args.form, stats=stats)


WAYS = {"full": full, "simple": simple, "stack": stack}
