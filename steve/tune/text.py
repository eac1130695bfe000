"""What steve tune prints: the table of the replays, what is advised, and what the program itself shows.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steve.terminal.aligned import aligned
from steve.terminal.units import human_bytes, human_ns
from steve.tune.program import Program, is_too_short

if TYPE_CHECKING:
    from steve.allocstats.medians import Median
    from steve.tune.budget import Budget
    from steve.tune.choice import Choice
    from steve.tune.options import OptionSet
    from steve.tune.verify import Measured, Verification

NAMED = 5  # option sets that were not tried


@dataclass
class Result:
    """What is printed. verification: None without --verify."""

    choice: Choice
    program: Program = field(default_factory=Program)
    verification: Verification | None = None
    duration: float | None = None
    figure: list[str] = field(default_factory=list)


def _percent(value: float) -> str:
    return f"{100 * (value - 1):+.1f}%"


def _change(one: Median | None) -> str:
    """A change with its interval, which one replay does not have."""
    if one is None:
        return "-"
    return _percent(one.value) + (f" ({_percent(one.low)} to {_percent(one.high)})" if one.count > 1 else "")


def _signed(value: float, show: Callable[[float], str]) -> str:
    return ("-" if value < 0 else "+") + show(abs(value))


def _of_program(result: Result) -> tuple[Measured, Measured] | None:
    """The option set with which the program itself is certainly better than with what the replays recommend, and that one."""
    choice = result.choice
    return result.verification.better_than(choice.recommended, choice.goal) if result.verification else None


def _table(choice: Choice, later: Collection[str], verdicts: Mapping[OptionSet, str]) -> str:
    """later: the allocators that may return some of what they have at the end after a time that the replays did not last.
    verdicts: those that are not the choice's."""
    from steve.allocstats.medians import median
    from steve.tune.measure import ENDED

    bench, rows = choice.whole, []
    latency, ended = choice.goal == "p99", _shows_ended(choice)
    for number, one in enumerate(choice.rows, 1):
        space, cpu = bench.resident(one, choice.reference, choice.goal), median(bench.samples[one].cpu)
        rows.append(
            [
                str(number),
                ("up to " if choice.goal == "end" and one.allocator.name in later else "") + human_bytes(space.value),
                human_ns(cpu.value),
                *([human_ns(median(bench.samples[one].p99).value)] if latency else []),
                *([human_bytes(bench.resident(one, choice.reference, ENDED).value)] if ended else []),
                *([human_bytes(bench.resident(one, choice.reference).value)] if choice.goal == "end" else []),
                _change(choice.change(bench, one)),
                *([_change(choice.change(choice.held_out, one))] if choice.holds_out else []),
                one.name,
                verdicts.get(one) or choice.verdict(one),
            ]
        )
    p99 = ["p99"] if latency else []
    goal = choice.goal
    head = [
        "",
        f"resident, {goal}" if goal in ("mean", "end") else "resident",
        "CPU time",
        *p99,
        *(["threads ended"] if ended else []),
        *(["at the peak"] if goal == "end" else []),
        f"{goal}, whole file",
        *([f"{goal}, held out"] if choice.holds_out else []),
        "options",
        "verdict",
    ]
    return aligned([head, *rows])


def _shows_ended(choice: Choice) -> bool:
    """Is what is resident when all threads have ended shown, too?"""
    return choice.goal == "end" and choice.found.hints.threads > 1


def _meaning(choice: Choice) -> str:
    """What the columns of the table say."""
    heap = "resident bytes of heap and allocator"
    alive = ", with all threads alive that worked in the last tenth of all operations" if _shows_ended(choice) else ""
    resident = {"mean": f"mean of the {heap}", "end": f"{heap} after the last operation{alive}"}.get(
        choice.goal, f"most {heap}"
    )
    own = choice.goal in ("peak", "mean", "end")
    change = f"{choice.goal}: change{' of these bytes' if own else ''} against {choice.reference.name}"
    resident += "; threads ended: when these have ended, too" if alive else ""
    resident += "; at the peak: most of them" if choice.goal == "end" else ""
    return (
        f"resident: {resident}, without those of the replay itself, which replays the whole file; {change}\n"
        "the program has its code, stacks and other memory besides, so that its resident memory changes by as many bytes, "
        "but by a smaller part"
    )


