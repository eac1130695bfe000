"""steve diff: compare two traces by allocation site, line, function...

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import blocks, closed, conditions, differences, gates, looks, several, string_table, totals
from steve.analysis.conditions import Condition, Outcome
from steve.analysis.differences import MEASURES
from steve.analysis.resident_changes import ResidentChanges
from steve.system.errors import UsageError
from steve.system.messages import complain
from steve.system.output import Output
from steve.terminal import arguments
from steve.terminal import listing, tables
from steve.trace import missing, policy, rollups, source
from steve.terminal.listing import Column
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.folds import Table
    from steve.analysis.differences import Differences, Measured
    from steve.trace.matched import Matched

NAME = "diff"
HELP = "compare two memtraces: what grew, by allocation site or line; fail if it grew too much"
READS_SAMPLES = True
COLUMNS = tuple(
    column
    for key, head, what in MEASURES
    for column in (
        Column(f"{key}_a", "", f"{what}, in the first trace"),
        Column(f"{key}_b", "", f"{what}, in the second"),
        Column(f"{key}_change", head, f"{key}_b minus {key}_a"),
    )
) + (Column("place", "where", f"{SITE}; or what --by names", True),)
# the table of what was resident, if both traces have looks
RESIDENT = (
    Column("a", "in A", ""),
    Column("b", "in B", ""),
    Column("change", "change", ""),
    Column("percent", "%", ""),
    Column("what", "resident", "", True),
)
UNCHANGED = "nothing changed"
MOST_CUT_SHORT = 3  # programs of which the heading says that they did not end as usual
CAUSES = 5  # sites that text and Markdown show for a condition that failed
EXAMPLES = f"""\
The two traces may come from different builds: places of code are matched by their functions and by where in these they
are, so that lines inserted above a function change nothing. Lines inserted within it may take the place of others,
whose blocks then seem to have moved: --by function has the sum. A row that is in both traces has the lines of the
second one. Rows without any change are left out; the rows that grew or shrank most come first. A and B may be folders:
the traces of each are added up, as other commands do; at peak: each process at its own peak.

{listing.explained(COLUMNS)}

{conditions.explained()}
If both traces have looks at the pages (ljtrace run --pages), a second table says what was resident, by owner, as
`steve resident` does, with the memory of the recorder. Of a folder, it is the sum over the processes.

The heading and a line on stderr say if a program was killed, was ended by a signal or had an exit status other than
0: what it had not done by then is missing, and a condition may pass because of that.

With --fail-if, JSON is an object: failed (does a condition hold?), conditions (a list: condition, failed, a, b and
change of its first name, or null for one of each site, and causes, the rows because of which it holds), programs (of
each file: file, ended, status and signal), resident (a list: measure, a, b, change, percent and what), and rows, the
list that is otherwise the output.

{blocks.WHERE_HELP}
examples:
  steve diff before.ljt after.ljt
  steve diff before.ljt after.ljt --by line --sort peak_bytes_change
  steve diff baseline.ljt new.ljt --fail-if='peak_live > +5%' --fail-if='sites.new_leaks > 0' --markdown
  steve diff baseline.ljt new.ljt --fail-if='resident > +5%' --fail-if='resident_free > +1M'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.reads(
        parser.add_argument("first", metavar="A", help=f"{source.TRACE_HELP}; or a folder of .ljt files"),
        arguments.TRACE,
        or_folder=True,
    )
    arguments.reads(
        parser.add_argument("second", metavar="B", help="the memtrace or folder to compare with it"),
        arguments.TRACE,
        or_folder=True,
    )
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


class Side(NamedTuple):
    """What is measured of one side: the rows; those that conditions about sites judge; the bytes requested for LuaJIT's tables
    of strings; what was resident; the names of the
    traces at whose end nothing of Lua lives because its states were closed; how the program of each trace ended, and what
    is to be said of those that did not end as usual."""

    of_sites: Measured
    judged: Measured
    strings: int
    resident: looks.Measures
    closed: tuple[str, ...]
    programs: tuple[dict, ...]
    cut_short: tuple[str, ...]


