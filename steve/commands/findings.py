"""steve findings: suspicious blocks, by rule (steve.analysis.rules) and allocation site, and errors of the program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from steve.analysis import between_marks, blocks, looks, several
from steve.commands import pins
from steve.system.samples import Sample, variance
from steve.terminal import arguments, listing, tables
from steve.system.errors import UsageError
from steve.terminal.listing import Column, count
from steve.trace import missing, policy, rollups
from steve.system.output import Output
from steve.analysis.folds import Together
from steve.analysis.lost import Reached, is_leak, searched
from steve.analysis.rules import (
    ALL,
    CHURN,
    DEFAULTS,
    KEPT,
    LEAKED,
    PINNED_PAGES,
    RULES,
    SITE_RULES,
    UNIVERSE_SHOWS,
    Rule,
    has_snapshots,
    help_of,
    limits,
    site_limits,
)
from steve.trace.stacks import SITE, Sites
from steve.terminal.units import counted, human_bytes

if TYPE_CHECKING:
    from steve.analysis.program_errors import Faults
    from steve.report.lua_growth import LuaGrowth
    from steve.trace._memtrace import Trace

NAME = "findings"
ERRORS, KEPT_FREE = OTHERS = "errors", "kept_free"
HELP = "show blocks that deserve a look: never read, hardly used, long idle..."
READS_SAMPLES = True

COLUMNS = (
    Column("blocks", "blocks", "blocks of the site that the rule finds"),
    Column("bytes", "bytes", "their bytes at the end of their lives"),
    Column("accesses", "accesses", "loads, stores and modifies of these blocks; none if they were not recorded"),
    Column("share", "% of bytes", "these bytes in percent of the bytes of all blocks examined"),
    Column("slope", "", "of growth: bytes in 1,000 operations"),
    Column("site", "site", f"{SITE}; or what --by names", True),
)
ERROR_COLUMNS = (
    Column("count", "", "number of errors in this context; of several files also the process"),
    Column("kind", "", "kind of the access: load, store or modify; or badfree", True),
    Column("at", "", "the line of the access, or the stack of the free", True),
    Column("size", "", "bytes accessed"),
    Column("thread", "", "number of the thread; this and the next columns describe the first error of the context"),
    Column("block", "", "handle of the block concerned; empty if there is none"),
    Column("offset", "", "offset of the access in the block"),
    Column("block_size", "", "bytes of the block at its end"),
    Column("made_at", "", "the stack of its New", True),
    Column("freed_at", "", "the stack of its Free", True),
)
RULE = Column("finding", "", "the rule", True)
NO_MARKS = "there is no mark; ljtrace.mark, LJTRACE_MARK and, under Valgrind, --universe=at-exit set one"
MOST_NAMED = 3  # in the text
# columns with standard errors in a sample of the blocks, and their sums
ESTIMATES = {"blocks": "blocks", "bytes": "size"}
EXAMPLES = f"""\
A block can be found by several rules. The output shows each rule with its thresholds:
{chr(10).join(listing.entry(rule.key, rule.text(DEFAULTS), 16) for rule in ALL)}
--json: a list with an object for each rule: finding, title, rule, help (what usually helps), not_judged (what the
rule could not judge in this trace, and why; null: nothing), blocks, bytes, accesses, share, and the list sites with
the columns below; growth also has the list holders: for sites that grow, through which path Lua reaches most of their
blocks in the last snapshot (site, path, share: the part of the reachable bytes, snapshot), the list ended: sites that
grew and made nothing in the second half of the recording (site, last_new: the time of the last New, text), and, if
paths grew between the last two snapshots of a recording with --universe, the object in_lua (text, before, after,
seconds, and the list paths as of steve universe). --csv: a line for each rule and site, and for each context of
errors.
The errors of the program (rule `errors`) come first: accesses to freed memory, accesses beyond the end of a block or
beside a block of malloc, and double, invalid, inside, wrong-heap and mismatched frees. Errors made at the same place
form one context. Loads beyond the end of a block are not reported if they are aligned to their size or made by
string functions of the C library, which read whole vectors; `steve check` counts them all. Errors are found in the
whole trace only, so they are not shown with --where, --from or --to.
The rule kept_free is about the whole process, so it has no sites. It takes another reading of the trace. After an
attach without --existing-blocks it is not judged, since blocks from before may be in what looks free.
{listing.entry(KEPT_FREE, looks.FREE_RULE, 16)}
--json: an object with whole (of its bytes: those in whole pages), returnable (of whole: what can be returned to the
system at least), resident and recorder (of resident). It has no line in --csv.
--json: the list begins with objects for errors: finding, title, rule, errors and the list contexts with the columns
of errors below. --csv: the first column is `finding`; then come the columns of sites and those of errors, and those
that do not apply to a line are empty. --top limits the sites and the contexts of each rule.
The rule pinned_pages is evaluated with --allocator, which replays the operations (see `steve pins --help`).
Rules about accesses are left out, with a remark, if accesses were not recorded.

