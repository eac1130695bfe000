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
