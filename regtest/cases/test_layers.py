"""test_layers - no folder uses one that is above it, as the symbols of the object files show.

Each tree has an order of its folders, the lowest first, which its README.md has, too. A folder may use those before it,
and itself. Use of headers alone (constants, types and inline functions) is not seen.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import BUILD, SOURCE

UNDEFINED, DEFINED = "Uv", "TDBRVWCi"


@dataclass(frozen=True)
class Tree:
    root: str
    objects: str  # what automake puts before the names of the objects of its library or program
    # folders that may not use each other stand in one group
    layers: tuple[tuple[str, ...], ...]


TREES = [
    Tree("memtrace", "libmemtrace_a-", (("base",), ("format", "blocks"), ("read", "write"), ("rewrite", "ops"))),
    Tree(
        "ljtrace/luajit",
        "ljtrace_amd64_linux-",
        (("base",), ("core",), ("jit",), ("stack",), ("state",), ("snapshot",), ("heap",)),
    ),
    Tree(
        "ljtrace/valgrind",
        "ljtrace_amd64_linux-",
        (
            ("base",),
            ("ring",),
            ("stacks",),
            ("luajit",),
            ("heaps",),
            ("instrument",),
            ("syscalls",),
            ("session",),
            (".",),
        ),
    ),
    Tree(
        "drivers",
        "(?:libreplay_a|steve_replay)-",
        (("heap",), ("base",), ("plan",), ("run",), ("measure",), ("film",), ("supervisor",), ("commands",), (".",)),
    ),
]
# programs and libraries that share nothing but a protocol and the public headers of the layers named
APART = {
    "ljtrace/frames": (),
    "ljtrace/luajit": (),
    "ljtrace/valgrind": ("ljtrace/frames", "ljtrace/luajit"),
    "ljtrace/calibrate": (),
    "ljtrace/preload": ("ljtrace/calibrate",),
    "ljtrace/native": ("ljtrace/calibrate", "ljtrace/frames", "ljtrace/luajit"),
    "ljtrace/symbols": (),
    "ljtrace/collector": ("ljtrace/symbols", "memtrace"),
    "drivers": ("memtrace",),
    "memtrace": (),
}


def objects(root: str, prefix: str) -> dict[str, Path]:
    """The object files of a tree, by the names of their sources: FOLDER/FILE."""
    found = {}
    for path in sorted((BUILD / root).rglob("*.o")):
        name = re.sub(f"^{prefix}", "", path.stem)
        source = path.relative_to(BUILD / root).parent / name
        if name != path.stem and (SOURCE / root / source).with_suffix(".c").exists():
            found[str(source)] = path
    return found


def symbols(files: dict[str, Path]) -> dict[str, tuple[set[str], set[str]]]:
    """The symbols that each object file uses and defines."""
    names = {str(path): name for name, path in files.items()}
    found: dict[str, tuple[set[str], set[str]]] = {name: (set(), set()) for name in files}
    lines = subprocess.run(["nm", "-A", *names], capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines:
        path, _, rest = line.partition(":")
        kind, symbol = rest.split()[-2:]
        used, offered = found[names[path]]
        if kind in UNDEFINED:
            used.add(symbol)
        elif kind in DEFINED:
            offered.add(symbol)
    return found


@dataclass(frozen=True)
class Use:
    user: str
    used: str
    symbol: str


def uses(files: dict[str, Path]) -> list[Use]:
    """Uses of one file's symbols by another file."""
    table = symbols(files)
    owner = {symbol: name for name, (_, offered) in table.items() for symbol in offered}
    return [
        Use(name, owner[symbol], symbol)
        for name, (used, _) in table.items()
        for symbol in sorted(used)
        if symbol in owner
    ]


def folder(name: str) -> str:
    return str(Path(name).parent)


def upward(tree: Tree, files: dict[str, Path]) -> list[Use]:
    level = {name: i for i, group in enumerate(tree.layers) for name in group}
    unknown = {folder(name) for name in files} - set(level)
    assert not unknown, f"folders of {tree.root} without a layer: {unknown}"
    return [
        use
        for use in uses(files)
        if folder(use.user) != folder(use.used) and level[folder(use.used)] >= level[folder(use.user)]
    ]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.root)
