"""steve compare: measure allocators on one program repeatedly, and rank them where a difference is certain.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from steve.allocstats.compare import COUNTS, HARDWARE, LATENCIES, SPACES, TOGETHER, Comparison, Entry, compare
from steve.allocstats.medians import Median, Places, rounds_needed
from steve.allocstats.replay import Driver, Replay, choose, left_out
from steve.allocstats.runner import Failure, heap_bytes
from steve.allocstats.throughput import Curve, Throughput, throughput
from steve.plots.comparison import draw_comparison
from steve.plots.style import FORMATS, parse_formats, stem_of
from steve.plots.throughput import draw_throughput
from steve.system.errors import SteveError, UsageError
from steve.system.messages import note
from steve.terminal import arguments
from steve.terminal.aligned import aligned
from steve.terminal.durations import seconds_of
from steve.terminal.progress import Progress
from steve.terminal.units import human_bytes, human_count, human_ns
from steve.tune.options import find_tables
from steve.tune.program import C_LIBRARY, Program, is_too_short, recorded_program, unseen_returns

NAME = "compare"
HELP = "rank allocators on an ops file by repeated measurements, with intervals"
STARTS_ALLOCATORS = True
ROUNDS = 11  # at least, unless the user asks for fewer
EXAMPLES = """\
Every allocator is measured once in each round, in fresh processes and in random order. The table has medians over the
rounds with 95% intervals (bootstrap). All allocators have a heap of the same size. OPS-compare.png shows time against
space, the frontier, and the latencies of single operations.

columns of the table:
  place     2-4: two allocators are certainly faster, and all but four certainly slower; equal ranges are ties. A
            difference is certain if it does not vanish in the interval of the differences within the rounds, and if
            the rounds are so many that chance alone does not give it the same sign in all (11 for ten allocators)
  time      CPU time of an operation in a replay without single timings, without what the replay itself costs. It
            includes a write to each page of new blocks, so the page faults that a program would have
  p50 to max  times of single operations; `<10 ns`: less than the step of the clock
  resident  most bytes in pages of the heap that were touched; space: its place in order of these, with ? if the order
            in the program is not known, which a line below the table explains. Static data of an allocator's library
            are not counted: 1.6 MiB for tcmalloc, little for others; `steve tune` counts them
  at end    resident after the last operation; "up to": the replay was too short for what is returned after some time
  mapped    bytes obtained from the system when most were resident; less than resident if pages were left that are still
            in memory. `optimal` counts live bytes only and has no memory: 0 B
  inside    percent of the most resident bytes that are in blocks beyond the requested sizes (internal fragmentation)
  headers   percent of them that are headers of blocks
  outside   percent of them in pages between blocks: free chunks, tables, headers that the allocator does not tell.
            mapped, inside, headers and outside are of the moment when most bytes are resident, which is another one
            for each allocator: other blocks may be live then
  faults    page faults, including those of the writes to new blocks
  mem.calls  calls of mmap, munmap, mremap, madvise and brk for the heap; other system calls are not counted

The lines below the table name the allocators on the frontier, and those that are certainly better than the one on which
the program ran, with the time that they take. What part of the program's time that is, is of its CPU time, if the
memtrace has samples of its stacks (ljtrace run --sample-stacks), else of the elapsed time. The program is known if the
memtrace APP.ljt, from which APP.ljt-ops or APP-ops was made, is beside it; else its allocator counts as glibc. A
replay takes less time than the program did. It has one thread, unless --threads is given: an allocator with arenas or
caches for each thread takes more memory in a program with threads, whose threads `steve tune` replays. What an
allocator returns after some time (jemalloc after ten seconds) is seen with --duration only: the replay that measures
memory then takes as long. That is in each round, for four allocators at a time.

`steve-replay --list` says which are libraries and which are references. A program tries a library without a change:
LD_PRELOAD=libjemalloc.so.2 PROGRAM (Debian 12: package libjemalloc2). It has no effect on an executable that contains
malloc. `steve-replay --list` has the library of each allocator that can be tried so. If others were measured, too, a
line says which ones these are. To choose among them: --allocator glibc,jemalloc,mimalloc,tcmalloc,tbbmalloc.

