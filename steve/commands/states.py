"""steve states: what LuaJIT's virtual machine spends its instructions on.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.trace.places import line_of

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAME = "states"
HELP = "show instructions, accesses and bytes by state of the Lua virtual machine"
COLUMNS = (
    Column("state", "state", "INTERP (interprets bytecode), C (a C function), GC, EXIT (leaves a trace), "
           "RECORD, OPT and ASM (the JIT compiler), TRACE (runs one), FAST (a fast function, in builds that "
           "tell it); none: no Lua state has told any yet", True),
    Column("trace", "trace", "number of the trace; 0 in other states"),
    Column("heap", "", "number of the Lua state's heap"),
    Column("entries", "entries", "how often it came into this state from another"),
    Column("instructions", "instructions", "guest instructions executed in it"),
    Column("share", "%", "of all instructions"),
    Column("allocs", "allocs", "blocks made in it"),
    Column("alloc_bytes", "bytes", "bytes that News and Resizes asked for in it"),
    Column("frees", "", "blocks freed in it"),
    Column("free_bytes", "freed", "bytes of those, and the old sizes of blocks resized in it"),
    Column("loads", "loads", "loads from blocks"),
    Column("stores", "stores", "stores to blocks"),
    Column("modifies", "", "modifications of blocks"),
    Column("bytes_read", "", "bytes read"),
    Column("bytes_written", "", "bytes written"),
    Column("starts", "", "where the trace starts", True),
    Column("start", "starts at", "", True),
)
EXAMPLES = f"""\
The instructions of all rows add up to those of the trace. A thread is in the state that it told last; what is
executed between two events counts for the thread of the first. --where chooses blocks, of which accesses, News and
Frees count; instructions are always all. After --from, the state is not known until it changes.

{listing.explained(COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve states app.ljt
  steve states app.ljt --sort alloc_bytes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser)
    listing.add_arguments(parser, COLUMNS, "instructions")
    blocks.add_parts(parser)


def starts_of(trace: Trace) -> dict[tuple[int, int], str]:
    """Where traces start, by heap and number; of several with one number the last."""
    starts = {}
    for i in range(trace.counts()["traces"]):
        jit = trace.jit_trace(i)
        frame = trace.frame(jit.frame)
        line = line_of(frame) if frame is not None and jit.frame else None
        starts[jit.heap, jit.number] = f"{line.file}:{line.line}" if line is not None else ""
    return starts


def run(args: argparse.Namespace) -> int:
    from steve.kernels import _accesses
    from steve.trace._memtrace import VM_NAMES
    listing.check(args, COLUMNS)
    chosen = blocks.Blocks(NAME, args)
    found = chosen.over_events(_accesses.States)
    starts, total = starts_of(chosen.trace), int(found["instructions"].sum())
    rows = []
    for values in found.tolist():
        row = dict(zip(found.dtype.names, values))
        start = starts.get((row["heap"], row["trace"]), "") if row["trace"] else ""
        rows.append({**row, "state": (*VM_NAMES, "none")[row["vm"]], "starts": start,
                     "start": os.path.basename(start), "share": blocks.share(row["instructions"], total)})
    listing.write(args, chosen.title("states of the Lua virtual machine"), rows, COLUMNS)
    return chosen.verdict()
