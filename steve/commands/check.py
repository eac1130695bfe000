"""steve check: verify the properties that every memtrace must have.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from steve.analysis import blocks, conditions, gates, several, totals
from steve.analysis.conditions import Outcome
from steve.trace import missing, policy, rollups
from steve.terminal import arguments
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.units import counted
from steve.system.messages import complain
from steve.system.output import Output
from steve.parallel.rounds import Whole

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAME = "check"
HELP = "verify the invariants of a memtrace; fail if the program needed too much or lost memory"
READS_SAMPLES = True
RULES = {
    "overlap": "live blocks do not overlap",
    "handle": "handles count 0, 1, 2... in the order of the News",
    "slot": "a slot belongs to one live block at a time",
    "block": "every event refers to a live block",
    "place": "a Free or Resize has the block's address and size",
    "inside": "every access begins inside its block, at the offset recorded",
    "time": "time does not go backwards",
    "id": "stacks, sites and heaps are defined",
    "kind": "kinds of events are known",
    "totals": "the totals in the file equal the events counted",
    "counts": "the reader counted the same events and blocks",
    "left": "the file's list of blocks alive at the end is right",
    "read": "the file can be read to its end",
}
CHOSEN = {"count": 0, "skipped": "checked for the whole trace only"}
MOST_CAUSES = 5  # sites that text shows for a condition that failed
CAUSES = (
    Column("blocks", "blocks", ""),
    Column("bytes", "bytes", ""),
    Column("peak_bytes", "at peak", ""),
    Column("live_bytes", "at end", ""),
    Column("accesses", "accesses", ""),
    Column("place", "where", "", True),
)
# those of net_growth
GROWN = (
    Column("live_bytes_from", "at --from", ""),
    Column("live_bytes_to", "at --to", ""),
    Column(conditions.NET_GROWTH, "growth", ""),
    Column("place", "where", "", True),
)
EXAMPLES = f"""\
Exit status 0 if all rules hold, 1 if not. Accesses that begin inside a block and end beyond it are counted
(crossing), but they are errors of the program, not of the trace. --json prints an object: file, events,
live_at_end, sound, rules (for each rule count, the number of violations, and details of the first one),
crossing, program (how it ended) and, if the native recorder has dropped events, lost (how many of each kind);
--csv prints the same as lines key,value. A trace from which events are missing is sound, but what it says of blocks
may be incomplete. A note, also on stderr with --fail-if, says if the program was killed, was ended by a signal or had
an exit status other than 0.
Of several files, each is checked by itself, and the exit status is 1 if one of them is not sound; --json prints a
list of their objects, --csv their lines with an empty one between.

rules:
{chr(10).join(listing.entry(name, what, 9) for name, what in RULES.items())}

The command always reads all events and keeps track of all blocks. With --where it reports only violations and
crossing accesses of the selected blocks, and counts only their events; with --from and --to, only those between the
marks. Events are numbered from the first mark on. The rules totals, counts and left concern the whole trace and are
skipped in these cases. The rule read is that nothing before the end, or the mark of --to, is damaged or cut off.

With -j, parts of the trace are verified in parallel. Each part begins with the trace's own list of live blocks, which
must equal the blocks alive at the end of the part before it. If a rule is violated, one processor reads the whole
trace once more to find the details.

{conditions.explained(conditions.ONE)}
With --fail-if, the output has the conditions, and for each that holds the sites because of which it does. The JSON
object then has failed (does a condition hold?) and conditions: a list of condition, failed, found (null for a condition
of each site) and causes. Of several files, each is judged by itself. `steve diff --fail-if` compares with an earlier
run.

examples:
  steve check app.ljt --fail-if 'lost_bytes > 0' --fail-if 'peak_live > 50M'
  steve check lua.ljt --from half --to end --fail-if 'net_growth > 16k'
  steve check ljtrace.out.77.ljt && echo sound
  steve check -j 4 ljtrace.out.77.ljt
  steve check ljtrace.out.77.ljt --where 'heap = "lua"' --from loaded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    parser.set_defaults(apart=False)
    arguments.add_output(parser, "the default")
    arguments.add_facts(parser)
    policy.add_arguments(parser)
    rollups.add_arguments(parser)
    parser.add_argument(
        "--fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="exit with status 1 if this holds; see below",
    )
    blocks.add_shards(parser)


