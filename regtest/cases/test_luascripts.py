"""test_luascripts - the project's Lua scripts (regtest/lua) print the same under the recorder as natively.

They cover the language, the libraries, FFI and the JIT compiler; all run in one process for each way to run
them (regtest/lua/run.lua). The test does not judge their output, but none of them may fail.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from functools import cache
from typing import Callable

import pytest

from support import SOURCE, Trace, record, run
from test_findings import found_in, names

SCRIPTS = sorted(p for p in (SOURCE / "regtest/lua").glob("*.lua") if p.name != "run.lua")
RUN = SOURCE / "regtest/lua/run.lua"


def command(*flags: str, interpreter: object = "luajit") -> list[object]:
    return [interpreter, *flags, RUN, *SCRIPTS]


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 60


# the first with the translator's own checks of all that is instrumented
WAYS = {
    "jit": ([], ["--check-ir=yes"]),
    "interpreter": (["-joff"], ["--trace-mem=no"]),
    "eager jit": (["-O-sink", "-Ohotloop=3"], ["--trace-mem=no"]),
}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    """The recording of all scripts, by the name of the way."""
    folder = tmp_path_factory.mktemp("scripts")

    @cache
    def made(way: str) -> Trace:
        flags, options = WAYS[way]
        return record(folder / f"{way}.ljt", command(*flags), *options)

    return made


@pytest.mark.parametrize("way", WAYS)
def test_same_output(way: str, traced: Callable[[str], Trace]) -> None:
    native = run(command(*WAYS[way][0]))
    assert native.status == 0 and b"FAILED" not in native.out, native.text[-2000:]
    assert native.out.count(b"\n== ") == len(SCRIPTS)
    done = traced(way).run
    assert done.status == 0
    assert done.out.splitlines() == native.out.splitlines()
    assert done.err_of_program == native.err


def test_findings_are_only_the_known_garbage(traced: Callable[[str], Trace]) -> None:
    """Two of the programs make garbage on purpose, in loops of 100,000 and more."""
    found = names(found_in(traced("jit")))
    assert found["growth"] == found["capacity"] == []
    assert len(found["temporary_line"]) == 2
    assert all("(gc_churn.lua:" in site or "(jit_allocs.lua:" in site for site in found["temporary_line"])
