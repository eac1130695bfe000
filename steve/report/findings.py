# SPDX-License-Identifier: GPL-2.0-or-later
"""What in a trace deserves a look: the rules of steve.analysis.rules, and of each the sites above a threshold."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steve.system.samples import Sample
from steve.terminal.units import human_bytes
from steve.report.collect import FOUND_VARIANCES, MOST_FOUND, Site, TraceData, greatest
from steve.analysis.rules import ALL, DEFAULTS, Rule, has_snapshots, help_of

SHARE, LEAST = 0.001, 1024


@dataclass(frozen=True)
class Finding:
    """A rule in words, what usually helps, what it found in all, its share of the bytes of all blocks in percent, and the
    sites above the threshold as (site, its line, blocks, bytes, accesses); hidden: how many more there are. accesses: None
    if they were not recorded."""

    key: str
    title: str
    rule: str
    help: str
    blocks: int
    bytes: int
    accesses: int | None
    share: float
    sites: list[tuple[Site, str, int, int, int]]
    hidden: int
    standard_errors: dict[str, float]  # of blocks and bytes, in a sample of the blocks; else {}


def threshold(data: TraceData) -> int:
    """Bytes from which a site is named: 0.1% of those of all blocks, at least 1 KiB."""
    return max(LEAST, int(SHARE * data.judged_bytes))


def _standard_errors(rows: np.ndarray, sample: Sample) -> dict[str, float]:
    found = {name: float(rows[name].sum()) for name in FOUND_VARIANCES if name in rows.dtype.names}
    return sample.standard_errors(found, {"blocks": "blocks", "bytes": "bytes"}).get("standard_errors", {})


def _finding(data: TraceData, rule: Rule, least: int) -> Finding:
    numbers, rows = data.found[rule.key]
    above = np.flatnonzero(rows["size"] >= least)
    named = [(data.found_sites[int(numbers[i])], rows[i]) for i in greatest(rows["size"], above, MOST_FOUND)]
    total = int(rows["size"].sum())
    return Finding(
        rule.key,
        rule.title,
        rule.text(DEFAULTS),
        help_of(rule, has_snapshots(data.info)),
        int(rows["blocks"].sum()),
        total,
        int(rows["accesses"].sum()) if data.accesses else None,
        round(100 * total / (data.judged_bytes or 1), 2),
        [
            (site, data.lines[site.stack], int(row["blocks"]), int(row["size"]), int(row["accesses"]))
            for site, row in named
        ],
        len(above) - len(named),
        _standard_errors(rows, data.sample),
    )


def _judged(data: TraceData) -> list[Rule]:
    """The rules that judged the blocks of this trace: those about accesses only if it holds accesses."""
    return [
        rule
        for rule in ALL
        if rule.key in data.found and (data.accesses or not rule.of_accesses) and not (rule.of_all and data.sample)
    ]


def findings(data: TraceData) -> list[Finding]:
    """All findings that have any block, in the order of `steve findings`."""
    least = threshold(data)
    return [found for found in (_finding(data, rule, least) for rule in _judged(data)) if found.blocks]


def without_result(data: TraceData) -> list[str]:
    """The titles of the rules that judged the blocks and found none."""
    return [
        rule.title
        for rule in _judged(data)
        if rule.key not in data.not_judged and not data.found[rule.key].rows["blocks"].any()
    ]


def not_judged(data: TraceData) -> list[tuple[str, str]]:
    """The titles of rules that could not judge all blocks, and what they could not judge."""
    return [(rule.title, data.not_judged[rule.key]) for rule in ALL if rule.key in data.not_judged]


def threshold_text(data: TraceData) -> str:
    """The threshold in words."""
    return (
        f"Sites are named from {human_bytes(threshold(data))} on (0.1% of the bytes of all blocks, at least "
        f"1 KiB), at most {MOST_FOUND} for each finding."
    )
