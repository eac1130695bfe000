"""Messages on stderr: errors and remarks, each one line that names the command.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

_of_thread = threading.local()  # `lines`, while kept() is in use


@contextlib.contextmanager
def kept() -> Iterator[list[str]]:
    """Messages of this thread are added to the list, for another process to print them."""
    _of_thread.lines = lines = []
    try:
        yield lines
    finally:
        del _of_thread.lines


def say(line: str) -> None:
    """Print a line on stderr, or keep it."""
    lines: list[str] | None = getattr(_of_thread, "lines", None)
    if lines is None:
        print(line, file=sys.stderr)
    else:
        lines.append(line)


def complain(name: str, message: object) -> None:
    """Report an error or a warning on one line of stderr: `steve NAME: MESSAGE`, without NAME if it is ""."""
    prefix = f"steve {name}: " if name else "steve: "
    say(prefix + " ".join(str(message).split("\n")))


def note(command: str, text: str, quiet: bool | None = False) -> None:
    """Print a remark that is not an error on stderr, `steve COMMAND: TEXT`, unless `quiet`."""
    if not quiet:
        say(f"steve {command}: {text}")
