"""What differs between two traces, by stack, line, function...: of `steve diff` and of the report on two traces.

Rows are matched by their texts, so the traces may come from different builds.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.system import samples

if TYPE_CHECKING:
    from steve.analysis.folds import Table
    from steve.trace.rollups import Rollup

MEASURES = (
    ("blocks", "blocks", "blocks made"),
    ("bytes", "bytes", "bytes that News and Resizes requested"),
    ("peak_bytes", "at peak", "live bytes at the peak of the whole heap"),
    ("live_bytes", "at end", "bytes of blocks never freed"),
    ("accesses", "accesses", "loads, stores and modifications of the blocks"),
)
# the variances of measures that are estimates, in a sample of the blocks
ESTIMATES = ("variance_blocks", "variance_bytes", "variance_peak_bytes", "variance_live_bytes")
ACCESSES = ("loads", "stores", "modifies")


def measured(sums: Table, rollup: Rollup) -> dict[str, dict]:
    """The measures of one trace by the text of a row. sums: by rollup.key, of steve.kernels._lives.Groups."""
    numbers, rows = rollup.merged(sums)
    found: dict[str, dict] = {}
    for number, row in zip(numbers.tolist(), rows):
        known = found.setdefault(rollup.text(number), dict.fromkeys((key for key, _, _ in MEASURES), 0))
        for key, _, _ in MEASURES:
            known[key] += sum(int(row[name]) for name in ACCESSES) if key == "accesses" else int(row[key])
        for key in ESTIMATES:
            known[key] = known.get(key, 0) + float(row[key])
    return found


def row_of(place: str, first: dict, second: dict) -> dict:
    """The row of a place, from its measures in both traces."""
    row: dict = {"place": place}
    for key, _, _ in MEASURES:
        a, b = first.get(key, 0), second.get(key, 0)
        row.update({f"{key}_a": a, f"{key}_b": b, f"{key}_change": b - a})
    variances = {}
    for key in ESTIMATES:
        a, b = first.get(key, 0), second.get(key, 0)
        variances.update({f"{key}_a": a, f"{key}_b": b, f"{key}_change": a + b})
    columns = {key.removeprefix("variance_"): key.removeprefix("variance_") for key in variances}
    return {**row, **samples.standard_errors(variances, columns)}


def all_rows(first: dict[str, dict], second: dict[str, dict]) -> list[dict]:
    """The rows of all places."""
    return [row_of(place, first.get(place, {}), second.get(place, {})) for place in {**first, **second}]


def changed(rows: list[dict]) -> list[dict]:
    """The rows of the places whose measures differ."""
    return [row for row in rows if any(row[f"{key}_change"] for key, _, _ in MEASURES)]
