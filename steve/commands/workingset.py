"""steve workingset: how much of the heap the program accesses, window by window.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.system.errors import UsageError
from steve.terminal.listing import Column
from steve.trace import rollups

if TYPE_CHECKING:
    import numpy as np

NAME = "workingset"
HELP = "show how much of the heap is accessed, window by window"
COUNTS_ACCESSES = True
WINDOW = 1_000_000  # operations of a window, by default
COLUMNS = (
    Column("first", "operation", "number of the window's first operation"),
    Column("operations", "", "operations in the window; the last window may be shorter"),
    Column(
        "instructions",
        "instructions",
        "instructions executed up to the end of the window; nanoseconds in a trace of ljtrace run",
    ),
    Column("accesses", "accesses", "loads, stores and modifications in the window"),
    Column("bytes", "bytes", "bytes accessed in the window, each counted once"),
    Column("lines", "lines", "cache lines of 64 bytes accessed in the window"),
    Column("line_bytes", "in lines", "bytes of these lines: the cache size needed to hold them"),
    Column("blocks", "blocks", "blocks accessed in the window"),
    Column("live_bytes", "live", "bytes of blocks alive at the end of the window"),
    Column("share", "% of live", "bytes accessed in percent of the live bytes; over 100 if accessed blocks were freed"),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("accesses", "bytes", "lines", "line_bytes", "blocks", "share")
EXAMPLES = f"""\
A window is a fixed number of operations (News, Frees, Resizes, Loads, Stores, Modifies); windows do not overlap.
With --where, the trace is read twice, and windows still count the operations of all blocks.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve workingset app.ljt
  steve workingset app.ljt --window 100000 --csv >windows.csv
"""


def positive(text: str) -> int:
    """argparse type: a whole number, at least 1."""
    value = listing.count(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    parser.add_argument(
        "--window", metavar="N", type=positive, default=WINDOW, help=f"operations of a window (default: {WINDOW})"
    )
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, None)
    rollups.add_process(parser)
    blocks.add_shards(parser)


def rows_of(found: np.ndarray) -> list[dict]:
    """The rows of a file. found: of steve.kernels._accesses.WorkingSet."""
    return [
        {
            **row,
            "instructions": row["time"],
            "line_bytes": 64 * row["lines"],
            "share": blocks.share(row["bytes"], row["live_bytes"]),
        }
        for row in (dict(zip(found.dtype.names, values)) for values in found.tolist())
    ]


def check_sums(args: argparse.Namespace) -> None:
    """UsageError if windows of several processes would have to be added up."""
    if len(args.files) > 1 and not args.apart:
        raise UsageError(
            "windows count the operations of one process, so those of several are not at one time and are no sum; "
            f"--by={rollups.PROCESS} lists the windows of each process, `steve heat` adds up accesses"
        )


def add_windows(found: several.Added, chosen: blocks.Blocks) -> None:
    """Add the windows of a file."""
    from steve.kernels import _accesses

    found.add(rows_of(chosen.over_events(partial(_accesses.WorkingSet, chosen.args.window))), chosen.trace)


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    check_sums(args)
    files = several.Files(NAME, args)
    rows = files.collect(partial(several.Added, args, ("first",)), add_windows)
    title = files.title(f"working set in windows of {args.window:,} operations", peaks=False)
    listing.write(args, title, rows.rows(), files.columns(columns, OF_ACCESSES))
    return files.verdict()
