"""test_inlined - inlined functions are frames of stacks, innermost first, each with the line of its call.

The expected frames are those of the sources here, whose lines are found by their texts.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import shutil
from pathlib import Path
from random import Random

import pytest

from steve.trace._memtrace import NEW, STORE
from support import BUILD, good, record
from test_lua_lines import events

ROWS = """\
#include <cstdlib>
#include <memory>
#define INLINE __attribute__((always_inline)) inline

namespace rows {
struct maker {
    INLINE static std::unique_ptr<int[]> make(int n)
    {
        int *row = new int[n]; // new
        asm volatile("" : : "r"(row) : "memory");
        return std::unique_ptr<int[]>(row);
    }
};
namespace {
INLINE int first(int n)
{
    auto row = maker::make(n); // in first
    row[0] = 1; // store
    return row[n / 2] = std::rand();
}
}
INLINE int second(int n)
{
    auto row = maker::make(n); // in second
    return row[n / 2] = std::rand();
}
}

int main(int n, char **)
{
    int sum = rows::first(10 * n); // first
    sum += rows::second(20 * n); // second
    sum += rows::first(30 * n); // third
    return sum == -1;
}
"""
COUNTERS = """\
#include <stdlib.h>
#define INLINE __attribute__((always_inline)) static inline

struct counter {
    long value;
};

INLINE struct counter *make(void)
{
    struct counter *c = malloc(sizeof *c); // malloc
    asm volatile("" : : "r"(c) : "memory");
    if (c)
        c->value = random(); // store
    asm volatile("" : : "r"(c) : "memory");
    return c;
}

INLINE struct counter *twice(void)
{
    struct counter *c = make(); // first
    free(c);
    return make(); // second
}

__attribute__((noinline)) static void apart(void)
{
    free(twice()); // apart
}

int main(void)
{
    apart(); // main
    return 0;
}
"""
LIBRARY = """\
#include <memory>
#include <vector>

struct big {
    char bytes[1000];
};

int main()
{
    auto shared = std::make_shared<big>(); // shared
    std::vector<int> numbers(100); // vector
    asm volatile("" : : "r"(numbers.data()) : "memory");
    static auto *kept = new std::vector<double>(10); // static
    return numbers.empty() || !shared || !kept;
}
"""
# The DWARF forms that differ in where the entries of inlined functions are.
FORMS = {
    "dwarf5": ("-gdwarf-5",),
    "dwarf4": ("-gdwarf-4",),
    "split5": ("-gdwarf-5", "-gsplit-dwarf"),
    "split4": ("-gdwarf-4", "-gsplit-dwarf"),
    "types": ("-gdwarf-4", "-fdebug-types-section"),
    "split and types": ("-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"),
    "compressed": ("-g", "-gz"),
}
Place = tuple[str, str, int]  # kind of frame, function, line


def line(source: str, comment: str) -> int:
    """The line that ends with this comment."""
    return next(i for i, text in enumerate(source.splitlines(), 1) if text.endswith("// " + comment))


def build(folder: Path, compiler: str, source: str, *options: str) -> Path:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} (package {compiler.strip('+')})")
    name = "p.cc" if compiler.endswith("++") else "p.c"
    (folder / name).write_text(source)
    good([compiler, "-O2", *options, "-o", "p", name], cwd=folder)
    return folder / "p"


def made(trace: Path, file: str) -> list[list[Place]]:
    """The frames in the program's own file of each block that is made there."""
    stacks = (reader.stack_frames(int(event["ref"])) for reader, event in events(trace, (NEW,)))
    own = ([(f.kind, f.function, f.line) for f in frames if f.file.endswith(file)] for frames in stacks)
    return [frames for frames in own if frames]


