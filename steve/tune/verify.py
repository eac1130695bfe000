"""Run the program itself with and without the options, and compare its change with what the replay predicts.

First the command is run once with each of both allocators, to see whether the program really has their malloc. If it does
not, nothing can be confirmed.

The replay shows a difference between two allocators or option sets. The rest of the program, with its code and its
stacks, is the same with both. So what is predicted is the change, and that is what is judged: a prediction of the whole
memory would be right within a few percent whatever the allocator does, since most of it does not change.

It can also be run with the defaults of further allocators, in turns with these two. These runs rank the allocators by what
the program itself has, which no replay decides if the program returns memory by a function of its allocator.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steve.allocstats.medians import Median, difference, median
from steve.allocstats.replay import Replay
from steve.system.errors import SteveError
from steve.system.tempfiles import scratch_folder
from steve.tune.bindings import Image, images
from steve.tune.measure import Bench
from steve.tune.options import OptionSet
from steve.tune.program import LIBC, Program

RUNS = 5
NEAR = 1 / 3  # of the predicted change, by which the measured one may differ
SEED = 1
CONFIRMED, NOT_CONFIRMED, UNCERTAIN = "confirmed", "not confirmed", "no certain difference measured"


@dataclass(frozen=True)
class Check:
    """One quantity, resident bytes (of the goal) or CPU time in ns: of the program with the reference and with the options, and
    its change, as predicted by the replay and as measured. decides: is it the quantity of the goal?"""

    name: str
    options: OptionSet
    reference: Median
    measured: Median
    predicted_change: Median
    measured_change: Median
    decides: bool = True

    @property
    def predicted(self) -> float:
        """What the program would have with the options, if the prediction were right."""
        return self.reference.value + self.predicted_change.value

    @property
    def outcome(self) -> str:
        """Confirmed: the change that was measured is certain, and near the predicted one. What decides is not confirmed, too, if
        a certain change is predicted and what was measured, though no certain change, is certainly not near it."""
        if self.is_uncertain:
            return NOT_CONFIRMED if self.is_expected and not self._is_near_possible else UNCERTAIN
        predicted, measured = self.predicted_change.value, self.measured_change.value
        near = self.agrees or abs(measured - predicted) <= NEAR * abs(predicted)
        return CONFIRMED if near and predicted * measured > 0 else NOT_CONFIRMED

    @property
    def _is_near_possible(self) -> bool:
        """Do the intervals of both changes overlap, that of the prediction with what counts as near it?"""
        room = NEAR * abs(self.predicted_change.value)
        predicted, measured = self.predicted_change, self.measured_change
        return predicted.low - room <= measured.high and measured.low <= predicted.high + room

    @property
    def is_uncertain(self) -> bool:
        """Do the intervals of what was measured overlap?"""
        return self.measured.low <= self.reference.high and self.reference.low <= self.measured.high

    @property
    def is_expected(self) -> bool:
        """Does the quantity decide, and is a certain change of it predicted?"""
        return self.decides and not self.predicted_change.low <= 0 <= self.predicted_change.high

    @property
    def agrees(self) -> bool:
        """Do the intervals of both changes overlap?"""
        predicted, measured = self.predicted_change, self.measured_change
        return predicted.low <= measured.high and measured.low <= predicted.high

    @property
    def is_good(self) -> bool:
        """Is the prediction confirmed? If the goal is another quantity, or if no certain change is predicted: is it not
        contradicted?"""
        return self.outcome == CONFIRMED or not self.is_expected and (self.agrees or self.is_uncertain)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "quantity": self.name,
            "options": self.options.name,
            "reference": self.reference.as_dict(),
            "predicted": self.predicted,
            "measured": self.measured.as_dict(),
            "predicted_change": self.predicted_change.as_dict(),
            "measured_change": self.measured_change.as_dict(),
            "confirmed": self.outcome == CONFIRMED,
            "outcome": self.outcome,
        }


@dataclass(frozen=True)
class Measured:
    """Resident bytes (of the goal) and CPU time in ns of the program itself with an option set, and their difference from those
    with the reference."""

    options: OptionSet
    memory: Median
    cpu: Median
    memory_change: Median
    cpu_change: Median

    def is_better(self, other: Measured, goal: str) -> bool:
        """Is the program certainly better with this one? Then the intervals of what decides do not overlap."""
        mine, its = (self.cpu, other.cpu) if goal == "time" else (self.memory, other.memory)
        return mine.high < its.low

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "options": self.options.name,
            "resident": self.memory.as_dict(),
            "cpu_ns": self.cpu.as_dict(),
            "resident_change": self.memory_change.as_dict(),
            "cpu_change": self.cpu_change.as_dict(),
        }


@dataclass(frozen=True)
class Verification:
    """What --verify found. obstacle: why there is no verdict; "" if there are checks. ranking: the defaults of all allocators with
    which the program ran, and what is checked, that of least memory first, or of least CPU time if that is the goal; empty unless
    this was asked for.
    not_run: why the program did not run with the defaults of others. quantity: which memory that of the ranking is."""

    checks: list[Check] = field(default_factory=list)
    obstacle: str = ""
    ranking: list[Measured] = field(default_factory=list)
    not_run: dict[OptionSet, str] = field(default_factory=dict)
    quantity: str = ""

    def better_than(self, options: OptionSet, goal: str) -> tuple[Measured, Measured] | None:
        """The best of the ranking, and what was measured with `options`, if the program is certainly better with the former; else
        None."""
        of = {row.options: row for row in self.ranking}
        if options not in of:
            return None
        best, other = self.ranking[0], of[options]
        return (best, other) if best.is_better(other, goal) else None

    @property
    def confirmed(self) -> bool:
        """Is a certain change that is predicted for the goal confirmed, and nothing else contradicted?"""
        return not self.obstacle and all(check.is_good for check in self.checks)


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
    replay: Replay,
    command: str,
    needed: list[OptionSet],
    others: list[OptionSet],
    program: Program,
    tick: Callable[[int, int], None],
) -> tuple[dict[OptionSet, list[dict[str, Any]]], dict[OptionSet, str]]:
    """Run the command several times with each option set, in an order drawn from a fixed seed. The runs, and those of `others`
    with which a run failed, with the reason; SteveError if one with a needed set does. tick: gets the number of runs that are
    done, and of all."""
    source = random.Random(SEED)
    found: dict[OptionSet, list[dict[str, Any]]] = {one: [] for one in [*needed, *others]}
    failures: dict[OptionSet, str] = {}
    with scratch_folder("steve-tune-") as folder:
        for turn in range(RUNS):
            for place, one in enumerate(source.sample(list(found), len(found))):
                tick(turn * len(found) + place, RUNS * len(found))
                try:
                    found[one].append(run_program(replay, command, one, os.path.join(folder, "result"), program))
                except SteveError as error:
                    if one in needed:
                        raise
                    failures[one] = str(error).removeprefix("--verify: ")
                    del found[one]
    return found, failures


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


def _ranking(
    runs: dict[OptionSet, list[dict[str, Any]]], reference: OptionSet, column: str, goal: str
) -> list[Measured]:
    """What the runs with each option set show, the best first."""
    memory = {one: [value_of(run, column) for run in found] for one, found in runs.items()}
    cpu = {one: [cpu_of(run) for run in found] for one, found in runs.items()}
    rows = [
        Measured(
            one,
            median(memory[one]),
            median(cpu[one]),
            difference(memory[one], memory[reference]),
            difference(cpu[one], cpu[reference]),
        )
        for one in runs
    ]
    return sorted(rows, key=lambda row: (row.cpu if goal == "time" else row.memory).value)


def cpu_of(run: dict[str, Any]) -> float:
    """The CPU time of a run of the program, in ns, with that of the system."""
    return float(run["user_ns"] + run["system_ns"])


def verify(
    replay: Replay,
    command: str,
    program: Program,
    bench: Bench,
    reference: OptionSet,
    options: OptionSet,
    goal: str = "peak",
    defaults: list[OptionSet] | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Verification:
    """Compare the program with the replay `bench`, which has measured both option sets: the memory of the goal, or its peak
    if the goal is another one, and the CPU time. There is no verdict if it does not run on both allocators. defaults: the
    allocators to rank by further runs of the program. tick: see programs()."""
    needed = list(dict.fromkeys([reference, options]))
    for one in needed:
        if reason := obstacle(program, command, one):
            return Verification(obstacle=reason)
    others = [one for one in dict.fromkeys(defaults or []) if one not in needed]
    not_run = {one: reason for one in others if (reason := _obstacle_of_another(program, command, one))}
    others = [one for one in others if one not in not_run]
    runs, failures = programs(replay, command, needed, others, program, tick)
    of_memory = goal if goal in QUANTITIES else "peak"
    title, column = QUANTITIES[of_memory]
    ranking = _ranking(runs, reference, column, goal) if defaults else []
    checks = _checks(runs, bench, reference, options, goal)
    return Verification(checks, "", ranking, {**not_run, **failures}, title)


def _obstacle_of_another(program: Program, command: str, options: OptionSet) -> str:
    """Why the program cannot be measured with another allocator; "" if it can. No error: the others are measured all the same."""
    try:
        return obstacle(program, command, options)
    except SteveError as error:
        return str(error).removeprefix("--verify: ")


def _checks(
    runs: dict[OptionSet, list[dict[str, Any]]], bench: Bench, reference: OptionSet, options: OptionSet, goal: str
) -> list[Check]:
    """The changes that were measured beside those that the replay predicts; none if there is but the reference."""
    if options == reference:
        return []
    mine, base = bench.samples[options], bench.samples[reference]
    checks = []
    of_memory = goal if goal in QUANTITIES else "peak"
    title, column = QUANTITIES[of_memory]
    for name, key, replayed, before, decides in (
        (
            title,
            lambda r: value_of(r, column),
            mine.of(of_memory),
            base.of(of_memory),
            goal in (*QUANTITIES, "balance"),
        ),
        ("CPU time", cpu_of, mine.cpu, base.cpu, goal == "time"),
    ):
        with_reference, with_options = ([key(run) for run in runs[one]] for one in (reference, options))
        checks.append(
            Check(
                name,
                options,
                median(with_reference),
                median(with_options),
                difference(replayed, before),
                difference(with_options, with_reference),
                decides,
            )
        )
    return checks
