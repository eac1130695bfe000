"""test_cut_stacks - stacks across code without call frame information: whole where that is certain, else marked.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from support import good, recorder, run, steve

SOURCE = Path(__file__).parent.parent / "native/nocfi.c"
LOST = "[callers not found]"
RECORDERS = ("valgrind", "native")
# the program itself has no information either; its functions have frame pointers
WITHOUT = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer")
# gaps in memory between the parts of the program, as node and programs with huge pages have
GAPS = ("-Wl,-z,separate-code", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,common-page-size=0x200000")


def compiled(folder: Path, *options: str) -> Path:
    good(["gcc", "-O1", "-g", *options, "-o", folder / "nocfi", SOURCE])
    return folder / "nocfi"


def recorded(which: str, folder: Path, program: object, *options: str) -> Path:
    trace = folder / f"{which}.ljt"
    start = recorder(trace, *options) if which == "valgrind" else ["ljtrace", "run", f"--out={trace}", *options]
    good([*start, program])
    return trace


def stacks(trace: Path) -> dict[int, list[str]]:
    """The names of the functions of the stack of each size of a block, innermost first, up to main."""
    rows = json.loads(steve("sites", "--json", "--by", "stack", trace).text)
    return {row["bytes"] // row["blocks"]: [part.split(" (")[0] for part in row["site"].split(" < ")] for row in rows}


@pytest.mark.parametrize("which", RECORDERS)
def test_a_frame_pointer_is_followed_where_it_is_one(which: str, tmp_path: Path) -> None:
    found = stacks(recorded(which, tmp_path, compiled(tmp_path)))
    assert found[11] == ["framed", "from_framed", "main"]
    assert found[22] == ["bare", LOST] and found[33] == ["astray", LOST]
    assert found[44][0] == "in_coroutine" and LOST not in found[44], "a coroutine's first function has no caller"
    assert found[55][0] == "in_handler" and found[55][-3:] == ["raise", "on_other_stacks", "main"]


@pytest.mark.parametrize("which", RECORDERS)
def test_a_program_without_information(which: str, tmp_path: Path) -> None:
    trace = recorded(which, tmp_path, compiled(tmp_path, *WITHOUT))
    found = stacks(trace)
    assert found[11] == ["framed", "from_framed", "main"]
    assert found[22] == ["bare", LOST] and found[33] == ["astray", LOST]


@pytest.mark.parametrize("which", RECORDERS)
def test_it_is_said_how_many_stacks_are_cut(which: str, tmp_path: Path) -> None:
    trace = recorded(which, tmp_path, compiled(tmp_path))
    assert json.loads(steve("info", "--json", trace).text)["cut_stacks"].keys() == {LOST}
    assert f"{LOST}" in run(["steve", "summary", trace]).complaint
    whole = recorded(which, tmp_path, "/bin/true")
    assert "cut_stacks" not in json.loads(steve("info", "--json", whole).text)
    assert "not reach the start" not in run(["steve", "summary", whole]).complaint


@pytest.mark.parametrize("kind", ["-pie", "-no-pie"])
@pytest.mark.parametrize("which", RECORDERS)
def test_a_program_with_gaps(which: str, kind: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, kind, *GAPS)
    segments = [line.split() for line in good(["readelf", "-lW", program]).text.splitlines() if "LOAD" in line]
    ends = [int(words[2], 16) + int(words[5], 16) for words in segments]
    assert any(int(after[2], 16) - end > 4096 for end, after in zip(ends, segments[1:])), "the program has no gaps"
    trace = recorded(which, tmp_path, program)
    assert stacks(trace)[11] == ["framed", "from_framed", "main"]
    (module,) = (m for m in json.loads(steve("info", "--json", trace).text)["modules"] if m["object"] == str(program))
    assert module["build_id"] and module["build_id"] in good(["readelf", "-n", program]).text
