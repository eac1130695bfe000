"""Medians of repeated measurements and ratios of them, with bootstrap intervals, and which differences are certain.

The k-th measurements of all allocators are of the same round, in which they ran one after the other. Two allocators are
compared by their differences within each round, because what slows the machine for a while slows both. A difference is
certain if the bootstrap interval of the median difference does not contain 0. Its level is 95% for all pairs together
(Bonferroni), so one pair of 45 has an interval of 99.9%.

With few rounds such intervals are a little too short: of 11 rounds, 93 of 100 contain the true median. And chance alone
gives all differences of a pair the same sign in one of 2^(rounds - 1) cases. So there are rounds enough only if this, for
all pairs together, is one case in 20 at most; with fewer, only differences that are equal in all rounds are certain.

A place is a range: from 1 + the number of allocators that are certainly better, to n - the number of those that are
certainly worse. Allocators whose order is not known share places.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.95
RESAMPLES = 10000


@dataclass(frozen=True)
class Median:
    """A median or a ratio of two, the ends of its interval of 95%, and of how many values it is."""

    value: float
    low: float
    high: float
    count: int

    def __truediv__(self, by: float) -> Median:
        return Median(self.value / by, self.low / by, self.high / by, self.count)

    def as_list(self) -> list[float]:
        """Value, low and high, for JSON."""
        return [self.value, self.low, self.high]

    def as_dict(self) -> dict[str, float]:
        """The same with the number of values, for JSON."""
        return {"median": self.value, "low": self.low, "high": self.high, "count": self.count}


@dataclass(frozen=True)
class Places:
    """Who is certainly better than whom by one measure, of which less is better.

    order: the names by their medians. better: pairs (a, b): a is certainly less than b. place: the first and the last
    place that each name can have."""

    order: list[str]
    better: list[tuple[str, str]]
    place: dict[str, tuple[int, int]]


def _choices(count: int, seed: int) -> np.ndarray:
    """RESAMPLES rows of `count` indexes, drawn with replacement; always the same."""
    import numpy as np

    return np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))


def _resampled(values: np.ndarray, seed: int) -> np.ndarray:
    """The medians of RESAMPLES samples of the values."""
    import numpy as np

    return np.median(values[_choices(len(values), seed)], axis=1)


def _interval(medians: np.ndarray, level: float) -> tuple[float, float]:
    """The percentile interval of resampled medians."""
    import numpy as np

    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def median(values: list[float], seed: int = 1) -> Median:
    """The median of at least one value, with its interval."""
    import numpy as np

    numbers = np.asarray(values, float)
    return Median(float(np.median(numbers)), *_interval(_resampled(numbers, seed), LEVEL), len(numbers))


def band(rounds: np.ndarray, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the intervals of many medians. rounds: a row for each round, a column for each quantity.

    The median of resampled values depends on their ranks only, so all columns have the same ranks as ends."""
    import numpy as np

    ranks = np.arange(len(rounds), dtype=float)
    ordered = np.sort(rounds, axis=0)

    def at(rank: float) -> np.ndarray:
        below, above = int(np.floor(rank)), int(np.ceil(rank))
        return ordered[below] + (rank - below) * (ordered[above] - ordered[below])

    low, high = _interval(_resampled(ranks, seed), LEVEL)
    return at(low), at(high)


def ratio(values: list[float], base: list[float], seed: int = 1) -> Median:
    """The median of the values divided by that of the base, two independent samples, with its interval."""
    import numpy as np

    upper, lower = np.asarray(values, float), np.maximum(np.asarray(base, float), 1e-9)
    medians = _resampled(upper, seed) / _resampled(lower, seed + 1)
    return Median(float(np.median(upper) / np.median(lower)), *_interval(medians, LEVEL), len(upper))


def difference(values: list[float], base: list[float], seed: int = 1) -> Median:
    """The median of the values minus that of the base, two independent samples, with its interval."""
    import numpy as np

    upper, lower = np.asarray(values, float), np.asarray(base, float)
    medians = _resampled(upper, seed) - _resampled(lower, seed + 1)
    return Median(float(np.median(upper) - np.median(lower)), *_interval(medians, LEVEL), len(upper))


def rounds_needed(count: int) -> int:
    """The rounds that it takes to be certain of differences between so many allocators."""
    pairs = count * (count - 1) // 2
    return 1 + math.ceil(math.log2(max(pairs, 1) / (1 - LEVEL)))


def places(rounds: dict[str, list[float]], seed: int = 1) -> Places:
    """Compare by name the values of all rounds; every name has one for each round."""
    import numpy as np

    values = {name: np.asarray(of, float) for name, of in rounds.items()}
    order = sorted(values, key=lambda name: float(np.median(values[name])))
    pairs = list(combinations(order, 2))
    level = 1 - (1 - LEVEL) / max(len(pairs), 1)

    def is_certain(differences: np.ndarray) -> bool:
        enough = len(differences) >= rounds_needed(len(order)) or np.ptp(differences) == 0
        return enough and _interval(_resampled(differences, seed), level)[0] > 0

    better = [(a, b) for a, b in pairs if is_certain(values[b] - values[a])]
    above = {name: sum(b == name for _, b in better) for name in order}
    below = {name: sum(a == name for a, _ in better) for name in order}
    return Places(order, better, {name: (1 + above[name], len(order) - below[name]) for name in order})
