"""What grew between two snapshots, and who holds it.

An object is new if the earlier snapshot has none of its type at its address: an address that was given up and
taken by the same type counts as old, which a trace of the same run could tell better.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import numpy as np

from steve.snapshots.graph import Universe


def keys(universe: Universe) -> np.ndarray:
    """One number for each object: address and type."""
    return universe.objects["addr"] << np.uint64(8) | universe.objects["type"]


def growth(before: Universe, after: Universe) -> list[dict]:
    """A row for each type and name whose live bytes or objects changed."""
    old, new = before.groups(True), after.groups(True)
    rows = []
    for key in {**old, **new}:
        then, now = old.get(key, [0, 0, 0, 0]), new.get(key, [0, 0, 0, 0])
        if then[:2] != now[:2]:
            rows.append({"type": key[0], "name": key[1], "objects": now[0], "more_objects": now[0] - then[0],
                         "bytes": now[1], "more_bytes": now[1] - then[1]})
    return sorted(rows, key=lambda row: (-row["more_bytes"], row["type"], row["name"]))


def newcomers(before: Universe, after: Universe, most: int) -> list[int]:
    """The new objects that retain most and are not kept by another new one alone."""
    fresh = ~np.isin(keys(after), keys(before)) & (after.retained > 0)
    kept_by = after.keepers
    numbers = np.flatnonzero(fresh & ~((kept_by >= 0) & fresh[kept_by]))
    ranked = numbers[np.argsort(-after.retained[numbers].astype(np.int64), kind="stable")]
    return ranked[:most].tolist()


def more_retained(before: Universe, after: Universe) -> np.ndarray:
    """For each object of the later snapshot: bytes that it retains more than in the earlier; 0 of those that were
    not there."""
    order = np.argsort(keys(before))
    known = keys(before)[order]
    at = np.minimum(np.searchsorted(known, keys(after)), max(len(known) - 1, 0))
    there = (known[at] == keys(after)) if len(known) else np.zeros(len(after.objects), bool)
    then = before.retained[order[at]].astype(np.int64) if len(known) else np.zeros(len(after.objects), np.int64)
    return np.where(there & (after.retained > 0), after.retained.astype(np.int64) - then, 0)


def swollen(before: Universe, after: Universe, most: int) -> list[dict]:
    """The objects of both snapshots that retain more than before, but for those that do so because of a single old
    one that they keep: of a long path from a root to a table that grew, the table."""
    more = more_retained(before, after)
    kept = np.flatnonzero((after.keepers >= 0) & (more > 0))
    over = after.keepers[kept]
    explained = np.zeros(len(more), bool)
    explained[over[more[kept] >= more[over]]] = True
    numbers = np.flatnonzero((more > 0) & ~explained)
    ranked = numbers[np.argsort(-more[numbers], kind="stable")][:most].tolist()
    return [{"more_retained": int(more[n]), "retained": int(after.retained[n]), "object": after.label(n),
             "path": after.path_text(n)} for n in ranked]
