"""Errors that the user is to see as one line, without a traceback.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def meant(word: str, known: Iterable[str]) -> str:
    """A question to who wrote a word that is none of the known ones, "" if none is like it."""
    by_small = {name.lower(): name for name in known}
    like = difflib.get_close_matches(word.lower(), by_small, 1, 0.7)
    return f"; did you mean '{by_small[like[0]]}'?" if like else ""


class SteveError(Exception):
    """Bad input or a failure: `steve NAME: MESSAGE` on stderr, exit status 1.

    The message names file, place and, where there is one, the remedy."""

    status = 1


class UsageError(SteveError):
    """The command line makes no sense: exit status 2."""

    status = 2


class WriteError(SteveError):
    """A kernel could not write to its descriptor; steve.system.output adds the name of the file."""


class TraceError(SteveError):
    """A memtrace or ops file cannot be read (further).

    path: the file; offset: byte offset, or line number if `is_text`; code: name of the enum mt_error_code
    without its prefix, in small letters ("io", "format", "version", "corrupt", "truncated", "memory", "growing")."""

    def __init__(self, path: str, code: str, offset: int, is_text: bool, text: str) -> None:
        place = f"{'line' if is_text else 'offset'} {offset}: "
        named = not offset or re.search(r"\b(offset|line) \d", text)
        super().__init__(f"{path}: {'' if named else place}{text}")
        self.path, self.code, self.offset, self.is_text = path, code, offset, is_text
        self._arguments = (path, code, offset, is_text, text)

    def of(self, path: str) -> TraceError:
        """The same about a file of another name."""
        return TraceError(path, *self._arguments[1:])

    def __reduce__(self) -> tuple:
        """So that it can come from another process."""
        return TraceError, self._arguments