def budget_option(expected: float, budget: Budget) -> str:
    """The option that gives a budget for a verdict about the defaults, with some more time than is expected."""
    return f"--replays={math.ceil(expected)}" if budget.counted else f"--budget={math.ceil(1.2 * expected)}s"


def _setting(program: Program, one: OptionSet) -> str:
    """How to start the program with an option set."""
    environment = program.environment(one)
    if environment is None:
        return (
            f"LD_PRELOAD has no effect on this program: link it with {one.allocator.name} in place of {program.allocator}"
            + (f", and set {one.shell(one.environment())}" if one.settings else "")
        )
    return one.shell(environment) or "nothing to set"


def _cost(choice: Choice, program: Program) -> str:
    """The CPU time that the recommended options cost, or save, in the program: the replay's own time is in both replays."""
    from steve.allocstats.medians import difference

    samples = choice.whole.samples
    mine, base = samples[choice.recommended], samples[choice.reference]
    cost = difference(mine.cpu, base.cpu)
    each = cost / max(mine.operations, 1)
    part = program.parts([cost.value])
    return (
        f"time against {choice.reference.name}: {each.value:+.1f} ns per operation ({each.low:+.1f} to {each.high:+.1f}), "
        f"{_signed(cost.value, human_ns)} in all{f', which is {part}' if part else ''}"
    )


def _advice(choice: Choice, program: Program, is_ranked: bool) -> list[str]:
    """What to do. is_ranked: was the program itself run with the defaults of each allocator?"""
    one, reference = choice.recommended, choice.reference
    if not choice.judged:
        return [
            "no verdict: the budget was too small to replay anything often enough to compare it with "
            f"{reference.name}; the numbers above are of too few replays",
            f"  the defaults alone take about {budget_option(choice.least_budget, choice.whole.budget)}, what else is tried some more",
        ]
    if one == reference:
        lines = [f"keep the defaults of {reference.name}: no option set is certainly better for {choice.goal}"]
        lines += _undecided(choice)
        best = choice.contender
        if best != reference:
            lines.append(f"  the best of the others, {best.name}: {choice.verdict(best)}")
        if any(choice.is_doubtful(row) and not choice.gains_later(row) for row in choice.rows):
            way = "--verify=COMMAND --verify-all runs the program with the defaults of each"
            way = "see below what the program itself has" if is_ranked else way
            way += "" if program.returning or is_ranked else "; --duration replays it in its time"
            lines.append(
                f"  whether another allocator needs less than {reference.name} is not known: {choice.doubt}; {way}"
            )
        return lines + _gained_later(choice)
    from steve.tune.measure import MEMORY

    memory = choice.goal if choice.goal in MEMORY else "peak"
    rss, cpu = (choice.change(choice.whole, one, goal) for goal in (memory, "time"))
    calls = one.calls()
    peak = choice.change(choice.whole, one, "peak") if memory != "peak" else None
    lines = [
        f"best for {choice.goal}: {one.name}",
        f"  set it by:  {_setting(program, one)}",
        *([f"  or call:    {' '.join(calls)}"] if calls and len(calls) == len(one.settings) else []),
        f"  on this trace, against {reference.name}: {choice.goal} {_change(choice.change(choice.whole, one))}; "
        + (
            f"on {choice.held_out_name} {_change(choice.change(choice.held_out, one))}"
            if choice.holds_out
            else "no part of it was held out from the search: --holdout or --verify shows whether another run gains as much"
        ),
        f"  resident memory of heap and allocator ({memory}) {_change(rss)}, {f'its peak {_change(peak)}, ' if peak else ''}"
        f"CPU time of the replay {_change(cpu)}",
        f"  {_cost(choice, program)}",
    ]
    lines[1:1] = _undecided(choice)
    lines += _gained_later(choice)
    if one.timed:
        way = (
            "check it with --verify" if choice.found.hints.threads > 1 else "give --duration, or check it with --verify"
        )
        lines.append(f"  {', '.join(one.timed)}: acts after some time; {way}")
    return lines


