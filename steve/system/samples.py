"""Traces that are a sample of the blocks: what a command makes of them, and how it says so.

There are samples by bytes (ljtrace run --sample) and by blocks (valgrind --tool=ljtrace --sample-blocks);
memtrace/sample.h says how numbers are estimated. The kernels do that; this module knows whether the trace that the
command reads is a sample. A command that needs every block refuses such a trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from steve.system.errors import SteveError


class Sample(NamedTuple):
    """How a trace was sampled. mean: of a sample by bytes, the mean number of bytes between samples; every: of a sample by
    blocks, N if each block was recorded with the probability 1/N; both 0: the trace has all blocks."""

    mean: int = 0
    every: int = 0

    def how(self) -> str:
        """What was recorded, as text."""
        return f"one of {self.mean:,} bytes" if self.mean else f"one of {self.every:,} blocks"


_state = {"sample": Sample()}
_needs: list[str] = []  # what needs every block: at most one text


def begin(needs: str | None) -> None:
    """A command begins. needs: the name of what needs every block, for the error message; None: a sample will do."""
    _state["sample"] = Sample()
    _needs[:] = [] if needs is None else [needs]


def next_trace() -> None:
    """The command reads another trace, of which it is not known yet whether it is a sample."""
    _state["sample"] = Sample()


def refuses() -> bool:
    """Does the command need every block?"""
    return bool(_needs)


def met(name: str, mean: int, every: int) -> None:
    """A trace of the command is a sample. SteveError if the command needs every block."""
    sample = Sample(mean, every)
    if _needs:
        raise SteveError(
            f"{name}: is a sample of the blocks ({sample.how()}), and {_needs[0]} needs every block; record without "
            f"--{'sample' if mean else 'sample-blocks'}"
        )
    _state["sample"] = sample


def are_read() -> bool:
    """Is the trace that the command has read a sample?"""
    return any(_state["sample"])


def weight() -> int:
    """As how many blocks a recorded one counts in a sample by blocks; else 1."""
    return _state["sample"].every or 1


def recorded() -> str:
    """What was recorded, as text."""
    return _state["sample"].how()


def how() -> str:
    """How the numbers were found, as text."""
    return f"estimated from a sample: {recorded()}"


def remark() -> str:
    """The same for a heading; "" if the trace is no sample."""
    return f" ({how()})" if are_read() else ""


def fact() -> dict[str, int]:
    """How the trace was sampled, with the key of the fact: `sample_mean` or `sample_every`; {} if it is no sample."""
    return {f"sample_{key}": value for key, value in _state["sample"]._asdict().items() if value}


WITHOUT_ERRORS = (
    "loads, stores and the bytes that they read and write are estimates, too, but without a standard error: that of a line or "
    "thread is not known, because a block may be accessed by several; `steve sites` has those of sites"
)
PEAK = "the maximum of estimates, which is above the true peak, on average by about one standard error"


def of_peak(text: str) -> str:
    """A peak as text; in a sample, with the direction in which it is wrong. The live bytes are estimated without bias at each
    moment, but the maximum is found where the errors are large and positive, too."""
    return f"{text}, too high" if are_read() else text


def standard_errors(found: Mapping[str, float], columns: Mapping[str, str]) -> dict:
    """The part of a row with the standard errors of its columns; {} if the trace is no sample.

    found: sums of steve.kernels._lives.Groups; columns: the name there of each column of the row."""
    if not are_read():
        return {}
    return {
        "standard_errors": {
            key: round(max(found[f"variance_{name}"], 0) ** 0.5, 1)
            for key, name in columns.items()
            if f"variance_{name}" in found
        }
    }


def facts(errors: dict) -> dict:
    """The keys that say in an object of --json that its numbers are estimated; {} if the trace is no sample. errors: the
    standard errors, with the names that the numbers have."""
    return {"estimated": True, **fact(), "standard_errors": errors} if are_read() else {}
