"""The language of a stack frame, and its text in the file formats of other tools.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from steve.trace.chunks import TEXT_CHUNK

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame

LONG = 60  # characters of a name from which on arguments of templates, and then types of parameters, are elided
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
ELIDED = "\N{HORIZONTAL ELLIPSIS}"
TEMPLATE = re.compile(r"(?<!operator)(?<!operator<)<[^<>]*>(?!=)")  # the innermost ones
# operators have signs that are no brackets
BRACKETS = re.compile(r"operator *(?:<=>|<<=?|>>=?|[<>]=?|->\*?|\(\))(?!\w)|->|[<>()]")
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


def base_name(path: str) -> str:
    """The name of a file without its folder. A Lua chunk that was loaded from text has no file: `[string "a/b..."]`."""
    return path if path.startswith(TEXT_CHUNK) else os.path.basename(path)


def file_name(frame: Frame) -> str:
    """The name of the file without its folder; of a Lua chunk also without the prefix @ or =, by which LuaJIT
    marks file names and other chunk names."""
    name = frame.file[1:] if is_lua(frame) and frame.file[:1] in ("@", "=") else frame.file
    return base_name(name)


def short_name(name: str) -> str:
    """A name of C++ or Rust without the hash of Rust and, if it is long, without the arguments of templates; if it is still long,
    without the type that it returns and the types of its parameters, since a place says which of several functions it is. One
    that the recorder cut within brackets ends at the first of these."""
    name = RUST_HASH.sub("", name)
    elided = name
    while len(name) > LONG:
        elided, before = TEMPLATE.sub(ELIDED, elided), elided
        if elided == before:
            break
        name = elided.replace(ELIDED, "<...>")
    for shorten in (without_rest, without_return_type, without_parameters):
        name = shorten(name) if len(name) > LONG else name
    return name


def without_rest(name: str) -> str:
    """The name up to the first bracket that nothing closes, if there is one."""
    opened: list[int] = []
    for token in BRACKETS.finditer(name):
        if token[0] in "<(":
            opened.append(token.end())
        elif token[0] in ">)" and opened:
            opened.pop()
    return f"{name[: opened[0]]}..." if opened else name


def without_parameters(name: str) -> str:
    """The name with (...) for each list of types of parameters."""
    depth, kept, at = 0, [], 0
    name = name.replace("(anonymous namespace)", ELIDED)  # no list, but with its brackets
    for token in BRACKETS.finditer(name):
        if token[0] == "(":
            depth += 1
            if depth == 1:
                kept.append(name[at : token.end()])
                at = token.end()
        elif token[0] == ")" and depth:
            depth -= 1
            if depth == 0:
                kept.append("..." if token.start() > at else "")
                at = token.start()
    return ("".join(kept) + name[at:]).replace(ELIDED, "(anonymous namespace)")


@lru_cache(maxsize=1 << 14)
def without_return_type(name: str) -> str:
    """A name of C++ without the type that the function returns, which only names of instances of templates have."""
    depth = start = 0
    for at, char in enumerate(name):
        if depth == 0 and (
            char == "("
            and not name.startswith("(anonymous namespace)", at)
            or name.startswith("operator", at)
            and name[at - 1 : at] in ("", ":", " ")
        ):
            return name[start:]
        if char in "<([{":
            depth += 1
        elif char in ")]}" or char == ">" and name[at - 1] != "-":
            depth -= 1
        elif char == " " and depth == 0:
            start = at + 1
    return name


def function_name(frame: Frame) -> str:
    """The name of a frame's function. A Lua function without a name is called after its place, file:line, here without
    the folder."""
    return base_name(frame.function) if is_lua(frame) else frame.function


def place_text(function: str, file: str, line: int) -> str:
    """`function (file:line)` of a known file."""
    return f"{function} ({base_name(file)}{f':{line}' if line else ''})"


def frame_text(frame: Frame) -> str:
    """`function (file:line)`, or as much of that as is known."""
    name = function_name(frame) or f"{frame.ip:#x}"
    if frame.file:
        return place_text(name, file_name(frame), frame.line)
    if frame.object:
        return f"{name} ({os.path.basename(frame.object)})"
    return name


def function_label(frame: Frame) -> str:
    """The name of a frame's function for formats that have files and lines apart. That of a Lua function says where it
    is defined, because a file may have several functions of one name. Without a name, as label()."""
    name = function_name(frame)
    if not name or not is_lua(frame):
        return name or label(frame)
    place = f"{file_name(frame)}:{frame.defined}" if frame.defined else file_name(frame)
    if name == place or not place:
        return name
    return f"{name} ({place}{f' #{frame.nth + 1}' if frame.nth else ''})"


def label(frame: Frame) -> str:
    """`function`, for Lua `function file:line`; without a function name, the file, object or address. Always one
    line of text."""
    name = file_name(frame)
    place = f"{name}:{frame.line}" if name and frame.line else name
    if frame.function:
        text = f"{function_name(frame)} {place}" if place and is_lua(frame) else frame.function
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
