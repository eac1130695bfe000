"""sysprof's files: reading, writing, folding; and flame graphs from them.

The bytes are made by the tests' own encoder (ljbytes).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from ljbytes import numbers, record, stream, symtab
from steve.profilers.sysprof.fold import Folder
from steve.profilers.sysprof.reader import SysprofFile
from steve.profilers.sysprof.samples import STATES
from steve.profilers.sysprof.writer import Frame, SysprofWriter
from test_memprof import harmless, mutated

MAIN, PCALL, VM, PAYLOAD = 0x1000, 0x2000, 0x3000, 0x4000
FIB, TOP = 0x40001000, 0x40002000
SYMBOLS = (
    record(0, TOP, "@pair.lua", 0),
    record(0, FIB, "@pair.lua", 10),
    record(1, MAIN, "main"),
    record(1, PCALL, "lua_pcall"),
    record(1, VM, "lj_BC_FUNCC"),
    record(1, PAYLOAD, "c_payload"),
)


def guest(state: int, lua: bytes, *host: int) -> bytes:
    """A sample with a Lua stack and a host stack, both innermost first."""
    return bytes([state]) + lua + b"\x80" + numbers(*host, 0)


def lua_frame(proto: int, line: int) -> bytes:
    return record(1, proto, line)


IN_LUA = guest(1, lua_frame(FIB, 10) + lua_frame(FIB, 10) + lua_frame(TOP, 0), PCALL, MAIN)
IN_C = guest(3, record(2, PAYLOAD) + lua_frame(TOP, 0), PAYLOAD, PAYLOAD, VM, PCALL, MAIN)
IN_BUILTIN = guest(2, record(3, 91) + lua_frame(TOP, 0), PCALL, MAIN)
IN_GC = bytes([4]) + numbers(VM, MAIN, 0)
ON_TRACE = record(9, 3, FIB, 11)
DATA = symtab(3, *SYMBOLS) + stream(b"ljp", 2, IN_LUA, IN_C, IN_LUA, IN_BUILTIN, IN_GC, ON_TRACE)
FOLDED = """\
TRACE [3] @pair.lua:11 1
main;lj_BC_FUNCC 1
main;lua_pcall;@pair.lua:0;@pair.lua:10;@pair.lua:10 2
main;lua_pcall;@pair.lua:0;builtin#91 1
main;lua_pcall;@pair.lua:0;lj_BC_FUNCC;c_payload;c_payload 1
"""


def test_folded_stacks_join_c_and_lua(steve: Any, profile: Callable) -> None:
    done = steve("sysprof", profile(DATA))
    assert (done.returncode, done.err, done.out) == (0, "", FOLDED)


def test_states_leaf_and_json(steve: Any, profile: Callable) -> None:
    counts = json.loads(steve("sysprof", "--states", "--json", profile(DATA)).out)
    assert list(counts) == list(STATES)
    assert {k: n for k, n in counts.items() if n} == {"LFUNC": 2, "FFUNC": 1, "CFUNC": 1, "GC": 1, "TRACE": 1}
    assert "@pair.lua:10 2\n" in steve("sysprof", "--leaf", profile(DATA)).out
    stacks = json.loads(steve("sysprof", "--json", profile(DATA)).out)
    assert sum(row["samples"] for row in stacks) == 6


def test_lua_without_a_call_from_c_is_not_lost(steve: Any, profile: Callable) -> None:
    data = symtab(3, *SYMBOLS) + stream(b"ljp", 2, guest(1, lua_frame(FIB, 10), MAIN), guest(1, b""))
    assert steve("sysprof", profile(data)).out == "LFUNC 1\nmain;@pair.lua:10 1\n"


def test_names_cannot_break_the_form(steve: Any, profile: Callable) -> None:
    """A chunk that is source text with separators, and one that could control a terminal."""
    data = symtab(3, record(0, FIB, "local a;\nreturn a", 0), record(1, MAIN, "\x1b[1mmain")) + stream(
        b"ljp", 2, guest(1, lua_frame(FIB, 0), MAIN)
    )
    assert steve("sysprof", profile(data)).out == "\\x1b[1mmain;local a, return a:0 1\n"


def test_symbols_among_samples(steve: Any, profile: Callable) -> None:
    data = symtab(3) + stream(
        b"ljp",
        2,
        record(10, FIB, "@late.lua", 4),
        record(11, MAIN, "start"),
        guest(1, lua_frame(FIB, 4), MAIN),
        record(12, 3, FIB, 9),
        record(9, 3, FIB, 9),
    )
    assert steve("sysprof", profile(data)).out == "TRACE [3] @late.lua:9 1\nstart;@late.lua:4 1\n"


@pytest.mark.parametrize(
    "tail,words",
    [(b"\x0d", "header 0x0d"), (b"\x01\x05", "frame of kind 5"), (b"\x00\x80", "cut off"), (b"\x80a", "after the end")],
)
def test_what_stands_before_damage_is_kept(tail: bytes, words: str, steve: Any, profile: Callable) -> None:
    done = steve("sysprof", profile(DATA[:-1] + tail))
    assert done.returncode == 1 and words in done.err and "offset" in done.err
    assert done.out == FOLDED


def consume(data: bytes) -> None:
    file = SysprofFile(data, "x")
    folder = Folder(file.symbols)
    for sample in file.samples():
        folder.stack(sample)


@examples(400)
@given(mutated(DATA) | st.binary(max_size=60))
def test_hostile_bytes(data: bytes) -> None:
    harmless(data, consume)


def written(samples: list[tuple[int, list[Frame], int]]) -> bytes:
    fd = os.memfd_create("sysprof")
    with os.fdopen(fd, "rb") as file:
        writer = SysprofWriter(fd)
        for sample in samples:
            writer.sample(*sample)
        writer.finish()
        file.seek(0)
        return file.read()


def text(frame: Frame) -> str:
    return f"{frame.name}:{frame.line}" if frame.lua else frame.name


FRAME = st.one_of(
    st.builds(Frame, st.just(True), st.sampled_from(["@a.lua", "@b.lua"]), st.integers(0, 9)),
    st.builds(Frame, st.just(False), st.sampled_from(["main", "work", "lua_pcall", "lua_call"]), st.just(0)),
)


@examples(500)
@given(st.integers(0, 9), st.lists(FRAME, min_size=1, max_size=12), st.integers(1, 3))
def test_whole_stacks_survive_the_format(state: int, stack: list[Frame], weight: int) -> None:
    """Every frame is read back at its place; only calls into Lua may be added."""
    file = SysprofFile(written([(state, stack, weight)]), "x")
    folder = Folder(file.symbols)
    samples = list(file.samples())
    assert file.problem is None and len(samples) == weight
    assert samples[0].state == (1 if STATES[state] == "TRACE" else state)
    names, expected = list(folder.stack(samples[0])), [text(frame) for frame in stack]
    for name in expected:
        while names and names[0] != name and names[0] == "lua_pcall":
            names.pop(0)
        assert names.pop(0) == name
    assert not names


def test_flame_graph_of_samples(steve: Any, profile: Callable, tmp_path: Path) -> None:
    """Widths are the shares of the samples, C and Lua are in one stack, siblings do not overlap."""
    assert steve("flame", profile(DATA), "-o", tmp_path / "f.svg").returncode == 0
    boxes = boxes_of(tmp_path / "f.svg")
    assert boxes["all"] == (0, 6, 0) and boxes["main"][1] == 5 and boxes["c_payload"][1:] == (1, 6)
    assert boxes["@pair.lua:10"][1] == 2


def boxes_of(path: Path) -> dict:
    """name -> (start, width, depth) in an SVG file of steve flame."""
    root = ElementTree.parse(path).getroot()
    groups = [g for g in root.iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "f"]
    return {g.get("data-n"): tuple(int(g.get(f"data-{k}", "")) for k in "swd") for g in groups}


def test_flame_graph_of_folded_text_is_safe(steve: Any, tmp_path: Path) -> None:
    (tmp_path / "x.folded").write_text('a<b>&"c";]]><script> 3\na<b>&"c" 1\n\n')
    assert steve("flame", "x.folded").returncode == 0
    assert boxes_of(tmp_path / "x.folded.svg") == {"all": (0, 4, 0), 'a<b>&"c"': (0, 4, 1), "]]><script>": (0, 3, 2)}
    (tmp_path / "bad.folded").write_text("a;b 1\nno number\n")
    done = steve("flame", "bad.folded")
    assert done.returncode == 1 and "line 2" in done.err and not (tmp_path / "bad.folded.svg").exists()


def test_a_million_narrow_stacks_make_a_small_file(steve: Any, tmp_path: Path) -> None:
    (tmp_path / "n.folded").write_text("".join(f"root;f{i} 1\n" for i in range(100000)))
    assert steve("flame", "n.folded").returncode == 0
    assert (tmp_path / "n.folded.svg").stat().st_size < 20000


SCRIPT = """\
heap 0x77 lua
stack main@main.c:3 lua_pcall top@@pair.lua:3/0 fib@@pair.lua:12/10
stack main@main.c:3 lua_pcall top@@pair.lua:4/0 c_payload
sample 1000 1 1 0
sample 1000 2 1 1
sample 1000 1 1 0
sample 1000 1 1 7
sample 1000 2 1 2
end exit
"""


def test_samples_of_a_memtrace(steve: Any, trace: Callable) -> None:
    """Whole stacks, directly and through a file of sysprof, whose frames are functions, not lines."""
    path = trace(SCRIPT)
    assert steve("sysprof", path).out == (
        "main;lua_pcall;top pair.lua:3;fib pair.lua:12 3000\n" "main;lua_pcall;top pair.lua:4;c_payload 2000\n"
    )
    states = json.loads(steve("sysprof", "--states", "--json", path).out)
    assert {k: n for k, n in states.items() if n} == {"LFUNC": 2000, "CFUNC": 1000, "GC": 1000, "TRACE": 1000}
    assert steve("export", "--format", "sysprof", path).returncode == 0
    done = steve("sysprof", path.with_name(path.name + ".sysprof"))
    assert done.out == (
        "main;lua_pcall;@pair.lua:0;@pair.lua:10 3\n" "main;lua_pcall;@pair.lua:0;c_payload 2\n"
    ), done.err


def test_a_trace_without_samples(steve: Any, trace: Callable) -> None:
    done = steve("sysprof", trace("N 16 16\nend exit\n"))
    assert done.returncode == 1 and "--sample-stacks" in done.err
