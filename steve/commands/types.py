"""steve types: the blocks of Lua heaps by the type of the object they contain.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from functools import partial

from steve.analysis import blocks, several
from steve.commands import sites
from steve.system.samples import Sample
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import policy, rollups

NAME = "types"
HELP = "show the blocks of Lua heaps by object type"
READS_SAMPLES = True
COLUMNS = (
    Column("blocks", "blocks", "blocks made", sum="blocks"),
    Column("bytes", "bytes", "bytes that their News and Resizes requested", sum="bytes"),
    Column("share", "% of bytes", "these bytes in percent of the bytes of all blocks examined"),
    Column("resizes", "", "resizes of these blocks", sum="resizes"),
    Column("frees", "frees", "number of these blocks that were freed", sum="frees"),
    Column("live_bytes_at_peak", "at peak", "bytes of these blocks at the peak of the whole heap", sum="peak_bytes"),
    Column("live_bytes_at_end", "at end", "bytes of these blocks that were never freed", sum="live_bytes"),
    Column("live_blocks_at_end", "", "number of these blocks that were never freed", sum="live_blocks"),
    Column("largest", "", "the largest size that one of these blocks ever had, in bytes", sum="most"),
    Column("mean_lifetime", "lifetime (ops)", "operations from New to Free or the end, on average"),
    Column("loads", "loads", "loads from these blocks", sum="loads"),
    Column("stores", "stores", "stores to these blocks", sum="stores"),
    Column("modifies", "", "modifications of these blocks", sum="modifies"),
    Column("bytes_read", "", "bytes read from these blocks", sum="bytes_read"),
    Column("bytes_written", "", "bytes written to these blocks", sum="bytes_written"),
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
EXAMPLES = f"""\
A block has the type that was reported last. ljtrace reports it once, when LuaJIT initialises the block.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve types app.ljt
  steve types app.ljt --where 'heap = "lua" and live'
  steve lines app.ljt --where 'type = "tab"'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "bytes")
    rollups.add_process(parser)
    blocks.add_shards(parser)


def row_of(found: dict, total: int, sample: Sample) -> dict:
    """The columns of a type: those of a site, and its share. found: the sums over its blocks; total: the bytes of all blocks
    examined."""
    return {**sites.row_of(found, sample, listing.sums_of(COLUMNS)), "share": blocks.share(found["bytes"], total)}


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(several.Joined, args, "type"), sites.add_sums)
    total = int(found.sums.rows["bytes"].sum())
    rows = found.rows(partial(row_of, total=total, sample=files.sample), "type").ranked(args.sort)
    shown = files.columns(columns, sites.OF_ACCESSES)
    listing.write_ranked(args, files.title("types of blocks"), rows, shown, sample=files.sample)
    return files.verdict()
