"""steve sharing: memory that several threads access, and false sharing of cache lines.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.tables import StackText
from steve.trace import policy, rollups
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    import numpy as np

    from steve.trace.rollups import Rollup

NAME = "sharing"
HELP = "show blocks touched by several threads, and false sharing of lines"
COUNTS_ACCESSES = True
LEAST = 1000  # interleaved accesses of a line that is reported
BY_CHANCE = 0.05  # greatest expected number of lines with the same evidence by chance
SHOWN = 3  # places shown in a table
FEW = 20  # scheduling turns that are too few for conclusions
COLUMNS = (
    Column(
        "interleaved",
        "interleaved",
        "accesses to falsely shared lines that would miss because another thread took the line, if the threads "
        "ran at the same time and alternated at every access: an upper bound of the possible savings",
    ),
    Column("lines", "lines", "falsely shared lines of 64 bytes"),
    Column(
        "by_chance",
        "by chance",
        "expected number of lines in the whole trace that would show evidence as strong as that of the weakest of "
        "these lines by chance; null if there are no such lines",
    ),
    Column("threads", "threads", "most threads that share one of these lines falsely"),
    Column("shared_blocks", "shared", "blocks of the site that several threads accessed"),
    Column("shared_bytes", "bytes", "their bytes when the second thread accessed them first"),
    Column("blocks", "made", "all blocks made by the site"),
    Column("accesses", "accesses", "accesses to all these blocks"),
    Column(
        "places",
        "",
        "the bytes of the blocks that two threads use, `0-3 | 4-7`, with the lines and interleaved accesses of each "
        "pair; for each line, the two threads are those whose accesses interleave most",
        True,
        True,
    ),
    Column("shown", "bytes of two threads", "", True),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
A line is falsely shared if threads use different bytes of it during the same time and at least one of them writes.
Valgrind runs one thread at a time, in turns, so the command draws conclusions from the turns: in most of their turns,
several threads return to the line, each to its own bytes. It does not report memory that is handed over (such as
blocks in a queue), memory that one thread prepares for others, memory that is freed and allocated again, or lines
that move between threads because of bytes which several threads use (such as locks). A line is reported if at
least {LEAST} accesses interleave and at most {BY_CHANCE} such lines are expected by chance in the trace. If two
neighbouring blocks share a line, it counts for the sites of both.
The command cannot recognise threads that alternate because they wait for each other or because they hold one lock
whenever they run, as in an interpreter with a global lock. They look like threads that run at the same time, and
`interleaved` is too large for them. A few turns prove nothing; a turn is about 100,000 basic blocks. Record long
enough that each thread uses the line in at least three turns. Valgrind's allocator decides which blocks are
neighbours; another allocator may place them differently.
Sites are left out if no second thread accessed their blocks and they have no falsely shared lines.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve sharing server.ljt
  steve sharing server.ljt --sort shared_bytes --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "interleaved")
    rollups.add_process(parser)
    blocks.add_shards(parser)


def ranges(bits: int, offset: int) -> str:
    """Offsets of bytes in a block as text: `0-3, 8`. bits: one for each byte of a line; offset: that of the line in the
    block."""
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
    """The bytes that a thread writes or, if it writes none, those that it reads, as text."""
    _, _, offset, read, written = side
    return ranges(written, offset) if written else ranges(read, offset) + " read"


def place(sides: tuple[tuple, tuple], own: int, site_name: Callable[[int], StackText]) -> str:
    """The bytes that two threads use, as text. own: the index of the side whose site the text is for."""
    mine, theirs = sides[own], sides[1 - own]
    text = f"{used(mine)} | {used(theirs)}"
    site = site_name(theirs[1])
    if site != site_name(mine[1]):
        return f"{text} of {site.brief}"
    return text if mine[2] == theirs[2] else f"{text} of another"


def first_byte(side: tuple) -> tuple[int, int]:
    """A sort key: the first byte of the line that the thread writes or, if it writes none, reads."""
    return lowest(side[4] or side[3]), side[0]


def lowest(bits: int) -> int:
    """The lowest set bit."""
    return bits & -bits


def found_at(found: np.ndarray, tests: int, site_name: Callable[[int], StackText]) -> Iterator[tuple[str, str, dict]]:
    """(site, place, numbers) of each falsely shared line, once for each of its one or two sites. found: the lines that
    the kernel found; tests: the number of lines it tested."""
    for line in found[(found["interleaved"] >= LEAST) & (found["chance"] * tests <= BY_CHANCE)]:
        row = {
            "interleaved": int(line["interleaved"]),
            "by_chance": float(line["chance"]) * tests,
            "threads": int(line["threads"]),
        }
        sides = sorted(line["sides"].tolist(), key=first_byte)
        sites = {site_name(side[1]): own for own, side in reversed(list(enumerate(sides)))}
        for site, own in sites.items():
            yield site, place(sides, own, site_name), row


def by_site(found: np.ndarray, tests: int, site_name: Callable[[int], StackText]) -> dict[str, dict]:
    """The columns about falsely shared lines, by site."""
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
    """The first SHOWN places as text, for the table."""
    more = len(places) - SHOWN
    return "; ".join(list(places)[:SHOWN]) + (f"; {more} more" if more > 0 else "")


def rows_of(result: tuple, site_name: Callable[[int], StackText], rollup: Rollup) -> list[dict]:
    """The rows of the list. result: that of steve.kernels._accesses.Sharing; site_name, rollup: name sites in the same way."""
    import numpy as np

    sums, found, tests, _ = result
    lines = by_site(found, tests, site_name)
    of_lines = rollup.numbers(np.unique(found["sides"]["stack"]))
    none = {"interleaved": 0, "lines": 0, "by_chance": None, "threads": 0, "places": {}}
    numbers, merged = rollup.merged(rollups.Sums(*blocks.nonzero_rows(sums)))
    kept = np.flatnonzero((merged["shared"] != 0) | np.isin(numbers, of_lines))
    rows = []
    for number, values in zip(numbers[kept].tolist(), merged[kept].tolist()):
        site, row = rollup.text(number), dict(zip(merged.dtype.names, values))
        if row["shared"] or site in lines:
            rows.append({**row, **lines.get(site, none), "site": site, "shared_blocks": row["shared"]})
    return rows


def joined(one: list[dict], other: list[dict]) -> list[dict]:
    """The rows of two files as one. A line is one of one process, so what is expected by chance adds up as well."""
    rows = {row["site"]: row for row in one}
    for row in other:
        known = rows.setdefault(row["site"], row)
        if known is not row:
            rows[row["site"]] = {**sum_of(known, row), "places": sum_of_places(known["places"], row["places"])}
    return list(rows.values())


def sum_of(one: dict, other: dict) -> dict:
    """A row with the sums of two rows of a site."""
    expected = [row["by_chance"] for row in (one, other) if row["by_chance"] is not None]
    sums = {key: value + other[key] for key, value in one.items() if isinstance(value, int)}
    return {
        **one,
        **sums,
        "threads": max(one["threads"], other["threads"]),
        "by_chance": sum(expected) if expected else None,
    }


def sum_of_places(one: dict[str, dict], other: dict[str, dict]) -> dict[str, dict]:
    """The places of two rows of a site, those with most interleaved accesses first."""
    none = {"lines": 0, "interleaved": 0}
    found = {
        place: {key: sum(places.get(place, none)[key] for places in (one, other)) for key in none}
        for place in {**one, **other}
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1]["interleaved"], item[0])))


def warning(few: list[tuple[str, int]], files: int) -> str:
    """The warning for the heading if there are too few turns, else "". few: the names of files in which that is so, and how
    often the thread changed there; files: the number of all files."""
    if not few:
        return ""
    if files == 1:
        return f"; threads took only {few[0][1] + 1} turns: see --help"
    return f"; threads took only a few turns in {', '.join(name for name, _ in few)}: see --help"


class OfLines:
    """The rows of all files. few: the names of those with few turns of threads, and how often the thread changed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.tables, self.few = several.Tables(args, joined), list[tuple[str, int]]()

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file."""
        from steve.kernels import _accesses

        result = chosen.over_events(_accesses.Sharing)
        rollup = rollups.Rollup("stack", chosen.places, policy.short_in_table(chosen.args))
        self.tables.add(rows_of(result, chosen.places.listed_sites(chosen.args), rollup), chosen.trace)
        self.few += [(chosen.trace.name, result[3])] if 0 < result[3] < FEW - 1 else []

    def join(self, other: OfLines) -> None:
        """Add other files."""
        self.tables.join(other.tables)
        self.few += other.few


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(OfLines, args), OfLines.add)
    rows = [{**row, "shown": shown(row["places"])} for row in found.tables.rows(lambda one: one)]
    title = files.title("sharing between threads", peaks=False, inherited=False)
    listing.write(args, title + warning(found.few, len(files)), rows, columns)
    return files.verdict()
