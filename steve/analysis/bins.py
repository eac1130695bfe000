"""Bins: counts of numbers whose range is not known before they have all been seen, in bounded memory.

Log bins are powers of two: 0, 1, 2-3, 4-7... Linear bins are equally wide; their width is the smallest power
of two with which MOST of them are enough, found by putting pairs together as larger numbers come. Each bin has
two sums: of counts, 1 for each number by default, and of a weight. Numbers are from 0 to 2^63 - 1.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Iterator, Tuple

if TYPE_CHECKING:
    import numpy as np

Bin = Tuple[int, int, int, int]  # first, last, count, weight


class LogBins:
    """Powers of two."""

    def __init__(self) -> None:
        import numpy as np

        self.sums = np.zeros((65, 2), "i8")

    @staticmethod
    def numbers(values: "np.ndarray") -> "np.ndarray":
        """The bin of each value: its length in bits, exactly."""
        import numpy as np

        values = values.astype("u8")
        result = np.zeros(len(values), "i8")
        for step in (32, 16, 8, 4, 2, 1):
            high = values >> np.uint64(step) > 0
            result[high] += step
            values[high] >>= np.uint64(step)
        return result + (values > 0)

    def add(self, values: "np.ndarray", weights: "np.ndarray", counts: "np.ndarray | None" = None) -> None:
        import numpy as np

        number = self.numbers(values)
        np.add.at(self.sums[:, 0], number, 1 if counts is None else counts.astype("i8"))
        np.add.at(self.sums[:, 1], number, weights.astype("i8"))

    def join(self, other: "LogBins") -> None:
        """Add other bins."""
        self.sums += other.sums

    def __iter__(self) -> Iterator[Bin]:
        """The bins that are not empty."""
        for i, (count, weight) in enumerate(self.sums.tolist()):
            if count:
                yield 1 << i >> 1, (1 << i) - 1, count, weight


class LinearBins:
    """At most MOST bins of equal width."""

    MOST = 64

    def __init__(self) -> None:
        import numpy as np

        self.sums = np.zeros((self.MOST, 2), "i8")
        self.width = 1

    def _reach(self, largest: int) -> None:
        """Double the width until the largest value has a bin."""
        import numpy as np

        while largest // self.width >= self.MOST:
            pairs = self.sums.reshape(self.MOST // 2, 2, 2).sum(axis=1)
            self.sums = np.concatenate((pairs, np.zeros_like(pairs)))
            self.width *= 2

    def add(self, values: "np.ndarray", weights: "np.ndarray", counts: "np.ndarray | None" = None) -> None:
        import numpy as np

        if len(values) == 0:
            return
        self._reach(int(values.max()))
        number = (values // np.asarray(self.width, values.dtype)).astype("i8")
        np.add.at(self.sums[:, 0], number, 1 if counts is None else counts.astype("i8"))
        np.add.at(self.sums[:, 1], number, weights.astype("i8"))

    def join(self, other: "LinearBins") -> None:
        """Add other bins. The width becomes the larger of both."""
        self._reach(other.width * self.MOST - 1)
        other._reach(self.width * self.MOST - 1)
        self.sums += other.sums

    def __iter__(self) -> Iterator[Bin]:
        """All bins up to the last that is not empty."""
        import numpy as np

        held = np.flatnonzero(self.sums[:, 0])
        for i in range(int(held[-1]) + 1 if len(held) else 0):
            count, weight = self.sums[i].tolist()
            yield i * self.width, (i + 1) * self.width - 1, count, weight


KINDS = {"log": LogBins, "linear": LinearBins}
