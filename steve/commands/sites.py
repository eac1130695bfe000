"""steve sites: sizes, lifetimes and accesses of the blocks of each allocation site.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from collections.abc import Mapping
from functools import partial

from steve.analysis import blocks, several
from steve.system.samples import Sample
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import policy, rollups
from steve.trace.stacks import SITE

NAME = "sites"
HELP = "show sizes, lifetimes and accesses of the blocks of each allocation site"
READS_SAMPLES = True
COLUMNS = (
    Column("blocks", "blocks", "blocks made by the site", sum="blocks"),
    Column("bytes", "bytes", "bytes that their News and Resizes requested", sum="bytes"),
    Column("resizes", "", "resizes of these blocks, made anywhere", sum="resizes"),
    Column("frees", "", "number of these blocks that were freed", sum="frees"),
    Column("live_bytes_at_peak", "at peak", "bytes of these blocks at the peak of the whole heap", sum="peak_bytes"),
    Column("live_bytes_at_end", "at end", "bytes of these blocks that were never freed", sum="live_bytes"),
    Column("live_blocks_at_end", "", "number of these blocks that were never freed", sum="live_blocks"),
    Column("largest", "", "bytes of the largest block", sum="most_bytes"),
    Column("mean_lifetime", "lifetime (ops)", "operations from New to Free or the end, on average"),
    Column("loads", "loads", "loads from these blocks", sum="loads"),
    Column("stores", "stores", "stores to these blocks", sum="stores"),
    Column("modifies", "", "modifications of these blocks (one instruction loads and stores)", sum="modifies"),
    Column("bytes_read", "", "bytes read from these blocks", sum="bytes_read"),
    Column("bytes_written", "", "bytes written to these blocks", sum="bytes_written"),
    Column(
        "utilisation", "used %", "bytes ever accessed (in units of 1/64 of a block) in percent of the blocks' sizes"
    ),
    Column("shared", "", "number of these blocks that a thread other than their maker accessed", sum="shared"),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written", "utilisation", "shared")
EXAMPLES = f"""\
A block belongs to the site of its New for all its life, no matter where it is resized or freed. (In the tables of
`steve summary`, it belongs to the site that resized it last.)

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve sites app.ljt --sort live_bytes_at_peak
  steve sites app.ljt --where 'size >= 64Ki and utilisation < 10%' --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "bytes")
    rollups.add_arguments(parser, several=True, pools=True)
    blocks.add_shards(parser)


def row_of(found: dict, sample: Sample, shown: Mapping[str, str] = listing.sums_of(COLUMNS)) -> dict:
    """The columns of a site. found: the sums over its blocks; shown: the columns that are one of them, and which."""
    return {
        **{key: found[name] for key, name in shown.items()},
        "mean_lifetime": blocks.mean(found["lifetimes"], found["blocks"]),
        "utilisation": blocks.share(found["used"], found["size"]),
        **sample.standard_errors(found, shown),
    }


def add_sums(found: several.Joined, chosen: blocks.Blocks) -> None:
    """Add the sums of a file, whose stacks are named."""
    (sums,) = chosen.sum_by(rollups.key_of(found.by))
    rollup = rollups.Rollup(found.by, chosen.places, policy.short_in_table(chosen.args))
    found.add(rollup, rollup.merged(sums))


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(several.Joined, args), add_sums)
    rows = found.rows(partial(row_of, sample=files.sample)).ranked(args.sort)
    shown = files.columns(columns, OF_ACCESSES)
    listing.write_ranked(args, files.title("allocation sites"), rows, shown, sample=files.sample)
    return files.verdict()
