r"""The conditions of `steve diff --fail-if`: what a comparison of two traces, A and B, must not find. It also has the
conditions of `steve check --fail-if`, which judge one trace; that is B here.

    condition = test { "and" test }
    test      = NAME relation value
    relation  = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
    value     = [ "+" | "-" ] NUMBER [ ( "k" | "M" | "G" | "Ki" | "Mi" | "Gi" ) [ "B" ] | "%" ]

A value with a sign or a percent sign is compared with the change from A to B, in percent of A. Another value is compared
with what B has. Conditions of one trace have no such values with a sign or a percent sign. A NAME is a measure of the
whole trace (`peak_live`), a number of sites (`sites.new_leaks`), or a measure of each site (`site.peak_live`); the last
holds if it holds for at least one site, and tests that `and` joins hold for the same site. A growth from 0 is infinite
in percent. No part of a condition is executed as code.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from steve.analysis import looks
from steve.analysis.filter import RELATIONS, UNITS
from steve.system.errors import UsageError, meant

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.differences import Differences

# the measures, and the columns of the comparison that have them
MEASURES = {
    "allocated": "bytes",
    "blocks": "blocks",
    "peak_live": "peak_bytes",
    "live_at_end": "live_bytes",
    "accesses": "accesses",
}
SITE = "site."
NET_GROWTH = "net_growth"
COUNTS: dict[str, tuple[str, Callable[[Differences], np.ndarray]]] = {
    "sites.new": ("sites that allocate in B and not in A", lambda rows: _only_in_b(rows, "blocks")),
    "sites.new_leaks": (
        "sites with live bytes at the end of B, and none in A",
        lambda rows: _only_in_b(rows, "live_bytes"),
    ),
}


def _only_in_b(rows: Differences, key: str) -> np.ndarray:
    return (rows.column(f"{key}_b") > 0) & (rows.column(f"{key}_a") == 0)


class Vocabulary(NamedTuple):
    """The names of the conditions of a command. measures: those that sites have, too, with their columns; whole: those of the
    whole trace only, with what they mean; counts: of sites; compares: are there two traces?"""

    command: str
    measures: dict[str, str]
    whole: dict[str, str]
    counts: dict[str, tuple[str, Callable[[Differences], np.ndarray]]]
    compares: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order of --help."""
        return (*self.measures, *self.whole, *self.counts, *(SITE + name for name in self.measures))


TWO = Vocabulary("diff", MEASURES, looks.NAMES, COUNTS, True)
ONE = Vocabulary(
    "check",
    MEASURES,
    {
        NET_GROWTH: "bytes live at --to (without it, at the end) minus those live at --from (without it, 0)",
        "lost_bytes": "bytes of C blocks to which no pointer leads at the end (recorded under Valgrind)",
        "lost_blocks": "such blocks",
        "errors": "accesses and frees that are errors of the program, as in `steve findings`",
        **looks.NAMES,
    },
    {
        "sites": ("sites that allocate", COUNTS["sites.new"][1]),
        "sites.live_at_end": ("sites with live bytes at the end", COUNTS["sites.new_leaks"][1]),
    },
    False,
)
NAMES = TWO.names
# those that are about what lives at the end of what is read
AT_END = {"live_at_end", f"{SITE}live_at_end", "sites.live_at_end", "sites.new_leaks", NET_GROWTH}
AND = re.compile(r"\s+and\s+")
TEST = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w.]*)\s*(?P<relation>==|!=|<=|>=|[=<>])\s*"
    r"(?P<sign>[+-]?)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|[A-Za-z]*)\s*"
)


class Measured(NamedTuple):
    """A measure in both traces."""

    a: int
    b: int

    def change(self) -> int:
        return self.b - self.a

    def percent(self) -> float:
        """The change in percent of A."""
        if self.a:
            return 100 * self.change() / self.a
        return math.inf if self.b else 0.0


