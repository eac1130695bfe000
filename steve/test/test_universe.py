"""Heap snapshots (universes): sums, retained sizes against the definition, paths, differences, what the report says of them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from steve.trace._memtrace import Trace
from steve.snapshots._graph import dominators, retained, shortest
from steve.report.lua_growth import LARGEST, LuaGrowth, LuaHeld
from steve.report.processes import HELD_SUMS, PATH_SUMS, InLua, _of_held, _of_paths, paths_of, times_of
from steve.snapshots.graph import key_text, read
from steve.terminal.units import human_bytes

SCRIPT = """\
heap 0x77 lua
snapshot early 1 1000 90
object thread 400 - root
object tab 100 cache
object str 30
link 0 1 upvalue cache
link 1 2 array 1
endsnapshot
mark between
snapshot late 1 1700 90
object thread 400 - root
object tab 100 cache
object str 30
object tab 200
object cdata 300 int[70]
object udata 50 conn
object str 500
object str 30 - dead
link 0 1 upvalue cache
link 1 2 array 1
link 1 3 value entries
link 3 4 array 7
link 3 5 key
link 5 6 env
link 2 6 other x weak
endsnapshot
end exit
"""


def test_summary(steve: Any, trace: Callable) -> None:
    result = json.loads(steve("universe", "--json", trace(SCRIPT)).out)
    assert (result["snapshot"], result["objects"], result["object_bytes"]) == ("late", 8, 1610)
    assert result["unaccounted"] == 0
    assert {
        (r["type"], r["name"]): (r["objects"], r["bytes"], r["dead_objects"], r["dead_bytes"]) for r in result["types"]
    } == {
        ("thread", ""): (1, 400, 0, 0),
        ("tab", "cache"): (1, 100, 0, 0),
        ("tab", ""): (1, 200, 0, 0),
        ("str", ""): (2, 530, 1, 30),
        ("cdata", "int[70]"): (1, 300, 0, 0),
        ("udata", "conn"): (1, 50, 0, 0),
    }
    holders = {r["object"]: (r["retained"], r["path"]) for r in result["holders"]}
    assert holders["tab cache"] == (1180, "thread 0x4000 .cache tab cache")
    assert holders["cdata int[70]"] == (300, "thread 0x4000 .cache tab cache .entries tab 0x7000 [7] cdata int[70]")
    assert holders["udata conn"][0] == 550 and holders["str 0xb000"] == (0, "(not reached)")


def test_text_and_choice(steve: Any, trace: Callable) -> None:
    path = trace(SCRIPT)
    late = steve("universe", path)
    assert late.returncode == 0 and "1,610 bytes + 90 internal = 1,700; gc.total 1,700" in " ".join(late.out.split())
    assert "snapshot 'early': 3 objects" in " ".join(steve("universe", "--snapshot", "early", path).out.split())
    assert "snapshot 'early'" in steve("universe", "--snapshot", "1", path).out
    wrong = steve("universe", "--snapshot", "no", path)
    assert wrong.returncode == 1 and "'early', 'late'" in wrong.err
    none = steve("universe", trace("N 16 16\nend exit\n", "none.ljt"))
    assert none.returncode == 1 and "--universe" in none.err


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        ("", "record it with --universe=at-exit or take one with ljtrace.snapshot()"),
        (
            "info recorder native\n",
            "take one with ljtrace.snapshot() or --universe=growing, or record the program with `valgrind",
        ),
        ("info recorder native\ninfo attached yes\n", "record it with `ljtrace attach --universe`"),
        ("info recorder native\ninfo universe growing\n", "no heap of a Lua state became larger than 256 KiB"),
        ("info universe now\ninfo snapshot_problem broken\n", "one was to be taken: broken"),
    ],
)
def test_how_a_recording_gets_a_snapshot(steve: Any, trace: Callable, facts: str, remedy: str) -> None:
    trace(f"{facts}N 4096 64\nend exit\n")
    none = steve("universe", "t.ljt")
    assert none.returncode == 1 and "has no snapshot; " in none.err and remedy in none.err


HELD = """\
object thread@0x1000 400 main root
object tab@0x2000 100
object tab@0x3000 50
"""
HOLDS = """\
link 0 1 stack cache(app.lua:3)
link 0 2 stack recent(app.lua:4)
link 1 2 value recent
"""


def test_paths_that_grew(steve: Any, trace: Callable) -> None:
    """Of a recording with --universe=growing by itself; keys of a table with many entries are left out."""
    first = f"snapshot first 1 1000 90\n{HELD}{HOLDS}endsnapshot\n"
    other = "snapshot other 2 1000 90\nobject thread@0x9000 400 main root\nendsnapshot\n"
    items = "".join(f"object tab@{0x10000 + 512 * i} 60\nobject str@{0x10100 + 512 * i} 30\n" for i in range(20))
    links = "".join(f"link 1 {3 + 2 * i} value k{i}\nlink 1 {4 + 2 * i} key\n" for i in range(20))
    second = f"snapshot second 1 5000 90\n{HELD}{items}{HOLDS}{links}link 2 1 array 4\nendsnapshot\n"
    text = f"heap 0x77 lua\nheap 0x99 lua\ninfo universe growing\n{first}mark a\n{other}mark b\n{second}end exit\n"
    found = json.loads(steve("universe", "--json", trace(text)).out)
    assert (found["snapshot"], found["since"]["snapshot"]) == ("second", "first")
    assert found["paths"] == [
        {
            "more_bytes": 20 * size,
            "more_objects": 20,
            "bytes": 20 * size,
            "objects": 20,
            "path": f"local cache(app.lua:3) -> {step}",
        }
        for size, step in ((60, "[string] -> table"), (30, "key -> string"))
    ]
    chosen = json.loads(steve("universe", "--json", "--snapshot", "2", trace(text)).out)
    assert "paths" not in chosen and chosen["objects"] == 1
    other_way = json.loads(steve("universe", "--json", "--snapshot", "first", "--diff", "second", trace(text)).out)
    assert other_way["paths"] == []


def grown(steve: Any, trace: Callable, before: list[str], after: list[str]) -> dict[str, tuple[int, int]]:
    """(more_bytes, more_objects) by path. before, after: lines of the snapshots: `object`, `link`; links are by address, as
    `link 0x1000 0x2000 array 1`."""
    texts = []
    for name, lines in (("a", before), ("b", after)):
        objects = [line for line in lines if line.startswith("object")]
        number = {line.split()[1].partition("@")[2]: str(i) for i, line in enumerate(objects)}
        links = [line.split() for line in lines if line.startswith("link")]
        shown = [" ".join(["link", number[first], number[to], *rest]) for _, first, to, *rest in links]
        texts.append("\n".join([f"snapshot {name} 1 1000 90", *objects, *shown, "endsnapshot", "mark m", ""]))
    path = trace("heap 0x77 lua\n" + "".join(texts) + "end exit\n")
    rows = json.loads(steve("universe", "--json", "--diff", "a", path).out)["paths"]
    return {row["path"]: (row["more_bytes"], row["more_objects"]) for row in rows}


def listed(at: int, size: int, items: range, text: str) -> list[str]:
    """A table of `size` bytes at this address, that the variable `text` of the thread holds, and links to the items."""
    links = [f"link {at:#x} {0x10000 + 256 * i:#x} array {n}" for n, i in enumerate(items, 1)]
    return [f"object tab@{at:#x} {size}", f"link 0x1000 {at:#x} stack {text}", *links]


def held(items: range) -> list[str]:
    """Items, each with an object of its own."""
    texts = [f"object tab@{0x10000 + 256 * i:#x} 60\nobject str@{0x10080 + 256 * i:#x} 30".split("\n") for i in items]
    links = [f"link {0x10000 + 256 * i:#x} {0x10080 + 256 * i:#x} value name" for i in items]
    return [line for pair in texts for line in pair] + links


@pytest.mark.parametrize(
    ("facts", "time", "said"),
    [
        (
            "mark first",
            2_500_000,
            "'b' was taken 2.5 M instructions after its recording began, 'a' 1 M instructions; 1.5 M",
        ),
        (
            "info time_unit nanoseconds",
            2 * 10**12,
            "'b' was taken 2,000 s after its recording began, 'a' 1 ms; 2,000 s",
        ),
    ],
)
def test_when_the_snapshots_were_taken(steve: Any, trace: Callable, facts: str, time: int, said: str) -> None:
    taken = "snapshot {} 1 1000 90\nobject thread@0x1000 400 main root\nendsnapshot\n"
    later = f"mark m\ntime {time}\n{taken.format('b')}"
    path = trace(f"{facts}\nheap 0x77 lua\ntime 1000000\n{taken.format('a')}{later}end exit\n")
    assert said in steve("universe", "--diff", "a", path).out


@pytest.mark.parametrize("began", [True, False])
def test_time_between_two_recordings(steve: Any, trace: Callable, began: bool) -> None:
    """Only if both say when they began."""
    for name, second in (("one.ljt", 500), ("two.ljt", 560)):
        start = f"info start_unix_seconds {second}\n" if began else ""
        shot = "snapshot a 1 1000 90\nobject thread@0x1000 400 main root\nendsnapshot\nend exit\n"
        trace(f"info time_unit nanoseconds\n{start}heap 0x77 lua\n{shot}", name)
    said = steve("universe", "--diff-file", "one.ljt", "two.ljt").out
    assert "'a' of one.ljt" in said and ("about 60 s between them" in said) == began == ("between" in said)


MAIN = "object thread@0x1000 400 main root"


def test_what_two_new_lists_hold_grew(steve: Any, trace: Callable) -> None:
    """The lists replace others, and neither alone retains the items."""
    before = [MAIN, *listed(0x2000, 100, range(10), "a(l.lua:1)"), *listed(0x3000, 100, range(10), "b(l.lua:2)")]
    after = [MAIN, *listed(0x4000, 300, range(50), "a(l.lua:1)"), *listed(0x5000, 400, range(50), "b(l.lua:2)")]
    assert grown(steve, trace, before + held(range(10)), after + held(range(50))) == {
        "local b(l.lua:2) -> [number] -> table": (40 * 90, 40),
        "local a(l.lua:1) -> table": (200, 0),
        "local b(l.lua:2) -> table": (300, 0),
    }


def test_what_another_list_holds_now_is_no_growth(steve: Any, trace: Callable) -> None:
    """Before, one list alone retained the items, by another variable. It became larger itself."""
    before = [MAIN, *listed(0x3000, 100, range(10), "a(l.lua:1)"), *held(range(10))]
    after = [MAIN, *listed(0x3000, 400, range(50), "a(l.lua:1)"), *listed(0x4000, 300, range(50), "b(l.lua:2)")]
    assert grown(steve, trace, before, after + held(range(50))) == {
        "local b(l.lua:2) -> [number] -> table": (40 * 90, 40),
        "local b(l.lua:2) -> table": (300, 1),
        "local a(l.lua:1) -> table": (300, 0),
    }


def test_a_path_leads_over_compiled_code_only_if_no_other_does(steve: Any, trace: Callable) -> None:
    """The code refers to functions that it calls: <other> -> <constant> would say less than the names of the variables."""
    path = trace(
        """\
