"""test_luamodule - what a Lua script can do with the recorder by `require "ljtrace"`, JIT on and off.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import shutil
from pathlib import Path

import pytest

from support import INSTALLED_VALGRIND, SOURCE, Trace, record, run, steve, words

SCRIPT = SOURCE / "regtest/native/requests.lua"
BLOCK = "60017"  # with the header of a cdata
FLAGS = {"jit": [], "interpreter": ["-joff"], "eager jit": ["-Ohotloop=2"]}


def stores(trace: Trace) -> set[int]:
    """Hundreds of the offsets (without the header) to which the script stored."""
    return {(int(w[3]) - 16) // 100 for w in words(trace.view("blocks", BLOCK)) if w[0] == "S"}


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_under_the_recorder(flags: list[str], tmp_path: Path) -> None:
    native = run(["luajit", *flags, SCRIPT])
    assert (native.status, native.err) == (0, b"false\n"), native.complaint
    trace = record(tmp_path / "t.ljt", ["luajit", *flags, SCRIPT], "--start-off=yes")
    assert (trace.run.status, trace.run.out) == (0, native.out)
    assert trace.run.err_of_program == b"true\n"
    seen = stores(trace)
    assert 20 in seen and 10 not in seen and 30 not in seen
    assert sum(e[0] == "mark" for e in trace.events()) == 1 + 1 + 1 + 1 + 1 + 300


def test_marks_bound_an_analysis(tmp_path: Path) -> None:
    program = 'local t = require "ljtrace" local k = {} t.mark("a") for i = 1, 50 do k[i] = {} end t.mark("b")'
    trace = record(tmp_path / "t.ljt", ["luajit", "-e", program], "--trace-mem=no")
    listed = steve("leaks", trace.path, "--from", "a", "--to", "b", "--json").text
    assert '"blocks": 5' in listed  # the 50 tables, and hardly more


@pytest.mark.parametrize(
    "why,options",
    [
        ("no ffi", ["-e", "package.preload.ffi = function() error('none') end package.loaded.ffi = nil"]),
        ("under another tool", []),
    ],
)
def test_does_nothing_without_the_recorder(why: str, options: list[str]) -> None:
    tool = [*INSTALLED_VALGRIND, "-q", "--tool=none"] if not options else []
    ask = "local t = require 'ljtrace' t.start() t.mark('x') t.snapshot() t.stop() print(t.running())"
    done = run([*tool, "luajit", *options, "-e", ask])
    assert (done.status, done.out) == (0, b"false\n"), done.complaint


def test_other_lua_can_load_it() -> None:
    lua = shutil.which("lua5.1") or shutil.which("lua5.4") or shutil.which("lua")
    if lua is None:
        pytest.skip("no other Lua is installed (package lua5.1)")
    done = run([lua, "-e", "local t = require 'ljtrace' t.mark('x') print(t.running())"])
    assert (done.status, done.out) == (0, b"false\n")
