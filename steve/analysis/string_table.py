"""LuaJIT's table of all strings: which site made it says nothing of that site.

The table is a block that grows when a string is made for which it has no room, on whichever line that happens. On which one
depends on hashes of addresses, so that runs of the same program differ. Conditions about sites leave its blocks out; the
sums of all sites have them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.analysis.blocks import nonzero_rows
from steve.terminal.units import counted
from steve.trace._memtrace import TYPE_NAMES

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks
    from steve.analysis.folds import Table

KEY = "type"  # of the sums that without() takes
TYPE = "strtab"
OTHERS = f'not type = "{TYPE}"'  # an expression of --where
LEAST = 0.02  # of all bytes, for the table to be named
REMARK = f"{{}} are LuaJIT's table of strings, which grows on any line (--where '{OTHERS}')"


def requested(sums: np.ndarray | Table) -> int:
    """The bytes that were requested for it. sums: by type."""
    numbers, rows = nonzero_rows(sums)
    return int(rows["bytes"][numbers == TYPE_NAMES.index(TYPE)].sum())


def remark(size: int, total: int) -> str:
    """That so many bytes of all bytes are of the table, or "" if that is little."""
    return REMARK.format(counted(size, "byte")) if size > LEAST * total else ""


def without(chosen: Blocks, sums: np.ndarray | Table) -> Blocks | None:
    """The chosen blocks but those of the string table, for another walk; None if there are none of it, or the trace cannot be
    read again. sums: of the chosen blocks, by type."""
    numbers, _ = nonzero_rows(sums)
    if TYPE_NAMES.index(TYPE) not in numbers.tolist() or chosen.is_from_pipe():
        return None
    return chosen.among(OTHERS)
