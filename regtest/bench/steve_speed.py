#!/usr/bin/env python3
"""How fast steve is: each command on growing traces, against plain Python, and its memory.

    ./in-place python3 regtest/bench/steve_speed.py [--tables LIST] [--events N] [--small] [--program NAME]
        [--json FILE]

User CPU time, that of starting steve subtracted, so that a loaded machine gives nearly the same. Four
tables: `programs`, the commands that read most on traces of the benchmark's programs (recorded.py; --small: on
less of them); `speed`, millions of events a second on traces of N/10 and N events (default 40 million), and by
how much the time for an event grew (1.00 = linear); `python`, the plain Python references of the tests on a
trace of 20,000 events, in the same run, and how many times faster steve is; `memory`, the most memory at 1,000
and at 1,000,000 live blocks.

Nothing here passes or fails: the numbers are for people.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import recorded

ROOT = Path(__file__).resolve().parents[2]
MKLOAD = Path(os.environ.get("LJTRACE_BUILDDIR", "")) / "steve" / "test" / "mkload"
NOWHERE = ["-o", "/dev/null"]
COMMANDS: Dict[str, List[str]] = {
    "summary": ["summary"],
    "ops --binary": ["ops", "--binary", *NOWHERE],
    "ops": ["ops", *NOWHERE],
    "memtrace": ["memtrace", *NOWHERE],
    "lockops --full": ["lockops", "--full", "--binary", *NOWHERE],
    "lockops --stack": ["lockops", "--stack", "--binary", *NOWHERE],
    "lockops --simple": ["lockops", "--simple", "--binary", *NOWHERE],
    "sites": ["sites"],
    "lines": ["lines"],
    "findings": ["findings"],
    "lifetimes": ["lifetimes"],
    "heat": ["heat"],
    "workingset": ["workingset"],
    "reuse": ["reuse"],
    "sharing": ["sharing"],
    "fields": ["fields"],
    "check": ["check"],
    "report": ["report", "--json"],
    "types": ["types"],
    "states": ["states"],
    "threads": ["threads"],
    "resident": ["resident"],
    "map": ["map", "--json"],
    "leaks": ["leaks"],
    "temporaries": ["temporaries"],
    "resizes": ["resizes"],
    "globals": ["globals"],
    **{
        f"export {name}": ["export", "--format", name, *NOWHERE]
        for name in ("pprof", "speedscope", "dhat", "massif", "heaptrack", "perfetto")
    },
}
# The same from what other commands write; the lines of text are the events, but for a few
FROM_TEXT = {"text: ops": ["ops", "--binary", *NOWHERE], "text: summary": ["summary"]}
FROM_OPS = {"ops: lockops --full": ["lockops", "--full", "--binary", *NOWHERE], "ops: histogram": ["histogram"]}


class Run:
    """A command that was run: user (CPU seconds), rss (bytes, the most)."""

    def __init__(self, *command: object) -> None:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"steve_speed.py: {' '.join(map(str, command))} ended with status {process.returncode}")
        self.user, self.rss = usage.ru_utime, usage.ru_maxrss * 1024


def load(folder: Path, events: int, live: int) -> Path:
    """A trace made by mkload."""
    path = folder / f"{events}-{live}.ljt"
    if not path.exists():
        Run(MKLOAD, path, events, live)
    return path


def converted(trace: Path, command: str, *arguments: str) -> Path:
    """What a command of steve makes of a trace, in a file in the same folder."""
    path = trace.with_suffix(f".{command}")
    if not path.exists():
        Run("steve", command, *arguments, "-q", "-o", path, trace)
    return path


def cases(folder: Path, live: int) -> Dict[str, Tuple[List[str], Callable[[int], Path]]]:
    """What is measured: by name the arguments, and a function from a number of events to the input."""

    def trace(n: int) -> Path:
        return load(folder, n, live)

    found = {name: (arguments, trace) for name, arguments in COMMANDS.items()}
    found["export sqlite"] = ["export", "--format", "sqlite", "-o", str(folder / "blocks.sqlite")], trace
    found.update(
        (name, (arguments, lambda n: converted(trace(n), "memtrace"))) for name, arguments in FROM_TEXT.items()
    )
    found.update(
        (name, (arguments, lambda n: converted(trace(n), "ops", "--binary"))) for name, arguments in FROM_OPS.items()
    )
    return found


def seconds(arguments: List[str], path: Path) -> float:
    """User CPU time of a subcommand: the best of three, for caches and neighbours only add."""
    return min(Run("steve", *arguments, "-q", path).user for _ in range(3))


def speeds(folder: Path, events: int, live: int) -> List[Dict[str, Any]]:
    """One row for each command."""
    rows = []
    for name, (arguments, path_of) in cases(folder, live).items():
        start = seconds(arguments, path_of(100))
        small, large = (max(seconds(arguments, path_of(n)) - start, 1e-3) for n in (events // 10, events))
        rows.append(
            {
                "command": name,
                "tenth": events / 10 / small / 1e6,
                "whole": events / large / 1e6,
                "growth": large / small / 10,
            }
        )
        print("{command:<20}{tenth:>12.1f}{whole:>12.1f}{growth:>12.2f}".format(**rows[-1]), flush=True)
    return rows


def against_python(folder: Path, events: int = 20_000) -> List[Dict[str, Any]]:
    """The references of the tests and the kernels, on the same operations."""
    sys.path.insert(0, str(ROOT / "steve" / "test"))
    import reference
    from steve.kernels import _locks, _ops
    from steve.trace._memtrace import OpsFile, Trace

    path = load(folder, events, 200)
    ops_path = folder / "small-ops"
    Run("steve", "ops", "--text", "-q", "-o", ops_path, path)
    ops = [
        reference.Op(int(words[0]), words[1], int(words[2]), int(words[3]))
        for words in (line.split() for line in ops_path.read_text().splitlines())
    ]
    history = [reference.Event(op.letter, op.addr, op.size) for op in ops]

    def locks(fd: int) -> None:
        _locks.write_lockops_full(OpsFile(str(ops_path)), _locks.Unfreed(OpsFile(str(ops_path))), fd)

    with open(os.devnull, "wb") as null:
        pairs = (
            ("ops", lambda: reference.translate(history), lambda: _ops.write_ops(Trace(str(path)), null.fileno())),
            ("lockops --full", lambda: reference.lockops_full(ops[:3000], False), lambda: locks(null.fileno())),
        )
        return [
            compared(name, slow, 3000 if "full" in name else len(ops), fast, len(ops)) for name, slow, fast in pairs
        ]


def compared(name: str, slow: Any, n_slow: int, fast: Any, n_fast: int) -> Dict[str, Any]:
    """Events a second of two functions, and their ratio."""
    rates = []
    for function, n in ((slow, n_slow), (fast, n_fast)):
        start = time.process_time()
        function()
        rates.append(n / max(time.process_time() - start, 1e-6))
    row = {"command": name, "python": rates[0], "steve": rates[1], "times": rates[1] / rates[0]}
    print("{command:<20}{python:>12,.0f}{steve:>14,.0f}{times:>10,.0f} x".format(**row), flush=True)
    return row


def memory(folder: Path, events: int) -> List[Dict[str, Any]]:
    """The most memory at few and at many live blocks."""
    rows = []
    for name, arguments in COMMANDS.items():
        few, many = (
            Run("steve", *arguments, "-q", load(folder, events, live)).rss / 1e6 for live in (1_000, 1_000_000)
        )
        rows.append({"command": name, "few": few, "many": many})
        print("{command:<20}{few:>12.0f}{many:>12.0f}".format(**rows[-1]), flush=True)
    return rows


def told_programs(folder: Path, args: argparse.Namespace) -> Any:
    return recorded.speeds(folder, args.small, args.program)


def told_speed(folder: Path, args: argparse.Namespace) -> Any:
    print(f"{'M events/s':<20}{args.events // 10:>12,}{args.events:>12,}{'growth':>12}")
    return speeds(folder, args.events, 10_000)


def told_python(folder: Path, args: argparse.Namespace) -> Any:
    print(f"{'events/s':<20}{'Python':>12}{'steve':>14}")
    return against_python(folder)


def told_memory(folder: Path, args: argparse.Namespace) -> Any:
    print(f"{'MB':<20}{'1,000 live':>12}{'1,000,000':>12}")
    return memory(folder, max(args.events // 4, 2_000_000))


TABLES = {"programs": told_programs, "speed": told_speed, "python": told_python, "memory": told_memory}


def table_names(text: str) -> List[str]:
    """The argument of --tables."""
    names = text.split(",")
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no table '{unknown[0]}'; there are: {', '.join(TABLES)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--tables",
        metavar="LIST",
        type=table_names,
        default=list(TABLES),
        help=f"which, with commas between (default: {','.join(TABLES)})",
    )
    parser.add_argument("--events", type=int, default=40_000_000, help="of the largest trace that is made up")
    parser.add_argument("--small", action="store_true", help="programs do a small part of what they else do")
    parser.add_argument("--program", metavar="NAME", action="append", default=[], help="only this one; again for more")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE too")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    result: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for table in args.tables:
            result[table] = TABLES[table](Path(name), args)
            print(flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
