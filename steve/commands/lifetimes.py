"""steve lifetimes: how long blocks live, in several units, optionally by size.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steve.analysis import blocks, several
from steve.system.samples import Sample, variance
from steve.system.errors import UsageError
from steve.terminal import listing
from steve.analysis.bins import KINDS, LogBins
from steve.terminal.listing import Column
from steve.parallel.rounds import requests_workers
from steve.system.messages import note
from steve.trace import rollups

if TYPE_CHECKING:
    import numpy as np

    Measure = Callable[[np.ndarray], np.ndarray]

NAME = "lifetimes"
HELP = "show how long blocks live, in operations, instructions, bytes or time"
READS_SAMPLES = True
UNITS = {
    "operations": "News, Frees, Resizes, Loads, Stores and Modifies",
    "instructions": "instructions executed; in a trace of ljtrace run, its clock: nanoseconds",
    "bytes": "bytes that the program allocated meanwhile, a clock that depends on nothing but its allocations",
    "nanoseconds": "wall-clock time of the recording, interpolated between the chunks of the file",
}
COLUMNS = (
    Column("from_size", "size from", "least size of the row's blocks; 0 without --by-size"),
    Column("to_size", "to", "largest size of the row's blocks; null without --by-size"),
    Column("from", "life from", "shortest life of the row, in the unit of --unit"),
    Column("to", "to", "longest life of the row"),
    Column("blocks", "blocks", "blocks with such a lifetime and size"),
    Column("bytes", "bytes", "their bytes at the end of their lives"),
    Column("share", "% of blocks", "these blocks in percent of all blocks examined"),
    Column(
        "cumulative",
        "% up to here",
        "blocks of the same sizes in this row and all rows before it, in percent of all blocks of these sizes",
    ),
)
# columns with standard errors in a sample of the blocks
ESTIMATES = {"blocks": "blocks", "bytes": "bytes"}
NO_VARIANCE = {variance(key): 0 for key in ESTIMATES}
EXAMPLES = f"""\
The life of a block is the time from its New to its Free or, if it is never freed, to the end. Units:
{chr(10).join(listing.entry(name, what, 14) for name, what in UNITS.items())}
With --bins log, the bins are powers of two. With --bins linear, there are at most 64 equal bins, whose width is a
power of two. --by-size makes separate rows for each power of two of the blocks' sizes.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve lifetimes app.ljt
  steve lifetimes app.ljt --unit bytes --by-size --csv
  steve lifetimes app.ljt --unit nanoseconds --bins linear --where 'site ~ "parse"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    parser.add_argument(
        "--unit", choices=tuple(UNITS), default="operations", help="unit of lifetimes (default: operations)"
    )
    parser.add_argument("--bins", choices=tuple(KINDS), default="log", help="kind of bins (default: log)")
    parser.add_argument("--by-size", action="store_true", help="separate rows for each power of two of the sizes")
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, None)
    rollups.add_process(parser)
    blocks.add_shards(parser)


class Clock:
    """Converts instructions to nanoseconds, by linear interpolation between the times recorded in chunks."""

    def __init__(self, chosen: blocks.Blocks) -> None:
        self.chosen = chosen
        self.points: dict[int, int] = {0: 0}

    def note(self) -> None:
        """Record the time of the chunk that the reader has reached."""
        stats = self.chosen.trace.stats()
        for where in (stats, stats["totals"]):
            if where["instructions"]:
                self.points[where["instructions"]] = where["nanoseconds"]

    def at(self, instructions: np.ndarray) -> np.ndarray:
        """The times in nanoseconds (f8) at these instruction counts."""
        import numpy as np

        known = sorted(self.points)
        return np.interp(instructions, known, [self.points[i] for i in known])

    def lifetimes(self, batch: np.ndarray) -> np.ndarray:
        """The lifetimes in nanoseconds (u8) of a batch that was just read."""
        self.note()
        return (self.at(batch["died_time"]) - self.at(batch["born_time"])).round().astype("u8")


def in_operations(batch: np.ndarray) -> np.ndarray:
    return batch["died"] - batch["born"]


def in_instructions(batch: np.ndarray) -> np.ndarray:
    return batch["died_time"] - batch["born_time"]


def in_bytes(batch: np.ndarray) -> np.ndarray:
    return batch["died_allocated"] - batch["born_allocated"]


MEASURES: dict[str, Measure] = {"operations": in_operations, "instructions": in_instructions, "bytes": in_bytes}