heap 0x77 lua
snapshot now 1 6500 0
object thread 400 - root
object func 40
object proto 300
object trace 500
object func 40
object tab 5000
object tab 60
object tab 60
object cdata 100
link 0 1 upvalue admit
link 1 2 proto
link 2 3 other
link 3 4 constant
link 3 8 constant
link 4 5 upvalue buckets
link 1 6 upvalue limits
link 6 7 array 1
link 7 4 value admit
endsnapshot
end exit
"""
    )
    found = json.loads(steve("universe", "--json", path).out)
    paths = {row["path"].split()[-1]: row["path"] for row in found["holders"]}
    limits = "thread 0x1000 .admit func 0x2000 .limits tab 0x7000 [1] tab 0x8000"
    assert paths["0x6000"] == f"{limits} .admit func 0x5000 .buckets tab 0x6000"
    code = "thread 0x1000 .admit func 0x2000 <proto> proto 0x3000 <other> trace 0x4000"
    assert paths["0x9000"] == f"{code} <constant> cdata 0x9000"  # which nothing else holds


def test_an_address_that_is_used_again_is_no_growth_elsewhere(steve: Any, trace: Callable) -> None:
    """A table that holds ten is renewed; what is new elsewhere gets the addresses of what it held."""
    fixed, other = "fixed(l.lua:1)", "other(l.lua:2)"
    before = [MAIN, *listed(0x2000, 100, range(10), fixed), *listed(0x3000, 100, range(10, 20), other)]
    after = [MAIN, *listed(0x2000, 100, range(30, 40), fixed), *listed(0x3000, 100, [*range(20), 40], other)]
    names = [f"link {0x10000 + 256 * i:#x} {0x10080 + 256 * (i + 50):#x} value name" for i in range(10)]
    news = [line for line in held(range(10)) if not line.startswith(("link", "object str"))] + names
    news += [line for line in held(range(50, 60)) if line.startswith("object str")]
    assert grown(steve, trace, before + held(range(20)), after + news + held(range(10, 20)) + held(range(30, 41))) == {
        "local other(l.lua:2) -> [number] -> table": (11 * 90, 11),
    }


def test_a_linked_list_grew(steve: Any, trace: Callable) -> None:
    """From both ends, so that no node retains another one. A path of any length is short."""

    def nodes(n: int) -> list[str]:
        at = [f"{0x10000 + 256 * i:#x}" for i in range(n)]
        ends = [f"link 0x2000 {at[0]} value head", f"link 0x2000 {at[-1]} value tail"]
        links = [f"link {a} {b} value next\nlink {b} {a} value prev".split("\n") for a, b in zip(at, at[1:])]
        lines = [MAIN, "object tab@0x2000 100", "link 0x1000 0x2000 stack q(l.lua:1)", *ends]
        return lines + [f"object tab@{address} 60" for address in at] + [line for pair in links for line in pair]

    rows = grown(steve, trace, nodes(3), nodes(3000))
    assert sum(more for more, _ in rows.values()) == 2996 * 60  # one more replaces another one, as the tail
    assert rows["local q(l.lua:1) -> .tail -> .prev -> ... -> table"][0] > 1400 * 60 and len(rows) < 10


MODULES = """\
object tab@0x1000 500 registry root
object tab@0x2000 300
object tab@0x3000 50
object tab@0x4000 60
link 0 1 value _LOADED
"""


def test_names_of_modules_stay(steve: Any, trace: Callable) -> None:
    """Of a table with many modules, the one whose table grows is named; many modules that are new have one row."""
    modules = "".join(f"object tab@{0x9000 + 256 * i} 40\n" for i in range(10))
    links = "".join(f"link 1 {4 + i} value m{i}\n" for i in range(10))
    links += "".join(f"link 0 {4 + i} value r{i}\n" for i in range(10))
    links += "link 1 2 value sessions\nlink 2 3 value active\n"
    first = f"snapshot first 1 1000 90\n{MODULES}{modules}{links}endsnapshot\n"
    new = "".join(f"object tab@{0x50000 + 256 * i} 70\nobject tab@{0x60000 + 256 * i} 30\n" for i in range(9))
    more = "".join(f"link 3 {14 + 2 * i} value s{i}\nlink 1 {15 + 2 * i} value n{i}\n" for i in range(9))
    second = f"snapshot second 1 5000 90\n{MODULES}{modules}{new}{links}{more}endsnapshot\n"
    text = f"heap 0x77 lua\ninfo universe growing\n{first}mark a\n{second}end exit\n"
    found = json.loads(steve("universe", "--json", trace(text)).out)
    assert {row["path"]: row["more_bytes"] for row in found["paths"]} == {
        "table registry -> ._LOADED -> .sessions -> .active -> [string] -> table": 9 * 70,
        "table registry -> ._LOADED -> [string] -> table": 9 * 30,
    }


def test_names_of_globals_stay(steve: Any, trace: Callable) -> None:
    """A global that was replaced, and a new one, are rows of their own, without what other globals retain."""
    main = ["object tab@0x1000 500 _G root"]
    for i in range(12):
        main += [f"object tab@{0x100000 + 256 * i:#x} 40", f"link 0x1000 {0x100000 + 256 * i:#x} value g{i}"]
    before = [*main, "object tab@0x2000 100", "link 0x1000 0x2000 value A"]
    after = [*main, "object tab@0x4000 700", "link 0x1000 0x4000 value A", "object tab@0x5000 50"]
    assert grown(steve, trace, before, [*after, "link 0x1000 0x5000 value B"]) == {
        "table _G -> .A -> table": (600, 0),
        "table _G -> .B -> table": (50, 1),
    }


def test_growth_by_type_tells_garbage_apart(steve: Any, trace: Callable) -> None:
    grown = GROWN.replace("object str 60\n", "object str 60\nobject tab 700 new\nobject tab 5 - dead\n")
    before = grown.replace(
        "object tab@0x400000 40 other\n", "object tab@0x400000 40 other\nobject tab@0x700000 8 new\n", 1
    )
    rows = json.loads(steve("universe", "--json", "--diff", "a", trace(before)).out)["growth"]
    found = {row["name"]: (row["bytes"], row["garbage"], row["more_garbage"]) for row in rows if row["type"] == "tab"}
    assert found == {"new": (1200, 700, 692), "cache": (90, 0, 0), "other": (45, 0, 0)}
    assert "more garbage" in steve("universe", "--diff", "a", "-q", trace(before)).out
    assert "garbage" not in steve("universe", "--diff", "a", "-q", trace(GROWN)).out


def test_what_holds_the_objects_of_a_site(steve: Any, trace: Callable) -> None:
    """By the report: a module's table, a variable, and a list whose nodes are one after the other."""
    chain = 2000
    objects = [f"object tab@{0x100000 + 256 * i} 40" for i in range(chain)]
    texts = [
        "info recorder native",
        "heap 0x77 lua",
        "stack main@a.lua:1 active@s.lua:2",
        "stack main@a.lua:1 node@l.lua:3",
        "stack main@a.lua:1 waste@w.lua:4",
        *(f"N {0x900000 + 512 * i} 500 1 1" for i in range(9)),
        *(f"N {0x100000 + 256 * i} 40 2 1" for i in range(chain)),
        *(f"N {0xA00000 + 256 * i} 90 3 1" for i in range(50)),
        "time 5",
        "snapshot shot 1 9000 90",
        "object tab@0x1000 500 registry root",
        "object tab@0x2000 300",
        "object tab@0x3000 60",
        "object thread@0x4000 400 - root",
        *objects,
        *(f"object tab@{0x900000 + 512 * i} 740" for i in range(9)),  # with an array of 240
        *(f"object str@{0xA00000 + 256 * i} 90" for i in range(50)),
        "link 0 1 value _LOADED",
        "link 1 2 value sessions",
        "link 3 4 stack list(l.lua:9)",
        *(f"link {4 + i} {5 + i} value next" for i in range(chain - 1)),
        *(f"link 2 {4 + chain + i} value k{i}" for i in range(9)),
        f"link 2 {4 + chain + 9} value k9",
        "endsnapshot",
        "time 9",
        "N 0xF00000 80 3 1",
        "end detached",
    ]
    trace("\n".join(texts) + "\n")
    assert steve("report", "t.ljt", "-q", "-o", "page.html").returncode == 0
    page = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", (steve.folder / "page.html").read_text())).split())
    assert "held by registry._LOADED.sessions in the snapshot 'shot'" in page
    assert "held by local list(l.lua:9).next.next.next" in page
    assert "waste (w.lua:4) has" not in page and "4.31 KiB garbage (objects with their parts) in" in page
    assert (
        "active (s.lua:2) has 6.5 KiB in 9 objects with their parts that live at the end and that Lua reached in the last "
        "snapshot (" in page
    )
    assert "node (l.lua:3) keeps more and more" in page
    assert "never freed (" not in page


