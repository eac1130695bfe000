"""Conditions on one trace: the measures that `steve check --fail-if` judges.

A trace is compared with nothing, so that conditions have one implementation (steve.analysis.conditions): each site is new,
and a measure is what the trace has.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import differences, looks
from steve.analysis.conditions import MEASURES, ONE, Condition, Measured, Outcome
from steve.analysis.differences import Differences
from steve.analysis.lost import Reached, is_leak, searched
from steve.system.errors import UsageError
from steve.trace import missing, rollups
from steve.trace.matched import Matched

if TYPE_CHECKING:
    from steve.analysis.blocks import Blocks

LOST = ("lost_bytes", "lost_blocks")
ERRORS = "errors"
# what shows where they are
SEE = {**dict.fromkeys(LOST, "steve leaks"), ERRORS: "steve findings", **dict.fromkeys(looks.NAMES, "steve resident")}


class Judged(NamedTuple):
    """The outcomes of conditions. rows: all sites, of which an outcome has some; its columns are those of Differences that
    end with _b."""

    outcomes: list[Outcome]
    rows: Differences


def judged(chosen: Blocks, wanted: list[Condition], most: int | None) -> Judged:
    """Measure a trace and judge the conditions. chosen: of a Blocks that collects errors of the program. most: so many sites
    of each that holds; None: all. UsageError if the trace does not have what one is about."""
    names = Matched(chosen.args.by)
    rows = _rows(chosen, names)
    measured = {name: rows.column(f"{column}_b").sum() for name, column in MEASURES.items()}
    asked = {test.name for condition in wanted for test in condition.tests}
    measured |= _others(chosen, asked)
    resident = looks.measures(chosen, asked)
    measured |= {name: resident.values.get(name) for name in asked & looks.NAMES.keys()}
    for condition in wanted:
        lacking = condition.lacking(rows) or next(
            (t.name for t in condition.tests if measured.get(t.name, 0) is None), ""
        )
        if lacking:
            raise UsageError(f"--fail-if '{condition.text}': cannot be judged: {_why(lacking, resident.why_not)}")
    totals = {name: Measured(0, int(value)) for name, value in measured.items() if value is not None}
    outcomes = [condition.outcome(totals, rows, most) for condition in wanted]
    for condition, outcome in zip(wanted, outcomes):
        if (
            not outcome.failed
            and ERRORS in {test.name for test in condition.tests}
            and not missing.has_accesses(chosen.trace, totals["accesses"].b)
        ):
            raise UsageError(
                f"--fail-if '{condition.text}': cannot be judged: accesses were not recorded, so only wrong frees were seen"
            )
    return Judged(outcomes, rows)


def conditions_of(texts: list[str]) -> list[Condition]:
    """The conditions with these texts; UsageError if one is wrong."""
    return [Condition(text, ONE) for text in texts]


def _why(name: str, not_resident: str) -> str:
    """Why a measure is not known. not_resident: of those of the resident memory."""
    if name in looks.NAMES:
        return f"{name} is not known: {not_resident}"
    if name in LOST:
        return f"{name} was not recorded (pointers are searched for under Valgrind only, at the end of the program)"
    if name == ERRORS:
        return "errors are looked for in whole recordings only, without --where, --from and --to"
    return f"{name} was not recorded"


def _rows(chosen: Blocks, names: Matched) -> Differences:
    """The measures of all sites."""
    import numpy as np

    (sums,) = chosen.sum_by(rollups.key_of(chosen.args.by), columns=differences.SUMS)
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    accesses = not missing.not_recorded(chosen.trace)
    found = differences.measured(sums, rollup, names, accesses, chosen.sample)
    nothing = differences.Measured(np.zeros(0, found.nodes.dtype), found.rows[:0], accesses, found.sample)
    return Differences(names, nothing, found)


def _others(chosen: Blocks, asked: set[str]) -> dict[str, int | None]:
    """What is asked of the measures that sites do not have; None: not recorded."""
    found: dict[str, int | None] = {}
    if not asked & {ERRORS, *LOST}:
        return found
    walked = chosen.fold(partial(Reached, is_leak))
    if ERRORS in asked:
        contexts = walked.met.contexts(chosen.trace)
        found[ERRORS] = sum(context.count for context in contexts) if chosen.errors else None
    rows = walked.fold.lost(chosen.trace).rows if searched(chosen) else None
    for name in asked & {*LOST}:
        found[name] = None if rows is None else int(rows[name.removeprefix("lost_")].sum())
    return found
