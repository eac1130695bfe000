"""Comma-separated values: a line for each stack, a column for each metric, and the stack in the last column.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
from collections.abc import Iterator

from steve.export.paths import in_order
from steve.export.profile import METRICS, Profile
from steve.trace.frames import label


class Echo:
    """A file object whose write() returns the text instead of storing it."""

    def write(self, text: str) -> str:
        return text


def table(profile: Profile) -> Iterator[str]:
    """The text, line by line, the stack with most bytes first. The frames of a stack are joined by `;`, outermost
    first. Metrics that were not recorded are empty."""
    writer = csv.writer(Echo(), lineterminator="\n")
    yield writer.writerow([metric.name for metric in METRICS] + ["stack"])
    labels = {n: label(profile.frame(n)) if n else "(no stack)" for n in profile.used_frames()}
    order = in_order(profile.shown, profile.stacks, {n: n for n in labels}).indices
    most = (~profile.columns[1][order]).argsort(kind="stable")
    places = [profile.metrics.index(metric) if metric in profile.metrics else None for metric in METRICS]
    for sample in profile.samples(order[most]):
        values = [None if place is None else sample.values[place] for place in places]
        names = [labels[n] for n in reversed(profile.frames(sample.stack))]
        yield writer.writerow([*values, ";".join(names)])