With --threads=1,2,4 the threads of OPS (steve ops --threads) are replayed on so many real ones instead, and the table
and the figure OPS-threads.png show operations in a second. Operations on one block keep their order. columns: remote,
frees by another thread than that which allocated, by operations; waited, share of the threads' time for operations of
others on the same block; locked, for the lock that the replay holds if an allocator supports no threads.

examples:
  steve compare app-ops --threads 1,2,4,8 --allocator null,glibc,jemalloc,mimalloc
  steve compare app.ljt-ops
  steve compare app.ljt-ops --allocator glibc,jemalloc,mimalloc --rounds 21 -o why.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.reads(parser.add_argument("ops", metavar="OPS", help="ops or lockops file"), arguments.OPS)
    parser.add_argument("--allocator", metavar="A,B|all", default="all", help="as for allocstats (default %(default)s)")
    parser.add_argument(
        "--heap",
        metavar="SIZE",
        default="4x",
        help="bytes (K, M, G) or a multiple of the live peak (default %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        help="measurements of each allocator, 5 to 999 (default: 11, or more if it takes more to be certain)",
    )
    parser.add_argument(
        "--seed", metavar="N", default="1", help="seed of the order in the rounds (default %(default)s)"
    )
    parser.add_argument(
        "--threads", metavar="LIST", help="throughput on so many real threads: numbers from 1 to 1024 with commas"
    )
    parser.add_argument(
        "--duration",
        type=seconds_of,
        metavar="TIME",
        help="how long the program takes: replays that measure memory take as long",
    )
    parser.add_argument("--timeout", metavar="SECONDS", help="as for allocstats")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="a folder, or the name of the figure; an ending .png, .svg or .pdf selects the format (default "
        "OPS-compare.png)",
    )
    formats = parser.add_argument(
        "--format", metavar="LIST", help="png, svg, pdf, or several separated by commas (default png)"
    )
    arguments.suggest(formats, FORMATS, are_list=True)
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no table")


