"""steve lockops: derive from the accesses when blocks would have to be locked, for compacting allocators.

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
HELP = "guess from the accesses when blocks would have to be locked"
ENDINGS = {"simple": "-lockops", "full": "-lockopsfull", "stack": "-stack-lockops"}
EXAMPLES = """\
FILE is an ops file or a memtrace. A lockops file has lines `HANDLE OP ADDRESS SIZE` with OP N (new), F (free), L
(lock) and U (unlock); accesses are left out. A resize that the ops file has as R is kept and counts as an operation
on its block. As with `steve ops`, a file is written in the binary form unless --text or --compat is given.

--simple: the macro lifetime of a block is the share of the program's accesses that fall within its life. Blocks whose
macro lifetime is less than one half are locked directly after their N, for life; there is no U. Addresses are 0.

--full: the life counter of a block starts at 0, gains 1 with each operation on the block, and loses 0.5 (not below 0)
with each operation on any other block. The block is locked while its counter is above 0. L and U are written before
the operation at which that changes, U before L, then in the order of handles. Blocks that are never freed are never
locked, and a block that is locked when it is freed is not unlocked first.

--gain, --decay and --threshold change these numbers. With --full they are the gain by an operation on the block (1),
the loss by one on another block (0.5), and the counter above which the block is locked (0). With --simple,
--threshold is the macro lifetime below which a block is locked (0.5). Numbers may have three decimals.
--unlock-before-free writes a U before the F of a block that is locked.

--stack (memtraces only): a block is locked while a function that accesses it is on the call stack, as far as the trace
shows. An access by function f in thread t pins the block. The pin is removed before the first later New, Free or
Resize of t whose stack does not contain f, because only then is it known that f has returned. A block is locked while
it has a pin, so locks last at least until the next heap operation of the thread. An access to a block of a Lua heap
counts for two functions: the Lua function whose instruction it belongs to (as for `steve lines`), and the C function
that executes it, if that has a name. The Lua function whose instructions t executed last counts as being on the stack.
A pin by the garbage collector lasts until the end of its step. A Lua function is identified by its file and first
line. Recursion and functions that cannot be distinguished make locks longer; code without names counts as one
function for each object file. In a trace without stacks, nothing is ever unlocked. Record deep stacks: a function
whose frame is cut off seems to have returned. Blocks that are never freed are locked like others.

--stats shows what the locks mean for a compacting allocator: how many blocks and bytes are live, locked and free to
move, over time, and how long locks are held, in operations of FILE. Given alone, it reads a lockops file, in which
each line counts as one operation. Together with --simple, --full or --stack, the lockops file is written only if -o
names it. --csv writes the state over time; --json writes an object with the totals, the list "holds" and the state
over time as the list "time".

{columns}

--compat writes the bytes of the first Steve. Simple: a block without own accesses counts as having one. Full: of
several lock events at one operation only that of the largest handle is kept, because the first Steve stored one event
for each operation. The ops file must not have comment lines.

--where, --from and --to work for memtraces only. The result is that of the operations that `steve ops` would write
with the same options, except that --stack also uses the other events to find the Lua function that runs.

{where}
examples:
  steve lockops --full app-ops        writes app-lockopsfull
  steve lockops --simple app.ljt      writes app.ljt-lockops
  steve lockops --stack app.ljt       writes app.ljt-stack-lockops
  steve lockops --stack --stats app.ljt
  steve lockops --stats app-lockopsfull
  steve lockops --full --decay 0.1 --unlock-before-free app-ops
""".replace(
    "{columns}", listing.explained(COLUMNS)
).replace(
    "{where}", blocks.WHERE_HELP
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "ops file or memtrace; - is standard input", (arguments.OPS,))
    blocks.add_choice(parser)
    arguments.add_output(parser, "default: FILE without -ops, with -lockops, -lockopsfull or -stack-lockops")
    source.add_form(parser)
    way = parser.add_mutually_exclusive_group()
    for name, what in (
        ("simple", "lock for life or not at all, by macro lifetime"),
        ("full", "lock and unlock by the life counter"),
        ("stack", "lock while a function that accesses the block is on the call stack"),
    ):
        way.add_argument(f"--{name}", dest="way", action="store_const", const=name, help=what)
    parser.add_argument("--stats", action="store_true", help="show what the locks mean for a compacting allocator")
    parser.add_argument("--json", action="store_true", help="write --stats as one JSON object")
    parser.add_argument("--csv", action="store_true", help="write the samples of --stats as comma-separated values")
    for name, what in (
        ("gain", "added to the life counter by an operation on the block (full; default: 1)"),
        ("decay", "subtracted from it by an operation on another block (full; default: 0.5)"),
        (
            "threshold",
            "the counter above which a block is locked (full; default: 0), or the macro "
            "lifetime below which it is (simple; default: 0.5)",
        ),
    ):
        parser.add_argument(f"--{name}", metavar="X", type=thousandths, help=what)
    parser.add_argument("--unlock-before-free", action="store_true", help="unlock each locked block before its F")
    parser.add_argument("--compat", action="store_true", help="write the bytes of the first Steve, with its losses")


def thousandths(text: str) -> int:
    """argparse type: a number from 0 to 1000 with up to three decimals, returned in thousandths."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text) or float(text) > 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 1000 with up to three decimals")
    return round(float(text) * 1000)


