"""A limit on the memory of a command, so that a hostile input file cannot exhaust the machine.

One line of text can describe an access to terabytes, and an analysis by cache lines keeps data for each line. Linux
overcommits memory: when it runs out, the kernel kills some process, not always the one that used it up. A command
is therefore limited to nine tenths of the memory available when it began, and fails with "out of memory" beyond that.

Commands that replay are not limited: an allocator under test may reserve any amount of address space. Each worker
process (-j) has its own limit. The limit of a container, which may be lower, is not considered.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import resource

MEMINFO = "/proc/meminfo"
STATM = "/proc/self/statm"


def read(path: str) -> str:
    """The text of a file."""
    with open(path, encoding="ascii") as file:
        return file.read()


def available(meminfo: str) -> int | None:
    """Bytes that a process can allocate without taking them from others, free swap included.

    meminfo: the text of /proc/meminfo. None if it has no MemAvailable."""
    kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", meminfo, re.MULTILINE))
    if "MemAvailable" not in kilobytes:
        return None
    return (int(kilobytes["MemAvailable"]) + int(kilobytes.get("SwapFree", 0))) * 1024


def bound_by(more: int) -> None:
    """Limit this process to `more` bytes of data on top of what it has now. A lower limit stays in force."""
    have = int(read(STATM).split()[5]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = min([have + more] + [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY])
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, hard))


def bound() -> None:
    """Limit this process to nine tenths of the memory that is available now. No effect without /proc."""
    try:
        more = available(read(MEMINFO))
        if more is not None:
            bound_by(more * 9 // 10)
    except (OSError, IndexError):
        pass  # no /proc
