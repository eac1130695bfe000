"""steve temporaries: blocks that are freed soon after they are made, by allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.analysis.folds import Sums, Table
from steve.terminal.listing import Column, count
from steve.trace import policy, rollups
from steve.trace.stacks import SITE
from steve.terminal.units import counted

if TYPE_CHECKING:
    import numpy as np

NAME = "temporaries"
HELP = "show blocks that are freed soon after they are made, by allocation site"
COLUMNS = (
    Column("temporaries", "temporaries", "blocks of the site that are temporary"),
    Column("bytes", "bytes", "bytes that the News and Resizes of the temporaries requested"),
    Column("made", "made", "all blocks made by the site"),
    Column("share", "% of made", "temporaries in percent of made"),
    Column("mean_lifetime", "lifetime", "operations from New to Free of the temporaries, on average"),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
EXAMPLES = f"""\
A block is temporary if it is freed before the next block is made or, with --within N, at most N operations after it
was made.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve temporaries app.ljt
  steve temporaries app.ljt --within 100 --where 'heap = "lua"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    parser.add_argument(
        "--within",
        metavar="N",
        type=count,
        help="count blocks freed within N operations, instead of before the next New",
    )
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "temporaries")
    rollups.add_arguments(parser, several=True)
    blocks.add_shards(parser)


def are_temporary(batch: np.ndarray, within: int | None) -> np.ndarray:
    """A mask of the lives that are temporary. within: the argument of --within."""
    soon = batch["news"] == 0 if within is None else batch["died"] - batch["born"] <= within
    return soon & (batch["freed"] != 0)


# the sums that the rows need: of temporaries, and of all blocks
OF_TEMPORARIES, OF_ALL = ("blocks", "bytes", "lifetimes"), ("blocks",)


def sums_of(chosen: blocks.Blocks, args: argparse.Namespace) -> list[Table]:
    """Sums by what --by needs: of the selected blocks that are temporary, and of all selected blocks."""
    temporary, key = partial(are_temporary, within=args.within), rollups.key_of(args.by)
    tables = chosen.fold(partial(Sums, (key, temporary), key)).rows(chosen.totals["peak"], OF_TEMPORARIES, OF_ALL)
    del chosen.lives  # frees memory for what follows
    return tables


def title(count: int, args: argparse.Namespace) -> str:
    """The heading of the table. count: the number of temporaries."""
    rule = "before the next New" if args.within is None else f"within {args.within:,} operations"
    return f"{counted(count, 'block')} freed {rule}"


def row_of(found: dict) -> dict:
    """The columns of a site. found: the sums over its blocks."""
    return {
        "temporaries": found["temporaries"],
        "bytes": found["bytes"],
        "made": found["made"],
        "share": blocks.share(found["temporaries"], found["made"]),
        "mean_lifetime": blocks.mean(found["lifetimes"], found["temporaries"]),
    }


def add_sums(chosen: blocks.Blocks, found: several.Joined) -> None:
    """Add the sums of a file."""
    tables = sums_of(chosen, chosen.args)
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    short, made = map(rollup.merged, tables)
    sums = rollups.joined(
        short.numbers,
        {
            "temporaries": (short, "blocks"),
            "bytes": (short, "bytes"),
            "lifetimes": (short, "lifetimes"),
            "made": (made, "blocks"),
        },
    )
    found.add(rollup, sums)


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files, found = several.Files(NAME, args), several.Joined(args)
    for chosen in files:
        add_sums(chosen, found)
    heading = files.title(title(int(found.sums.rows["temporaries"].sum()), args), peaks=False)
    listing.write_ranked(args, heading, found.rows(row_of).ranked(args.sort), files.columns(columns))
    return files.verdict()
