"""Were the Lua states of a trace closed before its end? Then nothing of Lua lives there, whatever the program kept.

LuaJIT frees all blocks of a state when that is closed, as the program luajit does when it ends. A condition on what lives at
the end then holds of no leak in Lua.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from steve.analysis.blocks import nonzero_rows
from steve.analysis.conditions import AT_END, Outcome

if TYPE_CHECKING:
    import numpy as np

    from steve.analysis.blocks import Blocks
    from steve.analysis.folds import Table
    from steve.trace._memtrace import Trace

KEY = "heap"  # of the sums that is_closed() takes
# of a comparison of two traces up to their ends
GARBAGE = (
    "Of Lua, what is live at the peak includes garbage that was not collected yet, of which there is more where more is kept. "
    "To see what is kept, set a mark after collectgarbage() and give --to MARK"
)


def has_lua(trace: Trace) -> bool:
    """Has a trace that was read heaps of Lua?"""
    heaps = (trace.heap(number) for number in range(trace.counts()["heaps"]))
    return any(heap is not None and heap.kind == "lua" for heap in heaps)


def is_closed(chosen: Blocks, sums: np.ndarray | Table) -> bool:
    """Has the trace chosen blocks of Lua, none of which lives at its end? Not if it is read up to a mark. sums: of the chosen
    blocks, by heap."""
    if chosen.args.end is not None:
        return False
    numbers, rows = nonzero_rows(sums)
    heaps = [chosen.trace.heap(number) for number in numbers.tolist()]
    of_lua = [row for heap, row in zip(heaps, rows) if heap is not None and heap.kind == "lua"]
    return bool(of_lua) and not any(row["live_blocks"] for row in of_lua)


def remark(outcomes: Iterable[Outcome]) -> str:
    """What is to be said of a trace whose states were closed, beside the outcomes; "" if none of those that passed is
    about what lives at the end."""
    passed = [outcome.condition for outcome in outcomes if not outcome.failed and AT_END & set(outcome.names)]
    if not passed:
        return ""
    return (
        "nothing of Lua lives at the end of the trace, because its states were closed: a leak in Lua cannot be seen there. "
        f"Judge '{passed[0]}' at a mark that the program sets before that, with --to MARK"
    )
