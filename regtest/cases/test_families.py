"""test_families - the allocation functions of ljtrace/protocol/alloc_functions.def, under both recorders.

native/families.c calls each that an allocator has. What it prints is the truth: the trace must hold just these
blocks, and the program must print without the recorder what it prints under it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support import NATIVE, SOURCE, good, natively, record, run, steve

FAMILIES = {
    "jemalloc": ("libjemalloc.so.2", "free"),
    "mimalloc": ("libmimalloc.so.2", "mi_free"),
    "tcmalloc": ("libtcmalloc.so.4", "tc_free"),
    "tbb": ("libtbbmalloc.so.2", "scalable_free"),
    "libc": ("", "free"),
    "standard": ("libstdc++.so.6", "free"),
    "standard of jemalloc": ("libjemalloc.so.2", "free"),
    "standard of mimalloc": ("libmimalloc.so.2 libstdc++.so.6", "free"),
    "standard of tcmalloc": ("libtcmalloc.so.4", "free"),
}
RECORDERS = {"valgrind": record, "native": natively}
SIZES = {100, 128, 1000, 4096}  # of the blocks in families.c, before they are resized
OFTEN_MISSING = {"reallocf", "vfree", "cfree", "free_sized", "free_aligned_sized"}  # in glibc
TABLE = (SOURCE / "ljtrace/protocol/alloc_functions.def").read_text()
LISTED = [
    *re.findall(r"^FUNCTION\(\d+, (\w+), \w+, (\w+)\)", TABLE, re.M),
    *((name, "standard") for name in re.findall(r"^STANDARD\((\w+), \w+\)", TABLE, re.M)),
]


# Under Valgrind, operators that mimalloc gives one address (new and new[]) are one function.
@pytest.mark.parametrize(
    "family, recorder",
    [(f, r) for f in FAMILIES for r in RECORDERS if (f, r) != ("standard of mimalloc", "valgrind")],
)
def test_all_of_a_family(tmp_path: Path, family: str, recorder: str) -> None:
    library, deleter = FAMILIES[family]
    env = {"LD_PRELOAD": library}
    family = family.partition(" ")[0]
    if library and b"cannot be preloaded" in run(["true"], env=env).err:
        pytest.skip(f"no {library}")
    native = good([NATIVE / "families", family, deleter], env=env)
    called = dict(line.split(" ") for line in native.text.splitlines())
    listed = {name for name, of in LISTED if of == family}
    assert listed - OFTEN_MISSING <= set(called) <= listed
    trace = RECORDERS[recorder](tmp_path / "t.ljt", [NATIVE / "families", family, deleter], env=env)
    assert trace.run.out == native.out
    sizes = SIZES - ({4096} if family == "tbb" else set())  # it reads a file, for which libc has a buffer
    own = {e[1] for e in trace.events() if e[0] == "new" and int(e[3]) in sizes}  # others are the libraries'
    kinds = [e[0] for e in trace.events() if e[1] in own or e[0] == "badfree"]
    marks = "".join(called.values())
    in_place = "xallocx" in called and recorder == "native"  # under Valgrind, it never resizes
    assert [kinds.count(kind) for kind in ("new", "resize", "free", "badfree")] == [
        marks.count("+"),
        marks.count("~") + in_place,
        marks.count("-"),
        0,
    ]


MUSL = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    char *p = malloc(100), *q = calloc(5, 20), *r = aligned_alloc(64, 128);
    strcpy(p, "kept");
    p = realloc(p, 1000);
    printf("%s %d %d\\n", p ? p : "FAILED", q ? q[99] : -1, (int)((unsigned long)r % 64));
    free(p), free(q), free(r);
    return 0;
}
"""


def test_musl(tmp_path: Path) -> None:
    """Its malloc is a weak function, which Valgrind does not replace, so the rest of the family does not
    work."""
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc (package musl-tools)")
    (tmp_path / "p.c").write_text(MUSL)
    good(["musl-gcc", "-o", tmp_path / "p", tmp_path / "p.c"])
    trace = record(tmp_path / "t.ljt", [tmp_path / "p"])
    assert trace.run.out == b"kept 0 0\n"
    assert [(e[0], e[3]) for e in trace.events()] == [
        ("new", "100"),
        ("new", "100"),
        ("new", "128"),
        ("resize", "1000"),
        ("free", "1000"),
        ("free", "100"),
        ("free", "128"),
    ]


def test_the_list_is_in_the_manual_page() -> None:
    page = (SOURCE / "docs/ljtrace.1").read_text()
    missing = [name for name, of in LISTED if of != "standard" and not re.search(rf"\b{name}\b", page)]
    assert not missing


def test_rows_by_how_blocks_are_made(tmp_path: Path) -> None:
    """`steve sites --by how` has the calls of each kind of function, as the trace does."""
    trace = natively(
        tmp_path / "t.ljt", [NATIVE / "families", "standard", "free"], env={"LD_PRELOAD": "libstdc++.so.6"}
    )
    rows = json.loads(steve("sites", trace.path, "--by", "how", "--json").text)
    found = {row["site"]: row["blocks"] for row in rows}
    lines = good(["steve", "dump", trace.path]).text.splitlines()
    words = [line.partition(" how=")[2].split()[0] for line in lines if line.startswith("new ")]
    assert found == dict(Counter(words)) and {"new", "new[]"} < found.keys()
