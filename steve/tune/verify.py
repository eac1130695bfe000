"""Run the program itself with and without the options, and compare it with what the replay predicts.

First the command is run once with each of both allocators, to see whether the program really has their malloc. If it does
not, nothing can be confirmed.

The replay shows a difference between two allocators or option sets. The rest of the program, with its code and its
stacks, is the same with both. So the prediction for the program is what it took with the reference, plus that
difference.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from typing import Any

from steve.allocstats.medians import Median, median
from steve.allocstats.replay import Replay
from steve.system.errors import SteveError
from steve.system.tempfiles import scratch_folder
from steve.tune.bindings import Image, images
from steve.tune.measure import Bench
from steve.tune.options import OptionSet
from steve.tune.program import LIBC, Program

RUNS = 5
TOLERANCE = 0.10
SEED = 1


@dataclass(frozen=True)
class Check:
    """One quantity, resident bytes (of the goal) or CPU time in ns: of the program with the reference, as predicted with the
    options, and as measured with them."""

    name: str
    options: OptionSet
    reference: Median
    predicted: float
    measured: Median

    @property
    def error(self) -> float:
        """By what part of the measured value the prediction is wrong."""
        return (self.predicted - self.measured.value) / self.measured.value if self.measured.value else 0.0

    @property
    def confirmed(self) -> bool:
        """Is the prediction within 10% of what was measured?"""
        return abs(self.error) <= TOLERANCE

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "quantity": self.name,
            "options": self.options.name,
            "reference": self.reference.as_dict(),
            "predicted": self.predicted,
            "measured": self.measured.as_dict(),
            "error": self.error,
            "confirmed": self.confirmed,
        }


@dataclass(frozen=True)
class Verification:
    """What --verify found. obstacle: why there is no verdict; "" if there are checks."""

    checks: list[Check] = field(default_factory=list)
    obstacle: str = ""

    @property
    def confirmed(self) -> bool:
        """Is every prediction within 10% of what was measured?"""
        return not self.obstacle and all(check.confirmed for check in self.checks)


def _expected(program: Program, environment: dict[str, str], image: Image) -> str:
    """The name of the object file whose malloc the image is to have."""
    return os.path.basename(image.name) if program.is_within else environment.get("LD_PRELOAD", LIBC)


def obstacle(program: Program, command: str, options: OptionSet) -> str:
    """Why the command does not run on the allocator of the options; "" if it does. Runs it once. If the name of the recorded
    program is known and is among those that the command starts, the others do not matter."""
    environment = program.environment(options)
    if environment is None:
        return f"LD_PRELOAD has no effect on this program, whose executable contains {program.allocator}"
    started = images(command, environment)
    chosen = [one for one in started if os.path.basename(one.name) in program.names] or started
    if not chosen:
        return "the command starts no program that is linked dynamically, and LD_PRELOAD has no effect on others"
    for one in chosen:
        expected = _expected(program, environment, one)
        if os.path.basename(one.malloc) != expected:
            return (
                f"with {options.allocator.name}, {one.name} has the malloc of {one.malloc}, and not that of {expected}"
            )
    return ""


def run_program(
    replay: Replay, command: str, options: OptionSet, result: str, program: Program = Program()
) -> dict[str, Any]:
    """Run the command once in a shell, without its standard output. SteveError if it fails, or if no variables start the
    program with these options."""
    environment = program.environment(options)
    if environment is None:
        raise SteveError(f"--verify: the program cannot be started with {options.name}")
    env = {"STEVE_PRELOAD": environment.pop("LD_PRELOAD", ""), **environment}
    outcome = replay.run("--run", "-o", result, "--", "/bin/sh", "-c", f"exec >/dev/null; {command}", env=env)
    if outcome.status != 0:
        raise SteveError(f"--verify: {outcome.message}")
    with open(result, encoding="utf-8") as file:
        found = json.load(file)
    if found["status"] != 0:
        raise SteveError(f"--verify: the command ended with status {found['status']}: {outcome.message}")
    return found


def programs(
    replay: Replay, command: str, options: list[OptionSet], program: Program
) -> dict[OptionSet, list[dict[str, Any]]]:
    """Run the command several times with each option set, in an order drawn from a fixed seed."""
    source = random.Random(SEED)
    found: dict[OptionSet, list[dict[str, Any]]] = {one: [] for one in options}
    with scratch_folder("steve-tune-") as folder:
        for _ in range(RUNS):
            for one in source.sample(options, len(options)):
                found[one].append(run_program(replay, command, one, os.path.join(folder, "result"), program))
    return found


QUANTITIES = {
    "peak": ("peak resident memory", "peak_resident"),
    "mean": ("mean resident memory", "mean_resident"),
    "end": ("resident memory at the end", "end_resident"),
}


def value_of(run: dict[str, Any], key: str) -> float:
    """A number that was measured of the program; SteveError if it ended before it could be."""
    if run[key] is None:
        raise SteveError("--verify: the program ends too soon to look at its memory; try --goal=peak")
    return float(run[key])


def verify(
    replay: Replay,
    command: str,
    program: Program,
    bench: Bench,
    reference: OptionSet,
    options: OptionSet,
    goal: str = "peak",
) -> Verification:
    """Compare the program with the replay `bench`, which has measured both option sets: the memory of the goal, or its peak
    if the goal is another one, and the CPU time. There is no verdict if it does not run on both allocators."""
    for one in dict.fromkeys([reference, options]):
        if reason := obstacle(program, command, one):
            return Verification(obstacle=reason)
    runs = programs(replay, command, list(dict.fromkeys([reference, options])), program)
    mine, base = bench.samples[options], bench.samples[reference]
    checks = []
    of_memory = goal if goal in QUANTITIES else "peak"
    title, column = QUANTITIES[of_memory]
    for name, key, replayed, before in (
        (title, lambda r: value_of(r, column), mine.of(of_memory), base.of(of_memory)),
        ("CPU time", lambda r: r["user_ns"] + r["system_ns"], mine.cpu, base.cpu),
    ):
        of_reference = median([key(run) for run in runs[reference]])
        predicted = of_reference.value + median(replayed).value - median(before).value
        checks.append(Check(name, options, of_reference, predicted, median([key(run) for run in runs[options]])))
    return Verification(checks)
