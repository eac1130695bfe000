"""How much memory a command may take: what the machine has left, so that a hostile file cannot take the rest.

A line of text can name an access to terabytes, and an analysis by lines of the cache keeps something for each. Linux
promises memory that it does not have, and ends some process once it is missing: not always the one that took it. So
a command may have nine tenths of what was available when it began, and ends with "out of memory" behind that.

Not for commands that replay: an allocator under test may reserve any amount of addresses. Workers (-j) are bound each
by itself, and a container's limit, which may be lower, is not looked at.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import resource
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
STATM = Path("/proc/self/statm")


def available(meminfo: str) -> int | None:
    """Bytes that a process can have without another losing some, with free swap; None if the text does not say."""
    kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", meminfo, re.MULTILINE))
    if "MemAvailable" not in kilobytes:
        return None
    return (int(kilobytes["MemAvailable"]) + int(kilobytes.get("SwapFree", 0))) * 1024


def bound_by(more: int) -> None:
    """Let this process have at most `more` bytes of data above what it has. A lower limit stays."""
    have = int(STATM.read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = min([have + more] + [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY])
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, hard))


def bound() -> None:
    """Let this process have most of what is available now; without effect where that cannot be known."""
    try:
        more = available(MEMINFO.read_text())
        if more is not None:
            bound_by(more * 9 // 10)
    except (OSError, IndexError):
        pass  # no /proc
