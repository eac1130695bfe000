"""How a file is read: a value that is passed to all that open the file, so that each walk over it reads the same.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NamedTuple

from steve.system.errors import TraceError

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace


class Reading(NamedTuple):
    """How a memtrace is read: in the same way in each walk, in each round and by each worker.

    name: that in messages; "": the path. salvage: damaged chunks are skipped. Shards then begin only before the first
    damaged chunk. One reader has to read all that follows, because only it knows what became of the blocks that were made or
    freed in a damaged chunk. overlaps: see Trace. growing: of a file that is still being written, the size up to which it is
    read; None for other files. every_block: what needs every block, so that a sample of the blocks is refused; "" if nothing
    does."""

    path: str
    name: str = ""
    salvage: bool = False
    overlaps: bool = False
    growing: int | None = None
    every_block: str = ""

    def open(self, kind: type[Trace] | None = None, freed: bool = False, snapshots: bool = False) -> Trace:
        """The trace from its beginning. kind: Trace or a subclass; freed, snapshots: see Trace. SteveError if every block is
        needed, and a file is a sample of the blocks; of a pipe this is found when it is read."""
        from steve.trace._memtrace import Trace

        if self.every_block and os.path.isfile(self.path):
            try:
                self._opened(Trace).probe()
            except TraceError:
                pass  # the caller will report it
        return self._opened(kind or Trace, freed, snapshots)

    def _opened(self, kind: type[Trace], freed: bool = False, snapshots: bool = False) -> Trace:
        return kind(
            self.path,
            self.name or None,
            salvage=self.salvage,
            freed=freed,
            snapshots=snapshots,
            overlaps=self.overlaps,
            growing=self.growing,
            every_block=self.every_block,
        )

    def as_now(self) -> Reading:
        """The same; of a file that is still being written, what it has now."""
        from steve.trace._memtrace import Trace

        if self.growing is not None or not os.path.isfile(self.path):
            return self
        try:
            return self._replace(growing=self._opened(Trace).growing)
        except TraceError:
            return self  # whoever opens it next will report it

    def for_workers(self) -> Reading:
        """The same, for other processes. To be called after a trace was opened, which has refused a sample if needed."""
        return self._replace(path=os.path.abspath(self.path), name=self.name or self.path, every_block="")

    def count_points(self, trace: Trace) -> int:
        """The number of seek points at which a shard can begin."""
        return trace.sound_seek_points() if self.salvage else len(trace.seek_points())

    def has_shards(self) -> bool:
        """Can the file be divided into several shards? Estimates are not made in shards, because samples are small."""
        if self.path == "-" or not os.path.isfile(self.path):
            return False
        trace = self.open()
        if self.count_points(trace) <= 1:
            return False
        try:
            trace.probe()
        except TraceError:
            return True
        return not trace.sample


def reading_of(args: argparse.Namespace) -> Reading:
    """How the trace is read that the arguments of steve.trace.source.add_trace() name."""
    return Reading(
        args.file,
        getattr(args, "file_name", ""),
        salvage=args.salvage,
        overlaps=getattr(args, "compat", False),
        every_block=getattr(args, "every_block", ""),
    ).as_now()
