"""chosen - which rows of the tables run, and the packages that they need.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from typing import Sequence, TypeVar

from servers import SERVERS, Server
from table import PROGRAMS, Program

Row = TypeVar("Row", Program, Server)


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Of LJTRACE_PROGRAMS: all, or those with these names; without it those of `make check`."""
    words = os.environ.get("LJTRACE_PROGRAMS", "")
    names = words.split(",")
    return [row for row in rows if words == "all" or row.name in names or (not words and row.in_check)]


def packages() -> list[str]:
    """Names of Debian's packages of all rows, sorted. What is in parentheses is a remark."""
    words = " ".join(row.package.partition("(")[0] for row in (*PROGRAMS, *SERVERS)).split()
    return sorted(set(words) - {"libnginx-mod-http-lua"})