{listing.explained(several.COLUMNS + COLUMNS)}

columns of errors:
{chr(10).join(listing.entry(c.key, c.meaning) for c in ERROR_COLUMNS)}

{blocks.WHERE_HELP}
examples:
  steve findings app.ljt
  steve findings app.ljt --allocator glibc --by line
  steve findings app.ljt --utilisation 25 --min-size 1024 --rules low_utilisation
"""


def percent(text: str) -> float:
    """argparse type: a number from 0 to 100, with or without a percent sign."""
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = -1
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 100")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    blocks.add_arguments(parser, several=True)
    policy.add_arguments(parser)
    rules = parser.add_argument("--rules", metavar="LIST", help="only these rules, with commas between")
    arguments.suggest(rules, (*OTHERS, *(rule.key for rule in ALL)), are_list=True)
    for name, kind, what in (
        ("early", percent, "the first N percent of a life are its beginning"),
        ("late", percent, "a first access after N percent of a life is late"),
        ("idle", percent, "an idle end of at least N percent of a life is long"),
        ("utilisation", percent, "utilisation is low if less than N percent of the bytes are used"),
        ("short", count, "a life of at most N operations is short"),
        ("chain", count, "N or more resizes are a chain"),
        ("min-life", count, "judge the parts of a life only if it has N operations or more"),
        ("min-size", count, "judge the utilisation and the capacity only of blocks of N bytes or more"),
        ("parts", count, "bytes that grow in N equal parts of the run, one after the other, are growth"),
        ("growth", count, "growth is N bytes or more in all; of a site, what is kept until the last mark"),
        ("hot", percent, "a site that makes N percent of all blocks is hot"),
        ("brief", percent, "a site makes temporaries if N percent of its blocks are freed at once"),
        ("churn", percent, "a site churns if N percent of the bytes that die are its"),
        ("turns", count, "a site churns if N times as much dies as is live of it at the peak"),
        ("capacity", percent, "capacity is unused if less than the first N percent of a block is accessed"),
        ("spare", percent, "unused capacity matters from N percent of the bytes of all blocks on"),
    ):
        value = DEFAULTS[name.replace("-", "_")]
        parser.add_argument(f"--{name}", metavar="N", type=kind, default=value, help=f"{what} (default: {value})")
    listing.add_arguments(parser, several.COLUMNS + COLUMNS, "bytes")
    parser.add_argument(
        "--allocator", metavar="A", help="also find pinned pages in a replay on allocator A, as `steve pins` does"
    )
    rollups.add_arguments(parser, several=True)
    blocks.add_shards(parser)


def rules_of(args: argparse.Namespace) -> list[Rule]:
    """The rules that --rules names."""
    if args.rules is None:
        return [rule for rule in ALL if rule != PINNED_PAGES or args.allocator]
    known = {rule.key: rule for rule in ALL}
    unknown = [key for key in args.rules.split(",") if key not in known and key not in OTHERS]
    if unknown:
        raise UsageError(f"--rules: no rule '{unknown[0]}'; there are: {', '.join((*OTHERS, *known))}")
    if PINNED_PAGES.key in args.rules.split(",") and not args.allocator:
        raise UsageError(f"--rules {PINNED_PAGES.key}: needs a replay; --allocator names one, such as glibc")
    return [known[key] for key in args.rules.split(",") if key not in OTHERS]


def check_replay(args: argparse.Namespace) -> None:
    """UsageError if --allocator does not go with other options."""
    if args.allocator and not blocks.is_whole(args):
        raise UsageError("--allocator: the whole trace is replayed, so --where, --from and --to do not go with it")


def names_errors(args: argparse.Namespace) -> bool:
    """Does --rules name the rule `errors`?"""
    return args.rules is not None and ERRORS in args.rules.split(",")


def wants_errors(args: argparse.Namespace) -> bool:
    """Are the errors of the program to be reported?"""
    return (args.rules is None or names_errors(args)) and blocks.is_whole(args)


def wants_free(args: argparse.Namespace) -> bool:
    """Is the free memory of allocators to be reported?"""
    return args.rules is None or KEPT_FREE in args.rules.split(",")


def errors_of(chosen: blocks.Blocks, met: Faults, args: argparse.Namespace) -> list[dict]:
    """The objects of --json for the errors that the walk found; reads the trace again for their details."""
    from steve.analysis import program_errors
    from steve.terminal.progress import Progress

    with Progress(NAME, args.quiet) as progress:
        return program_errors.read(met.contexts(chosen.trace), chosen.trace, chosen.open_again, progress)


def thresholds_of(args: argparse.Namespace) -> dict:
    """The thresholds of all rules; those that no option sets are the defaults."""
    return {**DEFAULTS, **{name: getattr(args, name) for name in DEFAULTS if hasattr(args, name)}}


class Found:
    """What the rules find, from one walk. rules: those of interest; size: bytes of all selected blocks; accesses: were those of
    the program recorded? has_all: in all of the run? errors: those of the program, if they were collected; last_event: its
    time."""

    def __init__(self, chosen: blocks.Blocks, rules: list[Rule], args: argparse.Namespace) -> None:
        from steve.kernels._site_sums import EndedLives, Findings, SiteSums

        key, thresholds = rollups.key_of(args.by), thresholds_of(args)
        makers = [partial(Findings, limits(thresholds), key)]
        self._pins = pins.worst_by(key, args) if PINNED_PAGES in rules else None
        if set(rules) & {PINNED_PAGES, *SITE_RULES}:
            makers.append(partial(SiteSums, site_limits(thresholds), key))
        if CHURN in rules:
            makers.append(partial(EndedLives, key))
        if LEAKED in rules:
            makers.append(partial(Reached, is_leak, key))
        walked = chosen.fold(partial(together, makers))
        found, *self._sums = walked.fold.folds
        self._totals, self.errors = walked.totals, walked.met
        self.last_event = int(walked.totals["time"])
        self.accesses = missing.has_accesses(chosen.trace, walked.totals["accesses"])
        self.has_all = missing.has_all_accesses(chosen.trace, walked.totals["accesses"])
        del walked  # frees memory for what follows
        self._reached: Reached | None = self._sums.pop() if LEAKED in rules else None
        self._dead: rollups.Sums | None = None
        if CHURN in rules:
            self._dead = rollups.Sums(*self._sums.pop().table(self._totals["peak"]))
        self._judged: tuple[rollups.Rollup, dict] | None = None
        self._sites: Sites | None = None
        self._kept = (
            between_marks.kept(chosen, key) if KEPT in rules and is_judged(KEPT, self.has_all, chosen.sample) else None
        )
        self.size = found.bytes()
        # for each stack there is a row with all rules, which is much longer than what a few of them find there
        self._of_rules = {
            rule: found.of_rule(RULES.index(rule), found_columns(chosen.sample)) for rule in rules if rule in RULES
        }
        self._chosen, self._thresholds = chosen, thresholds

    def by_row(self, rule: Rule) -> tuple[rollups.Rollup, rollups.Sums, str]:
        """The sums over the blocks that a rule finds, by row of the list: blocks, size, accesses; the variances of a sample;
        the slope of growth. And what the rule could not judge, as text."""
        args, places = self._chosen.args, self._chosen.places
        rollup = rollups.Rollup(args.by, places, policy.short_in_table(args), self._sites)
        self._sites = rollup.sites  # all rules have the same sites, but rows of their own
        if rule in RULES:
            return rollup, self._of_blocks(rule, rollup), ""
        if rule == LEAKED:
            return rollup, *self._of_leaked(rollup)
        if rule == KEPT:
            return rollup, *self._of_marks(rollup)
        if rule == CHURN:
            return rollup, self._of_churn(rollup), ""
        return self._of_sites(rule, rollup)

    def _of_blocks(self, rule: Rule, rollup: rollups.Rollup) -> rollups.Sums:
        return rollup.merged(rollups.Sums(*self._of_rules[rule]))

    def _of_leaked(self, rollup: rollups.Rollup) -> tuple[rollups.Sums, str]:
        from steve.analysis import site_rules

        lost = self._reached.lost(self._chosen.trace) if searched(self._chosen) else None
        return site_rules.leaked(lost, rollup)

    def _of_marks(self, rollup: rollups.Rollup) -> tuple[rollups.Sums, str]:
        from steve.analysis import site_rules

        if self._kept is None:
            return site_rules.NONE, NO_MARKS if self._chosen.window() is None else "--from and --to choose marks"
        return between_marks.found_of(rollup.merged(rollups.Sums(*self._kept)), self._thresholds), ""

    def _of_churn(self, rollup: rollups.Rollup) -> rollups.Sums:
        from steve.analysis import site_rules

        return site_rules.churn(rollup.merged(self._dead), self._thresholds)

    def _of_sites(self, rule: Rule, rollup: rollups.Rollup) -> tuple[rollups.Rollup, rollups.Sums, str]:
        """The same of a rule about sites. All of these are judged at once, so they have the same rows."""
        from steve.analysis import site_rules

        if rule == PINNED_PAGES:
            made = site_rules.made(self._sums[0], rollup)
            return rollup, site_rules.pinned_pages(rollup.merged(self._pins), made, self._thresholds), ""
        if self._judged is None:
            info = self._chosen.trace.info()
            found = site_rules.judged(self._sums[0], rollup, self._totals, self._thresholds, info)
            self._judged = rollup, found
        rows, found = self._judged
        return rows, *found[rule.key]


def found_columns(sample: Sample) -> dict[str, str]:
    """The columns of what a rule finds, with their names in steve.kernels._site_sums.Findings."""
    columns = {"blocks": "blocks", "size": "bytes", "accesses": "accesses"}
    if sample:
        columns.update({variance(key): variance(columns[key]) for key in ESTIMATES.values()})
    return columns


def together(makers: list) -> Together:
    """The fold of the folds that functions make."""
    return Together(*(make() for make in makers))


def row_of(found: dict, total: int, accesses: bool, sample: Sample) -> dict:
    """The columns of a site. found: the sums over its blocks; total: bytes of all selected blocks; accesses: were they
    recorded?"""
    return {
        "blocks": found["blocks"],
        "bytes": found["size"],
        "accesses": found["accesses"] if accesses else None,
        "share": blocks.share(found["size"], total),
        "slope": found.get("slope"),
        **sample.standard_errors(found, ESTIMATES),
    }


class OfAll:
    """What the rules find in all files. Each file is judged by itself: what grows in one of the processes need not be a large
    part of what all of them do."""

    def __init__(self, args: argparse.Namespace, rules: list[Rule]) -> None:
        self.args, self.rules = args, rules
        self.errors: list[dict] = []
        self.left_out: dict[str, list[str]] = {}  # remarks, with the files that they are true of
        self._rows: dict[Rule, several.Joined] = {}
        # why something was not judged or looked for, with the first file of which that is true
        self._not_judged: dict[Rule, dict[str, str]] = {}
        self._not_looked: dict[str, str] = {}
        self._size, self._accesses = 0, True
        self._free = looks.KeptFree(0, 0, 0, 0, 0)  # where it is much
        self._calls: dict[str, None] = {}  # that return it
        self._holders: list[dict] = []  # of sites that grow, if there is one file with snapshots
        self._ended: list[
            dict
        ] = []  # sites that grew and made nothing in the last part of the recording, if there is one file
        self._lua_growth: LuaGrowth | None = None  # if there is one file with two snapshots, and much grew between them
        self._has_snapshots = False

    def add(self, chosen: blocks.Blocks) -> None:
        """Add a file."""
        found = Found(chosen, self.rules, chosen.args)
        judged = [rule for rule in self.rules if is_judged(rule, found.has_all, chosen.sample)]
        self._size += found.size
        self._accesses &= found.accesses
        for rule in judged:
            rollup, sums, not_judged = found.by_row(rule)
            self._rows.setdefault(rule, several.Joined(self.args)).add(rollup, sums)
            reasons = self._not_judged.setdefault(rule, {})
            if not_judged:
                reasons.setdefault(not_judged, chosen.trace.name)
            if rule.key == "growth" and self.args.by == "stack" and len(self.args.files) == 1:
                self._holders = holders_of(chosen, rollup, sums)
            if rule.key == "growth" and len(self.args.files) == 1:
                self._ended = ended_of(chosen, rollup, sums, found.last_event)
            if rule.key == "growth" and len(self.args.files) == 1:
                self._lua_growth = lua_growth_of(chosen, thresholds_of(self.args)["growth"])
        left_out = left_out_of(chosen, [rule for rule in self.rules if rule not in judged], chosen.args)
        if wants_free(self.args):
            free, why = looks.kept_free(chosen)
            self._add_free(free, why, chosen.trace.name)
            left_out += [free.of_outside] if free and free.of_outside else []
            self._calls[looks.free_call(chosen.trace)] = None
        if left_out:
            self.left_out.setdefault("; ".join(left_out), []).append(chosen.trace.name)
        self._has_snapshots |= has_snapshots(chosen.trace.info())
        if chosen.errors:
            self._add_errors(errors_of(chosen, found.errors, self.args), chosen.trace)

    def join(self, other: OfAll) -> None:
        """Add what the rules find in other files."""
        from steve.analysis import program_errors

        self._size += other._size
        self._accesses &= other._accesses
        for rule, rows in other._rows.items():
            self._rows.setdefault(rule, several.Joined(self.args)).join(rows)
            add_reasons(self._not_judged.setdefault(rule, {}), other._not_judged[rule])
        add_reasons(self._not_looked, other._not_looked)
        self._add_free(other._free)
        self._calls.update(other._calls)
        self._has_snapshots |= other._has_snapshots
        self._holders += other._holders
        self._ended += other._ended
        self._lua_growth = self._lua_growth or other._lua_growth
        for text, names in other.left_out.items():
            self.left_out.setdefault(text, []).extend(names)
        self.errors = program_errors.joined(self.errors, other.errors)

    def _add_free(self, found: looks.KeptFree | None, why: str = "", name: str = "") -> None:
        if found is None:
            self._not_looked.setdefault(why, name)
        elif found.is_much:
            self._free = self._free.plus(found)

    def _add_errors(self, found: list[dict], trace: Trace) -> None:
        """Add the objects of --json for the errors of a file."""
        from steve.analysis import program_errors

        if len(self.args.files) > 1:
            process = rollups.process_text(trace)
            for one in found:
                one["contexts"] = [{**context, "process": process} for context in one["contexts"]]
        self.errors = program_errors.joined(self.errors, found)

    def remark(self) -> str:
        """What was not looked for, and why; "" if that is nothing."""
        parts = [
            text if len(names) == len(self.args.files) else f"{text}, in {', '.join(names)}"
            for text, names in self.left_out.items()
        ]
        return "; ".join(parts)

    def findings(self, sample: Sample) -> list[dict]:
        """The objects of --json for the rules that were judged. sample: that of the files."""
        of_free = [self._finding_of_free()] if wants_free(self.args) else []
        return [*(self._finding(rule, rows, sample) for rule, rows in self._rows.items()), *of_free]

    def _finding_of_free(self) -> dict:
        """The object of the rule that is about the whole process."""
        return {
            "finding": KEPT_FREE,
            "title": looks.FREE_TITLE,
            "rule": looks.FREE_RULE,
            "help": looks.free_help(self._calls, self._free),
            "not_judged": in_short(self._not_looked),
            "blocks": 0,
            "bytes": self._free.free,
            "accesses": None,
            "share": None,
            "whole": self._free.whole,
            "returnable": self._free.returnable,
            "resident": self._free.resident,
            "recorder": self._free.recorder,
            "sites": [],
        }

    def _finding(self, rule: Rule, rows: several.Joined, sample: Sample) -> dict:
        """The object of one rule, with the rows of its sites."""
        sums = rows.sums.rows
        sites = rows.rows(partial(row_of, total=self._size, accesses=self._accesses, sample=sample))
        totals = {name: float(sums[name].sum()) for name in sums.dtype.names}
        errors = sample.standard_errors(totals, ESTIMATES).get("standard_errors", {})
        size = int(sums["size"].sum())
        return {
            "finding": rule.key,
            "title": rule.title,
            "rule": rule.text(thresholds_of(self.args)),
            "help": help_of(rule, self._has_snapshots and UNIVERSE_SHOWS not in "".join(self._not_judged[rule])),
            "not_judged": in_short(self._not_judged[rule]),
            "blocks": int(sums["blocks"].sum()),
            "bytes": size,
            "accesses": int(sums["accesses"].sum()) if self._accesses else None,
            "share": blocks.share(size, self._size),
            "sites": sites.ranked(self.args.sort),
            **({"holders": self._holders, "ended": self._ended} if rule.key == "growth" else {}),
            **({"in_lua": in_lua(self._lua_growth)} if rule.key == "growth" and self._lua_growth else {}),
            **sample.facts(errors),
        }


def lua_growth_of(chosen: blocks.Blocks, least: float) -> LuaGrowth | None:
    """What grew between the last two snapshots of Lua's objects; None if there are none, or if no path grew by so many bytes."""
    from steve.report.lua_growth import LuaGrowth, lua_snapshots

    if "universe" not in chosen.trace.info():
        return None
    found = lua_snapshots(chosen)
    much = isinstance(found, LuaGrowth) and found.rows and found.rows[0]["more_bytes"] >= least
    return found if much and isinstance(found, LuaGrowth) else None


