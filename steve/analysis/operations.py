"""Writes the operations of a trace as an ops file: an analysis as of steve.kernels._walk.Analysis.

A shard writes a piece of the file, and merging appends the pieces. The handles of a piece continue those of the pieces
before it, so a survey has to count them first. The binary form consists of blocks with a fixed number of operations, so
each piece begins at the first block that begins in its shard. It leaves out the operations before that block, and
reads on into the next shard until its last block is full.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from steve.kernels._walk import Analysis

if TYPE_CHECKING:
    from steve.kernels._walk import Walk
    from steve.parallel.checkpoints import Checkpoint


class Operations(Analysis):
    """The result is {"ops": number of operations, "unmatched": number of accesses to no block}.

    fd: the descriptor that they are written to. form: text, zstd or binary. resizes: a Resize as R, not as F and N.
    threads, times: of a whole trace, with the thread and the time of each operation. folder: where workers write their
    pieces; None: they send them as bytes."""

    onward = True

    def __init__(
        self, fd: int, form: str, resizes: bool, threads: bool = False, times: bool = False, folder: str | None = None
    ) -> None:
        self._fd, self._folder = fd, folder
        self._how = {"form": form, "resizes": resizes}
        self._besides = {"threads": threads, "times": times}
        self._checkpoint: Checkpoint | None = None
        self._counts = {"ops": 0, "unmatched": 0}
        self._piece: str | bytes | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """See steve.parallel.checkpoints."""
        return ("operations", "handles" if self._how["resizes"] else "split_handles")

    def begin(self, walk: Walk, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint

    def feed(self, walk: Walk) -> None:
        from steve.kernels import _ops

        if self._checkpoint is None:
            self._counts = _ops.write_ops(walk.trace, self._fd, walk.tick, **self._how, **self._besides)
        else:
            self._write_piece(walk, self._checkpoint)

    def _write_piece(self, walk: Walk, known: Checkpoint) -> None:
        """Write the piece that begins in a shard, if any does. The first shard writes the head of the file."""
        from steve.kernels import _ops

        grain = _ops.PIECE if self._how["form"] == "binary" else 1
        begin, end = (
            min(-(-at // grain) * grain, known.total) for at in (known.operations, known.operations + known.count)
        )
        first, last = known.first, end == known.total
        if begin == end and not first:
            return
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=self._folder is None) as file:
            unmatched = _ops.write_ops_piece(
                walk.trace,
                file.fileno(),
                known,
                begin - known.operations,
                end - begin,
                piece=(begin, first, last),
                **self._how,
            )
            self._counts = {"ops": end - begin, "unmatched": unmatched}
            self._piece = file.name if self._folder is not None else Path(file.name).read_bytes()

    def partial(self) -> tuple[str | bytes, dict] | None:
        """The piece, as bytes or as the name of a file that holds it, and its counts; None if there is no piece."""
        return None if self._piece is None else (self._piece, self._counts)

    def merge(self, shard: tuple[str | bytes, dict] | None) -> None:
        if shard is not None:
            piece, counts = shard
            append(self._fd, piece)
            # only damage makes accesses to no block, so all of them are in the last piece
            self._counts = {"ops": self._counts["ops"] + counts["ops"], "unmatched": counts["unmatched"]}

    def result(self) -> dict:
        return self._counts


def append(fd: int, piece: str | bytes) -> None:
    """Append a piece to a file: bytes, or the content of another file, which is then removed."""
    with open(fd, "wb", closefd=False) as out:
        if isinstance(piece, bytes):
            out.write(piece)
            return
        with open(piece, "rb") as file:
            shutil.copyfileobj(file, out, 1 << 20)
    os.unlink(piece)
