"""steve diff: compare two traces by allocation site, line, function...

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve.analysis import blocks
from steve.system import samples
from steve.terminal import arguments
from steve.terminal import listing
from steve.trace import policy, rollups, source
from steve.terminal.listing import Column
from steve.trace.stacks import SITE

NAME = "diff"
HELP = "compare two memtraces: what grew, by allocation site or line"
MEASURES = (
    ("blocks", "blocks", "blocks made"),
    ("bytes", "bytes", "bytes that News and Resizes requested"),
    ("peak_bytes", "at peak", "live bytes at the peak of the whole heap"),
    ("live_bytes", "at end", "bytes of blocks never freed"),
    ("accesses", "accesses", "loads, stores and modifications of the blocks"),
)
COLUMNS = tuple(
    column
    for key, head, what in MEASURES
    for column in (
        Column(f"{key}_a", "", f"{what}, in the first trace"),
        Column(f"{key}_b", "", f"{what}, in the second"),
        Column(f"{key}_change", head, f"{key}_b minus {key}_a"),
    )
) + (Column("place", "where", f"{SITE}; or what --by names", True),)
# the variances of measures that are estimates, in a sample of the blocks
ESTIMATES = ("variance_blocks", "variance_bytes", "variance_peak_bytes", "variance_live_bytes")
ACCESSES = ("loads", "stores", "modifies")
EXAMPLES = f"""\
Rows are matched by their names, so the two traces may come from different builds. Rows without any change are left
out; the rows with the largest growth come first.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve diff before.ljt after.ljt
  steve diff before.ljt after.ljt --by line --sort peak_bytes_change
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help=source.TRACE_HELP)
    parser.add_argument("second", metavar="B", help="the memtrace to compare with it")
    parser.add_argument("--salvage", action="store_true", help="skip damaged chunks and continue after them")
    arguments.add_quiet(parser)
    blocks.add_choice(parser)
    policy.add_arguments(parser)
    rollups.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes_change")
    blocks.add_shards(parser)


def measured(chosen: blocks.Blocks) -> dict[str, dict]:
    """The measures of one trace by place."""
    (sums,) = chosen.sum_by(rollups.key_of(chosen.args.by))
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    numbers, rows = rollup.merged(sums)
    found: dict[str, dict] = {}
    for number, row in zip(numbers.tolist(), rows):
        known = found.setdefault(rollup.text(number), dict.fromkeys((key for key, _, _ in MEASURES), 0))
        for key, _, _ in MEASURES:
            known[key] += sum(int(row[name]) for name in ACCESSES) if key == "accesses" else int(row[key])
        for key in ESTIMATES:
            known[key] = known.get(key, 0) + float(row[key])
    return found


def row_of(place: str, first: dict, second: dict) -> dict:
    """The row of a place, from its measures in both traces."""
    row: dict = {"place": place}
    for key, _, _ in MEASURES:
        a, b = first.get(key, 0), second.get(key, 0)
        row.update({f"{key}_a": a, f"{key}_b": b, f"{key}_change": b - a})
    variances = {}
    for key in ESTIMATES:
        a, b = first.get(key, 0), second.get(key, 0)
        variances.update({f"{key}_a": a, f"{key}_b": b, f"{key}_change": a + b})
    columns = {key.removeprefix("variance_"): key.removeprefix("variance_") for key in variances}
    return {**row, **samples.standard_errors(variances, columns)}


def changed(first: dict[str, dict], second: dict[str, dict]) -> list[dict]:
    """The rows of the places whose measures differ."""
    rows = [row_of(place, first.get(place, {}), second.get(place, {})) for place in {**first, **second}]
    return [row for row in rows if any(row[f"{key}_change"] for key, _, _ in MEASURES)]


def total(found: dict[str, dict], key: str) -> int:
    """A measure over all places."""
    return sum(row[key] for row in found.values())


def measured_first(args: argparse.Namespace) -> tuple[str, dict[str, dict], int]:
    """The name of the first trace, its measures and the exit status. The trace is closed on return, so that both
    are not in memory at the same time."""
    chosen = blocks.Blocks(NAME, argparse.Namespace(**{**vars(args), "file": args.first}))
    found = measured(chosen)
    return chosen.trace.name, found, chosen.verdict()


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    name, first, status = measured_first(args)
    chosen = blocks.Blocks(NAME, argparse.Namespace(**{**vars(args), "file": args.second}))
    second = measured(chosen)
    title = ", ".join(f"{key} {total(second, key) - total(first, key):+,}" for key, _, _ in MEASURES)
    rows = listing.Summed(listing.ranked(changed(first, second), COLUMNS, args.sort), "place")
    listing.write_ranked(args, f"{name} to {chosen.title(title)}", rows, COLUMNS)
    return max(status, chosen.verdict())