def measured(chosen: blocks.Blocks, names: Matched, judges_sites: bool) -> Side:
    """The measures of one trace. names: of the rows of both; judges_sites: is a condition about sites?"""
    by = chosen.args.by
    sums, by_heap, by_type = chosen.sum_by(rollups.key_of(by), closed.KEY, string_table.KEY, columns=differences.SUMS)
    is_closed = closed.is_closed(chosen, by_heap)
    found = judged = of_rows(chosen, sums, names)
    others = string_table.without(chosen, by_type) if judges_sites else None
    if others is not None:
        judged = of_rows(others, others.sum_by(rollups.key_of(by), columns=differences.SUMS)[0], names)
    name, cut_short = chosen.trace.name, totals.cut_short(chosen.trace, chosen.args.end)
    return Side(
        found,
        judged,
        string_table.requested(by_type),
        looks.measures(chosen, looks.NAMES),
        (name,) if is_closed else (),
        ({"file": name, **totals.program_end(chosen.trace)},),
        (f"{name}: {cut_short}",) if cut_short else (),
    )


def of_rows(chosen: blocks.Blocks, sums: np.ndarray | Table, names: Matched) -> Measured:
    """The measures of the rows of one trace. sums: by stack."""
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    return differences.measured(sums, rollup, names, not missing.not_recorded(chosen.trace), chosen.sample)


def outcomes(
    wanted: list[Condition], first: Side, second: Side, rows: Differences, judged: Differences, most: int | None
) -> list[Outcome]:
    """What became of the conditions. judged: the rows for those about sites; most: so many of the sites of each are shown;
    None: all."""
    totals = {
        name: conditions.Measured(first.of_sites.total(column) or 0, second.of_sites.total(column) or 0)
        for name, column in conditions.MEASURES.items()
    }
    resident = ResidentChanges(first.resident, second.resident)
    for condition in wanted:
        lacking = condition.lacking(rows)
        if lacking:
            raise cannot_judge(condition, f"{lacking} was not recorded in both traces")
        for name in (test.name for test in condition.tests):
            if name in looks.NAMES and name not in resident.measured():
                raise cannot_judge(condition, f"{name} is not known of {resident.unknown_in(name)}")
    totals |= resident.measured()
    return [condition.outcome(totals, judged if condition.judges_sites else rows, most) for condition in wanted]


def cannot_judge(condition: Condition, why: str) -> UsageError:
    return UsageError(f"--fail-if '{condition.text}': cannot be judged: {why}")


def signed(measured: conditions.Measured) -> str:
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


def outcomes_text(found: list[Outcome], columns: Sequence[Column], plain: bool) -> str:
    """The conditions as text, each that failed with its sites."""
    parts = []
    for outcome in found:
        parts.append(f"{'FAILED' if outcome.failed else 'passed'}: {outcome.condition}: {found_text(outcome)}\n")
        if len(outcome.causes):
            parts.append(listing.text("because of", outcome.causes, columns, CAUSES, plain))
    return "\n" + "".join(parts)


def resident_text(rows: list[dict], plain: bool) -> str:
    """What was resident, as a table of text."""
    texts = [
        {key: tables.size(value) if key in ("a", "b", "change") else value for key, value in row.items()}
        for row in rows
    ]
    return "\n" + listing.text("what was resident, whose it was", texts, RESIDENT, len(texts), plain)


def markdown_resident(rows: list[dict]) -> str:
    """The same in Markdown."""
    cells = [[listing.cell(row[column.key]) for column in RESIDENT] for row in rows]
    return "\n" + markdown_table([column.head for column in RESIDENT], cells, (len(RESIDENT) - 1,))


def json_object(found: list[Outcome], programs: Sequence[dict], resident: list[dict], rows: str) -> str:
    """The JSON object. programs: how they ended; rows: the text of the list of rows."""
    keys = [column.key for column in listing.recorded(COLUMNS)]
    listed = [
        {
            "condition": outcome.condition,
            "failed": outcome.failed,
            "a": outcome.measured and outcome.measured.a,
            "b": outcome.measured and outcome.measured.b,
            "change": outcome.measured and outcome.measured.change(),
            "causes": [{key: row[key] for key in keys} for row in outcome.causes[:]],
        }
        for outcome in found
    ]
    head = {
        "failed": any(outcome.failed for outcome in found),
        "conditions": listed,
        "programs": list(programs),
        "resident": resident,
    }
    return json.dumps(head, indent=1)[:-2] + f',\n "rows": {rows}}}\n'


