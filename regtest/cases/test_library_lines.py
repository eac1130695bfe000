"""test_library_lines - what libraries of C++ and Rust allocate counts at lines of the program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
from pathlib import Path

import pytest

from support import good, recorder, steve

# the comments name the number of blocks at their lines
CPLUSPLUS = """\
#include <map>
#include <memory>
#include <string>
#include <vector>

volatile int sink;

template <class T> struct Own {
    std::vector<T> all;
    __attribute__((noinline)) void add(T x)
    {
        all = std::vector<T>(40, x); // 5
    }
};

__attribute__((noinline)) static int words(int n)
{
    std::map<int, std::string> found;
    for (int i = 0; i < n; i++)
        found[i] = std::string(100 + i, 'x'); // 20
    return (int)found.size();
}

int main()
{
    for (int i = 0; i < 5; i++) {
        Own<long> own;
        own.add(i);
        sink = (int)own.all.size();
    }
    sink = words(10);
    auto shared = std::make_shared<std::string>("a text that is too long for the object itself"); // 2
    sink = (int)shared->size();
    return 0;
}
"""
RUST = """\
use std::collections::BTreeMap;
// that of std is not in Rust before 1.66
#[inline(never)]
fn black_box<T>(value: T) -> T { let s = unsafe { std::ptr::read_volatile(&value) }; std::mem::forget(value); s }

struct Item { name: String }

#[inline(never)]
fn items(n: usize) -> Vec<Item> {
    let mut all = Vec::with_capacity(n); // 3
    for i in 0..n {
        all.push(Item { name: "x".repeat(20 + i) }); // 30
    }
    all
}

#[inline(never)]
fn counted(n: u32) -> BTreeMap<u32, Box<u32>> {
    let mut found = BTreeMap::new();
    for i in 0..n {
        found.insert(i, Box::new(i)); // 6
    }
    found
}

fn main() {
    for _ in 0..3 {
        let all = items(10);
        black_box(&all[0].name);
    }
    black_box(counted(5));
}
"""
RECORDERS = ("valgrind", "native")


def recorded(which: str, program: Path) -> Path:
    trace = program.with_suffix(f".{which}.ljt")
    good([*(recorder(trace) if which == "valgrind" else ["ljtrace", "run", f"--out={trace}"]), program])
    return trace


def by_line(trace: Path, source: str, *options: str) -> dict[int, int]:
    """The number of blocks by line of a source file."""
    rows = json.loads(steve("sites", "--json", "--by", "line", *options, trace).text)
    found: dict[int, int] = {}
    for row in rows:
        if at := re.search(rf"\({source}:(\d+)\)$", row["site"]):
            found[int(at[1])] = found.get(int(at[1]), 0) + row["blocks"]
    return found


def expected(text: str) -> dict[int, int]:
    return {i: int(line.rpartition("// ")[2]) for i, line in enumerate(text.splitlines(), 1) if "; // " in line}


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
@pytest.mark.parametrize("which", RECORDERS)
def test_cplusplus(which: str, optimised: str, tmp_path: Path) -> None:
    (tmp_path / "lib.cc").write_text(CPLUSPLUS)
    good(["g++", "-g", optimised, "-o", tmp_path / "program", tmp_path / "lib.cc"])
    trace = recorded(which, tmp_path / "program")
    assert by_line(trace, "lib.cc") == expected(CPLUSPLUS)
    assert by_line(trace, "lib.cc", "--keep-alloc-fns") == {}
    rows = json.loads(steve("lines", "--json", trace).text)
    counts = {row["line"]: row["allocs"] for row in rows if row["file"].endswith("lib.cc") and row["allocs"]}
    assert counts == expected(CPLUSPLUS)


@pytest.mark.parametrize("which", RECORDERS)
def test_rust(which: str, tmp_path: Path) -> None:
    if not shutil.which("rustc"):
        pytest.skip("no rustc (package rustc)")
    (tmp_path / "lib.rs").write_text(RUST)
    good(["rustc", "-g", "-C", "opt-level=2", "-o", tmp_path / "program", tmp_path / "lib.rs"])
    assert by_line(recorded(which, tmp_path / "program"), "lib.rs") == expected(RUST)
