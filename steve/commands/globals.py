"""steve globals: blocks that live nearly as long as the program does.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.commands.findings import percent
from steve.analysis.folds import Kept, both, columns
from steve.terminal.listing import Column, count
from steve.trace import policy, rollups
from steve.trace.rollups import PROCESS
from steve.trace.stacks import SITE
from steve.terminal.units import counted

if TYPE_CHECKING:
    import numpy as np

    from steve.terminal.tables import StackText

NAME = "globals"
HELP = "show blocks that live nearly as long as the program, as globals do"
COUNTS_ACCESSES = True
COLUMNS = (
    Column("handle", "handle", "number of the block, in the order of the News"),
    Column("bytes", "bytes", "size of the block at the end of its life"),
    Column("share", "% of run", "its lifetime in percent of all operations"),
    Column("accesses", "accesses", "loads, stores and modifications of the block"),
    Column("loads", "loads", "loads from the block"),
    Column("stores", "stores", "stores to the block"),
    Column("modifies", "", "modifications of the block"),
    Column("freed", "", "1 if it was freed, 0 if it lived to the end"),
    Column("site", "site", SITE, True),
)
OF_SEVERAL = Column(PROCESS, PROCESS, "the file, and the number of its process; of several files only", True)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("accesses", "loads", "stores", "modifies")
EXAMPLES = f"""\
A block is listed if it lives for at least --share percent of all operations and is accessed at least
--accesses times. Such blocks could be static memory instead; a compacting heap has to work around them.

{listing.explained((OF_SEVERAL, *COLUMNS))}

{blocks.WHERE_HELP}
examples:
  steve globals app.ljt
  steve globals app.ljt --share 50 --accesses 1000 --sort bytes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    parser.add_argument(
        "--share",
        metavar="N",
        type=percent,
        default=90,
        help="least lifetime, in percent of all operations (default: 90)",
    )
    parser.add_argument(
        "--accesses", metavar="N", type=count, default=1, help="least number of accesses to the block (default: 1)"
    )
    listing.add_arguments(parser, (OF_SEVERAL, *COLUMNS), "accesses")
    parser.set_defaults(apart=False)
    blocks.add_shards(parser)


# the fields of a life that are shown or compared
KEPT = ("handle", "size", "born", "died", "loads", "stores", "modifies", "freed", "stack")
LEAST_ROOM = 10_000  # lives to collect before the short ones are dropped


class Candidates(Kept):
    """The fold that keeps the lives that are long enough.

    A life must last for `share` of all operations, whose number is known only at the end. A life that is too short
    for the operations so far is too short for all of them, so it can be dropped at once. Few blocks remain, because
    all that remain must have lived at the same time for shares above one half."""

    needs_operation_numbers = True

    def __init__(self, share: float, accesses: int) -> None:
        """share: the least lifetime as a fraction of all operations; accesses: the least number of accesses."""
        super().__init__()
        self._share, self._accesses = share, accesses
        self._n = self._room = 0

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        """Add the lives of a batch that the mask `keep` selects; None: all."""
        touched = batch["loads"] + batch["stores"] + batch["modifies"] >= self._accesses
        self._kept.append(columns(batch[both(keep, touched & self._lasting(batch, batch["died"]))], *KEPT))
        self._n += len(self._kept[-1])
        if self._n > self._room:
            self._drop(int(batch["died"].max()))

    def _lasting(self, lives: np.ndarray, operations: int | np.ndarray) -> np.ndarray:
        """A mask of the lives that are long enough for that number of operations."""
        return (lives["died"] - lives["born"]) >= operations * self._share

    def _drop(self, operations: int) -> None:
        """Drop the lives that are too short for that number of operations. The next time is when twice as many lives
        as remain now have been collected."""
        self._kept = [lives[self._lasting(lives, operations)] for lives in self._kept]
        self._kept = [lives for lives in self._kept if len(lives)]
        self._n = sum(map(len, self._kept))
        self._room = 2 * self._n + LEAST_ROOM

    def lives(self, operations: int) -> np.ndarray:
        """The lives that are long enough, in the order of their ends. operations: the number in the whole trace."""
        import numpy as np
        from steve.kernels._lives import LIFE

        self._drop(operations)
        lives = np.concatenate([columns(np.empty(0, LIFE), *KEPT), *self._kept])
        self._kept = []
        return lives[np.lexsort((lives["handle"], lives["died"]))]


