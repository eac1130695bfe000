"""Input of the commands for LuaJIT's profilers: a file written by a profiler, or a memtrace.

Regular files are mapped into memory, so that their size does not matter; pipes are read completely.

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

SYMTAB = b"ljs"  # the first bytes of a profiler's file


def name_of(path: str) -> str:
    """The name of a file in messages."""
    return "standard input" if path == "-" else path


def contents(path: str) -> Any:
    """The content of a file as a bytes-like object, mapped if possible. SteveError if the file is empty."""
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        if is_pipe(path):
            return file.read()
        if os.fstat(file.fileno()).st_size == 0:
            raise SteveError(f"{path}: is empty; was the profiler stopped before its file was read?")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def keep_standard_input() -> None:
    """Replace standard input by a temporary file with the same content, so that it can be read more than once."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        file.flush()
        os.dup2(file.fileno(), 0)


def is_profile(path: str) -> bool:
    """Does a file begin with the symbol table of a profiler? A named pipe, which cannot be read twice, is assumed to
    be such a file."""
    if path == "-":
        keep_standard_input()
        head = os.pread(0, len(SYMTAB), 0)
        os.lseek(0, 0, os.SEEK_SET)
        return head == SYMTAB
    if is_pipe(path):
        return True
    with open(path, "rb") as file:
        return file.read(3) == SYMTAB
