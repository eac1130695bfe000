# SPDX-License-Identifier: GPL-2.0-or-later
"""Accesses by their offset in blocks, for the report: the numbers of `steve fields`, of the sites with the most accesses.

The walk of the report counts the accesses of each site. Another reading of the trace counts them by offset, of the sites
that are shown only: its memory is that of the live blocks and of at most MOST_SITES * 4096 cells.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import log1p
from typing import TYPE_CHECKING, Any

import numpy as np

from steve.analysis.looks import PIPED
from steve.analysis.offsets import fields_of, groups_of
from steve.kernels._accesses import Fields
from steve.terminal.units import counted
from steve.trace import missing
from steve.trace.rollups import Sums

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks
    from steve.analysis.folds import Table
    from steve.trace.rollups import Rollup

MOST_SITES = 8
MOST_PIECES = 96  # of a strip
MOST_ROWS = 48  # of a table of fields
SAMPLED = "the trace is a sample of the blocks, and the accesses of few blocks say little about a byte"
IN_PART = "loads and stores were recorded in a part of the run only; steve fields has what was recorded"


@dataclass
class Wanted:
    """The sites whose accesses are wanted by offset, those with the most accesses first. stacks: those that made blocks, with
    the site of each; sites: numbers, with accesses and the size of the largest block of each; others: the number of sites
    with accesses that are not among them."""

    stacks: np.ndarray
    of_stacks: np.ndarray
    sites: list[int]
    accesses: list[int]
    largest: list[int]
    others: int


@dataclass
class OfSite:
    """The accesses to the blocks of a site. cell: resolution of offsets in bytes; fields: of
    steve.analysis.offsets.fields_of()."""

    site: int
    accesses: int
    largest: int
    cell: int
    blocks: int
    fields: list[dict[str, Any]]


@dataclass
class ByOffset:
    """For the page and for JSON. why_not: why there are no sites, though the trace has accesses; "": they are here."""

    sites: list[OfSite]
    others: int
    why_not: str


def wanted(rollup: Rollup, accessed: Table) -> Wanted:
    """The sites to be shown. accessed: of steve.analysis.offsets.Accessed."""
    of_stacks = rollup.numbers(accessed.numbers)
    numbers, rows = rollup.merged(Sums(*accessed))
    used = np.flatnonzero(rows["accesses"])
    best = used[np.argsort(-rows["accesses"][used].astype("i8"), kind="stable")[:MOST_SITES]]
    return Wanted(
        accessed.numbers,
        of_stacks,
        numbers[best].tolist(),
        rows["accesses"][best].tolist(),
        rows["most"][best].tolist(),
        len(used) - len(best),
    )


def by_offset(chosen: Blocks, of: Wanted) -> ByOffset | None:
    """The accesses by offset; None if the trace has no accesses. It reads the trace anew."""
    if not of.sites:
        return None
    if why_not := why_not_again(chosen):
        return ByOffset([], of.others + len(of.sites), why_not)
    groups = groups_of(of.stacks, of.of_stacks, np.array(of.sites))
    found = chosen.over_events(partial(Fields, groups, of.largest))
    sites = [
        OfSite(site, accesses, largest, cells[0], cells[1], fields_of(largest, cells))
        for site, accesses, largest, cells in zip(of.sites, of.accesses, of.largest, found)
    ]
    return ByOffset(sites, of.others, "")


def why_not_again(chosen: Blocks) -> str:
    """Why a trace that was read is not read again for this; "" if it is."""
    if chosen.trace.sample:
        return SAMPLED
    if missing.accesses_in_part(chosen.trace):
        return IN_PART
    return PIPED if chosen.is_from_pipe() else ""


# -- what the page shows of a site -------------------------------------------------------------


@dataclass
class Piece:
    """A part of a strip: some bytes of blocks. strength: from 0 to 1, by the number of reads and writes."""

    size: int
    reads: int
    writes: int
    unused: int
    read_strength: float
    write_strength: float
    text: str


def reads_of(field: dict[str, Any]) -> int:
    return int(field["loads"] + field["modifies"])


def writes_of(field: dict[str, Any]) -> int:
    return int(field["stores"] + field["modifies"])


def is_unused(field: dict[str, Any]) -> bool:
    return not field["loads"] + field["stores"] + field["modifies"]


def bytes_text(first: int, size: int) -> str:
    """The name of some bytes of a block."""
    return f"byte {first:,}" if size == 1 else f"bytes {first:,}–{first + size - 1:,}"


def pieces(of: OfSite) -> list[Piece]:
    """The parts of the strip of a site. Of several fields in one part, the byte with the most reads or writes counts."""
    together = -(-len(of.fields) // MOST_PIECES)
    top = max((max(reads_of(field), writes_of(field)) for field in of.fields), default=0)
    return [piece(of.fields[at : at + together], top) for at in range(0, len(of.fields), together or 1)]


def piece(fields: list[dict[str, Any]], top: int) -> Piece:
    """One part of a strip. top: the most reads or writes of any byte of the strip."""
    reads, writes = max(map(reads_of, fields)), max(map(writes_of, fields))
    size, unused = sum(f["bytes"] for f in fields), sum(f["bytes"] for f in fields if is_unused(f))
    most = "at most " if len(fields) > 1 else ""
    text = f"{most}{counted(reads, 'read')}, {most}{counted(writes, 'write')}" if reads + writes else "never accessed"
    if 0 < unused < size:
        text += f", {counted(unused, 'byte')} never accessed"
    whole = log1p(top) or 1
    return Piece(
        size,
        reads,
        writes,
        unused,
        log1p(reads) / whole,
        log1p(writes) / whole,
        f"{bytes_text(fields[0]['offset'], size)}: {text}",
    )


def about(of: OfSite) -> str:
    """What is said of the blocks of a site."""
    unused = sum(field["bytes"] for field in of.fields if is_unused(field))
    text = f"{counted(of.blocks, 'block')} of {'at most ' if of.blocks > 1 else ''}{counted(of.largest, 'byte')}, "
    text += f"{counted(of.accesses, 'access', 'accesses')}. "
    for count, done in ((reads_of, "read"), (writes_of, "written")):
        field = max(of.fields, key=count)
        if count(field):
            text += (
                f"Most often {done}: {bytes_text(field['offset'], field['bytes'])}, {counted(count(field), 'time')}. "
            )
        else:
            text += f"Nothing is {done}. "
    share = 100 * unused / of.largest
    text += f"Never accessed: {counted(unused, 'byte')} ({share:.1f}%)." if unused else "Each byte is accessed."
    if of.cell > 1:
        text += f" Offsets are counted in cells of {of.cell:,} bytes, since blocks are larger than 4,096 bytes."
    return text


def table(of: OfSite) -> list[tuple[str, int, int, int]]:
    """The first rows of the table of a site: bytes, their number, reads, writes."""
    return [
        (bytes_text(field["offset"], field["bytes"]), field["bytes"], reads_of(field), writes_of(field))
        for field in of.fields[:MOST_ROWS]
    ]
