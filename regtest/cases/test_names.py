"""test_names - every view has the numbers of each function that are known of programs in C, C++ and Rust.

The numbers are counted in the sources (native/named.c, named.cc, named.rs). DHAT and heaptrack confirm them. The sizes
of C++ are those of libstdc++.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support import INSTALLED_VALGRIND, SOURCE, good, record, steve
from views import (
    BLOCKS,
    BYTES,
    STACKS,
    Stack,
    dhat_stacks,
    function,
    heaptrack_stacks,
    of_callgrind,
    of_flame,
    of_heaptrack_print,
    of_report,
    of_sites,
    view,
)

Totals = dict[str, tuple[int, int]]  # by function: blocks and bytes, with those of the functions that it calls
SOURCES = SOURCE / "regtest/native"
FILL = "void shop::fill<...>(...)"  # its whole name has more than 300 characters, and is short in the report
HASHES = 1 + 15, 103 * 8 + 15 * 24  # 103 buckets, 15 nodes
LEDGERS = 4, (1 + 2 + 4 + 8) * 48
REFUSED = 6, 6 * (72 + 128)  # libstdc++ puts 128 bytes before an exception
MADE_CXX = [
    (10, 4000),
    (20, 20 * 101),
    (30, 30 * 40),
    HASHES,
    LEDGERS,
    (9, 9 * 64),
    REFUSED,
    (31, 31 * 16),
    (7 + 1, 7 * 25 + 80),
    (23, 11 * 33 + 12 * 44),
]
CXX: Totals = {
    "main": (sum(blocks for blocks, _ in MADE_CXX), sum(size for _, size in MADE_CXX)),
    "shop::vectors()": (10, 4000),
    "shop::strings()": (20, 2020),
    "shop::maps()": (30, 1200),
    "shop::hashes()": HASHES,
    FILL: LEDGERS,
    "shop::account::account(int)": (9, 576),
    "shop::refuse(int)": REFUSED,
    "shop::grow(int)": (31, 496),
    "shop::closures()": (8, 255),
    "shop::inlined()": (23, 891),
    "shop::(anonymous namespace)::inner(int)": (23, 891),
    "shop::(anonymous namespace)::innermost(int)": (23, 891),
}
C: Totals = {
    "main": (97, 8286),
    "items": (40, 40 * 116),
    "item_new": (40, 40 * 116),
    "nested": (30, 30 * 116),
    "texts": (20, 20 * 26),
    "copied": (20, 20 * 26),
    "direct": (30, 30 * 50),
    "cleared": (6, 6 * 21),
    "grown": (1, 100 + 200 + 300 + 400 + 500),
}
POOL = 1 + 6, 6 * 8 + 6 * 40
RUST: Totals = {
    "p::main": (67, 10429),
    "p::numbers": (10, 8000),
    "p::texts": (20, 640),
    "p::table": (1, 16 * 16 + 32),
    "p::ordered": (1, 192),
    "p::shapes": (7, 7 * 32),
    "p::grown": (1, 16),
    "p::closures": (9, 297),
    "p::inlined": (11, 484),
    "p::inner": (11, 484),
    "p::innermost": (11, 484),
}
LEAVES = {
    "named.c": {"item_new", "copied", "direct", "grown", "cleared"},
    "named.cc": {"shop::account::account(int)", "shop::refuse(int)", "shop::(anonymous namespace)::innermost(int)"},
    "named.rs": {"p::shapes"},
}
# Compilers and options: the source, the command, the numbers.
PROGRAMS: dict[str, tuple[str, tuple[str, ...], Totals]] = {
    "gcc": ("named.c", ("gcc", "-O2", "-g"), C),
    "g++": ("named.cc", ("g++", "-O2", "-g"), CXX),
    "clang++": ("named.cc", ("clang++", "-O2", "-g"), CXX),
    "rustc": ("named.rs", ("rustc", "-O", "-g"), {**RUST, "p::pool::Pool<T>::fill": POOL}),
    "rustc-v0": (
        "named.rs",
        ("rustc", "-O", "-g", "-C", "symbol-mangling-version=v0"),
        {**RUST, "<p::pool::Pool<[u64; 5]>>::fill": POOL},
    ),
}
PACKAGES = {"clang++": "clang", "rustc": "rustc"}


def name(text: str) -> str:
    """The function, with a short text for the one with the long name."""
    found = function(text)
    return FILL if found.startswith("void shop::fill<") else found


def runs(command: str) -> bool:
    """Is a compiler installed? rustup's command is there without one."""
    return (
        shutil.which(command) is not None
        and subprocess.run([command, "--version"], capture_output=True, check=False).returncode == 0
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that builds a program once; it is skipped if its compiler is missing."""
    folder, known = tmp_path_factory.mktemp("names"), {}

    def make(program: str) -> Path:
        source, command, _ = PROGRAMS[program]
        if not runs(command[0]):
            pytest.skip(f"{command[0]} is not installed (package {PACKAGES.get(command[0], command[0])})")
        if program not in known:
            known[program] = folder / program / "p"
            (folder / program).mkdir()
            names = ["--crate-name", "p"] if command[0] == "rustc" else []
            good([*command, *names, "-o", known[program], SOURCES / source])
        return known[program]

    return make


@pytest.fixture(scope="module")
def traced(made: Callable[[str], Path]) -> Callable[[str], Path]:
    """A function that records a program once."""
    known: dict[str, Path] = {}

    def trace(program: str) -> Path:
        path = made(program)
        if program not in known:
            known[program] = record(path.with_name("t.ljt"), [path], "--trace-mem=no").path
        return known[program]

    return trace


def totals(blocks: list[Stack], sizes: list[Stack], wanted: Totals) -> Totals:
    """The numbers of these functions in a view, (0, 0) if it does not have them."""
    found, bytes_found = view(blocks, name).totals, view(sizes, name).totals
    return {key: (found.get(key, 0), bytes_found.get(key, 0)) for key in wanted}


READERS = {**STACKS, "sites": of_sites, "report": of_report}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("form", READERS)
def test_numbers_of_functions(form: str, program: str, traced: Callable[[str], Path]) -> None:
    """heaptrack's format has no resizes: each is a free and an allocation."""
    trace, expected = traced(program), dict(PROGRAMS[program][2])
    if form == "heaptrack" and program == "gcc":
        expected |= {"main": (97 + 4, 8286), "grown": (5, 1500)}
    characters = str.maketrans(";", ",") if form == "folded" else {}  # ; is the separator there
    expected = {key.translate(characters): pair for key, pair in expected.items()}
    read = READERS[form]
    blocks, sizes = read(trace, BLOCKS), read(trace, BYTES)
    assert totals(blocks, sizes, expected) == expected
    known = view(of_sites(trace), name)
    found = view(sizes, name)
    if form != "report":  # which elides long names
        assert found.leaves == {leaf.translate(characters) for leaf in known.leaves}
    assert found.roots == known.roots


@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_of_functions_in_callgrind(program: str, traced: Callable[[str], Path]) -> None:
    trace, expected = traced(program), PROGRAMS[program][2]
    blocks, sizes = of_callgrind(trace, BLOCKS, name), of_callgrind(trace, BYTES, name)
    assert {key: (blocks.get(key), sizes.get(key)) for key in expected} == expected


@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_of_functions_in_a_flame_graph(program: str, traced: Callable[[str], Path]) -> None:
    """Boxes that are narrower than a pixel are not drawn, so only some functions can be compared."""
    trace, expected = traced(program), PROGRAMS[program][2]
    blocks, sizes = of_flame(trace, BLOCKS, name), of_flame(trace, BYTES, name)
    least = sum(row[1] for row in of_sites(trace, BYTES)) / 100
    wide = {key: pair for key, pair in expected.items() if pair[1] > least and pair[0] > 3}
    assert len(wide) >= 3 and {key: (blocks.totals[key], sizes.totals[key]) for key in wide} == wide
    assert sizes.roots == view(of_sites(trace), name).roots


@pytest.mark.parametrize("program", PROGRAMS)
def test_leaves_and_roots(program: str, traced: Callable[[str], Path]) -> None:
    """Stacks begin at the program's code or at a library's container, and end at main or before it."""
    found = view(of_sites(traced(program)), name)
    assert LEAVES[PROGRAMS[program][0]] <= found.leaves
    wrong = re.compile(
        r"(malloc|calloc|realloc|operator new|raw_alloc|pool_alloc|__cxa_alloc|std::(__new_)?allocator|"
        r"_*(rust|rdl|rg)_|<?alloc::(alloc|raw_vec)::).*"
    )
    assert not [leaf for leaf in found.leaves if wrong.match(leaf)]
    assert "main" in found.roots
    assert not [root for root in found.roots if re.match(r"_start|__libc_start|\(below", root)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_are_demangled(program: str, traced: Callable[[str], Path]) -> None:
    every = view(of_sites(traced(program)), function).totals
    assert not [text for text in every if re.search(r"^_[ZR]|::h[0-9a-f]{16}$|17h[0-9a-f]{16}E", text)]
    if program.endswith("++"):
        assert any(len(text) > 300 and text.startswith("void shop::fill<") for text in every)


def test_names_in_heaptrack_print(traced: Callable[[str], Path]) -> None:
    trace = traced("g++")
    assert view(of_heaptrack_print(trace), name).totals["main"] == CXX["main"][0]


# -- other tools' own recordings -----------------------------------------------------------------


def known_to(stacks: list[Stack], wanted: Totals) -> dict[str, int]:
    """The totals of these functions, as far as the tool knows their names. A function that was inlined may have its
    last name alone there, and one of Rust its hash."""
    found = view(((list(map(plain_rust, names)), weight) for names, weight in stacks), name).totals
    return {key: found[key] for key in wanted if key in found}


def plain_rust(text: str) -> str:
    return re.sub(r"::h[0-9a-f]{16}$", "", function(text))


@pytest.mark.parametrize("program", PROGRAMS)
def test_dhats_own_recording(program: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    """DHAT counts a block that is resized as another one; here it stays one block. Valgrind 3.19 does not read all of
    clang's DWARF 5, so that DHAT has no inlined functions of it."""
    good(
        [
            *INSTALLED_VALGRIND,
            "-q",
            "--tool=dhat",
            "--num-callers=200",
            "--read-inline-info=yes",
            f"--dhat-out-file={tmp_path / 'dhat'}",
            made(program),
        ]
    )
    text, expected = (tmp_path / "dhat").read_text(), dict(PROGRAMS[program][2])
    if program == "gcc":
        expected |= {"main": (97 + 4, 8286), "grown": (5, 1500)}
    blocks, sizes = (known_to(dhat_stacks(text, metric), expected) for metric in (BLOCKS, BYTES))
    assert len(blocks) >= 8 and {key: (blocks[key], sizes[key]) for key in blocks} == {
        key: pair for key, pair in expected.items() if key in blocks
    }


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program != "rustc-v0"])
def test_heaptracks_own_recording(program: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    """heaptrack has no resizes. It does not demangle the new names of Rust."""
    if not (shutil.which("heaptrack") and shutil.which("zstd")):
        pytest.skip("heaptrack or zstd is not installed (packages heaptrack, zstd)")
    windowless = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    good(["heaptrack", "-o", tmp_path / "h", made(program)], env=windowless)
    (file,) = tmp_path.glob("h*.zst")
    text, expected = good(["zstd", "-dc", file]).out.decode(errors="replace"), dict(PROGRAMS[program][2])
    if program == "gcc":
        expected |= {"main": (97 + 4, 8286), "grown": (5, 1500)}
    blocks, sizes = (known_to(heaptrack_stacks(text, metric), expected) for metric in (BLOCKS, BYTES))
    assert len(blocks) >= 8 and {key: (blocks[key], sizes[key]) for key in blocks} == {
        key: pair for key, pair in expected.items() if key in blocks
    }


@pytest.mark.parametrize("compiler", ("g++", "clang++"))
def test_functions_without_a_mangled_name(compiler: str, tmp_path: Path) -> None:
    """Static functions that were inlined are named by their types, as nm names those of the same program that were not."""
    if not runs(compiler):
        pytest.skip(f"{compiler} is not installed (package {PACKAGES.get(compiler, compiler)})")
    source = SOURCES / "signatures.cc"
    good([compiler, "-O1", "-g", "-o", tmp_path / "inlined", source])
    good([compiler, "-O0", "-DAPART", "-c", "-o", tmp_path / "apart.o", source])
    symbols = good(["nm", "--demangle", tmp_path / "apart.o"]).text.splitlines()
    wanted = {symbol.split(maxsplit=2)[2] for symbol in symbols if "takes_" in symbol}
    trace = record(tmp_path / "t.ljt", [tmp_path / "inlined"], "--trace-mem=no")
    rows = json.loads(steve("sites", trace.path, "--json", "--names=full", "--by=function").text)
    found = {row["site"].rpartition(" (signatures.cc")[0] for row in rows if "takes_" in row["site"]}
    assert found == wanted and len(wanted) == 15
