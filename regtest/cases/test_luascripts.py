"""test_luascripts - the project's Lua scripts (regtest/lua) print the same under the recorder as natively.

They cover the language, the libraries, FFI and the JIT compiler; all run in one process for each way to run
them (regtest/lua/run.lua). The test does not judge their output, but none of them may fail.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path

import pytest

from support import SOURCE, record, run

SCRIPTS = sorted(p for p in (SOURCE / "regtest/lua").glob("*.lua") if p.name != "run.lua")
RUN = SOURCE / "regtest/lua/run.lua"


def command(*flags: str, interpreter: object = "luajit") -> list[object]:
    return [interpreter, *flags, RUN, *SCRIPTS]


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 60


# the first with the translator's own checks of all that is instrumented
@pytest.mark.parametrize(
    "flags,options",
    [([], ["--check-ir=yes"]), (["-joff"], ["--trace-mem=no"]), (["-O-sink", "-Ohotloop=3"], ["--trace-mem=no"])],
    ids=["jit", "interpreter", "eager jit"],
)
def test_same_output(flags: list[str], options: list[str], tmp_path: Path) -> None:
    native = run(command(*flags))
    assert native.status == 0 and b"FAILED" not in native.out, native.text[-2000:]
    assert native.out.count(b"\n== ") == len(SCRIPTS)
    traced = record(tmp_path / "t.ljt", command(*flags), *options).run
    assert traced.status == 0
    assert traced.out.splitlines() == native.out.splitlines()
    assert traced.err_of_program == native.err
