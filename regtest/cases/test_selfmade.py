"""test_selfmade - programs that make and change code at run time run the newest of it.

The recorder leaves out Valgrind's check of such code where it cannot change unseen
(ljtrace/valgrind/base/self_modifying.c). native/selfmade.c changes code in all ways there are; LuaJIT is made to
throw away its machine code and use its place again. Of what LuaJIT makes writable and executable again only
what has changed is translated again (jit/machine_code.c): native/ffimade.lua does so in all ways, by the FFI.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path

import pytest

from support import NATIVE, SOURCE, good, record, run, steve
from test_luascripts import command

WAYS = (
    "protect",
    "in_place",
    "opened",
    "mapped_over",
    "moved_over",
    "through_proc",
    "by_child",
    "by_thread",
    "across",
    "emptied",
)
FFIMADE = SOURCE / "regtest/native/ffimade.lua"
PROTECTED = (
    "whole",
    "opened_twice",
    "closed_in_parts",
    "opened_in_parts",
    "opened_wider",
    "writable_all_the_time",
    "not_readable",
    "mapped_over",
    "unmapped",
    "moved_over",
    "moved_over_all",
    "emptied",
    "many_at_once",
)
MEMORY = [[], ["--trace-mem=no"]]


@pytest.mark.parametrize("options", MEMORY, ids=["accesses", "heap events only"])
@pytest.mark.parametrize("way", WAYS)
def test_the_newest_code_runs(way: str, options: list[str], tmp_path: Path) -> None:
    good([NATIVE / "selfmade", way])
    done = record(tmp_path / "t.ljt", [NATIVE / "selfmade", way], *options).run
    assert (done.status, done.text) == (0, f"{way}: 0 wrong\n")


@pytest.mark.parametrize("way", ["in_place", "opened", "through_proc", "by_child", "across"])
def test_these_ways_need_a_check(way: str, tmp_path: Path) -> None:
    """Without changes of code, the cases above would prove nothing. --smc-check is obeyed if it is given."""
    argv = [NATIVE / "selfmade", way]
    assert record(tmp_path / "n.ljt", argv, "--smc-check=none").run.status == 1
    assert record(tmp_path / "a.ljt", argv, "--smc-check=all-non-file").run.status == 0


def test_a_file_mapped_twice_is_as_under_valgrind(tmp_path: Path) -> None:
    """Valgrind checks code in files only on request."""
    argv = [NATIVE / "selfmade", "twice"]
    assert record(tmp_path / "t.ljt", argv).run.out == run(["valgrind", "-q", "--tool=none", *argv]).out
    assert record(tmp_path / "a.ljt", argv, "--smc-check=all").run.status == 0


@pytest.mark.parametrize(
    "hotloop,options",
    [(1, MEMORY[0]), (2, MEMORY[1])],
    ids=["1-accesses", "2-heap events only"],
)
def test_machine_code_is_thrown_away_and_made_anew(hotloop: int, options: list[str], tmp_path: Path) -> None:
    """All Lua scripts, with room for a few traces at a time."""
    argv = command("-O3", f"-Ohotloop={hotloop}", "-Ohotexit=1", "-Osizemcode=4", "-Omaxmcode=16")
    native = good(argv)
    traced = record(tmp_path / "t.ljt", argv, *options).run
    assert traced.status == 0
    assert traced.out.splitlines() == native.out.splitlines()


@pytest.mark.parametrize("way", PROTECTED)
@pytest.mark.parametrize("jit", ["-joff", "-Ohotloop=2"])
def test_what_luajit_protects_runs_the_newest(way: str, jit: str, tmp_path: Path) -> None:
    argv = ["luajit", jit, FFIMADE, way]
    good(argv)
    done = record(tmp_path / "t.ljt", argv).run
    assert (done.status, done.text) == (0, f"{way}: 0 wrong\n")


# One loop with many ways through it: a side trace for each, and each patches the one that it leaves.
CASES = "".join(f"elseif i % {n} == 0 then t = t + {n}\n" for n in range(3, 60, 2))
BRANCHES = f"local t = 0\nfor i = 1, 300000 do\nif i % 64 == 0 then t = t + 1\n{CASES}end\nend\nprint(t)\n"


def counts(path: Path, argv: list[str], *options: str) -> tuple[int, int]:
    """Number of superblocks discarded, and instructions of the program."""
    trace = record(path, argv, "--stats=yes", *options)
    found = re.search(r"transtab: discarded +([\d,]+)", trace.run.complaint)
    assert found, "no statistics"
    return int(found[1].replace(",", "")), json.loads(steve("summary", "--json", trace.path).text)["instructions"]


def test_only_changed_traces_are_translated_again(tmp_path: Path) -> None:
    """Patches of traces are recognised; otherwise each exit would return to the interpreter for ever."""
    source = tmp_path / "branches.lua"
    source.write_text(BRANCHES, encoding="utf-8")
    argv = ["luajit", "-Ohotexit=2", str(source)]
    few, instructions = counts(tmp_path / "t.ljt", argv)
    many, expected = counts(tmp_path / "a.ljt", argv, "--smc-check=all-non-file")
    assert 5 * few < many
    assert abs(instructions - expected) < expected / 20
