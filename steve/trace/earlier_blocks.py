"""Blocks from before the recorder was attached that were resized: their events are not in the trace, and nor is what they have.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.terminal.units import human_bytes

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

WORTH = 256 << 10  # bytes of a block that a remark is worth


def resized(trace: Trace) -> int:
    """The most bytes to which a block from before the attach was resized that is in no table; 0 if none was."""
    return int(trace.info().get("older_resized", 0))


def remark(trace: Trace) -> str:
    """What to know of these blocks; "" if none is large."""
    most = resized(trace)
    if most < WORTH:
        return ""
    return (
        f"blocks from before ljtrace attach were resized, the largest to {human_bytes(most)}, and are in no table: "
        "ljtrace attach --universe shows in steve universe what tables of Lua have, --existing-blocks records the blocks of C"
    )
