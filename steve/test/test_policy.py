"""Which frames of a stack are shown, for stacks as the recorder makes them, of programs with and without Lua.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from steve.trace.policy import (
    ALLOC_FUNCTIONS,
    Policy,
    ShownStacks,
    add_arguments,
    glob,
    is_of_c_heap,
    is_of_library,
    is_own,
    known_alloc_functions,
    of_arguments,
    only_allocates,
    short_in_table,
)
from steve.trace.frames import frame_line, frame_text, label, place_text, without_return_type

LUAJIT, LIBRARY, LIBC = "/usr/bin/luajit", "/usr/lib/libfoo.so", "/usr/lib/libc.so.6"


def host(function: str = "", object: str = LUAJIT) -> Any:
    return SimpleNamespace(kind="host", function=function, object=object, file="", line=0, ip=0x123)


def of_lua(function: str, kind: str = "lua", line: int = 7) -> Any:
    file = "/src/app.lua" if line else ""
    return SimpleNamespace(kind=kind, function=function, object="", file=file, line=line, ip=0x456)


def in_c(*functions: str) -> list[Any]:
    return [host(function, "/bin/x") for function in functions]


class OneStack:
    """A trace that has one stack, with its callers. facts: of its recording."""

    def __init__(self, frames: list[Any], facts: dict[str, str] | None = None) -> None:
        self.frames, self.facts = frames[::-1], facts or {}

    def info(self) -> dict[str, str]:
        return self.facts

    def counts(self) -> dict[str, int]:
        return {"stacks": len(self.frames) + 1}

    def stack_links(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        frames = np.arange(first, end, dtype="u4")
        return frames - 1, frames

    def frame(self, number: int) -> Any:
        return self.frames[number - 1]


def shown(frames: list[Any], policy: Policy = Policy(), facts: dict[str, str] | None = None) -> list[str]:
    """The texts of the shown frames of a stack, innermost first."""
    ids = ShownStacks(OneStack(frames, facts), policy).ids(len(frames))  # type: ignore[arg-type]
    return [frame_text(frames[-number]) if frames[-number] else "" for number in ids if number]


TREE, CALLER = of_lua("tree"), host("lua_pcall")
TREE_NAME, CALLER_NAME = "tree (app.lua:7)", "lua_pcall (luajit)"
CUT = SimpleNamespace(kind="cut", function="[cut at 12]", object="", file="", line=0, ip=0)


@pytest.mark.parametrize(
    "frames, expected",
    [
        ([], []),
        ([host("malloc", LIBRARY)], ["malloc (libfoo.so)"]),
        (
            [host("malloc", LIBRARY), host("operator new(unsigned long)", LIBRARY), host("parse", "/bin/x")],
            ["parse (x)"],
        ),
        # what functions that only allocate call; but constructors that an allocator calls are not their part
        ([host("malloc", LIBRARY), *in_c("raw", "pool", "xmalloc", "parse")], ["parse (x)"]),
        ([host("malloc", LIBRARY), *in_c("raw", "xmalloc")], ["xmalloc (x)"]),
        (
            [
                host("operator new(unsigned long)", LIBRARY),
                *in_c(
                    "row::row()", "void std::allocator_traits<std::allocator<row> >::construct<row>(row*)", "fill(int)"
                ),
            ],
            [
                "row::row() (x)",
                "void std::allocator_traits<std::allocator<row> >::construct<row>(row*) (x)",
                "fill(int) (x)",
            ],
        ),
        # the type that a template's instance returns is no part of its name
        (
            [
                host("malloc", LIBRARY),
                *in_c("int* std::__detail::_Hashtable_alloc<int>::_M_allocate_node<int>(int)", "f"),
            ],
            ["f (x)"],
        ),
        ([host("", "/bin/x"), host("", "/bin/x")], ["0x123 (x)", "0x123 (x)"]),
        # nothing but functions that allocate: the outermost of them
        (
            [host("malloc", LIBRARY), host("operator new(unsigned long)", LIBRARY)],
            ["operator new(unsigned long) (libfoo.so)"],
        ),
        ([host("malloc", LIBRARY), *in_c("xmalloc"), host("(below main)", LIBC), *in_c("_start")], ["xmalloc (x)"]),
        # LuaJIT's own code, with and without names, also when it works for a line
        ([host(), host(), TREE, CALLER], [TREE_NAME, CALLER_NAME]),
        ([host("lj_mem_realloc"), host("rehashtab"), host("lj_tab_newkey"), TREE, CALLER], [TREE_NAME, CALLER_NAME]),
        (
            [host(), of_lua("GC", "vm", 0), of_lua("collectgarbage", "fast", 0), TREE],
            ["GC", "collectgarbage", TREE_NAME],
        ),
        ([host(), TREE, host(), host("lua_call"), host(), TREE, CALLER], [TREE_NAME, TREE_NAME, CALLER_NAME]),
        # linked into a program without symbols: the caller of Lua is LuaJIT
        ([host("", "/bin/game"), TREE, host("", "/bin/game")], [TREE_NAME, "0x123 (game)"]),
        # modules in C that allocate through Lua's API or directly, with and without names
        (
            [host(), host("lua_createtable"), host("decode", LIBRARY), of_lua("decode", "c", 0), TREE, CALLER],
            ["decode (libfoo.so)", "decode", TREE_NAME, CALLER_NAME],
        ),
        (
            [host("malloc", LIBRARY), host("", LIBRARY), of_lua("decode", "c", 0), TREE, CALLER],
            ["0x123 (libfoo.so)", "decode", TREE_NAME, CALLER_NAME],
        ),
        ([host("malloc", LIBRARY), of_lua("malloc", "c", 0), TREE, CALLER], [TREE_NAME, CALLER_NAME]),
        # a state is created: there is no Lua yet, so the name stays; the frame of the recorder's wrapper is
        # dropped
        (
            [
                host(),
                host("lj_state_new"),
                host("lua_newstate"),
                host("lua_newstate", "/usr/libexec/valgrind/vgpreload_ljtrace-amd64-linux.so"),
                host("main"),
            ],
            ["lua_newstate (luajit)", "main (luajit)"],
        ),
        ([host(), host()], ["0x123 (luajit)"]),
        ([None, TREE], ["", TREE_NAME]),
        # the start of the program, of a thread, and code that runs before main
        (
            [
                *in_c("malloc", "parse", "main"),
                host("(below main)", LIBC),
                host("__libc_start_main@@GLIBC_2.34", LIBC),
                *in_c("(below main)"),
            ],
            ["parse (x)", "main (x)"],
        ),
        ([*in_c("parse", "main"), host("", LIBC), *in_c("_start")], ["parse (x)", "main (x)"]),
        ([*in_c("work"), host("start_thread", LIBC), host("clone3", LIBC)], ["work (x)", "start_thread (libc.so.6)"]),
        ([*in_c("init"), host("call_init", LIBC), host("_start", LIBC)], ["init (x)", "call_init (libc.so.6)"]),
        ([*in_c("main", "again", "main"), host("(below main)", LIBC)], ["main (x)", "again (x)", "main (x)"]),
        ([host("(below main)", LIBC), *in_c("_start")], ["(below main) (libc.so.6)"]),
        # stacks that the recorder cut
        ([*in_c("malloc", "down", "down"), CUT], ["down (x)", "down (x)", "[cut at 12]"]),
        ([*in_c("malloc", "xmalloc"), CUT], ["xmalloc (x)", "[cut at 12]"]),
        ([*in_c("malloc", "main", "again"), CUT], ["main (x)", "again (x)", "[cut at 12]"]),
    ],
)
def test_shown_frames(frames: list[Any], expected: list[str]) -> None:
    assert shown(frames) == expected


RECORDERS = [
    "/usr/libexec/valgrind/vgpreload_ljtrace-amd64-linux.so",
    "/usr/libexec/ljtrace/libljtrace-native.so",
    "/usr/libexec/ljtrace/libljtrace-lua.so",
    "/usr/lib/x86_64-linux-gnu/lua/5.1/ljtrace/misc.so",
]


@pytest.mark.parametrize("library", RECORDERS)
def test_frames_of_the_recorder_in_older_traces(library: str) -> None:
    """The allocation function that the program called is in the recorder's library, too."""
    frames = [host("malloc", library), *in_c("parse"), host("on_new_own_state", library), *in_c("main")]
    assert shown(frames) == ["parse (x)", "main (x)"]
    names = shown(frames, Policy(keep_alloc_fns=True))
    assert names[1:] == ["parse (x)", "main (x)"] and names[0].startswith("malloc (")
    assert shown([host("watch", library), *in_c("main")]) == ["main (x)"]


