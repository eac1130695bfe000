"""The language of a stack frame, and its text in the file formats of other tools.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame

LUA_KINDS = frozenset(("lua", "lua-inlined"))  # the kinds of frames that are a line of Lua code
# Those that have nothing to do with Lua: machine code of object files, functions inlined in it, and the end of a stack
# that was cut.
NATIVE_KINDS = frozenset(("host", "inlined", "cut"))


def is_lua(frame: Frame) -> bool:
    """Is the frame a line of Lua code, interpreted or compiled?"""
    return frame.kind in LUA_KINDS


def is_native(frame: Frame) -> bool:
    """Does the frame have nothing to do with Lua and its virtual machine?"""
    return frame.kind in NATIVE_KINDS


def file_name(frame: Frame) -> str:
    """The name of the file without its folder; of a Lua chunk also without the prefix @ or =, by which LuaJIT
    marks file names and other chunk names."""
    name = frame.file[1:] if is_lua(frame) and frame.file[:1] in ("@", "=") else frame.file
    return os.path.basename(name)


def label(frame: Frame) -> str:
    """`function`, for Lua `function file:line`; without a function name, the file, object or address. Always one
    line of text."""
    name = file_name(frame)
    place = f"{name}:{frame.line}" if name and frame.line else name
    if frame.function:
        text = f"{frame.function} {place}" if place and is_lua(frame) else frame.function
    else:
        text = place or (f"[{os.path.basename(frame.object)}]" if frame.object else f"{frame.ip:#x}")
    return " ".join(text.split())


def frame_line(frame: Frame) -> str:
    """`function (file:line)`, as Valgrind's own tools print a frame. Always one line of text."""
    name = frame.function or "???"
    if frame.file:
        place = f"{file_name(frame)}:{frame.line}" if frame.line else file_name(frame)
    else:
        place = f"in {frame.object}" if frame.object else ""
    return " ".join(f"{name} ({place})".split()) if place else " ".join(name.split())
