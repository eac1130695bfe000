"""steve fields: which bytes of an allocation site's blocks are read and written.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column, count
from steve.trace import policy, rollups
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    import numpy as np
    from steve.analysis.folds import Table
    from steve.trace.rollups import Rollup

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
--where 'site ~ "..."'. The trace is read twice. Sites with blocks of up to 4096 bytes are measured byte by byte.
For sites with larger blocks, bytes are grouped into cells; the cell size is the smallest power of two for which the
largest block has at most 4096 cells.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve fields app.ljt --where 'site ~ "new_node"'
  steve fields app.ljt --sites 1000 --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    policy.add_arguments(parser)
    parser.add_argument(
        "--sites", metavar="N", type=count, default=5, help="show the N sites with most bytes (default: 5)"
    )
    listing.add_arguments(parser, COLUMNS, None)
    blocks.add_shards(parser)


def runs(cells: np.ndarray) -> Iterator[tuple]:
    """Each run of equal cells: (index of the first cell, index after the last, counts of one cell)."""
    import numpy as np

    edges = np.flatnonzero(cells[1:] != cells[:-1]) + 1
    starts = [0, *edges.tolist()] if len(cells) else []
    for first, end in zip(starts, [*starts[1:], len(cells)]):
        yield first, end, dict(zip(cells.dtype.names, cells[first].tolist()))


def rows_of(site: str, largest: int, found: tuple) -> list[dict]:
    """The rows of one site. largest: the size of its largest block; found: the result of
    steve.kernels._accesses.Fields for the site."""
    cell, made, cells = found
    return [
        {
            "site": site,
            "cell": cell,
            "blocks": made,
            "offset": first * cell,
            "bytes": min(end * cell, largest) - first * cell,
            **counts,
        }
        for first, end, counts in runs(cells)
    ]


def grouped(stacks: Table, rollup: Rollup, most: int) -> tuple:
    """Select the `most` sites with most bytes: (their names, the size of the largest block of each, an array that maps
    stack ids to indices of the first list, 2**32 - 1 for other sites)."""
    import numpy as np

    numbers, rows = rollup.merged(rollups.Sums(*stacks), ("bytes", "most"))
    size = rows["bytes"].astype("i8")
    places = heapq.nsmallest(most, range(len(size)), key=lambda i: (-size[i], rollup.text(int(numbers[i]))))
    group_of_site = np.full(int(numbers.max(initial=0)) + 1, 2**32 - 1, "u4")
    group_of_site[numbers[places]] = np.arange(len(places))
    ids = stacks.numbers
    group_of = np.full(int(ids[-1]) + 1 if len(ids) else 0, 2**32 - 1, "u4")
    group_of[ids] = group_of_site[rollup.numbers(ids)]
    return [rollup.text(int(numbers[i])) for i in places], rows["most"][places].tolist(), group_of


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _accesses
    from steve.kernels._lives import Selection

    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args, again=True)
    selection = None if chosen.test is None else Selection()
    (stacks,) = chosen.sum_by("stack", chosen=selection, columns=("bytes", "most"))
    rollup = rollups.Rollup("stack", chosen.places, policy.short_in_table(args))
    sites, largest, group_of = grouped(stacks, rollup, args.sites)
    maps = chosen.over_events(partial(_accesses.Fields, group_of, largest), selection)
    rows = [row for site, most, found in zip(sites, largest, maps) for row in rows_of(site, most, found)]
    listing.write(args, chosen.title("fields"), rows, chosen.columns(COLUMNS, OF_ACCESSES))
    return chosen.verdict()