def checked(chosen: blocks.Blocks) -> dict:
    """The object of --json. With -j, the parallel check only decides whether the trace is sound; if it is not, a
    second, sequential check finds the violations."""
    from steve.kernels import _totals

    found = chosen.over_events(_totals.Check)
    if isinstance(chosen.trace, Whole):
        report = None if found is None else report_of(chosen, found)
        if report is not None and not {*broken(report["rules"])} - {"read"}:
            return report
        found = chosen.over_events(_totals.Check, in_shards=False)
    return report_of(chosen, found)


def broken(rules: dict) -> list[str]:
    """The names of the rules that are broken. rules: the findings."""
    return [name for name, finding in rules.items() if finding["count"]]


def report_of(chosen: blocks.Blocks, found: dict) -> dict:
    """The object of --json. found: the result of steve.kernels._totals.Check."""
    rules = {
        **found["rules"],
        "totals": totals_finding(chosen, found),
        "counts": counts_finding(chosen, found),
        "left": left_finding(chosen, found),
        "read": read_finding(chosen.trace),
    }
    return {
        "file": chosen.trace.name,
        "events": found["events"],
        "live_at_end": found["live"],
        "sound": not broken(rules),
        "rules": rules,
        "crossing": found["crossing"],
        "program": totals.program_end(chosen.trace),
        **missing.facts(chosen.trace),
    }


def outcome_object(outcome: Outcome) -> dict:
    """A condition as an object of --json."""
    return {
        "condition": outcome.condition,
        "failed": outcome.failed,
        "found": outcome.measured and outcome.measured.b,
        "causes": [cause(row, outcome) for row in outcome.causes[:]],
    }


def cause(row: dict, outcome: Outcome) -> dict:
    """A site because of which a condition holds."""
    if outcome.name == conditions.NET_GROWTH:
        values = (row["live_bytes_a"], row["live_bytes_b"], row["live_bytes_change"], row["place"])
        return dict(zip((column.key for column in GROWN), values))
    return {**{column.key: row[f"{column.key}_b"] for column in CAUSES[:-1]}, "place": row["place"]}


def outcomes_text(outcomes: list[Outcome]) -> str:
    """The conditions as text, each that failed with its sites."""
    parts = []
    for outcome in outcomes:
        found = counted(len(outcome.causes), "site") if outcome.measured is None else f"{outcome.measured.b:,}"
        see = gates.SEE.get(outcome.name) if outcome.failed else None
        verdict = "FAILED" if outcome.failed else "passed"
        parts.append(f"{verdict}: {outcome.condition}: {found}{f', see {see}' if see else ''}\n")
        if len(outcome.causes):
            rows = [cause(row, outcome) for row in outcome.causes[:MOST_CAUSES]]
            rest = len(outcome.causes) - len(rows)
            columns = GROWN if outcome.name == conditions.NET_GROWTH else CAUSES
            parts.append(listing.text("because of", rows, columns, None, True))
            parts.append(f"and {rest:,} more\n" if rest else "")
    return "\n" + "".join(parts)


def run(args: argparse.Namespace) -> int:
    wanted = gates.conditions_of(args.fail_if)
    files, reports, parts, failed = several.Files(NAME, args, again=bool(wanted), errors=bool(wanted)), [], [], []
    for chosen in files:
        with gates.mark_is_needed(wanted):
            report = checked(chosen)
        most = None if args.json or args.csv else MOST_CAUSES
        judged = gates.judged(chosen, wanted, most) if wanted else None
        outcomes = judged.outcomes if judged else []
        for remark in filter(None, [*judged.remarks, totals.cut_short(chosen.trace, args.end)] if judged else []):
            complain(NAME, f"{chosen.trace.name}: {remark}")
        here = [outcome.condition for outcome in outcomes if outcome.failed]
        if wanted:
            report = {**report, "failed": bool(here), "conditions": [outcome_object(outcome) for outcome in outcomes]}
        reports.append(report)
        said = text(chosen, report) + (outcomes_text(outcomes) if outcomes else "")
        parts.append(listing.facts_csv(report) if args.csv else said)
        failed += here if len(files) == 1 else [f"{chosen.trace.name}: {condition}" for condition in here]
    if args.json:
        parts = [json.dumps(reports if len(files) > 1 else reports[0], indent=2) + "\n"]
    with Output(args.output or "-") as out:
        out.write("\n".join(parts))
    if failed:
        all_judged = len(wanted) * len(files)
        complain(NAME, f"{len(failed)} of {all_judged} conditions failed: {'; '.join(failed)}")
    return files.verdict() or not all(report["sound"] for report in reports) or bool(failed)