WRAPPED = in_c("malloc", "xmalloc", "make", "node_new", "parse", "main")


@pytest.mark.parametrize(
    "policy, first",
    [
        (Policy(), "make"),
        (Policy(("make",)), "node_new"),
        (Policy(("make", "*_new")), "parse"),
        (Policy(("ma?e",)), "node_new"),
        (Policy(("[a-z]*",)), "make"),
        (Policy(("make",), keep_alloc_fns=True), "malloc"),
    ],
)
def test_patterns(policy: Policy, first: str) -> None:
    assert shown(WRAPPED, policy)[0] == f"{first} (x)"
    assert shown(WRAPPED, policy)[-1] == "main (x)"


@pytest.mark.parametrize(
    "facts, name, first",
    [
        ({"alloc_prefix": "zz_"}, "zz_malloc", "parse"),
        ({"alloc_prefix": "je_,zz_"}, "zz_mallocx", "parse"),
        ({"alloc_prefix": "zz_"}, "zz_make", "inlined"),
        ({"observe_alloc": "get_*,put_*"}, "get_some", "parse"),
        ({}, "zz_malloc", "inlined"),
    ],
)
def test_functions_that_the_recorders_options_name(facts: dict[str, str], name: str, first: str) -> None:
    assert shown(in_c("inlined", name, "parse", "main"), facts=facts)[0] == f"{first} (x)"


