"""The rules by which blocks deserve a look: of `steve findings` and of the report.

A finding is a statement about the trace, not advice: a block that is never read may be padding that is meant to be.
Each rule has its words and thresholds here; steve/kernels/lives/findings.c says which lives a rule finds, and counts them.
Blocks that were there when the trace began (a forked child's inherited ones, or those of a recording that kept its last
part) are found by none: they may have been used before.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import Dict, Mapping, NamedTuple

MOST = 2**64 - 1


class Rule(NamedTuple):
    """key; title; the rule in words, with thresholds in braces; does it need accesses?"""

    key: str
    title: str
    words: str
    of_accesses: bool = True
    of_all: bool = True
    """Does it need every block, so that it cannot be judged in a sample?"""

    def text(self, thresholds: Mapping[str, float]) -> str:
        """The rule in words, with its thresholds."""
        return self.words.format(**thresholds)


# in the order of enum findings_rule
RULES = (
    Rule("never_touched", "Never accessed", "no access from New to Free or the end"),
    Rule("never_read", "Written, never read", "stores but no load and no modification"),
    Rule(
        "never_written",
        "Read, never written",
        "loads but no store and no modification; what it holds came from the allocator or the system",
    ),
    Rule(
        "written_once",
        "Written once, then idle",
        "never read, no more bytes written than it has, all in the first {early:g}% of a life of at least "
        "{min_life} operations",
    ),
    Rule("short_lived", "Short-lived", "freed at most {short} operations after its New", False),
    Rule(
        "low_utilisation",
        "Low utilisation",
        "{min_size} bytes or more, accessed, but less than {utilisation:g}% of them (in parts of 1/64)",
    ),
    Rule(
        "late_first_use", "Late first use", "first access after {late:g}% of a life of at least {min_life} operations"
    ),
    Rule(
        "idle_tail",
        "Long idle before the end",
        "accessed, but not in the last {idle:g}% of a life of at least {min_life} operations",
    ),
    Rule("resize_chain", "Resized again and again", "one block, resized {chain} times or more", False),
    Rule(
        "never_freed", "Never freed", "live when the trace ended; at a normal exit much of this is meant", False, False
    ),
)
# shares in percent; lifetimes in operations, sizes in bytes
DEFAULTS = {
    "early": 10,
    "late": 50,
    "idle": 90,
    "utilisation": 50,
    "short": 100,
    "chain": 8,
    "min_life": 1000,
    "min_size": 64,
}


def limits(thresholds: Mapping[str, float]) -> Dict[str, float]:
    """Thresholds as the kernel has them (struct findings_limits); no lifetime, size or number of Resizes is above 64
    bits."""
    shares = {name: thresholds[name] / 100 for name in ("early", "late", "idle", "utilisation")}
    numbers = {
        "short_life": thresholds["short"],
        "min_life": thresholds["min_life"],
        "chain": thresholds["chain"],
        "min_size": thresholds["min_size"],
    }
    return {**shares, **{name: min(number, MOST) for name, number in numbers.items()}}
