"""Traces that are a sample of the blocks: what a command makes of them, and how it says so.

There are samples by bytes (ljtrace run --sample) and by blocks (valgrind --tool=ljtrace --sample-blocks);
memtrace/sample.h says how numbers are estimated. The kernels do that. A trace has its Sample, which is passed to what shows
numbers of the trace. A command that needs every block refuses such a trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from steve.system.errors import SteveError


WITHOUT_ERRORS = (
    "loads, stores and the bytes that they read and write are estimates, too, but without a standard error: that of a line or "
    "thread is not known, because a block may be accessed by several; `steve sites` has those of sites"
)
VARIANCE = "variance_"  # before the name of a sum: the variance of its estimate
PEAK = "the maximum of estimates, which is above the true peak, on average by about one standard error"


def variance(name: str) -> str:
    """The name of the variance of a sum, where steve/kernels/base/sums.def says VARIED."""
    return VARIANCE + name


class Sample(NamedTuple):
    """How a trace was sampled; false if it has all blocks. mean: of a sample by bytes, the mean number of bytes between
    samples; every: of a sample by blocks, N if each block was recorded with the probability 1/N."""

    mean: int = 0
    every: int = 0

    def __bool__(self) -> bool:
        return self.mean > 0 or self.every > 0

    def refuse(self, name: str, what: str) -> None:
        """SteveError if the trace of this name is a sample. what: needs every block."""
        if self:
            raise SteveError(
                f"{name}: is a sample of the blocks ({self.recorded}), and {what} needs every block; record without "
                f"--{'sample' if self.mean else 'sample-blocks'}"
            )

    @property
    def weight(self) -> int:
        """As how many blocks a recorded one counts in a sample by blocks; else 1."""
        return self.every or 1

    @property
    def recorded(self) -> str:
        """What was recorded, as text."""
        return f"one of {self.mean:,} bytes" if self.mean else f"one of {self.every:,} blocks"

    @property
    def how(self) -> str:
        """How the numbers were found, as text."""
        return f"estimated from a sample: {self.recorded}"

    @property
    def remark(self) -> str:
        """The same for a heading; "" if the trace is no sample."""
        return f" ({self.how})" if self else ""

    @property
    def fact(self) -> dict[str, int]:
        """How the trace was sampled, with the key of the fact: `sample_mean` or `sample_every`; {} if it is no sample."""
        return {f"sample_{key}": value for key, value in self._asdict().items() if value}

    def of_peak(self, text: str) -> str:
        """A peak as text; in a sample, with the direction in which it is wrong. The live bytes are estimated without bias at
        each moment, but the maximum is found where the errors are large and positive, too."""
        return f"{text}, too high" if self else text

    def standard_errors(self, found: Mapping[str, float], columns: Mapping[str, str]) -> dict:
        """The part of a row with the standard errors of its columns; {} if the trace is no sample.

        found: sums of steve.kernels._lives.Groups; columns: the name there of each column of the row. Those that have no
        variance get none."""
        if not self:
            return {}
        return {
            "standard_errors": {
                key: round(max(found[variance(name)], 0) ** 0.5, 1)
                for key, name in columns.items()
                if variance(name) in found
            }
        }

    def facts(self, errors: dict) -> dict:
        """The keys that say in an object of --json that its numbers are estimated; {} if the trace is no sample. errors: the
        standard errors, with the names that the numbers have."""
        return {"estimated": True, **self.fact, "standard_errors": errors} if self else {}


WHOLE = Sample()  # all blocks were recorded
