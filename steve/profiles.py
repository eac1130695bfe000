"""What the commands for LuaJIT's profilers read: a profiler's own file, or a memtrace.

Files are mapped, so that their size does not matter; pipes are read whole.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import mmap
import os
import sys
from typing import Any

from steve.errors import SteveError
from steve.source import is_pipe

SYMTAB = b"ljs"


def name_of(path: str) -> str:
    return "standard input" if path == "-" else path


def contents(path: str) -> Any:
    """The bytes of a file, mapped if that is possible."""
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        if is_pipe(path):
            return file.read()
        if os.fstat(file.fileno()).st_size == 0:
            raise SteveError(f"{path}: is empty; was the profiler stopped before its file was looked at?")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def is_profile(path: str) -> bool:
    """Does a file begin with a profiler's symbol table? Pipes, which cannot be read twice, count as one."""
    if path == "-" or is_pipe(path):
        return True
    with open(path, "rb") as file:
        return file.read(3) == SYMTAB
