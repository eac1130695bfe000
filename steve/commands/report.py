"""steve report: one HTML file that summarises a trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
import webbrowser
from functools import partial
from pathlib import Path
from typing import Any

from steve.analysis import several
from steve.analysis.closed import has_lua
from steve.analysis.totals import cut_short, not_freed
from steve.analysis.blocks import WHERE_HELP, Blocks, add_choice, is_whole
from steve.commands import pins
from steve.parallel import processes
from steve.system.errors import UsageError
from steve.system.output import Output, check_ending, wrote
from steve.system.messages import note
from steve.terminal import arguments
from steve.trace import earlier_code, policy, rollups, source
from steve.trace.relatives import are_of_one_program

NAME = "report"
MOST_NAMED = 5  # files without their text
HELP = "write one self-contained HTML file about a trace, or about what changed from one to another"
READS_SAMPLES = True
EXAMPLES = f"""\
The page shows totals with their definitions, a part to explore (flame graph, tree and tables of any window of the run),
memory over time, lifetimes, size x lifetime, the allocation sites, findings with their thresholds and, with
--allocstats, a comparison of allocators. It loads nothing from the network and is never larger than 5 MiB. For a
truncated trace, the report covers the events before the cut; the command prints a warning and exits with status 1. With
--where or marks, the report covers only the selected blocks, as if there were no others.

With a second trace, the page shows what changed from the first to it: totals, both timelines over each other,
aligned at the marks that both have, a flame graph with what grew in red and what shrank in blue, and tables by stack,
function, line, file, object, type and thread. The numbers are those of `steve diff`.

With a folder or more than two traces, or with two of which one is the other's forked child, or that were attached to
processes with the same command at the same time, the page is about all of them, as processes of one program: their
totals, a table of the processes, what holds what grew in Lua between their last two snapshots, what `steve findings
--by line,process` finds, the lines that allocate and in how many processes, and flame graphs. It has no timeline,
since the clocks of processes are not known well enough. With --changes, two such traces are compared.

