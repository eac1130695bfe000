"""What the commands for LuaJIT's profilers read: a profiler's own file, or a memtrace.

Files are mapped, so that their size does not matter; pipes are read whole.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import mmap
import os
import shutil
import sys
import tempfile
from typing import Any

from steve.system.errors import SteveError
from steve.trace.source import is_pipe

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


def keep_standard_input() -> None:
    """Put standard input into a file without a name that takes its place, so that it can be looked at before."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        file.flush()
        os.dup2(file.fileno(), 0)


def is_profile(path: str) -> bool:
    """Does a file begin with a profiler's symbol table? Named pipes, which cannot be read twice, count as one."""
    if path == "-":
        keep_standard_input()
        head = os.pread(0, len(SYMTAB), 0)
        os.lseek(0, 0, os.SEEK_SET)
        return head == SYMTAB
    if is_pipe(path):
        return True
    with open(path, "rb") as file:
        return file.read(3) == SYMTAB
