"""How much memory of a process that is being recorded is resident, and which parts of it are known while it runs.

The numbers are those of /proc. The process is not stopped, and its pages are not looked at but for those of the
recorder: to read all of them takes locks of the process. So whose the others are is not known, other than in a
recording with --pages at its looks. Live blocks can be resident in part, so their bytes are an upper bound.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import time
from typing import NamedTuple

from steve.analysis.owners import is_recorders

TOOL = "ljtrace-"  # the program that a process in Valgrind is begins so
SCAN = 10.0  # seconds from one reading of the mappings to the next
PAGEMAP_ENTRY = 8
Range = tuple[int, int]


class Resident(NamedTuple):
    """What is resident of a process, in bytes. recorder: of the recorder; None: it is not known, since the process runs in
    Valgrind. is_all: are these all bytes of the recorder?"""

    resident: int
    recorder: int | None
    is_all: bool


class Process:
    """The process with a number, as long as it is the recorded one. is_native: is the recorder a library in it, not
    Valgrind?"""

    def __init__(self, pid: int, is_native: bool) -> None:
        self.pid, self._is_native = pid, is_native
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._scanned = -SCAN  # time.monotonic()
        self._ranges: list[Range] = []

    def resident(self, of_recorder: list[Range]) -> Resident | None:
        """What is resident now. of_recorder: ranges that the recorder has mapped besides its files, if they are known.
        None: the process has ended, is another one, or belongs to another user."""
        try:
            if time.monotonic() - self._scanned >= SCAN:
                self._scan()
            with open(f"/proc/{self.pid}/statm") as file:
                resident = int(file.read().split()[1]) * self._page
            if not self._is_native:
                return Resident(resident, None, False)
            return Resident(resident, self._present([*self._ranges, *of_recorder]), bool(of_recorder))
        except (OSError, ValueError, IndexError):
            return None

    def _scan(self) -> None:
        """Find the mappings of the recorder's files, each with the memory without a file after it that belongs to it.
        ValueError: the process has none, so it is another one."""
        if not self._is_native:
            if not os.path.basename(os.readlink(f"/proc/{self.pid}/exe")).startswith(TOOL):
                raise ValueError("not in Valgrind")
            return
        self._ranges, before = [], (0, 0)
        with open(f"/proc/{self.pid}/maps") as file:
            for line in file:
                fields = line.split(None, 5)
                start, end = (int(text, 16) for text in fields[0].split("-"))
                name = fields[5].rstrip("\n") if len(fields) > 5 else ""
                if is_recorders(name) or not name and before[1] == start and "w" in fields[1]:
                    before = (start, end)
                    self._ranges.append(before)
        if not self._ranges:
            raise ValueError("without the recorder")
        self._scanned = time.monotonic()

    def _present(self, ranges: list[Range]) -> int:
        """The bytes of pages of these ranges that are present; a page of several ranges counts once."""
        found, done = 0, 0
        with open(f"/proc/{self.pid}/pagemap", "rb", buffering=0) as file:
            for start, end in sorted(ranges):
                first, last = max(start // self._page, done), -(-end // self._page)
                done = max(done, last)
                if last > first:
                    data = os.pread(file.fileno(), (last - first) * PAGEMAP_ENTRY, first * PAGEMAP_ENTRY)
                    found += sum(top >> 7 for top in data[PAGEMAP_ENTRY - 1 :: PAGEMAP_ENTRY])
        return found * self._page
