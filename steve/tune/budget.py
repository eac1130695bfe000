"""How much a search may replay: for some time, or a number of times.

The time suits users. The number makes a search that does as much on a busy machine as on an idle one.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
import time


class Budget:
    """amount: seconds, or replays if `counted`. What is spent is in the same unit."""

    def __init__(self, amount: float = math.inf, counted: bool = False) -> None:
        self.amount, self.counted = amount, counted
        self.replays = 0
        self._begun = time.monotonic()

    def begin(self) -> None:
        """The time counts from now on."""
        self._begun = time.monotonic()

    @property
    def spent(self) -> float:
        """How much of it is spent by now."""
        return self.replays if self.counted else time.monotonic() - self._begun

    def after(self, share: float) -> float:
        """What will have been spent when this share of the rest is spent, too."""
        return self.spent + share * max(0.0, self.amount - self.spent)
