"""steve reuse: reuse distances, and the misses of LRU caches of each size.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.commands.workingset import positive
from steve.terminal.listing import Column
from steve.trace import rollups

if TYPE_CHECKING:
    from steve.kernels._walk import Analysis

NAME = "reuse"
HELP = "show reuse distances and the misses of LRU caches of each size"
COUNTS_ACCESSES = True
COLUMNS = (
    Column("cache_bytes", "cache bytes", "bytes of a fully associative cache that evicts the least recently used line"),
    Column("cache_lines", "lines", "number of lines of this cache"),
    Column("misses", "misses", "touches of lines that are not in the cache, first touches included"),
    Column("miss_ratio", "% missed", "these misses in percent of all touches"),
    Column("from_distance", "distance from", "least distance of this row, in lines"),
    Column("to_distance", "to", "largest distance of this row; this cache hits it, one of half its size misses"),
    Column("touches", "touches", "touches with such a distance"),
)
OWN_CACHES = ", each process with a cache of its own"
EXAMPLES = f"""\
The reuse distance of a touch is the number of other lines touched since this line was touched last. A cache with C
lines hits exactly the touches whose distance is below C; the first touch of a line has no distance and always misses.
An access that crosses into a second line is two touches. A trace has only accesses to the heap, so the program's
stack and static data are not included. With --where, the trace is read twice, and only touches of the selected blocks
count.

The result is exact by default and needs O(log lines) time for each touch. --sample N follows one line in N, selected
by a hash of its address, and multiplies the counts by N. That is N times faster; use it for traces with many more
than N x 1000 lines.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve reuse app.ljt
  steve reuse huge.ljt --sample 100 --json
"""


def line_bytes(text: str) -> int:
    """argparse type: a power of two up to 1 MiB."""
    value = positive(text)
    if value & (value - 1) or value > 1 << 20:
        raise argparse.ArgumentTypeError(f"'{text}' is not a power of two up to 1048576")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    parser.add_argument(
        "--line",
        metavar="BYTES",
        type=line_bytes,
        default=64,
        help="bytes of a line, a power of two; 4096 for pages (default: 64)",
    )
    parser.add_argument(
        "--sample", metavar="N", type=positive, default=1, help="follow one line in N (default: 1, exact)"
    )
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, None)
    rollups.add_process(parser)
    blocks.add_shards(parser)


def rows_of(found: dict, args: argparse.Namespace) -> list[dict]:
    """A row for each cache of 2^i lines, up to the smallest that misses nothing but first touches."""
    bins = found["bins"]
    last = max((i for i, n in enumerate(bins) if n), default=0)
    rows, missed = [], sum(bins) + found["cold"]
    for i in range(last + 1):
        missed -= bins[i]
        rows.append(
            {
                "cache_lines": 1 << i,
                "cache_bytes": args.line << i,
                "misses": missed * args.sample,
                "miss_ratio": blocks.share(missed, found["touches"]),
                "from_distance": 1 << (i - 1) if i else 0,
                "to_distance": (1 << i) - 1,
                "touches": bins[i] * args.sample,
            }
        )
    return rows


def joined(one: dict, other: dict) -> dict:
    """The sums of two results of the kernel."""
    return {
        "bins": [sum(pair) for pair in zip(one["bins"], other["bins"])],
        **{name: one[name] + other[name] for name in ("cold", "touches")},
    }


def title(found: dict, args: argparse.Namespace) -> str:
    """The heading of the table. found: of all files."""
    sampled = f", one line in {args.sample:,} followed" if args.sample > 1 else ""
    return (
        f"{found['touches'] * args.sample:,} touches of {found['cold'] * args.sample:,} lines of "
        f"{args.line} bytes{sampled}"
    )


def add_distances(found: several.Tables, chosen: blocks.Blocks, make: Callable[[], Analysis]) -> None:
    """Add what an analysis finds in a file."""
    found.add(chosen.over_events(make), chosen.trace)


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _accesses

    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    how = {"line_shift": args.line.bit_length() - 1, "rate": args.sample}
    files, make = several.Files(NAME, args), partial(_accesses.Reuse, **how)
    found = files.collect(partial(several.Tables, args, joined), partial(add_distances, make=make))
    text = title(reduce(joined, found.all()), args) + (OWN_CACHES if len(files) > 1 else "")
    rows = found.rows(lambda one: rows_of(one, args) if one["touches"] else [])
    listing.write(args, files.title(text, peaks=False, inherited=False), rows, columns)
    return files.verdict()