def test_kinds_are_the_sums_of_types(steve: Any, trace: Callable) -> None:
    result = json.loads(steve("universe", "--json", trace(SCRIPT)).out)
    assert [(k["type"], k["objects"], k["bytes"], k["dead_objects"]) for k in result["kinds"]] == [
        ("str", 2, 530, 1),
        ("thread", 1, 400, 0),
        ("cdata", 1, 300, 0),
        ("tab", 2, 300, 0),
        ("udata", 1, 50, 0),
    ]


def test_keys_stand_as_lua_writes_them() -> None:
    assert [key_text(k) for k in ("name", "_1", "[12]", "[-3]", "[true]")] == [".name", "._1", "[12]", "[-3]", "[true]"]
    assert key_text("[number]") == "[number]" and key_text("[numbers]") == '["[numbers]"]'
    assert [key_text(k) for k in ("1a", "a b", 'a"\\', "x\x1b[31m", "é", "")] == [
        '["1a"]',
        '["a b"]',
        '["a\\"\\\\"]',
        '["x\\x1b[31m"]',
        '["é"]',
        '[""]',
    ]


def test_of_many_snapshots_one_is_kept(trace: Callable, steve: Any) -> None:
    """Selection by name, by number, and the last. The others have no objects any more, and snapshots of the
    same name are reported."""

    def shot(i: int) -> str:
        return f"snapshot s{i % 7} 1 {100 * i} 0\nobject tab {100 * i} - root\nendsnapshot\nmark m\n"

    path = trace("heap 0x77 lua\n" + "".join(map(shot, range(1, 31))) + "end exit\n")
    for wanted, number in (("s2", 30), ("s3", 24), (None, 30), ("11", 11)):
        reader = Trace(str(path), snapshots=True)
        found = read(reader, wanted)
        assert (found.number, found.bytes) == (number, 100 * number)
        assert [len(s.objects) for s in reader.snapshots()] == [0] * 30
    done = steve("universe", "--snapshot", "s3", path)
    assert "numbers 3, 10, 17, 24; the last one is shown" in done.err, done.err
    assert steve("universe", "--snapshot", "11", path).err == ""


