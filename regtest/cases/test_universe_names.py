"""test_universe_names - a snapshot names objects as LuaJIT prints them; what holds the parts of buffers.

The expected names are in the script's own output: tostring(ffi.typeof(...)), names given to metatables,
lengths of buffers.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re

import pytest

from support import SOURCE, Trace, record, steve

SCRIPT = SOURCE / "regtest/native/names.lua"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    done = record(tmp_path_factory.mktemp("names") / "t.ljt", ["luajit", SCRIPT], "--trace-mem=no")
    assert done.run.status == 0 and "ljtrace: snapshot" not in done.run.complaint, done.run.complaint
    return done


def universe(trace: Trace, name: str) -> dict:
    return json.loads(steve("universe", trace.path, "--snapshot", name, "--json", "--top=100000").text)


def printed(trace: Trace, kind: str) -> list[str]:
    return [line.split("\t", 1)[1] for line in trace.run.text.splitlines() if line.startswith(kind + "\t")]


def test_names_are_those_that_luajit_prints(trace: Trace) -> None:
    found = {(row["type"], row["name"]) for row in universe(trace, "names")["types"]}
    for kind, least in (("cdata", 40), ("udata", 2)):
        wanted = printed(trace, kind)
        assert len(wanted) >= least
        assert [name for name in wanted if (kind, name) not in found] == []
    assert {("udata", "FILE*"), ("udata", "ffi.clib"), ("tab", "_G"), ("tab", "registry"), ("thread", "main")} <= found


def test_nothing_live_is_out_of_reach(trace: Trace) -> None:
    """After full collections, including the dictionaries of buffers and the strings they show; the sums are
    complete."""
    found = universe(trace, "names")
    assert found["unaccounted"] == 0
    assert [row for row in found["holders"] if row["path"] == "(not reached)"] == []


def test_buffers_hold_their_text(trace: Trace) -> None:
    bytes_in_large = int(printed(trace, "buffers")[0])
    if not bytes_in_large:
        pytest.skip("this LuaJIT has no string.buffer")
    rows = {
        row["path"].split(".Keep ")[-1]: row for row in universe(trace, "names")["holders"] if ".Keep " in row["path"]
    }
    by_key = {
        match[1]: row for path, row in rows.items() if (match := re.search(r"\.(\w+) udata string\.buffer$", path))
    }
    assert bytes_in_large <= by_key["large"]["bytes"] < 2 * bytes_in_large + 1000
    assert by_key["shown"]["bytes"] < 1000 and by_key["shown"]["retained"] > 50000
    assert by_key["lent"]["retained"] < 1000
    assert by_key["buffer"]["retained"] > by_key["buffer"]["bytes"] + 100


def test_keys_of_all_kinds_stand_in_paths(trace: Trace) -> None:
    paths = {row["path"] for row in universe(trace, "names")["holders"]}
    for key in ("[1000000]", "[-3]", "[true]", '["a b\\n"]', "[number]"):
        assert any(re.search(rf"\.keys tab \S+ {re.escape(key)} tab \S+$", path) for path in paths), key


def test_what_waits_for_a_finaliser_is_a_root(trace: Trace) -> None:
    """Nothing else refers to it; the tables that the waiting threads hold are reached from them."""
    found = universe(trace, "finaliser")
    held = [
        row
        for row in found["holders"]
        if re.search(r"^udata \S+ <metatable> tab .*\.held upval \S+ <upvalue> tab \S+$", row["path"])
    ]
    assert found["unaccounted"] == 0 and len(held) >= 45
