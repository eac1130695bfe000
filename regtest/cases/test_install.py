"""test_install - what `make install` installs works elsewhere, and `make uninstall` leaves nothing of it.

It is installed into a folder (DESTDIR), from which the C library is used by pkg-config, the package memtrace by Python,
and steve as a user calls it. The recorder needs its final place; the packages of debian/ test it there.

SPDX-License-Identifier: GPL-2.0-or-later
"""

import re
import shutil
from collections import Counter
from pathlib import Path

import memtrace
import pytest
from support import BUILD, SOURCE, good, run

READERS = SOURCE / "examples/readers"
# folders of a system, which are not ours to remove
SHARED = {"bin", "include", "lib", "libexec", "share", "man", "man1", "man3", "doc", "lua", "5.1", "pkgconfig", "usr"}
SHARED |= {"local", "zsh", "site-functions", "bash-completion", "completions", "dist-packages", "valgrind"}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "chat.ljt"
    good(["ljtrace", "run", f"--out={path}", "luajit", SOURCE / "examples/listeners.lua"])
    return path


def make(target: str, place: Path) -> None:
    good(["make", "-s", "-C", BUILD, target, f"DESTDIR={place}"])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    make("install", place)
    return place


def found(place: Path, pattern: str) -> Path:
    (path,) = place.rglob(pattern)
    return path


def test_a_reader_in_c_is_built_by_pkg_config(installed: Path, trace: Path, tmp_path: Path) -> None:
    place = {"PKG_CONFIG_SYSROOT_DIR": str(installed), "PKG_CONFIG_PATH": str(found(installed, "memtrace.pc").parent)}
    flags = good(["pkg-config", "--cflags", "--libs", "memtrace"], env=place).text.split()
    good(["cc", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "busiest", READERS / "busiest.c", *flags])
    from_c = good([tmp_path / "busiest", trace]).text
    assert "talk" in from_c and from_c.endswith(" bytes live at the end\n")
    assert good(["/usr/bin/python3", "-B", READERS / "busiest.py", trace]).text == from_c
    assert run([tmp_path / "busiest", SOURCE / "README.md"]).status == 1


def test_the_library_has_no_other_names_than_its_own(installed: Path) -> None:
    symbols = good(["nm", "--defined-only", "--extern-only", found(installed, "libmemtrace.a")]).text
    names = [line.split()[2] for line in symbols.splitlines() if len(line.split()) == 3]
    assert len(names) > 50 and all(name.startswith(("mt_", "ops_")) for name in names)


def test_headers_are_complete_in_c_and_cxx(installed: Path, tmp_path: Path) -> None:
    headers = sorted(path.name for path in found(installed, "include/memtrace").glob("*.h"))
    assert len(headers) == 7
    for name in headers:
        (tmp_path / "all.c").write_text("#include <memtrace/memtrace.h>\n" f"#include <memtrace/{name}>\n")
        include = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", found(installed, "include/memtrace").parent]
        good(["cc", *include, tmp_path / "all.c"])
        good(["c++", *include, "-x", "c++", tmp_path / "all.c"])


def test_installed_modules_are_found(installed: Path, trace: Path) -> None:
    """Without what ./in-place says about the build tree."""
    modules, python = found(installed, "dist-packages/memtrace").parent, found(installed, "ljtrace/python")
    clean = {"PYTHONPATH": f"{modules}:{python}", "STEVE_EXT_DIR": "", "LJTRACE_SRCDIR": ""}
    assert "talk" in good(["/usr/bin/python3", "-B", READERS / "busiest.py", trace], env=clean, cwd=installed).text
    where = found(installed, "memtrace/_where.py").read_text()
    assert f'STEVE = "/{python.relative_to(installed)}"' in where
    assert found(installed, "memtrace/py.typed").exists()


def test_nothing_installed_names_the_build(installed: Path) -> None:
    for path in (p for p in installed.rglob("*") if p.is_file() and not p.is_symlink()):
        if path.read_bytes().startswith(b"\x7fELF"):
            continue  # whose debug information names sources
        if path.suffix in (".py", ".sh", ".pc", ".md") or path.parent.name == "bin":
            assert str(BUILD).encode() not in path.read_bytes(), path


