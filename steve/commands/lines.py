"""steve lines: allocations and accesses of each line of the program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from steve.analysis import blocks, several
from steve.system import samples
from steve.system.samples import Sample
from steve.system.messages import note
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import missing, policy, rollups
from steve.trace.places import Line
from steve.trace.frames import place_text

if TYPE_CHECKING:
    import numpy as np

    from steve.kernels._lives import Lives
    from steve.analysis.folds import Table
    from steve.trace.line_numbers import LineNumbers

NAME = "lines"
HELP = "show what each line of the program allocates and accesses"
READS_SAMPLES = True
ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written")
COLUMNS = (
    Column("allocs", "allocs", "blocks made by the line", sum="blocks"),
    Column("mean_lifetime", "", "operations from their New to their Free or the end, on average"),
    Column("alloc_bytes", "bytes", "bytes that their News and Resizes requested", sum="bytes"),
    Column(
        "kinds",
        "",
        "allocs and alloc_bytes by kind of block: the type of its content in a Lua heap (see steve "
        "types), else the kind of the heap (malloc, mmap, custom); in JSON {kind: {allocs, alloc_bytes}}, in CSV "
        "`kind allocs alloc_bytes; ...`, most bytes first",
        is_group=True,
    ),
    Column("frees", "frees", "number of these blocks that were freed, by any line", sum="frees"),
    Column("resizes", "", "number of resizes of these blocks, by any line", sum="resizes"),
    Column("live_bytes_at_peak", "at peak", "bytes of these blocks at the peak of the whole heap", sum="peak_bytes"),
    Column("live_bytes_at_end", "at end", "bytes of these blocks that were never freed", sum="live_bytes"),
    Column("live_blocks_at_end", "", "number of these blocks that were never freed", sum="live_blocks"),
    Column("loads", "loads", "loads by the line, from any block"),
    Column("stores", "stores", "stores by the line"),
    Column("modifies", "", "modifications by the line (one instruction loads and stores)"),
    Column("bytes_read", "", "bytes that the line reads"),
    Column("bytes_written", "", "bytes that the line writes"),
    *(
        Column(f"{whose}_{key}", "", f"as {key}, {meaning}")
        for whose, meaning in (("own", "of blocks that the line itself made"), ("others", "of all other blocks"))
        for key in ACCESSES
    ),
    Column("blocks_touched", "blocks", "distinct blocks that the line accesses"),
    Column("cache_lines_touched", "lines", "distinct cache lines of 64 bytes that the line accesses"),
    Column("function", "", "function; without a name, [object] or (unknown)", True),
    Column("file", "", "source file, empty if unknown", True),
    Column("line", "", "line number, 0 if unknown"),
    Column("place", "line", "", True),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = (
    *(f"{whose}{key}" for whose in ("", "own_", "others_") for key in ACCESSES),
    "blocks_touched",
    "cache_lines_touched",
)
OF_BLOCKS = listing.sums_of(COLUMNS)
SUMS = ("lifetimes", *OF_BLOCKS.values(), *map(samples.variance, OF_BLOCKS.values()))
EXAMPLES = f"""\
An allocation is attributed to the innermost Lua function in its stack or, if there is none, to the innermost frame
that has a name and does not belong to the allocator. An access is attributed to the line of its instruction. Accesses
of LuaJIT's interpreter, library functions, garbage collector and compiler to blocks of a Lua heap are attributed to
the line of the Lua instruction that the thread executed last.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve lines app.ljt --sort bytes_read --top 10
  steve lines app.ljt --where 'site ~ "parser"' --json
"""


WITHOUT_INSTRUCTIONS = (
    "in a sample of the blocks, accesses by LuaJIT's interpreter have no line: they are in the row [luajit]. Record without "
    "--sample-blocks to have them by line"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "alloc_bytes")
    rollups.add_process(parser)
    blocks.add_shards(parser)


def empty(line: Line) -> dict:
    """A row for a line, with all numbers 0."""
    place = place_text(line.function, line.file, line.line) if line.file else line.function
    return {**{column.key: 0 for column in COLUMNS}, **line._asdict(), "kinds": {}, "place": place}


def kind_names() -> tuple[str, ...]:
    """The names of the kernel's kinds of blocks, by number; see LINEWORK_KINDS."""
    from steve.trace._memtrace import HEAP_KIND_NAMES, TYPE_NAMES

    return TYPE_NAMES + HEAP_KIND_NAMES


