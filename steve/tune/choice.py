"""Which of the best option sets of the search to recommend.

The search ranks candidates on one part of the trace, and some win there by chance, or because that part is different
from the rest. So its best candidates are replayed again, on the whole file and on the held-out part that the search has
not seen, in turns with the defaults of all allocators. A candidate is recommended only if it is certainly better there
than the defaults of its allocator, and than the reference: on the whole file, which shows what it saves, and on the
held-out part, which shows that the saving is not peculiar to what was searched. Of several such candidates, the one
that is best on the whole file is recommended; without any, the defaults of the reference are. If no part is held out,
the bench of the whole file takes its place, and nothing is replayed twice for that.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from steve.allocstats.medians import Median
from steve.tune.measure import MEMORY, Bench
from steve.tune.options import OptionSet
from steve.tune.search import CLOSE, Found, ranked

ROUNDS, LEAST_ROUNDS = 11, 5
UNKNOWN, TOO_FEW = "not known, see below", "replayed too few times"  # verdicts
# of a budget that is too small to compare all defaults: what their comparison takes at most, and what is spent on the options
# that are suggested first
DEFAULTS_SHARE, SUGGESTED_SHARE = 0.6, 0.25


@dataclass
class Choice:
    """The candidates of the search, with their replays of three parts: the searched one, the whole file, and the
    held-out one, which is called `held_out_name`; without one, `held_out` is `whole`. candidates: the best of the search
    and all defaults. doubt: why the program may need less memory on the allocator of the reference than its replay does, so
    that no other allocator is known to need less; "" if nothing says so. is_short: may the reference return memory after a time
    that the replays did not last? Then it is not known either what its options gain that act after some time."""

    goal: str
    reference: OptionSet
    found: Found
    searched: Bench
    whole: Bench
    held_out: Bench
    held_out_name: str
    candidates: list[OptionSet]
    doubt: str = ""
    is_short: bool = False

    @cached_property
    def rows(self) -> list[OptionSet]:
        """The candidates by what they cost on the whole file, the best first."""
        return ranked(self.whole, self.whole.measured(self.candidates), self.reference, self.goal)

    @cached_property
    def objections(self) -> dict[OptionSet, str]:
        """By row, why an option set cannot be recommended; "" if nothing speaks against it."""
        return {one: self._objection(one) for one in self.rows}

    @property
    def recommended(self) -> OptionSet:
        """The best of the confirmed candidates; the reference if there is none, which says something only if `judged`."""
        return next((one for one in self.rows if not self.objections[one]), self.reference)

    @property
    def undecided(self) -> list[OptionSet]:
        """The rows that are better than the recommended one, as far as is known, but were replayed too few times, the best
        first."""
        better = itertools.takewhile(lambda one: one != self.recommended, self.rows)
        return [one for one in better if self.objections[one] == TOO_FEW]

    def undecided_budget(self) -> float:
        """About what budget a verdict about these takes, in its unit, as the replays so far took."""
        missing = [
            LEAST_ROUNDS - bench.count(one) for one in self.undecided for bench in _checked(self.whole, self.held_out)
        ]
        return self.whole.budget.spent + sum(max(0, n) for n in missing) * self.whole.each

    @property
    def judged(self) -> bool:
        """Were the reference and at least one other option set replayed often enough to compare them?"""
        return any(
            min(bench.count(one) for bench in (self.whole, self.held_out)) >= LEAST_ROUNDS
            for one in self.rows
            if one != self.reference
        ) and all(bench.count(self.reference) >= LEAST_ROUNDS for bench in (self.whole, self.held_out))

    @property
    def holds_out(self) -> bool:
        """Is a part held out from the search?"""
        return self.held_out is not self.whole

    @property
    def least_budget(self) -> float:
        """About what budget a verdict about the defaults takes, in its unit, as the replays so far took."""
        benches = (self.searched, *_checked(self.whole, self.held_out))
        beside = self.whole.budget.spent - sum(bench.spent for bench in benches)
        return beside + of_defaults(sum(one.is_default for one in self.candidates), self.whole, self.held_out)

    @property
    def not_tried(self) -> list[OptionSet]:
        """The option sets for which the budget was too small to try them at all."""
        return [one for one in self.found.not_tried if not self.whole.count(one)]

    @property
    def tries_suggested(self) -> bool:
        """Was an option set tried that the trace and the goal suggest?"""
        tried = [one for bench in (self.searched, self.whole) for one in bench.samples]
        return any(self.found.hints.suggests(one) for one in tried)

    @property
    def not_replayed(self) -> list[OptionSet]:
        """The candidates for which the budget was too small to replay them on the whole file."""
        return [one for one in self.candidates if one not in self.whole.samples]

    @property
    def contender(self) -> OptionSet:
        """The recommended option set; without one, the best that is not the reference, if there is any."""
        others = [self.recommended, *self.rows]
        return next((one for one in others if one != self.reference), self.reference)

    def verdict(self, one: OptionSet) -> str:
        """What became of a row."""
        if one == self.reference and not self.judged:
            return "not compared"
        if one == self.recommended:
            return "recommended"
        return self.objections[one] or "better, but not the best"

    def change(self, bench: Bench, one: OptionSet, goal: str | None = None) -> Median | None:
        """The ratio of an option set to the reference; None if one of them was not replayed."""
        known = bench.count(one) and bench.count(self.reference)
        return bench.ratio(one, self.reference, goal or self.goal) if known else None

    def _objection(self, one: OptionSet) -> str:
        if one == self.reference:
            return "the reference"
        for base in dict.fromkeys([self.reference, OptionSet(one.allocator)]):
            parts = ("the whole file", self.held_out_name)
            for bench, part in zip(_checked(self.whole, self.held_out), parts):
                if base != one and (reason := self._shortfall(bench, one, base, part)):
                    return reason
        return UNKNOWN if self.is_doubtful(one) else ""

    def is_doubtful(self, one: OptionSet) -> bool:
        """Is it not known whether an option set needs less memory than the reference, and is that the goal?"""
        is_other = one.allocator != self.reference.allocator
        return self.goal in (*MEMORY, "balance") and (bool(self.doubt and is_other) or self.gains_later(one))

    def gains_later(self, one: OptionSet) -> bool:
        """Is it an option of the reference that acts after some time, which the replays did not last?"""
        return self.is_short and one.allocator == self.reference.allocator and bool(one.timed)

    def _shortfall(self, bench: Bench, one: OptionSet, base: OptionSet, part: str) -> str:
        """Why an option set is not certainly better than another one on a part; "" if it is."""
        replays = min(bench.count(one), bench.count(base))
        if replays and not self._gains(bench, one, base):
            return f"not better than {base.name} on {part}"
        return TOO_FEW if replays < LEAST_ROUNDS else ""

    def _gains(self, bench: Bench, one: OptionSet, base: OptionSet) -> bool:
        """Does an option set certainly cost less than another one, by more than what counts as equal?"""
        change = bench.ratio(one, base, self.goal)
        return change.high < 1 and change.value <= 1 - CLOSE


def _final(found: Found, defaults: list[OptionSet]) -> list[OptionSet]:
    """The option sets to replay again, the most important first: the reference, which is the first of the defaults; the
    best of the search, with the defaults of its allocator; the other defaults; the other candidates."""
    best = [one for finalist in found.finalists[:1] for one in (OptionSet(finalist.allocator), finalist)]
    wanted = dict.fromkeys([defaults[0], *best, *defaults, *found.finalists])
    return [one for one in wanted if one not in found.unusable]


def _checked(whole: Bench, held_out: Bench) -> list[Bench]:
    """The benches on which the candidates are replayed again."""
    return [whole] if held_out is whole else [whole, held_out]


def of_defaults(count: int, whole: Bench, held_out: Bench) -> float:
    """About what a verdict about the defaults of `count` allocators takes of the budget, as the replays so far took."""
    each = sum(bench.each if bench.replays else whole.each for bench in _checked(whole, held_out))
    return LEAST_ROUNDS * count * each


def replay_defaults(
    defaults: list[OptionSet],
    suggested: list[OptionSet],
    whole: Bench,
    held_out: Bench,
    tick: Callable[[], None],
    warn: Callable[[float, bool], None],
) -> list[OptionSet]:
    """Replay the defaults of all allocators on the whole file and the held-out part, as often as a verdict needs or as the
    budget permits: which allocator is the first question, and its options are the next. The reference, which is their
    first, is replayed at least once on the whole file.

    If most of the budget is needed for a verdict about all of them, each is replayed once, and so are some option sets that are
    `suggested` for the allocator of the reference, and the most promising go on. If the budget is too small for that verdict,
    warn() is called after one replay of each, with what it takes, and whether a verdict about two is possible. Returns those
    that were to be compared."""
    end = whole.budget.amount
    whole.measure(defaults[:1], 1, math.inf, tick)
    if not whole.count(defaults[0]):
        return defaults
    whole.measure(defaults[1:], 1, end, tick)
    expected = of_defaults(len(defaults), whole, held_out)
    if expected > end:
        warn(expected, of_defaults(2, whole, held_out) <= end)
    compared = defaults
    if expected > DEFAULTS_SHARE * end:
        room = int(SUGGESTED_SHARE * (end - whole.budget.spent) / whole.each)
        whole.measure(suggested[: max(0, room)], 1, end, tick)
        compared = _promising([*defaults, *suggested], whole, held_out)
    for number in range(LEAST_ROUNDS):
        for bench in _checked(whole, held_out)[number == 0 :]:
            bench.measure(compared, 1, end, tick)
    return compared


def _promising(known: list[OptionSet], whole: Bench, held_out: Bench) -> list[OptionSet]:
    """The reference, which is the first, and of the others those that cost least in their one replay: as many as there is a
    budget for, of which a part is left for the search."""
    left = DEFAULTS_SHARE * (whole.budget.amount - whole.budget.spent)
    room = int(left / of_defaults(1, whole, held_out))
    others = ranked(whole, whole.measured(known[1:]), known[0], whole.goal)
    return [known[0], *others[: max(1, room - 1)]]


def choose(
    goal: str,
    defaults: list[OptionSet],
    found: Found,
    benches: tuple[Bench, Bench, Bench],
    held_out_name: str,
    tick: Callable[[], None],
) -> Choice:
    """Replay the best of the search again, until the budget is spent at most. defaults: those of all allocators, the
    reference first. benches: on the part that was searched, the whole file and the held-out part."""
    searched, whole, held_out = benches
    end = whole.budget.amount
    checked = _checked(whole, held_out)
    for bench in checked[1:]:
        bench.measure(defaults[:1], 1, end, tick)
    final = _final(found, defaults)

    def so_far() -> Choice:
        return Choice(goal, defaults[0], found, searched, whole, held_out, held_out_name, final)

    _decide(so_far, checked, tick)
    room = int((end - whole.budget.spent) / sum(bench.each for bench in checked) / (LEAST_ROUNDS + 1))
    chosen = final[: max(1, room)]
    for _ in range(LEAST_ROUNDS):
        for bench in checked:
            bench.measure(chosen, 1, end, tick)
    _decide(so_far, checked, tick)
    for _ in range(ROUNDS - LEAST_ROUNDS):
        for bench in checked:
            bench.measure(chosen, 1, end, tick)
    return so_far()


def _decide(made: Callable[[], Choice], checked: list[Bench], tick: Callable[[], None]) -> None:
    """Replay what may be better than the recommended option set, and was replayed too few times, often enough for a verdict, the
    best first, as long as the budget lasts. made: makes the choice from what was measured so far."""
    budget = checked[0].budget
    while budget.spent < budget.amount and (undecided := made().undecided):
        replays = budget.replays
        for one in dict.fromkeys((OptionSet(undecided[0].allocator), undecided[0])):
            for bench in checked:
                bench.measure([one], LEAST_ROUNDS - bench.count(one), budget.amount, tick)
        if replays == budget.replays:
            return
