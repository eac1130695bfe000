"""Output files that appear whole or not at all.

A result is written to a temporary file in the folder of the result and renamed when it is complete, so that
neither an error nor an interrupt leaves half a file or destroys the old one. A file that is of another kind than the
result stays, too (steve.system.replaced). Standard output ("-"), devices
and pipes are written directly. Files that other programs read while they grow need another way.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterable

from steve.system import replaced, tempfiles
from steve.system.errors import SteveError, UsageError, WriteError
from steve.system.messages import note

# file name extensions that promise a certain format
PROMISES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".webp",
    ".pdf",
    ".ps",
    ".svg",
    ".html",
    ".htm",
    ".json",
    ".csv",
    ".avi",
    ".mp4",
)

_inputs: list[str] = []  # existing files that Output refuses to replace
_forced: list[bool] = [False]  # may a result replace a file of another kind?


def protect(paths: Iterable[str], force: bool = False) -> None:
    """Let Output refuse to replace these files, which the command reads, and, without `force`, files of another kind than the
    result (steve.system.replaced). Names that are no files are ignored."""
    _inputs[:] = filter(os.path.isfile, paths)
    _forced[0] = force


def publish(path: str, working_path: str, target: str) -> None:
    """Give a complete result, a temporary file, its name. path: as the user gave it; target: where it leads.

    UsageError if there is a file that it may not replace."""
    if not _forced[0]:
        replaced.check(path, target, working_path)
    tempfiles.named(working_path, target)


class Output:
    """`with Output(path) as out:` provides out.fd, a file descriptor for bytes, and out.write(text).

    The file gets its name when the block ends without an exception. path "-" is standard output. binary: raise
    UsageError if standard output is a terminal. Entering the block raises UsageError if the file is an input
    of the command, SteveError if its folder cannot be written; leaving it raises UsageError if there is a file of
    another kind."""

    def __init__(self, path: str, binary: bool = False) -> None:
        if binary and path == "-" and os.isatty(1):
            raise UsageError(
                "standard output is a terminal, but the result is binary: redirect it, or name a " "file with -o"
            )
        self.path = path
        self.name = "standard output" if path == "-" else path
        self.fd = -1
        self._temporary: str | None = None
        self._target = path

    def __enter__(self) -> Output:
        if self.path == "-":
            sys.stdout.flush()
            # like any filter, end at once when the reader closes the pipe
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            self.fd = os.dup(1)
        elif is_special(self.path):
            self.fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        else:
            self._open_temporary()
        return self

    def _open_temporary(self) -> None:
        self._target = os.path.realpath(self.path)
        if os.path.isdir(self._target):
            raise SteveError(f"{self.path}: is a folder; name a file with -o")
        if any(is_same(self._target, path) for path in _inputs):
            raise UsageError(f"{self.path}: is what the command reads; name another file with -o")
        folder, base = os.path.split(self._target)
        try:
            self.fd, self._temporary = tempfiles.make_file(f".{base[:100]}.", ".part", folder)
        except OSError as error:
            raise SteveError(
                f"{self.path}: cannot write in folder {folder}: {error.strerror}; " "name another place with -o"
            ) from None
        os.fchmod(self.fd, file_mode(self._target))

    @property
    def folder(self) -> str | None:
        """The folder of the result, for files that belong next to it; None if it is written directly."""
        return os.path.dirname(self._target) if self._temporary is not None else None

    @property
    def working_path(self) -> str:
        """The path of the file while it is written, for libraries that open files by name. UsageError if there is no
        such file."""
        if self._temporary is None:
            raise UsageError(f"{self.name}: is written piece by piece, but the result needs a file; name one with -o")
        return self._temporary

    def write(self, text: str) -> None:
        """Write text as UTF-8. Lone surrogates become the bytes they were decoded from (surrogateescape)."""
        self.write_bytes(text.encode("utf-8", "surrogateescape"))

    def write_bytes(self, data: bytes) -> None:
        """Write all of `data`; SteveError if that fails."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.fd, view) :]
            except OSError as error:
                raise SteveError(f"{self.name}: {error.strerror}") from None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, WriteError):
            self._close()
            raise SteveError(f"{self.name}: {error}") from None
        try:
            if kind is None and self._temporary is not None:
                publish(self.path, self._temporary, self._target)
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
    """Report on stderr the name and size of a result file whose name the user did not choose.

    asked: the name the user gave; if there is one, nothing is printed. look: how to view the file, or ""."""
    if asked is None and path != "-" and os.path.isfile(path):
        note(command, f"wrote {path}: {os.path.getsize(path):,} bytes{f', {look}' if look else ''}", quiet)


def check_ending(path: str | None, what: str, *endings: str) -> None:
    """UsageError if the extension of a result's name does not fit its format.

    what: the format, for the message. endings: the extensions that fit, each with its dot."""
    kind = os.path.splitext(path or "")[1].lower()
    if kind in PROMISES and kind not in endings:
        raise UsageError(f"{path}: {what}; name a file that ends in {' or '.join(endings)}")


def is_same(one: str, other: str) -> bool:
    """Do both names belong to one existing file?"""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_special(path: str) -> bool:
    """Is there something at `path` that is neither a regular file nor a folder: a device, pipe or socket?"""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def file_mode(path: str) -> int:
    """The permissions of the result: those of the file it replaces, else those of a new file (umask)."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
