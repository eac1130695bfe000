"""The frontier of time and space: what no other beats.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def frontier(items: Iterable[T], costs: Callable[[T], tuple[float, float]]) -> list[T]:
    """The items for which no other is better or equal in both costs, from the least first cost on."""
    best: list[T] = []
    for item in sorted(items, key=costs):
        if not best or costs(item)[1] < costs(best[-1])[1]:
            best.append(item)
    return best