def markdown_cell(text: str) -> str:
    """Text of a cell, in which nothing is interpreted."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|~#&" else c for c in text)


def markdown_table(heads: list[str], rows: list[list[str]], texts: tuple[int, ...]) -> str:
    """A table. texts: the columns that are no numbers."""
    line = [":--" if i in texts else "--:" for i in range(len(heads))]
    cells = [heads, line, *([markdown_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def markdown_rows(rows: Sequence[dict]) -> list[list[str]]:
    """The cells of rows; a place has as many callers as it takes to tell it from the others, as in tables of text."""
    shown = list(rows[:])
    names = tables.told_apart([row["place"] for row in shown if isinstance(row["place"], tables.StackText)])
    return [cause_cells({**row, "place": names.get(row["place"], row["place"])}) for row in shown]


def markdown(title: str, found: list[Outcome], rows: Differences, top: int | None) -> str:
    """The comparison as Markdown: the conditions, the sites of those that failed, and the table."""
    heads = [column.head for column in COLUMNS if column.head]
    where = (len(heads) - 1,)
    parts = [f"### {markdown_cell(title)}\n\n"]
    if found:
        lines = [["FAILED" if o.failed else "passed", o.condition, found_text(o)] for o in found]
        parts.append(markdown_table(["", "condition", "found"], lines, (0, 1, 2)))
    for outcome in found:
        if len(outcome.causes):
            parts.append(f"\nBecause of, for {markdown_cell(outcome.condition)}:\n\n")
            parts.append(markdown_table(heads, markdown_rows(listing.cut(outcome.causes, CAUSES)), where))
    shown = listing.cut(rows, listing.TOP if top is None else top)[:]
    parts.append("\n" if found else "")
    parts.append(markdown_table(heads, markdown_rows(shown), where) if len(rows) else "No site differs.\n")
    if any(tables.has_repeated(cells[-1]) for cells in markdown_rows(shown)):
        parts.append(f"\n{tables.LEGEND}\n")
    return "".join(parts)


def of_strings(first: Side, second: Side) -> str:
    """The part of LuaJIT's tables of strings in the change of the bytes, for the heading; "" if it is small."""
    change = second.strings - first.strings
    total = (second.of_sites.total("bytes") or 0) - (first.of_sites.total("bytes") or 0)
    text = string_table.remark(abs(change), abs(total))
    return f"; of the bytes, {'-' if change < 0 else '+'}{text}" if text else ""


def side_of(args: argparse.Namespace, path: str) -> several.Files:
    """The trace of one side, or those in the folder that it is."""
    paths = source.files_of(path) if os.path.isdir(path) else [path]
    return several.Files(NAME, argparse.Namespace(**{**vars(args), "files": paths, "apart": False}))


def measured_side(files: several.Files, names: Matched, judges_sites: bool) -> Side:
    """The measures of one side. names: of the rows of both. Of several traces, those of one build of the program, rows
    are one if their names are equal, with their lines."""
    import numpy as np
    from steve.trace.matched import SameNames

    if len(files) == 1:
        return measured(next(iter(files)), names, judges_sites)
    own = SameNames(files.args.by)
    parts = [measured(chosen, own, judges_sites) for chosen in files]
    joined = []
    for of_kind in ([part.of_sites for part in parts], [part.judged for part in parts]):
        nodes = names.add_joined(own, np.concatenate([part.nodes for part in of_kind]))
        joined.append(differences.added(of_kind, nodes))
    resident = looks.sum_of([part.resident for part in parts])
    texts = (tuple(text for part in parts for text in getattr(part, of)) for of in ("closed", "programs", "cut_short"))
    return Side(*joined, sum(part.strings for part in parts), resident, *texts)


