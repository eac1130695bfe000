"""Samples from a memtrace: whole stacks of C and Lua, with the state of the virtual machine.

A sample of a memtrace has a weight: a number of instructions, or nanoseconds in a trace of ljtrace run. Files of
sysprof have no weights: a sample is written there several times, its weight divided by the smallest weight (the
sampling interval of the recording).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from steve.trace import frames
from steve.trace.policy import Policy, ShownStacks
from steve.system.errors import SteveError
from steve.export.folded import NOWHERE
from steve.profilers.sysprof.samples import LFUNC, STATES
from steve.profilers.sysprof.writer import Frame, SysprofWriter

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAMES = {"C": "CFUNC", "FAST": "FFUNC"}  # sysprof's names of LuaJIT's states, where they differ


class Weighed(NamedTuple):
    """All samples of one stack and state. stack: its id; state: index of STATES; weight: instructions or
    nanoseconds."""

    stack: int
    state: int
    weight: int


def collect(trace: Trace, tick: Callable | None = None) -> list[Weighed]:
    """The samples of a trace, summed by stack and state. tick(done, total): progress in bytes. SteveError if there are
    none."""
    from steve.profilers._ljstream import samples
    from steve.trace._memtrace import VM_NAMES

    found = [
        Weighed(stack, state_of(trace, stack, VM_NAMES[vm]), weight)
        for (stack, _, vm), weight in sorted(samples(trace, tick).items())
    ]
    if not found:
        raise SteveError(f"{trace.name}: has no samples; record it with --sample-stacks=N")
    return found


def state_of(trace: Trace, stack: int, vm: str) -> int:
    """sysprof's state, as an index of STATES. In sysprof, INTERP has no Lua stack; a stack with a Lua frame is
    LFUNC."""
    known = trace.stack_frames(stack)
    if vm == "INTERP" and any(frames.is_lua(frame) for frame in known):
        return LFUNC
    return STATES.index(NAMES.get(vm, vm))


def shown_stacks(trace: Trace) -> ShownStacks:
    """The stacks of samples as they are shown: with all frames of the inner end, because that code takes the time."""
    return ShownStacks(trace, Policy(keep_alloc_fns=True))


def folded(trace: Trace, found: list[Weighed]) -> dict[tuple[str, ...], int]:
    """Weights by stack. A stack is the names of its frames, root first."""
    result: dict[tuple[str, ...], int] = {}
    shown = shown_stacks(trace)
    for sample in found:
        names = tuple(map(frames.label, reversed(shown.frames(sample.stack)))) or (NOWHERE,)
        result[names] = result.get(names, 0) + sample.weight
    return result


def states(found: list[Weighed]) -> dict[str, int]:
    """Weights by the name of the state, in the order of STATES."""
    counts = dict.fromkeys(STATES, 0)
    for sample in found:
        counts[STATES[sample.state]] += sample.weight
    return counts


def whole_stack(shown: ShownStacks, stack: int) -> list[Frame]:
    """The shown frames of a stack as sysprof describes them, root first: a Lua function by its chunk and first line."""
    return [
        Frame(True, f.file or "?", f.defined) if frames.is_lua(f) else Frame(False, frames.label(f))
        for f in reversed(shown.frames(stack))
    ]


def write(trace: Trace, found: list[Weighed], writer: SysprofWriter) -> None:
    """Write all samples to a file of sysprof."""
    shown = shown_stacks(trace)
    interval = min(sample.weight for sample in found)
    for sample in found:
        writer.sample(sample.state, whole_stack(shown, sample.stack), max(1, round(sample.weight / interval)))
