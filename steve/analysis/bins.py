"""Bins: counts of numbers whose range is not known before they have all been seen, in bounded memory.

Log bins are powers of two: 0, 1, 2-3, 4-7... Linear bins are equally wide; their width is the smallest power
of two with which MOST of them are enough, found by putting pairs together as larger numbers come. Each bin has
two sums: of counts, 1 for each number by default, and of a weight. Numbers are from 0 to 2^63 - 1.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from typing import TYPE_CHECKING, Any, Iterator, Tuple

if TYPE_CHECKING:
    import numpy as np

Bin = Tuple[int, int, int, int]  # first, last, count, weight


class ByNumber:
    """The order of small numbers, for sums by number. np.add.at, which does the same, takes several times as long."""

    def __init__(self, number: "np.ndarray") -> None:
        import numpy as np

        small = len(number) and number.max() < 1 << 16
        self._order = np.argsort(number.astype("u2") if small else number, kind="stable")
        ordered = number[self._order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        self._keys = ordered[self._starts]

    def add(self, to: "np.ndarray", values: Any = 1) -> None:
        """Add each value to the element of `to` with its number. values: an array, or one value for all."""
        import numpy as np

        self._join(np.add, to, values)

    def most(self, to: "np.ndarray", values: "np.ndarray") -> None:
        """The same, but the elements become the greatest of the values and themselves."""
        import numpy as np

        self._join(np.maximum, to, values)

    def _join(self, join: "np.ufunc", to: "np.ndarray", values: Any) -> None:
        import numpy as np

        if len(self._keys):
            each = np.broadcast_to(np.asarray(values).astype(to.dtype), len(self._order))
            to[self._keys] = join(to[self._keys], join.reduceat(each[self._order], self._starts))


class LogBins:
    """Powers of two."""

    def __init__(self) -> None:
        import numpy as np

        self.sums = np.zeros((65, 2), "i8")

    @staticmethod
    def numbers(values: "np.ndarray") -> "np.ndarray":
        """The bin of each value: its length in bits, exactly."""
        import numpy as np

        return np.searchsorted(np.uint64(1) << np.arange(64, dtype="u8"), values.astype("u8"), side="right")

    def add(self, values: "np.ndarray", weights: "np.ndarray", counts: "np.ndarray | None" = None) -> None:
        number = self.numbers(values)
        of_bins = ByNumber(number)
        of_bins.add(self.sums[:, 0], 1 if counts is None else counts)
        of_bins.add(self.sums[:, 1], weights)

    def merge(self, other: "LogBins") -> None:
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
        of_bins = ByNumber(number)
        of_bins.add(self.sums[:, 0], 1 if counts is None else counts)
        of_bins.add(self.sums[:, 1], weights)

    def merge(self, other: "LinearBins") -> None:
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
