"""steve flame: a flame graph as one SVG file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, TypeAlias

from steve.analysis import blocks
from steve.profilers import files
from steve.terminal import arguments
from steve.trace import policy, source
from steve.system.errors import UsageError
from steve.system.output import Output, check_ending, wrote
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.flame.tree import Stacks

NAME = "flame"
SAMPLES = "samples"
HELP = "draw a flame graph of allocations or samples"
READS_SAMPLES = True
EXAMPLES = f"""\
FILE is a memtrace, a file of sysprof, or a file with folded stacks, whose name ends in .folded. Of a memtrace, its
samples are drawn if it was recorded with --sample-stacks, else its allocations; --metric overrides that. The result,
FILE.svg by default, needs only a browser: a click zooms, / searches. The outermost frames are at the top; frames
with the same caller are sorted by name.

{blocks.WHERE_HELP}
examples:
  steve flame app.ljt --metric peak_space
  luajit-parse-sysprof sysprof.bin -o s.folded && steve flame s.folded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from steve.export.profile import BY_NAME

    blocks.add_arguments(parser, (arguments.SYSPROF, arguments.FOLDED))
    policy.add_arguments(parser)
    arguments.add_output(parser, "default: FILE.svg")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        choices=[SAMPLES, *BY_NAME],
        help="for a memtrace: samples, " + ", ".join(BY_NAME) + " (default: samples if it "
        "has any, else alloc_space)",
    )
    parser.add_argument("--title", metavar="TEXT", help="the heading (default: FILE and metric)")


Measured: TypeAlias = "tuple[Stacks, str, str, int]"  # stacks; what their weights measure; the unit; the exit status


def of_folded(args: argparse.Namespace) -> Measured:
    """The stacks of a file with folded stacks."""
    from steve.flame.tree import parse, sorted_stacks

    with open(args.file, encoding="utf-8", errors="backslashreplace") as file:
        return sorted_stacks(parse(file, args.file)), "samples", "samples", 0


def of_sysprof(args: argparse.Namespace) -> Measured:
    """The samples of a file of sysprof."""
    from steve.commands.sysprof import fold_file
    from steve.flame.tree import sorted_stacks

    folded, problem = fold_file(args.file)
    return sorted_stacks(folded), "samples", "samples", 1 if problem else 0


def has_samples(args: argparse.Namespace) -> bool:
    """Was the trace recorded with samples? False for standard input, which cannot be read twice."""
    if args.file == "-" or (args.where, args.begin, args.end) != (None, None, None):
        return False
    trace = source.open_trace(args)
    trace.probe()
    return "sample_stacks" in trace.info()


def of_samples(args: argparse.Namespace) -> Measured:
    """The samples of a memtrace."""
    from steve.analysis.totals import time_unit
    from steve.flame.tree import sorted_stacks
    from steve.profilers.sysprof import traced

    if (args.where, args.begin, args.end) != (None, None, None):
        raise UsageError("--where, --from and --to select blocks of a memtrace; samples have none")
    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        found = traced.collect(trace, progress)
    return (
        sorted_stacks(traced.folded(trace, found)),
        SAMPLES + trace.sample.remark,
        time_unit(trace),
        source.verdict(NAME, trace),
    )


def of_trace(args: argparse.Namespace) -> Measured:
    """The samples or allocations of a memtrace."""
    if args.metric == SAMPLES or (args.metric is None and has_samples(args)):
        return of_samples(args)
    return of_allocations(args)


def of_allocations(args: argparse.Namespace) -> Measured:
    """The allocations of a memtrace."""
    from steve.export.folded import Folds
    from steve.export.profile import BY_NAME, Profile
    from steve.flame import tree

    chosen, metric = blocks.Blocks(NAME, args), BY_NAME[args.metric or "alloc_space"]
    folds = Folds(Profile.of(chosen), metric)
    return tree.Stacks(folds, folds.total), metric.name + chosen.sample.remark, metric.unit, chosen.verdict()


def stacks_of(args: argparse.Namespace) -> Measured:
    """The stacks to draw, from whichever kind of file the arguments name."""
    if not args.file.endswith(".folded") and not files.is_profile(args.file):
        return of_trace(args)
    if (args.where, args.begin, args.end) != (None, None, None):
        raise UsageError("--where, --from and --to select blocks of a memtrace; samples have none")
    return of_folded(args) if args.file.endswith(".folded") else of_sysprof(args)


def run(args: argparse.Namespace) -> int:
    from steve.flame.draw import Drawing

    check_ending(args.output, "a flame graph is an SVG file", ".svg")
    stacks, what, unit, status = stacks_of(args)
    drawing = Drawing(stacks, args.title or f"{os.path.basename(args.file)}: {what}", unit)
    target = args.output or ("-" if args.file == "-" else args.file + ".svg")
    with Output(target) as out:
        for piece in drawing.svg():
            out.write(piece)
    wrote(NAME, target, args.output, "for any browser", args.quiet)
    return status
