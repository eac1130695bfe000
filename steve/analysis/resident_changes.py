"""What was resident in two traces, whose it was: the rows that `steve diff` and the report of two traces show.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
from typing import NamedTuple

from steve.analysis import looks, owners
from steve.analysis.conditions import Measured

TITLES = {
    looks.AT_LOOK: "all of these, at the look with the most",
    looks.RESIDENT: "at most, also between looks",
    looks.RESIDENT_AT_END: "at the last look",
}


class ResidentChanges(NamedTuple):
    """What was measured of the first trace, A, and of the second one, B."""

    first: looks.Measures
    second: looks.Measures

    def measured(self) -> dict[str, Measured]:
        """The measures that are known of both."""
        a, b = self.first.values, self.second.values
        return {name: Measured(a[name], b[name]) for name in a if name in b}

    def unknown_in(self, name: str) -> str:
        """Of which traces a measure is not known, and why."""
        lacking = [(text, side) for text, side in (("A", self.first), ("B", self.second)) if name not in side.values]
        reasons = list(dict.fromkeys(side.why_not for _, side in lacking))
        return f"{' and '.join(text for text, _ in lacking)}: {'; '.join(reasons)}"

    def rows(self) -> list[dict]:
        """Each owner, their sum, and the largest and the last number of resident bytes; none if both traces do not have
        them."""
        found = self.measured()
        titles = {looks.name_of(kind): title for kind, title in owners.TITLES.items()} | TITLES
        return [
            {
                "measure": name,
                "a": found[name].a,
                "b": found[name].b,
                "change": found[name].change(),
                "percent": round(found[name].percent(), 2) if math.isfinite(found[name].percent()) else None,
                "what": title,
            }
            for name, title in titles.items()
            if name in found and (found[name].a or found[name].b)
        ]

    def remark(self) -> str:
        """A sentence if only one of the traces has what was resident, or if that which is free is not known; else ""."""
        if bool(self.first.values) != bool(self.second.values):
            return f"What was resident is not known of {self.unknown_in(looks.RESIDENT)}."
        free = looks.name_of(owners.FREE)
        if any(looks.AT_LOOK in side.values and free not in side.values for side in self):
            return f"How much was free in the allocator is not known of {self.unknown_in(free)}."
        return ""
