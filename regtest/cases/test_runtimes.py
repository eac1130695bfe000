"""test_runtimes - programs whose runtime has pools of its own, or a Lua that is not LuaJIT: what is said of them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import shutil
import sys
from pathlib import Path

import pytest

from support import Trace, record, steve
from test_native_lua import natively
from test_own_frames import totals

NOT_LUAJIT = "is not LuaJIT: its blocks are recorded without Lua lines and types"
SMALL = "keep = [[str(i)] for i in range(20000)]"
TABLES = "local keep = {} for i = 1, 1000 do keep[i] = {i, tostring(i)} end"


def recorded(native: bool, path: Path, argv: list[object]) -> Trace:
    return natively(path, argv) if native else record(path, argv, "--trace-mem=no")


def summary(trace: Trace) -> tuple[dict, str]:
    """The figures, and what is said on standard error."""
    done = steve("summary", "--json", trace.path)
    return json.loads(done.text), done.err.decode()


@pytest.mark.parametrize("native", [True, False], ids=["native", "valgrind"])
def test_objects_of_python(native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of Python that pymalloc hides are seen with the setting that is recommended."""
    argv = [sys.executable, "-c", SMALL]
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    hidden, said = summary(recorded(native, tmp_path / "a.ljt", argv))
    assert hidden["blocks"]["total"] < 20000
    assert [each["runtime"] for each in hidden["not_seen"]] == ["Python"] and "PYTHONMALLOC=malloc" in said
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    trace = recorded(native, tmp_path / "b.ljt", argv)
    seen, said = summary(trace)
    assert seen["blocks"]["total"] > 40000 and "not_seen" not in seen and not said
    facts = json.loads(steve("info", "--json", trace.path).text)["recording"]
    assert facts["setting PYTHONMALLOC"] == "malloc"


def test_plain_lua(tmp_path: Path) -> None:
    """Both recorders say so once, and record the same blocks: none of a scratch state is among them."""
    lua = shutil.which("lua5.4") or shutil.which("lua5.1")
    if lua is None:
        pytest.skip("no plain Lua is installed: apt-get install lua5.4")
    program = tmp_path / "p.lua"
    program.write_text(TABLES)
    native, traced = (recorded(each, tmp_path / f"{each}.ljt", [lua, program]) for each in (True, False))
    assert totals(native) == totals(traced) and totals(native)[0] > 2000
    for trace in (native, traced):
        assert trace.run.err.decode().count(NOT_LUAJIT) == 1
        figures, said = summary(trace)
        assert [each["runtime"] for each in figures["not_seen"]] == ["A Lua that is not LuaJIT"]
        assert "no lines of Lua" in said
        info = steve("info", trace.path).text
        assert "other_lua" in info and "not seen" in info


def test_luajit_is_no_other_lua(tmp_path: Path) -> None:
    program = tmp_path / "p.lua"
    program.write_text(TABLES)
    for native in (True, False):
        trace = recorded(native, tmp_path / f"{native}.ljt", ["luajit", program])
        assert NOT_LUAJIT not in trace.run.err.decode()
        figures, said = summary(trace)
        assert "not_seen" not in figures and not said


# what makes some ten megabytes of objects in each runtime, and a variable that switches its pools off
MANY = {
    "Python": ("/usr/bin/python3", ["-c", "keep = [[str(i)] for i in range(100000)]"], "PYTHONMALLOC=malloc"),
    "Ruby": ("ruby", ["-e", "keep = (1..100000).map { |i| [i.to_s] }"], ""),
    "PHP": ("php", ["-r", "$k = []; for ($i = 0; $i < 100000; $i++) $k[] = [(string)$i];"], "USE_ZEND_ALLOC=0"),
    "Perl": ("perl", ["-e", 'my @k; push @k, ["x$_"] for 1..100000;'], ""),
    "V8": ("node", ["-e", 'const k = []; for (let i = 0; i < 100000; i++) k.push(["x" + i]);'], ""),
    "OCaml": ("ocaml", ["keep.ml"], ""),
    "The Boehm collector": ("guile", ["-c", "(define k (map (lambda (i) (list i)) (iota 300000)))"], ""),
    "The Java virtual machine": ("java", ["-version"], ""),
}


@pytest.mark.parametrize("runtime", MANY)
def test_what_runtimes_hide(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is recognized, with the bytes that are in no block, if its pools are in none; where pools can be switched
    off, they are blocks then."""
    program, arguments, setting = MANY[runtime]
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    (tmp_path / "keep.ml").write_text("let keep = List.init 300000 string_of_int\n")
    monkeypatch.chdir(tmp_path)
    name, _, value = setting.partition("=")
    monkeypatch.delenv(name, raising=False) if name else None
    hidden, said = summary(natively(tmp_path / "a.ljt", [path, *arguments]))
    seen = [each for each in hidden["not_seen"] if each["runtime"] == runtime]
    assert len(seen) == 1 and runtime in said
    if runtime in ("Perl", "OCaml"):  # their pools are blocks
        assert "bytes_at_most" not in seen[0] and hidden["bytes"]["peak_live"] > 1_000_000
    else:
        assert seen[0]["bytes_at_most"] > 1_000_000 and f"at most {seen[0]['bytes_at_most']:,} bytes" in said
    if not name:
        return
    monkeypatch.setenv(name, value)
    figures, _ = summary(natively(tmp_path / "b.ljt", [path, *arguments]))
    assert runtime not in [each["runtime"] for each in figures.get("not_seen", [])]
    assert figures["blocks"]["total"] > 100_000 > hidden["blocks"]["total"]
