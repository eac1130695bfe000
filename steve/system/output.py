"""Output files that appear whole or not at all.

A result is written to a temporary file in the folder of the result and renamed when it is complete, so that
neither an error nor an interrupt leaves half a file or destroys the old one. Standard output ("-"), devices
and pipes are written directly. Not for files that grow while others read them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterable

from steve.system import tempfiles
from steve.system.errors import SteveError, UsageError, WriteError
from steve.system.messages import note

# endings of file names that say what the file holds
PROMISES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ps", ".svg", ".html", ".htm", ".json", ".csv", ".avi",
            ".mp4")

_inputs: list[str] = []


def protect(paths: Iterable[str]) -> None:
    """Never replace these of the files that there are: the command reads them."""
    _inputs[:] = filter(os.path.isfile, paths)


class Output:
    """`with Output(path) as out:` gives out.fd to write bytes to and out.write(text).

    The file takes its name when the block ends without an exception. path "-" is standard output, which may be no
    terminal if what is written is binary."""

    def __init__(self, path: str, binary: bool = False) -> None:
        if binary and path == "-" and os.isatty(1):
            raise UsageError("standard output is a terminal, and what is written is binary: redirect it, or name a "
                             "file with -o")
        self.path = path
        self.name = "standard output" if path == "-" else path
        self.fd = -1
        self._temporary: str | None = None
        self._target = path

    def __enter__(self) -> Output:
        if self.path == "-":
            sys.stdout.flush()
            # like any filter, end at once when nobody reads on
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            self.fd = os.dup(1)
        elif is_special(self.path):
            self.fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        else:
            self._open_aside()
        return self

    def _open_aside(self) -> None:
        self._target = os.path.realpath(self.path)
        if os.path.isdir(self._target):
            raise SteveError(f"{self.path}: is a folder; name a file with -o")
        if any(is_same(self._target, path) for path in _inputs):
            raise UsageError(f"{self.path}: is what the command reads; name another file with -o")
        folder, base = os.path.split(self._target)
        try:
            self.fd, self._temporary = tempfiles.make_file(f".{base[:100]}.", ".part", folder)
        except OSError as error:
            raise SteveError(f"{self.path}: cannot write in folder {folder}: {error.strerror}; "
                             "name another place with -o") from None
        os.fchmod(self.fd, file_mode(self._target))

    @property
    def folder(self) -> str | None:
        """Where the file will be, for what belongs beside it; None for what is written directly."""
        return os.path.dirname(self._target) if self._temporary is not None else None

    def write(self, text: str) -> None:
        """Write text as UTF-8; lone surrogates (bytes that were not UTF-8) go out as they came in."""
        self.write_bytes(text.encode("utf-8", "surrogateescape"))

    def write_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.fd, view):]
            except OSError as error:
                raise SteveError(f"{self.name}: {error.strerror}") from None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, WriteError):
            self._close()
            raise SteveError(f"{self.name}: {error}") from None
        try:
            if kind is None and self._temporary is not None:
                tempfiles.named(self._temporary, self._target)
                self._temporary = None
        finally:
            self._close()

    def _close(self) -> None:
        if self._temporary is not None:
            tempfiles.remove(self._temporary)
            self._temporary = None
        if self.fd >= 0:
            os.close(self.fd)


def wrote(command: str, path: str, asked: str | None, look: str, quiet: bool) -> None:
    """Say where a result is, and how to look at it, unless the user asked for a file of that name."""
    if asked is None and path != "-" and os.path.isfile(path):
        note(command, f"wrote {path}: {os.path.getsize(path):,} bytes{f', {look}' if look else ''}", quiet)


def check_ending(path: str | None, what: str, *endings: str) -> None:
    """UsageError if the name of a file promises something else than is written to it."""
    kind = os.path.splitext(path or "")[1].lower()
    if kind in PROMISES and kind not in endings:
        raise UsageError(f"{path}: {what}; name a file that ends in {' or '.join(endings)}")


def is_same(one: str, other: str) -> bool:
    """Are these names of one file?"""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_special(path: str) -> bool:
    """True for what exists and is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def file_mode(path: str) -> int:
    """The permissions a file is to have: those it has, else those of any new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