{WHERE_HELP}
examples:
  steve report app.ljt --open
  steve report before.ljt after.ljt -o changes.html
  steve report nginx.*.ljt -o nginx.html
  steve report app.ljt -o app.html --allocstats app.ljt-ops-*-allocstats --film app.ljt-ops-animation.avi
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.reads(
        parser.add_argument(
            "file",
            metavar="TRACE",
            help="memtrace, binary or classic text; - is standard input; or a folder of .ljt files of one program's processes",
        ),
        arguments.TRACE,
        or_folder=True,
    )
    arguments.reads(
        parser.add_argument(
            "second", metavar="B", nargs="?", help="another memtrace: show what changed to it from TRACE"
        ),
        arguments.TRACE,
    )
    arguments.reads(
        parser.add_argument("more", metavar="C", nargs="*", help="more memtraces: all are processes of one program"),
        arguments.TRACE,
    )
    two = parser.add_mutually_exclusive_group()
    two.add_argument("--processes", action="store_true", help="two memtraces are of processes of one program, too")
    two.add_argument(
        "--changes", action="store_true", help="show what changed between two memtraces of one program's processes, too"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to FILE; - is standard output (default: TRACE.html, of two traces B.changes.html, of a folder "
        "FOLDER.html; with --json: -)",
    )
    results = parser.add_argument(
        "--allocstats",
        metavar="FILE",
        nargs="+",
        default=[],
        help="results of `steve allocstats` for this program",
    )
    arguments.reads(results, arguments.RESULT)
    parser.add_argument(
        "--allocator", metavar="A", help="replay on allocator A, to find sites that keep its pages in use"
    )
    arguments.reads(
        parser.add_argument("--film", metavar="FILM", help="show stills of this film of `steve animate`"),
        arguments.FILM,
    )
    parser.add_argument(
        "--sites", metavar="N", type=int, default=60, help="greatest number of sites (default %(default)s)"
    )
    parser.add_argument("--no-source", action="store_true", help="leave out the program's source files")
    parser.add_argument("--open", action="store_true", help="show the page in the browser")
    parser.add_argument(
        "-f", "--force", action="store_true", help="replace FILE even if it is the report of another trace, or none"
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
        **data.sample.facts(data.standard_errors),
        "trace": data.path,
        "info": data.info,
        "complete": data.complete,
        "dropped": data.dropped,
        "dropped_at_least": data.dropped_at_least,
        **data.not_seen,
        "totals": data.totals,
        "heaps": [{"name": name, **tally} for name, tally in data.heaps],
        "sites": sites,
        "findings": [
            {
                "finding": f.key,
                "title": f.title,
                "rule": f.rule,
                "help": f.help,
                "blocks": f.blocks,
                "bytes": f.bytes,
                "accesses": f.accesses,
                "share": f.share,
                **({"standard_errors": f.standard_errors} if f.standard_errors else {}),
            }
            for f in findings(data)
        ],
        "not_judged": data.not_judged,
        **({} if data.lua_growth is None else {"lua_growth": data.lua_growth.rows}),
        **({} if data.lua_held is None else {"lua_held": data.lua_held.rows}),
        **({} if data.resident is None else {"resident": data.resident}),
        **({} if data.by_offset is None else {"by_offset": _by_offset(data)}),
        "lifetimes": {
            "blocks": data.map_blocks.sum(axis=0).tolist(),
            "bytes": data.map_bytes.sum(axis=0).tolist(),
        },
    }


def _by_offset(data: Any) -> dict[str, Any]:
    sites = [
        {
            "stack": of.site,
            "name": data.accessed_sites[of.site].name,
            "frames": data.accessed_sites[of.site].frames,
            "accesses": of.accesses,
            "blocks": of.blocks,
            "largest": of.largest,
            "cell": of.cell,
            "fields": of.fields,
        }
        for of in data.by_offset.sites
    ]
    return {"sites": sites, "other_sites": data.by_offset.others, "why_not": data.by_offset.why_not}


def _decide(args: argparse.Namespace) -> None:
    """Set the option --processes of two traces, if they say themselves that they are of one program."""
    if args.changes and (args.more or not args.second or os.path.isdir(args.file)):
        raise UsageError("--changes compares two traces")
    if args.more or args.processes or args.changes or not args.second:
        return
    if are_of_one_program(args.file, args.second):
        args.processes = True
        note(NAME, "both traces are of one program's processes; --changes shows how the second differs", args.quiet)


def _processes(args: argparse.Namespace) -> list[str]:
    """The traces of a page about several processes; none: the page is another one."""
    if os.path.isdir(args.file):
        if args.second:
            raise UsageError("of a folder, the page is about the traces in it; `steve diff` compares two folders")
        return source.files_of(args.file)
    given = [args.file, *filter(None, [args.second]), *args.more]
    return given if args.more or args.processes else []


def _path(args: argparse.Namespace) -> str:
    """Where the page is written."""
    if os.path.isdir(args.file):
        return args.output or os.path.normpath(args.file) + ".html"
    if args.more or args.processes:
        if args.output is None:
            raise UsageError("several traces make one page; name it with -o")
        return args.output
    if args.second:
        return args.output or args.second + ".changes.html"
    return args.output or ("-" if args.file == "-" else args.file + ".html")


def _check_target(args: argparse.Namespace) -> None:
    """UsageError if the page would replace the report of another trace."""
    from steve.report.page import trace_name, trace_of_report

    path = _path(args)
    name = trace_name(args.file) + (f" to {trace_name(args.second)}" if args.second else "")
    if args.more or args.processes:
        name = f"{trace_name(args.file)} and others"
    if args.open and path == "-":
        raise UsageError("--open shows a file; name one with -o")
    other = "" if args.force else trace_of_report(path)
    if other and other != name:
        raise UsageError(f"{path}: is the report of {other}; -f replaces it, and -o names another file")


def _write(args: argparse.Namespace, page: bytes) -> None:
    """Write a page, and show it if the arguments request it."""
    path = _path(args)
    with Output(path) as out:
        out.write_bytes(page)
    wrote(NAME, path, args.output, "for any browser", args.quiet)
    if args.open and not webbrowser.open(Path(path).resolve().as_uri()):
        note(NAME, f"{path}: no browser was found to show it", args.quiet)


def _write_report(args: argparse.Namespace, data: Any) -> bool:
    """Write the page of one trace. False if a result of --allocstats is left out because its allocator failed."""
    from steve.report.comparison import compare
    from steve.report.filmstrip import filmstrip
    from steve.report.page import render

    comparison = compare(args.allocstats) if args.allocstats else None
    for warning in comparison.warnings if comparison else []:
        note(NAME, warning, args.quiet)
    _write(args, render(data, comparison, filmstrip(args.film) if args.film else None))
    return comparison is None or not comparison.failed


def _write_changes(args: argparse.Namespace) -> int:
    """Write the page of what changed between two traces; returns the exit status."""
    from steve.report import changes

    for name in ("json", "allocstats", "film", "allocator"):
        if getattr(args, name):
            hint = "; use `steve diff --json`" if name == "json" else ""
            raise UsageError(f"--{name} does not go with two traces{hint}")
    check_ending(args.output, "the report is a page of HTML", ".html", ".htm")
    _check_target(args)
    sides, status, names = [], 0, changes.Names()
    for path in (args.file, args.second):
        if path == "-" or source.is_pipe(path):
            raise UsageError(f"{path}: is read twice, so it has to be a file")
        each = argparse.Namespace(**{**vars(args), "file": path})
        found, trace = changes.side(partial(Blocks, NAME, each), names)
        sides.append(found)
        status = max(status, source.verdict(NAME, trace))
        del trace  # both are not in memory at the same time
    _write(args, changes.render(names, *sides))
    return status


def _write_processes(args: argparse.Namespace, paths: list[str]) -> int:
    """Write the page of several processes; returns the exit status."""
    from steve.commands import findings, sites, summary
    from steve.export.joined import JoinedProfile
    from steve.export.profile import Profile
    from steve.report import processes as page
    from steve.report.lua_growth import LuaGrowth, LuaHeld, lua_snapshots
    from steve.report.page import trace_name

    for name in ("json", "allocstats", "film", "allocator"):
        if getattr(args, name):
            hint = "; `steve summary --json` and `steve findings --json` have the numbers" if name == "json" else ""
            raise UsageError(f"--{name} does not go with several traces{hint}")
    check_ending(args.output, "the report is a page of HTML", ".html", ".htm")
    _check_target(args)
    if any(path == "-" or source.is_pipe(path) for path in paths):
        raise UsageError("each trace is read several times, so none may be a pipe or standard input")
    how = {"files": paths, "by": "line", "apart": True, "rules": None, "sort": "bytes", "csv": False}
    of = argparse.Namespace(**{**vars(args), **how, "json": True})
    found, totals = findings.OfAll(of, findings.rules_of(of)), summary.Totals(of)
    lines, profile = several.Joined(of), JoinedProfile()
    files = several.Files(NAME, of, again=True, errors=findings.wants_errors(of))
    command, ends, cut = "", page.Ends(set(), False), {}
    in_lua: dict[str, LuaGrowth | LuaHeld] = {}
    approximate: dict[str, None] = {}
    for number, chosen in enumerate(files):
        found.add(chosen)
        of_lua = ends.of_lua or has_lua(chosen.trace) and _lives_in_lua(files.blocks(number))
        ends = page.Ends({*ends.not_freed, not_freed(chosen.trace)}, of_lua)
        if why := chosen.trace.problem or cut_short(chosen.trace, None):
            cut[rollups.process_text(chosen.trace)] = str(why).removeprefix(f"{chosen.trace.name}: ")
        if of_snapshots := lua_snapshots(chosen):
            in_lua[rollups.process_text(chosen.trace)] = of_snapshots
        approximate.update(dict.fromkeys(earlier_code.lines(chosen.trace)))
        command = command or chosen.trace.info().get("command", "")
        totals.add(files.blocks(number))
        sites.add_sums(lines, files.blocks(number))
        profile.add(Profile.of(files.blocks(number)))
    profile.finish()
    rows = lines.rows(partial(sites.row_of, sample=files.sample)).ranked("bytes")[:]
    name = trace_name(args.file) + ("" if os.path.isdir(args.file) else " and others")
    judged = found.findings(files.sample)
    accesses = all(one["accesses"] is not None for one in judged)
    remark = files.title("numbers are sums over the processes")
    drawings = _drawings(profile)
    figures = totals.figures()
    facts = accesses, ends, cut, in_lua, list(approximate)
    _write(args, page.render(name, command, remark, figures, judged, found.errors, rows, drawings, *facts))
    return files.verdict()


def _lives_in_lua(chosen: Any) -> bool:
    """Is a block in a heap of Lua alive at the end? None is if its state was closed. chosen: all blocks of a trace."""
    from steve.analysis.reachable import Survivors

    return len(chosen.fold(Survivors).fold.of_lua(chosen.trace)) > 0


def _drawings(profile: Any) -> dict[str, str]:
    """Flame graphs of a profile, by title."""
    from steve.export.folded import Folds
    from steve.export.profile import BY_NAME
    from steve.flame.draw import Drawing
    from steve.flame.tree import Stacks

    found = {}
    for title, name in (("live at the peaks", "peak_space"), ("allocated", "alloc_space")):
        folds = Folds(profile, BY_NAME[name])
        if folds.total:
            found[title] = "".join(Drawing(Stacks(folds, folds.total), title, BY_NAME[name].unit).svg())
    return found


def run(args: argparse.Namespace) -> int:
    """Exit status 0, or 1 if the trace is truncated or damaged or an allocator failed; the report is written in any
    case."""
    from steve.report.collect import collect

    _decide(args)
    if paths := _processes(args):
        return _write_processes(args, paths)
    if args.second:
        return _write_changes(args)
    if args.json:
        check_ending(args.output, "--json writes JSON", ".json")
        if args.allocstats or args.film:
            raise UsageError("--allocstats and --film are shown on the page; with --json they have no effect")
    else:
        check_ending(args.output, "the report is a page of HTML", ".html", ".htm")
    if not 0 <= args.sites <= 2000:
        raise UsageError("--sites: give a number from 0 to 2000")
    if args.json and args.open:
        raise UsageError("--open shows the page; --json writes none")
    if not args.json:
        _check_target(args)
    if args.allocator and not is_whole(args):
        raise UsageError("--allocator: the whole trace is replayed, so --where, --from and --to do not go with it")
    pages = pins.worst_by("stack", args) if args.allocator else None
    chosen = Blocks(NAME, args)
    data = collect(chosen, args.sites, not args.no_source and not args.json, pages, not args.json)
    whole = True
    if args.json:
        with Output(args.output or "-") as out:
            out.write(json.dumps(_as_json(data), indent=2) + "\n")
    else:
        whole = _write_report(args, data)
    if data.changed_sources:
        names = ", ".join(data.changed_sources[:MOST_NAMED]) + ", ..." * (len(data.changed_sources) > MOST_NAMED)
        note(
            NAME,
            f"without the text of files that were changed after the program was built or started: {names}",
            args.quiet,
        )
    if data.problem is not None:
        note(NAME, f"{data.problem}; the report covers what comes before it")
    return 1 if data.problem is not None or data.stats["damaged_chunks"] or not whole else 0
