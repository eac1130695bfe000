# SPDX-License-Identifier: GPL-2.0-or-later
"""What was resident over time, for the report: RSS and its owners at the looks of a recording with --pages.

The values are known at the looks only. The page and `report --json` have the same numbers.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steve.analysis import looks
from steve.analysis.owners import KINDS
from steve.terminal.progress import Progress

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks

MOST_LOOKS = 60  # of the picture: each takes time in proportion to the live blocks


def resident_over_time(chosen: Blocks) -> dict[str, Any] | None:
    """For the page and for JSON; None if the trace has no look. looks: their number in the trace; why_not: why none is
    shown, ""; of those that are shown, as columns: number, time in nanoseconds, why, resident; of each kind of owner that
    has any: kinds, titles, and parts, its bytes at each look."""
    trace = chosen.trace
    every = looks.of_trace(trace)
    if not every:
        return None
    why_not = looks.why_no_owners(chosen)
    found: list[looks.Look] = []
    if not why_not:
        with Progress(chosen.command, chosen.args.quiet) as progress:
            found = looks.over_time(trace, chosen.open_again(), MOST_LOOKS, progress)
    kinds = [kind for kind in KINDS if any(look.kinds[kind] for look in found)]
    titles = looks.titles_of(trace.info())
    return {
        "looks": len(every),
        "why_not": why_not,
        "number": [look.number for look in found],
        "time": [look.time for look in found],
        "why": [look.why for look in found],
        "resident": [look.resident for look in found],
        "kinds": kinds,
        "titles": [titles[kind] for kind in kinds],
        "parts": [[look.kinds[kind] for look in found] for kind in kinds],
    }
