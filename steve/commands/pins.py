"""steve pins: which allocation sites keep pages of an allocator in use.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from steve.analysis import blocks
from steve.commands import ops
from steve.system.errors import SteveError, UsageError
from steve.system.output import Output
from steve.system.tempfiles import scratch_folder
from steve.terminal import listing
from steve.terminal.listing import Column
from steve.terminal.progress import Progress
from steve.terminal.units import human_bytes
from steve.trace import policy, rollups, source
from steve.trace.stacks import SITE

if TYPE_CHECKING:
    from steve.allocstats.replay import Replay
    from steve.trace._memtrace import Trace

NAME = "pins"
HELP = "show which allocation sites keep pages of an allocator in use"
STARTS_ALLOCATORS = True
MOMENTS = ("worst", "peak", "end")
COLUMNS = (
    Column("blocks", "blocks", "live blocks that the site made"),
    Column("bytes", "bytes", "bytes that were requested for them"),
    Column("pages", "pages", "pages of 4 KiB that have at least one of these blocks"),
    Column(
        "pinned",
        "pinned",
        "bytes of these pages; a page with blocks of several sites is divided in proportion to their bytes on it",
    ),
    Column("times", "times", "pinned divided by bytes"),
    Column("ended", "ended", "blocks of any site that were on these pages and are freed, divided likewise"),
    Column("ended_lifetime", "their life (ops)", "operations that these blocks were there, on average"),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
EXAMPLES = f"""\
The allocator replays the program's own News, Frees and Resizes (steve-replay --places). A page cannot be returned to
the system as long as one block on it is live. So a few blocks that live long, among many that do not, can keep many
times their own bytes in use. `pinned` says how many bytes that are. The sum of all rows is the size of all pages with
live blocks.

--at says when. worst: when the pages with live blocks have the most bytes more than these blocks. peak: when the most
bytes are live. end: after the last operation. N: after N operations (News, Frees and Resizes).

{listing.explained(COLUMNS)}

examples:
  steve pins app.ljt
  steve pins app.ljt --allocator jemalloc --at end
  steve pins app.ljt --by line --json
