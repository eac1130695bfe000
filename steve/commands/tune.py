"""steve tune: search for the options of an allocator that suit a program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steve.commands import ops as ops_command
from steve.plots.style import parse_formats, stem_of
from steve.system.errors import SteveError, UsageError
from steve.system.messages import note
from steve.system.output import Output
from steve.system.tempfiles import scratch_folder
from steve.terminal import arguments
from steve.terminal.durations import seconds_of
from steve.terminal.progress import Progress
from steve.tune.program import C_LIBRARY, Program, is_too_short
from steve.tune.text import Result, budget_option, replay_seconds, text_of

if TYPE_CHECKING:
    from steve.allocstats.replay import Replay
    from steve.tune.budget import Budget
    from steve.tune.choice import Choice
    from steve.tune.measure import Bench
    from steve.tune.options import Allocator, OptionSet
    from steve.tune.search import Hints
    from steve.tune.verify import Verification

NAME = "tune"
HELP = "search for the options of an allocator that suit a program"
STARTS_ALLOCATORS = True
GOALS = ("peak", "mean", "end", "time", "p99", "balance")
SEARCH_SHARE = 0.5  # of the budget
EXAMPLES = """\
FILE is a memtrace or an ops file. Its News, Frees and Resizes are replayed on malloc of the system (steve-replay
--system), with the library of the allocator in LD_PRELOAD and its options in the environment, as programs get them.
The allocator requests memory from the system and returns it there, so its options have the effect that they have in a
program. Blocks of Lua heaps and of a program's own heaps are left out. A block of malloc that their allocators divide,
or give to Lua as it is, is freed in the replay when they do; so a program whose Lua states request each object from
malloc, as those of PUC Lua do, needs more than the replay.

The reference is the allocator on which the program ran, if FILE tells it. A program that is linked with another malloc
library gets glibc's by LD_PRELOAD=libc.so.6. LD_PRELOAD has no effect on an executable that contains malloc: the result
says so.

The defaults of all allocators are replayed first, on the whole file and on its second half. The search replays the
first half. Its best option sets, and the defaults again, are then replayed on the whole file and on the second half,
which was not searched. An option set is recommended only if it is better than the defaults of its allocator and than
the reference on both; if none is, keep the defaults of the reference. The table says why the others are not
recommended. With --holdout=FILE, the search replays the whole file, and FILE takes the place of the second half. With
--goal=end all replays are of the whole file, since halves of it say nothing about its end, and no part is held out:
only --holdout shows whether another run gains as much.

Every replay is a new process; those to be compared take turns in random order. Figures are medians, with the 95%
interval of the bootstrap.

--goal: peak is the most resident memory, mean the mean of it, end what stays resident after the last operation, with
all threads alive that worked in its last tenth, as those of a server do (with --verify, when the program ends); time is
the CPU time of the replay including that of the system, p99 is the time that 99% of the calls of malloc and of free do
not exceed, balance is the geometric mean of peak and time. rss is another name of peak. The mean is over operations or,
of several threads and of the program with --verify, over time. Resident memory is everywhere that of heap and
allocator, without what the replay itself has: the difference in bytes is that of the program; a change in percent is
less for a program, which has its code, stacks and other memory besides.

What the trace and the goal suggest is tried first, which matters if the budget is small: options of arenas if it has
several threads, thresholds from which memory is mapped and returned if it frees many bytes in large blocks, delays
after which memory is returned with --goal=end. What was not replayed often enough gets no verdict, and that includes
the defaults.

Some allocators and options return memory after some time: the result names them if the replay took less than half of
the program's time. Give that with --duration; the replay then takes as long. A program may also return memory by a
function of its allocator, as redis does by mallctl of jemalloc. If the reference may return memory in one of these
ways, the program needs less on it than the replay, and whether another allocator needs less memory is not known.

No replay begins after --budget, and what was not tried for that reason is printed. The time before the first replay, in
which the file is read, and that of --verify are not part of it. --replays=N is a budget of N replays instead, with
which the search does as much on a busy machine as on an idle one.

