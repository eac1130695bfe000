"""Lines of Lua that are approximate, because LuaJIT had compiled the code before the recorder was attached.

Then nobody saw from which bytecode each piece of machine code was made, and the recorder gives it the line of the last
point before it that LuaJIT itself keeps (a snapshot of the trace).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace


def places(trace: Trace) -> int:
    """How many places in machine code have such a line. 0 unless the recorder was attached."""
    if trace.info().get("attached") != "yes":
        return 0
    frames = (trace.frame(number) for number in range(1, trace.counts()["frames"]))
    return sum(bool(frame.approximate and frame.trace) for frame in frames if frame is not None)


def remark(trace: Trace) -> str:
    """What to know of the lines; "" if none is of that kind."""
    count = places(trace)
    if not count:
        return ""
    return (
        f"{count:,} {'line' if count == 1 else 'lines'} of Lua {'is' if count == 1 else 'are'} approximate: LuaJIT had "
        "compiled this code before ljtrace attach. The memory of a function that is called there may be charged to the line of "
        "the call or of the loop. Code that is compiled later has exact lines, and all code with `ljtrace run`"
    )
