"""What grew between two snapshots, and who holds it.

An object is new if the earlier snapshot has none of its type at its address: an address that was given up and
taken by the same type counts as old, which a trace of the same run could tell better.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import List

import numpy as np

from steve.universe.graph import Universe


def keys(universe: Universe) -> "np.ndarray":
    """One number for each object: address and type."""
    return universe.objects["addr"] << np.uint64(8) | universe.objects["type"]


def growth(before: Universe, after: Universe) -> List[dict]:
    """A row for each type and name whose live bytes or objects changed."""
    old, new = before.groups(True), after.groups(True)
    rows = []
    for key in {**old, **new}:
        then, now = old.get(key, [0, 0, 0, 0]), new.get(key, [0, 0, 0, 0])
        if then[:2] != now[:2]:
            rows.append({"type": key[0], "name": key[1], "objects": now[0], "more_objects": now[0] - then[0],
                         "bytes": now[1], "more_bytes": now[1] - then[1]})
    return sorted(rows, key=lambda row: (-row["more_bytes"], row["type"], row["name"]))


def newcomers(before: Universe, after: Universe, most: int) -> List[int]:
    """The new live objects that retain most and are not kept by another new one listed."""
    fresh = ~np.isin(keys(after), keys(before)) & (after.objects["dead"] == 0)
    numbers = np.flatnonzero(fresh)
    ranked = numbers[np.argsort(-after.retained[numbers].astype(np.int64), kind="stable")]
    return ranked[:most].tolist()
