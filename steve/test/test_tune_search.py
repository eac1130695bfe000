"""steve tune: which options are searched for, in what order, within a budget, and what is recommended, on pretended replays.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from steve.allocstats.medians import Median
from steve.allocstats.replay import Outcome
from steve.analysis import opsarrays
from steve.commands.tune import _as_json
from steve.tune.budget import Budget
from steve.tune.choice import TOO_FEW, Choice, choose, replay_defaults
from steve.tune.measure import Bench
from steve.tune.options import OptionSet, read_table
from steve.tune.program import Program
from steve.tune.search import Found, Hints, Search, combined, drawn, hints_of, in_turn, singles, suggested_of
from steve.tune.text import Result, remark_on_hints, text_of
from steve.tune.verify import Check, Measured, Verification

SOURCE = Path(os.environ["LJTRACE_SRCDIR"])
TABLES = sorted((SOURCE / "drivers" / "allocators").glob("*.toml"))


def test_candidates_combine_different_options_of_one_allocator() -> None:
    tables = [read_table(str(path), path.stem) for path in TABLES]
    alone = [one for table in tables for one in singles(table, False)]
    assert all(len(one.settings) == 1 and not one.allocator.option(one.settings[0][0]).threads for one in alone)
    pairs = combined(alone)
    assert pairs and all(len(one.settings) in (2, 3) for one in pairs)
    glibc = [one for one in alone if one.allocator.name == "glibc"]
    assert drawn(glibc, 5, random.Random(1)) == drawn(glibc, 5, random.Random(1)) != []


class PretendedReplay:
    """Replays that take a second of a pretended clock, or `seconds`. cost(part, settings) is their peak of resident
    memory, settings being the value of GLIBC_TUNABLES or, without that, of LD_PRELOAD; own is what the replay itself has, of both in MB.
    """

    def __init__(self, cost: Callable[[str, str], float], seconds: float = 1, own: float = 0) -> None:
        self.cost, self.seconds, self.own = cost, seconds, own
        self.now, self.source = 1000.0, random.Random(1)

    def run(self, *arguments: str, env: dict[str, str]) -> Outcome:
        """Answer as steve-replay --system does."""
        self.now += self.seconds
        peak = 1e6 * self.cost(
            arguments[1], env.get("GLIBC_TUNABLES") or env.get("LD_PRELOAD", "")
        ) + self.source.uniform(-500, 500)
        slower = 1.5 if "mxfast=0" in env.get("GLIBC_TUNABLES", "") else 1
        answer = {"process_peak": 1e6 * self.own + peak, "peak_resident": peak}
        answer |= {"mean_resident": peak / 2, "end_resident": peak / 3, "ended_resident": peak / 4}
        answer |= {"operations": 10**4, "cpu_ns": 1e6 * slower, "wall_ns": 1e6, "page_faults": peak / 4096}
        return Outcome(0, json.dumps(answer), "", False)


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    cost: Callable[[str, str], float],
    amount: float,
    counted: bool = False,
    seconds: float = 1,
    own: float = 0,
    goal: str = "peak",
    holds_out: bool = True,
) -> tuple[Choice, float]:
    """Search among the options of glibc with pretended costs; the choice, and what it took of the budget. holds_out: is
    there a held-out part?"""
    replay = PretendedReplay(cost, seconds, own)
    monkeypatch.setattr(time, "monotonic", lambda: replay.now)
    glibc = OptionSet(read_table(str(SOURCE / "drivers/allocators/glibc.toml"), "glibc"))
    budget = Budget(amount, counted)
    parts = ("searched", "whole", "rest") if holds_out else ("searched", "whole")
    benches = [Bench(replay, part, goal, budget) for part in parts]  # type: ignore
    benches[1].measure([glibc], 1, 1e18, lambda: None)
    found = Search(benches[0], [glibc], glibc, goal, lambda: None).run(False, budget.after(0.5))
    three = (benches[0], benches[1], benches[-1])
    choice = choose(goal, [glibc], found, three, "the rest" if holds_out else "", lambda: None)
    assert budget.replays == sum(bench.replays for bench in benches) == (replay.now - 1000) / seconds
    return choice, budget.spent


def misleading(part: str, settings: str) -> float:
    """top_pad=4096 is the best in the first half only; mxfast=0 is better everywhere, but not as much."""
    factor = 1.0
    if "top_pad=4096" in settings:
        factor *= {"searched": 0.7, "whole": 1.05, "rest": 1.1}[part]
    return factor * (0.95 if "mxfast=0" in settings else 1)


def test_an_option_that_is_good_in_the_first_half_only_is_not_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    choice, _ = chosen(monkeypatch, misleading, 2000)
    assert "top_pad=4096" in choice.found.finalists[0].name
    assert choice.recommended.name == "glibc mxfast=0"
    assert choice.rows[0] == choice.recommended and choice.verdict(choice.recommended) == "recommended"
    for one in choice.rows:
        if "top_pad=4096" in one.name:
            assert choice.verdict(one).startswith("not better than glibc on the ")
    changes = [choice.change(bench, choice.recommended) for bench in (choice.whole, choice.held_out)]
    assert all(change and abs(change.value - 0.95) < 0.001 and change.high < 1 for change in changes)


@pytest.mark.parametrize("goal", ["peak", "mean", "end"])
def test_changes_are_of_the_bytes_that_are_shown(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay itself has twice the memory of the heap, which is in neither column."""
    choice, _ = chosen(monkeypatch, misleading, 2000, own=2, goal=goal)
    result = _as_json(argparse.Namespace(file="t.ljt"), Result(choice))
    base = next(row for row in result["rows"] if not row["options"])
    assert base["ratio"]["median"] == 1 and base["resident"]["median"] < 1.01e6
    for row in result["rows"]:
        assert row["ratio"]["median"] == row["resident"]["median"] / base["resident"]["median"], row
        assert row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"]
    best = result["recommended"]
    assert best["options"] == {"mxfast": "0"}
    for ratio_of in (best["ratio"], best["held_out"]):
        assert abs(ratio_of["median"] - 0.95) < 0.01 and ratio_of["high"] < 0.96, ratio_of
    text = text_of(Result(choice))
    assert f"; {goal}: change of these bytes against glibc" in text
    assert f"\n  resident memory of heap and allocator ({goal}) -" in text
    assert "\n  time against glibc: +50.0 ns per operation (+50.0 to +50.0), +500 µs in all\n" in text
    for program, part in (
        (Program(seconds=10), "the 10 s that elapsed, with all waits"),
        (Program(seconds=10, cpu_seconds=1), ""),
    ):
        part = part or "its CPU time of 1 s"
        share = "0.1%" if program.cpu_seconds else "0.0%"
        assert f", +500 µs in all, which is {share} of {part}\n" in text_of(Result(choice, program))


