"""Are two memtraces of processes of one program that ran together, as those of a server's workers are?

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping

from steve.system.errors import SteveError
from steve.trace import source
from steve.trace._memtrace import Trace


def are_of_one_program(one: str, other: str) -> bool:
    """Is one trace of a forked child of the other's process, are both of children of one process, or was ljtrace attached to
    two processes with the same command at the same time? False if a file is no trace."""
    if any(path == "-" or source.is_pipe(path) for path in (one, other)):
        return False
    try:
        first, second = Trace(one), Trace(other)
        for trace in (first, second):
            trace.probe()
        return _are_forked(first, second) or _are_side_by_side(first, second)
    except SteveError:
        return False


def _are_forked(one: Trace, other: Trace) -> bool:
    """The trace of a child begins with the facts of its parent, so the traces are only read to their ends if these are the
    same."""
    begun = [[trace.info().get(name) for name in ("pid", "start_unix_seconds")] for trace in (one, other)]
    if begun[0] != begun[1] or None in begun[0]:
        return False
    one.skim()
    other.skim()
    (first, parent), (second, others) = (
        (trace.info().get("pid", ""), trace.info().get("forked_from_pid", "")) for trace in (one, other)
    )
    return first != second and (others == first or parent == second or parent == others != "")


def _are_side_by_side(one: Trace, other: Trace) -> bool:
    """Was the recorder attached to two processes with the same command, and were both recorded for some time?"""
    facts: list[Mapping[str, str]] = [trace.info() for trace in (one, other)]
    if any(info.get("attached") != "yes" or not info.get("start_unix_seconds", "").isdecimal() for info in facts):
        return False
    if facts[0].get("pid") == facts[1].get("pid"):
        return False
    if any(facts[0].get(name) != facts[1].get(name) for name in ("executable", "command")):
        return False
    one.skim()
    other.skim()
    (began, ended), (others_began, others_ended) = _span(one), _span(other)
    return began <= others_ended and others_began <= ended


def _span(trace: Trace) -> tuple[int, float]:
    """When the recording began at the earliest and ended at the latest, in seconds of the clock."""
    began, stats = int(trace.info()["start_unix_seconds"]), trace.stats()
    return began, began + 1 + (stats["totals"]["nanoseconds"] or stats["nanoseconds"]) / 1e9