class LifetimeBins:
    """The fold that makes bins of lifetimes for each class of sizes. Without by_size, all sizes are class 0."""

    needs_operation_numbers = False

    def __init__(self, measure: Measure, bins: str, by_size: bool) -> None:
        self.measure, self.make, self.by_size = measure, KINDS[bins], by_size
        self.classes: dict[int, Any] = {}
        self.variances: dict[int, Any] = {}  # of the blocks and bytes of each bin, in a sample of the blocks

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        """Add the lives of a batch that the mask `keep` selects; None: all."""
        import numpy as np
        from steve.kernels._lives import scaled

        batch = batch if keep is None else batch[keep]
        lives, number = self.measure(batch), LogBins.numbers(batch["size"]) if self.by_size else None
        (counts, of_counts), (amounts, of_amounts) = scaled(batch), scaled(batch, "size")
        for size in [0] if number is None else np.unique(number).tolist():
            here = slice(None) if number is None else number == size
            self.classes.setdefault(size, self.make()).add(lives[here], amounts[here], counts[here])
            if batch["weight"].any():
                self.variances.setdefault(size, self.make()).add(lives[here], of_amounts[here], of_counts[here])

    def partial(self, peak: int) -> dict[int, Any]:
        """See Fold."""
        return self.classes

    def merge(self, shard: dict[int, Any], peak: int) -> None:
        """See Fold."""
        for size, bins in shard.items():
            self.classes.setdefault(size, self.make()).merge(bins)

    def joined(self, other: LifetimeBins) -> LifetimeBins:
        """The bins of both, those of `other` added to these."""
        self.merge(other.partial(0), 0)
        for size, bins in other.variances.items():
            self.variances.setdefault(size, self.make()).merge(bins)
        return self

    def rows(self, sample: Sample) -> list[dict]:
        """The rows of all classes, smallest sizes first. sample: that of the trace."""
        result: list[dict] = []
        total = sum(count for bins in self.classes.values() for _, _, count, _ in bins)
        for size, bins in sorted(self.classes.items()):
            errors = (
                {
                    first: {variance("blocks"): of_blocks, variance("bytes"): of_bytes}
                    for first, _, of_blocks, of_bytes in self.variances[size]
                }
                if sample
                else {}
            )
            result += rows_of(size if self.by_size else None, list(bins), total, errors, sample)
        return result


def rows_of(size: int | None, bins: list, total: int, variances: dict[int, dict], sample: Sample) -> list[dict]:
    """The rows of one class of sizes. size: its number, None: all sizes; bins: (first, last, blocks, bytes) of each;
    total: all blocks; variances: of a sample, by the first lifetime of a bin."""
    rows, so_far, own = [], 0, sum(count for _, _, count, _ in bins)
    for first, last, count, weight in bins:
        so_far += count
        rows.append(
            {
                "from_size": 1 << size >> 1 if size is not None else 0,
                "to_size": (1 << size) - 1 if size is not None else None,
                "from": first,
                "to": last,
                "blocks": count,
                "bytes": weight,
                "share": blocks.share(count, total),
                "cumulative": blocks.share(so_far, own),
                **sample.standard_errors(variances.get(first, NO_VARIANCE), ESTIMATES),
            }
        )
    return rows


def unit_of(files: several.Files, args: argparse.Namespace) -> str:
    """The unit of the lifetimes: that of --unit, but `instructions` is the clock of the traces, whatever that counts."""
    return files.unit if args.unit == "instructions" else args.unit


def table_of(chosen: blocks.Blocks, args: argparse.Namespace) -> LifetimeBins:
    """The table of the selected blocks. For nanoseconds the trace is read sequentially, as only a reader of the whole
    trace knows the times of all chunks."""
    if args.unit in MEASURES:
        return chosen.fold(partial(LifetimeBins, MEASURES[args.unit], args.bins, args.by_size)).fold
    if requests_workers(args):
        note(NAME, "with --unit nanoseconds the trace is not divided; one processor reads it", args.quiet)
    table = LifetimeBins(Clock(chosen).lifetimes, args.bins, args.by_size)
    for batch, keep in chosen.batches():
        table.add(batch, keep)
    table.measure = in_instructions  # the clock and its file are no part of what was found
    return table


def add_table(found: several.Tables, chosen: blocks.Blocks) -> None:
    """Add the table of a file."""
    unit = chosen.args.unit
    found.add(table_of(chosen, chosen.args), chosen.trace)
    if chosen.sample and unit in ("operations", "bytes"):
        raise UsageError(
            f"{chosen.trace.name}: is a sample of the blocks, in which not all {unit} of a life are known; "
            "give --unit instructions, the clock of the trace"
        )


def shown(columns: tuple[Column, ...], args: argparse.Namespace) -> tuple[Column, ...]:
    """The columns. Without --by-size, those of sizes are hidden in the table."""
    return columns if args.by_size else listing.without(columns, {"from_size", "to_size"})


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(several.Tables, args, LifetimeBins.joined), add_table)
    if args.unit == "instructions":
        files.check_unit()
    title = files.title(f"lifetimes in {unit_of(files, args)}", peaks=False)
    rows = found.rows(lambda table: table.rows(files.sample))
    listing.write(args, title, rows, shown(columns, args), files.sample)
    return files.verdict()
