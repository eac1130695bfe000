"""steve workingset: how much memory the program touches, window by window.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from functools import partial

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column

NAME = "workingset"
HELP = "show how much of the heap is touched, window by window"
WINDOW = 1_000_000
COLUMNS = (
    Column("first", "operation", "number of the window's first operation"),
    Column("operations", "", "how many it has; the last window may be shorter"),
    Column("instructions", "instructions", "instructions executed up to its end"),
    Column("accesses", "accesses", "loads, stores and modifications in it"),
    Column("bytes", "bytes", "bytes accessed in it, each counted once"),
    Column("lines", "lines", "lines of 64 bytes accessed in it"),
    Column("line_bytes", "in lines", "their bytes: what a cache would have to hold"),
    Column("blocks", "blocks", "blocks accessed in it"),
    Column("live_bytes", "live", "bytes of blocks that live at its end"),
    Column("share", "% of live", "bytes accessed in percent of those; above 100 if blocks came and went"),
)
EXAMPLES = f"""\
A window is a number of operations (News, Frees, Resizes, Loads, Stores, Modifies); windows do not overlap.
With --where the trace is read twice, and windows still count the operations of all blocks.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve workingset app.ljt
  steve workingset app.ljt --window 100000 --csv >windows.csv
"""


def positive(text: str) -> int:
    """An argument that is a whole number from 1."""
    value = listing.count(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    parser.add_argument("--window", metavar="N", type=positive, default=WINDOW,
                        help=f"operations of a window (default: {WINDOW})")
    listing.add_arguments(parser, COLUMNS, None)
    blocks.add_parts(parser)


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _accesses
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    found = chosen.over_events(partial(_accesses.WorkingSet, args.window))
    rows = [{**row, "instructions": row["time"], "line_bytes": 64 * row["lines"],
             "share": blocks.share(row["bytes"], row["live_bytes"])}
            for row in (dict(zip(found.dtype.names, values)) for values in found.tolist())]
    listing.write(args, chosen.title(f"working set in windows of {args.window:,} operations"), rows, COLUMNS)
    return chosen.verdict()
