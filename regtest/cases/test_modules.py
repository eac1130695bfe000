"""test_modules - the trace has the object files that were mapped, as the linker and the loader have them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import good, record

PROGRAM = """\
#include <dlfcn.h>
#include <stdlib.h>

int main(int n, char **a)
{
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(a[1], RTLD_NOW);
        void *(*make)(int) = (void *(*)(int))dlsym(library, "make");
        free(make(10));
        dlclose(library);
    }
    return 0;
}
"""
LIBRARY = """\
#include <stdlib.h>
void *make(int n) { return malloc(n); }
"""


def compiled(source: str, to: Path, *options: str) -> Path:
    to.with_suffix(".c").write_text(source)
    subprocess.run([shutil.which("cc") or "cc", "-g", *options, "-o", to, to.with_suffix(".c")], check=True)
    return to


def build_id(path: str) -> str:
    """As readelf prints it."""
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", notes)
    return found[1] if found else ""


def modules_of(trace: Path) -> list[dict[str, Any]]:
    return json.loads(good(["steve", "info", "--json", trace]).text)["modules"]


@pytest.fixture
def modules(tmp_path: Path) -> list[dict[str, Any]]:
    """Those of a program that maps a library twice, and unmaps it each time."""
    program = compiled(PROGRAM, tmp_path / "program")
    library = compiled(LIBRARY, tmp_path / "library.so", "-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef")
    assert record(tmp_path / "t.ljt", [program, library]).run.status == 0
    return modules_of(tmp_path / "t.ljt")


def test_each_mapped_object_is_there_with_its_build_id(modules: list[dict[str, Any]], tmp_path: Path) -> None:
    by_name = {Path(module["object"]).name: module for module in modules}
    assert {"program", "library.so", "libc.so.6", "ld-linux-x86-64.so.2"} <= set(by_name)
    assert by_name["library.so"]["build_id"] == "0123456789abcdef"
    for module in modules:
        assert module["build_id"] == build_id(module["object"]), module["object"]


def test_an_object_is_there_from_when_it_is_mapped_to_when_it_is_unmapped(modules: list[dict[str, Any]]) -> None:
    library = [module for module in modules if module["object"].endswith("library.so")]
    assert len(library) == 2
    assert 0 < library[0]["mapped"] < library[0]["unmapped"] < library[1]["mapped"] < library[1]["unmapped"]
    program = next(module for module in modules if module["object"].endswith("/program"))
    assert program["mapped"] == 0 and program["unmapped"] is None


def test_the_bias_leads_to_the_symbol_in_the_file(modules: list[dict[str, Any]], tmp_path: Path) -> None:
    """The innermost frame of the block made in the library, as an address in the file, is in its function."""
    shown = good(["steve", "dump", tmp_path / "t.ljt"]).text
    name = re.findall(r'^string id=(\d+) text="make"$', shown, re.M)[0]
    frames = re.findall(rf"^frame id=\d+ ip=0x(\w+) function={name} ", shown, re.M)
    symbols = good(["nm", "-S", tmp_path / "library.so"]).text
    start, size = (int(text, 16) for text in re.findall(r"^(\w+) (\w+) T make$", symbols, re.M)[0])
    library = next(module for module in modules if module["object"].endswith("library.so"))
    assert frames
    for ip in frames:
        assert start <= int(ip, 16) - library["bias"] < start + size


def test_a_forked_child_has_those_of_its_parent(tmp_path: Path) -> None:
    program = compiled(
        "#include <stdlib.h>\n#include <unistd.h>\n#include <sys/wait.h>\n"
        "int main(void) { if (fork() == 0) { free(malloc(8)); _exit(0); } return wait(NULL) < 0; }",
        tmp_path / "program",
    )
    parent = tmp_path / "t.ljt"
    assert record(parent, [program]).run.status == 0
    child = next(path for path in tmp_path.glob("*.ljt") if path != parent)
    assert [module["object"] for module in modules_of(child)] == [module["object"] for module in modules_of(parent)]
