"""Compare two snapshots: what grew, and which objects hold it.

An object is new if the earlier snapshot has no object of its type at its address. If an object was freed and another of
the same type was allocated at its address, the second counts as old. Snapshots alone cannot distinguish the two. Between
processes, objects are the same by their places (steve.snapshots.matching).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re

import numpy as np

from steve.snapshots.graph import Universe

ADDRESS = re.compile(" 0x[0-9a-f]+$")


def growth(before: Universe, after: Universe, is_one_process: bool = True) -> list[dict]:
    """A row for each type and name whose number of live objects or bytes changed, the largest growth first. more_garbage,
    garbage: of the bytes, those of objects to which no root leads. is_one_process: are addresses in names (functions of C) the
    same in both? Else all with the same text before their addresses are one row."""
    old, new = before.groups(True), after.groups(True)
    if not is_one_process:
        old, new = _without_addresses(old), _without_addresses(new)
    rows = []
    for key in {**old, **new}:
        then, now = old.get(key, [0] * 6), new.get(key, [0] * 6)
        if then[:2] != now[:2]:
            rows.append(
                {
                    "type": key[0],
                    "name": key[1],
                    "objects": now[0],
                    "more_objects": now[0] - then[0],
                    "bytes": now[1],
                    "more_bytes": now[1] - then[1],
                    "garbage": now[5],
                    "more_garbage": now[5] - then[5],
                }
            )
    return sorted(rows, key=lambda row: (-row["more_bytes"], row["type"], row["name"]))


def _without_addresses(groups: dict[tuple[str, str], list[int]]) -> dict[tuple[str, str], list[int]]:
    """The sums of Universe.groups(), of names without the addresses at their ends."""
    found: dict[tuple[str, str], list[int]] = {}
    for (kind, name), row in groups.items():
        key = kind, ADDRESS.sub("", name)
        found[key] = [a + b for a, b in zip(found.get(key, [0] * len(row)), row)]
    return found


def newcomers(before: Universe, after: Universe, most: int) -> list[int]:
    """The numbers of the `most` new objects that retain most bytes. Objects that another new object alone keeps
    alive are left out."""
    fresh = ~np.isin(after.identity, before.identity) & (after.retained > 0)
    kept_by = after.keepers
    numbers = np.flatnonzero(fresh & ~((kept_by >= 0) & fresh[kept_by]))
    ranked = numbers[np.argsort(-after.retained[numbers].astype(np.int64), kind="stable")]
    return ranked[:most].tolist()


def twins(before: Universe, after: Universe) -> np.ndarray:
    """For each object of the later snapshot, the number of the one in the earlier one that is the same; -1: there is none, or one
    of both is not reachable."""
    reached = np.flatnonzero(before.retained > 0)
    order = reached[np.argsort(before.identity[reached], kind="stable")]
    wanted = after.identity
    at = np.searchsorted(before.identity[order], wanted)
    found = np.full(len(wanted), -1, np.int64)
    inside = np.flatnonzero((at < len(order)) & (after.retained > 0))
    inside = inside[before.identity[order[at[inside]]] == wanted[inside]]
    found[inside] = order[at[inside]]
    return found


def more_retained(before: Universe, after: Universe) -> np.ndarray:
    """For each object of the later snapshot, by how many bytes what it retains grew (i8; negative: it shrank): the bytes that
    it retains and that are new, less those that are gone and that it, or an object that it retains, retained. 0 for new
    objects.

    Old objects that it did not retain before, since another one referred to them as well, such as the stack of a function
    that was running, do not count: nothing grew by them."""
    twin = twins(before, after)
    both = np.flatnonzero(twin >= 0)
    more = np.where(after.retained > 0, after.objects["size"].astype(np.int64), 0)
    more[both] -= before.objects["size"][twin[both]].astype(np.int64)
    counterpart = np.full(len(before.objects), -1, np.int64)
    counterpart[twin[both]] = both
    holder = _nearest(before, counterpart >= 0)
    gone = np.flatnonzero((before.retained > 0) & (counterpart < 0) & (holder >= 0))
    np.subtract.at(more, counterpart[holder[gone]], before.objects["size"][gone].astype(np.int64))
    return np.where(twin >= 0, after.summed(more), 0)


def _nearest(universe: Universe, wanted: np.ndarray) -> np.ndarray:
    """By object, the number of the closest wanted one that retains it; -1 if there is none. wanted: by object."""
    above = universe.keepers.copy()
    is_final = np.append(wanted, True)  # the last one is that of -1
    left = np.flatnonzero(~is_final[above])
    while len(left):  # each round doubles the way
        above[left] = above[above[left]]
        left = left[~is_final[above[left]]]
    return above


def swollen(before: Universe, after: Universe, most: int) -> list[dict]:
    """A row for each of the `most` old objects whose retained size grew most.

    An object is left out if one object that it keeps alive explains all of its growth. So of a long path from a root
    to a table that grew, only the table is reported."""
    more = more_retained(before, after)
    kept = np.flatnonzero((after.keepers >= 0) & (more > 0))
    over = after.keepers[kept]
    explained = np.zeros(len(more), bool)
    explained[over[more[kept] >= more[over]]] = True
    numbers = np.flatnonzero((more > 0) & ~explained)
    ranked = numbers[np.argsort(-more[numbers], kind="stable")][:most].tolist()
    return [
        {
            "more_retained": int(more[n]),
            "retained": int(after.retained[n]),
            "object": after.label(n),
            "path": after.path_text(n),
        }
        for n in ranked
    ]