def in_lua(found: LuaGrowth) -> dict:
    """The object of --json for what grew between two snapshots."""
    from steve.report.lua_growth import objects_of

    first = found.rows[0]
    rate = f" ({human_bytes(found.rate(first['more_bytes']))} a second)" if found.seconds else ""
    return {
        "text": f"{found.retains(first)}{rate}: {objects_of(first)}",
        "before": found.before,
        "after": found.after,
        "seconds": found.seconds,
        "paths": found.rows,
    }


def holders_of(chosen: blocks.Blocks, rollup: rollups.Rollup, found: rollups.Sums) -> list[dict]:
    """Through what Lua reaches the blocks of sites that grow, those that grow most first, as the last snapshot shows it; none if it
    does not, or if no snapshots were requested."""
    from steve.analysis import lua_held

    if not len(found.rows) or "universe" not in chosen.trace.info():
        return []
    grown = sorted(zip(found.rows["size"].tolist(), found.numbers.tolist()), reverse=True)
    held = lua_held.held(chosen)
    return [
        {
            "site": rollup.text(number),
            "path": held[number].path,
            "share": round(held[number].share, 4),
            "snapshot": held[number].snapshot,
        }
        for _, number in grown
        if number in held and held[number].path
    ]


def ended_of(chosen: blocks.Blocks, rollup: rollups.Rollup, found: rollups.Sums, last_event: int) -> list[dict]:
    """The rows that grew and that made nothing in the last part of the recording, those that grew most first, with the time of
    their last New. None between two marks. last_event: its time."""
    from steve.analysis.site_rules import no_longer
    from steve.analysis.totals import duration, end_time, time_unit

    unit = time_unit(chosen.trace)
    end = end_time(unit, chosen.trace.stats(), last_event) if chosen.window() is None else 0
    rows = found.rows[no_longer(found.rows, end)]
    numbers = found.numbers[no_longer(found.rows, end)]
    order = sorted(range(len(rows)), key=lambda i: -int(rows["size"][i]))
    return [
        {
            "site": rollup.text(int(numbers[i])),
            "last_new": int(rows["most_recent"][i]),
            "text": f"the last block at {duration(int(rows['most_recent'][i]), unit)} of {duration(end, unit)}",
        }
        for i in order
    ]


