"""Numbered files of the heap: after so many allocated bytes, at new high-water marks, and on request.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from steve.serve.heap import NEVER, Limits, LiveHeap
from steve.system.output import Output


class Dumps:
    """Writes NAME.0001.pb.gz and so on. every: bytes allocated from one dump to the next; high_water: bytes by which the
    most bytes in use have grown from one dump to the next; None: no such dumps."""

    def __init__(self, name: str, every: int | None, high_water: int | None) -> None:
        self.name, self.every, self.high_water = name, every, high_water
        self.written = 0
        self.next = Limits(every or NEVER, high_water or NEVER)

    def due(self, heap: LiveHeap) -> None:
        """The walk has stopped at the limits: write a dump, and set the next ones."""
        self.write(heap)
        allocated, held = self.next
        if self.every and heap.history.allocated >= allocated:
            allocated = (heap.history.allocated // self.every + 1) * self.every
        if self.high_water and heap.history.held >= held:
            held = heap.history.held + self.high_water
        heap.limits = self.next = Limits(allocated, held)

    def write(self, heap: LiveHeap) -> str:
        """Write a dump of the heap as far as the trace was read. Returns the name of the file."""
        self.written += 1
        path = f"{self.name}.{self.written:04}.pb.gz"
        with Output(path) as out:
            out.write_bytes(heap.heap_profile("inuse_space"))
        return path
