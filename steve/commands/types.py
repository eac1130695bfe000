"""steve types: the blocks of Lua heaps by what they hold.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column

NAME = "types"
HELP = "show the blocks of Lua heaps by object type"
COLUMNS = (
    Column("blocks", "blocks", "blocks made"),
    Column("bytes", "bytes", "bytes that their News and Resizes asked for"),
    Column("share", "% of bytes", "of the bytes of all blocks looked at"),
    Column("resizes", "", "how often they were resized"),
    Column("frees", "frees", "how many of them were freed"),
    Column("live_bytes_at_peak", "at peak", "their bytes when the whole heap held most bytes"),
    Column("live_bytes_at_end", "at end", "bytes of those never freed"),
    Column("live_blocks_at_end", "", "those never freed"),
    Column("largest", "", "most bytes that one ever had"),
    Column("mean_lifetime", "lifetime", "operations from New to Free or the end, on average"),
    Column("loads", "loads", "loads from them"),
    Column("stores", "stores", "stores to them"),
    Column("modifies", "", "modifications of them"),
    Column("bytes_read", "", "bytes read from them"),
    Column("bytes_written", "", "bytes written to them"),
    Column("utilisation", "used %",
           "bytes ever accessed (in parts of 1/64 of a block) in percent of their sizes"),
    Column("type", "type", "what the blocks hold: an object (str, upval, thread, proto, func, trace, cdata, tab, "
           "udata) or a part of one (array and hash of tables, stack of threads), LuaJIT's own (strtab; buffer, of "
           "a string.buffer, too; jit, global), other; unknown: not told, as for blocks of C heaps", True),
)
EXAMPLES = f"""\
A block has the type that was told last; ljtrace tells it once, when the block is filled in.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve types app.ljt
  steve types app.ljt --where 'heap = "lua" and live'
  steve lines app.ljt --where 'type = "tab"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes")
    blocks.add_parts(parser)


def row_of(name: str, found: dict, total: int) -> dict:
    """One row from the sums of a type."""
    same = ("blocks", "bytes", "resizes", "frees", "loads", "stores", "modifies", "bytes_read",
            "bytes_written")
    return {**{key: found[key] for key in same}, "type": name, "share": blocks.share(found["bytes"], total),
            "live_bytes_at_peak": found["peak_bytes"], "live_bytes_at_end": found["live_bytes"],
            "live_blocks_at_end": found["live_blocks"], "largest": found["most"],
            "mean_lifetime": blocks.mean(found["lifetimes"], found["blocks"]),
            "utilisation": blocks.share(found["used"], found["size"])}


def run(args: argparse.Namespace) -> int:
    from steve.trace._memtrace import TYPE_NAMES
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    sums, = chosen.sum_by("type")
    found = blocks.merged(sums, TYPE_NAMES.__getitem__)
    total = sum(row["bytes"] for row in found.values())
    rows = [row_of(str(name), row, total) for name, row in found.items()]
    listing.write(args, chosen.title("types of blocks"), rows, COLUMNS)
    return chosen.verdict()
