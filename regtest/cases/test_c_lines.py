"""test_c_lines - source lines of C code: in the object's file or in one of its own, however it is stored.

The collector finds them (line_of asks it alone). It opens files of the system when it needs them, and others
when they are mapped, because these may be removed or built again while the program runs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
from pathlib import Path

import pytest

from support import BUILD, good, in_own_mounts, recorder, steve

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
    call(a[1], n == 4);
    if (n == 3) {
        rename(a[2], a[1]);
        call(a[1], 0);
    }
    if (n == 5) {
        if (chroot(a[2]) != 0)
            return 77;
        call(a[3], 0);
    }
    return 0;
}
"""
CALLER = "call (program.c:12)"
WAYS = {
    "plain": ("-g",),
    "optimised": ("-g", "-O2"),
    "old": ("-gdwarf-4",),
    "compressed": ("-g", "-gz"),
    "split": ("-g", "-gsplit-dwarf"),
    "types": ("-g", "-fdebug-types-section"),
    "split4": ("-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"),
}


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
    return sites_in(path)


def sites_in(path: Path) -> list[str]:
    """The same for a memtrace."""
    names = [row["site"] for row in json.loads(steve("sites", "--json", path).text)]
    return [" < ".join(name.split(" < ")[:2]) for name in sorted(names) if name.startswith("made_far_down ")]


def address_of(far: Path) -> str:
    """The address of made_far_down in the file."""
    symbols = (line.split() for line in good(["nm", "-D", far]).text.splitlines())
    (address,) = (words[0] for words in symbols if words[-1] == "made_far_down")
    return address


def line_of(far: Path, *other: Path) -> list[str]:
    """The first line of made_far_down according to the collector."""
    return good([BUILD / "ljtrace/test/line_of", far, address_of(far), *other]).text.splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_lines_are_found(tmp_path: Path, program: Path, way: str) -> None:
    far = library(tmp_path, *WAYS[way])
    assert line_of(far) == [f"{tmp_path}/far.c:4"]
    assert sites(program, far) == [f"made_far_down (far.c:6) < {CALLER}"]


def test_debug_information_of_its_own(tmp_path: Path, program: Path) -> None:
    """Debug information as in Debian's -dbgsym packages."""
    far = library(tmp_path, "-g")
    good(["objcopy", "--only-keep-debug", far, tmp_path / "far.debug"])
    good(["objcopy", "--strip-debug", "--add-gnu-debuglink=far.debug", far], cwd=tmp_path)
    assert line_of(far) == [f"{tmp_path}/far.c:4"]
    assert sites(program, far) == [f"made_far_down (far.c:6) < {CALLER}"]
    (tmp_path / "far.debug").unlink()
    assert line_of(far) == ["unknown"]
    assert sites(program, far) == [f"made_far_down (far.so) < {CALLER}"]


def test_debug_information_where_debuggers_look(tmp_path: Path) -> None:
    """Debug information in the folder of the object, found by a link to that folder; by its build id; and
    missing: then nothing is loaded to search for it in the network."""
    far = library(tmp_path, "-g", "-Wl,--build-id")
    folder, link = tmp_path / ".debug", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(tmp_path)
    good(["objcopy", "--only-keep-debug", far, folder / "far.debug"])
    good(["objcopy", "--strip-debug", "--add-gnu-debuglink=.debug/far.debug", far], cwd=tmp_path)
    line = [f"{tmp_path}/far.c:4"]
    assert line_of(link / "far.so") == line
    note = good(["readelf", "-n", far]).text.split("Build ID: ")[1].split()[0]
    installed = Path("/usr/lib/debug/.build-id") / note[:2] / f"{note[2:]}.debug"
    bare = tmp_path / "bare.so"
    good(["objcopy", "--remove-section=.gnu_debuglink", far, bare])
    assert line_of(bare) == ["unknown"]
    loaded = good([BUILD / "ljtrace/test/line_of", bare, address_of(bare)], env={"LD_DEBUG": "libs"}).complaint
    assert "libdw" in loaded and "debuginfod" not in loaded
    try:
        installed.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "far.debug", installed)
    except PermissionError as error:
        pytest.skip(f"no right to put a file to {installed}: {error}")
    try:
        assert line_of(bare) == line
    finally:
        installed.unlink()
        if not any(installed.parent.iterdir()):
            installed.parent.rmdir()


