"""steve states: instructions, accesses and bytes by state of LuaJIT's virtual machine.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import blocks, several
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace import rollups
from steve.trace.places import line_of

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAME = "states"
HELP = "show instructions, accesses and bytes by state of the Lua virtual machine"
COLUMNS = (
    Column(
        "state",
        "state",
        "INTERP (interprets bytecode), C (a C function), GC, EXIT (leaves a trace), "
        "RECORD, OPT and ASM (the JIT compiler), TRACE (runs a trace), FAST (a fast function, in builds of LuaJIT "
        "that report it); none: no Lua state has reported a state yet",
        True,
    ),
    Column("trace", "trace", "number of the trace; 0 in other states"),
    Column("heap", "", "number of the Lua state's heap"),
    Column("entries", "entries", "number of changes from another state to this one"),
    Column(
        "instructions",
        "instructions",
        "instructions of the program executed in this state; nanoseconds in a trace of ljtrace run",
    ),
    Column("share", "%", "these instructions in percent of all"),
    Column("allocs", "allocs", "blocks made in this state"),
    Column("alloc_bytes", "bytes", "bytes that News and Resizes requested in this state"),
    Column("frees", "", "blocks freed in this state"),
    Column("free_bytes", "freed", "bytes of these blocks, and the old sizes of blocks resized in this state"),
    Column("loads", "loads", "loads from blocks"),
    Column("stores", "stores", "stores to blocks"),
    Column("modifies", "", "modifications of blocks"),
    Column("bytes_read", "", "bytes read"),
    Column("bytes_written", "", "bytes written"),
    Column("starts", "", "where the trace starts", True),
    Column("start", "starts at", "", True),
)
# columns that are not known of a trace without loads and stores
OF_ACCESSES = ("loads", "stores", "modifies", "bytes_read", "bytes_written")
EXAMPLES = f"""\
The instructions of all rows add up to those of the trace. A thread is in the state that it reported last. The
instructions between two events are attributed to the thread of the first event. --where selects the blocks whose
accesses, News and Frees are counted; instructions are always counted completely. After --from, the state is unknown
until it changes.

Of several files, the rows of a state, and of traces that start at one line, are added up; heap and trace are null then.

{listing.explained(several.COLUMNS + COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve states app.ljt
  steve states app.ljt --sort alloc_bytes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "instructions")
    rollups.add_process(parser)
    blocks.add_shards(parser)


def starts_of(trace: Trace) -> dict[tuple[int, int], str]:
    """Where JIT traces start, by heap and number, as `file:line`. If several traces had one number, it is the last."""
    starts = {}
    for i in range(trace.counts()["traces"]):
        jit = trace.jit_trace(i)
        frame = trace.frame(jit.frame)
        line = line_of(frame) if frame is not None and jit.frame else None
        starts[jit.heap, jit.number] = f"{line.file}:{line.line}" if line is not None else ""
    return starts


def rows_of(chosen: blocks.Blocks) -> list[dict]:
    """The rows of a file, without the column `share`."""
    from steve.kernels import _accesses
    from steve.trace._memtrace import VM_NAMES

    found, rows = chosen.over_events(_accesses.States), []
    starts = starts_of(chosen.trace)
    for values in found.tolist():
        row = dict(zip(found.dtype.names, values))
        start = starts.get((row["heap"], row["trace"]), "") if row["trace"] else ""
        state = (*VM_NAMES, "none")[row.pop("vm")]
        rows.append({**row, "state": state, "starts": start, "start": os.path.basename(start)})
    return rows


def add_rows(found: several.Added, chosen: blocks.Blocks, are_one: bool) -> None:
    """Add the rows of a file. are_one: are its heaps and traces numbered as those of no other file?"""
    rows = rows_of(chosen)
    found.add(rows if are_one else [{**row, "heap": None, "trace": None} for row in rows], chosen.trace)


def run(args: argparse.Namespace) -> int:
    columns = several.columns(COLUMNS, args)
    listing.check(args, columns)
    files, are_one = several.Files(NAME, args), len(args.files) == 1 or bool(args.apart)
    keys = ("state", "starts", "start", *(("heap", "trace") if are_one else ()))
    found = files.collect(partial(several.Added, args, keys), partial(add_rows, are_one=are_one))
    files.check_unit()
    total = sum(row["instructions"] for row in found.rows())
    shares = [{**row, "share": blocks.share(row["instructions"], total)} for row in found.rows()]
    title = files.title("states of the Lua virtual machine", peaks=False, inherited=False)
    listing.write(args, title, shares, files.columns(columns, OF_ACCESSES))
    return files.verdict()
