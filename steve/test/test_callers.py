"""The frame of a stack at which an allocation site begins, for stacks as the recorder makes them, of programs
with and without Lua.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from types import SimpleNamespace
from typing import Any

import pytest
from steve.trace.callers import callers
from steve.trace.stacks import frame_text

LUAJIT, LIBRARY = "/usr/bin/luajit", "/usr/lib/libfoo.so"


def host(function: str = "", object: str = LUAJIT) -> Any:
    return SimpleNamespace(kind="host", function=function, object=object, file="", line=0, ip=0x123)


def of_lua(function: str, kind: str = "lua", line: int = 7) -> Any:
    file = "/src/app.lua" if line else ""
    return SimpleNamespace(kind=kind, function=function, object="", file=file, line=line, ip=0x456)



TREE, CALLER = of_lua("tree"), host("lua_pcall")
TREE_NAME, CALLER_NAME = "tree (app.lua:7)", "lua_pcall (luajit)"


@pytest.mark.parametrize("frames, expected", [
    ([], []),
    ([host("malloc", LIBRARY)], ["malloc (libfoo.so)"]),
    ([host("malloc", LIBRARY), host("operator new(unsigned long)", LIBRARY), host("parse", "/bin/x")], ["parse (x)"]),
    ([host("", "/bin/x"), host("", "/bin/x")], ["0x123 (x)", "0x123 (x)"]),
    # LuaJIT's own code, with and without names, also when it works for a line
    ([host(), host(), TREE, CALLER], [TREE_NAME, CALLER_NAME]),
    ([host("lj_mem_realloc"), host("rehashtab"), host("lj_tab_newkey"), TREE, CALLER],
     ["rehashtab (luajit)", TREE_NAME, CALLER_NAME]),
    ([host(), of_lua("GC", "vm", 0), of_lua("collectgarbage", "fast", 0), TREE],
     ["GC", "collectgarbage", TREE_NAME]),
    # linked into a program without symbols: the caller of Lua is LuaJIT
    ([host("", "/bin/game"), TREE, host("", "/bin/game")], [TREE_NAME, "0x123 (game)"]),
    # modules in C that allocate through Lua's API or directly, with and without names
    ([host(), host("lua_createtable"), host("decode", LIBRARY), of_lua("decode", "c", 0), TREE, CALLER],
     ["decode (libfoo.so)", "decode", TREE_NAME, CALLER_NAME]),
    ([host("malloc", LIBRARY), host("", LIBRARY), of_lua("decode", "c", 0), TREE, CALLER],
     ["0x123 (libfoo.so)", "decode", TREE_NAME, CALLER_NAME]),
    # a state is created: there is no Lua yet, so the name stays; the frame of the recorder's wrapper is
    # dropped
    ([host(), host("lj_state_new"), host("lua_newstate"),
      host("lua_newstate", "/usr/libexec/valgrind/vgpreload_ljtrace-amd64-linux.so"), host("main")],
     ["lua_newstate (luajit)", "main (luajit)"]),
    ([host(), host()], ["0x123 (luajit)", "0x123 (luajit)"]),
    ([None, TREE], ["", TREE_NAME]),
])
def test_callers(frames: list[Any], expected: list[str]) -> None:
    found = callers(frames)
    assert [frame_text(frames[i]) if frames[i] else "" for i in found] == expected


def test_a_frame_has_the_name_of_its_file_without_the_folder() -> None:
    frame = SimpleNamespace(kind="lua", function="main chunk", object="", file="/src/app.lua", line=3,
                            ip=0)
    assert frame_text(frame) == "main chunk (app.lua:3)"