GROWN = """\
heap 0x77 lua
snapshot a 1 1000 0
object tab@0x100000 10 _G root
object tab@0x200000 20 K
object tab@0x300000 30 cache
object tab@0x400000 40 other
link 0 1 value K
link 1 2 value cache
link 1 3 value other
endsnapshot
mark between
snapshot b 1 1000 0
object tab@0x100000 10 _G root
object tab@0x200000 20 K
object tab@0x300000 90 cache
object tab@0x400000 45 other
object tab 500 new
object str 50
object str 60
link 0 1 value K
link 1 2 value cache
link 1 3 value other
link 2 4 value entry
link 4 5 array 1
link 3 6 array 1
endsnapshot
end exit
"""


def test_who_grew(steve: Any, trace: Callable) -> None:
    """Objects of both snapshots that retain more, except those whose growth is explained by one object they
    keep alive."""
    result = json.loads(steve("universe", "--json", "--diff", "a", trace(GROWN)).out)
    assert [(r["object"], r["more_retained"], r["retained"]) for r in result["swollen"]] == [
        ("tab K", 675, 765),
        ("tab cache", 610, 640),
        ("tab other", 65, 105),
    ]
    assert [(r["object"], r["retained"]) for r in result["holders"]] == [("tab new", 550), ("str 0x3000", 60)]


