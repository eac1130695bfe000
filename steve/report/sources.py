# SPDX-License-Identifier: GPL-2.0-or-later
"""The texts of the program's source files for the report, if they are those that ran.

A file is taken to be the one that ran if it was changed last before the recording began and, for compiled code, also
before its object file was. If a trace does not say when it began, no source is shown. Relative names are looked up from
the current folder and from that of the trace.
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steve.trace.frames import is_native

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame

MOST_FILE = 1 << 20  # bytes of a file
MOST_BYTES = 3 << 20  # of all files
NO_ROW = -1  # of a file without frames


@dataclass(frozen=True)
class Source:
    """A source file: its row in the roll-up by file, its name in the trace, its path, and its text; or why there is
    none."""

    file: int
    name: str
    path: str
    text: str
    missing: str


CHANGED = "the file was changed after the program was built or started"


class Sources:
    """Finds the sources of one trace. began: Unix time at which the recording began, 0 if it is not known."""

    def __init__(self, trace: str, began: int) -> None:
        self._folders = (".", os.path.dirname(trace) or ".")
        self._began = began
        self._left = MOST_BYTES
        self.changed: list[str] = []  # files that are not shown because they were changed since

    def of_frames(self, frames: Iterable[tuple[int, Frame | None]], others: Iterable[str] = ()) -> Iterator[Source]:
        """The sources of frames, each with its row in the roll-up by file. The most important frames come first.
        others: names of files that may have no frame; they are left out if they are not shown."""
        met: set[str] = set()
        for row, frame in frames:
            if frame is not None and frame.file and frame.line and frame.file not in met:
                met.add(frame.file)
                yield self._source(row, frame.file, frame.object if is_native(frame) else "")
        for name in others:
            if name not in met:
                found = self._source(NO_ROW, name, "")
                if not found.missing:
                    yield found

    def _source(self, row: int, name: str, object_file: str) -> Source:
        shown = name.lstrip("@")
        path = next(filter(os.path.isfile, (os.path.join(folder, shown) for folder in self._folders)), "")
        missing = self._objection(path, object_file)
        if missing:
            self.changed += [shown] if missing == CHANGED else []
            return Source(row, name, shown, "", missing)
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        self._left -= len(text)
        return Source(row, name, shown, text, "")

    def _objection(self, path: str, object_file: str) -> str:
        """Why a file is not shown; "" if it is. object_file: that was compiled from it, "" if none is known."""
        if not path:
            return "the file was not found when the report was written"
        if not self._began:
            return "the trace does not say when it began, so the file may be another than the one that ran"
        found = os.stat(path)
        limits = [self._began]
        if os.path.isfile(object_file):
            limits.append(int(os.stat(object_file).st_mtime))
        if found.st_mtime >= min(limits) + 1:
            return CHANGED
        if found.st_size > min(MOST_FILE, self._left):
            return "the file is too large for the report"
        return "" if os.access(path, os.R_OK) else "the file cannot be read"
