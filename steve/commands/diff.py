"""steve diff: compare two traces by allocation site, line, function...

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import math
import sys

from steve.analysis import blocks, conditions, differences
from steve.analysis.conditions import Condition, Measured, Outcome
from steve.analysis.differences import MEASURES, all_rows, changed
from steve.system.messages import complain
from steve.system.output import Output
from steve.terminal import arguments
from steve.terminal import listing
from steve.trace import policy, rollups, source
from steve.terminal.listing import Column
from steve.trace.stacks import SITE

NAME = "diff"
HELP = "compare two memtraces: what grew, by allocation site or line; fail if it grew too much"
COLUMNS = tuple(
    column
    for key, head, what in MEASURES
    for column in (
        Column(f"{key}_a", "", f"{what}, in the first trace"),
        Column(f"{key}_b", "", f"{what}, in the second"),
        Column(f"{key}_change", head, f"{key}_b minus {key}_a"),
    )
) + (Column("place", "where", f"{SITE}; or what --by names", True),)
CAUSES = 5  # sites that text and Markdown show for a condition that failed
EXAMPLES = f"""\
Rows are matched by their names, so the two traces may come from different builds. Rows without any change are left
out; the rows with the largest growth come first.

{listing.explained(COLUMNS)}

{conditions.explained()}
With --fail-if, JSON is an object: failed (does a condition hold?), conditions (a list: condition, failed, a, b and
change of its first name, or null for one of each site, and causes, the rows because of which it holds), and rows, the
list that is otherwise the output.

{blocks.WHERE_HELP}
examples:
  steve diff before.ljt after.ljt
  steve diff before.ljt after.ljt --by line --sort peak_bytes_change
  steve diff baseline.ljt new.ljt --fail-if='peak_live > +5%' --fail-if='sites.new_leaks > 0' --markdown
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help=source.TRACE_HELP)
    parser.add_argument("second", metavar="B", help="the memtrace to compare with it")
    parser.add_argument("--salvage", action="store_true", help="skip damaged chunks and continue after them")
    arguments.add_quiet(parser)
    blocks.add_choice(parser)
    policy.add_arguments(parser)
    rollups.add_arguments(parser)
    form = listing.add_arguments(parser, COLUMNS, "bytes_change")
    form.add_argument("--markdown", action="store_true", help="write tables in Markdown")
    parser.add_argument(
        "--fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="exit with status 1 if this holds; see below",
    )
    blocks.add_shards(parser)


def measured(chosen: blocks.Blocks) -> dict[str, dict]:
    """The measures of one trace by place."""
    (sums,) = chosen.sum_by(rollups.key_of(chosen.args.by))
    return differences.measured(sums, rollups.of_arguments(chosen.args, chosen.places))


def total(found: dict[str, dict], key: str) -> int:
    """A measure over all places."""
    return sum(row[key] for row in found.values())


def outcomes(wanted: list[Condition], first: dict[str, dict], second: dict[str, dict]) -> list[Outcome]:
    """What became of the conditions. first, second: what measured() returns."""
    totals = {
        name: Measured(total(first, column), total(second, column)) for name, column in conditions.MEASURES.items()
    }
    rows = all_rows(first, second)
    return [condition.outcome(totals, rows) for condition in wanted]


def signed(measured: Measured) -> str:
    """A change as text, with its percentage: `+250 (+5.00%)`."""
    percent = measured.percent()
    return f"{measured.change():+,}" + (f" ({percent:+,.2f}%)" if math.isfinite(percent) else "")


def found_text(outcome: Outcome) -> str:
    """What a condition has found, in one line."""
    if outcome.measured is None:
        return f"{len(outcome.causes):,} sites"
    name = outcome.condition.split()[0]
    if any(name.startswith(count) for count in conditions.COUNTS):
        return f"{outcome.measured.b:,}"
    return f"{outcome.measured.a:,} to {outcome.measured.b:,}, {signed(outcome.measured)}"


def cause_cells(row: dict) -> list[str]:
    """The changes of a row, as COLUMNS shows them, and its place."""
    return [listing.cell(row[column.key]) for column in COLUMNS if column.head]


def outcomes_text(found: list[Outcome], plain: bool) -> str:
    """The conditions as text, each that failed with its sites."""
    parts = []
    for outcome in found:
        parts.append(f"{'FAILED' if outcome.failed else 'passed'}: {outcome.condition}: {found_text(outcome)}\n")
        if outcome.causes:
            parts.append(listing.text("because of", outcome.causes, COLUMNS, CAUSES, plain))
    return "\n" + "".join(parts)


