"""Of which language a frame of a stack is, and what it is called in the formats of others.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame

LUA_KINDS = frozenset(("lua", "inlined"))  # kinds of frames that stand for a line of Lua


def is_lua(frame: Frame) -> bool:
    """A line of Lua, interpreted or compiled."""
    return frame.kind in LUA_KINDS


def file_name(frame: Frame) -> str:
    """The file without its folder; of Lua chunks without LuaJIT's mark of what the name is."""
    name = frame.file[1:] if is_lua(frame) and frame.file[:1] in ("@", "=") else frame.file
    return os.path.basename(name)


def label(frame: Frame) -> str:
    """`function`, of Lua with `file:line`; else the best that is known. Always one line."""
    name = file_name(frame)
    place = f"{name}:{frame.line}" if name and frame.line else name
    if frame.function:
        text = f"{frame.function} {place}" if place and is_lua(frame) else frame.function
    else:
        text = place or (f"[{os.path.basename(frame.object)}]" if frame.object else f"{frame.ip:#x}")
    return " ".join(text.split())


def frame_line(frame: Frame) -> str:
    """`function (file:line)` as Valgrind's own tools write a frame; always one line."""
    name = frame.function or "???"
    if frame.file:
        place = f"{file_name(frame)}:{frame.line}" if frame.line else file_name(frame)
    else:
        place = f"in {frame.object}" if frame.object else ""
    return " ".join(f"{name} ({place})".split()) if place else " ".join(name.split())
