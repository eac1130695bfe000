"""Folded stacks, the format that flamegraph.pl and speedscope read: a line `root;...;leaf N` for each stack.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from functools import lru_cache
from collections.abc import Iterable, Iterator

from steve.analysis.blocks import FEW_ROWS
from steve.export.paths import frames_of, in_order
from steve.export.profile import Metric, Profile
from steve.trace.frames import label
from steve.terminal.tables import printable

NOWHERE = "(no stack)"
Pair = tuple[tuple[str, ...], int]  # names, root first, and a sum
SEPARATORS = re.compile(r"[;\s]+")


@lru_cache(maxsize=1 << 16)
def frame_name(text: str) -> str:
    """A name without the separators of the format and without characters that could control a terminal."""
    return printable(SEPARATORS.sub(" ", text.replace(";", ",")).strip()) or "?"


class Folds:
    """The sums of one metric by stack, in the order of the stacks' frame names. Stacks with the same names are merged,
    stacks whose sum is 0 are left out. total: the sum over all stacks."""

    def __init__(self, profile: Profile, metric: Metric) -> None:
        import numpy as np

        values = profile.column(metric)
        self.shown = profile.shown
        stacks, values = profile.stacks[values != 0], values[values != 0]
        self.total = int(values.sum())
        self.labels = {n: label(profile.frame(n)) if n else NOWHERE for n in frames_of(self.shown, stacks.tolist())}
        ranks = {text: rank for rank, text in enumerate(sorted(set(self.labels.values())))}
        order = in_order(self.shown, stacks, {n: ranks[text] for n, text in self.labels.items()}, outermost_first=True)
        self.stacks: np.ndarray = stacks[order.indices[order.starts]]  # an example of each
        self.sums: np.ndarray = np.add.reduceat(values[order.indices], order.starts) if len(values) else values

    def __iter__(self) -> Iterator[Pair]:
        for first in range(0, len(self.stacks), FEW_ROWS):
            few = slice(first, first + FEW_ROWS)
            for stack, value in zip(self.stacks[few].tolist(), self.sums[few].tolist()):
                yield tuple([self.labels[n] for n in reversed(self.shown.ids(stack))]), value


def lines(folded: Iterable[Pair]) -> Iterator[str]:
    """The lines of the file, in the order of `folded`."""
    for stack, value in folded:
        yield ";".join(map(frame_name, stack)) + f" {value}\n"
