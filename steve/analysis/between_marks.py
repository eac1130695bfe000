"""What a program keeps until its last mark: the blocks that were made after the first mark, or since the beginning if there is
only one, and live at the last one.

`steve leaks --from A --to B` shows this of two marks by name. Here the last mark is meant even if many have its name,
as those of a server that sets a mark for each request. That it is the last one is known when the trace has been read;
so this is a walk of its own, in one process.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from steve.analysis.folds import Sums, Table
from steve.parallel.window import Window
from steve.terminal.progress import Progress
from steve.trace import rollups

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks

ACCESSES = ("loads", "stores", "modifies")
COLUMNS = ("live_blocks", "live_bytes", *ACCESSES)


class FirstToLast(Window):
    """The window from the first mark of a trace to the last of so many; if there is one only, from the beginning."""

    def __init__(self, marks: int) -> None:
        super().__init__(None, None)
        self._marks, self._met = marks, 0

    def begin(self) -> str:
        self.now = "before" if self._marks > 1 else "within"
        return self.now

    def state(self, mark: str) -> str:
        self._met += 1
        self.now = "after" if self._met == self._marks else "within"
        return self.now

    def verify(self, name: str) -> None:
        pass  # so many marks were counted


def is_alive(batch: np.ndarray) -> np.ndarray:
    """A mask of the lives that did not end."""
    return batch["freed"] == 0


def kept(chosen: Blocks, key: str) -> Table | None:
    """The sums of what is kept of the chosen blocks of a trace that was read, by a key of steve.kernels._lives.Groups, with
    COLUMNS. None: there is no mark, or what is chosen is between two of them."""
    from steve.kernels._lives import Lives

    marks = chosen.trace.stats()["totals"]["events"]["mark"]
    if marks == 0 or chosen.window() is not None:
        return None
    sums = Sums((key, is_alive))
    with Progress(f"{chosen.command}: marks", chosen.args.quiet) as progress:
        lives = Lives(chosen.open_again(), FirstToLast(marks), tick=progress)
        for batch in lives.batches():
            sums.add(batch, None if chosen.test is None else chosen.test(batch, chosen.places))
    (found,) = sums.rows(lives.totals()["peak"], COLUMNS)
    return found


def found_of(sums: rollups.Sums, thresholds: Mapping[str, float]) -> rollups.Sums:
    """By row, what the rule finds, as steve.analysis.site_rules.FOUND. sums: of kept(), by row."""
    import numpy as np
    from steve.analysis.site_rules import FOUND

    some = np.flatnonzero(sums.rows["live_bytes"] >= thresholds["growth"])
    found, rows = np.zeros(len(some), FOUND), sums.rows[some]
    found["blocks"], found["size"] = rows["live_blocks"], rows["live_bytes"]
    found["accesses"] = sum(rows[name] for name in ACCESSES)
    return rollups.Sums(sums.numbers[some], found)
