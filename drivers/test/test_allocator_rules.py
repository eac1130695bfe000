"""An allocator is added in few places: drivers/allocators/rules.sh makes all rules and lists from the table.

A table with one row more is given to rules.sh, and make builds that driver, which then replays. Other tests compare what
cannot be made from the table with it, and look for lists by hand.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ops_tools import ALL, REAL, SOURCE, Model, allocators, replay  # noqa: E402

TABLE = SOURCE / "drivers/allocators/allocators.def"
LIST = {d["name"]: d for d in json.loads(replay("--list", "--json").stdout)}
MAKEFILE = """\
include rules.mk
%.so:
\t$(CC) -shared -fPIC -I. -o $@ $(filter %.c,$^) $(DRIVER_OPTIONS)
"""


def packages(need: str) -> list[str]:
    """The Debian packages of the rows with this need."""
    rows = re.findall(r'^ALLOCATOR\("[^"]*", \w+, \w+, (\w+), "([a-z0-9.+-]+)",', TABLE.read_text(), re.M)
    return [package for needed, package in rows if needed == need]


class Tree:
    """A copy of the drivers' sources, to whose table rows are added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("allocators", "sdk"):
            shutil.copytree(SOURCE / "drivers" / name, folder / "drivers" / name)
        self.table = folder / "drivers/allocators/allocators.def"
        self.table.write_text("")

    def add(self, row: str) -> None:
        self.table.write_text(self.table.read_text() + row + "\n")

    def lists(self) -> dict[str, list[str]]:
        """What rules.sh finds: drivers, commands, missing."""
        script = self.folder / "drivers/allocators/rules.sh"
        subprocess.run(["sh", script, self.table, "rules.mk"], cwd=self.folder, check=True, capture_output=True)
        lines = (self.folder / "rules.mk").read_text().splitlines()
        heads = [line[2:].partition(":") for line in lines if line.startswith("# ")]
        return {name: words.split() for name, _, words in heads if name in ("drivers", "commands", "missing")}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_file_and_a_row_are_a_driver(tree: Tree, ops: tuple[Path, Model]) -> None:
    driver = (SOURCE / "drivers/allocators/buddy.c").read_text()
    (tree.folder / "drivers/allocators/added.c").write_text("#ifndef ADDED\n#error\n#endif\n" + driver)
    tree.add(
        'ALLOCATOR("added", REFERENCE, SERIAL, NEEDED, "libc6", "",\n          "added.c "\n          "-DADDED -lm")'
    )
    assert tree.lists() == {"drivers": ["drivers/added.so"], "commands": ["drivers/plot_added"], "missing": []}
    (tree.folder / "Makefile").write_text(MAKEFILE)
    subprocess.run(["make", "-s", "drivers/added.so"], cwd=tree.folder, check=True)
    done = replay("-a", tree.folder / "drivers/added.so", "--check", ops[0])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words", ["bump.c -lnone-such", "bump.c /usr/lib/none-*/such.a", "bump.c pkg:none-such", "none-such.c"]
)
def test_what_is_missing_is_not_built(words: str, tree: Tree) -> None:
    tree.add(f'ALLOCATOR("one", LIBRARY, SERIAL, OPTIONAL, "libone-dev", "", "{words}")')
    tree.add(f'ALLOCATOR("two", LIBRARY, SERIAL, NEEDED, "libtwo-dev", "", "{words}")')
    tree.add('ALLOCATOR("three", LIBRARY, SERIAL, NEEDED, "", "", "bump.c")')
    assert tree.lists() == {
        "drivers": ["drivers/three.so"],
        "commands": ["drivers/plot_one", "drivers/plot_two", "drivers/plot_three"],
        "missing": ["libtwo-dev"],
    }


def test_rows_are_in_lists() -> None:
    """Every row is shown by --list, and has a source."""
    assert [name for name in LIST if name in ALL and name != "example_user"] == [
        *re.findall(r'^ALLOCATOR\("([^"]*)"', TABLE.read_text(), re.M)
    ]
    assert len(ALL) == len(set(ALL)) and {*allocators("PARALLEL")} < {*ALL}


def test_packages_are_named_where_they_are_installed() -> None:
    """bootstrap.sh reads them out of the table by an expression of its own; debian/control cannot read it."""
    bootstrap = (SOURCE / "bootstrap.sh").read_text()
    function = re.search(r"of_allocators\(\) \{.*?\n\}\n", bootstrap, re.S)
    assert function
    for need in ("NEEDED", "OPTIONAL"):
        done = subprocess.run(
            ["sh", "-c", f"{function[0]} of_allocators {need}"],
            cwd=SOURCE,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == packages(need) != []
    depends = (SOURCE / "debian/control").read_text().partition("\n\n")[0]
    for package in {*packages("NEEDED"), *packages("OPTIONAL")} - {"libc6"}:
        assert f" {re.sub('-[0-9]+-', '-', package)}," in depends or f" {package}," in depends, package


def test_libraries_of_the_option_tables() -> None:
    """`steve tune` preloads the library that the table has, perhaps with more of its version."""
    for path in (SOURCE / "drivers/allocators").glob("*.toml"):
        library = tomllib.loads(path.read_text()).get("library", "")
        assert library.startswith(LIST[path.stem]["library"]), path
    text = replay("--list").stdout
    for name in REAL:
        library = LIST[name]["library"]
        assert not library or not LIST[name]["available"] or f"LD_PRELOAD={library}\n" in text


def test_no_list_by_hand() -> None:
    """Neither the build nor the packages name the driver or the command of an allocator."""
    files = [SOURCE / "configure.ac", SOURCE / "bootstrap.sh", *SOURCE.glob("*/part.am"), *SOURCE.glob("debian/*.*")]
    words = re.compile("|".join(rf"\b(?:plot_{name}|{name}\.so|HAVE_{name.upper()})\b" for name in ALL if name in LIST))
    for path in files:
        found = set(words.findall(path.read_text())) - {"example_user.so", "plot_example_user"}
        assert not found, path