def _number(option: str, text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise UsageError(f"{option}: '{text}' is not a number from {low} to {high}")
    return int(text)


def _target(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The name of the figure without its ending, and its formats."""
    default = os.path.basename(args.ops) + ("-threads" if args.threads else "-compare")
    output = args.output
    if output is None:
        stem, ending = os.path.join(os.path.dirname(args.ops), default), None
    elif os.path.isdir(output) or output.endswith("/"):
        stem, ending = os.path.join(output, default), None
    else:
        stem, ending = stem_of(output)
    return stem, parse_formats(args.format) if args.format else [ending or "png"]


# -- the table ---------------------------------------------------------------------------------


def _range(place: tuple[int, int] | None) -> str:
    if place is None:
        return "-"
    return str(place[0]) if place[0] == place[1] else f"{place[0]}-{place[1]}"


def _with_interval(one: Median) -> str:
    return f"{one.value:.1f} [{one.low:.1f}, {one.high:.1f}] ns"


def _latency(one: Median | None, step: float) -> str:
    if one is None:
        return "-"
    return f"<{human_ns(step)}" if one.value < step - 0.5 else human_ns(one.value)


def _bytes(one: Median | None) -> str:
    return "-" if one is None else human_bytes(one.value)


def _shares(entry: Entry) -> list[str]:
    """Percent of the resident bytes inside of blocks beyond their sizes, in headers, and outside of blocks."""
    resident, used, usable, headers = (entry.median(key) for key in ("resident", "used", "usable", "headers"))
    if resident is None or used is None or not resident.value:
        return ["-"] * 3
    inside = usable.value - used.value if usable else None
    of_headers = headers.value if headers else None
    rest = resident.value - used.value - (inside or 0) - (of_headers or 0)
    return ["-" if n is None else f"{100 * n / resident.value:.1f}%" for n in (inside, of_headers, max(rest, 0))]


def _count(one: Median | None) -> str:
    return "-" if one is None else f"{one.value:,.0f}"


def _row(entry: Entry, result: Comparison, time: Places, space: Places, is_bound: bool, is_sure: bool) -> list[str]:
    """is_bound: may the allocator return some of what it has at the end after a time that the replay did not last? is_sure: is the
    place in space that in the program, too?"""
    return [
        _range(time.place.get(entry.name)),
        entry.name,
        _with_interval(entry.time),
        *(_latency(entry.median(key), result.clock_step) for key in LATENCIES),
        _range(space.place.get(entry.name)) + ("" if is_sure else "?"),
        _bytes(entry.median("resident")),
        f"{'up to ' if is_bound else ''}{_bytes(entry.median('end_resident'))}",
        _bytes(entry.median("mapped")),
        *_shares(entry),
        _count(entry.median("minor_faults")),
        _count(entry.median("memory_calls")),
    ]


HEADINGS = (
    "place",
    "allocator",
    "time [95% interval]",
    "p50",
    "p99",
    "p99.9",
    "max",
    "space",
    "resident",
    "at end",
    "mapped",
    "inside",
    "headers",
    "outside",
    "faults",
    "mem.calls",
)


def _entry(result: Comparison, name: str) -> Entry:
    return next(entry for entry in result.entries if entry.name == name)


def _better(result: Comparison, places: Places, measure: str, reference: str) -> str:
    """The allocators that are certainly better than the reference by "time" or "resident", by how much, and their times."""

    def value(name: str) -> float:
        entry = _entry(result, name)
        return (entry.time if measure == "time" else entry.median(measure)).value  # type: ignore

    names = [name for name in places.order if (name, reference) in places.better]
    return ", ".join(
        f"{name} ({100 * (1 - value(name) / value(reference)):.1f}% less, at {_entry(result, name).time.value:.1f} ns per "
        "operation)"
        for name in names
    ) or ("not known" if _of_few_rounds(result) else "none")


def _reference(result: Comparison, program: Program) -> str:
    """With what the others are compared: the allocator on which the program ran, if it was measured and is known."""
    measured = [entry.name for entry in result.real]
    return program.allocator if program.allocator in measured else C_LIBRARY


def _against_reference(
    result: Comparison, program: Program, time: Places, space: Places, unseen: list[str]
) -> list[str]:
    """The lines about the program's allocator, and those that are certainly better; the latter only if it was measured.
    unseen: the allocators that may return memory after a time that the replay did not last."""
    reference = _reference(result, program)
    if reference not in time.order:
        return [program.described("")] if program.allocator else []
    lines = [program.described(reference)]
    if len(time.order) > 1:
        lines.append(
            f"certainly faster than {reference}, which takes {_entry(result, reference).time.value:.1f} ns per operation: "
            f"{_better(result, time, 'time', reference)}; certainly less memory at the peak of this replay: "
            f"{_less_memory(result, program, space, unseen)}"
        )
    return lines


def _unseen(result: Comparison, program: Program, later: list[str], duration: float | None) -> list[str]:
    """The allocators that may return memory after a time that the replay did not last. later: those that return some later."""
    is_short = duration is None and is_too_short(program.seconds, _replay_seconds(result, program))
    return [entry.name for entry in result.entries if is_short and entry.name in later]


def _doubt(result: Comparison, program: Program, unseen: Sequence[str]) -> str:
    """Why it is not known which allocators need less memory than the reference; "" if nothing says so. What a replay is too
    short for makes memory larger in it than in the program, so that nothing is less than that of an unseen reference.
    """
    reference = _reference(result, program)
    if program.returning and reference == program.allocator:
        return f"not known, since the program may return some by {program.returning}, which no replay does"
    if reference in unseen:
        return f"not known, since {reference} may return some while the program runs, which is not seen"
    return ""


def _less_memory(result: Comparison, program: Program, space: Places, unseen: list[str]) -> str:
    """The allocators that certainly need less memory than the reference, and what is not known of that."""
    reference = _reference(result, program)
    if doubt := _doubt(result, program, unseen):
        return doubt
    return _better(result, space, "resident", reference) + (
        "; which has less at the end is not known, see below" if unseen else ""
    )


def _of_the_reference(result: Comparison, program: Program) -> Entry:
    """The entry of the reference; the first one if it was not measured."""
    reference = _reference(result, program)
    return next((one for one in result.entries if one.name == reference), result.entries[0])


def _replay_seconds(result: Comparison, program: Program) -> float:
    """How long a replay on the reference took."""
    return _of_the_reference(result, program).median("wall_ns").value / 1e9  # type: ignore


def _in_the_program(
    result: Comparison, program: Program, time: Places, space: Places, later: list[str], duration: float | None
) -> list[str]:
    """The lines that relate the replay to the program's time, if that is known: of the reference, and of those that are
    certainly better than it. later: the names of allocators that return memory after some time."""
    reference = _reference(result, program)
    entry = _of_the_reference(result, program)
    better = [name for places in (time, space) for name in places.order if (name, reference) in places.better]
    lines = []
    if program.seconds:
        shown = [entry, *(_entry(result, name) for name in dict.fromkeys(better))]
        costs = [(one.name, max(one.time.value, 0) * one.rounds[0]["operations"]) for one in shown]
        times = ", ".join(f"{name} {human_ns(cost)}" for name, cost in costs)
        lines.append(f"all operations of the program take {times}: {program.parts(cost for _, cost in costs)}")
    if duration is None:
        text = f"{math.ceil(program.seconds)}s" if program.seconds else "TIME"
        way = f"--duration={text} replays it in this time"
        names = [one.name for one in result.entries if one.name in later]
        lines += unseen_returns(names, program.seconds, _replay_seconds(result, program), way)
    return lines


def _of_few_rounds(result: Comparison) -> list[str]:
    """The line that says that there are too few rounds."""
    count = len(result.real)
    if count < 2 or result.rounds >= rounds_needed(count):
        return []
    return [
        f"{result.rounds} rounds are too few to be certain of a difference between {count} allocators; it takes "
        f"{rounds_needed(count)}"
    ]


def _to_preload(result: Comparison, drivers: list[Driver], program: Program) -> list[str]:
    """The line that says which of the allocators a program can be started with; none if that is all of them."""
    names = [entry.name for entry in result.entries]
    with_library = {driver.name for driver in drivers if driver.library}
    if program.is_within or not set(names) - {C_LIBRARY, *with_library}:
        return []
    found = ", ".join(sorted(name for name in names if name in with_library))
    others = "all others" if C_LIBRARY not in names else f"all others but {C_LIBRARY}"
    return [
        f"a program can be started with {found or 'none of these'} (LD_PRELOAD: see `steve help compare`); {others} are for "
        "comparison only"
    ]


def _table(
    result: Comparison, drivers: list[Driver], program: Program, later: list[str], duration: float | None
) -> str:
    time, space = result.places("time"), result.places("resident")
    unseen = _unseen(result, program, later, duration)
    is_sure = not _doubt(result, program, unseen)
    of_replay = "" if is_sure else " (in this replay; in the program, the order of space is not known)"
    rows = [
        _row(entry, result, time, space, entry.name in unseen, is_sure)
        for entry in sorted(result.entries, key=lambda e: e.time.value)
    ]
    left_out = sum(sum(entry.values("left_out") or []) for entry in result.entries)
    lines = [
        aligned([list(HEADINGS), *rows]),
        f"heap {human_bytes(result.heap)} for all, live peak {human_bytes(result.live_peak)}; {result.rounds} rounds; "
        f"taken off for the replay itself: {_with_interval(result.null_ns)} per operation",
        f"the clock's step is {human_ns(result.clock_step)} and its reading, which is taken off, takes "
        f"{human_ns(result.clock_cost)}; {left_out:,.0f} single timings were left out because the thread was preempted",
        f"the frontier of time and space: {', '.join(entry.name for entry in result.frontier())}{of_replay}",
        *_against_reference(result, program, time, space, unseen),
        *_in_the_program(result, program, time, space, later, duration),
        *filter(None, [program.remark_on_others(), program.remark_on_asked()]),
        *_of_few_rounds(result),
        *_to_preload(result, drivers, program),
    ]
    missing = result.without_hardware()
    if missing:
        lines.append(f"this machine does not give counters of {', '.join(missing)}".replace("_", " "))
    return "\n".join(lines)


# -- JSON --------------------------------------------------------------------------------------


def _list(one: Median | None) -> list[float] | None:
    return None if one is None else one.as_list()


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    keys = (*LATENCIES, *SPACES, *COUNTS, *HARDWARE)
    return {
        "allocator": entry.name,
        "time_ns": entry.time.as_list(),
        **{key: _list(entry.median(key)) for key in keys},
        "rounds": entry.rounds,
    }


def _places_as_json(places: Places) -> dict[str, Any]:
    return {
        "order": places.order,
        "places": {name: list(place) for name, place in places.place.items()},
        "certain": [list(pair) for pair in places.better],
    }


def _as_json(
    result: Comparison,
    figures: list[str],
    skipped: list[Driver],
    program: Program = Program(),
    unseen: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "opsfile": result.ops,
        "program": program.as_dict(),
        "reference": _reference(result, program),
        "heap": result.heap,
        "live_peak": result.live_peak,
        "rounds": result.rounds,
        "null_time_ns": result.null_ns.as_list(),
        "clock_step_ns": result.clock_step,
        "clock_cost_ns": result.clock_cost,
        "results": [_entry_as_json(entry) for entry in result.entries],
        "time": _places_as_json(result.places("time")),
        "space": _places_as_json(result.places("resident")),
        "space_in_program": _doubt(result, program, unseen) or None,
        "frontier": [entry.name for entry in result.frontier()],
        "failed": [{"allocator": f.allocator, "reason": f.reason} for f in result.failures],
        "skipped": [{"allocator": d.name, "reason": d.reason} for d in skipped],
        "figures": figures,
    }


# -- throughput on threads -----------------------------------------------------------------------


def _throughput_table(result: Throughput) -> str:
    most = result.threads[-1]

    def cell(curve: Curve, count: int) -> str:
        rate = curve.rate(count)
        return f"{human_count(rate.value)} [{human_count(rate.low)}, {human_count(rate.high)}]"

    head = ["allocator", *(f"{count} thr." for count in result.threads), "remote", "waited", "locked"]
    rows = [
        [
            curve.name,
            *(cell(curve, count) for count in result.threads),
            f"{100 * curve.remote(most):.1f}%",
            f"{100 * curve.share(most, 'waited_ns'):.1f}%",
            f"{100 * curve.share(most, 'lock_waited_ns'):.1f}%",
        ]
        for curve in sorted(result.curves, key=lambda one: -one.rate(most).value)
    ]
    return aligned([head, *rows]) + (
        f"\noperations in a second, medians of {result.rounds} rounds with 95% intervals; remote, waited and locked "
        f"with {most} threads; OPS has {result.threads_of_file}"
    )


def _throughput_as_json(result: Throughput, figures: list[str], skipped: list[Driver]) -> dict[str, Any]:
    return {
        "opsfile": result.ops,
        "rounds": result.rounds,
        "threads": result.threads,
        "threads_of_file": result.threads_of_file,
        "results": [
            {
                "allocator": curve.name,
                "rates": {str(count): curve.rate(count).as_list() for count in result.threads},
                "rounds": {str(count): curve.rounds[count] for count in result.threads},
            }
            for curve in result.curves
        ],
        "failed": [{"allocator": f.allocator, "reason": f.reason} for f in result.failures],
        "skipped": [{"allocator": d.name, "reason": d.reason} for d in skipped],
        "figures": figures,
    }


def _workers(text: str) -> list[int]:
    return sorted({_number("--threads", part.strip(), 1, 1024) for part in text.split(",")})


def _report(args: argparse.Namespace, figures: list[str], failures: list[Failure], skipped: list[Driver]) -> int:
    """Print the problems and the names of the figures; return the exit status."""
    if skipped:
        note(NAME, left_out(skipped), args.quiet)
    for failure in failures:
        note(NAME, f"{'no result of' if failure.gave_up else 'failed'} {failure.allocator}: {failure.reason}")
    for path in figures:
        note(NAME, f"wrote {path}", args.quiet)
    return 1 if any(not failure.gave_up for failure in failures) else 0


def _with_forecast(
    args: argparse.Namespace, progress: Callable[[int, int], None], drivers: int, rounds: int
) -> Callable[[int, int], None]:
    """The progress, and after the first round a note of how long all rounds take: replays do not keep their pace on a busy
    machine, and their times are measured before."""
    begun = time.monotonic()

    def tick(done: int, total: int) -> None:
        nonlocal begun
        progress(done, total)
        if done == drivers:  # the heap is known
            begun = time.monotonic()
        elif begun and done > drivers:
            left = (rounds - 1) * (time.monotonic() - begun)
            begun = 0.0
            note(NAME, f"after the first of {rounds} rounds: about {human_ns(1e9 * left)} left", args.quiet)

    return tick


def run(args: argparse.Namespace) -> int:
    """Exit status 0, or 1 if an allocator failed for another reason than running out of memory."""
    rounds = None if args.rounds is None else _number("--rounds", args.rounds, 5, 999)
    seed = _number("--seed", args.seed, 0, 2**63)
    options = () if args.timeout is None else (f"--timeout={_number('--timeout', args.timeout, 0, 10**6)}",)
    stem, formats = _target(args)
    if args.threads and args.duration:
        raise UsageError("--threads measures no memory: it has no --duration")
    replay = Replay()
    drivers, skipped = choose(args.allocator, replay.drivers())
    if not os.path.exists(args.ops):
        raise SteveError(f"{args.ops}: no such file; `steve ops` makes one from a trace")
    peak = replay.live_peak(args.ops)
    if peak == 0:
        raise SteveError(f"{args.ops}: allocates nothing; there is nothing to replay")
    heap = heap_bytes(args.heap, peak)
    with Progress("compare", args.quiet, "measurements") as progress:
        if args.threads:
            workers = _workers(args.threads)
            options += (f"--heap={max([heap, *(driver.least_heap for driver in drivers)])}",)
            curves = throughput(replay, args.ops, drivers, workers, rounds or ROUNDS, seed, options, progress)
        else:
            rounds = rounds or max(ROUNDS, rounds_needed(len(drivers)))
            if args.duration:
                turns = rounds * math.ceil(len(drivers) / TOGETHER)
                note(
                    NAME,
                    f"this takes {human_ns(1e9 * turns * args.duration)} at least: {rounds * len(drivers)} replays of "
                    f"{args.duration:g} s, {TOGETHER} at a time",
                    args.quiet,
                )
            tick = _with_forecast(args, progress, len(drivers), rounds) if args.duration else progress
            result = compare(replay, args.ops, drivers, heap, rounds, seed, options, tick, args.duration)
    if args.threads:
        figures, failures = draw_throughput(curves, stem, formats), curves.failures
        answer, table = _throughput_as_json(curves, figures, skipped), _throughput_table(curves)
    else:
        figures, failures = draw_comparison(result, stem, formats), result.failures
        program = recorded_program(args.ops, {driver.name: driver.library for driver in drivers})
        later = [table.name for table in find_tables(replay.ask("--list", "--json")) if table.returns_later]
        answer = _as_json(result, figures, skipped, program, _unseen(result, program, later, args.duration))
        table = _table(result, drivers, program, later, args.duration)
    if args.json:
        print(json.dumps(answer, indent=2, allow_nan=False))
    elif not args.quiet:
        print(table)
    return _report(args, figures, failures, skipped)
