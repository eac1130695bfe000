"""steve threads: the blocks that each thread makes, frees and accesses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
from functools import partial

from steve.analysis import blocks, several
from steve.system import samples
from steve.system.samples import Sample
from steve.system.messages import note
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import rollups

NAME = "threads"
HELP = "show what each thread makes, frees and accesses"
READS_SAMPLES = True
COLUMNS = (
    Column("thread", "thread", "the recorder's number of the thread, from 1; 0 if the trace has none"),
    Column("name", "name", 'the name that the program gave it (pthread_setname_np); "" if it has none', True),
    Column("allocs", "allocs", "blocks made by the thread", sum="blocks"),
    Column("alloc_bytes", "bytes", "bytes that their News and Resizes requested", sum="bytes"),
    Column("frees", "frees", "blocks freed by the thread, no matter which thread made them"),
    Column("foreign_frees", "foreign", "those of them that another thread made"),
    Column(
        "live_bytes_at_peak", "at peak", "bytes of the thread's blocks at the peak of the whole heap", sum="peak_bytes"
    ),
    Column("live_bytes_at_end", "at end", "bytes of the thread's blocks that were never freed", sum="live_bytes"),
    Column("shared_blocks", "shared", "blocks of the thread that another thread accessed", sum="shared"),
    Column("loads", "loads", "loads by the thread, from any block"),
    Column("stores", "stores", "stores by the thread"),
    Column("modifies", "modifies", "modifications by the thread"),
    Column("bytes_read", "", "bytes that the thread reads"),
    Column("bytes_written", "", "bytes that the thread writes"),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("shared_blocks", "loads", "stores", "modifies", "bytes_read", "bytes_written")
MADE = listing.sums_of(COLUMNS)  # over the blocks that the thread made
EXAMPLES = f"""\
{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve threads server.ljt
  steve threads server.ljt --where shared --sort loads
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "alloc_bytes")
    rollups.add_process(parser)
    blocks.add_shards(parser)


def join(made: dict, freed: dict, accessed: dict, names: dict[str, str], sample: Sample) -> list[dict]:
    """The rows. made, freed, accessed: sums by the thread of the New, of the Free, and of the accesses. names: the
    facts of the trace, in which `thread N` is the name of thread N."""
    rows: dict[int, dict] = {}
    for thread in {*made, *(t for t in freed if freed[t]["frees"]), *accessed}:
        rows[thread] = dict.fromkeys((column.key for column in COLUMNS), 0)
        rows[thread].update(accessed.get(thread, {}), thread=thread, name=names.get(f"thread {thread}", ""))
    for thread, found in made.items():
        rows[thread].update({key: found[name] for key, name in MADE.items()}, **sample.standard_errors(found, MADE))
    for thread, found in freed.items():
        if found["frees"]:
            rows[thread].update(frees=found["frees"], foreign_frees=found["foreign"])
            errors = sample.standard_errors(found, {"frees": "frees"}).get("standard_errors", {})
            rows[thread].setdefault("standard_errors", {}).update(errors)
    return list(rows.values())


def add_rows(found: several.Added, chosen: blocks.Blocks) -> None:
    """Add the rows of a file."""
    (made, freed), walked = chosen.sum_with_accesses("thread", "free_thread")
    tables = (made, freed, walked.lives.thread_accesses())
    rows = join(*[blocks.merged(sums, lambda thread: thread) for sums in tables], chosen.trace.info(), chosen.sample)
    found.add(rows, chosen.trace)


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files = several.Files(NAME, args)
    found = files.collect(partial(several.Added, args, ("thread", "name")), add_rows)
    listing.write(args, files.title("threads"), found.rows(), files.columns(columns, OF_ACCESSES), files.sample)
    if files.sample and files.have_accesses():
        note(NAME, samples.WITHOUT_ERRORS, args.quiet)
    return files.verdict()