def ended_text(ended: list[dict]) -> str:
    """The first of them, for a heading."""
    named = [f"{one['site'].split(' < ')[0]} ({one['text']})" for one in ended[:MOST_NAMED]]
    more = f"; {len(ended) - MOST_NAMED} more" if len(ended) > MOST_NAMED else ""
    return f"no longer in the second half of the recording: {'; '.join(named)}{more}"


def holders_text(holders: list[dict]) -> str:
    """The first of them, for a heading."""
    named = [
        f"{one['site'].split(' < ')[0]} by {one['path']}"
        + ("" if one["share"] > 0.995 else f" ({one['share']:.0%} of what is reachable)")
        for one in holders[:MOST_NAMED]
    ]
    more = f"; {len(holders) - MOST_NAMED} more: `steve universe`" if len(holders) > MOST_NAMED else ""
    return f"held, in the snapshot '{holders[0]['snapshot']}': {'; '.join(named)}{more}"


def add_reasons(reasons: dict[str, str], more: dict[str, str]) -> None:
    """Add reasons of other files, after those that are there."""
    for text, name in more.items():
        reasons.setdefault(text, name)


def in_short(reasons: dict[str, str]) -> str | None:
    """Why a rule could not judge something in some of the files; None if there is nothing. reasons: each with the first file
    of which it is true."""
    if len(reasons) < 2:
        return "".join(reasons) or None
    first, *others = reasons
    names = " and ".join(dict.fromkeys(reasons[text] for text in others))
    return f"{first}; {counted(len(others), 'other reason')} in other files: see steve findings {names}"


