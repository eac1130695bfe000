"""steve heat: hot and cold bytes: how accesses are distributed over blocks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import rollups

if TYPE_CHECKING:
    import numpy as np

NAME = "heat"
HELP = "show hot and cold bytes: how accesses are distributed over blocks"
COUNTS_ACCESSES = True
CLASSES = 20  # of traffic per byte: 0; below 1; 1; 2-3; 4-7; ... from 2^17 on
COLUMNS = (
    Column("from", "traffic from", "least traffic of the row: bytes accessed for each byte of the block"),
    Column("to", "below", "upper bound of the traffic, exclusive; 0: blocks without any; null for the hottest row"),
    Column("blocks", "blocks", "blocks with such traffic"),
    Column("bytes", "bytes", "their bytes at the end of their lives"),
    Column("share", "% of bytes", "these bytes in percent of the bytes of all blocks examined"),
    Column("cumulative", "% and hotter", "bytes of this and all hotter rows, in percent"),
    Column("accesses", "accesses", "loads, stores and modifications of these blocks"),
    Column("traffic", "", "bytes read and written"),
    Column("traffic_share", "% of traffic", "this traffic in percent of that of all blocks examined"),
    Column("traffic_cumulative", "% and hotter", "traffic of this and all hotter rows, in percent"),
    Column(
        "never_accessed", "", "bytes of these blocks that were never accessed, measured in units of 1/64 of a block"
    ),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = (
    "from",
    "to",
    "cumulative",
    "accesses",
    "traffic",
    "traffic_share",
    "traffic_cumulative",
    "never_accessed",
)
EXAMPLES = f"""\
The heat of a block is its traffic: the bytes read from it and written to it, divided by its size. The hottest
rows come first; the cumulative columns show which part of the heap receives which part of the traffic. Bytes are
summed over all blocks ever made, so they do not exist at the same time.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve heat app.ljt
  steve heat app.ljt --where 'lifetime > 1M'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, None)
    rollups.add_process(parser)
    blocks.add_shards(parser)


def class_of(traffic: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The class of each block: 0: no traffic; 1: less than its size; 2, 3, 4...: from 1, 2, 4... times its size."""
    import numpy as np
    from steve.analysis.bins import LogBins

    times = LogBins.numbers(traffic // np.maximum(sizes, 1))
    return np.where(traffic == 0, 0, np.minimum(times + 1, CLASSES - 1))


class Classes:
    """The fold that sums blocks, bytes, accesses, traffic and never_accessed for each class, coldest first."""

    needs_operation_numbers = False
    NAMES = ("blocks", "bytes", "accesses", "traffic", "never_accessed")

    def __init__(self) -> None:
        import numpy as np

        self._sums = {name: np.zeros(CLASSES, "u8") for name in self.NAMES}

    def add(self, batch: np.ndarray, keep: np.ndarray | None) -> None:
        """Add the lives of a batch that the mask `keep` selects; None: all."""
        from steve.analysis.bins import ByNumber

        batch = batch if keep is None else batch[keep]
        traffic = batch["bytes_read"] + batch["bytes_written"]
        of_classes = ByNumber(class_of(traffic, batch["size"]))
        of_classes.add(self._sums["blocks"])
        for name, values in (
            ("bytes", batch["size"]),
            ("traffic", traffic),
            ("accesses", batch["loads"] + batch["stores"] + batch["modifies"]),
            ("never_accessed", batch["size"] - batch["used"]),
        ):
            of_classes.add(self._sums[name], values)

    def partial(self, peak: int) -> dict[str, np.ndarray]:
        """See Fold."""
        return self._sums

    def merge(self, shard: dict[str, np.ndarray], peak: int) -> None:
        """See Fold."""
        for name in self.NAMES:
            self._sums[name] += shard[name]

    def joined(self, other: Classes) -> Classes:
        """The sums of both, those of `other` added to these."""
        self.merge(other.partial(0), 0)
        return self

    def rows(self) -> list[dict]:
        """The sums of each class, coldest first."""
        return [{name: int(self._sums[name][i]) for name in self.NAMES} for i in range(CLASSES)]


def bounds(number: int) -> dict:
    """The columns `from` and `to` of a class."""
    if number < 2:
        return {"from": 0, "to": number}
    return {"from": 1 << (number - 2), "to": 1 << (number - 1) if number < CLASSES - 1 else None}


def rows_of(sums: list[dict]) -> list[dict]:
    """The rows of the classes that have blocks, hottest first."""
    size, traffic = (sum(row[key] for row in sums) for key in ("bytes", "traffic"))
    rows, hotter_size, hotter_traffic = [], 0, 0
    for number in reversed(range(CLASSES)):
        row = sums[number]
        hotter_size += row["bytes"]
        hotter_traffic += row["traffic"]
        if row["blocks"]:
            rows.append(
                {
                    **bounds(number),
                    **row,
                    "share": blocks.share(row["bytes"], size),
                    "cumulative": blocks.share(hotter_size, size),
                    "traffic_share": blocks.share(row["traffic"], traffic),
                    "traffic_cumulative": blocks.share(hotter_traffic, traffic),
                }
            )
    return rows


def add_classes(found: several.Tables, chosen: blocks.Blocks) -> None:
    """Add the classes of a file."""
    found.add(chosen.fold(Classes).fold, chosen.trace)


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(several.Tables, args, Classes.joined), add_classes)
    rows = found.rows(lambda classes: rows_of(classes.rows()))
    listing.write(args, files.title("heat of blocks", peaks=False), rows, files.columns(columns, OF_ACCESSES))
    return files.verdict()
