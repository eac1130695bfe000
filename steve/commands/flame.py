"""steve flame: a flame graph as one SVG file.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import blocks, several
from steve.profilers import files
from steve.terminal import arguments
from steve.trace import policy, source
from steve.system.errors import SteveError, UsageError
from steve.system.output import Output, check_ending, wrote
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.flame.tree import Folded, Stacks

NAME = "flame"
SAMPLES = "samples"
FOLDED = ".folded"
HELP = "draw a flame graph of allocations or samples"
READS_SAMPLES = True
EXAMPLES = f"""\
FILE is a memtrace, a file of sysprof, or a file with folded stacks, whose name ends in .folded. Of a memtrace, its
samples are drawn if it was recorded with --sample-stacks, else its allocations; --metric overrides that. The result,
FILE.svg by default, needs only a browser: a click zooms, / searches. The outermost frames are at the top; frames
with the same caller are sorted by name. Several files, or a folder of memtraces, are drawn as one, which -o names.

{blocks.WHERE_HELP}
examples:
  steve flame app.ljt --metric peak_space
  luajit-parse-sysprof sysprof.bin -o s.folded && steve flame s.folded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from steve.export.profile import BY_NAME

    blocks.add_arguments(parser, (arguments.SYSPROF, arguments.FOLDED), several=True)
    parser.set_defaults(apart=False)
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


class Measured(NamedTuple):
    """The stacks to draw, what their weights measure, the unit of these, and the exit status."""

    stacks: Stacks
    what: str
    unit: str
    status: int


def is_whole(args: argparse.Namespace) -> bool:
    """Are no blocks of memtraces selected?"""
    return (args.where, args.begin, args.end) == (None, None, None)


def check_whole(args: argparse.Namespace) -> None:
    if not is_whole(args):
        raise UsageError("--where, --from and --to select blocks of a memtrace; samples have none")


def is_trace(path: str) -> bool:
    """Is it neither a file of sysprof nor one of folded stacks?"""
    return not path.endswith(FOLDED) and not files.is_profile(path)


def of_folded(path: str) -> tuple[Folded, int]:
    """The weights by stack of a file with folded stacks or of sysprof, and the exit status."""
    from steve.commands.sysprof import fold_file
    from steve.flame.tree import parse

    if path.endswith(FOLDED):
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return parse(file, path), 0
    folded, problem = fold_file(path)
    return folded, 1 if problem else 0


def of_profiles(args: argparse.Namespace) -> Measured:
    """The samples of files that are no memtraces."""
    from steve.flame.tree import added, sorted_stacks

    check_whole(args)
    found = [of_folded(path) for path in args.files]
    stacks = sorted_stacks(added(folded for folded, _ in found))
    return Measured(stacks, SAMPLES, SAMPLES, max(status for _, status in found))


def have_samples(args: argparse.Namespace) -> bool:
    """Were all traces recorded with samples? False for standard input, which cannot be read twice."""
    return "-" not in args.files and is_whole(args) and all(has_samples(args, path) for path in args.files)


def has_samples(args: argparse.Namespace, path: str) -> bool:
    trace = source.open_trace(several.of_one(args, path))
    trace.probe()
    return "sample_stacks" in trace.info()


def of_samples(args: argparse.Namespace) -> Measured:
    """The samples of memtraces."""
    from steve.analysis.totals import time_unit
    from steve.flame.tree import added, sorted_stacks
    from steve.profilers.sysprof import traced

    check_whole(args)
    folded, units, status, remark = [], set(), 0, ""
    for path in args.files:
        trace = source.open_trace(several.of_one(args, path))
        with Progress(NAME, args.quiet) as progress:
            folded.append(traced.folded(trace, traced.collect(trace, progress)))
        units.add(time_unit(trace))
        status, remark = max(status, source.verdict(NAME, trace)), trace.sample.remark
    if len(units) > 1:
        raise SteveError(f"the files have samples in {' and in '.join(sorted(units))}, which are no sum")
    return Measured(sorted_stacks(added(folded)), SAMPLES + remark, units.pop(), status)


def of_allocations(args: argparse.Namespace) -> Measured:
    """The allocations of memtraces."""
    from steve.export.folded import Folds
    from steve.export.joined import profile_of
    from steve.export.profile import BY_NAME
    from steve.flame import tree

    inputs, metric = several.Files(NAME, args), BY_NAME[args.metric or "alloc_space"]
    folds = Folds(profile_of(inputs), metric)
    stacks = tree.Stacks(folds, folds.total)
    return Measured(stacks, metric.name + inputs.sample.remark, metric.unit, inputs.verdict())


def stacks_of(args: argparse.Namespace) -> Measured:
    """The stacks to draw, from whichever kind of files the arguments name."""
    of_memtraces = {is_trace(path) for path in args.files}
    if len(of_memtraces) > 1:
        raise UsageError(
            "memtraces, and files of sysprof or with folded stacks, measure different things; draw them apart"
        )
    if False in of_memtraces:
        return of_profiles(args)
    if args.metric == SAMPLES or (args.metric is None and have_samples(args)):
        return of_samples(args)
    return of_allocations(args)


def target_of(args: argparse.Namespace) -> str:
    """The name of the drawing."""
    if args.output is None and len(args.files) > 1:
        raise UsageError("several files make one drawing; name it with -o")
    return args.output or ("-" if args.files[0] == "-" else args.files[0] + ".svg")


def run(args: argparse.Namespace) -> int:
    from steve.flame.draw import Drawing

    check_ending(args.output, "a flame graph is an SVG file", ".svg")
    target = target_of(args)
    found = stacks_of(args)
    name = os.path.basename(args.files[0]) if len(args.files) == 1 else f"{len(args.files)} files"
    drawing = Drawing(found.stacks, args.title or f"{name}: {found.what}", found.unit)
    with Output(target) as out:
        for piece in drawing.svg():
            out.write(piece)
    wrote(NAME, target, args.output, "for any browser", args.quiet)
    return found.status
