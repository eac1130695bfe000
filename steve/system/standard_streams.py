"""The three standard streams, whatever they are: closed, full, or a pipe that nobody reads.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import io
import os
import sys
from typing import Any


class Patient(io.TextIOWrapper):
    """Standard error: what cannot be said there is not said. It is no reason for another result or status."""

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
    """Let no file that is opened later have the number of a standard stream that is closed, and be written to as if it
    were that. The places are taken by /dev/null, opened so that reading or writing fails as it would."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
            os.set_inheritable(fd, True)


def stream(fd: int, mode: str) -> Any:
    """A stream of text on a descriptor, which stays open."""
    return open(fd, mode, encoding="utf-8", errors="backslashreplace", closefd=False)


def prepare() -> None:
    """Have all three streams. Call first of all."""
    occupy()
    if sys.stdin is None:
        sys.stdin = stream(0, "r")
    if sys.stdout is None:
        sys.stdout = stream(1, "w")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stderr = Patient(io.FileIO(2, "w", closefd=False), encoding=sys.stdout.encoding,
                         errors="backslashreplace", write_through=True, line_buffering=True)


def give_up_output() -> None:
    """Nobody reads standard output any more: keep the interpreter from complaining of it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
