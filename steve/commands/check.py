"""steve check: are the promises kept that a memtrace makes?

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json

from steve.analysis import blocks
from steve.terminal import arguments
from steve.terminal import listing
from steve.system.output import Output
from steve.parallel.rounds import Whole

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
    "left": "the blocks said to be left at the end are those that live there",
}
CHOSEN = {"count": 0, "skipped": "of the whole trace only"}
EXAMPLES = f"""\
Exit status 0 if everything holds, 1 if not. Accesses that begin inside a block and end beyond it are counted
(crossing), but they are the program's doing and no fault of the trace. --json prints an object: file, events,
live_at_end, sound, rules (for each count, how often it was broken, and what is known of the first time) and
crossing; --csv the same as lines key,value.

rules:
{chr(10).join(listing.entry(name, what, 9) for name, what in RULES.items())}

All events are read, and the blocks kept account of, whatever is chosen; with --where only breaches and crossing
accesses of the chosen blocks are told and judged, and events and live_at_end are theirs; with --from and --to only
what comes between. Events are counted from the first mark on. The rules totals, counts and left are about the whole,
and are then skipped.

With -j parts are verified side by side, each from the trace's own list of live blocks, which must be what the part
before it ends with; if anything is broken, one processor reads the whole once more to tell what.

examples:
  steve check ljtrace.out.77.ljt && echo sound
  steve check -j 4 ljtrace.out.77.ljt
  steve check ljtrace.out.77.ljt --where 'heap = "lua"' --from loaded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    arguments.add_output(parser, "the default")
    arguments.add_facts(parser)
    blocks.add_parts(parser)


def checked(chosen: blocks.Blocks) -> dict:
    """The report. Parts only tell that all is sound."""
    from steve.kernels import _check
    found = chosen.over_events(_check.Check)
    if isinstance(chosen.trace, Whole):
        report = None if found is None else report_of(chosen, found)
        if report is not None and report["sound"]:
            return report
        found = chosen.over_events(_check.Check, in_parts=False)
    return report_of(chosen, found)


def report_of(chosen: blocks.Blocks, found: dict) -> dict:
    """The object of --json; found: of steve.kernels._check.Check."""
    rules = {**found["rules"], "totals": totals_finding(chosen, found), "counts": counts_finding(chosen, found),
             "left": left_finding(chosen, found)}
    return {"file": chosen.trace.name, "events": found["events"], "live_at_end": found["live"],
            "sound": not any(finding["count"] for finding in rules.values()), "rules": rules,
            "crossing": found["crossing"]}


def run(args: argparse.Namespace) -> int:
    chosen = blocks.Blocks(NAME, args)
    report = checked(chosen)
    with Output(args.output or "-") as out:
        out.write(json.dumps(report, indent=2) + "\n" if args.json else
                  listing.facts_csv(report) if args.csv else text(chosen, report))
    return chosen.verdict() or not report["sound"]


def totals_finding(chosen: blocks.Blocks, found: dict) -> dict:
    """Compare with the END chunk; there is none in classic text and in traces that are cut off or damaged."""
    if not chosen.is_whole():
        return dict(CHOSEN)
    stats = chosen.trace.stats()
    if stats["is_text"] or stats["ending"] == "unknown" or stats["damaged_chunks"]:
        return {"count": 0, "skipped": "the file has no totals for what was read"}
    wrong = {kind: [stats["totals"]["events"][kind], n] for kind, n in found["kinds"].items()
             if stats["totals"]["events"][kind] != n}
    return {"count": len(wrong), **({"stated_and_counted": wrong} if wrong else {})}


def counts_finding(chosen: blocks.Blocks, found: dict) -> dict:
    """Compare with what the reader counted on its way."""
    if not chosen.is_whole():
        return dict(CHOSEN)
    stats = chosen.trace.stats()
    pairs = {"events": (stats["events"], found["events"]),
             "blocks": (stats["handles"], found["kinds"]["new"]),
             "live": (stats["live_slots"], found["live"])}
    wrong = {name: list(pair) for name, pair in pairs.items() if pair[0] != pair[1]}
    return {"count": len(wrong), **({"reader_and_check": wrong} if wrong else {})}


def left_finding(chosen: blocks.Blocks, found: dict) -> dict:
    """Compare with what the file says of its end, as traces do that are whole and of any size."""
    if not chosen.is_whole():
        return dict(CHOSEN)
    import numpy as np
    said = None if chosen.trace.problem else chosen.trace.survivors()
    if said is None:
        return {"count": 0, "skipped": "the file does not say which blocks are left, or cannot be asked"}
    wrong = len(np.setxor1d(said, np.frombuffer(found["left"], "u8"), assume_unique=True))
    return {"count": wrong, **({"stated_and_counted": {"left": [len(said), found["live"]]}} if wrong else {})}


def example(finding: dict) -> str | None:
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


def text(chosen: blocks.Blocks, report: dict) -> str:
    """One line for each rule, then the verdict."""
    lines = [line(name, finding) for name, finding in report["rules"].items()]
    crossing = report["crossing"]
    if crossing["count"]:
        lines.append(f"note     {crossing['count']} accesses end beyond the block they begin in; "
                     + str(example(crossing)))
    verdict = "sound" if report["sound"] else "NOT SOUND"
    heading = chosen.title(f"{report['events']} events, {report['live_at_end']} blocks live at the end")
    lines.append(f"{heading}: {verdict}")
    return "\n".join(lines) + "\n"
