"""Conditions on one trace: the measures that `steve check --fail-if` judges.

A trace is compared with nothing, so that conditions have one implementation (steve.analysis.conditions): each site is new,
and a measure is what the trace has.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import closed, differences, looks, string_table
from steve.analysis.conditions import MEASURES, NET_GROWTH, ONE, Condition, Measured, Outcome
from steve.analysis.differences import Differences
from steve.analysis.lost import Reached, is_leak, searched
from steve.system.errors import MarkError, UsageError
from steve.trace import missing, rollups
from steve.trace.matched import Matched

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks
    from steve.analysis.folds import Table

LOST = ("lost_bytes", "lost_blocks")
ERRORS = "errors"
# what shows where they are
SEE = {**dict.fromkeys(LOST, "steve leaks"), ERRORS: "steve findings", **dict.fromkeys(looks.NAMES, "steve resident")}


class Judged(NamedTuple):
    """The outcomes of conditions. rows: all sites, of which an outcome has some; its columns are those of Differences that
    end with _b. remarks: what is to be said beside the outcomes."""

    outcomes: list[Outcome]
    rows: Differences
    remarks: list[str]


def judged(chosen: Blocks, wanted: list[Condition], most: int | None) -> Judged:
    """Measure a trace and judge the conditions. chosen: of a Blocks that collects errors of the program. most: so many sites
    of each that holds; None: all. UsageError if the trace does not have what one is about."""
    names = Matched(chosen.args.by)
    found, by_heap, by_type = _measured(chosen, names)
    rows = Differences(names, _nothing(found), found)
    lua_is_closed = closed.is_closed(chosen, by_heap)
    measured = {name: rows.column(f"{column}_b").sum() for name, column in MEASURES.items()}
    asked = {test.name for condition in wanted for test in condition.tests}
    grown = _growth(chosen) if NET_GROWTH in asked else rows
    measured[NET_GROWTH] = grown.column("live_bytes_change").sum()
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
    judged_rows = _of_sites(chosen, by_type, rows) if any(condition.judges_sites for condition in wanted) else rows
    outcomes = [
        condition.outcome(totals, judged_rows if condition.judges_sites else rows, most) for condition in wanted
    ]
    if any(outcome.failed and outcome.name == NET_GROWTH for outcome in outcomes):
        others = string_table.without(chosen, by_type)
        grown = _growth(others) if others else grown
        outcomes = [_with_growth(outcome, grown, most) for outcome in outcomes]
    for condition, outcome in zip(wanted, outcomes):
        if (
            not outcome.failed
            and ERRORS in {test.name for test in condition.tests}
            and not missing.has_all_accesses(chosen.trace, totals["accesses"].b)
        ):
            where = "in a part of the run only" if missing.accesses_in_part(chosen.trace) else ""
            raise UsageError(
                f"--fail-if '{condition.text}': cannot be judged: accesses were "
                + (f"recorded {where}" if where else "not recorded, so only wrong frees were seen")
            )
    remarks = [closed.remark(outcomes)] if lua_is_closed else []
    if any(len(outcome.causes) for outcome in outcomes):
        of_strings = string_table.remark(string_table.requested(by_type), measured["allocated"])
        remarks.append(f"of all bytes requested, {of_strings}" if of_strings else "")
    return Judged(outcomes, rows, [text for text in remarks if text])


@contextmanager
def mark_is_needed(wanted: list[Condition]) -> Iterator[None]:
    """A missing mark of --from or --to leaves conditions undecided: UsageError, whose exit status is not that of a
    condition that holds."""
    try:
        yield
    except MarkError as error:
        if not wanted:
            raise
        raise UsageError(f"--fail-if '{wanted[0].text}': cannot be judged: {error}") from None


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


def _of_sites(chosen: Blocks, by_type: np.ndarray | Table, rows: Differences) -> Differences:
    """The rows that conditions about sites judge. by_type: the sums by type."""
    others = string_table.without(chosen, by_type)
    if others is None:
        return rows
    found = _measured(others, rows.names)[0]
    return Differences(rows.names, _nothing(found), found)


def _measured(chosen: Blocks, names: Matched) -> tuple[differences.Measured, np.ndarray | Table, np.ndarray | Table]:
    """The measures of all sites, and the sums by heap and by type."""
    sums, by_heap, by_type = chosen.sum_by(
        rollups.key_of(chosen.args.by), closed.KEY, string_table.KEY, columns=differences.SUMS
    )
    rollup = rollups.of_arguments(chosen.args, chosen.places)
    accesses = not missing.not_recorded(chosen.trace)
    return differences.measured(sums, rollup, names, accesses, chosen.sample), by_heap, by_type


def _nothing(like: differences.Measured) -> differences.Measured:
    """Measures of no site, with the columns of others."""
    import numpy as np

    return like._replace(nodes=np.zeros(0, like.nodes.dtype), rows=like.rows[:0])


def _growth(chosen: Blocks) -> Differences:
    """What lived at --from, as A, and what lives at --to, as B, also of blocks that were made before --from. Stacks of one
    place of allocation, some of which shrank, are one row: a cache whose entries are replaced by calls from elsewhere
    does not grow."""
    import numpy as np

    names, args = Matched(chosen.args.by), chosen.args
    second = _measured(chosen.until(args.end, args.begin), names)[0]
    first = _nothing(second) if args.begin is None else _measured(chosen.until(args.begin), names)[0]
    rows = Differences(names, first, second)
    places = names.without_callers(rows.nodes)
    shrank = np.isin(places, places[rows.column("live_bytes_change") < 0])
    of_nodes = np.zeros(int(rows.nodes.max(initial=0)) + 1, places.dtype)
    of_nodes[rows.nodes] = np.where(shrank, places, rows.nodes)
    return Differences(names, *(differences.added([side], of_nodes[side.nodes]) for side in (first, second)))


def _with_growth(outcome: Outcome, grown: Differences, most: int | None) -> Outcome:
    """An outcome of NET_GROWTH has the sites that grew. grown: of _growth(), without LuaJIT's table of strings."""
    if not outcome.failed or outcome.name != NET_GROWTH:
        return outcome
    risen = grown.where(grown.column("live_bytes_change") > 0)
    return outcome._replace(causes=risen.ranked("live_bytes_change", most))


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