def test_functions_that_the_recorders_know_are_known() -> None:
    """Those that make or resize blocks. Operators of C++ have other names in traces."""
    table = (Path(os.environ["LJTRACE_SRCDIR"]) / "ljtrace/protocol/alloc_functions.def").read_text()
    lines = re.findall(r"^(?:FUNCTION\(\d+, |STANDARD\(|NAMED\()([a-z]\w+|__rust\w+), (\w+)", table, re.M)
    quiet = re.compile(r"(RUST_)?FREE.*|USABLE.*|NALLOCX|WITHIN")
    names = [name for name, shape in lines if not quiet.fullmatch(shape)]
    assert len(names) > 60 and [name for name in names if not only_allocates(host(name))] == []


def test_a_stack_that_the_trace_does_not_define_yet() -> None:
    stacks = ShownStacks(OneStack(in_c("main")), Policy())  # type: ignore[arg-type]
    assert stacks.stack(1) == 1 and stacks.stack(2) == 0 and stacks.stack(1) == 1


@pytest.mark.parametrize(
    "names, json, csv, output, terminal, short",
    [
        ("short", True, False, "x.json", False, True),
        ("full", False, False, None, True, False),
        (None, False, False, None, True, True),
        (None, False, False, "-", True, True),
        (None, False, False, None, False, True),
        (None, True, False, None, True, False),
        (None, False, True, None, True, False),
        (None, False, False, "x.txt", True, True),
    ],
)
def test_lists_with_short_names(
    monkeypatch: pytest.MonkeyPatch,
    names: str | None,
    json: bool,
    csv: bool,
    output: str | None,
    terminal: bool,
    short: bool,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    assert short_in_table(Namespace(names=names, json=json, csv=csv, output=output)) == short


def test_all_frames_are_kept() -> None:
    frames = [host(), host("lj_mem_realloc"), TREE, CALLER]
    assert shown(frames, Policy(keep_alloc_fns=True)) == list(map(frame_text, frames))


@pytest.mark.parametrize(
    "name",
    [
        "malloc",
        "xmalloc",
        "g_malloc0_n",
        "Perl_safesysmalloc",
        "ruby_xmalloc2",
        "zmalloc",
        "operator new[](unsigned long)",
        "std::allocator<int>::allocate(unsigned long)",
        "std::__new_allocator<int>::allocate(unsigned long, void const*)",
        "alloc::alloc::exchange_malloc",
        "__rust_alloc",
    ],
)
def test_well_known_functions(name: str) -> None:
    assert only_allocates(host(name))


@pytest.mark.parametrize(
    "name",
    ["", "main", "mymalloc_test", "std::vector<int>::push_back(int)", "parse", "alloc::vec::Vec<T>::push", "operator+"],
)
def test_other_functions(name: str) -> None:
    assert not only_allocates(host(name))


@pytest.mark.parametrize(
    "name", ["malloc", "je_malloc", "mi_malloc_aligned", "tc_calloc", "operator new(unsigned long)"]
)
def test_functions_of_the_c_heap(name: str) -> None:
    assert is_of_c_heap(host(name))


@pytest.mark.parametrize("name", ["", "load", "my_pool::malloc(int)", "std::pmr::memory_resource::allocate(int)"])
def test_functions_of_other_heaps(name: str) -> None:
    assert not is_of_c_heap(host(name))


def test_the_file_of_functions() -> None:
    """Each pattern occurs once, and begins with text that tells what it is."""
    patterns = known_alloc_functions()
    assert len(patterns) > 50 and len(set(patterns)) == len(patterns)
    for pattern in patterns:
        assert pattern[:3].strip("*?") == pattern[:3], f"{ALLOC_FUNCTIONS}: {pattern}"
        assert glob([pattern]).fullmatch(pattern)


def test_a_frame_has_the_name_of_its_file_without_the_folder() -> None:
    frame = SimpleNamespace(kind="lua", function="main chunk", object="", file="/src/app.lua", line=3, ip=0)
    assert frame_text(frame) == "main chunk (app.lua:3)"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("main", "main"),
        ("(below main)", "(below main)"),
        ("main chunk", "main chunk"),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
        ("a::operator unsigned long() const", "a::operator unsigned long() const"),
        ("std::pair<int const, long>* f<a (*)(b), 3>(int)", "f<a (*)(b), 3>(int)"),
        ("unsigned long a::(anonymous namespace)::g<int>(int) const", "a::(anonymous namespace)::g<int>(int) const"),
        (
            "auto f()::{lambda(auto:1)#1}::operator()<int>(int) const",
            "f()::{lambda(auto:1)#1}::operator()<int>(int) const",
        ),
        ("bool std::operator< <char>(char, char)", "std::operator< <char>(char, char)"),
        ("shop::cooperator find<int>(int)", "find<int>(int)"),
        ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<< <char>(std::ostream&, char)"),
        ("<fn(&u8) -> u8 as core::ops::FnOnce<()>>::call_once", "<fn(&u8) -> u8 as core::ops::FnOnce<()>>::call_once"),
    ],
)
def test_the_type_that_a_function_returns(name: str, expected: str) -> None:
    assert without_return_type(name) == expected


