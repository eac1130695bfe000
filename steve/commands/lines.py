"""steve lines: what each line of the program allocates and accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import os
from typing import Dict, List

from steve import blocks, listing
from steve.listing import Column
from steve.places import Line

NAME = "lines"
HELP = "show what each line of the program allocates and accesses"
COLUMNS = (
    Column("allocs", "allocs", "blocks made by the line"),
    Column("alloc_bytes", "bytes", "bytes that their News and Resizes asked for"),
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
    Column("function", "", "function; [object] or (unknown) where there is no name", True),
    Column("file", "", "source file, empty if not known", True),
    Column("line", "", "line, 0 if not known"),
    Column("place", "line", "", True),
)
EXAMPLES = f"""\
Allocations count at the innermost frame of their stack that has a name and is not the allocator; accesses
count at the line of their instruction.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve lines app.ljt --sort bytes_read --top 10
  steve lines app.ljt --where 'site ~ "parser"' --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "alloc_bytes")


def empty(line: Line) -> dict:
    """The row of a line that does nothing."""
    place = f"{line.function} ({os.path.basename(line.file)}:{line.line})" if line.file else line.function
    return {**{column.key: 0 for column in COLUMNS}, **line._asdict(), "place": place}


def join(made: Dict[Line, dict], accessed: Dict[Line, dict]) -> List[dict]:
    """Rows from what lines made and what lines accessed."""
    rows = {line: empty(line) for line in (*made, *accessed)}
    for line, found in made.items():
        rows[line].update(allocs=found["blocks"], alloc_bytes=found["bytes"], frees=found["frees"],
                          resizes=found["resizes"], live_bytes_at_peak=found["peak_bytes"],
                          live_bytes_at_end=found["live_bytes"], live_blocks_at_end=found["live_blocks"])
    for line, found in accessed.items():
        rows[line].update(found)
    return list(rows.values())


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    sums, = chosen.sum_with_accesses("stack")
    made = blocks.merged(sums, chosen.places.stack_line)
    accessed = blocks.merged(chosen.lives.site_accesses(), chosen.places.access_line)
    listing.write(args, chosen.title("lines"), join(made, accessed), COLUMNS)  # type: ignore[arg-type]
    return chosen.verdict()
