"""steve types: the blocks of Lua heaps by the type of the object they contain.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve.analysis import blocks
from steve.system import samples
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import policy

NAME = "types"
HELP = "show the blocks of Lua heaps by object type"
READS_SAMPLES = True
COLUMNS = (
    Column("blocks", "blocks", "blocks made"),
    Column("bytes", "bytes", "bytes that their News and Resizes requested"),
    Column("share", "% of bytes", "these bytes in percent of the bytes of all blocks examined"),
    Column("resizes", "", "resizes of these blocks"),
    Column("frees", "frees", "number of these blocks that were freed"),
    Column("live_bytes_at_peak", "at peak", "bytes of these blocks at the peak of the whole heap"),
    Column("live_bytes_at_end", "at end", "bytes of these blocks that were never freed"),
    Column("live_blocks_at_end", "", "number of these blocks that were never freed"),
    Column("largest", "", "the largest size that one of these blocks ever had, in bytes"),
    Column("mean_lifetime", "lifetime", "operations from New to Free or the end, on average"),
    Column("loads", "loads", "loads from these blocks"),
    Column("stores", "stores", "stores to these blocks"),
    Column("modifies", "", "modifications of these blocks"),
    Column("bytes_read", "", "bytes read from these blocks"),
    Column("bytes_written", "", "bytes written to these blocks"),
    Column(
        "utilisation", "used %", "bytes ever accessed (in units of 1/64 of a block) in percent of the blocks' sizes"
    ),
    Column(
        "type",
        "type",
        "the content of the blocks: an object (str, upval, thread, proto, func, trace, cdata, tab, "
        "udata), a part of one (array and hash of tables, stack of threads), data of LuaJIT itself (strtab; buffer, "
        "also that of a string.buffer; jit, global), other; unknown: not reported, as for blocks of C heaps",
        True,
    ),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written", "utilisation")
# columns with standard errors in a sample of the blocks, and their sums
ESTIMATES = {
    "blocks": "blocks",
    "bytes": "bytes",
    "frees": "frees",
    "live_bytes_at_peak": "peak_bytes",
    "live_bytes_at_end": "live_bytes",
    "live_blocks_at_end": "live_blocks",
    **{key: key for key in ("resizes", "loads", "stores", "modifies", "bytes_read", "bytes_written")},
}
EXAMPLES = f"""\
A block has the type that was reported last. ljtrace reports it once, when LuaJIT initialises the block.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve types app.ljt
  steve types app.ljt --where 'heap = "lua" and live'
  steve lines app.ljt --where 'type = "tab"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    policy.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes")
    blocks.add_shards(parser)


def row_of(name: str, found: dict, total: int) -> dict:
    """The row of a type. found: the sums over its blocks; total: the bytes of all blocks examined."""
    same = ("blocks", "bytes", "resizes", "frees", "loads", "stores", "modifies", "bytes_read", "bytes_written")
    return {
        **{key: found[key] for key in same},
        "type": name,
        "share": blocks.share(found["bytes"], total),
        "live_bytes_at_peak": found["peak_bytes"],
        "live_bytes_at_end": found["live_bytes"],
        "live_blocks_at_end": found["live_blocks"],
        "largest": found["most"],
        "mean_lifetime": blocks.mean(found["lifetimes"], found["blocks"]),
        "utilisation": blocks.share(found["used"], found["size"]),
        **samples.standard_errors(found, ESTIMATES),
    }


def run(args: argparse.Namespace) -> int:
    from steve.trace._memtrace import TYPE_NAMES

    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    (sums,) = chosen.sum_by("type")
    found = blocks.merged(sums, TYPE_NAMES.__getitem__)
    total = sum(row["bytes"] for row in found.values())
    rows = [row_of(str(name), row, total) for name, row in found.items()]
    listing.write(args, chosen.title("types of blocks"), rows, chosen.columns(COLUMNS, OF_ACCESSES))
    return chosen.verdict()
