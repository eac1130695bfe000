"""DHAT's JSON, version 2, for dh_view.html, which comes with Valgrind.

Times are what the trace counts: instructions of the traced program, or nanoseconds. A resized block adds the bytes of
each size it had, but counts as one block. The viewer expects each stack in one program point only, so points with the
same frames are merged. The optional access counts of each byte (`acc`) are not written.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from steve.analysis.blocks import FEW_ROWS
from steve.analysis.totals import time_unit
from steve.export.paths import frames_of, in_order
from steve.trace import missing
from steve.trace.frames import frame_line

if TYPE_CHECKING:
    from steve.kernels._holdings import Holdings
    from steve.trace.policy import ShownStacks

# what dh_view.html calls a unit of time and a million of them, by what the trace counts
UNITS = {"instructions": ("instrs", "Minstr"), "nanoseconds": ("ns", "ms"), "events": ("events", "Mevents")}

SUMS = (
    ("tb", "bytes"),
    ("tbk", "blocks"),
    ("tl", "lifetime"),
    ("mb", "most"),
    ("mbk", "most_blocks"),
    ("gb", "peak"),
    ("gbk", "peak_blocks"),
    ("eb", "held"),
    ("ebk", "held_blocks"),
    ("rb", "bytes_read"),
    ("wb", "bytes_written"),
)
OF_ACCESSES = ("rb", "wb")


def frame_text(shown: ShownStacks, number: int) -> str:
    """The text of a frame in DHAT's frame table: `0xADDRESS: function (file:line)`."""
    frame = shown.named(number) if number else None
    return "(no stack)" if frame is None else f"{frame.ip:#x}: {frame_line(frame)}"


class Points:
    """The program points, the one with most bytes first. Frames with the same text are one frame; frame 0 is the
    root, which no point refers to."""

    def __init__(self, history: Holdings, shown: ShownStacks) -> None:
        import numpy as np

        self.shown = shown
        self.has_accesses = not missing.accesses(shown.trace)
        self.names = [pair for pair in SUMS if self.has_accesses or pair[0] not in OF_ACCESSES]
        self.texts: dict[str, int] = {"[root]": 0}
        stacks, rows = history.stacks(), history.rows()
        self.indices = {
            number: self.texts.setdefault(frame_text(shown, number), len(self.texts))
            for number in frames_of(shown, stacks.tolist())
        }
        order = in_order(shown, stacks, self.indices)
        sums = [
            np.add.reduceat(rows[column][order.indices], order.starts) if len(rows) else rows[column]
            for _, column in self.names
        ]
        most = np.argsort(~sums[0], kind="stable")
        self.sums: list[np.ndarray] = [column[most] for column in sums]
        self.stacks: np.ndarray = stacks[order.indices[order.starts[most]]]  # one stack id of each point

    def json(self) -> Iterator[str]:
        """The JSON text of each point. Its frames (`fs`) are innermost first, as in DHAT's own files."""
        form = ", ".join(f'"{name}": %d' for name, _ in self.names) + ', "fs": [%s]'
        texts = {number: str(index) for number, index in self.indices.items()}
        for first in range(0, len(self.stacks), FEW_ROWS):
            few = slice(first, first + FEW_ROWS)
            for stack, *values in zip(self.stacks[few].tolist(), *(column[few].tolist() for column in self.sums)):
                frames = ", ".join([texts[number] for number in self.shown.ids(stack)])
                yield "{" + form % (*values, frames) + "}"


def dhat(history: Holdings, shown: ShownStacks) -> Iterator[str]:
    """The whole file, in pieces."""
    trace = shown.trace
    facts, points, (_, peak_time) = trace.info(), Points(history, shown), history.peak
    pid, (unit, million) = facts.get("pid", ""), UNITS[time_unit(trace)]
    head = {
        "dhatFileVersion": 2,
        "mode": "heap",
        "verb": "Allocated",
        "bklt": True,
        "bkacc": points.has_accesses,
        "tu": unit,
        "Mtu": million,
        "tuth": 500,
        "cmd": facts.get("command", trace.name) + trace.sample.remark + missing.remark(trace),
        "pid": int(pid) if pid.isdecimal() else 0,
        "te": history.time,
        "tg": peak_time,
    }
    yield json.dumps(head)[:-1] + ', "pps": ['
    for i, point in enumerate(points.json()):
        yield (", " if i else "") + point
    yield f'], "ftbl": {json.dumps(list(points.texts))}}}\n'