def test_uninstall_leaves_nothing(tmp_path: Path) -> None:
    make("install", tmp_path)
    make("uninstall", tmp_path)
    left = [path for path in tmp_path.rglob("*") if path.is_symlink() or not path.is_dir()]
    assert left == []
    prefix = re.search(r"^prefix = (.*)$", (BUILD / "Makefile").read_text(), re.MULTILINE)
    assert prefix
    above = tmp_path / prefix[1].lstrip("/")  # a folder of its own in `make distcheck`
    ours = [path for path in tmp_path.rglob("*") if path.name not in SHARED and not path.name.startswith("python3")]
    assert [path for path in ours if path not in (above, *above.parents)] == []


# -- the package memtrace ------------------------------------------------------------------------------------------


def test_events_are_those_of_the_arrays(trace: Path) -> None:
    with memtrace.open(str(trace)) as reader:
        kinds = Counter(event.kind for event in reader)
    with memtrace.open(str(trace)) as reader:
        numbers: Counter[int] = Counter()
        for array in reader.arrays():
            numbers.update(array["kind"].tolist())
        assert reader.ending == "exit" and "luajit" in reader.info["command"]
    assert kinds == {memtrace.KIND_NAMES[kind]: count for kind, count in numbers.items()}
    assert kinds["new"] > 1000 and kinds["mark"] == 2


def test_fields_of_events(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text(">>> N 4096 100\n>>> S 4104 8\n>>> F 4096 0\n")
    with memtrace.open(str(text)) as reader:
        new, store, free = reader
        assert reader.heap(new.heap) == memtrace.Heap(0, "malloc") and reader.frames(new.stack) == []
    assert (new.kind, new.addr, new.size, new.how, new.handle) == ("new", 4096, 100, "malloc", 0)
    assert (store.kind, store.offset, store.size, store.stack) == ("store", 8, 8, 0)
    assert (free.kind, free.size, free.handle, free.old_addr) == ("free", 100, 0, 0)
    with memtrace.open(str(text), accesses=False) as reader:
        assert len(list(reader)) == 3  # classic text has all


def test_names_of_frames_and_marks(trace: Path) -> None:
    with memtrace.open(str(trace)) as reader:
        events = list(reader)
        assert all(e.old_size and e.old_addr for e in events if e.kind == "resize")
        assert {e.heap for e in events if e.how == "lua"} == {1} and reader.heap(1).kind == "lua"
        marks = [event.name for event in events if event.kind == "mark"]
        lines = {(frame.function, frame.line) for e in events if e.kind == "new" for frame in reader.frames(e.stack)}
    assert marks == ["half", "end"] and ("join", 21) in lines


def test_a_truncated_trace_ends_with_an_error(trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.ljt"
    cut.write_bytes(trace.read_bytes()[: trace.stat().st_size // 2])
    read = 0
    with memtrace.open(str(cut)) as reader, pytest.raises(memtrace.TraceError, match="cut.ljt"):
        for _ in reader:
            read += 1
    with pytest.raises(memtrace.TraceError, match="nothing.ljt"):
        memtrace.open(str(tmp_path / "nothing.ljt"))


def test_ops_are_read(trace: Path, tmp_path: Path) -> None:
    good(["steve", "ops", "-q", trace, "-o", tmp_path / "chat-ops"])
    with memtrace.open_ops(str(tmp_path / "chat-ops")) as reader:
        codes = Counter(op.code for op in reader)
        assert reader.kind == "ops"
    with memtrace.open(str(trace)) as reader:
        kinds = Counter(event.kind for event in reader)
    assert codes["new"] - codes["free"] >= kinds["new"] - kinds["free"] and codes["new"] > 1000


def test_types_are_checked(tmp_path: Path) -> None:
    if shutil.which("mypy") is None:
        pytest.skip("mypy is not installed (Debian package mypy)")
    user = tmp_path / "user.py"
    user.write_text(
        "import memtrace\n"
        "def total(path: str) -> int:\n"
        "    with memtrace.open(path) as trace:\n"
        "        return sum(event.size for event in trace if event.kind == 'new')\n"
        "wrong: str = memtrace.NEW\n"
    )
    place = {"MYPYPATH": f"{SOURCE}/steve/python", "PYTHONPATH": ""}
    seen = run(
        ["mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports", user], env=place, cwd=tmp_path
    )
    errors = [line for line in seen.text.splitlines() if line.startswith("user.py") or "/user.py" in line]
    assert len(errors) == 1 and "user.py:5" in errors[0], seen.text + seen.complaint
