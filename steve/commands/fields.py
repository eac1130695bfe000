"""steve fields: which bytes of an allocation site's blocks are read and written.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import heapq
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.analysis.offsets import fields_of, groups_of
from steve.terminal import listing
from steve.terminal.listing import Column, count
from steve.system.errors import UsageError
from steve.trace import policy, rollups, source
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    import numpy as np
    from steve.kernels._lives import Selection

NAME = "fields"
HELP = "show which bytes of a site's blocks are read and written"
COUNTS_ACCESSES = True
COLUMNS = (
    Column("offset", "offset", "first byte of the field in the block"),
    Column("bytes", "bytes", "bytes of the field"),
    Column("loads", "loads", "loads of each of its bytes, from all blocks of the site"),
    Column("stores", "stores", "stores to each of its bytes"),
    Column("modifies", "modifies", "modifications of each of its bytes"),
    Column("cell", "cell", "resolution of the offsets in bytes: 1, or more for sites with blocks over 4096 bytes"),
    Column("blocks", "", "blocks made by the site"),
    Column("site", "site", SITE, True),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("loads", "stores", "modifies")
EXAMPLES = f"""\
A field is a run of bytes with the same numbers of loads, stores and modifications: usually a member of a
structure, or several members that are always used together. A field without accesses consists of bytes that the
program does not need. The sites shown are the --sites sites that made most bytes; select one with
--where 'site ~ "..."'. Each file is read twice. Sites with blocks of up to 4096 bytes are measured byte by byte.
For sites with larger blocks, bytes are grouped into cells; the cell size is the smallest power of two for which the
largest block has at most 4096 cells.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve fields app.ljt --where 'site ~ "new_node"'
  steve fields app.ljt --sites 1000 --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    parser.add_argument(
        "--sites", metavar="N", type=count, default=5, help="show the N sites with most bytes (default: 5)"
    )
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, None)
    rollups.add_process(parser)
    blocks.add_shards(parser)


def rows_of(site: dict, largest: int, found: tuple) -> list[dict]:
    """The rows of one site. site: the columns that name it; largest: the size of its largest block; found: the result of
    steve.kernels._accesses.Fields for the site."""
    cell, made, _ = found
    return [{**site, "cell": cell, "blocks": made, **field} for field in fields_of(largest, found)]


class Sites:
    """The sites of all files, by the bytes that they made, and of each file what is needed to read it once more."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._found = args, several.Joined(args, "stack")
        self._files: list[tuple[Selection | None, np.ndarray, np.ndarray]] = []  # selection; stack ids; their sites

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file."""
        import numpy as np
        from steve.kernels._lives import Selection

        selection = None if chosen.test is None else Selection()
        (stacks,) = chosen.sum_by("stack", chosen=selection, columns=("bytes", "most"))
        rollup = rollups.Rollup("stack", chosen.places, policy.short_in_table(self._args))
        sums = rollup.merged(rollups.Sums(*stacks), ("bytes", "most"))
        numbers = self._found.add(rollup, sums)
        of_stacks = numbers[np.searchsorted(sums.numbers, rollup.numbers(stacks.numbers))]
        self._files.append((selection, stacks.numbers, of_stacks))

    def choose(self, most: int) -> None:
        """Select the `most` sites with most bytes."""
        numbers, rows = self._found.sums
        size = rows["bytes"].astype("i8")
        places = heapq.nsmallest(
            most, range(len(size)), key=lambda i: (-size[i], self._found.row_text(int(numbers[i])))
        )
        self._numbers, self.largest = numbers[places], rows["most"][places].tolist()

    def of_events(self, chosen: blocks.Blocks, file: int) -> list[tuple]:
        """What steve.kernels._accesses.Fields finds of each of these sites in a file. file: its number."""
        from steve.kernels import _accesses

        selection, ids, of_stacks = self._files[file]
        group_of = groups_of(ids, of_stacks, self._numbers)
        return chosen.over_events(partial(_accesses.Fields, group_of, self.largest), selection)

    def names(self) -> list[dict]:
        """The columns that name each of them."""
        found, numbers = self._found, self._numbers.tolist()
        more = found.more_texts().items()
        return [{**{key: text(n) for key, text in more}, "site": found.row_text(n)} for n in numbers]


def joined(one: list[tuple], other: list[tuple]) -> list[tuple]:
    """What is found of the sites in two files; cells of a site are equally large in all files."""
    return [(cell, made + more, added(cells, others)) for (cell, made, cells), (_, more, others) in zip(one, other)]


def added(cells: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The sums of the counts of cells."""
    for name in cells.dtype.names:
        cells[name] += others[name]
    return cells


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files, sites = several.Files(NAME, args, again=True), Sites(args)
    if len(files) > 1 and any(path == "-" or source.is_pipe(path) for path in args.files):
        raise UsageError("each file is read twice, of several files none may be a pipe or standard input")
    for chosen in files:
        sites.add(chosen)
    sites.choose(args.sites)
    maps = sites.of_events(files.chosen if len(files) == 1 else files.blocks(0), 0)
    for file in range(1, len(files)):
        maps = joined(maps, sites.of_events(files.blocks(file), file))
    rows = [row for of in zip(sites.names(), sites.largest, maps) for row in rows_of(*of)]
    listing.write(args, files.title("fields", peaks=False), rows, files.columns(columns, OF_ACCESSES))
    return files.verdict()
