"""test_folders - the README of each folder names every folder in it, and no file that does not exist.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
from pathlib import Path

import pytest

from support import SOURCE

FOLDERS = ("memtrace", "ljtrace", "drivers", "steve", "regtest")
GENERATED = {"__pycache__"}


def named(folder: Path) -> set[str]:
    """The paths that the README has in backquotes."""
    return set(re.findall(r"`([a-z_/]+/?[\w.]*)`", (folder / "README.md").read_text()))


def holds_sources(folder: Path) -> bool:
    """Does the folder contain files of the project, not only folders?"""
    return any(path.is_file() for path in folder.iterdir())


@pytest.mark.parametrize("name", FOLDERS)
def test_every_folder_has_its_line(name: str) -> None:
    folder = SOURCE / name
    inner = [path for path in folder.rglob("*") if path.is_dir() and not GENERATED & set(path.parts)]
    there = {str(path.relative_to(folder)) + "/" for path in inner if holds_sources(path)}
    assert there - {"test/golden/", "test/data/", "test/data/0.1.0/", "test/data/0.2.0/"} - named(folder) == set()


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_named_is_there(name: str) -> None:
    folder = SOURCE / name
    paths = {path for path in named(folder) if "/" in path}
    assert len(paths) > 9
    assert {path for path in paths if not (folder / path).exists()} == set()