CPLUSPLUS = """\
#include <vector>

struct heap { std::vector<int> numbers; };

__attribute__((noinline)) static heap *made_far_down(int n)
{
    heap *h = new heap;
    h->numbers.resize(n);
    return h;
}

int main()
{
    return !made_far_down(10);
}
"""
FORMS = {
    "types": ("-fdebug-types-section",),
    "split": ("-gsplit-dwarf",),
    "both": ("-gsplit-dwarf", "-fdebug-types-section"),
    "dwarf5": ("-gdwarf-5",),
    "dwarf4": ("-gdwarf-4", "-fdebug-types-section"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compiler", ("g++", "clang++"))
def test_forms_that_end_programs_where_valgrind_reads_them(tmp_path: Path, compiler: str, form: str) -> None:
    """Debug information in the program's own file, at its start."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} (package {'g++' if compiler == 'g++' else 'clang'})")
    (tmp_path / "p.cc").write_text(CPLUSPLUS)
    good([compiler, "-g", *FORMS[form], "-o", "p", "p.cc"], cwd=tmp_path)
    path = tmp_path / "lines.ljt"
    done = good([*recorder(path), tmp_path / "p"])
    assert "debug information" not in done.complaint
    sites_found = [row["site"] for row in json.loads(steve("sites", "--json", path).text)]
    assert any(
        re.search(r"made_far_down\(int\) \(p\.cc:7\) < main \(p\.cc:14\)", site) for site in sites_found
    ), sites_found


def test_debug_information_that_cannot_be_read(tmp_path: Path, program: Path) -> None:
    """Only the lines of that object are missing, and there is one message."""
    far = library(tmp_path, "-g")
    good(["objcopy", "--dump-section", ".debug_abbrev=abbreviations", far, "unused"], cwd=tmp_path)
    (tmp_path / "wrong").write_bytes(b"\xff" * (tmp_path / "abbreviations").stat().st_size)
    good(["objcopy", "--update-section", ".debug_abbrev=wrong", far], cwd=tmp_path)
    path = tmp_path / "lines.ljt"
    done = good([*recorder(path), program, far])
    message = f"functions or lines are missing, as debug information cannot be read, of {far} (invalid DWARF)"
    assert done.complaint.count(f"ljtrace: {message}") == 1 and "memtrace written" in done.complaint
    assert sites_in(path) == [f"made_far_down (far.so) < {CALLER}"]
    assert json.loads(steve("info", "--json", path).text)["recording"]["missing_lines"] == message


def test_files_without(tmp_path: Path, program: Path) -> None:
    bare = Path(shutil.copy(program, tmp_path / "bare"))
    good(["strip", "--strip-debug", bare])
    far = library(tmp_path)
    assert line_of(far) == ["unknown"]
    assert sites(bare, far) == ["made_far_down (far.so) < call (bare)"]


@pytest.mark.parametrize("size", (0, 64, 1000, 5000))
def test_damaged_files(tmp_path: Path, size: int) -> None:
    """Debug information that is cut off, or ends with zeros."""
    far, cut, zeros = library(tmp_path, "-g"), tmp_path / "cut.so", tmp_path / "zeros.so"
    whole = far.read_bytes()
    cut.write_bytes(whole[:size])
    zeros.write_bytes(whole[:size].ljust(len(whole), b"\0"))
    for path in (cut, zeros, tmp_path / "none.so", tmp_path):
        assert good([BUILD / "ljtrace/test/line_of", path, "1120"]).text == "unknown\n"


def test_a_file_that_is_gone(tmp_path: Path, program: Path) -> None:
    """The file was opened when it was mapped."""
    assert sites(program, library(tmp_path, "-g"), "unlink", "it") == [f"made_far_down (far.c:6) < {CALLER}"]


def test_a_library_built_again(tmp_path: Path, program: Path) -> None:
    """A library loaded again from the same path, at the same address."""
    far, later = library(tmp_path, "-g"), library(tmp_path, "-g", name="later", lines_above=10)
    shutil.copy(far, tmp_path / "first.so")
    assert sites(program, far, later) == [
        f"made_far_down (far.c:6) < {CALLER}",
        f"made_far_down (later.c:16) < {CALLER}",
    ]
    assert line_of(tmp_path / "first.so", far) == [f"{tmp_path}/far.c:4", f"{tmp_path}/later.c:14"]


def test_lines_of_the_system(program: Path, tmp_path: Path) -> None:
    """libc's debug information, from Debian's libc6-dbg, on which Valgrind depends."""
    far = library(tmp_path)
    sites(program, far)
    names = [row["site"] for row in json.loads(steve("sites", "--json", far.parent / "lines.ljt").text)]
    assert any(re.search(r"\(dl-[a-z]+\.c:[0-9]+\)", name) for name in names), names


def test_lines_under_another_root(program: Path, tmp_path: Path) -> None:
    """In the container, a path of the system leads to another file than the one that the collector finds by
    it."""
    (system,) = good(["sh", "-c", "ls /usr/lib/*/libm.so.6"]).text.split()
    inner = tmp_path / "root" / system[1:]
    inner.parent.mkdir(parents=True)
    (tmp_path / "root" / "proc").mkdir()
    shutil.copy(library(tmp_path, "-g", "-Wl,--section-start=.text=0x30000", name="inner"), inner)
    assert good([BUILD / "ljtrace/test/line_of", system, address_of(inner)]).text != "unknown\n"
    path = tmp_path / "lines.ljt"
    done = in_own_mounts(
        f"mount --bind /proc {tmp_path}/root/proc",
        *recorder(path),
        program,
        library(tmp_path),
        tmp_path / "root",
        system,
        "chroot",
    )
    assert done.status == 0, done.complaint
    assert sites_in(path) == [f"made_far_down (far.so) < {CALLER}", f"made_far_down (inner.c:6) < {CALLER}"]


# Each unit has many types, so that the debug information of all is large.
UNIT = """\
#include "types.h"
static inline __attribute__((always_inline)) int inner{n}(int a)
{{
    return a * {n};
}}
int of_unit{n}(int a)
{{
    return a ? inner{n}(a + 1)
             : a - {n};
}}
"""
LARGE = {
    "plain": ((), ()),
    "no-ranges-of-units": ((), ("--remove-section=.debug_aranges",)),
    "units-that-refer-to-others": (("-flto",), ()),
    "types-of-their-own": (("-fdebug-types-section",), ()),
    "version-4": (("-gdwarf-4",), ()),
}


@pytest.mark.parametrize("way", LARGE)
def test_large_compressed_debug_information(tmp_path: Path, way: str) -> None:
    """A large .debug_info is decompressed as far as it is read. Every line is that of the same file without compression."""
    options, removed = LARGE[way]
    fields = "".join(f"struct of_types{i} {{ int a{i}; struct of_types{i} *next{i}; }} s{i};\n" for i in range(4000))
    (tmp_path / "types.h").write_text(f"struct all {{\n{fields}}};\nextern struct all *every;\n")
    sources = [tmp_path / f"unit{n}.c" for n in range(1, 5)]
    for n, source in enumerate(sources, 1):
        source.write_text(UNIT.format(n=n) + f"int used{n}(struct all *a) {{ return a->s{n}.a{n}; }}\n")
    large, plain = tmp_path / "large.so", tmp_path / "plain.so"
    good(["gcc", "-g", "-O2", *options, "-shared", "-fPIC", *sources, "-o", plain])
    if removed:
        good(["objcopy", *removed, plain])
    good(["objcopy", "--compress-debug-sections=zlib", plain, large])
    symbols = good(["nm", plain]).text
    starts = [int(a, 16) for a in re.findall(r"^(\w+) T (?:of_unit|used)\d$", symbols, re.MULTILINE)]
    assert len(starts) == 8
    found = set()
    for address in [start + step for start in starts for step in (0, 4)] + [1]:
        lines = [good([BUILD / "ljtrace/test/line_of", path, f"{address:x}"]).text for path in (plain, large)]
        assert lines[0] == lines[1]
        found.add(lines[0])
    assert "unknown\n" in found and len(found) >= 9
