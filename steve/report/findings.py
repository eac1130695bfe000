# SPDX-License-Identifier: GPL-2.0-or-later
"""What in a trace deserves a look, each finding with the rule and the threshold it was found by.

Findings are statements about the trace, not advice: a block that is never read may be padding that is meant
to be.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steve.plots.style import human_bytes
from steve.report.collect import Site, TraceData

SHARE, LEAST = 0.001, 1024
MOST_SITES = 12


@dataclass(frozen=True)
class Finding:
    """A rule, what it found in all, and the sites above the threshold as (site, blocks, bytes)."""

    key: str
    title: str
    rule: str
    blocks: int
    bytes: int
    share: float
    sites: list[tuple[Site, int, int]]
    hidden: int


_RULES = (
    (
        "unread",
        "Never read",
        "No load or modify touched the block between its New and its Free (or the end).",
    ),
    (
        "unwritten",
        "Never written",
        "No store or modify touched the block: whatever it holds is not the program's. "
        "calloc zeroes fresh memory without a store of its own.",
    ),
    (
        "live",
        "Never freed",
        "The block was live when the trace ended. At a normal exit much of this is meant.",
    ),
)


def threshold(data: TraceData) -> int:
    """Bytes from which a site is named: 0.1% of all bytes allocated, at least 1 KiB."""
    return max(LEAST, int(SHARE * data.totals["allocated"]))


def _finding(data: TraceData, key: str, title: str, rule: str, least: int) -> Finding:
    blocks, size = data.stacks[f"{key}_blocks"], data.stacks[f"{key}_bytes"]
    above = int((size >= least).sum())
    sites = [site for site in data.sites if site.tally[f"{key}_bytes"] >= least]
    sites.sort(key=lambda site: -site.tally[f"{key}_bytes"])
    shown = [(s, s.tally[f"{key}_blocks"], s.tally[f"{key}_bytes"]) for s in sites[:MOST_SITES]]
    total = int(size.sum(dtype=np.uint64))
    return Finding(
        key,
        title,
        rule,
        int(blocks.sum()),
        total,
        100 * total / (data.totals["allocated"] or 1),
        shown,
        above - len(shown),
    )


def findings(data: TraceData) -> list[Finding]:
    """All findings that have any block; those about accesses only if the trace holds accesses."""
    least = threshold(data)
    rules = [rule for rule in _RULES if data.accesses or rule[0] == "live"]
    found = [_finding(data, *rule, least) for rule in rules]
    return [finding for finding in found if finding.blocks]


def threshold_text(data: TraceData) -> str:
    """The threshold in words."""
    return (
        f"Sites are named from {human_bytes(threshold(data))} on (0.1% of the bytes allocated, at least "
        f"1 KiB), at most {MOST_SITES} for each finding."
    )
