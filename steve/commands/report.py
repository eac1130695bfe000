"""steve report: one HTML file that summarises a trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
from typing import Any

from steve.analysis.blocks import WHERE_HELP, Blocks, add_choice
from steve.parallel import processes
from steve.system import samples
from steve.system.errors import UsageError
from steve.system.output import Output, check_ending, wrote
from steve.system.messages import note
from steve.trace import policy

NAME = "report"
HELP = "write one self-contained HTML file about a trace"
EXAMPLES = f"""\
The page shows totals with their definitions, memory over time, lifetimes, size x lifetime, the allocation sites,
findings with their thresholds and, with --allocstats, a comparison of allocators. It loads nothing from the network
and is never larger than 3 MiB. For a truncated trace, the report covers the events before the cut; the command prints
a warning and exits with status 1. With --where or marks, the report covers only the selected blocks, as if there were
no others.

{WHERE_HELP}
examples:
  steve report app.ljt
  steve report app.ljt -o app.html --allocstats app.ljt-ops-*-allocstats --film app.ljt-ops-animation.avi
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="TRACE", help="memtrace, binary or classic text; - is standard input")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to FILE; - is standard output (default: TRACE.html; with --json: -)",
    )
    parser.add_argument(
        "--allocstats",
        metavar="FILE",
        nargs="+",
        default=[],
        help="results of `steve allocstats` for this program",
    )
    parser.add_argument("--film", metavar="FILM", help="show stills of this film of `steve animate`")
    parser.add_argument(
        "--sites", metavar="N", type=int, default=60, help="greatest number of sites (default %(default)s)"
    )
    parser.add_argument("--salvage", action="store_true", help="skip damaged chunks and continue after them")
    parser.add_argument("--json", action="store_true", help="write the numbers as JSON instead of the page")
    add_choice(parser)
    processes.add_arguments(parser)
    policy.add_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _as_json(data: Any) -> dict[str, Any]:
    from steve.report.findings import findings

    sites = [{"stack": s.stack, "name": s.name, "frames": s.frames, **s.tally} for s in data.sites]
    return {
        **{key: value for key, value in samples.facts({}).items() if key != "standard_errors"},
        "trace": data.path,
        "info": data.info,
        "complete": data.complete,
        "dropped": data.dropped,
        "dropped_at_least": data.dropped_at_least,
        "totals": data.totals,
        "heaps": [{"name": name, **tally} for name, tally in data.heaps],
        "sites": sites,
        "findings": [
            {"finding": f.key, "title": f.title, "rule": f.rule, "blocks": f.blocks, "bytes": f.bytes, "share": f.share}
            for f in findings(data)
        ],
        "lifetimes": {
            "blocks": data.map_blocks.sum(axis=0).tolist(),
            "bytes": data.map_bytes.sum(axis=0).tolist(),
        },
    }


def _write(args: argparse.Namespace, data: Any) -> bool:
    """Write the page. False if a result of --allocstats is left out because its allocator failed."""
    from steve.report.comparison import compare
    from steve.report.filmstrip import filmstrip
    from steve.report.page import render

    comparison = compare(args.allocstats) if args.allocstats else None
    for warning in comparison.warnings if comparison else []:
        note(NAME, warning, args.quiet)
    page = render(data, comparison, filmstrip(args.film) if args.film else None)
    path = args.output or ("-" if args.file == "-" else args.file + ".html")
    with Output(path) as out:
        out.write_bytes(page)
    wrote(NAME, path, args.output, "for any browser", args.quiet)
    return comparison is None or not comparison.failed


def run(args: argparse.Namespace) -> int:
    """Exit status 0, or 1 if the trace is truncated or damaged or an allocator failed; the report is written in any
    case."""
    from steve.report.collect import collect

    if args.json:
        check_ending(args.output, "--json writes JSON", ".json")
        if args.allocstats or args.film:
            raise UsageError("--allocstats and --film are shown on the page; with --json they have no effect")
    else:
        check_ending(args.output, "the report is a page of HTML", ".html", ".htm")
    if not 0 <= args.sites <= 2000:
        raise UsageError("--sites: give a number from 0 to 2000")
    chosen = Blocks(NAME, args)
    data = collect(chosen, args.sites)
    whole = True
    if args.json:
        with Output(args.output or "-") as out:
            out.write(json.dumps(_as_json(data), indent=2) + "\n")
    else:
        whole = _write(args, data)
    if data.problem is not None:
        note(NAME, f"{data.problem}; the report covers what comes before it")
    return 1 if data.problem is not None or data.stats["damaged_chunks"] or not whole else 0
