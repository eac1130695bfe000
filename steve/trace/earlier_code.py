"""Lines of Lua that are approximate, because LuaJIT had compiled the code before the recorder was attached.

Then nobody saw from which bytecode each piece of machine code was made, and the recorder gives it the line of the last
point before it that LuaJIT itself keeps (a snapshot of the trace).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from steve.trace.frames import frame_text

if TYPE_CHECKING:
    from steve.trace._memtrace import Trace

NAMED = 4  # lines that the remark names


def lines(trace: Trace) -> list[str]:
    """The lines, in the order in which they were first met; none unless the recorder was attached."""
    if trace.info().get("attached") != "yes":
        return []
    frames = (trace.frame(number) for number in range(1, trace.counts()["frames"]))
    texts = (frame_text(frame) for frame in frames if frame is not None and frame.approximate and frame.trace)
    return list(dict.fromkeys(texts))


def heading(trace: Trace) -> str:
    """What a heading says of the lines, with the space before it; "" if none is of that kind."""
    found = lines(trace)
    return f" ({'line' if len(found) == 1 else 'lines'} {_named(found)} approximate)" if found else ""


def _named(found: list[str]) -> str:
    """The first of the lines, and how many more there are."""
    return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED:,} more" if len(found) > NAMED else "")


def remark(trace: Trace) -> str:
    """What to know of the lines; "" if none is of that kind."""
    return remark_on(lines(trace))


def remark_on(found: list[str]) -> str:
    """What to know of these lines; "" if there are none."""
    if not found:
        return ""
    return (
        f"{len(found):,} {'line' if len(found) == 1 else 'lines'} of Lua {'is' if len(found) == 1 else 'are'} approximate "
        f"({_named(found)}): LuaJIT had compiled this code before ljtrace attach. Such a line may have the "
        "memory of what runs after it: of a function that it calls, of the loop, or of the next call, though that is another "
        "function. Code that is compiled later has exact lines, and all code with `ljtrace run`; what holds objects is exact "
        "in snapshots (ljtrace attach --universe, steve universe)"
    )
