"""Places of code that are the same in two versions of a program (steve.trace.moved), and the rows of `steve diff`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Steve
from steve.trace.moved import Place, matched


def places(*found: Place) -> dict[str, Place]:
    return {f"{p.function} {p.file} {p.defined} {p.nth} {p.line}": p for p in found}


def lines_of(first: list[int], second: list[int], function: str = "f") -> dict[int, int]:
    """For lines of one function in the second trace, those of the first."""
    a, b = (places(*(Place("a.c", function, line=line) for line in lines)) for lines in (first, second))
    return {b[of_b].line: a[of_a].line for of_b, of_a in matched(a, b).items()}


@pytest.mark.parametrize(
    "first, second, expected",
    [
        ([7], [10], {10: 7}),
        ([7, 10], [10, 13], {10: 7, 13: 10}),
        ([10], [10, 13], {10: 10}),
        ([10, 20], [10, 30], {10: 10, 30: 20}),
        ([10, 20, 30], [10, 30], {10: 10, 30: 30}),
        ([10, 20, 30], [12, 22, 25, 32], {12: 10, 22: 20, 32: 30}),
        ([10, 20, 30, 31], [10, 20, 35, 36], {10: 10, 20: 20, 35: 30, 36: 31}),
        ([10, 20, 30], [10, 25, 30], {10: 10, 25: 20, 30: 30}),
        ([10, 20, 30, 40, 50], [10, 15, 20, 30, 40], {10: 10, 20: 20, 30: 30, 40: 40}),
        ([0, 5], [0, 6], {0: 0, 6: 5}),
        ([], [3], {}),
    ],
)
def test_lines(first: list[int], second: list[int], expected: dict[int, int]) -> None:
    assert lines_of(first, second) == expected


def test_one_more_place_above() -> None:
    """The shift of the other functions of the file tells which place is new."""
    a = places(*(Place("a.c", f, line=n) for f, n in (("f", 7), ("g", 20), ("h", 30))))
    b = places(*(Place("a.c", f, line=n) for f, n in (("f", 8), ("f", 10), ("g", 23), ("h", 33))))
    found = {(b[of_b].function, b[of_b].line): a[of_a].line for of_b, of_a in matched(a, b).items()}
    assert found == {("f", 10): 7, ("g", 23): 20, ("h", 33): 30}


@pytest.mark.parametrize("inserted", range(1, 14))
def test_lines_inserted_within_a_function(inserted: int) -> None:
    """Also where the line of one place below becomes that of another one."""
    lines = [1, 2, 3, 5, 11, 22, 24, 35]
    for at in range(len(lines)):
        moved = {line + inserted if i >= at else line: line for i, line in enumerate(lines)}
        assert lines_of(lines, list(moved)) == moved, at


LISTS = st.sets(st.integers(1, 400), max_size=30)


@given(first=LISTS, second=LISTS)
def test_pairs_do_not_cross(first: set[int], second: set[int]) -> None:
    found = lines_of(sorted(first), sorted(second))
    assert set(found) <= second and set(found.values()) <= first and len(set(found.values())) == len(found)
    assert [found[line] for line in sorted(found)] == sorted(found.values())
    assert len(found) > 0 or not (first and second)


@given(lines=LISTS, shift=st.integers(0, 100))
def test_a_shift(lines: set[int], shift: int) -> None:
    assert lines_of(sorted(lines), [line + shift for line in sorted(lines)]) == {line + shift: line for line in lines}


def test_many_lines_of_a_function() -> None:
    lines = list(range(1, 9000, 3))
    assert lines_of(lines, [line + 7 for line in lines]) == {line + 7: line for line in lines}


def test_lua_functions() -> None:
    """Those without a name are known by their order, those of one name too; a place by the line in its function."""
    a = places(Place("@x.lua", "", 3, 0, 4), Place("@x.lua", "", 3, 1, 4), Place("@x.lua", "run", 9, 0, 11))
    b = places(Place("@x.lua", "", 5, 0, 6), Place("@x.lua", "", 5, 1, 6), Place("@x.lua", "run", 20, 0, 22))
    assert list(matched(a, b).items()) == list(zip(b, a))


@pytest.mark.parametrize("first, second", [("/a/src/x.c", "/b/src/x.c"), ("x.c", "renamed.c")])
def test_files(first: str, second: str) -> None:
    a, b = places(Place(first, "f", line=1)), places(Place(second, "f", line=2))
    assert len(matched(a, b)) == 1


def test_files_of_one_name() -> None:
    """The longer common end of the paths decides."""
    a = places(Place("/1/list/init.c", "init", line=1), Place("/1/tree/init.c", "init", line=2))
    b = places(Place("/2/tree/init.c", "init", line=5), Place("/2/list/init.c", "init", line=6))
    assert {b[of_b].file[3:]: a[of_a].file[3:] for of_b, of_a in matched(a, b).items()} == {
        name: name for name in ("list/init.c", "tree/init.c")
    }


def test_files_that_share_only_a_main_chunk() -> None:
    a, b = places(Place("@x.lua", "main chunk", 0, 0, 1)), places(Place("@y.lua", "main chunk", 0, 0, 1))
    assert matched(a, b) == {}


SCRIPT = """\
stack main@main.c:{0} parse@parse.c:{1} malloc
stack main@main.c:{2} draw@draw.c:2 malloc
N 0x1000 1000 1
N 0x2000 500 2
end exit
"""


def test_rows(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT.format(5, 1, 6), "a.ljt")
    trace(SCRIPT.format(15, 31, 16).replace("1000 1\n", "1100 1\n"), "b.ljt")
    for by, place in (("stack", "parse (parse.c:31) < main (main.c:15)"), ("line", "parse (parse.c:31)")):
        (row,) = json.loads(steve("diff", "a.ljt", "b.ljt", "--json", "--by", by).out)
        assert (row["place"], row["bytes_a"], row["bytes_b"]) == (place, 1000, 1100)


def test_a_comment_is_no_new_leak(steve: Steve, trace: Callable[..., Path]) -> None:
    """Two lines inserted above line 22: what was there is at line 24 now, and what was at line 24 is at line 26."""
    for name, below in (("a.ljt", (22, 24, 35)), ("b.ljt", (24, 26, 37))):
        sites = [
            f"stack f@a.c:{line} malloc\nN {4096 * line} {line} {i}\n" for i, line in enumerate((1, 2, 3, *below), 1)
        ]
        trace("".join(sites) + "end exit\n", name)
    assert steve("diff", "a.ljt", "b.ljt", "--fail-if", "sites.new_leaks > 0").returncode == 0


def test_rows_by_absolute_change(steve: Steve, trace: Callable[..., Path]) -> None:
    trace(SCRIPT.format(5, 1, 6), "a.ljt")
    trace(SCRIPT.format(5, 1, 6).replace("1000 1\n", "100 1\n").replace(" 500 ", " 510 "), "b.ljt")
    found = json.loads(steve("diff", "a.ljt", "b.ljt", "--json").out)
    assert [row["bytes_change"] for row in found] == [-900, 10]
    assert "(nothing changed)" in steve("diff", "a.ljt", "a.ljt").out


def test_a_place_of_the_first_trace_alone(steve: Steve, trace: Callable[..., Path]) -> None:
    """Lines 1 and 4 have moved to 4 and 7; what was at line 7 is gone. Its text is that of another place now."""
    script = "".join(f"stack f@a.c:{line} malloc\n" for line in (1, 4, 7)) + "N 4096 10 1\nN 8192 20 2\n"
    trace(script + "N 12288 40 3\nend exit\n", "a.ljt")
    second = "".join(f"stack f@a.c:{line} malloc\n" for line in (4, 7)) + "N 4096 11 1\nN 8192 21 2\nend exit\n"
    trace(second, "b.ljt")
    found = json.loads(steve("diff", "a.ljt", "b.ljt", "--json", "--by", "line").out)
    assert len({row["place"] for row in found}) == len(found)
    assert sum(row["bytes_change"] for row in found) == -38