def check(args: argparse.Namespace) -> None:
    """UsageError for arguments that cannot be combined."""
    if args.way is None and not args.stats:
        raise UsageError("give a way to find locks, --simple, --full or --stack; or --stats for a lockops file")
    if (args.json or args.csv) and not args.stats or args.json and args.csv:
        raise UsageError("--json and --csv are output formats of --stats; only one can be given")
    if args.way is None and args.output is not None:
        raise UsageError("--stats alone writes no lockops file, so -o is useless; its table goes to standard output")
    numbers = any(x is not None for x in (args.gain, args.decay, args.threshold))
    if args.way == "stack" and (args.compat or numbers):
        raise UsageError("--stack has no --gain, --decay, --threshold and --compat")
    changed = args.unlock_before_free or numbers
    if args.compat and changed:
        raise UsageError("--compat applies the rules of the first Steve, which cannot be changed")
    if args.way == "simple" and (args.gain is not None or args.decay is not None):
        raise UsageError("--gain and --decay are options of --full; --simple has only --threshold")
    if args.gain == 0 or args.decay == 0:
        raise UsageError("--gain and --decay must be above 0")


def life_rules(args: argparse.Namespace) -> tuple:
    """Gain, decay and threshold of --full as the smallest integers in the same proportion."""
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
    """The form of the result; with --compat it is text by default, as the first Steve wrote."""
    if args.compat and args.form is None:
        args.form = "text"
    return source.form_of(args, output)


def of_lockops(args: argparse.Namespace) -> int:
    """Run --stats on a lockops file; return the exit status."""
    from steve.kernels import _locks
    from steve.trace._memtrace import OpsFile

    if not blocks.is_whole(args):
        raise UsageError("--where, --from and --to select blocks of a memtrace, not of a lockops file")
    stats, file = _locks.LockStats(), OpsFile(args.file, kind="lockops")
    with Progress("lockops: statistics", args.quiet) as progress:
        stats.walk(file, progress)
    report(args, file.name, stats)
    return source.verdict(NAME, file)


def report(args: argparse.Namespace, name: str, stats: LockStats) -> None:
    """Write the result of --stats to standard output."""
    with Output("-") as out:
        if args.csv:
            out.write(listing.csv_text(samples_of(stats), COLUMNS))
        elif args.json:
            out.write(json.dumps(object_of(name, stats), indent=2) + "\n")
        else:
            out.write(text(name, stats))


def full(
    args: argparse.Namespace, operations: source.Operations, last: object, fd: int, stats: LockStats | None
) -> dict:
    """Write the locks of --full in two walks: the first finds the blocks that are freed. Returns counts of operations
    left out."""
    from steve.kernels import _locks

    with Progress("lockops: blocks that are freed", args.quiet) as progress:
        unfreed = _locks.Unfreed(operations.open(), progress)
    with Progress("lockops: locks", args.quiet) as progress:
        return _locks.write_lockops_full(
            last,
            unfreed,
            fd,
            rules=life_rules(args),
            compat=args.compat,
            unlock_before_free=args.unlock_before_free,
            tick=progress,
            form=args.form,
            stats=stats,
        )


def simple(
    args: argparse.Namespace, operations: source.Operations, last: object, fd: int, stats: LockStats | None
) -> dict:
    """Write the locks of --simple in two walks: the first measures macro lifetimes. Returns counts of operations left
    out."""
    from steve.kernels import _locks

    with Progress("lockops: lifetimes", args.quiet) as progress:
        threshold = 500 if args.threshold is None else args.threshold
        first = operations.open()
        plan = _locks.SimplePlan(first, threshold=threshold, compat=args.compat, tick=progress)
    if stats is None and hasattr(last, "pass_accesses") and first.problem is None and not args.salvage:
        last.pass_accesses()  # locks are written at News, so only --stats needs the accesses between them
    with Progress("lockops: locks", args.quiet) as progress:
        return _locks.write_lockops_simple(
            last, plan, fd, progress, form=args.form, unlock_before_free=args.unlock_before_free, stats=stats
        )


def stack(
    args: argparse.Namespace, operations: source.Operations, last: object, fd: int, stats: LockStats | None
) -> dict:
    """Write the locks of --stack in one walk. Returns counts of operations left out."""
    from steve.kernels import _locks

    with Progress("lockops: locks", args.quiet) as progress:
        return _locks.write_lockops_stack(
            last, fd, unlock_before_free=args.unlock_before_free, tick=progress, form=args.form, stats=stats
        )


WAYS = {"full": full, "simple": simple, "stack": stack}