def _advice_of_program(result: Result) -> list[str]:
    """What to do if the program itself is certainly better with another option set than with what the replays recommend."""
    found = _of_program(result)
    if found is None or result.verification is None:
        return []
    best, other = found
    show = [f"{human_bytes(row.memory.value)} and {human_ns(row.cpu.value)} of CPU time" for row in found]
    quantity = "CPU time" if result.choice.goal == "time" else result.verification.quantity
    return [
        f"use {best.options.name}: the program itself has certainly less {quantity} with it than with {other.options.name}",
        f"  {show[0]} against {show[1]} (medians of {best.memory.count} runs each)",
        f"  set it by:  {_setting(result.program, best.options)}",
        "of the replays alone, which decide less than the program itself:",
    ]


def _undecided(choice: Choice) -> list[str]:
    """The line about what may be better than the recommended option set and was replayed too few times."""
    if not choice.undecided:
        return []
    first, *more = choice.undecided
    change = choice.change(choice.whole, first)
    size = f" ({_percent(change.value)})" if change else ""
    others = f" and {len(more)} more" if more else ""
    return [
        f"  not decided: {first.name}{size}{others} may be better, but too few replays of it were possible; give "
        f"{budget_option(choice.undecided_budget(), choice.whole.budget)}"
    ]


def _gained_later(choice: Choice) -> list[str]:
    """The line about options of the reference that act after some time, which the replays did not last."""
    from steve.tune.choice import UNKNOWN

    names = [one.name for one in choice.rows if choice.gains_later(one) and choice.verdict(one) == UNKNOWN]
    if not names:
        return []
    return [
        f"  what {', '.join(names[:NAMED])} gains is not known: the replays were too short for what {choice.reference.name} returns "
        "without it; --verify shows it, or --duration"
    ]


def _returned_later(result: Result) -> list[str]:
    """The allocators that may return memory later than the replays saw."""
    choice = result.choice
    names = dict.fromkeys(one.allocator.name for one in choice.rows if one.allocator.returns_later)
    is_short = result.duration is None and is_too_short(result.program.seconds, replay_seconds(choice))
    return list(names) if is_short else []


def replay_seconds(choice: Choice) -> float:
    """How long a replay on the reference took."""
    from steve.allocstats.medians import median

    return median(choice.whole.samples[choice.reference].wall).value / 1e9


def _too_short(result: Result) -> list[str]:
    """The line that says which allocators return memory later than the replays saw."""
    from steve.tune.program import unseen_returns

    choice = result.choice
    seconds = result.program.seconds
    if choice.found.hints.threads > 1:
        way = "--verify shows it, --duration is not for several threads"
    elif seconds:
        way = f"--duration={math.ceil(seconds)}s replays it in this time"
    else:
        way = "--duration=TIME replays it in the time of the program"
    return unseen_returns(_returned_later(result), seconds, replay_seconds(choice), way)


def _untouched(choice: Choice, program: Program) -> list[str]:
    """The line for a program that cannot have touched all bytes of its blocks, as a replay does: it had less memory."""
    from steve.tune.measure import MEMORY

    reference = choice.reference
    if (
        choice.goal not in (*MEMORY, "balance")
        or reference.allocator.name != program.allocator
        or not reference.is_default
    ):
        return []
    replayed = choice.whole.resident(reference, reference).value
    if not program.resident or replayed <= program.resident:
        return []
    return [
        f"the replay has up to {human_bytes(replayed)} of heap and allocator with {reference.name}, the recorded program had up to "
        f"{human_bytes(program.resident)} with its code and the recorder: a replay writes to all of each block, and the program left "
        "parts of its blocks unused. What it has is less than the table says, by another amount for each allocator, so that their "
        "order may be another one; --verify measures the program"
    ]


def remark_on_hints(choice: Choice) -> list[str]:
    """What the trace suggested to try first."""
    hints, reasons = choice.found.hints, []
    if hints.threads > 1:
        reasons.append(f"{hints.threads} threads: options of arenas")
    if hints.has_large:
        reasons.append(f"{human_bytes(hints.large_freed)} freed in large blocks: thresholds for these")
    if hints.ends:
        reasons.append("the goal is the end: delays after which free memory is returned")
    when = (
        "tried first, as trace and goal suggest"
        if choice.tries_suggested
        else "suggested by trace and goal, but not tried"
    )
    return [f"{when}: {'; '.join(reasons)}"] if reasons else []


