"""Temporary files and folders that go away whatever ends us, short of a kill.

An interrupt can come between any two steps of Python, also between the making of a file and the moment its
name is kept for removal. So a file or folder is made while the signals that end us are held back, and its
name is listed here until it is removed; what is still listed at the end, or when a signal ends the process
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

_listed: set[str] = set()


def make_file(prefix: str, suffix: str, folder: str) -> tuple[int, str]:
    """A new open file in a folder, and its name; to be ended by named() or remove(). OSError: it cannot
    be."""
    with blocked():
        fd, path = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
        _listed.add(path)
    return fd, path


def named(path: str, target: str) -> None:
    """Give a file its final name."""
    os.replace(path, target)
    _listed.discard(path)


def remove(path: str) -> None:
    """Remove a file or folder made here, if it is still there. A folder in which somebody else makes files
    just now may stay; it stays listed."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
    if not os.path.lexists(path):
        _listed.discard(path)


@contextmanager
def scratch_folder(prefix: str, folder: str | None = None) -> Iterator[str]:
    """A new folder, in another or (None) where temporary files go; it is removed with the block."""
    with blocked():
        path = tempfile.mkdtemp(prefix=prefix, dir=folder)
        _listed.add(path)
    try:
        yield path
    finally:
        remove(path)


@atexit.register
def remove_all() -> None:
    """Remove what is left; to be called when a signal ends the process, for then Python does not."""
    for path in list(_listed):
        remove(path)
