"""Find the frames of an allocation's stack that identify the code that allocated.

The innermost frames belong to the allocator: malloc and its relatives and, for blocks of Lua, LuaJIT's C code
between its allocator and the Lua line that needs the memory. Without them a stack begins where a reader
would look first: at a Lua line, at a library function or part of the virtual machine that a Lua line called,
or at the C function of a module. Frames of the recorder's own wrappers are dropped. The functions here only
look at frames that the caller passes.

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
MOST_ALLOCATORS = 8                 # most frames at the top of a stack that can belong to the allocator
INTERNAL = ("lj_",)                 # prefixes of functions of LuaJIT that only LuaJIT calls
API = ("lua_", "luaL_", *INTERNAL)  # prefixes of all functions of LuaJIT, its C API included
WRAPPERS = "vgpreload_ljtrace"      # prefix of the recorder's preloaded library


def is_allocator(frame: Frame) -> bool:
    """Is it a frame of malloc, one of its relatives, or any operator new?"""
    return frame.function in ALLOCATORS or frame.function.startswith("operator new")


def callers(frames: Sequence[Frame | None]) -> list[int]:
    """The indices, innermost first, of the frames that identify the code that allocated.

    They start at the caller of the allocator and leave out the frames between LuaJIT's allocator and the
    innermost Lua frame. frames: a whole stack, innermost first; an unknown frame is None and is kept. At least
    one index is returned if there are frames."""
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
    """The index of the first frame after those of malloc and its relatives; of the last frame if all are such."""
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
    """Does the frame belong neither to Lua nor to LuaJIT, nor to a wrapper that is not an allocator?

    In a stack of plain frames, callers() leaves out only the allocator's frames, so it need not see all of it."""
    return frame is None or (frame.kind == "host" and not frame.function.startswith(INTERNAL)
                             and not _is_luajit_object(frame.object)
                             and (is_allocator(frame) or not _is_wrapper_object(frame.object)))


def _is_lua(frame: Frame | None) -> bool:
    """Does it belong to Lua: a Lua function, a library function, a C function called from Lua, or a part of the
    virtual machine?"""
    return frame is not None and frame.kind != "host"


def _machine_objects(frames: Sequence[Frame | None]) -> set[str]:
    """The object files that contain LuaJIT, as far as the stack shows: the caller of a Lua frame is LuaJIT's
    code, and so is every object with luajit in its name."""
    found = {outer.object for inner, outer in zip(frames, frames[1:])
             if _is_lua(inner) and outer is not None and outer.kind == "host"}
    return found | {frame.object for frame in frames if frame and _is_luajit_object(frame.object)}


def _is_machine(frame: Frame | None, machine: set[str], named: Sequence[str]) -> bool:
    """Is it LuaJIT's own code: a function whose name begins with a prefix of `named`, or a nameless function of
    one of the objects `machine`?"""
    if frame is None or frame.kind != "host":
        return False
    return frame.function.startswith(tuple(named)) or not frame.function and frame.object in machine
