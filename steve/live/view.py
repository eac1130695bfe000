"""What a user of `steve top` chooses: the columns, what a row is, and the rows that are shown.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """A column of the screen. key: of the sums; is_bytes: is it a number of bytes?"""

    name: str
    key: str
    is_bytes: bool
    meaning: str


METRICS = (
    Metric("live", "held", True, "bytes of blocks that are live now"),
    Metric("blocks", "held_blocks", False, "blocks that are live now"),
    Metric("allocated", "bytes", True, "bytes requested so far"),
    Metric("allocs", "blocks", False, "blocks allocated so far"),
    Metric("rate", "rate", True, "bytes requested in a second, since the screen was last drawn"),
    Metric("read", "bytes_read", True, "bytes read from the blocks so far, with --accesses"),
    Metric("written", "bytes_written", True, "bytes written to the blocks so far, with --accesses"),
)
OF_ACCESSES = ("read", "written")
ROWS = ("line", "function", "file", "object", "stack")


class View(NamedTuple):
    """What the user has chosen. typed: the filter that is being typed, or None."""

    by: str
    sort: str
    accesses: bool
    filter: str = ""
    typed: str | None = None
    paused: bool = False
    help: bool = False

    def metrics(self) -> list[Metric]:
        """The columns."""
        return [metric for metric in METRICS if self.accesses or metric.name not in OF_ACCESSES]