def totals_finding(chosen: blocks.Blocks, found: dict) -> dict:
    """Compare with the totals in the END chunk, which classic text and truncated or damaged traces do not have."""
    if not chosen.is_whole():
        return dict(CHOSEN)
    stats = chosen.trace.stats()
    if stats["is_text"] or stats["ending"] == "unknown" or stats["damaged_chunks"]:
        return {"count": 0, "skipped": "the file has no totals for the events read"}
    wrong = {
        kind: [stats["totals"]["events"][kind], n]
        for kind, n in found["kinds"].items()
        if stats["totals"]["events"][kind] != n
    }
    return {"count": len(wrong), **({"stated_and_counted": wrong} if wrong else {})}


def counts_finding(chosen: blocks.Blocks, found: dict) -> dict:
    """Compare with the counts of the reader."""
    if not chosen.is_whole():
        return dict(CHOSEN)
    stats = chosen.trace.stats()
    pairs = {
        "events": (stats["events"], found["events"]),
        "blocks": (stats["handles"], found["kinds"]["new"]),
        "live": (stats["live_slots"], found["live"]),
    }
    wrong = {name: list(pair) for name, pair in pairs.items() if pair[0] != pair[1]}
    return {"count": len(wrong), **({"reader_and_check": wrong} if wrong else {})}


def left_finding(chosen: blocks.Blocks, found: dict) -> dict:
    """Compare with the file's list of blocks alive at the end. Complete traces have one unless they are small."""
    if not chosen.is_whole():
        return dict(CHOSEN)
    import numpy as np

    stated = None if chosen.trace.problem else chosen.trace.survivors()
    if stated is None:
        return {"count": 0, "skipped": "the file has no list of the blocks alive at the end, or it cannot be read"}
    wrong = len(np.setxor1d(stated, np.frombuffer(found["left"], "u8"), assume_unique=True))
    return {"count": wrong, **({"stated_and_counted": {"left": [len(stated), found["live"]]}} if wrong else {})}


def read_finding(trace: Trace | Whole) -> dict:
    """Is something of the file left out, because it is damaged or cut off? A file that is still written is not."""
    problem, damaged = trace.problem, trace.stats()["damaged_chunks"]
    if problem is not None and problem.code == "growing":
        return {"count": 0, "skipped": "the file is still written"}
    if problem is not None:
        return {"count": 1, "problem": str(problem).removeprefix(f"{trace.name}: ")}
    return {"count": damaged, **({"problem": f"{counted(damaged, 'damaged chunk')} left out"} if damaged else {})}


def example(finding: dict) -> str | None:
    """Details of the first violation as text, or None."""
    if "event" in finding:
        return (
            f"first at event {finding['event']}: {finding['kind']} handle={finding['handle']} "
            f"addr={finding['addr']:#x} size={finding['size']}"
        )
    for key in ("stated_and_counted", "reader_and_check"):
        if key in finding:
            return ", ".join(f"{name} {a} and {b}" for name, (a, b) in finding[key].items())
    return None


def line(name: str, finding: dict) -> str:
    """The line of one rule."""
    if "skipped" in finding:
        return f"skipped  {RULES[name]}: {finding['skipped']}"
    if not finding["count"]:
        return f"ok       {RULES[name]}"
    if "problem" in finding:
        return f"BROKEN   {RULES[name]}: {finding['problem']}"
    return f"BROKEN   {RULES[name]}: {finding['count']} times; {example(finding)}"


def text(chosen: blocks.Blocks, report: dict) -> str:
    """One line for each rule, then the verdict."""
    lines = [line(name, finding) for name, finding in report["rules"].items()]
    crossing = report["crossing"]
    if crossing["count"]:
        end = (
            "access ends beyond the block it begins"
            if crossing["count"] == 1
            else "accesses end beyond the block they begin"
        )
        lines.append(f"note     {crossing['count']} {end} in; {example(crossing)}")
    if "lost" in report:
        lines.append(f"note     {missing.text(chosen.trace)}")
    if cut_short := totals.cut_short(chosen.trace, chosen.args.end):
        lines.append(f"note     {cut_short}")
    verdict = "sound" if report["sound"] else "NOT SOUND"
    heading = chosen.title(
        f"{counted(report['events'], 'event')}, {counted(report['live_at_end'], 'block')} live at the end"
    )
    lines.append(f"{heading}: {verdict}")
    return "\n".join(lines) + "\n"
