"""steve sites: what the blocks of each allocation site are like.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace.stacks import SITE

NAME = "sites"
HELP = "show what the blocks of each allocation site are like"
COLUMNS = (
    Column("blocks", "blocks", "blocks made by the site"),
    Column("bytes", "bytes", "bytes that their News and Resizes asked for"),
    Column("resizes", "", "how often they were resized, wherever"),
    Column("frees", "", "how many of them were freed"),
    Column("live_bytes_at_peak", "at peak", "their bytes when the whole heap held most bytes"),
    Column("live_bytes_at_end", "at end", "bytes of those never freed"),
    Column("live_blocks_at_end", "", "those never freed"),
    Column("largest", "", "bytes of the largest"),
    Column("mean_lifetime", "lifetime", "operations from New to Free or the end, on average"),
    Column("loads", "loads", "loads from them"),
    Column("stores", "stores", "stores to them"),
    Column("modifies", "", "modifications of them (one instruction that loads and stores)"),
    Column("bytes_read", "", "bytes read from them"),
    Column("bytes_written", "", "bytes written to them"),
    Column("utilisation", "used %",
           "bytes ever accessed (in parts of 1/64 of a block) in percent of their sizes"),
    Column("shared", "", "how many of them another thread than their maker's accessed"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
A block belongs to the site of its New for life, whoever resizes or frees it (in the tables of `steve summary`, to
the site that resized it last).

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve sites app.ljt --sort live_bytes_at_peak
  steve sites app.ljt --where 'size >= 64Ki and utilisation < 10%' --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "bytes")
    blocks.add_parts(parser)


def row_of(site: str, found: dict) -> dict:
    """One row from the sums of a site."""
    same = ("blocks", "bytes", "resizes", "frees", "loads", "stores", "modifies", "bytes_read",
            "bytes_written", "shared")
    return {**{name: found[name] for name in same}, "site": site,
            "live_bytes_at_peak": found["peak_bytes"], "live_bytes_at_end": found["live_bytes"],
            "live_blocks_at_end": found["live_blocks"], "largest": found["most_bytes"],
            "mean_lifetime": blocks.mean(found["lifetimes"], found["blocks"]),
            "utilisation": blocks.share(found["used"], found["size"])}


def run(args: argparse.Namespace) -> int:
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    sums, = chosen.sum_by("stack")
    rows = [row_of(str(site), found) for site, found in blocks.merged(sums, chosen.places.site_name).items()]
    listing.write(args, chosen.title("allocation sites"), rows, COLUMNS)
    return chosen.verdict()