SHARED = """\
heap 0x77 lua
snapshot a 1 1000 0
object tab@0x100000 10 _G root
object thread@0x110000 20 running root
object tab@0x200000 20 module
object func@0x300000 30 check
object tab@0x400000 1000 windows
object tab@0x500000 70 old
link 0 2 value module
link 2 3 value check
link 1 3 stack -
link 3 4 upvalue windows
link 4 5 array 1
endsnapshot
snapshot b 1 1000 0
object tab@0x100000 10 _G root
object thread@0x110000 20 running root
object tab@0x200000 20 module
object func@0x300000 30 check
object tab@0x400000 1040 windows
object tab 50 new
link 0 2 value module
link 2 3 value check
link 3 4 upvalue windows
link 4 5 array 1
endsnapshot
end exit
"""


def test_what_an_object_alone_holds_now_has_not_grown(steve: Any, trace: Callable) -> None:
    """While a function runs, the stack refers to it, too, and its module does not retain it. What it retained then is no
    growth of the module: 40 bytes of `windows` and 50 of a new table are new, and 70 are gone."""
    result = json.loads(steve("universe", "--json", "--diff", "a", trace(SHARED)).out)
    assert [(r["object"], r["more_retained"], r["retained"]) for r in result["swollen"]] == [("tab windows", 20, 1090)]


LONGER = """\
heap 0x77 lua
snapshot a 1 1000 0
object tab@0x100000 10 _G root
object tab@0x200000 1000 log
object tab@0x300000 50 ring
object tab@0x400000 60 held
object tab@0x500000 700 log
link 0 1 value log
link 0 2 value ring
link 2 3 value held
link 0 4 value shrunk
endsnapshot
snapshot b 1 1000 0
object tab@0x100000 10 _G root
object tab@0x200000 9000 log
object tab@0x300000 50 ring
object tab@0x400000 90 held
object tab@0x500000 100 log
object tab 500 new
link 0 1 value log
link 0 2 value ring
link 2 3 value held
link 0 4 value shrunk
link 3 5 value item
endsnapshot
end exit
"""


def test_findings_name_the_path_that_grew(steve: Any, trace: Callable) -> None:
    """Among sites nothing grew, as there are no blocks; of a growth below the threshold nothing is said."""
    path = trace("info universe growing\n" + LONGER)
    text = steve("findings", "--growth", "8000", path).out
    assert (
        "\nGrowing in Lua: table _G -> .log -> table log\n  retains 7.81 KiB more in the snapshot 'b' than in 'a'"
        in text
    )
    assert "1 object as before, but larger; all paths: `steve universe`" in " ".join(text.split())
    growth = [
        one
        for one in json.loads(steve("findings", "--json", "--growth", "8000", path).out)
        if one["finding"] == "growth"
    ]
    assert growth[0]["in_lua"]["paths"] == json.loads(steve("universe", "--json", "--diff", "a", path).out)["paths"]
    less = steve("findings", "--growth", "8001", path).out
    assert "Growing in Lua" not in less and "in_lua" not in steve("findings", "--json", "--growth", "8001", path).out


def test_an_old_table_that_became_longer_is_a_path(steve: Any, trace: Callable) -> None:
    """A list of numbers has no new objects. What is smaller than before is no growth."""
    result = json.loads(steve("universe", "--json", "--diff", "a", trace(LONGER)).out)
    assert [
        tuple(row[key] for key in ("path", "more_bytes", "more_objects", "bytes", "objects")) for row in result["paths"]
    ] == [
        ("table _G -> .log -> table log", 8000, 0, 9000, 1),
        ("table _G -> .ring -> .held -> .item -> table new", 500, 1, 500, 1),
        ("table _G -> .ring -> .held -> table held", 30, 0, 90, 1),
    ]