def percents(values: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Measured.percent() of values in A and changes of them."""
    import numpy as np

    infinite = np.where(changes != 0, math.inf, 0.0)
    return np.divide(100.0 * changes, values, out=infinite, where=values != 0)


class Test(NamedTuple):
    """One test of a condition. is_change: of the change from A to B, in percent if is_percent."""

    name: str
    relation: str
    value: float
    is_change: bool
    is_percent: bool

    def holds(self, measured: Measured) -> bool:
        found: float = measured.b
        if self.is_change:
            found = measured.percent() if self.is_percent else measured.change()
        return RELATIONS[self.relation](found, self.value)

    def of_sites(self, rows: Differences) -> np.ndarray:
        """For which rows does it hold? Of a test whose name begins with SITE."""
        column = MEASURES[self.name.removeprefix(SITE)]
        found = rows.column(f"{column}_change" if self.is_change else f"{column}_b")
        if self.is_percent:
            found = percents(rows.column(f"{column}_a"), found)
        return RELATIONS[self.relation](found, self.value)

    def rises(self) -> bool:
        """Does it hold of large values, not of small ones?"""
        return not self.relation.startswith("<")


class Outcome(NamedTuple):
    """What became of a condition. names: of its tests; name: of the first one; measured: of that; None if it is a test
    of each site. causes: the rows that made it hold, the most important ones first."""

    condition: str
    names: tuple[str, ...]
    failed: bool
    measured: Measured | None
    causes: Differences

    @property
    def name(self) -> str:
        return self.names[0]


class Condition:
    """One condition of a command; UsageError if its text is not one."""

    def __init__(self, text: str, vocabulary: Vocabulary = TWO) -> None:
        self.text, self.vocabulary = text, vocabulary
        self.tests = [self._test(part) for part in AND.split(text)]
        kinds = {test.name.startswith(SITE) for test in self.tests}
        if len(kinds) > 1:
            raise self._wrong(f"'and' joins tests of one site ({SITE}...), or tests of the whole trace")
        self.is_of_sites = kinds == {True}
        self.judges_sites = self.is_of_sites or any(test.name in vocabulary.counts for test in self.tests)

    def _wrong(self, message: str) -> UsageError:
        return UsageError(f"--fail-if '{self.text}': {message}")

    def _test(self, part: str) -> Test:
        match = TEST.fullmatch(part)
        if match is None:
            example = "peak_live > +5%" if self.vocabulary.compares else "peak_live > 50M"
            raise self._wrong(
                f"'{part.strip()}' is no test, such as {example}; see steve {self.vocabulary.command} --help"
            )
        name, unit = match["name"], match["unit"]
        names = self.vocabulary.names
        if name not in names:
            raise self._wrong(f"unknown name '{name}'" + (meant(name, names) or f"; there are: {', '.join(names)}"))
        number = float(match["number"]) if "." in match["number"] else int(match["number"])
        is_change = bool(match["sign"]) or unit == "%"
        if is_change and not self.vocabulary.compares:
            raise self._wrong("a value with a sign or % compares two traces: use steve diff")
        if name in self.vocabulary.counts and (is_change or unit):
            raise self._wrong(f"{name} is compared with a number without sign and unit")
        if unit != "%":
            number *= self._factor(unit)
        return Test(name, match["relation"], -number if match["sign"] == "-" else number, is_change, unit == "%")

    def _factor(self, unit: str) -> int:
        short = unit.removesuffix("B")
        if short not in UNITS:
            raise self._wrong(f"unknown unit '{unit}'; there are: % " + " ".join(name for name in UNITS if name))
        return UNITS[short]

    def lacking(self, rows: Differences) -> str:
        """The first name of the condition that cannot be measured, because a trace does not have it; "" if all can."""
        columns = {name: MEASURES.get(name.removeprefix(SITE), "") for name in (test.name for test in self.tests)}
        return next((name for name, column in columns.items() if column and rows.lacks(f"{column}_change")), "")

    def outcome(self, totals: dict[str, Measured], rows: Differences, most: int | None = None) -> Outcome:
        """Decide. totals: the measures of the whole traces, by name; rows: of all sites; most: so many causes are in order;
        None: all."""
        first, names = self.tests[0], tuple(test.name for test in self.tests)
        if self.is_of_sites:
            mask = rows.column("blocks_a") >= 0
            for test in self.tests:
                mask &= test.of_sites(rows)
            return Outcome(self.text, names, bool(mask.any()), None, self._ranked(rows.where(mask), most))
        measured = {test.name: self._measured(test.name, totals, rows) for test in self.tests}
        failed = all(test.holds(measured[test.name]) for test in self.tests)
        has_rows = failed and first.name not in self.vocabulary.whole
        causes = rows if has_rows else rows.where(rows.column("blocks_a") < 0)
        return Outcome(self.text, names, failed, measured[first.name], self._ranked(causes, most))

    def _measured(self, name: str, totals: dict[str, Measured], rows: Differences) -> Measured:
        if name not in self.vocabulary.counts:
            return totals[name]
        return Measured(0, int(self.vocabulary.counts[name][1](rows).sum()))

    def _ranked(self, rows: Differences, most: int | None) -> Differences:
        """The rows that contribute to the first test, the largest contribution first."""
        test = self.tests[0]
        if test.name in self.vocabulary.whole:
            return rows
        if test.name in self.vocabulary.counts:
            rows = rows.where(self.vocabulary.counts[test.name][1](rows))
            return rows.ranked("live_bytes_b", most, then="bytes_b")
        change = f"{MEASURES[test.name.removeprefix(SITE)]}_change"
        if not self.is_of_sites:
            rows = rows.where(rows.column(change) > 0 if test.rises() else rows.column(change) < 0)
        return rows.ranked(change, most, ascending=not test.rises())


def explained(vocabulary: Vocabulary = TWO) -> str:
    """The names and rules, for --help."""
    counts = "\n".join(f"  {name:<20} {meaning}" for name, (meaning, _) in vocabulary.counts.items())
    measures = "\n".join(
        f"  {name:<20} the column {column} of all sites together" for name, column in vocabulary.measures.items()
    )
    whole = "".join(f"\n  {name:<20} {meaning}" for name, meaning in vocabulary.whole.items())
    value = """\
VALUE is a number with unit k M G Ki Mi Gi, which is compared with what B has. With a sign or with % it is compared with
the change from A to B: +64Ki, +5%, -100. 'and' joins tests: 'site.peak_live > +10% and site.peak_live > +64Ki' holds
for one site that passes both. A site is a row of the table, so --by line makes it a line. A condition on what was not
recorded cannot be judged: exit status 2. Nor can any if a mark of --from or --to is missing.
"""
    alone = """\
VALUE is a number with unit k M G Ki Mi Gi. 'and' joins tests: 'site.live_at_end > 1M and site.blocks > 100' holds for
one site that passes both. With --by line, a site is a line. A condition on what was not recorded cannot be judged: exit
status 2. Nor can any if a mark of --from or --to is missing.
"""
    return f"""\
--fail-if 'NAME RELATION VALUE', repeatable: exit with status 1 if this holds; RELATION is one of = != < <= > >=.
names:
{measures}{whole}
{counts}
  {SITE + 'peak_live...':<20} each of the measures, of one site: the condition holds if it does for at least one
{value if vocabulary.compares else alone}"""
