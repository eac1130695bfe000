"""Which option sets to replay, and which of them are the best on a part of the trace: successive halving.

The first rung has every value of every option alone. Each rung replays its candidates some times more and keeps the
best third. After the first rung, the settings that were best alone are combined, and pairs and triples of those that
had an effect are drawn at random. The defaults of all allocators stay in to the end, since everything is compared with
them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from steve.allocstats.medians import ratio
from steve.analysis.opsarrays import FREE
from steve.tune.measure import MEMORY, Bench, Samples
from steve.tune.options import Allocator, OptionSet

if TYPE_CHECKING:
    from steve.analysis.opsarrays import Ops

RUNGS = ((3, 0.4), (4, 0.3), (8, 0.3))  # additional replays of each candidate, and the part of the budget
LEAST_KEPT, FINALISTS, DRAWN, COMBINED = 8, 6, 10, 4
LARGE, MUCH = 64 << 10, 8 << 20  # bytes of a large block; of those that are freed, so that their options come first
SEED = 1
SAME = 0.005  # a difference of this part or less counts as none
CLOSE = 0.003  # scores whose difference is less may be ranked by the number of settings


class Hints(NamedTuple):
    """What a trace and the goal suggest to try first: options for several threads, if there are any; those for large blocks,
    if many bytes of such blocks were freed; delays after which free memory is returned, if what counts is the end."""

    threads: int = 1
    large_freed: int = 0
    ends: bool = False

    @property
    def has_large(self) -> bool:
        """Are many bytes of large blocks freed?"""
        return self.large_freed >= MUCH

    def suggests(self, one: OptionSet) -> bool:
        """Is one of its options suggested?"""
        options = [one.allocator.option(name) for name, _ in one.settings]
        return any(
            (option.threads and self.threads > 1)
            or (option.large and self.has_large)
            or (option.timed and self.ends and not option.threads)
            for option in options
        )


def hints_of(operations: Ops, several_threads: bool) -> Hints:
    """What the operations suggest."""
    import numpy as np

    sizes: dict[int, int] = {}
    freed = 0
    large = (operations.code != FREE) & (operations.size >= LARGE)
    wanted = np.unique(operations.handle[large])
    chosen = np.isin(operations.handle, wanted)
    for code, handle, size in zip(
        operations.code[chosen].tolist(), operations.handle[chosen].tolist(), operations.size[chosen].tolist()
    ):
        before = sizes.pop(handle, 0)
        if code == FREE or size < before:
            freed += before if before >= LARGE else 0
        if code != FREE:
            sizes[handle] = size
    return Hints(len(np.unique(operations.thread)) if several_threads else 1, freed)


@dataclass
class Found:
    """What the search found. hints: what the trace suggested to try first. finalists: best first. tried: how many
    option sets. not_tried: those for which the budget was too small. unusable: with the reasons. ineffective: options
    none of whose values that were tried has an effect, by allocator."""

    finalists: list[OptionSet]
    tried: int
    not_tried: list[OptionSet] = field(default_factory=list)
    unusable: dict[OptionSet, str] = field(default_factory=dict)
    ineffective: dict[str, list[str]] = field(default_factory=dict)
    hints: Hints = Hints()

    def without_effect(self) -> dict[str, list[str]]:
        """The options that have no effect, by allocator: all their values were tried."""
        open_ones = {(one.allocator.name, one.settings[0][0]) for one in self.not_tried if len(one.settings) == 1}
        found = {
            allocator: [option for option in options if (allocator, option) not in open_ones]
            for allocator, options in self.ineffective.items()
        }
        return {allocator: options for allocator, options in found.items() if options}


def singles(allocator: Allocator, threads: bool) -> list[OptionSet]:
    """Every value of every option alone. threads: also of options that need several threads."""
    return [
        OptionSet(allocator).with_setting(option.name, value)
        for option in allocator.options
        if threads or not option.threads
        for value in option.values
    ]


def suggested_of(reference: OptionSet, threads: bool, hints: Hints) -> list[OptionSet]:
    """The option sets of the reference's allocator to try first, in turn: one value of each option that is suggested, then the
    next one of each. threads: as of singles()."""
    return in_turn([one for one in singles(reference.allocator, threads) if hints.suggests(one)])


def joined(sets: list[OptionSet]) -> OptionSet:
    """One set with all settings of several."""
    whole = sets[0]
    for name, value in [setting for one in sets[1:] for setting in one.settings]:
        whole = whole.with_setting(name, value)
    return whole


def drawn(alone: list[OptionSet], count: int, source: random.Random) -> list[OptionSet]:
    """Pairs and triples of different options, drawn at random."""
    by_option: dict[str, list[OptionSet]] = {}
    for one in alone:
        by_option.setdefault(one.settings[0][0], []).append(one)
    if len(by_option) < 2:
        return []
    found = []
    for _ in range(count):
        names = source.sample(sorted(by_option), min(source.choice((2, 3)), len(by_option)))
        found.append(joined([source.choice(by_option[name]) for name in names]))
    return list(dict.fromkeys(found))


def combined(best: list[OptionSet]) -> list[OptionSet]:
    """Pairs and triples of the best single settings, of different options of one allocator each."""
    found = []
    for allocator in dict.fromkeys(one.allocator for one in best):
        mine: dict[str, OptionSet] = {}
        for one in best:
            if one.allocator == allocator and len(one.settings) == 1:
                mine.setdefault(one.settings[0][0], one)
        few = list(mine.values())[:COMBINED]
        found += [joined(list(some)) for n in (2, 3) for some in itertools.combinations(few, n)]
    return found


def ranked(bench: Bench, candidates: list[OptionSet], reference: OptionSet, goal: str) -> list[OptionSet]:
    """The candidates, best first. Of almost equal ones, the one with fewer settings is better."""
    scores = {one: bench.score(one, reference, goal) for one in candidates}
    return sorted(candidates, key=lambda one: (round(scores[one] / CLOSE), len(one.settings), scores[one]))


def in_turn(alone: list[OptionSet]) -> list[OptionSet]:
    """Option sets of one setting each: one value of each option, then the next one of each."""
    of_options: dict[tuple[str, str], list[OptionSet]] = {}
    for one in alone:
        of_options.setdefault((one.allocator.name, one.settings[0][0]), []).append(one)
    return [one for some in itertools.zip_longest(*of_options.values()) for one in some if one is not None]


class Search:
    """One search on one bench. tick is called after each replay."""

    def __init__(
        self,
        bench: Bench,
        defaults: list[OptionSet],
        reference: OptionSet,
        goal: str,
        tick: Callable[[], None],
        hints: Hints = Hints(),
    ) -> None:
        self.hints = hints
        self.bench, self.defaults, self.reference, self.goal, self.tick = bench, defaults, reference, goal, tick
        self.source = random.Random(SEED)

    def ranked(self, candidates: list[OptionSet]) -> list[OptionSet]:
        """The candidates, best first."""
        return ranked(self.bench, candidates, self.reference, self.goal)

    def room(self, amount: float, rounds: int) -> int:
        """How many candidates can be replayed so many times with that much of the budget, as the replays so far took."""
        return int(amount / self.bench.each / rounds)

    def first_candidates(self, alone: list[OptionSet], amount: float, end: float) -> list[OptionSet]:
        """Those of the settings for which the first rung has enough of the budget, what the trace suggests first. The defaults
        that were not replayed on this file are replayed once before, the reference first."""
        for default in self.defaults:
            if default not in self.bench.samples:
                self.bench.measure([default], 1, end, self.tick)
        room = self.room(amount, 2)
        if room >= len(alone):
            return alone
        first = in_turn([one for one in alone if self.hints.suggests(one)])
        others = [one for one in alone if not self.hints.suggests(one)]
        drawn_first = first[:room]
        return drawn_first + self.source.sample(others, min(room - len(drawn_first), len(others)))

    def more_candidates(self, alone: list[OptionSet], ineffective: dict[str, list[str]]) -> list[OptionSet]:
        """Combinations of the best of the settings that had an effect, and some drawn at random. alone: best first."""
        useful = [one for one in alone if one.settings[0][0] not in ineffective.get(one.allocator.name, ())]
        found = combined(useful)
        for allocator in dict.fromkeys(one.allocator for one in useful):
            found += drawn([one for one in useful if one.allocator == allocator], DRAWN, self.source)
        return list(dict.fromkeys(found))

    def ineffective(self, alone: list[OptionSet]) -> dict[str, list[str]]:
        """The options none of whose values that were tried changed memory, page faults or time, by allocator."""
        changed: dict[tuple[str, str], bool] = {}
        for one in alone:
            key = (one.allocator.name, one.settings[0][0])
            changed[key] = changed.get(key, False) or self.differs(one, OptionSet(one.allocator))
        found: dict[str, list[str]] = {}
        for (allocator, option), is_changed in changed.items():
            if not is_changed:
                found.setdefault(allocator, []).append(option)
        return found

    def differs(self, one: OptionSet, default: OptionSet) -> bool:
        """Does an option set differ measurably from the defaults of its allocator, or is that not known?"""
        mine, base = self.bench.samples[one], self.bench.samples.get(default, Samples())
        if not mine.resident or not base.resident:
            return True
        pairs = [(mine.faults, base.faults)]
        pairs += [
            (self.bench.of(one, self.reference, goal), self.bench.of(default, self.reference, goal))
            for goal in {"peak", self.goal if self.goal in MEMORY else "peak"}
        ]
        if any(abs(ratio(values, others).value - 1) > SAME for values, others in pairs):
            return True
        time_ratio = ratio(mine.cpu, base.cpu)
        return time_ratio.low > 1 + SAME or time_ratio.high < 1 - SAME

    def run(self, threads: bool, end: float) -> Found:
        """Search until `end` of the budget is spent, at most. SteveError if the reference cannot be replayed."""
        begun = self.bench.budget.spent
        amount = max(0.0, end - begun)
        considered = [one for default in self.defaults for one in singles(default.allocator, threads)]
        candidates = self.first_candidates(considered, amount * RUNGS[0][1], end)
        ineffective: dict[str, list[str]] = {}
        ranked: list[OptionSet] = []
        share = 0.0
        for number, (rounds, part) in enumerate(RUNGS):
            share += part
            until = begun + amount * share
            again = [one for one in self.defaults if number or self.bench.count(one) < rounds]
            self.bench.measure(dict.fromkeys([*again, *candidates]), rounds, until, self.tick)
            usable = self.bench.measured(list(dict.fromkeys([*self.defaults, *candidates])))
            ranked = self.ranked(usable) if self.bench.measured([self.reference]) else []
            candidates = ranked[: max(LEAST_KEPT, len(ranked) // 3)]
            if number == 0:
                alone = [one for one in ranked if len(one.settings) == 1]
                ineffective = self.ineffective(alone)
                more = self.more_candidates(alone, ineffective)
                considered += more
                room = max(0, self.room(amount * RUNGS[1][1], 2) - len(candidates))
                candidates = list(dict.fromkeys([*candidates, *more[:room]]))
        samples = self.bench.samples
        return Found(
            ranked[:FINALISTS],
            len(samples),
            [one for one in dict.fromkeys(considered) if one not in samples],
            {one: of.failure for one, of in samples.items() if of.failure},
            ineffective,
            self.hints,
        )