def test_the_page_has_the_paths_that_grew(steve: Any, trace: Callable) -> None:
    """A reader of the page has no trace: the page has the first rows of the command that it names."""
    path = trace(GROWN)
    rows = json.loads(steve("universe", "--json", "--diff", "a", path).out)["paths"]
    page = html.unescape(steve("report", "-q", "-o", "-", path).out)
    assert rows and "Between the snapshots “a” and “b”" in page
    shown = page.split('id="lua-growth"')[1].split("</section>")[0]
    assert [row["path"] for row in rows] == re.findall(r"<tr><td>(.*?)</td>", shown)
    assert [row["more_bytes"] for row in rows] == [
        int(n) for n in re.findall(r'</td><td class="n" title="(\d+)">', shown)
    ][::2]
    named = re.search(r"steve universe (--snapshot \d+ --diff \d+)", shown)
    assert named is not None
    assert json.loads(steve("universe", "--json", *named[1].split(), path).out)["paths"] == rows
    assert json.loads(steve("report", "-q", "--json", path).out)["lua_growth"] == rows


def test_the_page_of_processes_has_the_paths_that_grew_in_all(steve: Any, trace: Callable) -> None:
    """The sums over the processes, the largest first; the first sentence names it."""
    news = "N 0x900000 1000\nend exit"
    for name in ("a.ljt", "b.ljt"):
        trace(f"info pid {ord(name[0])}\n" + GROWN.replace("end exit", news), name)
    trace("info pid 7\nN 4096 16\nend exit\n", "c.ljt")
    rows = json.loads(steve("universe", "--json", "--diff", "a", "a.ljt").out)["paths"]
    page = html.unescape(steve("report", "-q", "-o", "-", "a.ljt", "b.ljt", "c.ljt").out)
    shown = page.split('id="lua-growth"')[1].split("</section>")[0]
    assert "Between the last two snapshots of each of 2 processes" in shown
    assert re.findall(r"<tr><td>(.*?)</td>", shown) == [row["path"] for row in rows]
    sums = [int(n) for n in re.findall(r'</td><td class="n" title="([\d,]+)">', shown.replace(",", ""))]
    assert sums[::2] == [2 * row["more_bytes"] for row in rows] and sums[1::2] == [2 * row["bytes"] for row in rows]
    assert shown.count("2 processes, about evenly") == len(rows)
    first = re.sub(r"<.*?>", "", page.split('<ol class="first"')[1].split("</li>")[0])
    assert (
        f"{rows[0]['path']} retains" in first and "in the last snapshot of each process than in the one before" in first
    )
    assert 'id="lua-growth"' not in steve("report", "-q", "--processes", "-o", "-", "c.ljt", "c.ljt").out


def test_the_larger_of_what_is_kept_comes_first(steve: Any, trace: Callable) -> None:
    """A path to all objects says more than one of the lines that made some of them; a line that made more, the same."""
    for size, first in ((300, "retains"), (5000, "made")):
        news = f"stack main leak@a.c:3\nmark first\nN 0x900000 {size} 1\n"
        path = trace(news + GROWN.replace("end exit", "mark last\nend exit"))
        page = html.unescape(steve("report", "-q", "-o", "-", path).out)
        said = re.findall(r"<li>.*?</b> (retains|made) ", page.split('<ol class="first"')[1].split("</ol>")[0])
        assert sorted(said) == ["made", "retains"] and said[0] == first, (size, said)


ALONE = """\
info attached yes
heap 0x77 lua
snapshot attached 1 3000 0
object tab@0x100000 100 _G root
object func@0x200000 30 check
object tab@0x300000 60 windows
object tab 90 garbage
link 0 1 value check
link 1 2 upvalue windows
"""
ENTRIES = 20


def _alone() -> str:
    entries = "".join(f"object tab 100\nlink 2 {i + 4} value key{i}\n" for i in range(ENTRIES))
    objects = [line for line in (ALONE + entries).splitlines() if not line.startswith("link")]
    links = [line for line in (ALONE + entries).splitlines() if line.startswith("link")]
    return "\n".join([*objects, *links, "endsnapshot", "N 0x900000 10", "end exit", ""])


def test_a_page_with_one_snapshot_has_what_holds_its_objects(steve: Any, trace: Callable) -> None:
    """Also on the page of several processes; the first sentence names it. 190 bytes are reachable besides the entries."""
    path = trace(_alone(), "a.ljt")
    reached = 100 + 30 + 60 + ENTRIES * 100
    first, *others = json.loads(steve("report", "-q", "--json", path).out)["lua_held"]
    assert first == {
        "path": "_G.check -> upvalue windows",
        "bytes": ENTRIES * 100,
        "objects": ENTRIES,
        "share": round(ENTRIES * 100 / reached, 4),
    }
    assert sum(row["bytes"] for row in others) == 100 + 30 + 60
    page = html.unescape(steve("report", "-q", "-o", "-", path).out)
    said = re.sub(r"<.*?>", "", page.split('<ol class="first"')[1].split("</li>")[0])
    assert (
        f"{first['path']} holds 1.95 KiB of the {human_bytes(reached)} that Lua reaches in the snapshot 'attached' (91%): "
        "20 objects." in said
    )
    shown = page.split('id="lua-held"')[1].split("</section>")[0]
    assert f"<td>{first['path']}</td>" in shown and "91.3" in shown and "garbage" not in shown
    trace(_alone().replace("attached yes", "attached yes\ninfo pid 7"), "b.ljt")
    page = html.unescape(steve("report", "-q", "--processes", "-o", "-", "a.ljt", "b.ljt").out)
    said = re.sub(r"<.*?>", "", page.split('<ol class="first"')[1].split("</li>")[0])
    assert (
        f"{first['path']} holds 3.91 KiB of the {human_bytes(2 * reached)} that Lua reaches in the snapshots (91%)"
        in said
    )
    shown = page.split('id="lua-held"')[1].split("</section>")[0]
    assert "In 2 processes with one snapshot" in shown and f"<td>{first['path']}</td>" in shown


