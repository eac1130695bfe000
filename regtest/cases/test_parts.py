"""test_parts - the build finds its files: parts.py names those that there are, and make notices what comes and goes.

A small project made here is built with our parts.py and the end of our Makefile.am.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
import shutil
import sys
from pathlib import Path

import pytest
from support import SOURCE, good, run

PARTS = SOURCE / "parts.py"
FOLDERS = re.findall(r'"(\w+)"', re.search(r"^PARTS = \((.*)\)$", PARTS.read_text(), re.MULTILINE)[1])
# what the rules of drivers/allocators/rules.sh, tests and readers elsewhere compile
OTHERS = ("drivers/allocators/", "examples/", "steve/fuzz/", "regtest/lua/")


def project(folder: Path, part: str) -> Path:
    """A source folder whose part memtrace has this text; the others are empty."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
        (folder / name / "part.am").write_text("")
    (folder / "memtrace/part.am").write_text(part)
    return folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        function = re.sub(r"\W", "_", name)
        (folder / name).write_text(f"int {function}(void);\nint {function}(void) {{ return 1; }}\n")


def made(folder: Path) -> list[str]:
    """The words that parts.py writes for the part memtrace."""
    good([sys.executable, PARTS, folder])
    text = (folder / "parts.am").read_text().partition("memtrace/part.am\n")[2].partition("\n# ====")[0]
    return text.replace("\\\n", " ").split()


def test_patterns(tmp_path: Path) -> None:
    folder = project(tmp_path, "A = $(FILES memtrace/**/*.c !memtrace/test/* memtrace/x.def)\n")
    put(
        folder,
        "memtrace/b/y.c",
        "memtrace/a/x.c",
        "memtrace/x.def",
        "memtrace/x.h",
        "memtrace/test/t.c",
        "memtrace/z.c",
    )
    assert made(folder) == ["A", "=", "memtrace/a/x.c", "memtrace/b/y.c", "memtrace/x.def", "memtrace/z.c"]


def test_a_block_for_each_file(tmp_path: Path) -> None:
    folder = project(tmp_path, "#each memtrace/*.c \\\n\t!memtrace/c.c\n$(EACH_NAME)_L = $(EACH).o\n#end\nZ = 1\n")
    put(folder, "memtrace/b-1.c", "memtrace/a.c", "memtrace/c.c")
    assert made(folder) == "memtrace_a_L = memtrace/a.o memtrace_b_1_L = memtrace/b-1.o Z = 1".split()


def test_written_only_when_it_differs(tmp_path: Path) -> None:
    folder = project(tmp_path, "A = $(FILES memtrace/*.c)\n")
    put(folder, "memtrace/a.c")
    made(folder)
    before = (folder / "parts.am").stat()
    made(folder)
    assert (folder / "parts.am").stat() == before
    put(folder, "memtrace/b.c")
    assert made(folder)[-1] == "memtrace/b.c"


@pytest.mark.parametrize("patterns", ["memtrace/*.d", "memtrace/*.c !memtrace/b.c", "memtrace/*.c !memtrace/*.c"])
def test_a_pattern_that_finds_nothing_is_an_error(tmp_path: Path, patterns: str) -> None:
    folder = project(tmp_path, f"A = $(FILES {patterns})\n")
    put(folder, "memtrace/a.c")
    done = run([sys.executable, PARTS, folder])
    assert (
        done.status == 1 and "memtrace/part.am" in done.complaint and patterns.split()[-1].lstrip("!") in done.complaint
    )


def test_every_source_is_built() -> None:
    """A source that no pattern finds would be built by nobody."""
    named = set((SOURCE / "parts.am").read_text().replace("\\\n", " ").split())
    stems = {Path(name).with_suffix("") for name in named if "/" in name}
    sources = {
        path.relative_to(SOURCE)
        for root in FOLDERS
        for ending in ("*.c", "*.cc", "*.pyx")
        for path in (SOURCE / root).rglob(ending)
    }
    by_tests = "".join(path.read_text() for path in (SOURCE / "regtest/cases").glob("*.py"))
    assert len(sources) > 300
    missing = {path for path in sources if str(path) not in named and path.with_suffix("") not in stems}
    assert {str(p) for p in missing if not str(p).startswith(OTHERS) and p.name not in by_tests} == set()


def test_make_notices(tmp_path: Path) -> None:
    """A library's files are added, moved and removed, and nothing but make is called."""
    if not shutil.which("autoreconf"):
        pytest.skip("autoreconf is not installed (package autoconf)")
    folder = project(
        tmp_path / "source",
        "noinst_LIBRARIES += memtrace/libm.a\nmemtrace_libm_a_SOURCES = $(FILES memtrace/*/*.c)\n",
    )
    put(folder, "memtrace/a/one.c", "memtrace/a/two.c")
    shutil.copy(PARTS, folder)
    checks = re.search(r"^m4_syscmd.*\n.*\n", (SOURCE / "configure.ac").read_text(), re.MULTILINE)
    (folder / "configure.ac").write_text(
        f"AC_INIT([small], [1])\n{checks[0]}AM_INIT_AUTOMAKE([foreign subdir-objects -Wno-portability])\n"
        "AC_PROG_CC\nAM_PROG_AR\nAC_PROG_RANLIB\nAM_PATH_PYTHON\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n"
    )
    variables = "CLEANFILES =\nnoinst_LIBRARIES =\ncheck_LIBRARIES =\nnoinst_PROGRAMS =\n"
    end = re.search(r"^include parts\.am\n(.*\n)*", (SOURCE / "Makefile.am").read_text(), re.MULTILINE)
    (folder / "Makefile.am").write_text(variables + end[0].replace("toolexec_", "noinst_"))
    build = tmp_path / "build"
    build.mkdir()
    good(["autoreconf", "-fi"], cwd=folder)
    good(["../source/configure"], cwd=build)

    def members() -> set[str]:
        good(["make", "-s"], cwd=build)
        return set(good(["ar", "t", "memtrace/libm.a"], cwd=build).text.split())

    assert members() == {"one.o", "two.o"}
    put(folder, "memtrace/b/three.c")
    assert members() == {"one.o", "two.o", "three.o"}
    (folder / "memtrace/a/two.c").unlink()
    assert members() == {"one.o", "three.o"}
    (folder / "memtrace/a/one.c").rename(folder / "memtrace/b/four.c")
    assert members() == {"four.o", "three.o"}
    dates = (build / "Makefile").stat().st_mtime_ns, (build / "memtrace/libm.a").stat().st_mtime_ns
    members()
    assert dates == ((build / "Makefile").stat().st_mtime_ns, (build / "memtrace/libm.a").stat().st_mtime_ns)


def test_old_modules_are_removed(tmp_path: Path) -> None:
    """A compiled module without a source would still be imported in the build folder."""
    rule = re.search(
        r"^steve/\.no-old-modules: Makefile\n(\t.*\n)+", (SOURCE / "steve/part.am").read_text(), re.MULTILINE
    )
    modules = "nobase_stevemodules_PROGRAMS = steve/a/_x.so steve/b/_y.so\n"
    (tmp_path / "Makefile").write_text(f"MKDIR_P = mkdir -p\n{modules}{rule[0]}")
    names = ("steve/a/_x.so", "steve/b/_y.so", "steve/b/_x.so", "steve/a/_old.so", "steve/a/other.so")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    good(["make", "-s", "steve/.no-old-modules"], cwd=tmp_path)
    assert [name for name in names if (tmp_path / name).exists()] == [names[0], names[1], names[4]]