def test_the_options_choose_the_policy() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    words = ["--alloc-fn", "make", "--alloc-fn=get*", "--keep-alloc-fns", "--names", "short"]
    assert of_arguments(parser.parse_args(words)) == Policy(("make", "get*"), keep_alloc_fns=True, short=True)
    assert of_arguments(parser.parse_args([])) == of_arguments(Namespace()) == Policy()


def test_a_place_with_and_without_a_line() -> None:
    assert place_text("find", "/src/shop.c", 7) == "find (shop.c:7)"
    assert place_text("find", "/src/shop.c", 0) == "find (shop.c)"
    assert frame_line(host("find", "/bin/x")) == "find (in /bin/x)"
    without_line = SimpleNamespace(kind="lua", function="find", object="", file="/src/shop.lua", line=0, ip=0)
    assert label(without_line) == "find shop.lua"  # type: ignore[arg-type]
    without_name = SimpleNamespace(kind="host", function="", object="/bin/x", file="/src/shop.c", line=7, ip=0)
    assert label(without_name) == "shop.c:7"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name, own",
    [
        ("main", True),
        ("std::sort(int*)", False),
        ("void std::vector<int>::_M_realloc_insert<int>(int)", False),
        ("standard::f()", True),
        ("shop::list<std::string>::add()", True),
        ("__cxa_allocate_exception", False),
        ("<alloc::vec::Vec<u64>>::with_capacity", False),
        ("<p::Square as core::fmt::Debug>::fmt", True),
        ("<&mut core::fmt::Formatter as core::fmt::Write>::write_str", False),
        ("<u8 as p::Shape>::area", True),
        ("<fn() as core::ops::function::FnOnce<()>>::call_once", False),
        ("<p::pool::Pool<u64>>::fill", True),
    ],
)
def test_own_code(name: str, own: bool) -> None:
    assert bool(is_own(host(name, "/bin/x"))) is own


@pytest.mark.parametrize(
    "file, function, expected",
    [
        ("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/alloc/src/vec/mod.rs", "<a::B as a::C>::d", True),
        ("/usr/src/rustc-1.63.0/library/std/src/io/mod.rs", "f", True),
        ("/root/.cargo/registry/src/index.crates.io-6f17d22bba15001f/hashbrown-0.14.3/src/raw/mod.rs", "f", True),
        ("/usr/include/c++/12/bits/stl_vector.h", "void f<int>(int)", True),
        ("/usr/lib/llvm-14/bin/../include/c++/v1/vector", "f", True),
        ("../../../../src/libstdc++-v3/src/c++11/string-inst.cc", "f", True),
        # the file decides: an instance for the program's types, and the program's code for types of the library
        ("/home/me/app/src/main.rs", "<alloc::vec::Vec<u8> as app::Shrink>::shrink", False),
        ("/home/me/library/vector.cc", "std::vector<int>::push_back(int const&)", False),
        ("/home/me/library/alloc.c", "make", False),
        # without a file the name does
        ("", "std::vector<int, std::allocator<int> >::reserve(unsigned long)", True),
        ("", "std::vector<int>& find<int>(int)", False),
        ("", "main", False),
    ],
)
def test_functions_of_the_libraries(file: str, function: str, expected: bool) -> None:
    frame: Any = SimpleNamespace(kind="host", function=function, object="/bin/x", file=file, line=7, ip=0)
    assert is_of_library(frame) == expected
