"""steve findings: suspicious blocks, by rule (steve.analysis.rules) and allocation site, and errors of the program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.system import samples
from steve.terminal import listing
from steve.system.errors import UsageError
from steve.terminal.listing import Column, count
from steve.trace import policy, rollups
from steve.system.output import Output
from steve.analysis.rules import DEFAULTS, RULES, Rule, limits
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    from steve.analysis.program_errors import Faults
    from steve.analysis.reducers import Table

NAME = "findings"
ERRORS = "errors"
HELP = "show blocks that deserve a look: never read, hardly used, long idle..."

COLUMNS = (
    Column("blocks", "blocks", "blocks of the site that the rule finds"),
    Column("bytes", "bytes", "their bytes at the end of their lives"),
    Column("share", "% of bytes", "these bytes in percent of the bytes of all blocks examined"),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
ERROR_COLUMNS = (
    Column("count", "", "number of errors in this context"),
    Column("kind", "", "kind of the access: load, store or modify; or badfree", True),
    Column("at", "", "the line of the access, or the stack of the free", True),
    Column("size", "", "bytes accessed"),
    Column("thread", "", "number of the thread; this and the next columns describe the first error of the context"),
    Column("block", "", "handle of the block concerned; empty if there is none"),
    Column("offset", "", "offset of the access in the block"),
    Column("block_size", "", "bytes of the block at its end"),
    Column("made_at", "", "the stack of its New", True),
    Column("freed_at", "", "the stack of its Free", True),
)
RULE = Column("finding", "", "the rule", True)
# columns with standard errors in a sample of the blocks, and their sums
ESTIMATES = {"blocks": "blocks", "bytes": "size"}
EXAMPLES = f"""\
A block can be found by several rules. The output shows each rule with its thresholds:
{chr(10).join(listing.entry(rule.key, rule.text(DEFAULTS), 16) for rule in RULES)}
--json: a list with an object for each rule: finding, title, rule, blocks, bytes, share, and the list sites
with the columns below. --csv: one line for each rule and site, and for each context of errors.
The errors of the program (rule `errors`) come first: accesses to freed memory, accesses beyond the end of a block or
beside a block of malloc, and double, invalid, inside, wrong-heap and mismatched frees. Errors made at the same place
form one context. Loads beyond the end of a block are not reported if they are aligned to their size or made by
string functions of the C library, which read whole vectors; `steve check` counts them all. Errors are found in the
whole trace only, so they are not shown with --where, --from or --to.
--json: the list begins with objects for errors: finding, title, rule, errors and the list contexts with the columns
of errors below. --csv: the first column is `finding`; then come the columns of sites and those of errors, and those
that do not apply to a line are empty. --top limits the sites and the contexts of each rule.
Rules about accesses are left out, with a remark, if the trace has no accesses.

{listing.explained(COLUMNS)}

