"""Snapshots of two processes: objects are matched by their places, since addresses say nothing.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from typing import Any

import numpy as np
from conftest import make_trace

PAGES = 30


def snapshot(base: int, folder: str, pages: int, facts: str = "", seen: int = 4) -> str:
    """A trace of a program that keeps its pages in an upvalue of a module's function, and has seen some strings."""
    objects = [
        "tab@{} 500 registry root",
        "thread@{} 400 main root",
        "tab@{} 300",  # 2: _LOADED
        "tab@{} 200",  # 3: the module
        f"func@{{}} 40 render@{folder}/t.lua:{pages}",
        "upval@{} 30",
        "tab@{} " + str(100 + 8 * pages),  # 6: the pages
        "func@{} 40 print@C",
        "tab@{} 90",  # 8: a local variable
    ]
    objects += ["tab@{} 60"] * pages + [f"str@{{}} {30 + n}" for n in range(seen)]
    links = ["0 2 value _LOADED", "2 3 value pages", "3 4 value render", "4 5 upvalue cache", "5 6 upvalue"]
    links += ["3 7 value show", f"1 8 stack seen(app.lua:{pages})"]
    links += [f"6 {9 + n} array {n + 1}" for n in range(pages)]
    links += [f"8 {9 + pages + n} array {n + 1}" for n in range(seen)]
    lines = [f"object {text.format(hex(base + 4096 * n))}" for n, text in enumerate(objects)]
    body = "\n".join([*lines, *(f"link {text}" for text in links)])
    return f"{facts}heap 0x77 lua\nsnapshot end 1 90000 90\n{body}\nendsnapshot\nend exit\n"


def compared(steve: Any, before: str, after: str) -> dict[str, Any]:
    """What `steve universe` says of two traces."""
    for name, text in (("a", before), ("b", after)):
        make_trace(steve.folder / f"{name}.ljt", text)
    found: dict[str, Any] = json.loads(steve("universe", "--json", "--diff-file", "a.ljt", "b.ljt").out)
    return found


def paths(steve: Any, before: str, after: str) -> dict[str, tuple[int, int]]:
    """(more_bytes, more_objects) by path."""
    return {row["path"]: (row["more_bytes"], row["more_objects"]) for row in compared(steve, before, after)["paths"]}


def test_what_grew_is_found_below_what_has_other_addresses(steve: Any) -> None:
    """Another folder, other lines, another place of a variable: what is at the same place is the same."""
    before, after = snapshot(0x10000, "v1", 10), snapshot(0x7F0000000000, "v2", PAGES)
    held = "table registry -> ._LOADED -> .pages -> .render -> upvalue cache of render@v2/t.lua:30"
    assert paths(steve, before, after) == {
        f"{held} -> [number] -> table": (20 * 60, 20),
        f"{held} -> table": (20 * 8, 0),
    }
    found = compared(steve, before, after)
    assert [(row["more_retained"], row["path"].split()[-2:]) for row in found["swollen"]] == [
        (20 * 68, ["tab", "0x7f0000006000"])
    ]
    assert len(found["holders"]) == 20


def test_an_address_of_another_object_is_no_match(steve: Any) -> None:
    """The addresses of one process are those of other objects of the other."""
    before, after = snapshot(0x10000, "v", 10), snapshot(0x11000, "v", 10)
    assert paths(steve, before, after) == {}


def test_strings_of_another_size_are_others(steve: Any) -> None:
    before = snapshot(0x10000, "v", 10)
    after = snapshot(0x11000, "v", 10).replace(" 30\nobject str", " 45\nobject str")
    assert before.count(" 30\nobject str") == 1
    found = compared(steve, before, after)
    assert [(row["path"], row["more_bytes"]) for row in found["paths"]] == [
        ("local seen(app.lua:10) -> [1] -> string", 15)
    ]
    assert [row["object"] for row in found["swollen"]] == ["tab 0x19000"]  # of the variable, not the string
    assert [row["retained"] for row in found["holders"]] == [45]


def test_one_process_that_is_recorded_twice(steve: Any) -> None:
    """Its objects have addresses in common: the cache was replaced by another one, of the same size."""
    facts = "info pid 7\ninfo executable /bin/app\ninfo command app\n"
    before = snapshot(0x10000, "v", 10, facts)
    after = before.replace("object tab@0x16000 180", "object tab@0x99000 180")
    assert before != after
    rows = compared(steve, before, after)["holders"]
    assert [row["object"] for row in rows] == ["tab 0x99000"]
    assert not compared(steve, before, after.replace("info pid 7", "info pid 8"))["holders"]


def test_addresses_of_functions_of_c_are_no_names(steve: Any) -> None:
    def with_function(address: int) -> str:
        return snapshot(0x10000, "v", 10).replace("print@C", f"C function {address:#x}")

    assert compared(steve, with_function(0x5500), with_function(0x6600))["growth"] == []


def test_a_long_list_ends(steve: Any) -> None:
    """Matching ends at some length; what is after it is new and gone, and no growth but for what is more."""

    def chain(base: int, count: int) -> str:
        objects = [f"object tab@{base + 256 * n:#x} 60" for n in range(count)]
        links = [f"link {n} {n + 1} value next" for n in range(count)]
        return "\n".join(
            ["heap 0x77 lua", "snapshot end 1 90000 90", "object thread@0x100 400 main root", *objects, *links]
            + ["endsnapshot", "end exit", ""]
        )

    found = paths(steve, chain(0x10000, 500), chain(0x900000, 900))
    assert sum(more for more, _ in found.values()) == 400 * 60 and len(found) < 4


def test_rows_that_are_alike() -> None:
    from steve.snapshots.matching import _alike

    one, other = np.array([[1, 2], [3, 4], [1, 2], [5, 6]]), np.array([[5, 6], [1, 2], [3, 4], [3, 4], [1, 2]])
    pairs = {tuple(pair) for pair in _alike(one, other).T.tolist()}
    assert pairs == {(0, 1), (2, 4), (3, 0)}  # [3, 4] occurs once in one and twice in the other
    assert _alike(one[:0], other).shape == (2, 0)
