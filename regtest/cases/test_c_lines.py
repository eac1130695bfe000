"""test_c_lines - source lines of C code: in the object's file or in one of its own, however it is stored.

Those of the system's files the collector finds (line_of asks it alone), those of others Valgrind, when they
are mapped: so these may be gone, or be built again, while the program runs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
from pathlib import Path

import pytest

from support import BUILD, good, recorder, steve

LIBRARY = """\
#include <stdlib.h>

char *made_far_down(int n)
{
    char *block =
        malloc(n);
    return block + (block == 0);
}
"""
PROGRAM = """\
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void call(const char *path, int unlinked)
{
    void *library = dlopen(path, RTLD_NOW);
    char *(*make)(int) = (char *(*)(int))dlsym(library, "made_far_down");
    if (unlinked)
        unlink(path);
    free(make(10));
    dlclose(library);
}

int main(int n, char **a)
{
    call(a[1], n > 3);
    if (n == 3) {
        rename(a[2], a[1]);
        call(a[1], 0);
    }
    return 0;
}
"""
CALLER = "call (program.c:12)"
WAYS = {"plain": ("-g",), "optimised": ("-g", "-O2"), "old": ("-gdwarf-4",), "compressed": ("-g", "-gz"),
        "split": ("-g", "-gsplit-dwarf")}


@pytest.fixture(scope="module", name="program")
def made_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "program.c").write_text(PROGRAM)
    good(["gcc", "-no-pie", "-g", "-o", folder / "program", folder / "program.c", "-ldl"])
    return folder / "program"


def library(folder: Path, *options: str, name: str = "far", lines_above: int = 0) -> Path:
    (folder / f"{name}.c").write_text("\n" * lines_above + LIBRARY)
    good(["gcc", "-shared", "-fPIC", *options, "-o", folder / f"{name}.so", folder / f"{name}.c"], cwd=folder)
    return folder / f"{name}.so"


def sites(program: Path, far: Path, *arguments: object) -> list[str]:
    """The two innermost frames of each site at which made_far_down makes blocks."""
    path = far.parent / "lines.ljt"
    good([*recorder(path), program, far, *arguments])
    names = [row["site"] for row in json.loads(steve("sites", "--json", path).text)]
    return [" < ".join(name.split(" < ")[:2]) for name in sorted(names) if name.startswith("made_far_down ")]


def line_of(far: Path, *other: Path) -> list[str]:
    """Where the collector says that made_far_down begins."""
    symbols = (line.split() for line in good(["nm", "-D", far]).text.splitlines())
    address, = (words[0] for words in symbols if words[-1] == "made_far_down")
    return good([BUILD / "ljtrace/test/line_of", far, address, *other]).text.splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_lines_are_found(tmp_path: Path, program: Path, way: str) -> None:
    far = library(tmp_path, *WAYS[way])
    assert line_of(far) == [f"{tmp_path}/far.c:4"]
    if way != "split":  # of which Valgrind 3.19 says that the file is corrupt, and gives up
        assert sites(program, far) == [f"made_far_down (far.c:6) < {CALLER}"]


def test_debug_information_of_its_own(tmp_path: Path, program: Path) -> None:
    """As Debian's -dbgsym packages have it."""
    far = library(tmp_path, "-g")
    good(["objcopy", "--only-keep-debug", far, tmp_path / "far.debug"])
    good(["objcopy", "--strip-debug", "--add-gnu-debuglink=far.debug", far], cwd=tmp_path)
    assert line_of(far) == [f"{tmp_path}/far.c:4"]
    assert sites(program, far) == [f"made_far_down (far.c:6) < {CALLER}"]
    (tmp_path / "far.debug").unlink()
    assert line_of(far) == ["unknown"]
    assert sites(program, far) == [f"made_far_down (far.so) < {CALLER}"]


def test_files_without(tmp_path: Path, program: Path) -> None:
    bare = Path(shutil.copy(program, tmp_path / "bare"))
    good(["strip", "--strip-debug", bare])
    far = library(tmp_path)
    assert line_of(far) == ["unknown"]
    assert sites(bare, far) == ["made_far_down (far.so) < call (bare)"]


@pytest.mark.parametrize("size", (0, 64, 1000, 5000))
def test_damaged_files(tmp_path: Path, size: int) -> None:
    """Cut off, or with nothing but zeros behind."""
    far, cut, zeros = library(tmp_path, "-g"), tmp_path / "cut.so", tmp_path / "zeros.so"
    whole = far.read_bytes()
    cut.write_bytes(whole[:size])
    zeros.write_bytes(whole[:size].ljust(len(whole), b"\0"))
    for path in (cut, zeros, tmp_path / "none.so", tmp_path):
        assert good([BUILD / "ljtrace/test/line_of", path, "1120"]).text == "unknown\n"


def test_a_file_that_is_gone(tmp_path: Path, program: Path) -> None:
    """Newer Valgrinds look for lines when the first is asked for. (3.19 has them all by then.)"""
    version = tuple(map(int, re.findall(r"[0-9]+", good(["valgrind", "--version"]).text)[:2]))
    name, = sites(program, library(tmp_path, "-g"), "unlink", "it")
    lost = [f"made_far_down (far.so) < {CALLER}"] if version > (3, 19) else []
    assert name in [f"made_far_down (far.c:6) < {CALLER}", *lost]


def test_a_library_built_again(tmp_path: Path, program: Path) -> None:
    """Loaded from the same path, and to the same place."""
    far, later = library(tmp_path, "-g"), library(tmp_path, "-g", name="later", lines_above=10)
    shutil.copy(far, tmp_path / "first.so")
    assert sites(program, far, later) == [f"made_far_down (far.c:6) < {CALLER}",
                                          f"made_far_down (later.c:16) < {CALLER}"]
    assert line_of(tmp_path / "first.so", far) == [f"{tmp_path}/far.c:4", f"{tmp_path}/later.c:14"]


def test_lines_of_the_system(program: Path, tmp_path: Path) -> None:
    """libc's, which Debian has in libc6-dbg, a package that Valgrind needs."""
    far = library(tmp_path)
    sites(program, far)
    names = [row["site"] for row in json.loads(steve("sites", "--json", far.parent / "lines.ljt").text)]
    assert any(re.search(r"\(dl-[a-z]+\.c:[0-9]+\)", name) for name in names), names
