"""May a result replace the file that has its name? Only if that is of the kind that the command writes.

Otherwise a mistyped -o would destroy a program, or notes, that nothing brings back. What a file is shows in its
beginning: the magic number of a binary format, the first key of JSON, the heading of CSV, the lines of a text.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import re

from steve.system.errors import UsageError

BEGINNING = 16384  # bytes of a file that are looked at
LINES = 3  # of a text that are compared
# what several forms of one result begin with
FAMILIES = {
    "a memtrace": re.compile(rb"\x89LJT|>>> |# ljtrace: process "),
    "operations": re.compile(rb"\x7fOPS|(?:\d+ [A-Z]+ \d+[ \d]*\n)+"),
    "a report": re.compile(rb'\s*<!doctype html>(?s:.*)<meta name="steve-trace"', re.I),
    "a page": re.compile(rb"\s*<!doctype html>", re.I),
    "a picture": re.compile(rb"(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg", re.I),
    "a document": re.compile(rb"%PDF-"),
    "a film": re.compile(rb"RIFF....AVI |....ftyp", re.S),
    "JSON": re.compile(rb'\s*[\[{]\s*(?:\{\s*)?(?:"|\]|\}|\d)'),
    "a table": re.compile(rb"[^\n]*\n\n[^\n]*\n *(?:\xe2\x94\x80|-){8}"),
    "folded stacks": re.compile(rb"(?:[^\n]+;[^\n]* \d+\n)+"),
}
MAY_BE_EMPTY = ("a memtrace", "operations", "folded stacks")  # what an empty result may replace
FIRST_KEY = re.compile(rb'\s*[\[{]\s*(?:\{\s*)?"([^"]*)"')


def check(path: str, target: str, result: str) -> None:
    """UsageError if a result may not replace a file. path: as the user named it; target: the file; result: the new one, which
    is complete."""
    old, new = beginning(target), beginning(result)
    if old and not are_alike(old, new):
        raise UsageError(f"{path}: is no earlier result of this command; -f replaces it, and -o names another file")


def beginning(path: str) -> bytes:
    """The beginning of a file; of one that cannot be read a NUL, which nothing begins with; of none nothing."""
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(BEGINNING)
    except OSError:
        return b"\0"


def are_alike(old: bytes, new: bytes) -> bool:
    """Are both of one kind?"""
    families = [next((name for name, pattern in FAMILIES.items() if pattern.match(head)), None) for head in (old, new)]
    if not new:
        return families[0] in MAY_BE_EMPTY
    if families[0] != families[1]:
        return False
    if families[0] == "JSON":
        keys = [match and match[1] for match in map(FIRST_KEY.match, (old, new))]
        return keys[0] == keys[1] or None in keys and min(len(old), len(new)) < 8  # an empty list has no key
    if families[0] is not None:
        return True
    if b"\0" in old[:512] or b"\0" in new[:512] or not old[:1].isascii():
        return old[:4] == new[:4] or old[:1] == new[:1] == b"\n"  # as messages of protocol buffers begin
    lines = [[form(line) for line in head.split(b"\n")[:LINES]] for head in (old, new)]
    return any(one == other and len(one) >= 4 for one, other in zip(*lines))


def form(line: bytes) -> bytes:
    """A line of text without what differs from trace to trace: the name before a colon, and numbers."""
    return re.sub(rb"[\d.,+\s-]+", b" ", line.partition(b": ")[2] or line).strip()