ROWS_MADE = [
    [
        ("inlined", "rows::maker::make(int)", line(ROWS, "new")),
        ("inlined", f"rows::{function}(int)", line(ROWS, f"in {function.split('::')[-1]}")),
        ("host", "main", line(ROWS, call)),
    ]
    for function, call in (
        ("(anonymous namespace)::first", "first"),
        ("second", "second"),
        ("(anonymous namespace)::first", "third"),
    )
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compiler", ("g++", "clang++"))
def test_cxx(tmp_path: Path, compiler: str, form: str) -> None:
    """Three calls of one function are three sites."""
    trace = record(tmp_path / "t.ljt", [build(tmp_path, compiler, ROWS, *FORMS[form])])
    assert made(trace.path, "p.cc") == ROWS_MADE


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compiler", ("gcc", "clang"))
def test_c(tmp_path: Path, compiler: str, form: str) -> None:
    """Two calls of one function within another that is inlined itself. An access has the innermost function."""
    trace = record(tmp_path / "t.ljt", [build(tmp_path, compiler, COUNTERS, *FORMS[form])])
    assert made(trace.path, "p.c") == [
        [
            ("inlined", "make", line(COUNTERS, "malloc")),
            ("inlined", "twice", line(COUNTERS, call)),
            ("host", "apart", line(COUNTERS, "apart")),
            ("host", "main", line(COUNTERS, "main")),
        ]
        for call in ("first", "second")
    ]
    frames = [reader.frame(reader.site(int(event["ref"])).frame) for reader, event in events(trace.path, (STORE,))]
    assert [(f.kind, f.function, f.line) for f in frames if f.file.endswith("p.c")] == 2 * [
        ("inlined", "make", line(COUNTERS, "store"))
    ]


def test_sites_are_told_apart(tmp_path: Path) -> None:
    """Allocations by the library's templates, on three lines of the program."""
    program = build(tmp_path, "g++", LIBRARY, "-g")
    trace = record(tmp_path / "t.ljt", [program])
    assert [frames[-1] for frames in made(trace.path, "p.cc")] == [
        ("host", "main", line(LIBRARY, comment)) for comment in ("shared", "vector", "static", "static")
    ]


def test_split_debug_information_that_is_gone(tmp_path: Path) -> None:
    """The lines are in the object itself."""
    program = build(tmp_path, "gcc", COUNTERS, "-g", "-gsplit-dwarf")
    for file in tmp_path.glob("*.dwo"):
        file.unlink()
    trace = record(tmp_path / "t.ljt", [program])
    assert made(trace.path, "p.c") == 2 * [
        [("host", "apart", line(COUNTERS, "malloc")), ("host", "main", line(COUNTERS, "main"))]
    ]


def test_common_debug_information(tmp_path: Path) -> None:
    """dwz moves what two objects share to a third file."""
    if not shutil.which("dwz"):
        pytest.skip("no dwz (package dwz)")
    program = build(tmp_path, "g++", ROWS, "-g")
    shutil.copy(program, tmp_path / "other")
    good(["dwz", "-m", "common", "p", "other"], cwd=tmp_path)
    trace = record(tmp_path / "t.ljt", [program])
    assert made(trace.path, "p.cc") == ROWS_MADE


def look_up(program: Path, address: str) -> str:
    return good([BUILD / "ljtrace/test/line_of", program, address]).text


def test_damaged_debug_information(tmp_path: Path) -> None:
    """Whatever the entries say, the look-up ends."""
    program = build(tmp_path, "g++", ROWS, "-g")
    whole = program.read_bytes()
    header = next(row for row in good(["readelf", "-SW", program]).text.splitlines() if " .debug_info " in row)
    offset, size = (int(word, 16) for word in header.split(" PROGBITS ")[1].split()[1:3])
    (main,) = (int(row.split()[0], 16) for row in good(["nm", program]).text.splitlines() if row.endswith(" main"))
    address = next(f"{at:x}" for at in range(main, main + 200) if " < " in look_up(program, f"{at:x}"))
    random = Random(1)
    for _ in range(100):
        bytes_ = bytearray(whole)
        for _ in range(random.randrange(1, 30)):
            bytes_[offset + random.randrange(size)] = random.randrange(256)
        program.write_bytes(bytes_)
        look_up(program, address)
