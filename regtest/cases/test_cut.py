"""test_cut - stacks that have more frames than --stack-depth say so, and no others do.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import NEW
from support import good, record, steve
from test_lua_lines import events, script

DEPTH = """\
#include <stdlib.h>

#define APART __attribute__((noinline))

static APART void *down(int n)
{
    void *block = n ? down(n - 1) : malloc(100);
    asm volatile("" : : "r"(block) : "memory");
    return block;
}

static APART void first(int levels)
{
    for (int i = 0; i < 10; i++)
        free(down(levels));
}

static APART void second(int levels)
{
    for (int i = 0; i < 20; i++)
        free(down(levels));
}

int main(int n, char **arguments)
{
    first(atoi(arguments[1]));
    second(atoi(arguments[1]));
    return n != 2;
}
"""
LUA = """\
local function down(n)
  if n == 0 then return {} end
  local t = down(n - 1)
  return t
end
for i = 1, 10 do down(tonumber(arg[1])) end
"""


@pytest.fixture(scope="module", name="program")
def made_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    (folder / "p.c").write_text(DEPTH)
    good(["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-o", "p", "p.c"], cwd=folder)
    return folder / "p"


def stacks(path: Path, size: int | None = None) -> Counter[tuple[str, ...]]:
    """The functions of the stacks of all blocks, or of those of a size, innermost first."""
    found: Counter[tuple[str, ...]] = Counter()
    for reader, event in events(path, (NEW,)):
        if size in (None, int(event["size"])):
            found[tuple(f.function for f in reader.stack_frames(int(event["ref"])))] += 1
    return found


def recorded(path: Path, program: Path, levels: int, *options: str) -> Counter[tuple[str, ...]]:
    trace = record(path, [program, str(levels)], "--trace-mem=no", *options)
    assert trace.run.status == 0
    return stacks(trace.path, 100)


def test_whole_stacks(tmp_path: Path, program: Path) -> None:
    """By default, also of 150 frames, with both callers of the recursion."""
    for levels in (30, 150):
        found = recorded(tmp_path / "t.ljt", program, levels)
        assert {(names[1 : levels + 3], count) for names, count in found.items()} == {
            (("down",) * (levels + 1) + (root,), count) for root, count in (("first", 10), ("second", 20))
        }
        assert all("main" in names and not names[-1].startswith("[cut") for names in found)


def test_exactly_where_it_was_cut(tmp_path: Path, program: Path) -> None:
    """A stack of just as many frames as are kept is whole."""
    (whole,) = {len(names) for names in recorded(tmp_path / "t.ljt", program, 10)}
    for depth in (whole + 1, whole, whole - 1, 5, 1):
        found = recorded(tmp_path / "t.ljt", program, 10, f"--stack-depth={depth}")
        mark = (f"[cut at {depth}]",) if depth < whole else ()
        assert {names[depth:] for names in found} == {mark}
        assert sum(found.values()) == 30 and all(len(names) == min(depth, whole) + len(mark) for names in found)
    assert recorded(tmp_path / "t.ljt", program, 10, "--stack-depth=0") == {(): 30}


def test_deepest(tmp_path: Path, program: Path) -> None:
    found = recorded(tmp_path / "t.ljt", program, 1000)
    assert found == {("malloc",) + 199 * ("down",) + ("[cut at 200]",): 30}
    found = recorded(tmp_path / "t.ljt", program, 1000, "--stack-depth=500")
    assert found == {("malloc",) + 499 * ("down",) + ("[cut at 500]",): 30}


def deepest(path: Path, argv: list[object], *options: str) -> tuple[str, ...]:
    """The stack of the tables that are made at the end of the recursion."""
    trace = record(path, argv, "--check-stacks=yes", *options)
    found = stacks(trace.path)
    return max((names for names in found if found[names] == 10), key=lambda names: names.count("down"))


def test_lua(tmp_path: Path) -> None:
    """Stacks of Lua, which are joined from those of C and of Lua."""
    argv = ["luajit", "-joff", script(tmp_path, LUA), "40"]
    whole = deepest(tmp_path / "t.ljt", argv)
    assert whole.count("down") == 41 and not whole[-1].startswith("[cut")
    for depth in (30, len(whole) - 1):
        assert deepest(tmp_path / "t.ljt", argv, f"--stack-depth={depth}") == (*whole[:depth], f"[cut at {depth}]")
    for depth in (len(whole), len(whole) + 1):
        assert deepest(tmp_path / "t.ljt", argv, f"--stack-depth={depth}") == whole


def test_natively(tmp_path: Path, program: Path) -> None:
    """The native recorder marks stacks of C, and those joined with Lua, in the same way."""
    good(["ljtrace", "run", f"--out={tmp_path / 'c.ljt'}", program, "1000"])
    assert stacks(tmp_path / "c.ljt", 100) == {("malloc",) + 199 * ("down",) + ("[cut at 200]",): 30}
    argv = ["luajit", "-joff", script(tmp_path, LUA), "40"]
    good(["ljtrace", "run", "--stack-depth=12", f"--out={tmp_path / 'lua.ljt'}", *argv])
    ends = {names[-1] for names in stacks(tmp_path / "lua.ljt") if "down" in names}
    assert "[cut at 12]" in ends and not any(end.startswith("0x") for end in ends)


def test_every_view_shows_it(tmp_path: Path, program: Path) -> None:
    record(tmp_path / "t.ljt", [program, "30"], "--stack-depth=12")
    folded = steve("export", "--format=folded", tmp_path / "t.ljt", "-o", "-").text
    assert folded.count("[cut at 12];") >= 1, folded
