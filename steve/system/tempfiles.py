"""Temporary files and folders that are removed however the process ends, except by SIGKILL.

An interrupt can arrive between any two steps of Python, also after a file was made and before its name was
recorded for removal. A file or folder is therefore made while signals are blocked, and its name stays in a
list until it is removed. What is still in the list when the process ends, or when a signal ends it
(steve.cli), is removed then.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import atexit
import os
import shutil
import tempfile
from contextlib import contextmanager
from collections.abc import Iterator

from steve.system.interrupts import blocked

_listed: set[str] = set()  # paths to be removed at the end


def make_file(prefix: str, suffix: str, folder: str) -> tuple[int, str]:
    """Make and open a file in a folder: (file descriptor, path). The caller owns the descriptor and ends the
    file's temporary life with named() or remove(). OSError if the file cannot be made."""
    with blocked():
        fd, path = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
        _listed.add(path)
    return fd, path


def named(path: str, target: str) -> None:
    """Rename a temporary file to its final name; it is no longer temporary."""
    os.replace(path, target)
    _listed.discard(path)


def remove(path: str) -> None:
    """Remove a file or folder made here, if it still exists. A folder may remain if another process is adding
    files to it; it then stays in the list."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
    if not os.path.lexists(path):
        _listed.discard(path)


@contextmanager
def scratch_folder(prefix: str, folder: str | None = None) -> Iterator[str]:
    """A new temporary folder, removed at the end of the `with` block. folder: the one to make it in; None: the
    system's folder for temporary files."""
    with blocked():
        path = tempfile.mkdtemp(prefix=prefix, dir=folder)
        _listed.add(path)
    try:
        yield path
    finally:
        remove(path)


@atexit.register
def remove_all() -> None:
    """Remove everything in the list. Python calls this at exit, but not when a signal ends the process: then the
    caller must."""
    for path in list(_listed):
        remove(path)