--verify runs the command with and without the options, and compares the change of its resident memory, as of the
goal, and of its CPU time with the predicted change. `confirmed` means that the change is certain, as the 95%
intervals of both do not overlap, and near: it differs from the prediction by a third of that at most, or the
intervals of the two changes overlap. `no certain difference measured` means that the intervals of both overlap, and
that the change may be near: run a command that does more, or on an idle machine. If a certain change is predicted for
the goal, and what was measured is certainly not near it, that is `not confirmed`, too. Exit status 1: a certain
change is predicted for the goal and not confirmed, or another prediction is contradicted. If the defaults are to be
kept, the options are those of the best other row. Before that, the command is run once with each to see in the output
of the dynamic linker (LD_DEBUG) whether the program has the malloc of that allocator; if not, there is no verdict.

--verify-all, with --verify, also runs the command five times with the defaults of every other allocator, and ranks them
by what the program itself has and takes: its memory, with code and stacks, of the goal or else at its peak. This is
what to look at if the program returns memory by a function of its allocator. If one of them is certainly better than
what the replays recommend, the advice begins with it. What it says does not change the exit status.

examples:
  steve tune app.ljt
  steve tune app.ljt --allocators=jemalloc,glibc --goal=balance --budget=2m
  steve tune app.ljt --replays=500 --json -q
  steve tune app.ljt --verify='./app --load=test.data' -o tuned.png
  steve tune app.ljt --verify='./app --load=test.data' --verify-all
