"""steve sysprof: folded stacks, or counts by VM state, from a file of LuaJIT's sampling profiler.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
from typing import Any

from steve.profilers import files
from steve.terminal import arguments
from steve.trace import source
from steve.system.messages import complain
from steve.system.errors import UsageError
from steve.terminal.progress import Progress
from steve.system.output import Output

NAME = "sysprof"
HELP = "fold the stacks of a sampling profile, as luajit-parse-sysprof does"
EXAMPLES = """\
FILE is a file of sysprof (version 2 or 1) or a memtrace recorded with --sample-stacks.
Folded stacks are lines `root;...;leaf N`, with C and Lua frames in one stack, for flamegraph.pl, speedscope and
`steve flame`. Samples of a memtrace are weighted by instructions, those of ljtrace run by nanoseconds of
CPU time.

examples:
  steve sysprof sysprof.bin -o app.folded && steve flame app.folded
  steve sysprof sysprof.bin --states
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "file of sysprof, or memtrace with samples; - is standard input", (arguments.SYSPROF,))
    arguments.add_output(parser, "the default")
    parser.add_argument("--states", action="store_true", help="count samples by VM state, not by stack")
    parser.add_argument("--leaf", action="store_true", help="only the innermost frame of each stack")
    parser.add_argument(
        "--mode",
        choices=("default", "leaf", "callgraph"),
        help="the profiler's own names: default is --states, leaf is --leaf, callgraph is whole "
        "stacks (the default)",
    )
    arguments.add_json(parser)


def open_profile(path: str) -> Any:
    """Open a file of sysprof. Raises StreamError."""
    from steve.profilers.sysprof.reader import SysprofFile

    return SysprofFile(files.contents(path), files.name_of(path))


def fold_file(path: str, leaf: bool = False) -> tuple[dict[tuple[str, ...], int], object]:
    """The samples of a file of sysprof: (counts by stack, None or the error that ended reading early). leaf: reduce
    each stack to its innermost frame."""
    from steve.profilers.sysprof.fold import Folder, add

    file, folded = open_profile(path), {}  # type: Any, dict[tuple[str, ...], int]
    folder = Folder(file.symbols)
    for sample in file.samples():
        stack = folder.stack(sample)
        add(folded, stack[-1:] if leaf else stack)
    if file.problem is not None:
        complain(NAME, f"{file.problem}; the result covers what comes before it")
    return folded, file.problem


def count_states(path: str) -> tuple[dict[str, int], object]:
    """The samples of a file of sysprof: (counts by VM state, None or the error that ended reading early)."""
    from steve.profilers.sysprof.samples import STATES

    file, counts = open_profile(path), dict.fromkeys(STATES, 0)
    for sample in file.samples():
        counts[STATES[sample.state]] += 1
    if file.problem is not None:
        complain(NAME, f"{file.problem}; the result covers what comes before it")
    return counts, file.problem


def states_text(counts: dict[str, int], as_json: bool) -> str:
    """Counts by VM state, as a table or as JSON."""
    if as_json:
        return json.dumps(counts, indent=1) + "\n"
    total = max(sum(counts.values()), 1)
    return "".join(f"{state:<8}{n:>10}{100 * n / total:>8.2f} %\n" for state, n in counts.items())


def from_trace(args: argparse.Namespace, out: Output) -> int:
    """Write the samples of a memtrace, by weight; return the exit status."""
    from steve.profilers.sysprof import traced

    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        found = traced.collect(trace, progress)
    if args.states:
        out.write(states_text(traced.states(found), args.json))
    else:
        stacks: dict[tuple[str, ...], int] = {}
        for stack, weight in traced.folded(trace, found).items():
            key = stack[-1:] if args.leaf else stack
            stacks[key] = stacks.get(key, 0) + weight
        out.write(folded_text(stacks, args.json))
    return source.verdict(NAME, trace)


def from_profile(args: argparse.Namespace, out: Output) -> int:
    """Write the samples of a file of sysprof; return the exit status."""
    if args.states:
        counts, problem = count_states(args.file)
        out.write(states_text(counts, args.json))
    else:
        folded, problem = fold_file(args.file, args.leaf)
        out.write(folded_text(folded, args.json))
    return 1 if problem is not None else 0


def folded_text(folded: dict[tuple[str, ...], int], as_json: bool) -> str:
    """Samples by stack, as folded stacks or as JSON."""
    from steve.export.folded import lines

    if as_json:
        rows = [{"stack": stack, "samples": n} for stack, n in sorted(folded.items())]
        return json.dumps(rows, indent=1) + "\n"
    return "".join(lines(sorted(folded.items())))


def set_mode(args: argparse.Namespace) -> None:
    """Translate --mode to --states, --leaf or neither."""
    if args.mode and (args.states or args.leaf):
        raise UsageError("--mode means the same as --states and --leaf; give only one of them")
    args.states, args.leaf = args.states or args.mode == "default", args.leaf or args.mode == "leaf"


def run(args: argparse.Namespace) -> int:
    set_mode(args)
    if args.states and args.leaf:
        raise UsageError("--states counts states, --leaf counts frames; give only one of them")
    with Output(args.output or "-") as out:
        return from_profile(args, out) if files.is_profile(args.file) else from_trace(args, out)