def lines(text: str) -> str:
    """A text as indented lines of a heading."""
    return textwrap.fill(
        text,
        min(tables.width(), 118),
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,  # names of files
        break_on_hyphens=False,
    )


def is_free(found: dict) -> bool:
    """Does the rule about the whole process find something?"""
    return found["finding"] == KEPT_FREE and found["bytes"] > 0


def text_of_free(found: dict) -> str:
    """What the rule about the whole process finds."""
    notes = [found["rule"], f"what usually helps: {found['help']}"]
    free = looks.KeptFree(*(found[key] for key in ("bytes", "whole", "returnable", "resident", "recorder")))
    return (
        f"{found['title']}: {free.of_resident} ({listing.cell(blocks.share(free.free, free.of_program))}%), "
        f"{human_bytes(free.whole)} in whole pages, {free.of_returnable} of which can be returned to the "
        "system\n" + "\n".join(map(lines, notes)) + "\n"
    )


def heading(found: dict) -> str:
    """The title of the table of one rule."""
    accesses = (
        "accesses not recorded" if found["accesses"] is None else counted(found["accesses"], "access", "accesses")
    )
    notes = [found["rule"], f"what usually helps: {found['help']}"]
    if found.get("holders"):
        notes.insert(0, holders_text(found["holders"]))
    if found.get("ended"):
        notes.insert(0, ended_text(found["ended"]))
    if found["not_judged"] and found["sites"]:
        notes.append(f"not judged: {found['not_judged']}")
    return (
        f"{found['title']}: {counted(found['blocks'], 'block')}, {counted(found['bytes'], 'byte')} "
        f"({listing.cell(found['share'])}%), {accesses}\n" + "\n".join(map(lines, notes))
    )


