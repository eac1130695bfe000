"""test_documents - the documents for developers name files, folders and functions that exist.

A name in backquotes is a file if it ends like a source or a document, and a folder if it ends with a slash. It is a
whole path or the end of one; NAME and FOLDER stand for any. Names in backquotes and parentheses after a file are in
that file: `a/b.c` (`f`, `g`).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
from pathlib import Path

import pytest
from support import SOURCE

DOCUMENTS = ("HACKING.md", "docs/architecture.md", "docs/internals/recorder.md")
FILE = re.compile(r"`([\w./-]+\.(?:c|h|def|in|py|pyx|pxd|am|ac|md|lua))`(?:\s+\(((?:`[\w ]+`(?:,\s+)?)+)\))?")
FOLDER = re.compile(r"`([\w./-]+)/`")
PLACEHOLDER = re.compile(r"`[\w./*-]*\b(?:NAME|FOLDER)\b[\w./*-]*`")
NOT_SOURCES = {".git", "build", "autom4te.cache"}


def sources() -> list[str]:
    """The paths of all files of the tree, relative to it."""
    return [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")
            if path.is_file() and not NOT_SOURCES & set(path.relative_to(SOURCE).parts)]


def ends_with(path: str, end: str) -> bool:
    return f"/{path}".endswith(f"/{end}")


def missing(text: str, paths: list[str]) -> list[str]:
    """What a document names that the tree does not have."""
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    found = [f"{name}/" for name in FOLDER.findall(text)
             if name != "build" and not any(ends_with(folder, name) for folder in folders)]
    for name, inside in FILE.findall(PLACEHOLDER.sub("", text)):
        named = [path for path in paths if ends_with(path, name)]
        texts = [(SOURCE / path).read_text() for path in named]
        found += [] if named else [name]
        found += [f"{name}: {identifier}" for identifier in re.findall(r"`([\w ]+)`", inside)
                  if not any(re.search(rf"\b{identifier}\b", text) for text in texts)]
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_what_exists(document: str) -> None:
    text = (SOURCE / document).read_text()
    assert len(FILE.findall(text)) > 20
    assert missing(text, sources()) == []


def test_missing_names_are_found() -> None:
    paths = ["regtest/cases/test_documents.py"]
    assert missing("`cases/test_documents.py` (`missing`, `sources`) in `regtest/cases/`", paths) == []
    nowhere = "".join(("ab", "sent"))  # in one piece it would be in this file
    text = f"`cases/gone.c` `cases/test_documents.py` (`missing`, `{nowhere}`) `regtest/gone/`"
    assert missing(text, paths) == ["regtest/gone/", "cases/gone.c", f"cases/test_documents.py: {nowhere}"]
