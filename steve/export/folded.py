"""Folded stacks: `root;...;leaf N`, one line for each stack. What flamegraph.pl and speedscope read.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
from typing import Dict, Iterator, Mapping, Tuple

from steve.export.profile import METRICS, Metric, Profile
from steve.frames import label
from steve.tables import printable

NOWHERE = "(no stack)"
Folded = Dict[Tuple[str, ...], int]
SEPARATORS = re.compile(r"[;\s]+")


def frame_name(text: str) -> str:
    """A name without what separates names in the form, or does something to a terminal."""
    return printable(SEPARATORS.sub(" ", text.replace(";", ",")).strip()) or "?"


def fold(profile: Profile, metric: Metric) -> Folded:
    """The sums of one metric by stack, root first; stacks without any are left out."""
    column, folded = METRICS.index(metric), {}  # type: int, Folded
    labels = {n: label(profile.frame(n)) if n else NOWHERE for n in profile.used_frames()}
    for sample in profile.samples:
        if sample.values[column]:
            stack = tuple(labels[n] for n in reversed(sample.frames))
            folded[stack] = folded.get(stack, 0) + sample.values[column]
    return folded


def lines(folded: Mapping[Tuple[str, ...], int]) -> Iterator[str]:
    """The text, in the order of the stacks."""
    for stack in sorted(folded):
        yield ";".join(map(frame_name, stack)) + f" {folded[stack]}\n"
