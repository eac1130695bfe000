"""steve graphs: figures and ranking tables from allocstats files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
from typing import Any

from steve.allocstats.parse import AllocStats, failure, read_allocstats, read_results
from steve.allocstats.ranking import Ranking, compat_tables, honest_tables, unranked
from steve.allocstats.result import summarise
from steve.allocstats.rounds import combine_rounds
from steve.system.errors import UsageError
from steve.plots.allocators import draw_multiple, draw_single
from steve.plots.style import FORMATS, parse_formats, stem_of
from steve.terminal import arguments
from steve.terminal.aligned import aligned
from steve.terminal.units import human_bytes
from steve.plots.ranking_tables import KINDS, render_tables
from steve.system.messages import note

NAME = "graphs"
HELP = "draw allocstats files and rank the allocators"
EXAMPLES = """\
One FILE gives plot-<driver>-<ops>.png; APP and several files of one program give APP.png and two tables,
Speed (time of an operation) and Space (largest block that can still be allocated, in percent of the heap). At each
data point the n allocators get ranks j = 0 .. n-1. With m data points:
  penalty(c)    100 * sum j / (m*n)
  penalty(w)    100 * sum j*|x-best|/best / (m*n)
  best, worst   percent of the points at which the allocator came first and last
  average, median  of x
  points        percent of the points the allocator reached
Several files of one allocator, from repeated runs with the same ops file and heap, are combined: the numbers are
medians, and the figure has bands, the 95% intervals. A third table has the time of an operation in whole replays, in
which single operations are not timed: the median of the rounds, or of the passes of one file, with its interval.

In the panel of times, the grey area is below the step of the clock. Single operations are not drawn there.

By default an allocator is ranked only at the points that it reached, and equal values share their ranks. --compat
uses the first Steve's rules: short files are padded with 0, and equal values keep the order of the files.

If an allocator failed (crashed, hung, lost contents), its file is reported and left out, the others are drawn and
ranked, and the exit status is 1. An allocator that ran out of memory is drawn up to that point.

examples:
  steve graphs app.ljt-ops-jemalloc-kill0-allocstats
  steve graphs app app.ljt-ops-*-kill0-allocstats --format png,svg --tables markdown
  steve graphs app round*/app.ljt-ops-*-kill0-allocstats
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    names = parser.add_argument(
        "names",
        metavar="FILE | APP FILE",
        nargs="+",
        help="one allocstats file; or a name for the figure, and the files to compare",
    )
    arguments.reads(names, arguments.RESULT)
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="a folder, or the name of the figure; an ending .png, .svg or .pdf selects the format",
    )
    formats = parser.add_argument(
        "--format", metavar="LIST", help="png, svg, pdf, or several separated by commas (default png)"
    )
    arguments.suggest(formats, FORMATS, are_list=True)
    parser.add_argument("--tables", choices=KINDS, default="text", help="form of the tables (default %(default)s)")
    parser.add_argument("--compat", action="store_true", help="rank by the first Steve's rules")
    parser.add_argument("--json", action="store_true", help="print figures, summaries and tables as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _target(args: argparse.Namespace, default: str) -> tuple[str, list[str]]:
    """The name of the figure without its ending, and its formats."""
    output = args.output
    if output is None or os.path.isdir(output) or output.endswith("/"):
        stem, ending = os.path.join(output or "", default), None
    else:
        stem, ending = stem_of(output)
    return stem, parse_formats(args.format) if args.format else [ending or "png"]


def _warn(files: list[AllocStats], quiet: bool) -> None:
    for warning in (text for stats in files for text in stats.warnings):
        note(NAME, warning, quiet)


def _replays(files: list[AllocStats]) -> str:
    """A table of the time of an operation in whole replays, the shortest first; "" if no file has it."""
    facts = [one for one in map(summarise, files) if one.replay_interval]
    if not facts:
        return ""
    rows = [
        [one.allocator, *(f"{value:,.1f}" for value in one.replay_interval or []), f"{one.rounds}"]
        for one in sorted(facts, key=lambda one: one.replay_interval or [])
    ]
    head = ["allocator", "median ns", "from", "to (95%)", "files"]
    return f"\nReplays (time of an operation where none is timed singly)\n{aligned([head, *rows])}\n"


def _report(args: argparse.Namespace, figures: list[str], files: list[AllocStats], tables: list[Ranking]) -> None:
    """Print the tables and the names of the figures."""
    if args.json:
        value: dict[str, Any] = {
            "figures": figures,
            "files": [summarise(stats).as_dict() for stats in files],
            "tables": [table.as_dict() for table in tables],
        }
        print(json.dumps(value, indent=2))
        return
    if tables and not args.quiet:
        print(render_tables(tables, args.tables), end="")
        if args.tables == "text":
            print(_replays(files), end="")
    for path in figures:
        note(NAME, f"wrote {path}", args.quiet)


def _single(args: argparse.Namespace) -> int:
    files = [read_allocstats(args.names[0])]
    _warn(files, args.quiet)
    reason = failure(files[0])
    if reason is not None:
        note(NAME, f"{args.names[0]}: {reason}; the figure shows what comes before")
    stem, formats = _target(args, f"plot-{files[0].driver}-{files[0].opsfile}")
    _report(args, draw_single(files[0], stem, formats), files, [])
    return 1 if reason is not None else 0


def _check_app(app: str) -> None:
    if app.endswith("-allocstats") and os.path.isfile(app):
        raise UsageError(f"the first of several arguments is the name of the figure, but {app} is a result file")


def _remarks(files: list[AllocStats], args: argparse.Namespace) -> None:
    heaps = {stats.heap_size for stats in files}
    if len(heaps) > 1:
        sizes = f"{human_bytes(min(heaps))} to {human_bytes(max(heaps))}"
        note(NAME, f"the heaps differ ({sizes}); Space is in percent of each allocator's own heap", args.quiet)
    for sentence in unranked(files) if not args.compat else []:
        note(NAME, sentence, args.quiet)


def _multiple(args: argparse.Namespace) -> int:
    app = args.names[0]
    _check_app(app)
    files, left_out = read_results(args.names[1:])
    for sentence in left_out:
        note(NAME, sentence)
    files = files if args.compat else combine_rounds(files)
    _warn(files, args.quiet)
    _remarks(files, args)
    tables = compat_tables(files) if args.compat else honest_tables(files)
    stem, formats = _target(args, app)
    _report(args, draw_multiple(os.path.basename(app), files, stem, formats), files, tables)
    return 1 if left_out else 0


def run(args: argparse.Namespace) -> int:
    """Exit status 0 if every figure is written and no allocator failed, else 1."""
    return _single(args) if len(args.names) == 1 else _multiple(args)
