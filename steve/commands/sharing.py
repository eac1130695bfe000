"""steve sharing: memory that several threads access, and lines that several threads share falsely.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    import numpy as np

NAME = "sharing"
HELP = "show blocks touched by several threads, and false sharing of lines"
LEAST = 1000  # accesses interleaved
BY_CHANCE = 0.05  # lines
SHOWN = 3  # places in a table
FEW = 20  # turns
COLUMNS = (
    Column("interleaved", "interleaved",
           "accesses to falsely shared lines that would find the line taken away, if the threads ran at once and "
           "took turns at every access: an upper bound of what can be saved"),
    Column("lines", "lines", "falsely shared lines of 64 bytes"),
    Column("by_chance", "by chance",
           "as many lines of the whole trace would be found by chance with the evidence that the weakest of these "
           "lines has; null if there are none"),
    Column("threads", "threads", "most threads that share one of these lines falsely"),
    Column("shared_blocks", "shared", "blocks of the site that several threads accessed"),
    Column("shared_bytes", "bytes", "their bytes when that was first seen"),
    Column("blocks", "made", "all blocks made by the site"),
    Column("accesses", "accesses", "accesses to them"),
    Column("places", "",
           "which bytes of the blocks two threads use, `0-3 | 4-7`, with the lines and the interleaved accesses of "
           "each pair; the two threads that interleave most with each other in their line", True, True),
    Column("shown", "bytes of two threads", "", True),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
A line is falsely shared if threads use different bytes of it, one of them writes, and they do so over the same
time. Valgrind runs one thread at a time, in turns, so this is concluded from the turns: several threads come back
to the line again and again, each to its own bytes, in most of the turns they have. Memory that is handed over, as
blocks in a queue, memory that one thread prepares for others, and memory that is freed and made again are not
shared falsely; nor are lines that move because of bytes which several threads use, as locks. Lines are
reported where at least {LEAST} accesses interleave and at most {BY_CHANCE} such lines of the trace are expected by
chance. A line counts for the sites of both blocks where two neighbouring blocks share it.
What cannot be distinguished: threads that work by turns because they wait for each other, or hold one lock
whenever they run, as those of an interpreter with a global lock, look as if they ran at once; for them
`interleaved` is too large. Few turns prove nothing: a turn is about 100,000 basic blocks. Record so long that each
thread uses the line in at least three turns. Where neighbouring blocks lie is decided by Valgrind's allocator;
another may place them otherwise.
Sites whose blocks no second thread accessed, and without falsely shared lines, are left out.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve sharing server.ljt
  steve sharing server.ljt --sort shared_bytes --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "interleaved")
    blocks.add_parts(parser)


def ranges(bits: int, offset: int) -> str:
    """The bytes of a block: bits of a line that begins there: `0-3, 8`."""
    result = []
    bit = 0
    while bits >> bit:
        if bits >> bit & 1:
            first = bit
            while bits >> (bit + 1) & 1:
                bit += 1
            result.append(f"{offset + first}-{offset + bit}" if bit > first else f"{offset + bit}")
        bit += 1
    return ", ".join(result)


def used(side: tuple) -> str:
    """What a thread does: the bytes that it writes, or else those that it reads."""
    _, _, offset, read, written = side
    return ranges(written, offset) if written else ranges(read, offset) + " read"


def place(sides: tuple[tuple, tuple], own: int, site_name: Callable[[int], str]) -> str:
    """Where in a block, seen from the site of one side."""
    mine, theirs = sides[own], sides[1 - own]
    text = f"{used(mine)} | {used(theirs)}"
    site = site_name(theirs[1])
    if site != site_name(mine[1]):
        return f"{text} of {site}"
    return text if mine[2] == theirs[2] else f"{text} of another"


def first_byte(side: tuple) -> tuple[int, int]:
    """To sort sides by where in the line they write, or else read."""
    return lowest(side[4] or side[3]), side[0]


def lowest(bits: int) -> int:
    return bits & -bits


def found_at(found: np.ndarray, tests: int, site_name: Callable[[int], str]) -> Iterator[tuple[str, str, dict]]:
    """Site, place and numbers of each falsely shared line; of each of its sites, if there are two."""
    for line in found[(found["interleaved"] >= LEAST) & (found["chance"] * tests <= BY_CHANCE)]:
        row = {"interleaved": int(line["interleaved"]), "by_chance": float(line["chance"]) * tests,
               "threads": int(line["threads"])}
        sides = sorted(line["sides"].tolist(), key=first_byte)
        sites = {site_name(side[1]): own for own, side in reversed(list(enumerate(sides)))}
        for site, own in sites.items():
            yield site, place(sides, own, site_name), row


def by_site(found: np.ndarray, tests: int, site_name: Callable[[int], str]) -> dict[str, dict]:
    """The columns that falsely shared lines have."""
    sites: dict[str, dict] = {}
    for site, where, row in found_at(found, tests, site_name):
        known = sites.setdefault(site, {"interleaved": 0, "lines": 0, "by_chance": 0.0, "threads": 0, "places": {}})
        known["by_chance"] = max(known["by_chance"], row["by_chance"])
        known["threads"] = max(known["threads"], row["threads"])
        for numbers in (known, known["places"].setdefault(where, {"lines": 0, "interleaved": 0})):
            numbers["lines"] += 1
            numbers["interleaved"] += row["interleaved"]
    for known in sites.values():
        known["places"] = dict(sorted(known["places"].items(), key=lambda item: (-item[1]["interleaved"], item[0])))
    return sites


def shown(places: dict[str, dict]) -> str:
    """The first places, for the table."""
    more = len(places) - SHOWN
    return "; ".join(list(places)[:SHOWN]) + (f"; {more} more" if more > 0 else "")


def rows_of(result: tuple, site_name: Callable[[int], str]) -> list[dict]:
    """The rows of the list, of the result of steve.kernels._accesses.Sharing."""
    sums, found, tests, _ = result
    lines = by_site(found, tests, site_name)
    none = {"interleaved": 0, "lines": 0, "by_chance": None, "threads": 0, "places": {}}
    rows = [{**row, **lines.get(site, none), "site": site, "shared_blocks": row["shared"]}
            for site, row in blocks.merged(sums, site_name).items() if row["shared"] or site in lines]
    return [{**row, "shown": shown(row["places"])} for row in rows]


def taken(changes: int) -> str:
    """What is said of the turns that threads took, if they are too few."""
    return f"; threads took only {changes + 1} turns: see --help" if 0 < changes < FEW - 1 else ""


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _accesses
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    result = chosen.over_events(_accesses.Sharing)
    rows = rows_of(result, chosen.places.site_name)
    listing.write(args, chosen.title("sharing between threads") + taken(result[3]), rows, COLUMNS)
    return chosen.verdict()
