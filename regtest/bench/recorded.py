"""recorded - how fast steve is on traces of the benchmark's programs, which differ by more than two times.

Each program (programs.py) is recorded once, with all accesses, and converted to ops once; then every command
reads that. User CPU time, the best of three runs, minus that of the same command on the trace of a program that
does nothing: the rest is for events. A trace with so few events that starting is most of the time is left out,
with a message. The speed of recording is measured by `run`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

from programs import Program, all_programs
from table import geometric_mean

FEWEST = {False: 10_000_000, True: 1_000_000}  # events; by: is it a small run?
SHORTEST = 0.02  # shorter times are not meaningful
EVENTS = ("new", "free", "resize", "load", "store", "modify")
NOWHERE = ("--binary", "-o", os.devnull)
# title -> what it reads, the arguments
COMMANDS: Dict[str, Tuple[str, Tuple[str, ...]]] = {
    "summary": ("ljt", ("summary",)),
    "ops": ("ljt", ("ops", *NOWHERE)),
    "findings": ("ljt", ("findings",)),
    "lines": ("ljt", ("lines",)),
    "sites": ("ljt", ("sites",)),
    "lockops": ("ljt", ("lockops", "--full", *NOWHERE)),
    "from ops": ("ops", ("lockops", "--full", *NOWHERE)),
}


def steve(*arguments: str) -> float:
    """Run it; user CPU seconds."""
    process = subprocess.Popen(["steve", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: steve {' '.join(arguments)} ended with status {process.returncode}")
    return usage.ru_utime


def seconds(arguments: Tuple[str, ...], path: Path) -> float:
    """The best of three, for caches and neighbours only add."""
    return min(steve(*arguments, "-q", str(path)) for _ in range(3))


def record(folder: Path, program: Program) -> Path:
    """A trace of a program, and its ops file in the same folder."""
    trace = folder / f"{program.name}.ljt"
    command = ["valgrind", "-q", "--tool=ljtrace", f"--out={trace}", *program.command]
    with open(program.stdin or os.devnull, "rb") as stdin:
        subprocess.run(command, stdin=stdin, stdout=subprocess.DEVNULL, check=True)
    steve("ops", "--binary", "-q", "-o", str(trace.with_suffix(".ops")), str(trace))
    return trace


def count_events(trace: Path) -> int:
    found = subprocess.run(["steve", "summary", "--json", "-q", str(trace)], stdout=subprocess.PIPE, check=True)
    events = json.loads(found.stdout)["events"]
    return sum(events[kind] or 0 for kind in EVENTS)  # null: not recorded


def rate(events: int, time: float) -> "float | None":
    """Millions of events a second; None if that took next to no time."""
    return events / 1e6 / time if time >= SHORTEST else None


def measure(trace: Path, events: int, starts: Dict[str, float]) -> "Dict[str, float | None]":
    """Millions of events a second, by title of the command."""
    return {
        title: rate(events, seconds(arguments, trace.with_suffix(f".{form}")) - starts[title])
        for title, (form, arguments) in COMMANDS.items()
    }


def line(name: str, events: float, rates: Dict[str, Any]) -> str:
    cells = "".join(f"{'-' if each is None else format(each, '.0f'):>10}" for each in rates.values())
    return f"{name:<12}{'' if not events else format(events / 1e6, '.1f'):>10}{cells}"


def chosen_programs(folder: Path, small: bool, names: List[str]) -> Tuple[List[Program], Dict[str, str]]:
    """Those with the names (none: all) that can be run here; why others cannot."""
    programs, absent = all_programs(folder, small)
    known = [program.name for program in programs] + list(absent)
    for name in names:
        if name not in known:
            sys.exit(f"bench: no program '{name}'; there are: {', '.join(known)}")
    return (
        [program for program in programs if not names or program.name in names],
        {name: why for name, why in absent.items() if not names or name in names},
    )


def speeds(folder: Path, small: bool, names: List[str]) -> Dict[str, Any]:
    """The table, printed while it is made: {programs: {name: {events, rates}}, left_out: {name: why},
    means: geometric means by command}. A rate or mean is None if it could not be measured."""
    programs, left_out = chosen_programs(folder, small, names)
    idle = record(folder, Program("idle", "c", ("true",)))
    starts = {title: seconds(arguments, idle.with_suffix(f".{form}")) for title, (form, arguments) in COMMANDS.items()}
    rows: Dict[str, Dict[str, Any]] = {}
    print(line("M events/s", 0, {}) + "".join(f"{title:>10}" for title in COMMANDS), flush=True)
    for program in programs:
        trace = record(folder, program)
        events = count_events(trace)
        if events < FEWEST[small]:
            left_out[program.name] = f"makes {events:,} events, too few to be measured"
        else:
            rows[program.name] = {"events": events, "rates": measure(trace, events, starts)}
            print(line(program.name, events, rows[program.name]["rates"]), flush=True)
        forget(trace)
    return {"programs": rows, "left_out": left_out, "means": told_means(rows, left_out)}


def forget(trace: Path) -> None:
    """Traces of all programs at once are more than a temporary folder may hold."""
    for path in (trace, trace.with_suffix(".ops")):
        path.unlink()


def told_means(rows: Dict[str, Dict[str, Any]], left_out: Dict[str, str]) -> Dict[str, Any]:
    rates = {title: [row["rates"][title] for row in rows.values()] for title in COMMANDS}
    means = {title: geometric_mean(rate for rate in column if rate is not None) for title, column in rates.items()}
    print(line("geo. mean", 0, means))
    for name, why in left_out.items():
        print(f"{name}: left out, {why}")
    return means
