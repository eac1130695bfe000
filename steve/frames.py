"""Of which language a frame of a stack is, and what it is called in the formats of others.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve._memtrace import Frame

HOST, LUA, TRACE = "host", "lua", "trace"


def language(frame: "Frame") -> str:
    """host (C and C++), lua, or trace (a Lua line that compiled code runs).

    Traces of version 1 do not tell: there a frame of a file without an object is Lua's."""
    kind = getattr(frame, "kind", None)
    if kind is not None:
        return kind
    return LUA if frame.file and not frame.object and frame.ip == 0 else HOST


def label(frame: "Frame") -> str:
    """`function`, with `file:line` where that is known and adds something; always one line."""
    place = f"{os.path.basename(frame.file)}:{frame.line}" if frame.file and frame.line else frame.file
    if frame.function:
        text = f"{frame.function} {place}" if place and language(frame) != HOST else frame.function
    else:
        text = place or (f"[{os.path.basename(frame.object)}]" if frame.object else f"{frame.ip:#x}")
    return " ".join(text.split())


def frame_line(frame: "Frame") -> str:
    """`function (file:line)` as Valgrind's own tools write a frame; always one line."""
    name = frame.function or "???"
    if frame.file:
        place = f"{os.path.basename(frame.file)}:{frame.line}" if frame.line else os.path.basename(frame.file)
    else:
        place = f"in {frame.object}" if frame.object else ""
    return " ".join(f"{name} ({place})".split()) if place else " ".join(name.split())
