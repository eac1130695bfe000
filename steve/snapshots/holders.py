"""Through which tables and variables the objects of one snapshot are reachable, with the sums of their bytes.

Each object that is reachable belongs to what holds it: see Places.holders().

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import Any

import numpy as np

from steve.snapshots.graph import Universe
from steve.snapshots.growth import Places

MOST_HOLDERS = 1000  # so many that hold most get paths


def held_paths(universe: Universe) -> list[dict[str, Any]]:
    """A row for each path to what holds objects, that with most bytes first: path, bytes and objects that it holds, share (of
    the bytes of all reachable objects, from 0 to 1). Holders with one path are one row."""
    places = Places(universe)
    held_by = places.holders()
    reached = np.flatnonzero(held_by >= 0)
    holders, which = np.unique(held_by[reached], return_inverse=True)
    sizes = np.bincount(which, universe.objects["size"][reached], len(holders)).astype(np.int64)
    objects = np.bincount(which, minlength=len(holders))
    found: dict[str, dict[str, Any]] = {}
    for n in np.argsort(-sizes, kind="stable")[:MOST_HOLDERS].tolist():
        path = places.holder_text(int(holders[n]))
        row = found.setdefault(path, {"path": path, "bytes": 0, "objects": 0, "share": 0.0})
        row["bytes"] += int(sizes[n])
        row["objects"] += int(objects[n])
    for row in found.values():
        row["share"] = round(row["bytes"] / max(int(sizes.sum()), 1), 4)
    return sorted(found.values(), key=lambda row: (-row["bytes"], row["path"]))