def test_processes_whose_snapshots_were_not_compared_are_not_counted() -> None:
    """One has too many objects, and one has a single snapshot, of nothing."""
    row = {"path": "_G.list", "more_bytes": 5000, "more_objects": 50, "bytes": 9000, "objects": 90}
    compared, large = LuaGrowth([row], 0, 100, "", "a", "b", None), LuaGrowth([], 0, LARGEST + 1, "", "a", "b", None)
    assert large.is_too_large and not compared.is_too_large
    alone = LuaHeld([{"path": "_G", "bytes": 0, "objects": 1, "share": 0.0}], 0, 1, "", "a", 0)
    in_lua = {"one": compared, "two": large, "three": alone}
    apart = InLua.of(in_lua)
    (said,) = _of_paths(paths_of(apart.growths, PATH_SUMS), apart, 10_000)
    assert "in the last snapshot of each of 1 process than in the one before (50.0% of the peaks)" in said.text
    assert said.path == "in one" and _of_held(paths_of(apart.held, HELD_SUMS), apart, 0) == []


def test_a_path_says_which_function_has_an_upvalue(steve: Any, trace: Callable) -> None:
    """If it is known where the function begins: the line says in which file the variable is."""
    for name, said in (
        ("shop/limit.lua:12", " of shop/limit.lua:12"),
        ("shop/limit.lua:12#2", " of shop/limit.lua:12#2"),
        ("check", ""),
    ):
        script = _alone().replace("object func@0x200000 30 check", f"object func@0x200000 30 {name}")
        assert name in script
        (path, *_) = json.loads(steve("report", "-q", "--json", trace(script)).out)["lua_held"]
        assert path["path"] == f"_G.check -> upvalue windows{said}"


def test_growth_of_processes_is_compared_by_the_second() -> None:
    """One grew by 3000 bytes in 10 s, the other by 2000 in 4 s."""
    row = {"path": "_G.list", "more_bytes": 3000, "more_objects": 50, "bytes": 9000, "objects": 90}
    in_lua = {
        "one": LuaGrowth([row], 0, 100, "", "a", "b", 10),
        "two": LuaGrowth([{**row, "more_bytes": 2000}], 0, 100, "", "a", "b", 4),
    }
    (line,) = paths_of(in_lua, PATH_SUMS)
    assert (
        line.sums["more_bytes"] == 5000
        and line.sums["rate"] == 800
        and line.where() == "2 processes, fastest in two (62%)"
    )
    (said,) = _of_paths([line], InLua.of(in_lua), 10_000)
    assert "retains 4.88 KiB more" in said.text and "(50.0% of the peaks, 800 B a second)" in said.text
    assert times_of(in_lua) == [("one", 10e9), ("two", 4e9)]
    unknown = {**in_lua, "two": replace(in_lua["two"], seconds=None)}
    assert times_of(unknown) is None and paths_of(unknown, PATH_SUMS)[0].where() == "2 processes, most in one (60%)"


def test_a_page_without_two_snapshots_has_no_paths(steve: Any, trace: Callable) -> None:
    for script in (GROWN.split("mark between")[0] + "end exit\n", "heap 0x77 lua\nN 0x4000 8 0 1\nend exit\n"):
        assert 'id="lua-growth"' not in steve("report", "-q", "-o", "-", trace(script)).out
    assert 'id="lua-growth"' not in steve("report", "-q", "-o", "-", trace(GROWN), "--where", "size > 0").out


def test_difference(steve: Any, trace: Callable) -> None:
    result = json.loads(steve("universe", "--json", "--diff", "early", trace(SCRIPT)).out)
    grown = {(r["type"], r["name"]): (r["more_objects"], r["more_bytes"]) for r in result["growth"]}
    assert grown["str", ""] == (1, 500) and grown["cdata", "int[70]"] == (1, 300)
    assert ("thread", "") not in grown


def test_a_difference_begins_with_what_can_be_reached(steve: Any, trace: Callable) -> None:
    path = trace(SCRIPT)
    found = {name: json.loads(steve("universe", "--json", "--snapshot", name, path).out) for name in ("early", "late")}
    early, late = (one["object_bytes"] - one["garbage_bytes"] for one in found.values())
    assert late > early

    def said(now: str, before: str) -> str:
        return " ".join(steve("universe", "--snapshot", now, "--diff", before, path).out.split())

    assert f"reachable objects have {late:,} bytes, {late - early:,} more (before: {early:,})" in said("late", "early")
    less = f"{early:,} bytes, {late - early:,} less: more was freed than the rows below grew (before: {late:,})"
    assert less in said("early", "late")
    assert f"{late:,} bytes, as many (before: {late:,})" in said("late", "late")
    (first, *_) = json.loads(steve("universe", "--json", "--diff", "early", path).out)["held"]
    assert f"{first['bytes']:,} of these ({first['share']:.1%}) are held by {first['path']}" in said("late", "early")


