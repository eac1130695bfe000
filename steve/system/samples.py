"""Traces that are a sample of the blocks (ljtrace run --sample): what a command makes of them, and how it says so.

memtrace/sample.h says how numbers are estimated. The kernels do that; this module knows whether the trace that the
command reads is a sample. A command that needs every block refuses such a trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping

from steve.system.errors import SteveError

_state = {"mean": 0}
_needs: list[str] = []  # what needs every block: at most one text


def begin(needs: str | None) -> None:
    """A command begins. needs: the name of what needs every block, for the error message; None: a sample will do."""
    _state["mean"] = 0
    _needs[:] = [] if needs is None else [needs]


def refuses() -> bool:
    """Does the command need every block?"""
    return bool(_needs)


def met(name: str, sample_mean: int) -> None:
    """A trace of the command is a sample. SteveError if the command needs every block."""
    if _needs:
        raise SteveError(
            f"{name}: is a sample of the blocks (one of {sample_mean:,} bytes), and {_needs[0]} needs every "
            "block; record without --sample"
        )
    _state["mean"] = sample_mean


def mean() -> int:
    """The mean number of bytes between samples of the trace that the command has read; 0 if it is no sample."""
    return _state["mean"]


def how() -> str:
    """How the numbers were found, as text."""
    return f"estimated from a sample: one of {mean():,} bytes"


def remark() -> str:
    """The same for a heading; "" if the trace is no sample."""
    return f" ({how()})" if mean() else ""


def standard_errors(found: Mapping[str, float], columns: Mapping[str, str]) -> dict:
    """The part of a row with the standard errors of its columns; {} if the trace is no sample.

    found: sums of steve.kernels._lives.Groups; columns: the name there of each column of the row."""
    if not mean():
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
    return {"estimated": True, "sample_mean": mean(), "standard_errors": errors} if mean() else {}
