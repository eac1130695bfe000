"""Comma-separated values: a line for each stack, a column for each metric, the stack in the last.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import io

from steve.export.profile import METRICS, Profile
from steve.frames import label


def table(profile: Profile) -> str:
    """The text; frames are joined by `;`, root first."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([metric.name for metric in METRICS] + ["stack"])
    for sample in sorted(profile.samples, key=lambda s: (-s.values[1], s.frames)):
        names = [label(profile.frame(n)) if n else "(no stack)" for n in reversed(sample.frames)]
        writer.writerow([*sample.values, ";".join(names)])
    return buffer.getvalue()
