"""test_luajit_variants - LuaJIT built in other ways is recorded as well as Debian's.

`make luajit-variants` builds them (regtest/luajit-variants), in a folder outside the tree, which can be named
with LJTRACE_LUAJIT_VARIANTS. What does not exist is skipped. Neither sizes nor versions show where these builds
keep their state, so they test the recorder's calibration.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
from pathlib import Path

import pytest

from support import APP_LUA, COUNTED_LUA, SOURCE, Trace, good, record, run, steve
from test_completeness import HOOK_ENV, of_lua, written_down
from test_lua_lines import ACCESSES, EXPECTED, KNOWN, access_lines, lines, script, typed_lines
from test_lua_places import CHUNK, COMPILED, LOADERS, compiled, layout_messages
from test_luascripts import command
from test_selfmade import FFIMADE, PROTECTED

VARIANTS = ("plain", "gc32", "assert", "sysmalloc", "nojit", "padded", "rwxmcode", "luajit2", "renumbered", "widened")
UNKNOWN = ("renumbered", "widened")  # whose layout cannot be found
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FOLDER = Path(os.environ.get("LJTRACE_LUAJIT_VARIANTS") or CACHE / "ljtrace/luajit-variants")
# every loop becomes a trace, and there is so little room for machine code that it is flushed repeatedly
SMALL_MCODE = ("-Ohotloop=1", "-Ohotexit=1", "-Osizemcode=4", "-Omaxmcode=16")


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Path:
    """The interpreter of a variant."""
    path = FOLDER / request.param / "luajit"
    if not path.exists():
        pytest.skip(f"LuaJIT `{request.param}` is not in {FOLDER}: `make luajit-variants` builds it")
    return path


def libraries(variant: Path) -> dict[str, str]:
    """The environment in which the interpreter finds its own Lua files."""
    return {"LUA_PATH": f"{variant.parent}/?.lua;./?.lua"}


def has_jit(variant: Path) -> bool:
    return variant.parent.name != "nojit"


@pytest.mark.parametrize("eager", [False, True], ids=["as it comes", "small mcode"])
def test_output_is_unchanged(variant: Path, eager: bool, tmp_path: Path) -> None:
    if eager and not has_jit(variant):
        pytest.skip("this variant has no compiler, so no machine code")
    argv = command(*(SMALL_MCODE if eager else ()), interpreter=variant)
    native = run(argv, env=libraries(variant))
    traced = record(tmp_path / "t.ljt", argv, "--trace-mem=no", env=libraries(variant)).run
    assert native.out.count(b"\n== ") > 60
    assert traced.status == native.status
    assert traced.out.splitlines() == native.out.splitlines()
    assert traced.err_of_program == native.err


def test_changed_machine_code_runs(variant: Path, tmp_path: Path) -> None:
    """Memory that the FFI protects and unprotects, as LuaJIT does with its own machine code. All ways in one process;
    test_selfmade runs each alone."""
    argv = [variant, FFIMADE, *PROTECTED]
    done = record(tmp_path / "t.ljt", argv, "--trace-mem=no", env=libraries(variant)).run
    assert (done.status, done.text) == (0, "".join(f"{way}: 0 wrong\n" for way in PROTECTED))


def test_heap_is_complete(variant: Path, tmp_path: Path) -> None:
    """The expected values come from an allocator hook in the same run, because some results of these builds
    depend on addresses."""
    report, env = tmp_path / "counts", {**HOOK_ENV, **libraries(variant)}
    argv = [variant, COUNTED_LUA, "log", report, APP_LUA, "0.1", "0.002"]
    trace = record(tmp_path / "t.ljt", argv, "--trace-mem=no", env=env)
    truth = written_down(tmp_path / "counts.calls")
    assert trace.run.out == good(argv, env=env).out
    assert of_lua(trace) == truth
    assert sum(kind == "new" for kind, *_ in truth) > 1000


def refused(trace: Trace) -> bool:
    """Does one message say that the layout of this LuaJIT is not known?"""
    return len(layout_messages(trace)) == 1


def test_lines_are_exact_or_refused(variant: Path, tmp_path: Path) -> None:
    off = ["-joff"] if has_jit(variant) else []
    trace = record(
        tmp_path / "t.ljt", [variant, *off, script(tmp_path, KNOWN)], "--trace-mem=no", env=libraries(variant)
    )
    assert trace.run.status == 0
    assert refused(trace) == (variant.parent.name in UNKNOWN), trace.run.complaint
    if refused(trace):
        assert set(lines(trace.path)) == {None}
        return
    seen = typed_lines(trace.path)
    assert {key: seen[key] for key in EXPECTED} == EXPECTED


def test_universes_are_whole(variant: Path, tmp_path: Path) -> None:
    """Sums, and no unreachable object after a full collection: functions in frames, parts of buffers,
    upvalues."""
    env = {"LUA_PATH": f"{variant.parent}/?.lua;{SOURCE}/ljtrace/lua/?.lua"}
    trace = record(tmp_path / "t.ljt", [variant, SOURCE / "regtest/native/names.lua"], "--trace-mem=no", env=env)
    assert trace.run.status == 0, trace.run.complaint
    if refused(trace):
        assert run(["steve", "universe", trace.path]).status == 1
        return
    found = json.loads(steve("universe", trace.path, "--snapshot=names", "--json", "--top=100000").text)
    assert found["unaccounted"] == 0 and found["objects"] > 600
    assert [row for row in found["holders"] if row["path"] == "(not reached)"] == []


def test_accesses_of_traces_have_lines(variant: Path, tmp_path: Path) -> None:
    if not has_jit(variant):
        pytest.skip("this variant has no compiler, so no traces")
    trace = record(tmp_path / "t.ljt", [variant, script(tmp_path, ACCESSES)], env=libraries(variant))
    if refused(trace):
        return
    counts = access_lines(trace.path)
    assert 90 * 1000 <= counts[6] <= 3 * 100 * 1000
    assert counts[6] > 0.9 * counts.total()


def test_the_parser_is_at_its_lines(variant: Path, tmp_path: Path) -> None:
    (tmp_path / "chunk.lua").write_text(CHUNK)
    trace = record(
        tmp_path / "t.ljt",
        [variant, script(tmp_path, LOADERS["dofile"]), tmp_path / "chunk.lua"],
        "--trace-mem=no",
        env=libraries(variant),
    )
    seen = compiled(trace.path)
    if variant.parent.name in UNKNOWN:
        assert not seen
        return
    assert all(seen[key] >= least for key, least in COMPILED.items()), seen
