"""steve lines: what each line of the program allocates and accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace.places import Line
from steve.trace.stacks import place_text

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._lives import Lives
    from steve.analysis.reducers import Table
    from steve.trace.line_numbers import LineNumbers

NAME = "lines"
HELP = "show what each line of the program allocates and accesses"
ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written")
COLUMNS = (
    Column("allocs", "allocs", "blocks made by the line"),
    Column("mean_lifetime", "", "operations from New to Free or the end of these, on average"),
    Column("alloc_bytes", "bytes", "bytes that their News and Resizes asked for"),
    Column("kinds", "", "allocs and alloc_bytes by kind of block: of Lua heaps what they hold (see steve types), of "
           "others which heap (malloc, mmap, custom); in JSON {kind: {allocs, alloc_bytes}}, else `kind allocs "
           "alloc_bytes; ...`, most bytes first", is_group=True),
    Column("frees", "frees", "how many of them were freed, wherever"),
    Column("resizes", "", "how often they were resized, wherever"),
    Column("live_bytes_at_peak", "at peak", "their bytes when the whole heap held most bytes"),
    Column("live_bytes_at_end", "at end", "bytes of those never freed"),
    Column("live_blocks_at_end", "", "those never freed"),
    Column("loads", "loads", "loads that the line makes from any block"),
    Column("stores", "stores", "stores that it makes"),
    Column("modifies", "", "modifications (load and store by one instruction) that it makes"),
    Column("bytes_read", "", "bytes that it reads"),
    Column("bytes_written", "", "bytes that it writes"),
    *(Column(f"{whose}_{key}", "", f"as {key}, {meaning}")
      for whose, meaning in (("own", "of blocks that the line itself made"), ("others", "of all other blocks"))
      for key in ACCESSES),
    Column("blocks_touched", "blocks", "distinct blocks that it accesses"),
    Column("cache_lines_touched", "lines", "distinct lines of 64 bytes of the address space that it accesses"),
    Column("function", "", "function; [object] or (unknown) where there is no name", True),
    Column("file", "", "source file, empty if not known", True),
    Column("line", "", "line, 0 if not known"),
    Column("place", "line", "", True),
)
EXAMPLES = f"""\
Allocations count at the innermost frame of a Lua function in their stack, if there is one, else at the
innermost frame that has a name and is not the allocator. Accesses count at the line of their instruction. What
LuaJIT's interpreter, library functions, collector and compiler do to blocks of a Lua heap counts at the
line of the Lua instruction that was executed last by that thread.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve lines app.ljt --sort bytes_read --top 10
  steve lines app.ljt --where 'site ~ "parser"' --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "alloc_bytes")
    blocks.add_parts(parser)


def empty(line: Line) -> dict:
    """The row of a line that does nothing."""
    place = place_text(line.function, line.file, line.line) if line.file else line.function
    return {**{column.key: 0 for column in COLUMNS}, **line._asdict(), "kinds": {}, "place": place}


def kind_names() -> tuple[str, ...]:
    """Of the kernel's kinds: see LINEWORK_KINDS."""
    from steve.trace._memtrace import HEAP_KIND_NAMES, TYPE_NAMES
    return TYPE_NAMES + HEAP_KIND_NAMES


def kinds_of(made: np.void, names: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """What a line makes by kind, most bytes first."""
    found = zip(names, made["blocks"].tolist(), made["bytes"].tolist())
    kinds = {name: {"allocs": count, "alloc_bytes": size} for name, count, size in found if count}
    return dict(sorted(kinds.items(), key=lambda kind: (-kind[1]["alloc_bytes"], kind[0])))


def accesses_of(work: np.ndarray) -> list[dict[str, int]]:
    """The columns of accesses, by number of the line."""
    from steve.kernels._lives import accesses_of as columns
    rows: list[dict[str, int]] = [{} for _ in work]
    for whose in ("own", "others"):
        for row, found in zip(rows, columns(work[f"{whose}_counts"], work[f"{whose}_bytes"]).tolist()):
            row.update((f"{whose}_{key}", value) for key, value in zip(ACCESSES, found))
    for row in rows:
        row.update((key, row[f"own_{key}"] + row[f"others_{key}"]) for key in ACCESSES)
    return rows


def add_work(rows: dict[Line, dict], lives: Lives, lines: LineNumbers) -> None:
    """What the kernel counted for lines."""
    names, (work, made) = kind_names(), lives.line_work()
    for number, (found, accesses) in enumerate(zip(work, accesses_of(work))):
        if found["blocks"] or made[number]["blocks"].any():
            line = lines.line(number)
            rows.setdefault(line, empty(line)).update(
                accesses, kinds=kinds_of(made[number], names), blocks_touched=int(found["blocks"]),
                cache_lines_touched=int(found["cache_lines"]))


def add_lives(rows: dict[Line, dict], sums: Table, lines: LineNumbers) -> None:
    """What became of the blocks that lines made."""
    for line, found in blocks.merged(sums, lines.of_stack).items():
        rows.setdefault(line, empty(line)).update(
            mean_lifetime=blocks.mean(found["lifetimes"], found["blocks"]),
            allocs=found["blocks"], alloc_bytes=found["bytes"], frees=found["frees"],
            resizes=found["resizes"], live_bytes_at_peak=found["peak_bytes"],
            live_bytes_at_end=found["live_bytes"], live_blocks_at_end=found["live_blocks"])


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args, by_line=True)
    sums, = chosen.sum_with_accesses("stack")
    assert chosen.lines is not None
    chosen.lines.reach_all()
    rows: dict[Line, dict[str, Any]] = {}
    add_lives(rows, sums, chosen.lines)
    add_work(rows, chosen.lives, chosen.lines)
    listing.write(args, chosen.title("lines"), list(rows.values()), COLUMNS)
    return chosen.verdict()