def columns_of(found: dict) -> tuple[Column, ...]:
    """The columns of the table of one rule: only that of growth shows the slope; accesses are shown if they were
    recorded."""
    heads = {"slope": "bytes per 1,000 ops" if found["finding"] == "growth" else ""}
    if found["accesses"] is None:
        heads["accesses"] = ""
    return tuple(column._replace(head=heads.get(column.key, column.head)) for column in COLUMNS)


def text(title: str, errors: list[dict], findings: list[dict], args: argparse.Namespace, left_out: str) -> str:
    """The text output: the errors, then a table for each rule that found something, then what found nothing and what was
    not judged. left_out: a remark on what is missing, or ""."""
    from steve.analysis import program_errors

    grown = [found["in_lua"] for found in findings if "in_lua" in found]
    plain = not sys.stdout.isatty() or args.output not in (None, "-")
    parts = [title + "\n"]
    parts += [program_errors.text(errors, listing.TOP if args.top is None else args.top)] if errors else []
    parts += [text_of_free(found) for found in findings if is_free(found)]
    parts += [
        f"Growing in Lua: {one['paths'][0]['path']}\n{lines(one['text'] + '; all paths: `steve universe`')}\n"
        for one in grown
    ]
    for found in findings:
        if found["sites"]:
            columns = several.columns(columns_of(found), args)
            parts.append(listing.text(heading(found), found["sites"], columns, args.top, plain))
    empty = [found for found in findings if not found["sites"] and not is_free(found)]
    if nothing := [
        f"{found['title']}{' (among sites)' if 'in_lua' in found else ''}" for found in empty if not found["not_judged"]
    ]:
        parts.append(f"found nothing: {'; '.join(nothing)}\n")
    if not_judged := [f"{found['title']} ({found['not_judged']})" for found in empty if found["not_judged"]]:
        parts.append(f"not judged: {'; '.join(not_judged)}\n")
    if left_out:
        parts.append(f"not looked for: {left_out}\n")
    return tables.in_locale("\n".join(parts))


