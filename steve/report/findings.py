# SPDX-License-Identifier: GPL-2.0-or-later
"""What in a trace deserves a look: the rules of steve.analysis.rules, and of each the sites above a threshold."""
from __future__ import annotations

from dataclasses import dataclass

from steve.system import samples
from steve.terminal.units import human_bytes
from steve.report.collect import MOST_FOUND, Site, TraceData
from steve.analysis.rules import DEFAULTS, RULES, Rule

SHARE, LEAST = 0.001, 1024


@dataclass(frozen=True)
class Finding:
    """A rule in words, what it found in all, its share of the bytes of all blocks in percent, and the sites above the
    threshold as (site, blocks, bytes); hidden: how many more there are."""

    key: str
    title: str
    rule: str
    blocks: int
    bytes: int
    share: float
    sites: list[tuple[Site, int, int]]
    hidden: int


def threshold(data: TraceData) -> int:
    """Bytes from which a site is named: 0.1% of those of all blocks, at least 1 KiB."""
    return max(LEAST, int(SHARE * data.judged_bytes))


def _finding(data: TraceData, rule: Rule, least: int) -> Finding:
    number = RULES.index(rule)
    blocks, size = data.found["blocks"][:, number], data.found["bytes"][:, number]
    sites = [site for site in data.found_sites if size[site.stack] >= least]
    sites.sort(key=lambda site: -int(size[site.stack]))
    shown = [(s, int(blocks[s.stack]), int(size[s.stack])) for s in sites[:MOST_FOUND]]
    total = int(size.sum())
    return Finding(
        rule.key,
        rule.title,
        rule.text(DEFAULTS),
        int(blocks.sum()),
        total,
        round(100 * total / (data.judged_bytes or 1), 2),
        shown,
        int((size >= least).sum()) - len(shown),
    )


def findings(data: TraceData) -> list[Finding]:
    """All findings that have any block; those about accesses only if the trace holds accesses."""
    least = threshold(data)
    found = [
        _finding(data, rule, least)
        for rule in RULES
        if (data.accesses or not rule.of_accesses) and not (rule.of_all and samples.mean())
    ]
    return [finding for finding in found if finding.blocks]


def threshold_text(data: TraceData) -> str:
    """The threshold in words."""
    return (
        f"Sites are named from {human_bytes(threshold(data))} on (0.1% of the bytes of all blocks, at least "
        f"1 KiB), at most {MOST_FOUND} for each finding."
    )