def test_no_folder_uses_one_above_it(tree: Tree) -> None:
    files = objects(tree.root, tree.objects)
    assert len(files) > 20
    wrong = [f"{use.user} uses {use.symbol} of {use.used}, which is above it" for use in upward(tree, files)]
    assert not wrong, "\n".join(wrong)


def included(root: str) -> set[tuple[str, str]]:
    """(file, header) for each header of this project that a source file includes."""
    found = set()
    for path in sorted((SOURCE / root).rglob("*.[ch]")):
        if "/test/" not in str(path) and "/bench/" not in str(path) and "/fuzz/" not in str(path):
            found |= {
                (str(path.relative_to(SOURCE)), header)
                for header in re.findall(r'^#include "([^"]*/[^"]*)"', path.read_text(), re.MULTILINE)
            }
    return found


@pytest.mark.parametrize("root", APART)
def test_parts_meet_only_in_their_protocols(root: str) -> None:
    allowed = (root, "ljtrace/protocol" if root.startswith("ljtrace/") else root, *APART[root])
    public = {f"memtrace/{name}.h" for name in ("memtrace", "reader", "writer", "rewrite", "ops", "stream")}
    wrong = [
        f"{file} includes {header}"
        for file, header in sorted(included(root))
        if header.split("/")[0] in ("memtrace", "ljtrace", "drivers", "steve")
        and header not in public
        and header != "ljtrace/ljtrace.h"
        and not header.startswith(tuple(f"{name}/" for name in allowed))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_reader_of_luajit_is_neutral() -> None:
    """It includes the headers of no recorder, and of the C library only those without functions, and string.h, whose
    memcpy, memmove and memset are there everywhere."""
    allowed = {"stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "string.h"}
    wrong = {
        (path.name, header)
        for path in sorted((SOURCE / "ljtrace/luajit").rglob("*.[ch]"))
        for header in re.findall(r'^#include [<"]([^">]*)[>"]', path.read_text(), re.MULTILINE)
        if "/" not in header and header not in allowed
    }
    assert not wrong
    files = objects("ljtrace/luajit", "libnative_lua_a-")
    assert len(files) > 20
    own = {symbol for _, offered in symbols(files).values() for symbol in offered}
    used = {symbol for needed, _ in symbols(files).values() for symbol in needed} - own
    foreign = {s for s in used if not s.startswith(("host_", "_", "lt_")) and s not in ("memcpy", "memmove", "memset")}
    assert not foreign


def ordered(tree: Tree) -> list[str]:
    return [name for group in tree.layers for name in group if name != "."]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.root)
def test_readme_has_the_same_order(tree: Tree) -> None:
    above, _, below = tree.root.partition("/")
    prefix = f"{below}/" if below else ""
    rows = re.findall(rf"^\| `{prefix}([a-z/]+)/` \|", (SOURCE / above / "README.md").read_text(), re.MULTILINE)
    assert [row for row in rows if row in ordered(tree)] == ordered(tree)


def test_the_tool_has_the_same_order() -> None:
    head = (SOURCE / "ljtrace/valgrind/main.c").read_text().split("*/")[0]
    listed = re.findall(r"^ \* ([a-z/]+)/ +", head.split("Folders, from the bottom up")[1], re.MULTILINE)
    assert listed == ordered(next(tree for tree in TREES if tree.root == "ljtrace/valgrind"))


def test_a_use_upward_is_found(tmp_path: Path) -> None:
    """Two objects compiled here: base calls a function of ring."""
    sources = {
        "base/a": "void upper(void); void lower(void); void lower(void) { upper(); }",
        "ring/b": "void lower(void); void upper(void); void upper(void) { lower(); }",
    }
    files = {name: tmp_path / f"{folder(name)}.o" for name in sources}
    for name, text in sources.items():
        subprocess.run(["cc", "-c", "-x", "c", "-", "-o", files[name]], input=text, text=True, check=True)
    tree = Tree("made", "", (("base",), ("ring",)))
    assert upward(tree, files) == [Use("base/a", "ring/b", "upper")]
