"""Errors that the user sees as one line, without a traceback.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def meant(word: str, known: Iterable[str]) -> str:
    """The suffix `; did you mean 'NAME'?` for a misspelt word, or "" if no known name resembles it."""
    by_small = {name.lower(): name for name in known}
    like = difflib.get_close_matches(word.lower(), by_small, 1, 0.7)
    return f"; did you mean '{by_small[like[0]]}'?" if like else ""


class SteveError(Exception):
    """Bad input or a failure: the command prints `steve NAME: MESSAGE` on stderr, exit status 1.

    The message names the file, the place in it and, if there is one, the remedy."""

    status = 1


class UsageError(SteveError):
    """The command line is wrong: exit status 2."""

    status = 2


class MarkError(SteveError):
    """The trace does not have a mark that --from or --to names."""


class WriteError(SteveError):
    """A kernel could not write to its file descriptor. steve.system.output adds the name of the file."""


class TraceError(SteveError):
    """A memtrace or ops file cannot be read, or cannot be read any further.

    path: the file. offset: a byte offset, or a line number if `is_text`. code: the constant of enum
    mt_error_code without its prefix, in lower case: "io", "format", "version", "corrupt", "truncated", "memory"
    or "growing"."""

    def __init__(self, path: str, code: str, offset: int, is_text: bool, text: str) -> None:
        place = f"{'line' if is_text else 'offset'} {offset}: "
        named = not offset or re.search(r"\b(offset|line) \d", text)
        super().__init__(f"{path}: {'' if named else place}{text}")
        self.path, self.code, self.offset, self.is_text = path, code, offset, is_text
        self._arguments = (path, code, offset, is_text, text)

    def of(self, path: str) -> TraceError:
        """A copy of this error that names another file."""
        return TraceError(path, *self._arguments[1:])

    def __reduce__(self) -> tuple:
        """Make the error picklable: a worker process may raise it."""
        return TraceError, self._arguments
