"""Ops files: the operations of a trace by the number of the block, as allocators replay them.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from steve.trace._memtrace import OpsFile

from memtrace.records import RecordFile

CODES = ("new", "free", "load", "store", "modify", "lock", "unlock", "compact", "resize")


class Op(NamedTuple):
    """One operation. A field that it does not have is 0."""

    code: str
    """one of CODES"""
    handle: int
    """the number of the block"""
    addr: int
    size: int
    thread: int
    time: int
    """0: not known"""


class Ops(RecordFile):
    """An open ops or lockops file; see open_ops(). The fields of a record of arrays() are those of struct op; `code` is
    an index of CODES."""

    def __iter__(self) -> Iterator[Op]:
        """The operations, in program order; errors as in arrays()."""
        for array in self.arrays():
            for handle, addr, size, code, thread, time in array.tolist():
                yield Op(CODES[code], handle, addr, size, thread, time)

    @property
    def kind(self) -> str | None:
        """ "ops" or "lockops"; None while it is not known."""
        kind: str | None = self._binding.kind
        return kind


def open_ops(path: str, *, kind: str | None = None) -> Ops:
    """Open an ops file, text or binary; "-" is standard input. TraceError if that is not possible.

    kind: "ops" or "lockops", which determines what `L` means in text; None: find out from the file."""
    return Ops(OpsFile(path, kind=kind))