def _left_out(choice: Choice) -> list[str]:
    """That for which the budget was too small."""
    found, lines = choice.found, []
    if not_tried := choice.not_tried:
        names = ", ".join(one.name for one in not_tried[:NAMED])
        more = f", and {len(not_tried) - NAMED} more" if len(not_tried) > NAMED else ""
        lines.append(
            f"not tried within the budget: {len(not_tried)} of {found.tried + len(found.not_tried)} option sets "
            f"({names}{more}); {'more --replays try' if choice.whole.budget.counted else 'a longer --budget tries'} more"
        )
    if choice.not_replayed:
        names = ", ".join(one.name for one in choice.not_replayed)
        lines.append(f"not replayed on the whole file within the budget: {names}")
    return lines


def _difference(one: Median, show: Callable[[float], str]) -> str:
    """A difference with its interval."""
    return f"{_signed(one.value, show)} ({_signed(one.low, show)} to {_signed(one.high, show)})"


def _estimate(one: Median, show: Callable[[float], str]) -> str:
    return f"{show(one.value)} ({show(one.low)} to {show(one.high)})"


def _verdicts(verification: Verification | None, reference: OptionSet) -> list[str]:
    if verification is None:
        return []
    if verification.obstacle:
        return [f"--verify: no verdict: {verification.obstacle}"]
    lines = []
    for check in verification.checks:
        show = human_ns if check.name == "CPU time" else human_bytes
        lines.append(
            f"{check.name} of the program with {check.options.name}: {check.outcome}: predicted "
            f"{_difference(check.predicted_change, show)}, measured {_difference(check.measured_change, show)}; that is "
            f"{_estimate(check.measured, show)} against {_estimate(check.reference, show)} with {reference.name}"
        )
    return lines


def _ranked(verification: Verification | None, choice: Choice) -> list[str]:
    """The table of the program itself with each option set that it was run with, and than which the best is certainly better."""
    if verification is None or not verification.ranking:
        return []
    ranking, reference = verification.ranking, choice.reference
    rows = [
        ["", verification.quantity, f"against {reference.name}", "CPU time", f"against {reference.name}", "options"]
    ]
    for number, row in enumerate(ranking, 1):
        own = row.options == reference
        memory = "-" if own else _difference(row.memory_change, human_bytes)
        cpu = "-" if own else _difference(row.cpu_change, human_ns)
        sizes = (human_bytes(row.memory.value), memory, human_ns(row.cpu.value), cpu)
        rows.append([str(number), *sizes, row.options.name])
    best, *others = ranking
    is_time = choice.goal == "time"
    certain = [one for one in others if best.is_better(one, choice.goal)]
    verdict = (
        f"the program itself {'takes the least CPU time' if is_time else 'has least memory'} with {best.options.name}"
    )
    if others:
        unsure = [one.options.name for one in others if one not in certain]
        verdict += f", certainly less than with {' and '.join(one.options.name for one in certain)}" if certain else ""
        verdict += f"; that it is less than with {' and '.join(unsure)} is not certain" if unsure else ""
    return [
        "",
        f"the program itself, {ranking[0].memory.count} runs with the defaults of each allocator and with what was checked "
        "(memory of the process that has most, CPU time of all processes of the command):",
        *aligned(rows).splitlines(),
        verdict,
        *(f"not run with {one.name}: {reason}" for one, reason in verification.not_run.items()),
        "",
    ]


def text_of(result: Result) -> str:
    """All of it, several lines without a newline at the end."""
    choice = result.choice
    of_program = _of_program(result)
    verdicts = (
        {of_program[0].options: "best in the program", of_program[1].options: "best replayed"} if of_program else {}
    )
    lines = [
        _table(choice, _returned_later(result), verdicts),
        _meaning(choice),
        "",
        *_advice_of_program(result),
        *_advice(choice, result.program, bool(result.verification and result.verification.ranking)),
        *_verdicts(result.verification, choice.reference),
        *_ranked(result.verification, choice),
        result.program.described(choice.reference.name),
        *filter(None, [result.program.remark_on_left_out(), result.program.remark_on_asked()]),
    ]
    lines += _untouched(choice, result.program)
    lines += _too_short(result)
    lines += remark_on_hints(choice)
    for allocator, options in choice.found.without_effect().items():
        lines.append(f"no effect on this trace: {allocator} {', '.join(options)}")
    lines += _left_out(choice)
    lines += [f"figure: {path}" for path in result.figure]
    return "\n".join(lines)
