"""Rows that --by sums up, texts that tell rows apart, and short names.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import pytest
from conftest import Steve

from steve.terminal.tables import StackText, told_apart
from steve.trace._memtrace import TYPE_NAMES
from steve.trace.frames import function_label, short_name
from steve.trace.policy import ShownStacks

# two functions of one name in two files of C, two in one Lua file, and a recursion
SCRIPT = """\
stack main@m.c:1 init@one/a.c:5
stack main@m.c:1 init@two/a.c:5
stack main@m.c:1 new@@app.lua:12/10
stack main@m.c:1 new@@app.lua:22/20
stack main@m.c:1 down@m.c:9 down@m.c:9 down@m.c:9
N 4096 16 1
N 8192 32 2
N 12288 64 3
N 16384 128 4
N 20480 256 5
end exit
"""

TAB = TYPE_NAMES.index("tab")


def rows(steve: Steve, *options: str) -> dict[str, int]:
    found = json.loads(steve("sites", "--json", *options, "t.ljt").out)
    assert len({row["site"] for row in found}) == len(found)
    return {row["site"]: row["bytes"] for row in found}


@pytest.mark.parametrize(
    "by, expected",
    [
        (
            "function",
            {
                "init (one/a.c)": 16,
                "init (two/a.c)": 32,
                "new (app.lua:10)": 64,
                "new (app.lua:20)": 128,
                "down (m.c)": 256,
            },
        ),
        (
            "line",
            {
                "init (one/a.c:5)": 16,
                "init (two/a.c:5)": 32,
                "new (app.lua:12)": 64,
                "new (app.lua:22)": 128,
                "down (m.c:9)": 256,
            },
        ),
        ("file", {"one/a.c": 16, "two/a.c": 32, "app.lua": 192, "m.c": 256}),
        ("type", {"unknown": 496}),
        ("thread", {"thread 1": 496}),
        ("how", {"malloc": 496}),
    ],
)
def test_rows(by: str, expected: dict[str, int], steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    assert rows(steve, "--by", by) == expected


def test_calls_that_read_the_same_are_one_frame(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    assert rows(steve)["down (m.c:9) x3 < main (m.c:1)"] == 256


@pytest.mark.parametrize("command", ("sites", "leaks", "diff"))
def test_a_list_that_is_cut_has_the_sums_of_all(command: str, steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    trace("end exit\n", "empty.ljt")
    files = ("empty.ljt", "t.ljt") if command == "diff" else ("t.ljt",)
    key, text = ("bytes_b", "place") if command == "diff" else ("bytes", "site")
    found = json.loads(steve(command, "--json", "-n", "2", *files).out)
    assert [row[key] for row in found] == [256, 128, 112] and found[-1][text] == "others (3)"
    assert "others (3)" in steve(command, "--top", "2", *files).out


def test_files_of_one_name_are_told_apart(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    found = rows(steve)
    assert (found["init (a.c:5) < main (m.c:1)"], found["init (two/a.c:5) < main (m.c:1)"]) == (16, 32)


@pytest.mark.parametrize(
    "by, expected",
    [
        ("file", {"one/a.c": 16, "two/a.c": 32, "app.lua": 192, "m.c": 256}),
        ("type", {"unknown": 112, "tab": 384}),
        ("thread", {"thread 1": 368, "thread 2": 128}),
    ],
)
@pytest.mark.parametrize("shards", ((), ("-j", "2")))
def test_findings_have_the_rows_of_sites(
    by: str, expected: dict[str, int], shards: tuple[str, ...], steve: Steve, trace: Callable[..., Path]
) -> None:
    """The rule finds all blocks, so its rows have the sums of `steve sites`."""
    trace(
        SCRIPT.replace("N 16384 128 4", "thread 2\nN 16384 128 4\nthread 1").replace(
            "end exit", f"type 16384 0 {TAB}\ntype 20480 0 {TAB}\nend exit"
        )
    )
    found = json.loads(steve("findings", "--json", "--rules", "never_freed", "--by", by, *shards, "t.ljt").out)
    assert {row["site"]: row["bytes"] for row in found[0]["sites"]} == expected == rows(steve, "--by", by)


@pytest.mark.parametrize(
    "command, accesses", (("fields", "L 4096 8"), ("globals", "L 4096 8"), ("sharing", "L 4096 8\nthread 2\nL 4096 8"))
)
def test_lists_of_sites_leave_out_what_is_named(
    command: str, accesses: str, steve: Steve, trace: Callable[..., Path]
) -> None:
    trace(SCRIPT.replace("end exit", f"{accesses}\nend exit"))
    for options, sites in (((), "init (a.c:5) < main (m.c:1)"), (("--alloc-fn", "init"), "main (m.c:1)")):
        found = json.loads(steve(command, "--json", *options, "t.ljt").out)
        assert sites in {row["site"] for row in found}


def test_texts_are_told_apart() -> None:
    """As many frames as it takes, `least` at least; a stack that begins another is shown as a whole."""
    texts = [
        StackText(parts.split(), least)
        for parts, least in (("a b c d", 1), ("a b e d", 1), ("x y z", 1), ("p q r", 2), ("k l", 1), ("k l m n", 1))
    ]
    assert list(told_apart(texts).values()) == ["a < b < c", "a < b < e", "k < l", "k < l < m", "p < q", "x"]
    assert told_apart([]) == {}


@pytest.mark.parametrize(
    "name, short",
    [
        ("main", "main"),
        ("std::vector<int>::push_back(int)", "std::vector<int>::push_back(int)"),
        (
            "std::map<std::string, std::vector<std::pair<int, double>>>::emplace(int)",
            "std::map<std::string, std::vector<...>>::emplace(int)",
        ),
        ("core::ptr::drop_in_place::h0123456789abcdef", "core::ptr::drop_in_place"),
        (
            "std::basic_ostream<char, std::char_traits<char> >& std::operator<< <char>(std::ostream&)",
            "std::operator<< <...>(std::ostream&)",
        ),
        (
            "void std::vector<std::string>::_M_realloc_insert<std::string const&>(__gnu_cxx::__normal_iterator<std::string*>, int)",
            "std::vector<...>::_M_realloc_insert<...>(...)",
        ),
        (
            "(anonymous namespace)::Foo::a_function(std::string const&, (anonymous namespace)::Type, void (*)(int)) const",
            "(anonymous namespace)::Foo::a_function(...) const",
        ),
        (
            "a::Class::conversion_with_a_long_name_of_its_own::operator()(std::string const&, unsigned) &&",
            "a::Class::conversion_with_a_long_name_of_its_own::operator()(...) &&",
        ),
        (  # a name that the recorder cut
            "std::_Rb_tree<std::basic_string<char, std::char_traits<char> >, std::pair<std::basic_string<char",
            "std::_Rb_tree<...",
        ),
        (
            "bool operator<< <int>(std::pair<int, int> const&, a::long_name_of_a_type const&, another_long_name_o",
            "bool operator<< <...>(...",
        ),
        (
            "a::function_with_a_long_name_of_its_own(std::pair<int, int>)::{lambda(int)#1}::operator()(int) const",
            "a::function_with_a_long_name_of_its_own(...)::{lambda(...)#1}::operator()(...) const",
        ),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def lua(function: str, defined: int, nth: int = 0) -> Any:
    return SimpleNamespace(
        kind="lua", function=function, file="@/src/app.lua", line=9, defined=defined, nth=nth, object="", ip=1
    )


@pytest.mark.parametrize(
    "frame, text",
    [
        (lua("new", 10), "new (app.lua:10)"),
        (lua("new", 10, 1), "new (app.lua:10 #2)"),
        (lua("/src/app.lua:7", 7), "app.lua:7"),
        (lua("main chunk", 0), "main chunk (app.lua)"),
    ],
)
def test_names_of_lua_functions(frame: Any, text: str) -> None:
    assert function_label(frame) == text


def test_functions_that_were_inlined_belong_to_a_place() -> None:
    kinds = {1: "host", 2: "host", 3: "inlined", 4: "inlined", 5: "inlined"}
    trace = SimpleNamespace(
        info=lambda: {},
        counts=lambda: {"stacks": 6},  # with the empty one
        stack_links=lambda first, end: (np.arange(first, end) - 1, np.arange(first, end)),
        frame=lambda number: SimpleNamespace(kind=kinds[number], function=f"f{number}", object="/bin/x"),
    )
    shown = ShownStacks(trace)  # type: ignore[arg-type]
    assert shown.places(shown.ids(5)) == [(5, 4, 3, 2), (1,)]
    assert shown.places(shown.ids(3)) == [(3, 2), (1,)]
    assert shown.places([5, 4]) == [(5, 4)]


def test_report_leaves_out_what_is_named(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT)
    whole, shorter = (
        json.loads(steve("report", "t.ljt", "--json", *options).out)["sites"]
        for options in ((), ("--alloc-fn", "init"))
    )
    assert {site["frames"][0] for site in whole} == {
        "init (a.c:5)",
        "new (app.lua:12)",
        "new (app.lua:22)",
        "down (m.c:9)",
    }
    assert {site["frames"][0] for site in shorter} == {
        "main (m.c:1)",
        "new (app.lua:12)",
        "new (app.lua:22)",
        "down (m.c:9)",
    }