def batches_of(found: dict, most: int | None, sample: Sample) -> Iterator[list[dict]]:
    """The contexts of errors or the sites of an object of --json, at most so many, in batches."""
    rows = listing.cut(found["contexts"] if "contexts" in found else found["sites"], most)
    for first in range(0, len(rows), listing.BATCH):
        some = rows[first : first + listing.BATCH]
        yield listing.estimated(some, sample) if "sites" in found else some


def csv_parts(findings: list[dict], most: int | None, of_processes: bool, sample: Sample) -> Iterator[str]:
    """A line for each context of errors and for each site, of each rule at most so many. of_processes: do lines name
    processes?"""
    columns = (RULE, *(several.COLUMNS if of_processes else ()), *COLUMNS, *ERROR_COLUMNS)
    none = dict.fromkeys(column.key for column in columns)
    rows = (
        [{**none, "finding": found["finding"], **row} for row in some]
        for found in findings
        for some in batches_of(found, most, sample)
    )
    return listing.csv_of((listing.estimated(some, sample) for some in rows), columns, sample)


def json_parts(findings: list[dict], most: int | None, sample: Sample) -> Iterator[str]:
    """The text of the JSON list of findings, of each rule at most so many rows. Those are not all in memory."""
    before = "["
    for found in findings:
        yield f"{before}\n "
        rows = "contexts" if "contexts" in found else "sites"
        for part in listing.json_object(found, rows, batches_of(found, most, sample)):
            yield part.replace("\n", "\n ")
        before = ","
    yield "\n]\n" if findings else "[]\n"


