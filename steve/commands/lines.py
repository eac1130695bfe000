"""steve lines: what each line of the program allocates and accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import os
from typing import Dict, Hashable, List

from steve import blocks, listing
from steve.listing import Column
from steve.places import Line

NAME = "lines"
HELP = "show what each line of the program allocates and accesses"
COLUMNS = (
    Column("allocs", "allocs", "blocks made by the line"),
    Column("mean_lifetime", "", "operations from New to Free or the end of these, on average"),
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


def empty(line: Line) -> dict:
    """The row of a line that does nothing."""
    place = f"{line.function} ({os.path.basename(line.file)}:{line.line})" if line.file else line.function
    return {**{column.key: 0 for column in COLUMNS}, **line._asdict(), "place": place}


def join(made: Dict[Line, dict], accessed: Dict[Line, dict]) -> List[dict]:
    """Rows from what lines made and what lines accessed."""
    rows = {line: empty(line) for line in (*made, *accessed)}
    for line, found in made.items():
        rows[line].update(mean_lifetime=blocks.mean(found["lifetimes"], found["blocks"]),
                          allocs=found["blocks"], alloc_bytes=found["bytes"], frees=found["frees"],
                          resizes=found["resizes"], live_bytes_at_peak=found["peak_bytes"],
                          live_bytes_at_end=found["live_bytes"], live_blocks_at_end=found["live_blocks"])
    for line, found in accessed.items():
        rows[line].update(found)
    return list(rows.values())


def add_lua(accessed: Dict[Hashable, dict], chosen: blocks.Blocks) -> None:
    """Add the accesses of interpreted Lua code to the lines of its instructions."""
    for number, rows in chosen.lives.lua_accesses():
        lines = chosen.places.proto_lines(number)
        for line, found in blocks.merged(rows, lines.__getitem__).items():
            known = accessed.setdefault(line, dict.fromkeys(found, 0))
            for name, value in found.items():
                known[name] += value


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args, lua=True)
    sums, = chosen.sum_with_accesses("stack")
    made = blocks.merged(sums, chosen.places.stack_line)
    accessed = blocks.merged(chosen.lives.site_accesses(), chosen.places.access_line)
    add_lua(accessed, chosen)
    listing.write(args, chosen.title("lines"), join(made, accessed), COLUMNS)  # type: ignore[arg-type]
    return chosen.verdict()
