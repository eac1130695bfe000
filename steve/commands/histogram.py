"""steve histogram: lifetimes of blocks, counted in accesses, as data files and plots.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
import os
import sys
from typing import Any

from steve.parallel import processes
from steve.terminal import arguments
from steve.trace import missing, source
from steve.analysis.blocks import WHERE_HELP, Blocks, add_choice
from steve.system.errors import UsageError
from steve.system.output import Output
from steve.system.messages import note
from steve.terminal.progress import Progress

NAME = "histogram"
HELP = "show how long blocks live, in accesses"
PARTS = ("json-ops", "lifetime", "statistics", "plots")
EXAMPLES = f"""\
FILE is an ops file or a memtrace. The own accesses of a block are those to it; its other accesses are those to any
other block while it lives. Micro lifetime = other / own; macro lifetime = (own + other) / all accesses.
The command writes these files, where STEM is FILE without -ops:
  STEM-json-ops     the handle of each operation, a JSON list
  STEM-lifetime     {{"mod-op-count": accesses, "lifetime-ops": {{"HANDLE": [own, other], ...}}}}
  STEM-statistics   the blocks by micro lifetime, then by macro lifetime
  STEM-macro-histogram-LOW-HIGH.png   six ranges of macro lifetime in thousandths, 75 bins each

--where, --from and --to work for memtraces only. The result is that of the operations that `steve ops` would write
with the same options.

{WHERE_HELP}
examples:
  steve histogram app-ops
  steve histogram --parts plots -o pictures/app app.ljt
  steve histogram --json --parts none app-ops
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser, "ops file or memtrace; - is standard input", (arguments.OPS,))
    add_choice(parser)
    parser.add_argument("-o", "--output", metavar="STEM", help="common beginning of the names of the files")
    parts = parser.add_argument(
        "--parts",
        metavar="LIST",
        type=part_list,
        default=PARTS,
        help=f"which files to write, of {','.join(PARTS)}, or none (default: all)",
    )
    arguments.suggest(parts, (*PARTS, "none"), are_list=True)
    parser.add_argument(
        "--compat", action="store_true", help="count a block without own accesses as having one, as the first Steve did"
    )
    arguments.add_json(parser)
    processes.add_arguments(parser)


def part_list(text: str) -> tuple:
    """argparse type of --parts."""
    parts = tuple(part for part in text.split(",") if part != "none")
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"'{part}' is none of {', '.join(PARTS)}, none")
    return parts


def stem_of(args: argparse.Namespace) -> str:
    """The common beginning of the names of the result files."""
    if args.output:
        return args.output
    if args.file == "-" and args.parts:
        raise UsageError("name the files with -o STEM when reading standard input")
    return args.file.removesuffix("-ops")


def lifetimes_of(args: argparse.Namespace, chosen: Blocks, operations: source.Operations) -> tuple[Any, tuple]:
    """Read all operations, with -j in parallel: (the source, the result of steve.kernels._totals.Lifetimes)."""
    from steve.kernels import _totals

    if not chosen.is_whole() or not operations.is_ops():
        found = chosen.over_trace(_totals.Lifetimes)
        return chosen.trace, found
    file = operations.open()
    with Progress(NAME, args.quiet) as progress:
        return file, _totals.lifetimes_of(file, progress)


def run(args: argparse.Namespace) -> int:
    from steve.analysis.lifetimes import RANGES, Lifetimes

    stem = stem_of(args)
    chosen = Blocks(NAME, args, again=True)
    operations = chosen.operations()
    last, (accesses, unmatched, blocks) = lifetimes_of(args, chosen, operations)
    lifetimes = Lifetimes(accesses, blocks, args.compat)
    ranges = [lifetimes.histogram(low, high) for low, high in RANGES]
    files = write_files(args, stem, operations, lifetimes, ranges, unmatched)
    lacking = missing.not_recorded(last) if hasattr(last, "info") else ""
    accesses = None if lacking else accesses
    report = {"accesses": accesses, "unmatched": unmatched, "blocks": len(blocks), "ranges": ranges, "files": files}
    print(json.dumps(report, indent=2) if args.json else text(report), end="\n" if args.json else "")
    remark = source.unmatched_note(last, {"unmatched": unmatched})
    if remark:
        note(NAME, remark, args.quiet)
    return source.verdict(NAME, last)


def write_files(
    args: argparse.Namespace,
    stem: str,
    operations: source.Operations,
    lifetimes: object,
    ranges: list,
    unmatched: int,
) -> list:
    """Write the requested files; return their names."""
    files = []
    if "json-ops" in args.parts:
        files.append(write_json_ops(args, stem + "-json-ops", operations))
    if "lifetime" in args.parts:
        files.append(write_with("write_lifetime", stem + "-lifetime", lifetimes))
    if "statistics" in args.parts:
        files.append(write_with("write_statistics", stem + "-statistics", lifetimes, unmatched))
    if "plots" in args.parts:
        files += write_plots(args, stem, ranges)
    return files


def write_json_ops(args: argparse.Namespace, path: str, operations: source.Operations) -> str:
    from steve.kernels import _ops

    with Output(path) as out, Progress(f"{NAME}: handles", args.quiet) as progress:
        _ops.write_handles(operations.open(), out.fd, progress)
    return path


def write_with(function: str, path: str, *values: object) -> str:
    """Write a file with a function of steve.analysis.lifetimes; return its name."""
    from steve.analysis import lifetimes

    with Output(path) as out:
        getattr(lifetimes, function)(out, *values)
    return path


def write_plots(args: argparse.Namespace, stem: str, ranges: list) -> list:
    """Write a picture for each range that contains blocks; return their names."""
    from steve.analysis.lifetimes import Pictures, range_name

    files: list = []
    pictures = None
    for histogram in ranges:
        low, high = histogram["low"], histogram["high"]
        if histogram["blocks"] == 0:
            note(NAME, f"no block in the range {low:g} to {high:g}, so no picture of it", args.quiet)
            continue
        pictures = pictures or Pictures(max(max(each["bins"]) for each in ranges))
        path = f"{stem}-macro-histogram-{range_name(low, high)}.png"
        pictures.write(path, histogram, f"{os.path.basename(stem)}: macro lifetimes from {low:g} to {high:g}")
        files.append(path)
    return files


def text(report: dict) -> str:
    """The report as tables."""
    from steve.terminal.tables import columns, facts, number, render

    recorded = "not recorded" if report["accesses"] is None else number(report["accesses"])
    totals = [("blocks", number(report["blocks"])), ("accesses", recorded)]
    parts = [
        facts("Lifetimes", totals),
        columns(
            "Macro lifetime",
            ("from", "to", "blocks"),
            [(f"{r['low']:g}", f"{r['high']:g}", number(r["blocks"])) for r in report["ranges"]],
        ),
    ]
    if report["files"]:
        parts.append(facts("Files", [(name,) for name in report["files"]]))
    return render(parts, sys.stdout.isatty())
