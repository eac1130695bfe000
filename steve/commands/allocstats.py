"""steve allocstats: replay an ops file on real allocators and tabulate the memory and time of each.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

from steve.allocstats.minheap import LeastHeap, min_heaps
from steve.allocstats.replay import Driver, Replay, choose, left_out
from steve.allocstats.result import Summary
from steve.allocstats.runner import Failure, Plan, heap_bytes, run_all
from steve.system.errors import SteveError, UsageError
from steve.terminal.aligned import aligned
from steve.terminal.units import human_bytes, human_ns, human_ns_or_less
from steve.system.messages import note
from steve.terminal import arguments
from steve.terminal.progress import Progress

NAME = "allocstats"
DEFAULT_HEAP = "4x"
HELP = "replay an ops file on real allocators: memory and time of each"
STARTS_ALLOCATORS = True
EXAMPLES = """\
Each result is written to <ops>-<driver>-kill<K>-allocstats, in the folder of OPS or that of -o: a text file with
`key = value` lines and one record for each data point. Times are in nanoseconds. All allocators get a heap of the
same size. The first size is that of --heap, or the least in which all of them can start, if that is more. If an
allocator runs out of memory, it is tried with 5% more, and again 5% more, up to 10 times the first size; then all
allocators run again with the largest size that any of them needed. An allocator that needs still more is given up.
Exit status 1: an allocator failed for another reason than running out of memory, or none gave a result.

columns of the table:
  peak used   most bytes live at once, as the program requested them
  highest     most bytes from the start of the heap to the highest address in use
  committed, resident
              most bytes obtained from the system, and most bytes in pages that were touched
  frag. mapped, frag. resident
              fragmentation: how much the mapped bytes exceed the live bytes, averaged over the bytes
              allocated, and how much the resident bytes exceed them, at the data points
  mean        mean time of an operation; the operations between two data points are timed together
  median      median time of a single operation; `<10 ns`: less than the resolution of the clock
  least maxmem  the largest block that could still be allocated, at the data point where that was least

environment: ALLOCATOR, CORES and KILLPERCENT are the defaults of --allocator, --cores and --killpercent;
STEVE_REPLAY names the replay program if it is not steve-replay on PATH.

examples:
  steve allocstats app.ljt-ops
  steve allocstats app.ljt-ops --allocator jemalloc,mimalloc --heap 64M -o results
  steve allocstats app.ljt-ops --min-heap
