"""steve resizes: chains of resizes, the bytes they copy and the growth they lead to, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.system.messages import note
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import policy, rollups
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAME = "resizes"
HELP = "show chains of resizes: how long, how often moved, what was copied"
WHOSE_MOVES = "in a recording of Valgrind, blocks of malloc are moved by Valgrind's allocator, not by the program's"
COLUMNS = (
    Column("resizes", "resizes", "resizes of the site's blocks, made anywhere", sum="resizes"),
    Column("resized", "blocks", "blocks that were resized at least once", sum="resized"),
    Column("made", "made", "all blocks made by the site", sum="blocks"),
    Column("longest", "longest", "most resizes of one block", sum="most_resizes"),
    Column("moves", "moves", f"resizes that gave the block another address; {WHOSE_MOVES}", sum="moves"),
    Column(
        "copied",
        "copied",
        "bytes that these moves had to copy: the smaller of old and new size; likewise",
        sum="copied",
    ),
    Column("first_size", "first bytes", "bytes of the resized blocks at their News, on average"),
    Column("last_size", "last bytes", "bytes of the resized blocks at the end of their lives, on average"),
    Column("site", "site", f"the site of the New: {SITE}; or what --by names", True),
)
SHOWN = listing.sums_of(COLUMNS)
SUMS = (*SHOWN.values(), "first_size", "last_size")
REPLACED = (
    "Valgrind's allocator moves a block of malloc at nearly every resize, so moves and bytes copied are not those of the "
    "program's own allocator; `ljtrace run` records these"
)
EXAMPLES = f"""\
If a block is resized again and again and moves each time, it grows in steps that are too small, or the program could
have allocated its final size at once.
Valgrind replaces malloc. Its allocator moves a block at nearly every resize that makes it larger, where the
program's own may extend it in place. `moves` and `copied` of a recording of Valgrind are therefore far too large
for blocks of malloc; `ljtrace run` records what the program's own allocator does. The other columns do not depend
on the allocator.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve resizes app.ljt
  steve resizes app.ljt --where 'resizes >= 8' --sort longest
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "copied")
    rollups.add_arguments(parser, several=True)
    blocks.add_shards(parser)


def row_of(found: dict) -> dict:
    """The columns of a site. found: the sums over its blocks."""
    return {
        **{key: found[name] for key, name in SHOWN.items()},
        "first_size": blocks.mean(found["first_size"], found["resized"]),
        "last_size": blocks.mean(found["last_size"], found["resized"]),
    }


def replaced_malloc(trace: Trace) -> bool:
    """Was the program's malloc replaced by that of Valgrind?"""
    return "valgrind" in trace.info()


class Resized:
    """The rows of all files, and the names of those in which Valgrind's malloc copied."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.rows, self.replaced = several.Joined(args), list[str]()

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file."""
        add_sums(self.rows, chosen)
        if replaced_malloc(chosen.trace):
            self.replaced.append(chosen.trace.name)

    def join(self, other: Resized) -> None:
        """Add other files."""
        self.rows.join(other.rows)
        self.replaced += other.replaced


def add_sums(found: several.Joined, chosen: blocks.Blocks) -> None:
    """Add the sums of the sites of a file whose blocks were resized."""
    (sums,) = chosen.sum_by(rollups.key_of(chosen.args.by), columns=SUMS)
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    numbers, rows = rollup.merged(sums)
    resized = rows["resizes"] != 0
    found.add(rollup, rollups.Sums(numbers[resized], rows[resized]))


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(Resized, args), Resized.add)
    resizes, copied = (int(found.rows.sums.rows[key].sum()) for key in ("resizes", "copied"))
    replaced = found.replaced if copied else []
    title = f"{resizes:,} resizes, {copied:,} bytes copied{' with the allocator of Valgrind' if replaced else ''}"
    rows = found.rows.rows(row_of).ranked(args.sort)
    listing.write_ranked(args, files.title(title, peaks=False), rows, files.columns(columns))
    for name in replaced:
        note(NAME, f"{name}: {REPLACED}", args.quiet)
    return files.verdict()
