"""Which frames of an allocation's stack say who allocated.

The innermost are the allocator's own: malloc and its relatives and, for the blocks of Lua, LuaJIT's C code
between its allocator and the line of Lua that it works for. Without those a stack begins where its reader
would look first: at a line of Lua, at a library function or part of the virtual machine that a line called,
at the C function of a module. Frames of the recorder's own wrappers are no one's. Nothing is looked up here.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
from functools import lru_cache
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steve.trace._memtrace import Frame

ALLOCATORS = frozenset((
    "malloc", "calloc", "realloc", "reallocarray", "free", "memalign", "posix_memalign", "aligned_alloc",
    "valloc", "pvalloc", "strdup", "strndup"))
MOST_ALLOCATORS = 8  # frames of one call of the allocator
INTERNAL = ("lj_",)                 # functions of LuaJIT that only LuaJIT calls
API = ("lua_", "luaL_", *INTERNAL)  # and those that C code of others does
WRAPPERS = "vgpreload_ljtrace"


def is_allocator(frame: Frame) -> bool:
    """True for malloc and its relatives, operator new in all forms."""
    return frame.function in ALLOCATORS or frame.function.startswith("operator new")


def callers(frames: Sequence[Frame | None]) -> list[int]:
    """The indices, innermost first, of the frames of a stack that say who allocated: those from the caller of
    the allocator, without what lies between LuaJIT's allocator and the innermost frame of Lua. Frames that are
    not known (None) are kept, and always at least one if there are any."""
    start = _first_caller(frames)
    kept = [i for i in range(start, len(frames)) if not _is_wrapper(frames[i])]
    if all(map(is_plain, frames)):
        return kept or list(range(start, len(frames)))
    lua = next((i for i in kept if _is_lua(frames[i])), None)
    machine = _machine_objects(frames)
    if lua is not None:
        return [i for i in kept if i >= lua or not _is_machine(frames[i], machine, API)]
    first = next((i for i in kept if not _is_machine(frames[i], machine, INTERNAL)), start)
    return [i for i in kept if i >= first] or list(range(start, len(frames)))


def _first_caller(frames: Sequence[Frame | None]) -> int:
    """Behind the frames of malloc and its relatives; the last frame if there is nothing else."""
    start = 0
    while start < min(len(frames) - 1, MOST_ALLOCATORS) and frames[start] and is_allocator(frames[start]):
        start += 1
    return start


@lru_cache(maxsize=4096)
def _is_wrapper_object(name: str) -> bool:
    return os.path.basename(name).startswith(WRAPPERS)


@lru_cache(maxsize=4096)
def _is_luajit_object(name: str) -> bool:
    return "luajit" in os.path.basename(name)


def _is_wrapper(frame: Frame | None) -> bool:
    return frame is not None and _is_wrapper_object(frame.object)


def is_plain(frame: Frame | None) -> bool:
    """Neither of Lua nor of LuaJIT: of a stack of such frames callers() leaves out only the allocator's, of which
    those of wrappers, which nothing but the program calls, are part."""
    return frame is None or (frame.kind == "host" and not frame.function.startswith(INTERNAL)
                             and not _is_luajit_object(frame.object)
                             and (is_allocator(frame) or not _is_wrapper_object(frame.object)))


def _is_lua(frame: Frame | None) -> bool:
    """Of Lua: a Lua function, one of the library, a C function that Lua calls, a part of the machine."""
    return frame is not None and frame.kind != "host"


def _machine_objects(frames: Sequence[Frame | None]) -> set[str]:
    """The objects that hold LuaJIT as far as the stack tells: what calls a frame of Lua is LuaJIT's code."""
    found = {outer.object for inner, outer in zip(frames, frames[1:])
             if _is_lua(inner) and outer is not None and outer.kind == "host"}
    return found | {frame.object for frame in frames if frame and _is_luajit_object(frame.object)}


def _is_machine(frame: Frame | None, machine: set[str], named: Sequence[str]) -> bool:
    """LuaJIT's own code: by its name, or code without a name of its object."""
    if frame is None or frame.kind != "host":
        return False
    return frame.function.startswith(tuple(named)) or not frame.function and frame.object in machine
