"""test_developer_docs - the documents for developers name files, folders and functions that exist; no link of a
document is broken.

A name in backquotes is a file if it ends like a source or a document, and a folder if it ends with a slash. It is a
whole path or the end of one; NAME and FOLDER stand for any. Names in backquotes and parentheses after a file are in
that file: `a/b.c` (`f`, `g`).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
from pathlib import Path

import pytest
from support import SOURCE

DOCUMENTS = (
    "HACKING.md",
    "docs/architecture.md",
    "docs/internals/data-model.md",
    "docs/internals/native.md",
    "docs/internals/recorder.md",
    "docs/internals/steve.md",
    "docs/internals/testing.md",
)
FILE = re.compile(r"`([\w./-]+\.(?:c|h|def|in|py|pyx|pxd|am|ac|md|lua))`(?:\s+\(((?:`[\w ]+`(?:,\s+)?)+)\))?")
FOLDER = re.compile(r"`([\w./-]+)/`")
PLACEHOLDER = re.compile(r"`[\w./*-]*\b(?:NAME|FOLDER)\b[\w./*-]*`")
NOT_SOURCES = {".git", "build", "autom4te.cache"}


def sources() -> list[str]:
    """The paths of all files of the tree, relative to it."""
    return [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*")
        if path.is_file() and not NOT_SOURCES & set(path.relative_to(SOURCE).parts)
    ]


def ends_with(path: str, end: str) -> bool:
    return f"/{path}".endswith(f"/{end}")


def missing(text: str, paths: list[str]) -> list[str]:
    """What a document names that the tree does not have."""
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    found = [
        f"{name}/"
        for name in FOLDER.findall(text)
        if name != "build" and not any(ends_with(folder, name) for folder in folders)
    ]
    for name, inside in FILE.findall(PLACEHOLDER.sub("", text)):
        named = [path for path in paths if ends_with(path, name)]
        texts = [(SOURCE / path).read_text() for path in named]
        found += [] if named else [name]
        found += [
            f"{name}: {identifier}"
            for identifier in re.findall(r"`([\w ]+)`", inside)
            if not any(re.search(rf"\b{identifier}\b", text) for text in texts)
        ]
    return found


def anchor(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(path: Path) -> list[str]:
    """The links of a document to files, folders and headings that do not exist."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        name, _, wanted = target.partition("#")
        to = path.parent / name if name else path
        if "://" in target:
            continue
        if not to.exists() or wanted and wanted not in map(anchor, re.findall(r"^#+ (.*)$", to.read_text(), re.M)):
            found.append(target)
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_what_exists(document: str) -> None:
    text = (SOURCE / document).read_text()
    assert len(FILE.findall(text)) > 10
    assert missing(text, sources()) == []


def test_links_lead_somewhere() -> None:
    documents = [SOURCE / path for path in sources() if path.endswith(".md")]
    broken = {str(path.relative_to(SOURCE)): broken_links(path) for path in documents}
    assert len(documents) > 20 and {name: links for name, links in broken.items() if links} == {}


def test_broken_links_are_found(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "# One thing\n[a](#one-thing) [b](page.md#one-thing) [c](https://x.org/#y) [d](#other) [e](gone.md)\n"
    )
    assert broken_links(path) == ["#other", "gone.md"]


def test_missing_names_are_found() -> None:
    paths = ["regtest/cases/test_developer_docs.py"]
    assert missing("`cases/test_developer_docs.py` (`missing`, `sources`) in `regtest/cases/`", paths) == []
    nowhere = "".join(("ab", "sent"))  # in one piece it would be in this file
    text = f"`cases/gone.c` `cases/test_developer_docs.py` (`missing`, `{nowhere}`) `regtest/gone/`"
    assert missing(text, paths) == ["regtest/gone/", "cases/gone.c", f"cases/test_developer_docs.py: {nowhere}"]