"""


def _environment(name: str, default: str) -> str:
    """An environment variable; the default if it is unset or empty."""
    return os.environ.get(name) or default


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.reads(parser.add_argument("ops", metavar="OPS", help="ops or lockops file"), arguments.OPS)
    parser.add_argument(
        "--allocator",
        metavar="A,B|all",
        default=_environment("ALLOCATOR", "all"),
        help="names, paths of driver .so files or of plot_NAME, or all, without example_user (default %(default)s)",
    )
    parser.add_argument(
        "--heap",
        metavar="SIZE",
        help="bytes (K, M, G) or a multiple of the live peak (default 4x)",
    )
    parser.add_argument(
        "--min-heap",
        action="store_true",
        help="only find the smallest heap in which each allocator completes; no result files",
    )
    parser.add_argument(
        "--points", metavar="N", default="3000", help="greatest number of data points (default %(default)s)"
    )
    parser.add_argument(
        "--killpercent",
        metavar="K",
        default=_environment("KILLPERCENT", "0"),
        help="after the last operation free K%% of the live blocks and start over, until out of "
        "memory; 0 and 100000: a single pass (default %(default)s)",
    )
    parser.add_argument("--seed", metavar="N", help="seed of the random choice of these blocks")
    parser.add_argument(
        "--threads",
        choices=("merge", "replay"),
        default="merge",
        help="merge: all operations in one thread; replay: additionally on real threads, from a file made by "
        "`steve ops --threads` (default %(default)s)",
    )
    parser.add_argument(
        "--passes", metavar="N", help="timed runs of each allocator; the medians are reported (default 3)"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        help="stop an allocator that makes no progress for this long (default 60, 0: never)",
    )
    parser.add_argument(
        "--cores",
        metavar="N",
        default=_environment("CORES", "1"),
        help="number of allocators run at once; more than 1 makes times less accurate (default %(default)s)",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for the results (default: that of OPS)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no table")


def _number(option: str, text: str | None, low: int, high: int) -> int:
    try:
        value = int(text or "")
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a whole number") from None
    if not low <= value <= high:
        raise UsageError(f"{option}: {value} is not in {low} to {high}")
    return value


def _killpercent(text: str) -> int:
    value = _number("--killpercent", text, 0, 100000)
    if 100 < value < 100000:
        raise UsageError(f"--killpercent: {value} is not a percentage")
    return 0 if value == 100000 else value


def _folder(args: argparse.Namespace) -> str:
    folder = os.path.abspath(args.output or os.path.dirname(os.path.abspath(args.ops)))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise SteveError(f"{folder}: cannot make this folder: {error.strerror}; name another with -o") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SteveError(f"{folder}: folder is not writable; name another with -o")
    return folder


def _options(args: argparse.Namespace) -> tuple[str, ...]:
    """The options that are passed to steve-replay unchanged, after a check of their values."""
    limits = {"--passes": (args.passes, 1, 99), "--timeout": (args.timeout, 0, 10**6)}
    return tuple(
        f"{name}={_number(name, text, low, high)}" for name, (text, low, high) in limits.items() if text is not None
    )


def _check_ops(ops: str) -> None:
    if ops == "-":
        raise UsageError("OPS is read several times, so it cannot be standard input")
    if not os.path.exists(ops):
        raise SteveError(f"{ops}: no such file; `steve ops` makes one from a trace")


def _plan(args: argparse.Namespace, replay: Replay) -> Plan:
    _check_ops(args.ops)
    folder = _folder(args)
    peak = replay.live_peak(args.ops)
    if peak == 0:
        raise SteveError(f"{args.ops}: allocates nothing; there is nothing to replay")
    return Plan(
        args.ops,
        folder,
        heap_bytes(args.heap or DEFAULT_HEAP, peak),
        _number("--points", args.points, 1, 10**7),
        _killpercent(args.killpercent),
        None if args.seed is None else _number("--seed", args.seed, 0, 2**63),
        args.threads == "replay",
        _options(args),
    )


def _cell(value: int | None) -> str:
    return "-" if value is None else human_bytes(value)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}%"


def _table(results: list[Summary]) -> str:
    head = [
        "allocator",
        "heap",
        "peak used",
        "highest",
        "committed",
        "resident",
        "frag. mapped",
        "frag. resident",
        "mean",
        "median",
        "least maxmem",
    ]
    rows = [
        [
            r.allocator,
            _cell(r.heap),
            _cell(r.peak_used),
            _cell(r.highest),
            _cell(r.committed),
            _cell(r.resident),
            _percent(r.fragmentation),
            _percent(r.fragmentation_resident),
            human_ns(r.mean_ns),
            human_ns_or_less(r.median_ns, r.median_below_step, r.clock_step),
            _cell(r.smallest_maxmem),
        ]
        for r in results
    ]
    return aligned([head, *rows])


def _as_json(plan: Plan, results: list[Summary], failures: list[Failure], skipped: list[Driver]) -> dict[str, Any]:
    return {
        "opsfile": plan.ops,
        "heap_at_start": plan.heap,
        "killpercent": plan.killpercent,
        "results": [result.as_dict() for result in results],
        "failed": [{"allocator": f.allocator, "reason": f.reason} for f in failures if not f.gave_up],
        "given_up": [{"allocator": f.allocator, "reason": f.reason} for f in failures if f.gave_up],
        "skipped": [{"allocator": d.name, "reason": d.reason} for d in skipped],
    }


def _report_problems(args: argparse.Namespace, failures: list[Failure], skipped: list[Driver]) -> None:
    if skipped:
        note(NAME, left_out(skipped), args.quiet)
    for failure in failures:
        note(NAME, f"{'no result of' if failure.gave_up else 'failed'} {failure.allocator}: {failure.reason}")


def _status(results: Sequence[object], failures: list[Failure]) -> int:
    return 1 if not results or any(not failure.gave_up for failure in failures) else 0


def _report(args: argparse.Namespace, plan: Plan, outcomes: list[Summary | Failure], skipped: list[Driver]) -> int:
    """Print the results of replays and the problems; return the exit status."""
    results = [o for o in outcomes if isinstance(o, Summary)]
    failures = [o for o in outcomes if isinstance(o, Failure)]
    if args.json:
        print(json.dumps(_as_json(plan, results, failures, skipped), indent=2, allow_nan=False))
    elif not args.quiet and results:
        print(
            _table(results) + f"\nresults: {os.path.join(plan.folder, os.path.basename(plan.ops))}"
            f"-*-kill{plan.killpercent}-allocstats"
        )
    _report_problems(args, failures, skipped)
    return _status(results, failures)


def _heap_table(found: list[LeastHeap]) -> str:
    head = ["allocator", "smallest heap", "bytes", "of the live peak", "trials"]
    rows = [
        [r.allocator, human_bytes(r.min_heap), str(r.min_heap), f"{100 * r.factor:.1f}%", str(r.trials)]
        for r in sorted(found, key=lambda r: r.min_heap)
    ]
    peak = human_bytes(found[0].live_peak)
    return aligned([head, *rows]) + f"\nthe live peak is {peak}"


def _report_heaps(args: argparse.Namespace, outcomes: list[LeastHeap | Failure], skipped: list[Driver]) -> int:
    """Print the smallest heaps and the problems; return the exit status."""
    found = [o for o in outcomes if isinstance(o, LeastHeap)]
    failures = [o for o in outcomes if isinstance(o, Failure)]
    if args.json:
        answer = {
            "opsfile": args.ops,
            "results": [one.as_dict() for one in found],
            "failed": [{"allocator": f.allocator, "reason": f.reason} for f in failures],
            "skipped": [{"allocator": d.name, "reason": d.reason} for d in skipped],
        }
        print(json.dumps(answer, indent=2, allow_nan=False))
    elif not args.quiet and found:
        print(_heap_table(found))
    _report_problems(args, failures, skipped)
    return _status(found, failures)


def _run_min_heap(
    args: argparse.Namespace, replay: Replay, drivers: list[Driver], skipped: list[Driver], cores: int
) -> int:
    given = [args.heap, args.output, args.seed, args.passes, _killpercent(args.killpercent) or None]
    if any(value is not None for value in given) or args.threads == "replay":
        raise UsageError(
            "--min-heap replays one pass in one thread and writes no results: no --heap, -o, "
            "--killpercent, --seed, --passes or --threads=replay"
        )
    _check_ops(args.ops)
    with Progress("smallest heaps", args.quiet, "allocators") as progress:
        outcomes = min_heaps(replay, args.ops, _options(args), drivers, cores, progress)
    return _report_heaps(args, outcomes, skipped)


def run(args: argparse.Namespace) -> int:
    """Exit status 0, or 1 if an allocator failed for another reason than running out of memory, or if none gave a
    result."""
    cores = _number("--cores", args.cores, 1, 1024)
    replay = Replay()
    drivers, skipped = choose(args.allocator, replay.drivers())
    if not drivers:
        raise SteveError("no allocator can be used here: " + "; ".join(f"{d.name}: {d.reason}" for d in skipped))
    if args.min_heap:
        return _run_min_heap(args, replay, drivers, skipped, cores)
    plan = _plan(args, replay)
    with Progress("replay", args.quiet, "allocators") as progress:
        outcomes = run_all(replay, plan, drivers, cores, progress)
    return _report(args, plan, outcomes, skipped)
