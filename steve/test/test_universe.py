"""Universes: sums, retained sizes against the definition, paths, differences.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from typing import Any, Callable, List, Set, Tuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steve._universe import dominators, retained, shortest

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
    assert {(r["type"], r["name"]): (r["objects"], r["bytes"], r["dead_objects"], r["dead_bytes"])
            for r in result["types"]} == {
        ("thread", ""): (1, 400, 0, 0), ("tab", "cache"): (1, 100, 0, 0), ("tab", ""): (1, 200, 0, 0),
        ("str", ""): (2, 530, 1, 30), ("cdata", "int[70]"): (1, 300, 0, 0), ("udata", "conn"): (1, 50, 0, 0)}
    holders = {r["object"]: (r["retained"], r["path"]) for r in result["holders"]}
    assert holders["tab cache"] == (1180, "thread 0x4000 .cache tab cache")
    assert holders["cdata int[70]"] == (
        300, "thread 0x4000 .cache tab cache .entries tab 0x7000 [7] cdata int[70]")
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


def test_difference(steve: Any, trace: Callable) -> None:
    result = json.loads(steve("universe", "--json", "--diff", "early", trace(SCRIPT)).out)
    grown = {(r["type"], r["name"]): (r["more_objects"], r["more_bytes"]) for r in result["growth"]}
    assert grown["str", ""] == (1, 500) and grown["cdata", "int[70]"] == (1, 300)
    assert ("thread", "") not in grown


def test_rfc_dump(steve: Any, trace: Callable) -> None:
    done = steve("memprof", "--dump", trace(SCRIPT))
    assert done.returncode == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "===== MEMORY SNAPSHOT" and "@LJ_TTAB 0x5000 holds 100 bytes and linked with" in lines
    at = lines.index("@LJ_TTAB 0x5000 holds 100 bytes and linked with")
    assert lines[at + 1:at + 6] == ["\tmetatable => NULL", "===== ARRAY PART", "\t[1] => LJ_TSTR 0x6000",
                                    "===== HASH PART", "\t.entries => LJ_TTAB 0x7000"]


def reach(n: int, links: List[Tuple[int, int]], roots: Set[int], without: int = -1) -> Set[int]:
    """What is reached from the roots when one object is not there, by the definition."""
    seen = {r for r in roots if r != without}
    todo = list(seen)
    while todo:
        at = todo.pop()
        for a, b in links:
            if a == at and b != without and b not in seen:
                seen.add(b)
                todo.append(b)
    return seen


GRAPH = st.integers(1, 12).flatmap(lambda n: st.tuples(
    st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
    st.sets(st.integers(0, n - 1), min_size=1, max_size=3), st.lists(st.integers(0, 99), min_size=n, max_size=n)))


@settings(max_examples=400, deadline=None)
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


def test_a_long_chain_and_a_wide_star() -> None:
    """A million objects, linked both ways: linear, and without a deep stack."""
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
    """Half a million objects, all of which refer to one: takes seconds, and took hours by a simpler algorithm."""
    n = 500000
    chain = np.arange(2, n - 1)
    source = np.concatenate([[0, 0], chain, np.arange(2, n)])
    target = np.concatenate([[1, 2], chain + 1, np.ones(n - 2, np.int64)])
    over, order = dominators(n, source, target, [0])
    kept = retained(np.ones(n, np.uint64), over, order)
    assert over[1] == 0 and (over[3:] == np.arange(2, n - 1)).all()
    assert kept[0] == n and kept[1] == 1 and kept[2] == n - 2