class Found:
    """The long lives of all files, as an array with KEPT and: the number of the file and that of the text of the site."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._files: list[tuple[str, int]] = []  # the process, and the number of operations
        self._texts: dict[StackText, int] = {}
        self._lives: list[np.ndarray] = []

    def add(self, chosen: blocks.Blocks) -> None:
        """Add the lives of a file."""
        import numpy as np
        from numpy.lib.recfunctions import append_fields

        found = chosen.fold(partial(Candidates, self._args.share / 100, self._args.accesses))
        operations = found.totals["operations"]
        lives = found.fold.lives(operations)
        stacks, which = np.unique(lives["stack"], return_inverse=True)
        site_name = chosen.places.listed_sites(chosen.args)
        numbers = [self._texts.setdefault(site_name(stack), len(self._texts)) for stack in stacks.tolist()]
        more = np.full(len(lives), len(self._files), "u4"), np.array(numbers, "u4")[which]
        self._lives.append(append_fields(lives, ("file", "site"), more, usemask=False))
        self._files.append((rollups.process_text(chosen.trace), operations))

    def join(self, other: Found) -> None:
        """Add the lives of other files."""
        import numpy as np

        numbers = [self._texts.setdefault(text, len(self._texts)) for text in other._texts]
        for lives in other._lives:
            lives["site"] = np.array(numbers, "u4")[lives["site"]]
            lives["file"] += len(self._files)
            self._lives.append(lives)
        self._files += other._files

    def ranked(self, order: str) -> Rows:
        """The rows sorted as listing.ranked() would sort them, without making a dictionary for each. order: the key of the
        sort column."""
        import numpy as np

        lives, texts = np.concatenate(self._lives), list(self._texts)
        places = np.empty(len(texts), "u8")
        places[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        sites = places[lives["site"]]
        by_name = {"site": (sites,), rollups.PROCESS: (sites, lives["file"])}
        keys = by_name[order] if order in by_name else (sites, ~self._numbers(lives, order))
        return Rows(lives[np.lexsort(keys)], self._files, texts)

    def _numbers(self, lives: np.ndarray, column: str) -> np.ndarray:
        """The integers by which lives are sorted for a column."""
        if column == "share":
            return lives["died"] - lives["born"]
        if column == "accesses":
            return lives["loads"] + lives["stores"] + lives["modifies"]
        return lives["size" if column == "bytes" else column]


class Rows:
    """A list of rows that makes each row on demand. lives, texts: of Found; files: the process of each file, and the number of
    operations in the whole trace."""

    def __init__(self, lives: np.ndarray, files: list[tuple[str, int]], texts: list[StackText]) -> None:
        self.lives, self._files, self._texts = lives, files, texts

    def __len__(self) -> int:
        return len(self.lives)

    def __getitem__(self, some: slice) -> list[dict]:
        lives = self.lives[some]
        return [self._row(dict(zip(lives.dtype.names, life))) for life in lives.tolist()]

    def _row(self, life: dict) -> dict:
        """The row of one life."""
        process, operations = self._files[life["file"]]
        return {
            **({PROCESS: process} if len(self._files) > 1 else {}),
            **{name: life[name] for name in ("handle", "loads", "stores", "modifies", "freed")},
            "bytes": life["size"],
            "share": blocks.share(life["died"] - life["born"], operations),
            "accesses": life["loads"] + life["stores"] + life["modifies"],
            "site": self._texts[life["site"]],
        }


def run(args: argparse.Namespace) -> int:
    files = several.Files(NAME, args)
    columns = (OF_SEVERAL, *COLUMNS) if len(files) > 1 else COLUMNS
    listing.check(args, columns)
    found = files.collect(partial(Found, args), Found.add)
    rows = found.ranked(args.sort)
    size = counted(int(rows.lives["size"].sum()), "byte")
    title = files.title(f"{counted(len(rows), 'block')} of {size} live for {args.share:g}% or more", peaks=False)
    listing.write_ranked(args, title, rows, files.columns(columns, OF_ACCESSES))
    return files.verdict(counts_accesses=args.accesses > 0)