def test_rfc_dump(steve: Any, trace: Callable) -> None:
    done = steve("memprof", "--dump", trace(SCRIPT))
    assert done.returncode == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "===== MEMORY SNAPSHOT" and "@LJ_TTAB 0x5000 holds 100 bytes and linked with" in lines
    at = lines.index("@LJ_TTAB 0x5000 holds 100 bytes and linked with")
    assert lines[at + 1 : at + 6] == [
        "\tmetatable => NULL",
        "===== ARRAY PART",
        "\t[1] => LJ_TSTR 0x6000",
        "===== HASH PART",
        "\t.entries => LJ_TTAB 0x7000",
    ]


def reach(n: int, links: list[tuple[int, int]], roots: set[int], without: int = -1) -> set[int]:
    """The objects reachable from the roots if one object is missing, by the definition."""
    seen = {r for r in roots if r != without}
    todo = list(seen)
    while todo:
        at = todo.pop()
        for a, b in links:
            if a == at and b != without and b not in seen:
                seen.add(b)
                todo.append(b)
    return seen


GRAPH = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
        st.sets(st.integers(0, n - 1), min_size=1, max_size=3),
        st.lists(st.integers(0, 99), min_size=n, max_size=n),
    )
)


@examples(400)
@given(GRAPH)
def test_retained_is_what_goes_with_an_object(graph: tuple) -> None:
    n, links, roots, sizes = graph
    source, target = (np.array([link[i] for link in links], np.int64) for i in (0, 1))
    over, order = dominators(n, source, target, sorted(roots))
    kept = retained(np.array(sizes), over, order)
    everything = reach(n, links, roots)
    for at in range(n):
        gone = everything - reach(n, links, roots, at) if at in everything else set()
        assert kept[at] == sum(sizes[g] for g in gone)
    via = shortest(n, source, target, sorted(roots))
    assert {i for i in range(n) if via[i] != -2} == everything
    late = np.array([(a + b) % 3 == 0 for a, b in links], bool)
    via = shortest(n, source, target, sorted(roots), late)
    assert {i for i in range(n) if via[i] != -2} == everything
    durable = reach(n, [link for link, is_late in zip(links, late) if not is_late], roots)
    for at in durable:
        while via[at] >= 0:
            assert not late[via[at]], "a late link leads to what another path reaches"
            at = source[via[at]]


def test_a_long_chain_and_a_wide_star() -> None:
    """A million objects, linked in both directions: linear time and no deep recursion."""
    n = 1000000
    chain = np.arange(n - 1)
    source, target = np.concatenate([chain, chain + 1]), np.concatenate([chain + 1, chain])
    kept = retained(np.ones(n, np.uint64), *dominators(n, source, target, [0]))
    assert kept[0] == n and kept[n - 1] == 1 and kept[n // 2] == n - n // 2
    star = np.concatenate([np.zeros(n - 1, np.int64), chain + 1])
    ends = np.concatenate([chain + 1, np.zeros(n - 1, np.int64)])
    kept = retained(np.ones(n, np.uint64), *dominators(n, star, ends, [0]))
    assert kept[0] == n and kept[1] == 1


def test_a_list_whose_nodes_share_a_metatable() -> None:
    """Half a million objects that all refer to one: takes seconds; a simpler algorithm took hours."""
    n = 500000
    chain = np.arange(2, n - 1)
    source = np.concatenate([[0, 0], chain, np.arange(2, n)])
    target = np.concatenate([[1, 2], chain + 1, np.ones(n - 2, np.int64)])
    over, order = dominators(n, source, target, [0])
    kept = retained(np.ones(n, np.uint64), over, order)
    assert over[1] == 0 and (over[3:] == np.arange(2, n - 1)).all()
    assert kept[0] == n and kept[1] == 1 and kept[2] == n - 2


def test_a_snapshot_with_garbage_says_so(steve: Any, trace: Callable) -> None:
    events = "heap 0x77 lua\nsnapshot now 1 1000 100\nobject thread 400 - root\nobject tab 500\nendsnapshot\nend exit\n"
    text = steve("universe", trace(events)).out
    assert "\nof the objects, 500 bytes are garbage: no root leads to them\n" in text
    assert re.search(r"\n  tab +1 +500 +1 +500\n  thread +1 +400 +0 +0\n", text) and "dead" not in text
    result = json.loads(steve("universe", "--json", trace(events)).out)
    assert result["garbage_bytes"] == 500
    assert [(row["garbage_objects"], row["garbage_bytes"]) for row in result["kinds"]] == [(1, 500), (0, 0)]
    assert "are garbage" not in steve("universe", trace(events.replace("tab 500", "tab 500 - root"))).out


def test_objects_of_one_list_are_one_row_of_text() -> None:
    from steve.commands.universe import folded

    def row(size: int, name: str, at: str) -> dict:
        return {"retained": size, "object": name, "path": f"tab registry .list tab 0x50 {at} {name}"}

    rows = [row(9, "func a.lua:3", f"[{i}]") for i in (7, 12, 31)]
    others = [
        row(9, "tab 0xa0", "[1]"),
        row(9, "tab 0xb0", "[2]"),
        row(8, "tab 0xc0", "[3]"),
        row(8, "tab 0xd0", ".key"),
    ]
    found = folded([*rows, *others])
    assert [one["object"] for one in found] == ["func a.lua:3 (3 of them)", "tab (2 of them)", "tab 0xc0", "tab 0xd0"]
    assert len(rows) == 3 and rows[0]["object"] == "func a.lua:3"
