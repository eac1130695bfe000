"""steve sharing: memory that several threads access, and lines that go to and fro between them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse

from steve import blocks, listing
from steve.listing import Column
from steve.stacks import SITE

NAME = "sharing"
HELP = "show blocks touched by several threads, and false sharing of lines"
COLUMNS = (
    Column("transfers", "transfers",
           "accesses to a line of 64 bytes that another thread accessed last, where this access writes or that "
           "thread had written since it got the line"),
    Column("false_transfers", "false",
           "of these, accesses to no byte that the other thread accessed since it got the line: had the data "
           "been in lines of their own, nothing would have been transferred"),
    Column("shared_blocks", "shared", "blocks of the site that several threads accessed"),
    Column("shared_bytes", "bytes", "their bytes when that was first seen"),
    Column("blocks", "made", "all blocks made by the site"),
    Column("accesses", "accesses", "accesses to them"),
    Column("foreign", "foreign", "of these, by another thread than the last that accessed the block"),
    Column("site", "site", SITE, True),
)
EXAMPLES = f"""\
A transfer counts for the site of the block that the access is to; the line may have come because of a
neighbouring block. Valgrind runs one thread at a time, in turns: run freely, the program may transfer far
more often, at the same places. Sites whose blocks no second thread accessed, and without transfers, are left out.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve sharing server.ljt
  steve sharing server.ljt --sort false_transfers --csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "transfers")


def run(args: argparse.Namespace) -> int:
    from steve import _analyses, eventparts
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    sums = chosen.over_events(_analyses.sharing_by_stack, parts=eventparts.sharing_by_stack)
    found = blocks.merged(sums, chosen.places.site_name)
    rows = [{**row, "site": site, "shared_blocks": row["shared"]} for site, row in found.items()
            if row["shared"] or row["transfers"]]
    listing.write(args, chosen.title("sharing between threads"), rows, COLUMNS)
    return chosen.verdict()