def json_object(found: list[Outcome], rows: str) -> str:
    """The JSON object. rows: the text of the list of rows."""
    keys = [column.key for column in listing.recorded(COLUMNS)]
    listed = [
        {
            "condition": outcome.condition,
            "failed": outcome.failed,
            "a": outcome.measured and outcome.measured.a,
            "b": outcome.measured and outcome.measured.b,
            "change": outcome.measured and outcome.measured.change(),
            "causes": [{key: row[key] for key in keys} for row in outcome.causes],
        }
        for outcome in found
    ]
    head = {"failed": any(outcome.failed for outcome in found), "conditions": listed}
    return json.dumps(head, indent=1)[:-2] + f',\n "rows": {rows}}}\n'


def markdown_cell(text: str) -> str:
    """Text of a cell, in which nothing is interpreted."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|~#&" else c for c in text)


def markdown_table(heads: list[str], rows: list[list[str]], texts: tuple[int, ...]) -> str:
    """A table. texts: the columns that are no numbers."""
    line = [":--" if i in texts else "--:" for i in range(len(heads))]
    cells = [heads, line, *([markdown_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def markdown(title: str, found: list[Outcome], rows: list[dict], top: int | None) -> str:
    """The comparison as Markdown: the conditions, the sites of those that failed, and the table."""
    heads = [column.head for column in COLUMNS if column.head]
    where = (len(heads) - 1,)
    parts = [f"### {markdown_cell(title)}\n\n"]
    if found:
        lines = [["FAILED" if o.failed else "passed", o.condition, found_text(o)] for o in found]
        parts.append(markdown_table(["", "condition", "found"], lines, (0, 1, 2)))
    for outcome in found:
        if outcome.causes:
            parts.append(f"\nBecause of, for {markdown_cell(outcome.condition)}:\n\n")
            parts.append(markdown_table(heads, [cause_cells(row) for row in outcome.causes[:CAUSES]], where))
    shown = listing.cut(listing.Summed(rows, "place"), listing.TOP if top is None else top)
    parts.append("\n" if found else "")
    parts.append(markdown_table(heads, [cause_cells(row) for row in shown], where) if rows else "No site differs.\n")
    return "".join(parts)


def measured_first(args: argparse.Namespace) -> tuple[str, dict[str, dict], int]:
    """The name of the first trace, its measures and the exit status. The trace is closed on return, so that both
    are not in memory at the same time."""
    chosen = blocks.Blocks(NAME, argparse.Namespace(**{**vars(args), "file": args.first}))
    found = measured(chosen)
    return chosen.trace.name, found, chosen.verdict()


def write(args: argparse.Namespace, title: str, rows: list[dict], found: list[Outcome]) -> None:
    """Write the comparison in the form that the arguments request."""
    summed = listing.Summed(rows, "place")
    if args.markdown:
        with Output(args.output or "-") as out:
            out.write(markdown(title, found, rows, args.top))
    elif found and args.json:
        with Output(args.output or "-") as out:
            out.write(json_object(found, "".join(listing.json_parts(listing.cut(summed, args.top), COLUMNS)).rstrip()))
    elif found and not args.csv:
        plain = not sys.stdout.isatty() or args.output not in (None, "-")
        with Output(args.output or "-") as out:
            out.write(listing.text(title, summed, COLUMNS, args.top, plain, args.sort))
            out.write(outcomes_text(found, plain))
    else:
        listing.write_ranked(args, title, summed, COLUMNS)


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    wanted = [Condition(text) for text in args.fail_if]
    name, first, status = measured_first(args)
    chosen = blocks.Blocks(NAME, argparse.Namespace(**{**vars(args), "file": args.second}))
    second = measured(chosen)
    title = ", ".join(f"{key} {total(second, key) - total(first, key):+,}" for key, _, _ in MEASURES)
    found = outcomes(wanted, first, second)
    rows = listing.ranked(changed(all_rows(first, second)), COLUMNS, args.sort)
    write(args, f"{name} to {chosen.title(title)}", rows, found)
    failed = [outcome.condition for outcome in found if outcome.failed]
    if failed:
        complain(NAME, f"{len(failed)} of {len(found)} conditions failed: {'; '.join(failed)}")
    return max(status, chosen.verdict(), bool(failed))
