"""Make the three standard streams safe to use even if they are closed, full, or a pipe without a reader.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import io
import os
import sys
from typing import Any


class Patient(io.TextIOWrapper):
    """Standard error that drops what it cannot write: lost messages must not change results or exit status."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except (OSError, ValueError):
            pass


def occupy() -> None:
    """Open /dev/null in place of each standard stream that is closed.

    Otherwise the next file opened would get descriptor 0, 1 or 2, and would be read or written as a standard
    stream. /dev/null is opened in the wrong direction, so that reading or writing fails as on a closed stream."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest free descriptor, which is fd
            os.set_inheritable(fd, True)


def stream(fd: int, mode: str) -> Any:
    """A text stream on a file descriptor. Closing the stream leaves the descriptor open."""
    return open(fd, mode, encoding="utf-8", errors="backslashreplace", closefd=False)


def prepare() -> None:
    """Provide sys.stdin, sys.stdout and sys.stderr. Must be called before any file is opened."""
    occupy()
    if sys.stdin is None:
        sys.stdin = stream(0, "r")
    if sys.stdout is None:
        sys.stdout = stream(1, "w")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stderr = Patient(
        io.FileIO(2, "w", closefd=False),
        encoding=sys.stdout.encoding,
        errors="backslashreplace",
        write_through=True,
        line_buffering=True,
    )


def give_up_output() -> None:
    """Send standard output to /dev/null, so that the interpreter prints no error for it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
