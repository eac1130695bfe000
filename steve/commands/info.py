"""steve info: the contents of a memtrace file and how it was recorded.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from steve.terminal import arguments
from steve.trace import cut_stacks, runtimes, source, unseen
from steve.system.output import Output
from steve.terminal.progress import Progress
from steve.analysis.totals import dropped_text, is_least, program_end, program_end_text

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAME = "info"
HELP = "show what is in a memtrace file and how it was made"
READS_SAMPLES = True
EXAMPLES = """\
Shows the facts that the recorder noted (command, pid, versions...), how the trace ended, and its sizes. The command
reads the whole file and counts the events itself; it does not rely on the totals in the file.

examples:
  steve info ljtrace.out.77.ljt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    arguments.add_output(parser, "the default")
    arguments.add_json(parser)


def run(args: argparse.Namespace) -> int:
    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        trace.skim(progress)
    facts = describe(trace)
    with Output(args.output or "-") as out:
        to_terminal = sys.stdout.isatty() and out.path == "-"
        out.write(json.dumps(facts, indent=2) + "\n" if args.json else text(facts, to_terminal))
    return source.verdict(NAME, trace)


def describe(trace: Trace) -> dict:
    """The object of --json: file, format, recording (the recorder's facts), ending, sizes, counts and object files."""
    stats = trace.stats()
    stored = stats["bytes_total"] or stats["bytes_read"]
    return {
        "file": trace.name,
        "format": "classic text" if stats["is_text"] else "memtrace",
        "recording": trace.info(),
        "ending": stats["ending"],
        "program": program_end(trace),
        "problem": str(trace.problem) if trace.problem else None,
        "damaged_chunks": stats["damaged_chunks"],
        "bytes": stored,
        "events": stats["events"],
        "bytes_per_event": stored / stats["events"] if stats["events"] else None,
        "blocks": stats["handles"],
        "definitions": trace.counts(),
        **cut_stacks.facts(trace),
        "instructions": stats["totals"]["instructions"] or stats["instructions"],
        "seconds": (stats["totals"]["nanoseconds"] or stats["nanoseconds"]) / 1e9,
        "dropped": stats["totals"]["dropped"],
        "dropped_at_least": is_least(stats),
        "accesses_elsewhere": stats["totals"]["foreign"],
        "modules": [module._asdict() for module in trace.modules()],
        **runtimes.facts(trace),
    }


def text(facts: dict, to_terminal: bool) -> str:
    """The object of --json as a table."""
    from steve.terminal.tables import facts as table
    from steve.terminal.tables import number, render, size

    density = facts["bytes_per_event"]
    hidden = ("exit_status", "signal", *unseen.FACTS)  # shown in another form below
    recorded = [
        (key, value) for key, value in facts["recording"].items() if key not in hidden and not key.startswith("thread ")
    ]  # `steve threads` shows names of threads
    rows = [
        ("format", facts["format"]),
        *recorded,
        ("ending", facts["ending"]),
        ("program ended", program_end_text(facts["program"])),
    ]
    rows += [("heap", warning)] if (warning := unseen.text(facts["recording"])) else []
    rows += [("not seen", remark) for remark in runtimes.remarks(facts)]
    rows += [("problem", facts["problem"])] if facts["problem"] else []
    rows += [
        ("damaged chunks", number(facts["damaged_chunks"])),
        ("size", size(facts["bytes"])),
        ("events", number(facts["events"])),
        ("bytes per event", "-" if density is None else f"{density:.3f}"),
        ("blocks", number(facts["blocks"])),
    ]
    rows += [(name, number(value)) for name, value in facts["definitions"].items()]
    rows += [("cut stacks", cut_stacks.text(facts["cut_stacks"]))] if "cut_stacks" in facts else []
    rows += [
        (facts["recording"].get("time_unit", "instructions"), number(facts["instructions"])),
        ("seconds", f"{facts['seconds']:.3f}"),
        ("dropped events", dropped_text(facts["dropped"], facts["dropped_at_least"])),
        ("accesses outside blocks", number(facts["accesses_elsewhere"])),
    ]
    tables = [table(os.path.basename(facts["file"]), rows)]
    if facts["modules"]:
        tables.append(
            table(
                "object files and their build ids",
                [(module["object"], module["build_id"] or "-") for module in facts["modules"]],
            )
        )
    return render(tables, to_terminal)