def write(
    args: argparse.Namespace, title: str, errors: list[dict], findings: list[dict], left_out: str, sample: Sample
) -> None:
    """sample: that of the files."""
    with Output(args.output or "-") as out:
        if args.json:
            parts = json_parts(errors + findings, args.top, sample)
        elif args.csv:
            parts = csv_parts(errors + findings, args.top, args.apart or len(args.files) > 1, sample)
        else:
            parts = iter([text(title, errors, findings, args, left_out)])
        for part in parts:
            out.write(part)


def is_judged(rule: Rule, accesses: bool, sample: Sample) -> bool:
    """Does the trace have what the rule is about? accesses: were they recorded in all of the run?"""
    return (accesses or not rule.of_accesses) and not (rule.of_all and sample)


def left_out_of(chosen: blocks.Blocks, rules: list[Rule], args: argparse.Namespace) -> list[str]:
    """Remarks on requested rules that cannot be evaluated: `rules`, accesses to freed memory, errors in a part of the
    trace."""
    errors = wants_errors(args)
    if chosen.sample:
        why = "is a sample of the blocks"
    else:
        why = "holds those of a part of the run" if missing.accesses_in_part(chosen.trace) else "holds no accesses"
    parts = [f"{', '.join(rule.title for rule in rules)} (the trace {why})"] if rules else []
    if names_errors(args) and not errors:
        parts.append("errors (found in the whole trace only, not with --where, --from and --to)")
    if errors and chosen.trace.info().get("trace_freed") == "no" and not chosen.sample:
        parts.append(
            "freed memory was not watched (--trace-freed=no): accesses to it are not reported, "
            "and double frees are reported as invalid ones"
        )
    return parts


def run(args: argparse.Namespace) -> int:
    from steve.system.messages import note

    listing.check(args, several.columns(COLUMNS, args))
    check_replay(args)
    files = several.Files(NAME, args, again=True, errors=wants_errors(args))
    found = files.collect(partial(OfAll, args, rules_of(args)), OfAll.add)
    left_out = found.remark()
    findings = found.findings(files.sample)
    write(args, files.title("findings", peaks=False, inherited=False), found.errors, findings, left_out, files.sample)
    if left_out and (args.json or args.csv):  # else the text has it
        note(NAME, f"not looked for: {left_out}", args.quiet)
    return files.verdict()
