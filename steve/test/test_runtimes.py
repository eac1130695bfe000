"""Runtimes with pools of their own are recognized by files, functions and facts, and other programs are not.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from steve.importers._writer import TraceWriter
from steve.trace import runtimes
from steve.trace._memtrace import Trace

FILES = {
    "Python": ["/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", "/usr/bin/python3"],
    "PyPy": ["/usr/bin/pypy3"],
    "Ruby": ["/usr/bin/ruby3.1", "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1"],
    "PHP": ["/usr/bin/php8.2", "/usr/sbin/php-fpm8.2", "/usr/lib/apache2/modules/libphp8.2.so"],
    "Perl": ["/usr/bin/perl", "/usr/lib/x86_64-linux-gnu/libperl.so.5.36"],
    "The Boehm collector": ["/usr/lib/x86_64-linux-gnu/libgc.so.1"],
    "Go": ["/usr/lib/go-1.19/bin/go"],
    "The Java virtual machine": ["/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"],
    "V8": ["/usr/bin/node", "/usr/lib/x86_64-linux-gnu/libnode.so.108"],
    "Mono or .NET": ["/usr/bin/mono-sgen", "/usr/share/dotnet/libcoreclr.so"],
    "OCaml": ["/usr/bin/ocamlrun"],
    "Haskell": ["/usr/lib/ghc/bin/ghc-9.0.2"],
    "Erlang": ["/usr/lib/erlang/erts-13.1.5/bin/beam.smp"],
    "SBCL": ["/usr/bin/sbcl"],
    "R": ["/usr/lib/R/lib/libR.so"],
    "A Lua that is not LuaJIT": ["/usr/bin/lua5.4", "/usr/lib/x86_64-linux-gnu/liblua5.1.so.0", "/usr/bin/luatex"],
}
FUNCTIONS = {
    "Python": "_PyEval_EvalFrameDefault",
    "PHP": "php_execute_script",
    "GLib": "g_slice_alloc",
    "The Boehm collector": "GC_malloc_atomic",
    "Go": "runtime.goexit.abi0",
    "V8": "v8::Isolate::New(v8::Isolate::CreateParams const&)",
    "OCaml": "caml_main",
    "Haskell": "hs_main",
    "A Lua that is not LuaJIT": "luaV_execute",
}
OTHERS = [
    "/usr/bin/luajit",
    "/usr/bin/gopher",
    "/usr/bin/pythonic",
    "/usr/bin/nodeinfo",
    "/usr/lib/libgcrypt.so.20",
    "/usr/lib/x86_64-linux-gnu/liblua5.1-luv.so.0",
]


def made(
    path: Path,
    modules: list[str] | None = None,
    functions: list[str] | None = None,
    facts: dict[str, str] | None = None,
) -> Trace:
    """A trace with these object files, a block for each function, and facts; read to its end."""
    with path.open("wb") as file:
        writer = TraceWriter(os.dup(file.fileno()))
        for key, value in (facts or {}).items():
            writer.fact(key, value)
        for number, module in enumerate(modules or []):
            writer.module(module, 0x10000 * (number + 1), 0x1000, 0, b"")
        for number, function in enumerate(functions or []):
            writer.new(0x1000000 + 64 * number, 48, writer.stack(0, writer.frame(0x400000 + number, function)))
        writer.finish()
    trace = Trace(str(path))
    for _ in trace.batches():
        pass
    return trace


def names(trace: Trace) -> list[str]:
    return [each.name for each in runtimes.found(trace)]


@pytest.mark.parametrize("name", FILES)
def test_by_object_files(name: str, tmp_path: Path) -> None:
    for path in FILES[name]:
        assert names(made(tmp_path / "t.ljt", [path])) == [name], path
        assert names(made(tmp_path / "t.ljt", facts={"executable": path})) == [name], path


@pytest.mark.parametrize("name", FUNCTIONS)
def test_by_functions(name: str, tmp_path: Path) -> None:
    assert names(made(tmp_path / "t.ljt", ["/usr/bin/app"], ["work", FUNCTIONS[name]])) == [name]


def test_a_runtime_that_knows_valgrind(tmp_path: Path) -> None:
    assert not names(made(tmp_path / "t.ljt", functions=["g_slice_alloc"], facts={"valgrind": "3.19.0"}))


def test_other_programs(tmp_path: Path) -> None:
    functions = ["main", "lua_newstate", "luaL_newstate", "malloc", "go", "python3"]
    trace = made(tmp_path / "t.ljt", OTHERS, functions, {"executable": "/usr/bin/cat"})
    assert not names(trace) and not runtimes.facts(trace)


@pytest.mark.parametrize(
    "variable, value, off",
    [
        ("PYTHONMALLOC", "malloc", True),
        ("PYTHONMALLOC", "malloc_debug", True),
        ("PYTHONMALLOC", "pymalloc", False),
        ("PYTHONMALLOC", "", False),
        ("USE_ZEND_ALLOC", "0", True),
        ("USE_ZEND_ALLOC", "", True),
        ("USE_ZEND_ALLOC", "1", False),
        ("G_SLICE", "always-malloc", True),
        ("G_SLICE", "debug-blocks:always-malloc", True),
        ("G_SLICE", "debug-blocks", False),
    ],
)
def test_pools_that_are_switched_off(variable: str, value: str, off: bool, tmp_path: Path) -> None:
    functions = {"PYTHONMALLOC": "Py_RunMain", "USE_ZEND_ALLOC": "zend_execute_scripts", "G_SLICE": "g_slice_alloc"}
    trace = made(tmp_path / "t.ljt", [], [functions[variable]], {f"setting {variable}": value})
    assert bool(names(trace)) == (not off)


def test_the_table() -> None:
    """The recorders note each variable, and each text is a part of one sentence."""
    header = Path(__file__).parents[2] / "ljtrace/protocol/pool_settings.h"
    noted = re.findall(r'"([A-Z_]+)"', header.read_text())
    assert sorted(noted) == sorted(each.variable for each in runtimes.RUNTIMES if each.variable)
    for each in (*runtimes.RUNTIMES, runtimes.LUA):
        assert each.hidden and each.remedy and not (each.hidden + each.remedy).endswith(".")


def test_commands_say_it(tmp_path: Path, steve: Any) -> None:
    path = tmp_path / "t.ljt"
    made(path, ["/usr/bin/python3.11"], ["main"])
    said = "PYTHONMALLOC=malloc switches the pools off"
    info, summary = steve("info", path), steve("summary", path)
    assert said in " ".join(info.out.split()) and "Python:" in info.out
    assert said in summary.err and said not in steve("summary", "-q", path).err
    for command in ("info", "summary", "report"):
        found = json.loads(steve(command, "--json", path).out)["not_seen"]
        assert [each["runtime"] for each in found] == ["Python"] and found[0]["remedy"] == said
    steve("report", path, "-o", tmp_path / "r.html")
    assert said in (tmp_path / "r.html").read_text()


def test_how_much_is_not_seen(tmp_path: Path, steve: Any) -> None:
    """The most memory that the program used, less its blocks at their peak: if it is known, and of the whole trace."""
    facts = {runtimes.PEAK: "100000"}
    trace = made(tmp_path / "t.ljt", ["/usr/bin/python3.11"], ["f", "g"], facts)
    (found,) = runtimes.facts(trace, 96)["not_seen"]
    assert found["bytes_at_most"] == 99904
    assert (
        "(at most 99,904 bytes, with stacks and what allocators keep); PYTHONMALLOC"
        in runtimes.remarks({"not_seen": [found]})[0]
    )
    assert "bytes_at_most" not in runtimes.facts(trace)["not_seen"][0]
    assert runtimes.outside_of_blocks(trace, 200000) == 0
    done = steve("summary", "--json", "t.ljt")
    assert json.loads(done.out)["not_seen"][0]["bytes_at_most"] == 100000 - 96
    part = steve("summary", "--json", "t.ljt", "--where", "size > 1000")
    assert "bytes_at_most" not in json.loads(part.out)["not_seen"][0]
    for wrong in ("", "x", "-5"):
        other = made(tmp_path / "o.ljt", ["/usr/bin/python3.11"], [], {runtimes.PEAK: wrong})
        assert runtimes.outside_of_blocks(other, 0) is None
    lua = made(tmp_path / "l.ljt", ["/usr/bin/lua5.4"], [], facts)
    assert "bytes_at_most" not in runtimes.facts(lua, 0)["not_seen"][0]