"""


def count_of(text: str) -> int:
    """A number of replays."""
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to 1000000000")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.reads(
        parser.add_argument("file", metavar="FILE", help="memtrace or ops file"), arguments.TRACE, arguments.OPS
    )
    parser.add_argument("--allocators", metavar="A,B", help="those to try (default: all that have a table of options)")
    parser.add_argument(
        "--reference", metavar="A", help="compare with this one (default: the program's own, else glibc)"
    )
    parser.add_argument(
        "--goal",
        type=lambda text: "peak" if text == "rss" else text,
        choices=GOALS,
        default="peak",
        help="what to minimise (default %(default)s)",
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--budget", type=seconds_of, default=600.0, metavar="TIME", help="how long the replays may take (default 10m)"
    )
    budget.add_argument(
        "--replays", type=count_of, metavar="N", help="how many replays it may make, for as long as needed"
    )
    holdout = parser.add_argument(
        "--holdout", metavar="FILE", help="choose among the best by this file instead of the second half"
    )
    arguments.reads(holdout, arguments.TRACE, arguments.OPS)
    parser.add_argument(
        "--duration",
        type=seconds_of,
        metavar="TIME",
        help="how long the program takes: the replay takes as long (programs of one thread)",
    )
    parser.add_argument("--verify", metavar="COMMAND", help="run the program to check the prediction")
    parser.add_argument(
        "--verify-all", action="store_true", help="run it with the defaults of every allocator, and rank these"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the figure; .png, .svg or .pdf (default FILE-tuned.png)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments.add_quiet(parser)


def _reference(args: argparse.Namespace, program: Program, tables: dict[str, Allocator]) -> str:
    """The name of the allocator with which the others are compared: that of the program, if it can be replayed."""
    from steve.tune.measure import missing_library

    if args.reference:
        return str(args.reference)
    own = tables.get(program.allocator)
    return own.name if own and not missing_library(own) else C_LIBRARY


def _chosen(
    args: argparse.Namespace, tables: dict[str, Allocator], reference: str
) -> tuple[list[OptionSet], OptionSet]:
    """The defaults of the allocators to try, that of the reference first, and the reference."""
    from steve.tune.measure import missing_library
    from steve.tune.options import OptionSet

    names = args.allocators.split(",") if args.allocators else list(tables)
    usable = []
    for name in dict.fromkeys([reference, *names]):
        if name not in tables:
            raise UsageError(f"no table of options for allocator '{name}'; there are: {', '.join(tables)}")
        if not missing_library(tables[name]):
            usable.append(OptionSet(tables[name]))
        elif args.allocators or name == reference:
            raise SteveError(f"{name}: {tables[name].library} is not found: install Debian's {tables[name].package}")
        else:
            note(NAME, f"left out {name}: it needs Debian's {tables[name].package}", args.quiet)
    return usable, usable[0]


def ops_of(path: str, folder: str, quiet: bool) -> str:
    """An ops file with the malloc blocks of a memtrace; an ops file as it is."""
    from steve.trace import source

    if not os.path.exists(path):
        raise SteveError(f"{path}: no such file")
    if source.holds_operations(path):
        return path
    made = os.path.join(folder, os.path.basename(path) + "-malloc-ops")
    args = argparse.Namespace(
        file=path,
        salvage=False,
        quiet=quiet,
        where='heap = "malloc"',
        begin=None,
        end=None,
        divided=True,
        resize=True,
        threads=True,
        times=False,
        compat=False,
        jobs=1,
        scheduler=None,
    )
    with Output(made) as out:
        ops_command.translated(args, out, "binary")
    return made


@dataclass(frozen=True)
class Parts:
    """The folder of temporary files; the files to search, to report, and to check the result on (None: no part is held out); what
    the last one is called; whether the program has several threads; what its operations suggest."""

    folder: str
    searched: str
    whole: str
    rest: str | None
    rest_name: str
    threads: bool
    hints: Hints


def _parts(args: argparse.Namespace, folder: str) -> Parts:
    """The files to replay."""
    from steve.analysis import opsarrays
    from steve.tune.search import hints_of

    whole = ops_of(args.file, folder, args.quiet)
    everything, is_all = opsarrays.read_all(whole)
    if not len(everything.code):
        raise SteveError(f"{args.file}: malloc has no blocks in it, so no options have an effect")
    paths = [os.path.join(folder, name) for name in ("whole", "first", "second")]
    if is_all and whole != args.file:
        paths[0] = whole
    else:
        opsarrays.write_binary(paths[0], everything)
    threads = everything.thread.max() > 1 and not (everything.thread == 0).any()
    hints = hints_of(everything, threads)._replace(ends=args.goal == "end")
    if args.holdout:
        return Parts(folder, paths[0], paths[0], ops_of(args.holdout, folder, args.quiet), args.holdout, threads, hints)
    if args.goal == "end":  # the halves end elsewhere, or begin without what led there
        return Parts(folder, paths[0], paths[0], None, "", threads, hints)
    for path, half in zip(paths[1:], opsarrays.halves(everything)):
        opsarrays.write_binary(path, half)
    return Parts(folder, paths[1], paths[0], paths[2], "the second half of the file", threads, hints)


def _bench(args: argparse.Namespace, replay: Replay, parts: Parts, ops: str, budget: Budget, loaded: str) -> Bench:
    """The bench for one of the files. Half of the file takes half of --duration. loaded: see Bench."""
    from steve.tune.measure import Bench

    # to read the file takes longer than to replay it
    keep = f"--keep-plan={os.path.join(parts.folder, os.path.basename(ops))}.plan"
    if parts.threads:
        if args.duration is not None or args.goal == "p99":
            raise UsageError(f"{args.file}: has several threads, for which there is no --duration and no --goal=p99")
        return Bench(replay, ops, args.goal, budget, (keep, "--threads=replay"), loaded)
    if args.duration is None:
        return Bench(replay, ops, args.goal, budget, (keep,), loaded)
    part = 1.0 if args.holdout or ops == parts.whole else 0.5
    pace = f"--pace={max(1, round(1000 * part * args.duration))}"
    return Bench(replay, ops, args.goal, budget, (keep, pace), loaded)


def _program(args: argparse.Namespace, drivers: list[dict[str, Any]]) -> Program:
    """What the file says about the program."""
    from steve.tune.program import recorded_program

    if not os.path.exists(args.file):
        raise SteveError(f"{args.file}: no such file")
    return recorded_program(args.file, {str(one["name"]): str(one.get("library") or "") for one in drivers})


def _measured(
    args: argparse.Namespace, replay: Replay, budget: Budget, folder: str, tick: Callable[[], None]
) -> tuple[Choice, Program]:
    """Replay the defaults of all allocators, then search among their options."""
    from steve.tune.choice import choose, replay_defaults
    from steve.tune.options import find_tables
    from steve.tune.search import Search, suggested_of
    from steve.tune.verify import obstacle

    drivers = replay.ask("--list", "--json")
    tables = {table.name: table for table in find_tables(drivers)}
    program = _program(args, drivers)
    defaults, reference = _chosen(args, tables, _reference(args, program, tables))
    if args.verify:  # the replays take minutes: what is wrong with the command is said before them
        obstacle(program, args.verify, reference)
    parts = _parts(args, folder)
    budget.begin()
    is_linked = program.allocator in tables and not program.is_within
    loaded = tables[program.allocator].library if is_linked else ""
    searched, whole = (_bench(args, replay, parts, ops, budget, loaded) for ops in (parts.searched, parts.whole))
    held_out = _bench(args, replay, parts, parts.rest, budget, loaded) if parts.rest else whole

    def warn(expected: float, some: bool) -> None:
        takes = f"the defaults of {len(defaults)} allocators take about {budget_option(expected, budget)}"
        then = "after a replay of each, the most promising are compared" if some else "no verdict within this budget"
        note(NAME, f"{takes}, or fewer --allocators: {then}", args.quiet)

    suggested = suggested_of(reference, parts.threads, parts.hints)
    compared = replay_defaults(defaults, suggested, whole, held_out, tick, warn)
    if whole.samples[reference].failure:
        raise SteveError(f"{reference.name}: {whole.samples[reference].failure}")
    if parts.searched == parts.whole:
        searched.begin_with(whole)
    search = Search(searched, [one for one in compared if one.is_default], reference, args.goal, tick, parts.hints)
    found = search.run(parts.threads, budget.after(SEARCH_SHARE))
    benches = (searched, whole, held_out)
    everything = list(dict.fromkeys([*compared, *defaults, *whole.measured(suggested)]))
    choice = choose(args.goal, everything, found, benches, parts.rest_name, tick)
    returns_later = args.duration is None and reference.allocator.returns_later
    choice.is_short = returns_later and is_too_short(program.seconds, replay_seconds(choice))
    choice.doubt = _doubt(choice, program)
    return choice, program


def _doubt(choice: Choice, program: Program) -> str:
    """Why the program may need less memory on the reference than the replay does; "" if nothing says so."""
    reference = choice.reference.allocator
    if reference.name == program.allocator and program.returning:
        return f"the program may return memory by {program.returning}, which no replay does"
    if choice.is_short:
        return f"{reference.name} may return memory while the program runs, which a short replay does not see"
    return ""


def _draw(args: argparse.Namespace, choice: Choice) -> list[str]:
    from steve.plots.tuned import draw_tuned

    stem, kind = stem_of(args.output or args.file + "-tuned.png")
    title = f"{os.path.basename(args.file)}: allocators and options"
    return draw_tuned(choice, title, stem, parse_formats(kind or "png"))


# -- JSON --------------------------------------------------------------------------------------


def _row_as_json(choice: Choice, one: OptionSet, program: Program) -> dict[str, Any]:
    from steve.allocstats.medians import median
    from steve.tune.measure import ENDED

    bench = choice.whole
    held_out = choice.change(choice.held_out, one) if choice.holds_out else None
    environment = program.environment(one)
    return {
        "allocator": one.allocator.name,
        "options": dict(one.settings),
        "environment": None if environment is None else one.shell(environment),
        "resident": bench.resident(one, choice.reference, choice.goal).as_dict(),
        "peak_resident": bench.resident(one, choice.reference).as_dict(),
        "ended_resident": bench.resident(one, choice.reference, ENDED).as_dict(),
        "cpu_ns": median(bench.samples[one].cpu).as_dict(),
        "p99_ns": median(bench.samples[one].p99).as_dict() if bench.samples[one].p99 else None,
        "page_faults": median(bench.samples[one].faults).value,
        "ratio": bench.ratio(one, choice.reference, choice.goal).as_dict(),
        "held_out": held_out.as_dict() if held_out else None,
        "verdict": choice.verdict(one),
    }


def _as_json(args: argparse.Namespace, result: Result) -> dict[str, Any]:
    choice, found = result.choice, result.choice.found
    one = choice.recommended
    better = result.verification.better_than(one, choice.goal) if result.verification else None
    return {
        "file": args.file,
        "goal": choice.goal,
        "reference": choice.reference.name,
        "program": result.program.as_dict(),
        "recommended": {**_row_as_json(choice, one, result.program), "calls": one.calls(), "timed": one.timed}
        if choice.judged
        else None,
        "suggested": {"threads": found.hints.threads, "large_freed_bytes": found.hints.large_freed},
        "rows": [_row_as_json(choice, row, result.program) for row in choice.rows],
        "held_out_part": choice.held_out_name or None,
        "best_of_search": found.finalists[0].name if found.finalists else None,
        "tried": found.tried,
        "not_tried": [row.name for row in choice.not_tried],
        "not_replayed": [row.name for row in choice.not_replayed],
        "no_effect": found.without_effect(),
        "unusable": {row.name: reason for row, reason in found.unusable.items()},
        "verified": [check.as_dict() for check in result.verification.checks] if result.verification else [],
        "not_verified": (result.verification.obstacle or None) if result.verification else None,
        "program_runs": [row.as_dict() for row in result.verification.ranking] if result.verification else [],
        "better_in_program": better[0].options.name if better else None,
        "program_not_run": {one.name: why for one, why in result.verification.not_run.items()}
        if result.verification
        else {},
        "figure": result.figure,
    }


def _verification(args: argparse.Namespace, replay: Replay, choice: Choice, program: Program) -> Verification:
    """What the program itself shows. What fails is its obstacle: what the replays found takes minutes, and is worth showing."""
    from steve.tune.verify import Verification, verify

    defaults = [one for one in choice.rows if one.is_default] if args.verify_all else None
    options = (choice.reference, choice.contender)
    with Progress("tune --verify", args.quiet, "runs of the program") as progress:
        try:
            return verify(replay, args.verify, program, choice.whole, *options, args.goal, defaults, progress)
        except SteveError as error:
            return Verification(obstacle=str(error).removeprefix("--verify: "))


def run(args: argparse.Namespace) -> int:
    """Exit status 0; 1 if --verify did not confirm the prediction, or could not check it."""
    from steve.allocstats.replay import Replay
    from steve.tune.budget import Budget

    if args.verify_all and not args.verify:
        raise UsageError("--verify-all needs --verify=COMMAND, which runs the program")
    replay = Replay()
    budget = Budget(args.replays, counted=True) if args.replays else Budget(args.budget)
    with scratch_folder("steve-tune-") as folder, Progress("tune", args.quiet, "replays") as progress:
        choice, program = _measured(args, replay, budget, folder, lambda: progress(budget.replays, args.replays or 0))
    result = Result(choice, program, duration=args.duration)
    if args.verify and choice.contender == choice.reference:
        note(NAME, f"--verify: nothing to check: only {choice.reference.name} was replayed")
    elif args.verify:
        result.verification = _verification(args, replay, choice, program)
    result.figure = _draw(args, choice)
    for one, reason in choice.found.unusable.items():
        note(NAME, f"cannot be used: {one.name}: {reason}", args.quiet)
    print(json.dumps(_as_json(args, result), indent=2) if args.json else text_of(result))
    return 0 if result.verification is None or result.verification.confirmed else 1