columns of errors:
{chr(10).join(listing.entry(c.key, c.meaning) for c in ERROR_COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve findings app.ljt
  steve findings app.ljt --utilisation 25 --min-size 1024 --rules low_utilisation
"""


def percent(text: str) -> float:
    """argparse type: a number from 0 to 100, with or without a percent sign."""
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = -1
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 100")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    policy.add_arguments(parser)
    parser.add_argument("--rules", metavar="LIST", help="only these rules, with commas between")
    for name, kind, what in (
        ("early", percent, "the first N percent of a life are its beginning"),
        ("late", percent, "a first access after N percent of a life is late"),
        ("idle", percent, "an idle end of at least N percent of a life is long"),
        ("utilisation", percent, "utilisation is low if less than N percent of the bytes are used"),
        ("short", count, "a life of at most N operations is short"),
        ("chain", count, "N or more resizes are a chain"),
        ("min-life", count, "judge the parts of a life only if it has N operations or more"),
        ("min-size", count, "judge the utilisation only of blocks of N bytes or more"),
    ):
        value = DEFAULTS[name.replace("-", "_")]
        parser.add_argument(f"--{name}", metavar="N", type=kind, default=value, help=f"{what} (default: {value})")
    listing.add_arguments(parser, COLUMNS, "bytes")
    rollups.add_arguments(parser)
    blocks.add_shards(parser)


def rules_of(args: argparse.Namespace) -> list[Rule]:
    """The rules that --rules names."""
    if args.rules is None:
        return list(RULES)
    known = {rule.key: rule for rule in RULES}
    unknown = [key for key in args.rules.split(",") if key not in known and key != ERRORS]
    if unknown:
        raise UsageError(f"--rules: no rule '{unknown[0]}'; there are: {', '.join((ERRORS, *known))}")
    return [known[key] for key in args.rules.split(",") if key != ERRORS]


def names_errors(args: argparse.Namespace) -> bool:
    """Does --rules name the rule `errors`?"""
    return args.rules is not None and ERRORS in args.rules.split(",")


def wants_errors(args: argparse.Namespace) -> bool:
    """Are the errors of the program to be reported?"""
    return (args.rules is None or names_errors(args)) and blocks.is_whole(args)


def errors_of(chosen: blocks.Blocks, met: Faults, args: argparse.Namespace) -> list[dict]:
    """The objects of --json for the errors that the walk found; reads the trace again for their details."""
    from steve.analysis import program_errors
    from steve.terminal.progress import Progress

    with Progress(NAME, args.quiet) as progress:
        return program_errors.read(met.contexts(chosen.trace), chosen.trace, chosen.open_again, progress)


def sums_of(chosen: blocks.Blocks, rules: list[Rule], args: argparse.Namespace) -> tuple:
    """(for each rule an array by stack, thread or type, as --by needs, with the fields blocks and size, for the blocks it
    finds; bytes of all selected blocks)."""
    import numpy as np
    from steve.kernels._lives import Findings

    found = chosen.fold(partial(Findings, limits(vars(args)), rollups.key_of(args.by)))
    rows = found.rows()
    sums = []
    for number in (RULES.index(rule) for rule in rules):
        sums.append(
            np.zeros(len(rows), [("blocks", "u8"), ("size", "u8"), ("variance_blocks", "f8"), ("variance_size", "f8")])
        )
        for name, column in (("blocks", "blocks"), ("size", "bytes")):
            sums[-1][name] = rows[column][:, number]
            sums[-1][f"variance_{name}"] = rows[f"variance_{column}"][:, number]
    return sums, found.bytes()


def row_of(found: dict, total: int) -> dict:
    """The columns of a site. found: the sums over its blocks; total: bytes of all selected blocks."""
    return {
        "blocks": found["blocks"],
        "bytes": found["size"],
        "share": blocks.share(found["size"], total),
        **samples.standard_errors(found, ESTIMATES),
    }


def finding(rule: Rule, sums: Table, total: int, chosen: blocks.Blocks) -> dict:
    """The object of --json for one rule, with the rows of its sites. sums: the blocks it finds, by stack, thread or type; total: bytes
    of all selected blocks."""
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    sites = rollups.SummedRows(rollup, rollup.merged(rollups.Sums(*sums)), partial(row_of, total=total))
    size = int(sums.rows["size"].sum())
    totals = {name: float(sums.rows[name].sum()) for name in sums.rows.dtype.names}
    errors = samples.standard_errors(totals, ESTIMATES).get("standard_errors", {})
    return {
        "finding": rule.key,
        "title": rule.title,
        "rule": rule.text(vars(chosen.args)),
        "blocks": int(sums.rows["blocks"].sum()),
        "bytes": size,
        "share": blocks.share(size, total),
        "sites": sites.ranked(chosen.args.sort),
        **samples.facts(errors),
    }


def heading(found: dict) -> str:
    """The title of the table of one rule."""
    return (
        f"{found['title']}: {found['blocks']:,} blocks, {found['bytes']:,} bytes "
        f"({listing.cell(found['share'])}%)\n  {found['rule']}"
    )


def text(
    chosen: blocks.Blocks, errors: list[dict], findings: list[dict], args: argparse.Namespace, left_out: str
) -> str:
    """The text output: the errors, then a table for each rule. left_out: a remark on what is missing, or ""."""
    from steve.analysis import program_errors

    plain = not sys.stdout.isatty() or args.output not in (None, "-")
    parts = [chosen.title("findings") + "\n"] + ([left_out + "\n"] if left_out else [])
    parts += [program_errors.text(errors, listing.TOP if args.top is None else args.top)] if errors else []
    for found in findings:
        parts.append(listing.text(heading(found), found["sites"], rollups.headed(COLUMNS, args.by), args.top, plain))
    return "\n".join(parts)


def csv_text(findings: list[dict]) -> str:
    """A line for each context of errors and for each site."""
    columns = (RULE, *COLUMNS, *ERROR_COLUMNS)
    none = dict.fromkeys(column.key for column in columns)
    rows = [
        {**none, "finding": found["finding"], **row}
        for found in findings
        for row in found.get("contexts", found.get("sites", []))
    ]
    return listing.csv_text(rows, columns)


def write(
    args: argparse.Namespace, chosen: blocks.Blocks, errors: list[dict], findings: list[dict], left_out: str
) -> None:
    if args.json or args.csv:
        for found in errors + findings:
            rows = "contexts" if "contexts" in found else "sites"
            found[rows] = list(listing.cut(found[rows], args.top)[:])
            if samples.mean() and rows == "sites":
                found[rows] = listing.estimated(found[rows])
    with Output(args.output or "-") as out:
        if args.json:
            out.write(json.dumps(errors + findings, indent=1) + "\n")
        elif args.csv:
            out.write(csv_text(errors + findings))
        else:
            out.write(text(chosen, errors, findings, args, left_out))


def is_judged(rule: Rule, chosen: blocks.Blocks) -> bool:
    """Does the trace have what the rule is about?"""
    return (chosen.totals["accesses"] > 0 or not rule.of_accesses) and not (rule.of_all and samples.mean())


def left_out_of(chosen: blocks.Blocks, missing: list[str], args: argparse.Namespace) -> str:
    """A remark on requested rules that cannot be evaluated, "" if there are none: rules about accesses if the trace has
    none, accesses to freed memory, errors in a part of the trace."""
    errors = wants_errors(args)
    why = "is a sample of the blocks" if samples.mean() else "holds no accesses"
    parts = [f"the trace {why}; left out: {', '.join(missing)}"] if missing else []
    if names_errors(args) and not errors:
        parts.append("errors are found in the whole trace only; left out with --where, --from and --to")
    if errors and chosen.trace.info().get("trace_freed") == "no" and not samples.mean():
        parts.append(
            "freed memory was not watched (--trace-freed=no): accesses to it are not reported, "
            "and double frees are reported as invalid ones"
        )
    return "; ".join(parts)


def run(args: argparse.Namespace) -> int:
    from steve.analysis.program_errors import Faults
    from steve.system.messages import note

    listing.check(args, COLUMNS)
    rules = rules_of(args)
    met = Faults()
    chosen = blocks.Blocks(NAME, args, again=True, errors=met if wants_errors(args) else None)
    sums, total = sums_of(chosen, rules, args)
    judged = [is_judged(rule, chosen) for rule in rules]
    missing = [rule.key for rule, kept in zip(rules, judged) if not kept]
    left_out = left_out_of(chosen, missing, args)
    findings = [
        finding(rule, blocks.nonzero_rows(rows), total, chosen) for rule, rows, kept in zip(rules, sums, judged) if kept
    ]
    write(args, chosen, errors_of(chosen, met, args), findings, left_out)
    if left_out:
        note(NAME, left_out, args.quiet)
    return chosen.verdict()