def kinds_of(made: np.void, names: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """The column `kinds` of a line, most bytes first. made: the kernel's counts by kind; names: kind_names()."""
    found = zip(names, made["blocks"].tolist(), made["bytes"].tolist())
    kinds = {name: {"allocs": count, "alloc_bytes": size} for name, count, size in found if count}
    return dict(sorted(kinds.items(), key=lambda kind: (-kind[1]["alloc_bytes"], kind[0])))


def accesses_of(work: np.ndarray) -> list[dict[str, int]]:
    """The columns of accesses, in the order of line numbers. work: the kernel's counts by line."""
    from steve.kernels._lives import accesses_of as columns

    rows: list[dict[str, int]] = [{} for _ in work]
    for whose in ("own", "others"):
        for row, found in zip(rows, columns(work[whose]["counts"], work[whose]["bytes"]).tolist()):
            row.update((f"{whose}_{key}", value) for key, value in zip(ACCESSES, found))
    for row in rows:
        row.update((key, row[f"own_{key}"] + row[f"others_{key}"]) for key in ACCESSES)
    return rows


def add_work(rows: dict[Line, dict], lives: Lives, lines: LineNumbers) -> None:
    """Add to the rows what the kernel counted by line. Several numbers may be shown as one line, such as the places of
    a Lua function that have no line number."""
    import numpy as np

    names, (work, made) = kind_names(), lives.line_work()
    made_by: dict[Line, np.void] = {}
    for number, (found, accesses) in enumerate(zip(work, accesses_of(work))):
        if found["blocks"] or made[number]["blocks"].any():
            line = lines.line(number)
            row = rows.setdefault(line, empty(line))
            for key, value in accesses.items():
                row[key] += value
            row["blocks_touched"] += int(found["blocks"])
            row["cache_lines_touched"] += int(found["cache_lines"])
            total = made_by.setdefault(line, np.zeros((), made.dtype))
            for field in made.dtype.names:
                total[field] += made[field][number]
    for line, total in made_by.items():
        rows[line]["kinds"] = kinds_of(total, names)


def add_lives(rows: dict[Line, dict], sums: Table, lines: LineNumbers, sample: Sample) -> None:
    """Add to the rows what became of the blocks that the lines made. sums: by stack."""
    for line, found in blocks.merged(sums, lines.of_stack).items():
        rows.setdefault(line, empty(line)).update(
            mean_lifetime=blocks.mean(found["lifetimes"], found["blocks"]),
            **{key: found[name] for key, name in OF_BLOCKS.items()},
            **sample.standard_errors(found, OF_BLOCKS),
        )


def measured(chosen: blocks.Blocks) -> list[dict]:
    """The rows of the chosen blocks, which count by line."""
    (sums,), walked = chosen.sum_with_accesses("stack", columns=SUMS)
    assert walked.lines is not None
    walked.lines.reach_all()
    rows: dict[Line, dict[str, Any]] = {}
    add_lives(rows, sums, walked.lines, chosen.sample)
    add_work(rows, walked.lives, walked.lines)
    return list(rows.values())


def recorded_rows(chosen: blocks.Blocks) -> list[dict]:
    """The same; numbers that were not recorded are None."""
    rows = measured(chosen)
    nothing = dict.fromkeys(OF_ACCESSES) if missing.accesses(chosen.trace) else {}
    return [{**row, **nothing} for row in rows]


def has_no_instructions(chosen: blocks.Blocks) -> bool:
    """Does the trace have accesses of Lua's heaps, but not all instructions that made them?"""
    heaps = range(chosen.trace.counts()["heaps"])
    return (
        chosen.sample.every > 0
        and not missing.accesses(chosen.trace)
        and any(chosen.places.heap_kind(heap) == "lua" for heap in heaps)
    )


class OfLines:
    """The rows of all files. without_instructions: do some lack the instructions of accesses?"""

    def __init__(self, args: argparse.Namespace) -> None:
        self.rows = several.Added(args, ("function", "file", "line", "place"), {"mean_lifetime": "allocs"})
        self.without_instructions = False

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file."""
        self.rows.add(measured(chosen), chosen.trace)
        self.without_instructions |= has_no_instructions(chosen)

    def join(self, other: OfLines) -> None:
        """Add other files."""
        self.rows.join(other.rows)
        self.without_instructions |= other.without_instructions


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args, by_line=True)
    found = files.collect(partial(OfLines, args), OfLines.add)
    listing.write(args, files.title("lines"), found.rows.rows(), files.columns(columns, OF_ACCESSES), files.sample)
    if files.sample and files.have_accesses():
        note(NAME, samples.WITHOUT_ERRORS, args.quiet)
    if found.without_instructions:
        note(NAME, WITHOUT_INSTRUCTIONS, args.quiet)
    return files.verdict()
