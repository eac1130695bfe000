"""Folders of the package depend downwards only: no module imports from a folder above its own. The table in
docs/internals/steve.md has the order of the folders, and steve/README.md has the same.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
DOCUMENT = PACKAGE.parent / "docs" / "internals" / "steve.md"
CYTHON = re.compile(r"\s*(?:from|c?import)\s+steve\.(\w+)")
NO_MODULES = {"fuzz", "scripts", "test"}
COMMAND_LINE = {"cli.py", "command.py", "completion.py", "completion_help.py", "__main__.py"}  # above all folders


class Import(NamedTuple):
    """An import from a folder of the package, and where it is."""

    folder: str
    place: str


def documented_order() -> list[str]:
    """The folders in the order of the table, lowest first."""
    section = DOCUMENT.read_text().split("## Folders\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)/` \|", section, re.M)


def modules() -> list[Path]:
    """All modules of the package, including those in Cython."""
    found = (path for ending in ("py", "pyx", "pxd") for path in PACKAGE.rglob(f"*.{ending}"))
    return sorted(path for path in found if path.relative_to(PACKAGE).parts[0] not in NO_MODULES)


def names_of(node: ast.AST) -> list[str]:
    """The full names that a statement imports."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports name the whole path"
        return [f"{node.module}.{name.name}" for name in node.names]
    return []


def folders_in(text: str, is_cython: bool) -> Iterator[tuple[str, int]]:
    """The folders of the package that a module imports from, each with the line number."""
    if is_cython:
        for number, line in enumerate(text.splitlines(), 1):
            match = CYTHON.match(line)
            if match:
                yield match[1], number
        return
    for node in ast.walk(ast.parse(text)):
        for name in names_of(node):
            package, _, rest = name.partition(".")
            if package == "steve" and rest:
                yield rest.split(".")[0], node.lineno


def imports_by_folder() -> dict[str, set[Import]]:
    """By folder, the imports of its modules from other folders."""
    found: dict[str, set[Import]] = {}
    for path in modules():
        inside = path.relative_to(PACKAGE)
        if len(inside.parts) > 1:
            for folder, line in folders_in(path.read_text(), path.suffix != ".py"):
                found.setdefault(inside.parts[0], set()).add(Import(folder, f"steve/{inside}:{line}"))
    return found


def test_the_readme_has_the_same_order() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|", (PACKAGE / "README.md").read_text(), re.M)
    assert [folder for folder in rows if folder not in NO_MODULES] == documented_order()


def test_all_folders_have_a_place_in_the_order() -> None:
    folders = {path.relative_to(PACKAGE).parts[0] for path in modules()}
    order = documented_order()
    assert len(order) == len(set(order))
    assert set(order) == folders - COMMAND_LINE - {"__init__.py"}


@pytest.mark.parametrize("folder", documented_order())
def test_no_folder_imports_one_above_it(folder: str) -> None:
    order = documented_order()
    below = set(order[: order.index(folder) + 1])
    wrong = sorted(
        f"{place} imports {other}" for other, place in imports_by_folder().get(folder, ()) if other not in below
    )
    assert wrong == []


def test_an_import_of_a_folder_above_is_seen() -> None:
    """The test detects each form of import."""
    python = "import os\nimport steve.cli\ndef f():\n    from steve import plots\n    from steve.report.page import x\n"
    cython = "import os\n\nfrom steve.trace._memtrace cimport Trace\nimport steve.plots\ncimport steve.kernels.x\n"
    assert set(folders_in(python, False)) == {("cli", 2), ("plots", 4), ("report", 5)}
    assert set(folders_in(cython, True)) == {("trace", 3), ("plots", 4), ("kernels", 5)}


@pytest.mark.parametrize("command", [["ops", "--binary"], ["dump"], ["info"], ["memtrace"]])
def test_a_command_that_needs_no_numpy_does_not_load_it(
    trace: Callable[..., Path], tmp_path: Path, command: list[str]
) -> None:
    """Loading numpy takes as long as these commands need for a million events."""
    program = (
        "import sys\nfrom steve.cli import main\nstatus = main(sys.argv[1:])\n"
        "print(status, 'numpy' in sys.modules, file=sys.stderr)"
    )
    words = [*command, "-o", str(tmp_path / "out"), str(trace("N 4096 8\nF 4096\nend exit\n"))]
    result = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert result.stderr.splitlines()[-1] in ("0 False", "None False")


def test_parts_of_packages_that_are_not_used_are_not_loaded(trace: Callable[..., Path]) -> None:
    program = (
        "import sys\nfrom steve.cli import main\nmain(sys.argv[1:])\n"
        "names = {'numpy', 'rich', 'attr', 'numpy.random.mtrand', 'numpy.ma.core', 'numpy.fft.helper'}\n"
        "loaded = names & set(sys.modules)\n"
        "import numpy\n"
        "print(*sorted(loaded), numpy.random.default_rng(1).integers(5, 6), file=sys.stderr)"
    )
    words = ["summary", str(trace("N 4096 8\nF 4096\nend exit\n"))]
    result = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert result.stderr.splitlines()[-1] == "numpy rich 5"
