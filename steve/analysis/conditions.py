r"""The conditions of `steve diff --fail-if`: what a comparison of two traces, A and B, must not find.

    condition = test { "and" test }
    test      = NAME relation value
    relation  = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
    value     = [ "+" | "-" ] NUMBER [ ( "k" | "M" | "G" | "Ki" | "Mi" | "Gi" ) [ "B" ] | "%" ]

A value with a sign or a percent sign is compared with the change from A to B, in percent of A. Another value is compared
with what B has. A NAME is a measure of the whole trace (`peak_live`), a number of sites (`sites.new_leaks`), or a
measure of each site (`site.peak_live`); the last holds if it holds for at least one site, and tests that `and` joins
hold for the same site. A growth from 0 is infinite in percent. No part of a condition is executed as code.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from steve.analysis.filter import RELATIONS, UNITS
from steve.system.errors import UsageError, meant

# the measures, and the columns of the comparison that have them
MEASURES = {
    "allocated": "bytes",
    "blocks": "blocks",
    "peak_live": "peak_bytes",
    "live_at_end": "live_bytes",
    "accesses": "accesses",
}
SITE = "site."
COUNTS: dict[str, tuple[str, Callable[[dict], bool]]] = {
    "sites.new": ("sites that allocate in B and not in A", lambda row: row["blocks_b"] > 0 == row["blocks_a"]),
    "sites.new_leaks": (
        "sites with live bytes at the end of B, and none in A",
        lambda row: row["live_bytes_b"] > 0 == row["live_bytes_a"],
    ),
}
NAMES = (*MEASURES, *COUNTS, *(SITE + name for name in MEASURES))
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

    def of_site(self, row: dict) -> bool:
        """Does it hold for the site of a row? Of a test whose name begins with SITE."""
        return self.holds(measure(row, self.name.removeprefix(SITE)))

    def rises(self) -> bool:
        """Does it hold of large values, not of small ones?"""
        return not self.relation.startswith("<")


class Outcome(NamedTuple):
    """What became of a condition. measured: of its first test; None if that is a test of each site. causes: the rows that
    made it hold, the most important ones first."""

    condition: str
    failed: bool
    measured: Measured | None
    causes: list[dict]


def measure(row: dict, name: str) -> Measured:
    """A measure of a row of the comparison."""
    column = MEASURES[name]
    return Measured(row[f"{column}_a"], row[f"{column}_b"])


class Condition:
    """One condition; UsageError if its text is not one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tests = [self._test(part) for part in AND.split(text)]
        kinds = {test.name.startswith(SITE) for test in self.tests}
        if len(kinds) > 1:
            raise self._wrong(f"'and' joins tests of one site ({SITE}...), or tests of the whole trace")
        self.is_of_sites = kinds == {True}

    def _wrong(self, message: str) -> UsageError:
        return UsageError(f"--fail-if '{self.text}': {message}")

    def _test(self, part: str) -> Test:
        match = TEST.fullmatch(part)
        if match is None:
            raise self._wrong(f"'{part.strip()}' is no test, such as peak_live > +5%; see steve diff --help")
        name, unit = match["name"], match["unit"]
        if name not in NAMES:
            raise self._wrong(f"unknown name '{name}'" + (meant(name, NAMES) or f"; there are: {', '.join(NAMES)}"))
        number = float(match["number"]) if "." in match["number"] else int(match["number"])
        is_change = bool(match["sign"]) or unit == "%"
        if name in COUNTS and (is_change or unit):
            raise self._wrong(f"{name} is compared with a number without sign and unit")
        if unit != "%":
            number *= self._factor(unit)
        return Test(name, match["relation"], -number if match["sign"] == "-" else number, is_change, unit == "%")

    def _factor(self, unit: str) -> int:
        short = unit.removesuffix("B")
        if short not in UNITS:
            raise self._wrong(f"unknown unit '{unit}'; there are: % " + " ".join(name for name in UNITS if name))
        return UNITS[short]

    def outcome(self, totals: dict[str, Measured], rows: list[dict]) -> Outcome:
        """Decide. totals: the measures of the whole traces, by name; rows: of all sites that differ."""
        first = self.tests[0]
        if self.is_of_sites:
            causes = [row for row in rows if all(test.of_site(row) for test in self.tests)]
            return Outcome(self.text, bool(causes), None, self._ranked(causes))
        measured = {test.name: self._measured(test.name, totals, rows) for test in self.tests}
        failed = all(test.holds(measured[test.name]) for test in self.tests)
        return Outcome(self.text, failed, measured[first.name], self._ranked(rows) if failed else [])

    def _measured(self, name: str, totals: dict[str, Measured], rows: list[dict]) -> Measured:
        if name not in COUNTS:
            return totals[name]
        return Measured(0, sum(COUNTS[name][1](row) for row in rows))

    def _ranked(self, rows: list[dict]) -> list[dict]:
        """The rows that contribute to the first test, the largest contribution first."""
        test = self.tests[0]
        if test.name in COUNTS:
            rows = [row for row in rows if COUNTS[test.name][1](row)]
            return sorted(rows, key=lambda row: (-row["live_bytes_b"], -row["bytes_b"], row["place"]))
        name, sign = test.name.removeprefix(SITE), -1 if test.rises() else 1
        if not self.is_of_sites:
            rows = [row for row in rows if sign * measure(row, name).change() < 0]
        return sorted(rows, key=lambda row: (sign * measure(row, name).change(), row["place"]))


def explained() -> str:
    """The names and rules, for --help."""
    counts = "\n".join(f"  {name:<20} {meaning}" for name, (meaning, _) in COUNTS.items())
    measures = "\n".join(f"  {name:<20} the column {column} of all sites together" for name, column in MEASURES.items())
    return f"""\
--fail-if 'NAME RELATION VALUE', repeatable: exit with status 1 if this holds; RELATION is one of = != < <= > >=.
names:
{measures}
{counts}
  {SITE + 'peak_live...':<20} each of the measures, of one site: the condition holds if it does for at least one
VALUE is a number with unit k M G Ki Mi Gi, which is compared with what B has. With a sign or with % it is compared with
the change from A to B: +64Ki, +5%, -100. 'and' joins tests: 'site.peak_live > +10% and site.peak_live > +64Ki' holds
for one site that passes both. A site is a row of the table, so --by line makes it a line.
"""