"""


def moment(text: str) -> str:
    """The argument of --at."""
    if text in MOMENTS or (text.isdecimal() and int(text) > 0):
        return text
    raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(MOMENTS)}, and not a number from 1 on")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source.add_trace(parser)
    policy.add_arguments(parser)
    parser.add_argument(
        "--allocator", metavar="A", default="glibc", help="its name, or the path of a driver (default: glibc)"
    )
    parser.add_argument(
        "--at", type=moment, default="worst", metavar="WHEN", help="worst, peak, end or N; see below (default: worst)"
    )
    parser.add_argument("--heap", metavar="SIZE", help="bytes (K, M, G) or a multiple of the live peak (default: 4x)")
    listing.add_arguments(parser, COLUMNS, "pinned")
    rollups.add_arguments(parser)


class Makers:
    """What made the blocks, by the numbers of the operations (New, Free, Resize) of a trace. key: of
    steve.trace.rollups.key_of; numbers: of the stacks, the threads or, for News, the types of the blocks and how they
    were made.
    """

    def __init__(self, trace: Trace, key: str, quiet: bool) -> None:
        import numpy as np

        from steve.trace._memtrace import FREE, HOW_MASK, NEW, RESIZE, TYPE

        field = key if key in ("thread", "how") else "ref"
        parts = [np.zeros(0, "u4")]
        of_news, of_types = [np.zeros((2, 0), "u8")], [np.zeros((2, 0), "u8")]  # with handles
        operations = 0
        with Progress(NAME, quiet) as progress:
            for batch in trace.batches():
                progress(*trace.progress())
                kinds = batch["kind"]
                of_heap = batch[(kinds == NEW) | (kinds == FREE) | (kinds == RESIZE)]
                found = of_heap[field].astype("u4")
                parts.append(found & HOW_MASK if key == "how" else found)
                if key == "type":
                    made, types = np.flatnonzero(of_heap["kind"] == NEW), batch[kinds == TYPE]
                    of_news.append(np.stack((of_heap["handle"][made], (operations + made).astype("u8"))))
                    of_types.append(np.stack((types["handle"], types["ref"].astype("u8"))))
                operations += len(of_heap)
        self.numbers = np.concatenate(parts)
        if key == "type":
            (handles, numbers), (typed, found) = np.concatenate(of_news, axis=1), np.concatenate(of_types, axis=1)
            self.numbers[:] = 0
            self.numbers[numbers[np.searchsorted(handles, typed)]] = found  # News are in the order of their handles


def write_ops(args: argparse.Namespace, path: str) -> None:
    """Translate the memtrace, with resizes as such, so that each operation is one event of the trace."""
    ways = {"resize": True, "threads": False, "times": False, "compat": False, "jobs": 1, "scheduler": None}
    choice = {"where": None, "begin": None, "end": None, "divided": True}
    with Output(path) as out:
        ops.translated(argparse.Namespace(**{**vars(args), **ways, **choice}), out, "binary")


def operations_at(args: argparse.Namespace, replay: Replay, path: str) -> list[str]:
    """The option of steve-replay that says when."""
    if args.at == "worst":
        return []
    found = replay.ask("--peakmem", path, "--json")
    last = found["new"] + found["free"] + found["resize"]
    at = {"peak": found["peak_op"] + 1, "end": last}.get(args.at) or int(args.at)
    if at > last:
        raise UsageError(f"--at {args.at}: the trace has only {last:,} operations (News, Frees and Resizes)")
    return [f"--at={at}"]


def replayed(args: argparse.Namespace, folder: str) -> str:
    """Replay the trace; returns the path of the file with the places."""
    from steve.allocstats.replay import Replay

    path, places = os.path.join(folder, "trace-ops"), os.path.join(folder, "places")
    write_ops(args, path)
    replay = Replay()
    heap = [f"--heap={args.heap}"] if args.heap else []
    allocator = os.path.abspath(args.allocator) if os.sep in args.allocator else args.allocator
    moment_option = operations_at(args, replay, path)
    outcome = replay.run("-a", allocator, "--places", path, "-o", places, "-q", *heap, *moment_option)
    if outcome.status != 0:
        raise SteveError(f"{args.file}: {outcome.message or f'steve-replay ended with status {outcome.status}'}")
    return places


def check_file(path: str) -> None:
    """UsageError if a file cannot be replayed and its sites named."""
    if path == "-" or source.is_pipe(path):
        raise UsageError(f"{path}: is read twice, so it has to be a file")
    if source.holds_operations(path):
        raise UsageError(f"{path}: is an ops file, which has no sites; give the memtrace")


def worst_by(key: str, args: argparse.Namespace) -> rollups.Sums:
    """The rows of steve.allocstats.pins.pinned by stack, type or thread, when the pages of args.allocator have the most
    bytes more than the live blocks on them. args: those of any command that reads a trace."""
    from steve.allocstats import pins

    check_file(args.file)
    with scratch_folder("steve-pins-") as folder:
        places = pins.read(replayed(argparse.Namespace(**vars(args), at="worst", heap=None), folder))
    makers = Makers(source.open_trace(args), key, args.quiet)
    return rollups.Sums(*pins.pinned(places, makers.numbers[places.born.astype("i8")]))


def row_of(found: dict) -> dict:
    return {
        "blocks": found["blocks"],
        "bytes": found["bytes"],
        "pages": found["pages"],
        "pinned": round(found["pinned"]),
        "times": round(found["pinned"] / found["bytes"], 2) if found["bytes"] else None,
        "ended": round(found["ended"]),
        "ended_lifetime": blocks.mean(found["lived"], found["ended"]) if found["ended"] >= 0.5 else None,
    }


def run(args: argparse.Namespace) -> int:
    from steve.allocstats import pins
    from steve.trace.places import Places

    listing.check(args, COLUMNS)
    check_file(args.file)
    with scratch_folder("steve-pins-") as folder:
        places = pins.read(replayed(args, folder))
    trace = source.open_trace(args)
    makers = Makers(trace, rollups.key_of(args.by), args.quiet)
    rollup = rollups.of_arguments(args, Places(trace, policy.of_arguments(args)))
    keys = makers.numbers[places.born.astype("i8")]
    numbers, rows = pins.pinned(places, rollup.numbers(keys) if len(keys) else keys)
    title = (
        f"{trace.name}: sites that keep pages in use; {args.allocator} after {places.operations:,} of "
        f"{len(makers.numbers):,} operations: {human_bytes(pins.PAGE * len(places.page))} of pages for "
        f"{human_bytes(int(places.size.sum()))} of blocks"
    )
    found = rollups.SummedRows(rollup, rollups.Sums(numbers, rows), row_of)
    listing.write_ranked(args, title, found.ranked(args.sort), rollups.headed(COLUMNS, args.by))
    return source.verdict(NAME, trace)
