"""steve check: are the promises kept that a memtrace makes?

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
from typing import TYPE_CHECKING, Optional, Tuple, Union

from steve import checkparts, listing, parallel, parts, source
from steve.output import Output
from steve.progress import Progress

if TYPE_CHECKING:
    from steve._memtrace import Trace
    from steve.parts import Whole

NAME = "check"
HELP = "verify the invariants of a memtrace"
RULES = {
    "overlap": "live blocks do not overlap",
    "handle": "handles count 0, 1, 2... in the order of the News",
    "slot": "a slot holds one live block at a time",
    "block": "every event names a live block",
    "place": "a Free or Resize gives the block's address and size",
    "inside": "every access begins inside its block, at the offset it names",
    "time": "time does not go back",
    "id": "stacks, sites and heaps are defined",
    "kind": "kinds of events are known",
    "totals": "the totals at the end equal the events counted",
    "counts": "the reader counted the same events and blocks",
}
EXAMPLES = f"""\
Exit status 0 if everything holds, 1 if not. Accesses that begin inside a block and end beyond it are counted
(crossing), but they are the program's doing and no fault of the trace. --json prints an object: file, events,
live_at_end, sound, rules (for each count, how often it was broken, and what is known of the first time) and
crossing; --csv the same as lines key,value.

rules:
{chr(10).join(listing.entry(name, what, 9) for name, what in RULES.items())}

There is no --where, --from and --to: promises are about the whole, and of what is left out none could be verified.
Accesses beyond the end of blocks that a filter chooses are told by steve findings.

With -j parts are verified side by side, each from the trace's own list of live blocks, which must be what the part
before it ends with; if anything is broken, one processor reads the whole once more to tell what.

examples:
  steve check ljtrace.out.77.ljt && echo sound
  steve check -j 4 ljtrace.out.77.ljt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    source.add_output(parser, "the default")
    source.add_facts(parser)
    parallel.add_arguments(parser)


def in_one(args: argparse.Namespace) -> "Tuple[Trace, dict]":
    """What one walk over the trace finds."""
    from steve import _kernels
    trace = source.open_trace(args)
    with Progress(NAME, args.quiet) as progress:
        found = _kernels.check_trace(trace, progress)
    return trace, report_of(trace, found)


def in_parts(args: argparse.Namespace) -> "Optional[Tuple[Whole, dict]]":
    """The same, found in parts of the trace side by side; None if it has none or anything is broken."""
    if not parts.asked(args) or not parts.has_parts(parts.path_of(args)):
        return None
    with parallel.Pool(args) as pool, Progress(NAME, args.quiet) as progress:
        result = checkparts.check_of(parts.path_of(args), pool, progress)
    if result is None:
        return None
    report = report_of(*result)
    return (result[0], report) if report["sound"] else None


def report_of(trace: "Union[Trace, Whole]", found: dict) -> dict:
    """The object of --json; found: of steve._kernels.check_trace."""
    rules = {**found["rules"], "totals": totals_finding(trace, found), "counts": counts_finding(trace, found)}
    return {"file": trace.name, "events": found["events"], "live_at_end": found["live"],
            "sound": not any(finding["count"] for finding in rules.values()), "rules": rules,
            "crossing": found["crossing"]}


def run(args: argparse.Namespace) -> int:
    trace, report = in_parts(args) or in_one(args)
    with Output(args.output or "-") as out:
        out.write(json.dumps(report, indent=2) + "\n" if args.json else
                  listing.facts_csv(report) if args.csv else text(report))
    return source.verdict(NAME, trace) or not report["sound"]


def totals_finding(trace: "Union[Trace, Whole]", found: dict) -> dict:
    """Compare with the END chunk; there is none in classic text and in traces that are cut off or damaged."""
    stats = trace.stats()
    if stats["is_text"] or stats["ending"] == "unknown" or stats["damaged_chunks"]:
        return {"count": 0, "skipped": "the file has no totals for what was read"}
    wrong = {kind: [stats["totals"]["events"][kind], n] for kind, n in found["kinds"].items()
             if stats["totals"]["events"][kind] != n}
    return {"count": len(wrong), **({"stated_and_counted": wrong} if wrong else {})}


def counts_finding(trace: "Union[Trace, Whole]", found: dict) -> dict:
    """Compare with what the reader counted on its way."""
    stats = trace.stats()
    pairs = {"events": (stats["events"], found["events"]),
             "blocks": (stats["handles"], found["kinds"]["new"]),
             "live": (stats["live_slots"], found["live"])}
    wrong = {name: list(pair) for name, pair in pairs.items() if pair[0] != pair[1]}
    return {"count": len(wrong), **({"reader_and_check": wrong} if wrong else {})}


def example(finding: dict) -> Optional[str]:
    """What is known of the first breach."""
    if "event" in finding:
        return (f"first at event {finding['event']}: {finding['kind']} handle={finding['handle']} "
                f"addr={finding['addr']:#x} size={finding['size']}")
    for key in ("stated_and_counted", "reader_and_check"):
        if key in finding:
            return ", ".join(f"{name} {a} and {b}" for name, (a, b) in finding[key].items())
    return None


def line(name: str, finding: dict) -> str:
    if "skipped" in finding:
        return f"skipped  {RULES[name]}: {finding['skipped']}"
    if not finding["count"]:
        return f"ok       {RULES[name]}"
    return f"BROKEN   {RULES[name]}: {finding['count']} times; {example(finding)}"


def text(report: dict) -> str:
    """One line for each rule, then the verdict."""
    lines = [line(name, finding) for name, finding in report["rules"].items()]
    crossing = report["crossing"]
    if crossing["count"]:
        lines.append(f"note     {crossing['count']} accesses end beyond the block they begin in; "
                     + str(example(crossing)))
    verdict = "sound" if report["sound"] else "NOT SOUND"
    lines.append(f"{report['file']}: {report['events']} events, {report['live_at_end']} blocks live at the "
                 f"end: {verdict}")
    return "\n".join(lines) + "\n"
