"""How far a synthetic trace is from the original: Kolmogorov-Smirnov distances.

The distance of two distributions is the greatest difference of their distribution functions: 0 if they are the same, 1
if they have nothing in common.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steve.synth.model import Lives

if TYPE_CHECKING:
    import numpy as np

MOMENTS = 1000


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The Kolmogorov-Smirnov distance of two samples; 1 if one of them is empty."""
    import numpy as np

    if not len(one) or not len(other):
        return float(len(one) != len(other))
    at = np.unique(np.concatenate([one, other]))
    functions = [np.searchsorted(np.sort(values), at, side="right") / len(values) for values in (one, other)]
    return float(np.abs(functions[0] - functions[1]).max())


def _steps(lives: Lives) -> np.ndarray:
    """The order of sizes: the ratio of each size to the one before, as a logarithm."""
    import numpy as np

    logarithm = np.log2(np.maximum(lives.size, 1))
    return np.diff(logarithm).round(2)


def _live_curve(lives: Lives) -> np.ndarray:
    """The part of all live bytes, summed over time, that was until each of 1000 moments."""
    import numpy as np

    live = lives.live_bytes().astype(float)
    at = np.linspace(0, len(live) - 1, MOMENTS).astype(int)
    total = np.cumsum(live)[at]
    return total / max(total[-1], 1.0)


def _free_runs(lives: Lives) -> np.ndarray:
    """How many Frees follow each other without a New between them, for each such run."""
    import numpy as np

    is_free = np.zeros(lives.operations + 2, "i1")
    is_free[lives.died[lives.died >= 0] + 1] = 1
    edges = np.flatnonzero(np.diff(is_free))
    return edges[1::2] - edges[::2]


def _free_steps(lives: Lives) -> np.ndarray:
    """How many blocks later the block of a Free was made than that of the Free before, if nothing is between them."""
    import numpy as np

    blocks = np.flatnonzero(lives.died >= 0)
    blocks = blocks[np.argsort(lives.died[blocks])]
    return np.diff(blocks)[np.diff(lives.died[blocks]) == 1]


@dataclass(frozen=True)
class OfClass:
    """The blocks of more than half of `to` and at most `to` bytes. lifetime: the distance of their lifetimes, of those
    that are freed. never_freed: parts of the blocks, of the original and of the synthetic trace."""

    to: int
    blocks: int
    made: int
    lifetime: float
    never_freed: tuple[float, float]


def by_size_class(original: Lives, synthetic: Lives) -> list[OfClass]:
    """The distances for each power of two of the size, to see whether a lifetime depends on the size likewise."""
    import numpy as np

    powers = [np.ceil(np.log2(np.maximum(lives.size, 1))).astype(int) for lives in (original, synthetic)]
    found = []
    for power in np.unique(np.concatenate(powers)).tolist():
        parts = [of == power for of in powers]
        freed = [part & (lives.died >= 0) for part, lives in zip(parts, (original, synthetic))]
        lifetimes = [(lives.died - lives.born)[some] for some, lives in zip(freed, (original, synthetic))]
        counts = [int(part.sum()) for part in parts]
        immortal = [1 - float(some.sum()) / count if count else 0.0 for some, count in zip(freed, counts)]
        found.append(OfClass(1 << power, *counts, distance(*lifetimes), (immortal[0], immortal[1])))
    return found


def distances(original: Lives, synthetic: Lives) -> dict[str, float]:
    """The distances of sizes, lifetimes, order and phase, of the lengths of runs of Frees, and of what follows in them."""
    import numpy as np

    return {
        "size": distance(original.size, synthetic.size),
        "lifetime": distance(original.lifetimes(), synthetic.lifetimes()),
        "order": distance(_steps(original), _steps(synthetic)),
        "free_runs": distance(_free_runs(original), _free_runs(synthetic)),
        "free_steps": distance(_free_steps(original), _free_steps(synthetic)),
        "phase": float(np.abs(_live_curve(original) - _live_curve(synthetic)).max()),
    }
