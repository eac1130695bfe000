"""steve globals: blocks that live nearly as long as the program, as global variables do.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from functools import partial
from typing import TYPE_CHECKING, List, Optional

from steve import blocks, listing
from steve.commands.findings import percent
from steve.folds import both, columns
from steve.listing import Column, count
from steve.stacks import SITE

if TYPE_CHECKING:
    import numpy as np

NAME = "globals"
HELP = "show blocks that live nearly as long as the program, as globals do"
COLUMNS = (
    Column("handle", "handle", "number of the block, in the order of the News"),
    Column("bytes", "bytes", "its bytes at the end of its life"),
    Column("share", "% of run", "its lifetime in percent of all operations"),
    Column("accesses", "accesses", "loads, stores and modifications of it"),
    Column("loads", "loads", "loads from it"),
    Column("stores", "stores", "stores to it"),
    Column("modifies", "", "modifications of it"),
    Column("freed", "", "1 if it was freed, 0 if it lived to the end"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
A block is listed if it lives for at least --share percent of all operations and is accessed at least
--accesses times. Memory for such blocks might as well be static; a heap that compacts has to get around them.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve globals app.ljt
  steve globals app.ljt --share 50 --accesses 1000 --sort bytes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    parser.add_argument("--share", metavar="N", type=percent, default=90,
                        help="least per cent of all operations that it lives through (default: 90)")
    parser.add_argument("--accesses", metavar="N", type=count, default=1,
                        help="least accesses to it (default: 1)")
    listing.add_arguments(parser, COLUMNS, "accesses")


# Of a life, what is shown or asked for.
KEPT = ("handle", "size", "born", "died", "loads", "stores", "modifies", "freed", "stack")


class Candidates:
    """The fold: the lives that are long enough so far. One too short for the operations up to its death is too short
    for all of them, so only blocks that lived at the same time have to be kept."""

    numbered = True

    def __init__(self, share: float, accesses: int) -> None:
        """share: of the operations; accesses: the least there are."""
        self._share, self._accesses = share, accesses
        self._kept: "List[np.ndarray]" = []

    def add(self, batch: "np.ndarray", keep: "Optional[np.ndarray]") -> None:
        touched = batch["loads"] + batch["stores"] + batch["modifies"] >= self._accesses
        long = (batch["died"] - batch["born"]) >= batch["died"] * self._share
        self._kept.append(columns(batch[both(keep, touched & long)], *KEPT))

    def part(self, peak: int) -> "List[np.ndarray]":
        return self._kept

    def join(self, part: "List[np.ndarray]", peak: int) -> None:
        self._kept += part

    def lives(self, operations: int) -> "np.ndarray":
        """Those that are long enough, of so many operations in all, in the order of their ends."""
        import numpy as np
        lives = np.concatenate(self._kept)
        lives = lives[lives["died"] - lives["born"] >= operations * self._share]
        return lives[np.lexsort((lives["handle"], lives["died"]))]


def candidates(chosen: blocks.Blocks, args: argparse.Namespace) -> "np.ndarray":
    """The lives that are long enough."""
    found = chosen.fold(partial(Candidates, args.share / 100, args.accesses))
    return found.lives(chosen.totals["operations"])


def row_of(chosen: blocks.Blocks, life: dict) -> dict:
    """One row from a life."""
    total = chosen.totals["operations"]
    return {**{name: life[name] for name in ("handle", "loads", "stores", "modifies", "freed")},
            "bytes": life["size"], "share": blocks.share(life["died"] - life["born"], total),
            "accesses": life["loads"] + life["stores"] + life["modifies"],
            "site": chosen.places.site_name(life["stack"])}


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    lives = candidates(chosen, args)
    rows = [row_of(chosen, dict(zip(lives.dtype.names, life))) for life in lives.tolist()]
    size = sum(row["bytes"] for row in rows)
    title = f"{len(rows):,} blocks of {size:,} bytes live for {args.share:g}% or more"
    listing.write(args, chosen.title(title), rows, COLUMNS)
    return chosen.verdict()