def measured_first(args: argparse.Namespace, names: Matched, judges_sites: bool) -> tuple[str, Side, int]:
    """The name of the first side, its measures and the exit status. The trace is closed on return, so that both
    are not in memory at the same time."""
    files = side_of(args, args.first)
    found = measured_side(files, names, judges_sites)
    return name_of(files, args.first), found, files.verdict()


def name_of(files: several.Files, path: str) -> str:
    """The name of a side in the heading, which says of how many traces it is."""
    return files.chosen.trace.name if len(files) == 1 else f"{path} ({len(files)} files)"


def change_text(first: Side, second: Side, key: str) -> str:
    """The change of a measure over all rows, for the heading."""
    a, b = first.of_sites.total(key), second.of_sites.total(key)
    return f"{key} not recorded" if a is None or b is None else f"{key} {b - a:+,}"


def write(
    args: argparse.Namespace,
    title: str,
    rows: Differences,
    found: list[Outcome],
    programs: Sequence[dict],
    resident: list[dict],
    remark: str,
) -> None:
    """Write the comparison in the form that the arguments request. programs: how they ended; resident: rows of ResidentChanges;
    remark: a line, or ""."""
    columns = listing.unknown(COLUMNS, rows.unknown())
    if args.markdown:
        with Output(args.output or "-") as out:
            out.write(markdown(title, found, rows, args.top))
            out.write((markdown_resident(resident) if resident else "") + remark)
    elif found and args.json:
        with Output(args.output or "-") as out:
            out.write(
                json_object(
                    found,
                    programs,
                    resident,
                    "".join(listing.json_parts(listing.cut(rows, args.top), columns, rows.sample)).rstrip(),
                )
            )
    elif (found or resident or remark) and not args.csv and not args.json:
        plain = not sys.stdout.isatty() or args.output not in (None, "-")
        with Output(args.output or "-") as out:
            out.write(listing.text(title, rows, columns, args.top, plain, args.sort, UNCHANGED))
            out.write((resident_text(resident, plain) if resident else "") + remark)
            out.write(outcomes_text(found, columns, plain) if found else "")
    else:
        listing.write_ranked(args, title, rows, columns, UNCHANGED, rows.sample)


def run(args: argparse.Namespace) -> int:
    from steve.analysis.differences import Differences
    from steve.trace.matched import Matched

    listing.check(args, COLUMNS)
    wanted, names = [Condition(text) for text in args.fail_if], Matched(args.by)
    with gates.mark_is_needed(wanted):
        judges_sites = any(condition.judges_sites for condition in wanted)
        name, first, status = measured_first(args, names, judges_sites)
        files = side_of(args, args.second)
        second = measured_side(files, names, judges_sites)
    title = ", ".join(change_text(first, second, key) for key in differences.KEYS)
    title += of_strings(first, second)
    if os.path.isdir(args.first) and len(files) == 1:
        title += f" ({several.PEAKS})"
    cut_short = first.cut_short + second.cut_short
    title += "".join(f" ({text})" for text in cut_short[:MOST_CUT_SHORT])
    every, in_full = Differences(names, first.of_sites, second.of_sites), args.json or args.csv
    judged = Differences(names, first.judged, second.judged) if judges_sites else every
    found = outcomes(wanted, first, second, every, judged, None if args.json else CAUSES)
    resident = ResidentChanges(first.resident, second.resident)
    remark = resident.remark()
    if first.closed or second.closed:
        remark += f"{chr(10) if remark else ''}{closed.GARBAGE}."
    top = args.top if in_full or args.top is not None else listing.TOP
    rows = every.changed().ranked(args.sort, top, absolute=True)
    write(
        args,
        f"{name} to {files.title(title, name=name_of(files, args.second), sample=rows.sample)}",
        rows,
        found,
        first.programs + second.programs,
        resident.rows(),
        f"\n{remark}\n" if remark else "",
    )
    failed = [outcome.condition for outcome in found if outcome.failed]
    said = closed.remark(found)
    for trace in second.closed if said else ():
        complain(NAME, f"{trace}: {said}")
    for text in cut_short:
        complain(NAME, text)
    if failed:
        complain(NAME, f"{len(failed)} of {len(found)} conditions failed: {'; '.join(failed)}")
    return max(status, files.verdict(), bool(failed))
