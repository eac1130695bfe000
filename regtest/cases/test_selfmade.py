"""test_selfmade - programs that make and change code at run time run the newest of it.

The recorder leaves out Valgrind's check of such code where it cannot change unseen (lt_smc.c). native/selfmade.c
changes code in all ways there are; LuaJIT is made to throw away its machine code and use its place again.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path

import pytest

from support import NATIVE, good, record, run
from test_luascripts import command

WAYS = ("protect", "in_place", "opened", "mapped_over", "moved_over", "through_proc", "by_child", "by_thread",
        "across", "emptied")
MEMORY = [[], ["--trace-mem=no"]]


@pytest.mark.parametrize("options", MEMORY, ids=["accesses", "heap events only"])
@pytest.mark.parametrize("way", WAYS)
def test_the_newest_code_runs(way: str, options: list[str], tmp_path: Path) -> None:
    good([NATIVE / "selfmade", way])
    done = record(tmp_path / "t.ljt", [NATIVE / "selfmade", way], *options).run
    assert (done.status, done.text) == (0, f"{way}: 0 wrong\n")


@pytest.mark.parametrize("way", ["in_place", "opened", "through_proc", "by_child", "across"])
def test_these_ways_need_a_check(way: str, tmp_path: Path) -> None:
    """Else the cases above would prove nothing. --smc-check, if given, is obeyed."""
    argv = [NATIVE / "selfmade", way]
    assert record(tmp_path / "n.ljt", argv, "--smc-check=none").run.status == 1
    assert record(tmp_path / "a.ljt", argv, "--smc-check=all-non-file").run.status == 0


def test_a_file_mapped_twice_is_as_under_valgrind(tmp_path: Path) -> None:
    """Valgrind does not check code in files unless told to."""
    argv = [NATIVE / "selfmade", "twice"]
    assert record(tmp_path / "t.ljt", argv).run.out == run(["valgrind", "-q", "--tool=none", *argv]).out
    assert record(tmp_path / "a.ljt", argv, "--smc-check=all").run.status == 0


@pytest.mark.parametrize("hotloop", [1, 2, 3])
@pytest.mark.parametrize("options", MEMORY, ids=["accesses", "heap events only"])
def test_machine_code_is_thrown_away_and_made_anew(hotloop: int, options: list[str], tmp_path: Path) -> None:
    """All Lua scripts, with room for a few traces at a time."""
    argv = command("-O3", f"-Ohotloop={hotloop}", "-Ohotexit=1", "-Osizemcode=4", "-Omaxmcode=16")
    native = good(argv)
    traced = record(tmp_path / "t.ljt", argv, *options).run
    assert traced.status == 0
    assert traced.out.splitlines() == native.out.splitlines()