@pytest.mark.parametrize("bad", ["whole", "rest"])
def test_the_defaults_are_kept_if_nothing_is_better_on_both_parts(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better on one of both is not enough, and a difference that counts as none is none."""

    def cost(part: str, settings: str) -> float:
        return 0.999 if "mxfast=0" in settings and part == bad else 0.9 if settings and part != bad else 1.0

    choice, _ = chosen(monkeypatch, cost, 2000)
    assert choice.recommended == choice.reference != choice.contender
    part = {"whole": "the whole file", "rest": "the rest"}[bad]
    assert choice.verdict(choice.contender) == f"not better than glibc on {part}"
    text = text_of(Result(choice))
    assert f"\nkeep the defaults of glibc: no option set is certainly better for {choice.goal}\n" in text
    assert f"\n  the best of the others, {choice.contender.name}: not better than glibc on {part}" in text


@pytest.mark.parametrize("counted", [False, True], ids=["time", "replays"])
@pytest.mark.parametrize("budget", [0.5, 3, 10, 40, 150, 700])
def test_a_budget_is_exceeded_by_one_replay_at_most(
    budget: float, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, spent = chosen(monkeypatch, misleading, budget, counted)
    assert spent <= max(budget, 1) + (0 if counted else 1)
    tried, found = set(choice.searched.samples), choice.found
    assert found.tried == len(tried) and not tried & set(found.not_tried)
    assert set(singles(choice.reference.allocator, False)) <= tried | set(found.not_tried)
    assert bool(found.not_tried) == (budget < 700)
    text = text_of(Result(choice))
    assert (f"not tried within the budget: {len(found.not_tried)} of " in text) == (budget < 700)
    assert ("--replays try more" in text) == (counted and budget < 700)
    for one in choice.rows:  # what was replayed too rarely is not recommended
        if min(choice.whole.count(one), choice.held_out.count(one)) < 5:
            assert one != choice.recommended or one == choice.reference


def test_nothing_is_said_of_what_was_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that the defaults are to be kept, nor that they are recommended."""
    choice, _ = chosen(monkeypatch, misleading, 3, True)
    text = text_of(Result(choice))
    assert not choice.judged and choice.verdict(choice.reference) == "not compared"
    assert "no verdict: the budget was too small" in text
    assert "keep the defaults" not in text and "recommended" not in text
    least = "the defaults alone take about --replays=10, what else is tried some more"  # five times on two parts
    assert f"\n  {least}\n" in text
    choice, _ = chosen(monkeypatch, misleading, 2000)
    assert choice.judged


def test_without_a_held_out_part_nothing_is_replayed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file decides alone. A column, a JSON field or a sentence about a part that was held out would be wrong."""
    choice, _ = chosen(monkeypatch, misleading, 3, True, goal="end", holds_out=False)
    assert (
        not choice.judged
        and "\n  the defaults alone take about --replays=5, what else is tried some more\n" in text_of(Result(choice))
    )
    choice, _ = chosen(monkeypatch, misleading, 2000, goal="end", holds_out=False)
    assert choice.recommended.name == "glibc mxfast=0" and choice.whole.count(choice.reference) == 12
    text = text_of(Result(choice))
    assert "end, whole file" in text and "end, held out" not in text and "; on the" not in text
    assert "; no part of it was held out from the search: --holdout or --verify shows" in text
    result = _as_json(argparse.Namespace(file="t.ljt"), Result(choice))
    assert result["held_out_part"] is None and {row["held_out"] for row in result["rows"]} == {None}


def test_nothing_is_less_than_what_the_replay_of_the_reference_exceeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that returns memory by mallctl, as redis does, needs less on jemalloc than its replay: another allocator is
    not recommended for memory."""
    assert Program("jemalloc", asks=("malloc_usable_size", "mallctl")).returning == "mallctl"
    assert not Program("glibc", asks=("malloc_usable_size", "mallctl")).returning
    jemalloc = OptionSet(read_table(str(SOURCE / "drivers/allocators/jemalloc.toml"), "jemalloc"))
    for goal in ("peak", "time"):
        choice, _ = chosen(monkeypatch, misleading, 2000, goal=goal)
        best = choice.rows[0]
        kept = replace(choice, doubt="the program may return memory by mallctl, which no replay does")
        assert kept.recommended == choice.recommended, "of the same allocator"
        assert choice.goal == "time" or best == choice.recommended != choice.reference
        other = replace(kept, reference=jemalloc)
        for bench in {choice.whole, choice.held_out}:
            bench.samples[jemalloc] = bench.samples[choice.reference]
        assert (other.verdict(best) == "not known, see below") == (goal == "peak"), other.verdict(best)
        text = text_of(Result(other))
        assert ("another allocator needs less than jemalloc is not known: the program may return" in text) == (
            goal == "peak"
        )


@pytest.mark.parametrize(
    "budget, is_possible, replays",
    [(70, None, [5, 5, 5, 5, 0, 0]), (30, True, [5, 1, 5, 1, 1, 1]), (1, False, [1, 0, 0, 0, 0, 0])],
)
def test_the_defaults_come_before_options(
    budget: float, is_possible: bool | None, replays: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which allocator is better is answered first. If there is no time for all of them, each is replayed once, and so are
    options that the trace suggests for the reference; only the reference and the best go on, so that there is a verdict.
    """
    replay, (defaults, suggested), shared = pretended_defaults(monkeypatch), allocators_and_arenas(), Budget(budget)
    whole, rest = (Bench(replay, part, "peak", shared) for part in ("whole", "rest"))  # type: ignore
    said: list[tuple[float, bool]] = []
    compared = replay_defaults(defaults, suggested, whole, rest, lambda: None, lambda *what: said.append(what))
    assert [whole.count(one) for one in defaults + suggested[:2]] == replays
    assert said == ([] if is_possible is None else [(40, is_possible)])
    assert compared == {70: defaults, 30: [defaults[0], defaults[2]], 1: defaults[:1]}[budget]
    assert shared.spent == whole.replays + rest.replays == {70: 40, 30: 24, 1: 1}[budget]


def test_an_option_that_is_suggested_may_be_the_most_promising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 seconds that the defaults take, 30 are there: one arena needs least, and is compared with the reference."""
    replay, (defaults, suggested), shared = pretended_defaults(monkeypatch, 0.3), allocators_and_arenas(), Budget(30)
    whole, rest = (Bench(replay, part, "peak", shared) for part in ("whole", "rest"))  # type: ignore
    compared = replay_defaults(defaults, suggested, whole, rest, lambda: None, lambda *_: None)
    assert compared == [defaults[0], suggested[0]] and suggested[0].name == "glibc arena_max=1"
    assert [whole.count(one) for one in compared] == [5, 5]
    other = defaults[0].with_setting("mxfast", "0")
    found = Found([], 3, [suggested[1], other], hints=Hints(16))
    choice = Choice("peak", defaults[0], found, rest, whole, rest, "the rest", [*defaults, *suggested])
    assert choice.recommended == suggested[0] and choice.verdict(suggested[0]) == "recommended"
    assert choice.not_tried == [other], "arena_max=2 was tried once"
    assert choice.tries_suggested
    assert remark_on_hints(choice) == ["tried first, as trace and goal suggest: 16 threads: options of arenas"]
    none = Bench(replay, "none", "peak", shared)  # type: ignore
    untried = Choice("peak", defaults[0], found, none, none, none, "the rest", defaults)
    assert remark_on_hints(untried) == ["suggested by trace and goal, but not tried: 16 threads: options of arenas"]


def _with_an_undecided_option(monkeypatch: pytest.MonkeyPatch, left: float) -> tuple[Choice, OptionSet, OptionSet]:
    """The choice between glibc, jemalloc, which needs 0.8 of its memory, and one arena, which needs half and was replayed once.
    left: what is left of the budget, in replays."""
    replay = PretendedReplay(
        lambda _, settings: 0.5 if "arena_max" in settings else 0.8 if "jemalloc" in settings else 1.0
    )
    monkeypatch.setattr(time, "monotonic", lambda: replay.now)
    glibc, jemalloc = (
        OptionSet(read_table(str(SOURCE / f"drivers/allocators/{name}.toml"), name)) for name in ("glibc", "jemalloc")
    )
    arena = glibc.with_setting("arena_max", "1")
    budget = Budget(11 + left)
    whole = Bench(replay, "whole", "peak", budget)  # type: ignore
    for one, rounds in ((glibc, 5), (jemalloc, 5), (arena, 1)):
        whole.measure([one], rounds, 1e18, lambda: None)
    choice = choose("peak", [glibc, jemalloc], Found([arena], 3), (whole, whole, whole), "the file", lambda: None)
    return choice, jemalloc, arena


@pytest.mark.parametrize("goal", ["peak", "time"])
def test_it_says_if_the_program_did_not_touch_all_of_its_blocks(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay has 1 MB at its peak, which is more than the program can have had."""
    choice, _ = chosen(monkeypatch, misleading, 200, goal=goal)
    for name, most, said in (("glibc", 800_000, True), ("glibc", 1_200_000, False), ("jemalloc", 800_000, False)):
        text = text_of(Result(choice, Program(name, resident=most)))
        assert ("the program left parts of its blocks unused" in text) == (said and goal == "peak"), text
    assert (
        "the recorded program had up to 781 KiB with" in text_of(Result(choice, Program("glibc", resident=800_000)))
        or goal == "time"
    )


def test_what_may_be_better_is_decided_before_others_are_replayed_more(monkeypatch: pytest.MonkeyPatch) -> None:
    choice, _, arena = _with_an_undecided_option(monkeypatch, 4)
    assert choice.whole.count(arena) == 5 and choice.recommended == arena and not choice.undecided
    assert "not decided" not in text_of(Result(choice))


def test_what_may_be_better_is_named_if_the_budget_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with it the budget for a verdict: that of the 14 replays so far, and of 1 more."""
    choice, jemalloc, arena = _with_an_undecided_option(monkeypatch, 3)
    assert choice.recommended == jemalloc and choice.undecided == [arena] and choice.verdict(arena) == TOO_FEW
    said = re.search(
        r"not decided: glibc arena_max=1 \(-\d+\.\d%\) may be better, .* give --budget=(\d+)s", text_of(Result(choice))
    )
    assert said and int(said[1]) == math.ceil(1.2 * 15)


def test_what_acts_later_is_not_recommended_by_short_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not see what the defaults return after some time, so that an option that returns it at once seems to gain that."""
    replay = PretendedReplay(lambda *_: 1.0)
    monkeypatch.setattr(time, "monotonic", lambda: replay.now)
    jemalloc = OptionSet(read_table(str(SOURCE / "drivers/allocators/jemalloc.toml"), "jemalloc"))
    at_once = jemalloc.with_setting("dirty_decay_ms", "0")
    bench = Bench(replay, "whole", "peak", Budget())  # type: ignore
    bench.measure([jemalloc], 5, 1e18, lambda: None)
    replay.cost = lambda *_: 0.5
    bench.measure([at_once], 5, 1e18, lambda: None)
    for short in (False, True):
        found = Found([], 2)
        choice = Choice("peak", jemalloc, found, bench, bench, bench, "", [jemalloc, at_once], is_short=short)
        assert choice.recommended == (jemalloc if short else at_once)
        assert choice.verdict(at_once) == ("not known, see below" if short else "recommended")
        said = "what jemalloc dirty_decay_ms=0 gains is not known: the replays were too short for what jemalloc returns"
        assert (said in text_of(Result(choice))) == short, text_of(Result(choice))
        for hints, way in ((Hints(1), "give --duration, or check it"), (Hints(8), "check it")):
            choice.found = Found([], 2, hints=hints)
            said = f"\n  dirty_decay_ms: acts after some time; {way} with --verify\n"
            assert (said in text_of(Result(choice))) != short
        choice.goal = "time"
        assert not choice.is_doubtful(at_once)


def pretended_defaults(monkeypatch: pytest.MonkeyPatch, one_arena: float = 1.0) -> PretendedReplay:
    """Replays of which mimalloc is best, but for glibc with one arena if that costs less."""
    costs = {"": 1.0, "libjemalloc": 0.9, "libmimalloc": 0.5, "libtcmalloc_minimal": 1.2}

    def cost(_: str, setting: str) -> float:
        return one_arena if setting.endswith("arena_max=1") else costs.get(setting.partition(".")[0], 1.0)

    replay = PretendedReplay(cost)
    monkeypatch.setattr(time, "monotonic", lambda: replay.now)
    return replay


def allocators_and_arenas() -> tuple[list[OptionSet], list[OptionSet]]:
    """The defaults of four allocators, and what is suggested for the first if there are several threads."""
    names = ("glibc", "jemalloc", "mimalloc", "tcmalloc")
    defaults = [OptionSet(read_table(str(SOURCE / f"drivers/allocators/{name}.toml"), name)) for name in names]
    return defaults, suggested_of(defaults[0], True, Hints(16))


def test_what_the_trace_suggests_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = PretendedReplay(lambda *_: 1.0)
    monkeypatch.setattr(time, "monotonic", lambda: replay.now)
    glibc = OptionSet(read_table(str(SOURCE / "drivers/allocators/glibc.toml"), "glibc"))
    for hints, first in (
        (Hints(16, 0), {"arena_max"}),
        (Hints(1, 100 << 20), {"mmap_threshold", "trim_threshold"}),
        (Hints(16, 100 << 20), {"arena_max", "mmap_threshold", "trim_threshold"}),
    ):
        bench = Bench(replay, "whole", "peak", Budget(counted=True))  # type: ignore
        bench.measure([glibc], 1, 1e18, lambda: None)
        search = Search(bench, [glibc], glibc, "peak", lambda: None, hints)
        alone = singles(glibc.allocator, True)
        wanted = in_turn([one for one in alone if one.settings[0][0] in first])
        assert {one.settings[0][0] for one in wanted[: len(first)]} == first, "one value of each comes first"
        chosen_first = search.first_candidates(alone, 2 * (len(wanted) + 2), 1e18)
        assert chosen_first[: len(wanted)] == wanted and len(chosen_first) == len(wanted) + 2
        assert search.first_candidates(alone, 2 * len(wanted) - 1, 1e18) == wanted[: len(wanted) - 1]


def test_an_option_is_without_effect_only_if_all_its_values_were_tried() -> None:
    jemalloc = OptionSet(read_table(str(SOURCE / "drivers/allocators/jemalloc.toml"), "jemalloc"))
    tried = {"jemalloc": ["dirty_decay_ms", "muzzy_decay_ms"]}
    untried = [jemalloc.with_setting("dirty_decay_ms", "0")]
    assert Found([], 9, untried, ineffective=tried).without_effect() == {"jemalloc": ["muzzy_decay_ms"]}
    assert Found([], 9, untried, ineffective={"jemalloc": ["dirty_decay_ms"]}).without_effect() == {}
    both = [jemalloc.with_setting("dirty_decay_ms", "0").with_setting("muzzy_decay_ms", "1000")]
    assert Found([], 9, both, ineffective=tried).without_effect() == tried


def test_what_frees_memory_late_is_tried_first_if_the_end_counts() -> None:
    jemalloc = OptionSet(read_table(str(SOURCE / "drivers/allocators/jemalloc.toml"), "jemalloc"))
    at_once = jemalloc.with_setting("dirty_decay_ms", "0")
    assert Hints(ends=True).suggests(at_once) and not Hints().suggests(at_once)
    assert not Hints(ends=True).suggests(jemalloc.with_setting("tcache", "false"))


def test_hints_of_operations(tmp_path: Path) -> None:
    size = 1 << 20
    (tmp_path / "ops").write_text(
        "".join(f"{i} N 0 {size}\n" for i in range(20))
        + f"20 N 0 {4 * size}\n20 R 0 100\n21 N 0 100\n21 F 0 0\n"
        + "".join(f"{i} F 0 0\n" for i in range(6))
    )
    operations = opsarrays.read(str(tmp_path / "ops"))
    assert hints_of(operations, False) == Hints(1, 10 * size)
    assert hints_of(operations, False).has_large and not Hints(8, size).has_large


def test_it_prints_what_the_manual_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its form, since measured values differ: the options of the manual are the best, and the program confirms it."""
    wanted = ("tcache_count=0", "mmap_threshold=16384")
    choice, _ = chosen(monkeypatch, lambda _, settings: 0.9 ** sum(one in settings for one in wanted), 2000)
    sizes = [Median(mib * 2**20, mib * 2**20, mib * 2**20, 5) for mib in (40, 34.6)]
    changes = [Median(mib * 2**20, mib * 2**20, mib * 2**20, 5) for mib in (-5.3, -5.4)]
    check = Check("peak resident memory", choice.recommended, *sizes, *changes)
    shown = re.search(r"^ {4}best for .*\n(?: {4}.*\n)+", (SOURCE / "docs/manual.md").read_text(), re.MULTILINE)
    assert shown
    pattern = ".*".join(map(re.escape, textwrap.dedent(shown[0]).replace("\n...\n", "...").strip().split("...")))
    assert re.search(pattern, text_of(Result(choice, verification=Verification([check]))), re.DOTALL)


def test_what_the_program_itself_has_is_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is certainly more than the least is named apart from what may be as little; what did not run has its reason."""
    choice, _ = chosen(monkeypatch, lambda *_: 1.0, 300)
    names = ("mimalloc", "jemalloc", "glibc", "tcmalloc")
    sets = [OptionSet(read_table(str(SOURCE / f"drivers/allocators/{name}.toml"), name)) for name in names]
    ranking = []
    for one, (low, middle, high) in zip(sets, ((10, 11, 12), (11, 12, 13), (20, 20, 20))):
        size, cpu = Median(middle * 2**20, low * 2**20, high * 2**20, 5), Median(1e9, 1e9, 1e9, 5)
        change = Median((middle - 20) * 2**20, (low - 20) * 2**20, (high - 20) * 2**20, 5)
        ranking.append(Measured(one, size, cpu, change, Median(0, 0, 0, 5)))
    found = Verification([], "", ranking, {sets[-1]: "it ends"}, "peak resident memory")
    text = text_of(Result(choice, verification=found))
    assert (
        "\nthe program itself, 5 runs with the defaults of each allocator and with what was checked (memory of " in text
    )
    assert re.search(r"\n1 +11 MiB +-9 MiB \(-10 MiB to -8 MiB\) +1 s +\+0 ns .* mimalloc\n", text), text
    assert re.search(r"\n3 +20 MiB +- +1 s +- +glibc\n", text), text
    assert (
        "has least memory with mimalloc, certainly less than with glibc; that it is less than with jemalloc is not certain"
        in text
    )
    assert "\nnot run with tcmalloc: it ends\n" in text
    assert choice.recommended.name == "glibc" and text.count("recommended") == 0
    advice = (
        "\nuse mimalloc: the program itself has certainly less peak resident memory with it than with glibc\n"
        "  11 MiB and 1 s of CPU time against 20 MiB and 1 s of CPU time (medians of 5 runs each)\n"
        "  set it by:  LD_PRELOAD=libmimalloc.so.2.0\n"
        "of the replays alone, which decide less than the program itself:\nkeep the defaults of glibc"
    )
    assert advice in text, text
    assert "  best replayed" in text.partition("\nresident: ")[0]
    text = text_of(Result(choice, verification=Verification([], "", ranking[2:], {}, "peak resident memory")))
    assert "use glibc" not in text and "  recommended" in text


def test_with_a_budget_of_replays_a_slow_machine_does_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    for amount in (30, 200):
        (fast, _), (slow, spent) = (chosen(monkeypatch, misleading, amount, True, n) for n in (1 / 64, 1024))
        assert amount / 2 < spent <= amount
        for one, other in zip((fast.searched, fast.whole, fast.held_out), (slow.searched, slow.whole, slow.held_out)):
            assert one.samples == other.samples
        assert (fast.recommended, fast.rows, fast.found) == (slow.recommended, slow.rows, slow.found)


def test_of_two_allocators_each_is_compared_with_its_own_defaults_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator that is better as it is does not make its options good."""
    replay = PretendedReplay(lambda _, settings: 1.0)
    monkeypatch.setattr(time, "monotonic", lambda: replay.now)
    names = ("glibc", "mimalloc")
    glibc, other = (OptionSet(read_table(str(SOURCE / f"drivers/allocators/{name}.toml"), name)) for name in names)
    with_option = other.with_setting("allow_decommit", "0")
    benches = [Bench(replay, part, "peak", Budget()) for part in ("searched", "whole", "rest")]  # type: ignore
    for bench in benches:
        bench.measure([glibc, other, with_option], 6, 1e18, lambda: None)
        for one, peak in ((other, 0.8), (with_option, 0.8001)):
            bench.samples[one].resident = [peak * 1e6 + number for number in range(6)]
    found = Search(benches[0], [glibc, other], glibc, "peak", lambda: None).run(False, 0)
    choice = Choice("peak", glibc, found, *benches, "the rest", [with_option, glibc, other])
    assert choice.recommended == other
    assert choice.verdict(with_option) == "not better than mimalloc on the whole file"
