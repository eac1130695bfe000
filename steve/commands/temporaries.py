"""steve temporaries: blocks that are made and freed, by allocation site: what churns.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.analysis.folds import Sums, Table
from steve.analysis.totals import time_unit
from steve.terminal.listing import Column, count
from steve.trace import policy, rollups
from steve.trace.stacks import SITE
from steve.terminal.units import counted

if TYPE_CHECKING:
    import numpy as np

NAME = "temporaries"
HELP = "show what churns: bytes that were requested and freed again, by allocation site"
COLUMNS = (
    Column(
        "temporaries",
        "temporaries",
        "blocks of the site that were freed; with --at-once or --within, those that were freed so soon",
    ),
    Column("bytes", "bytes", "bytes that their News and Resizes requested"),
    Column("made", "made", "all blocks made by the site"),
    Column("share", "% of made", "temporaries in percent of made"),
    Column("live_bytes_at_peak", "at peak", "bytes of these blocks at the peak of the whole heap"),
    Column("mean_lifetime", "lifetime (ops)", "operations from New to Free of the temporaries, on average"),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
EXAMPLES = f"""\
The sites of which most bytes died come first: what they request again and again costs time in the allocator or in the
garbage collector. The heading says how much time LuaJIT's collector took, if the trace has the states of its machine
(`steve states`; not with --where). A site that keeps its blocks until the end does not churn: of these, nearly all
bytes are live at the peak. --at-once counts only blocks that were freed before the next one was made, --within N those
that were freed at most N operations after they were made.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve temporaries app.ljt
  steve temporaries app.ljt --by line
  steve temporaries app.ljt --within 100 --where 'heap = "lua"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    soon = parser.add_mutually_exclusive_group()
    soon.add_argument("--within", metavar="N", type=count, help="only blocks that were freed within N operations")
    soon.add_argument("--at-once", action="store_true", help="only blocks that were freed before the next New")
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "bytes")
    rollups.add_arguments(parser, several=True)
    blocks.add_shards(parser)


def are_temporary(batch: np.ndarray, within: int | None, at_once: bool) -> np.ndarray:
    """A mask of the lives that count. within, at_once: the arguments of --within and --at-once."""
    freed = (batch["freed"] != 0) & (batch["container"] == 0)  # a container ends at its first piece
    if at_once:
        return freed & (batch["news"] == 0)
    return freed if within is None else freed & (batch["died"] - batch["born"] <= within)


# the sums that the rows need: of temporaries, and of all blocks
OF_TEMPORARIES, OF_ALL = ("blocks", "bytes", "lifetimes", "peak_bytes"), ("blocks",)


def sums_of(chosen: blocks.Blocks, args: argparse.Namespace) -> list[Table]:
    """Sums by what --by needs: of the selected blocks that are temporary, and of all selected blocks."""
    temporary, key = partial(are_temporary, within=args.within, at_once=args.at_once), rollups.key_of(args.by)
    found = chosen.fold(partial(Sums, (key, temporary), key))
    return found.fold.rows(found.totals["peak"], OF_TEMPORARIES, OF_ALL)


def title(found: rollups.Sums, args: argparse.Namespace) -> str:
    """The heading of the table. found: sums of all sites."""
    rule = " before the next New" if args.at_once else ""
    rule = rule if args.within is None else f" within {args.within:,} operations"
    count, size = (int(found.rows[key].sum()) for key in ("temporaries", "bytes"))
    return f"{counted(count, 'block')} of {counted(size, 'byte')} freed{rule}"


class Collecting:
    """The time that LuaJIT's garbage collector took in all files."""

    def __init__(self) -> None:
        self._collecting = self._total = 0
        self._units: set[str] = set()

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file, if it has states of a machine."""
        from steve.kernels._accesses import States
        from steve.trace._memtrace import VM_NAMES

        heaps = range(chosen.trace.counts()["heaps"])
        if chosen.args.where is not None or all(chosen.places.heap_kind(heap) != "lua" for heap in heaps):
            return
        found = chosen.over_events(States)
        if (found["vm"] < len(VM_NAMES)).any():
            self._collecting += int(found["instructions"][found["vm"] == VM_NAMES.index("GC")].sum())
            self._total += int(found["instructions"].sum())
            self._units.add(time_unit(chosen.trace))

    def join(self, other: Collecting) -> None:
        """Add other files."""
        self._collecting += other._collecting
        self._total += other._total
        self._units |= other._units

    def text(self) -> str:
        """The same for a heading; "" if it is not known."""
        percent = blocks.share(self._collecting, self._total)
        unit = " and ".join(sorted(self._units))
        return "" if percent is None else f"; LuaJIT's garbage collector took {percent:.1f}% of the {unit}"


def row_of(found: dict) -> dict:
    """The columns of a site. found: the sums over its blocks."""
    return {
        "temporaries": found["temporaries"],
        "bytes": found["bytes"],
        "made": found["made"],
        "live_bytes_at_peak": found["peak_bytes"],
        "share": blocks.share(found["temporaries"], found["made"]),
        "mean_lifetime": blocks.mean(found["lifetimes"], found["temporaries"]),
    }


def add_sums(found: several.Joined, chosen: blocks.Blocks) -> None:
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
            "peak_bytes": (short, "peak_bytes"),
            "made": (made, "blocks"),
        },
    )
    found.add(rollup, sums)


class Churn:
    """What churns in all files."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.rows, self.collecting = several.Joined(args), Collecting()

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file."""
        add_sums(self.rows, chosen)
        self.collecting.add(chosen)

    def join(self, other: Churn) -> None:
        """Add other files."""
        self.rows.join(other.rows)
        self.collecting.join(other.collecting)


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args, again=True)
    found = files.collect(partial(Churn, args), Churn.add)
    heading = files.title(title(found.rows.sums, args) + found.collecting.text())
    listing.write_ranked(args, heading, found.rows.rows(row_of).ranked(args.sort), files.columns(columns))
    return files.verdict()
