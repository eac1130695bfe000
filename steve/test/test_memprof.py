"""memprof's files: reading, writing and reporting, from its own files and from memtraces.

The tests have an encoder of their own (ljbytes), so that a mistake common to reader and writer is found.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from ljbytes import record, stream, symtab
from steve.profilers._ljstream import Heap, StreamError
from steve.profilers.memprof.places import C, INSIDE, LUA, TRACE, Place
from steve.profilers.memprof.reader import MemprofFile, recorded
from steve.profilers.memprof.writer import MemprofWriter

PROTO, CODE = 0x40001230, 0x7F00AA00
SYMBOLS = (record(0, PROTO, "@test.lua", 0), record(1, CODE, "callback"), record(2, 7, PROTO, 3))
# two allocations on line 10, one internal, one by C, one on trace 7; a resize; frees
EVENTS = (
    record(0x09, PROTO, 10, 0x1000, 100),
    record(0x09, PROTO, 10, 0x2000, 48),
    record(0x05, 0x3000, 64),
    record(0x0D, CODE, 0x4000, 32),
    record(0x11, 7, 0x5000, 16),
    record(0x0B, PROTO, 12, 0x1000, 100, 0x6000, 300),
    record(0x06, 0x3000, 64),
    record(0x0A, PROTO, 14, 0x2000, 48),
    record(0x06, 0x9990, 8),
)
V3 = symtab(3, *SYMBOLS) + stream(b"ljm", 3, *EVENTS)
REPORT = """\
ALLOCATIONS
@test.lua:0, line 10: 2\t148\t0
CFUNC callback: 1\t32\t0
INTERNAL: 1\t64\t0
TRACE [7] started at @test.lua:3: 1\t16\t0

REALLOCATIONS
@test.lua:0, line 12: 1\t300\t100
\tOverrides:
\t\t@test.lua:0, line 10


DEALLOCATIONS
INTERNAL: 2\t0\t72
\tOverrides:
\t\tINTERNAL

@test.lua:0, line 14: 1\t0\t48
\tOverrides:
\t\t@test.lua:0, line 10


HEAP SUMMARY:
@test.lua:0, line 12 holds 300B: 1 allocs, 0 frees
CFUNC callback holds 32B: 1 allocs, 0 frees
TRACE [7] started at @test.lua:3 holds 16B: 1 allocs, 0 frees

"""


def test_report_of_version_3(steve: Any, profile: Callable) -> None:
    done = steve("memprof", profile(V3))
    assert (done.returncode, done.err) == (0, "")
    assert done.out == REPORT


def test_odd_lines_names_and_blocks(steve: Any, profile: Callable) -> None:
    """The line -1 of a builtin; names that could control a terminal; a block made where another one is
    recorded."""
    data = symtab(3, record(0, PROTO, "=\x1b[31mred", 2**64 - 1), record(1, CODE, "c\x07")) + stream(
        b"ljm",
        3,
        record(0x09, PROTO, 2**64 - 1, 0x10, 100),
        record(0x0D, CODE, 0x10, 7),
        record(0x09, PROTO, 3, 0x20, 30),
        record(0x0A, PROTO, 3, 0x20, 30),
    )
    done = steve("memprof", profile(data))
    assert (done.returncode, done.err) == (0, "") and "\x1b" not in done.out and "\x07" not in done.out
    assert "=\\x1b[31mred:-1, line -1: 1\t100\t0" in done.out
    assert done.out.partition("HEAP SUMMARY:\n")[2] == "CFUNC c\\x07 holds 7B: 1 allocs, 0 frees\n\n"


def test_script_is_the_same(profile: Callable) -> None:
    import subprocess

    done = subprocess.run(["luajit-parse-memprof", profile(V3)], capture_output=True, text=True, check=True)
    assert done.stdout == REPORT


def test_symbols_among_the_events(steve: Any, profile: Callable) -> None:
    """A later symbol replaces one with the same address. Events before it keep the old name."""
    events = (
        record(0x08, PROTO, "@old.lua", 1),
        record(0x09, PROTO, 2, 0x10, 8),
        record(0x08, PROTO, "@new.lua", 5),
        record(0x09, PROTO, 6, 0x20, 8),
        record(0x0C, CODE, "later"),
        record(0x0D, CODE + 4, 0x30, 8),
        record(0x10, 9, PROTO, 6),
        record(0x11, 9, 0x40, 8),
    )
    rows = json.loads(steve("memprof", "--json", profile(symtab(3) + stream(b"ljm", 3, *events))).out)
    assert {row["place"] for row in rows["allocations"]} == {
        "@old.lua:1, line 2",
        "@new.lua:5, line 6",
        "CFUNC later",
        "TRACE [9] started at @new.lua:6",
    }


V1_EVENTS = (
    record(0x09, PROTO, 10, 0x1000, 100),
    record(0x49, PROTO, 11, 0x2000, 50),
    record(0x06, 0x2000, 50),
    record(0x45, 0x3000, 7),
)
BUILTIN = record(0, 0x888, "=[builtin:concat]", 2**64 - 1)


@pytest.mark.parametrize("vm_address", [b"", b"\x80\xa0\xc0\x80\x04", b"\x80\x81\x80\x04"])
def test_first_versions_with_and_without_vm_address(vm_address: bytes, steve: Any, profile: Callable) -> None:
    table = symtab(1, record(0, PROTO, "@v1.lua", 4), BUILTIN)
    data = table[:7] + vm_address + table[7:] + stream(b"ljm", 1, *V1_EVENTS)
    done = steve("memprof", "--heap-snap-interval", "1", profile(data))
    assert done.returncode == 0, done.err
    assert done.out.startswith(
        "===== HEAP SNAPSHOT, 1 seconds passed\n@v1.lua:4, line 10 holds 100 bytes\n\n"
        "===== HEAP SNAPSHOT, 2 seconds passed\n"
    )
    assert "@v1.lua:4, line 10: 1\t100\t0\n" in done.out


def test_empty_symtab_of_version_1_is_no_vm_address(steve: Any, profile: Callable) -> None:
    assert (
        "INTERNAL: 1\t64\t0" in steve("memprof", profile(symtab(1) + stream(b"ljm", 1, record(0x05, 0x3000, 64)))).out
    )


def test_options(steve: Any, profile: Callable) -> None:
    big = symtab(3, *SYMBOLS) + stream(b"ljm", 3, record(0x09, PROTO, 10, 0x10, 3 << 20), *EVENTS[1:])
    done = steve("memprof", "--leak-only", "--human-readable", "--today", profile(big))
    assert done.out.splitlines()[:3] == [
        "HEAP SUMMARY:",
        "@test.lua:10 holds 3.0MiB: 2 allocs, 1 frees",
        "@test.lua:12 holds 300B: 1 allocs, 0 frees",
    ]
    assert "@test.lua:10: 2 events\t+3145776B\t-0B\n" in steve("memprof", "--today", profile(big)).out
    refused = steve("memprof", "--heap-snap-interval", "1", profile(big))
    assert refused.returncode == 1 and "no time marks" in refused.err


def test_aliases_of_chunks_with_many_lines(steve: Any, profile: Callable) -> None:
    table = symtab(3, record(0, PROTO, "local a\nreturn a", 0))
    done = steve("memprof", profile(table + stream(b"ljm", 3, record(0x09, PROTO, 1, 16, 16))))
    assert "function_alias_0:0, line 1: 1\t16\t0\n" in done.out
    assert done.out.endswith("ALIASES:\nfunction_alias_0:\nlocal a\nreturn a\n\n")


@pytest.mark.parametrize(
    "data,offset,words",
    [
        (symtab(3) + b"ljx\3\0\0\0", 8, "expected 'ljm'"),
        (b"", 0, "is empty"),
        (symtab(3)[:3] + b"\2" + symtab(3)[4:], 3, "version 2"),
        (b"ljs\3\0\0", 4, "are left"),
        (symtab(3) + b"ljm\4\0\0\0", 11, "version 4"),
        (b"ljs\3\0\0\0\5", 7, "symbol of kind 5"),
        (symtab(1, record(1, 2, "x")), 7, "symbol of kind 1"),
        (b"ljs\3\0\0\0\0\1\xff\xff\xff\xff\x0f", 14, "bytes are announced"),
    ],
)
def test_files_that_cannot_be_read(data: bytes, offset: int, words: str, steve: Any, profile: Callable) -> None:
    done = steve("memprof", profile(data))
    assert done.returncode == 1 and words in done.err
    assert done.out == "" and len(done.err.splitlines()) == 1
    assert not data or f"offset {offset}:" in done.err


@pytest.mark.parametrize(
    "tail,words",
    [
        (b"\x14", "header 0x14"),
        (b"\x01", "header 0x01"),
        (b"\x04", "header 0x04"),
        (b"\x81", "header 0x81"),
        (b"\x05" + b"\xff" * 10, "over 64 bits"),
        (b"\x05\x10", "cut off"),
        (b"", "cut off"),
        (b"\x80\x00", "after the end"),
    ],
)
def test_what_stands_before_damage_is_reported(tail: bytes, words: str, steve: Any, profile: Callable) -> None:
    head = symtab(3, *SYMBOLS) + stream(b"ljm", 3, *EVENTS)[:-1]
    done = steve("memprof", profile(head + tail))
    assert done.returncode == 1 and words in done.err and "offset" in done.err
    assert done.out == REPORT


def harmless(data: bytes, reads: Callable[[bytes], object]) -> None:
    """Either the file can be read, or one error describes what is wrong."""
    try:
        reads(data)
    except StreamError as error:
        assert 0 <= error.offset <= len(data)


def mutated(good: bytes) -> st.SearchStrategy[bytes]:
    """The valid bytes with some of them changed, removed or inserted."""
    edit = st.tuples(st.integers(0, len(good)), st.integers(0, 4), st.binary(max_size=6))

    def apply(edits: list[tuple]) -> bytes:
        data = good
        for at, removed, put in edits:
            data = data[:at] + put + data[at + removed :]
        return data

    return st.lists(edit, min_size=1, max_size=4).map(apply)


@examples(400)
@given(mutated(V3) | mutated(symtab(1, BUILTIN) + stream(b"ljm", 1, *V1_EVENTS)) | st.binary(max_size=80))
def test_hostile_bytes(data: bytes) -> None:
    harmless(data, lambda d: MemprofFile(d, "x").read(Heap()))


def write(events: list[tuple]) -> bytes:
    fd = os.memfd_create("memprof")
    with os.fdopen(fd, "rb") as file:
        writer = MemprofWriter(fd)
        for name, *what in events:
            getattr(writer, name)(*what)
        writer.finish()
        file.seek(0)
        return file.read()


NUMBER = st.integers(0, 2**64 - 1)
PLACE = st.one_of(
    st.just(INSIDE),
    st.builds(
        lambda *where: Place(LUA, *where),
        st.sampled_from(["@a.lua", "=b", "@c\nd", ""]),
        st.sampled_from([-1, 0, 7]),
        st.integers(0, 2**40),
    ),
    st.builds(lambda n: Place(C, f"f{n}", number=4096 * n), st.integers(1, 9)),
    st.builds(lambda n: Place(TRACE, "@t.lua", line=n, number=n), st.integers(1, 9)),
)
EVENT = st.one_of(
    st.tuples(st.just("alloc"), PLACE, NUMBER, NUMBER),
    st.tuples(st.just("free"), PLACE, NUMBER, NUMBER),
    st.tuples(st.just("realloc"), PLACE, NUMBER, NUMBER, NUMBER, NUMBER),
)


@examples(200)
@given(st.lists(EVENT, max_size=30))
def test_what_is_written_is_read(events: list[tuple]) -> None:
    file = MemprofFile(write(events), "x")
    assert recorded(file) == events
    assert file.problem is None and (file.symtab_version, file.version) == (3, 3)


def test_written_bytes_are_the_formats() -> None:
    """The written bytes are exactly those of the format, with each symbol before its first use."""
    place = Place(LUA, "@t.lua", 3, 300)
    assert write(
        [
            ("alloc", place, 0x1000, 500),
            ("realloc", INSIDE, 0x1000, 500, 0x2000, 7),
            ("free", Place(C, "f", number=0x55), 0x2000, 7),
        ]
    ) == (
        b"ljs\3\0\0\0\x80"
        b"ljm\3\0\0\0"
        b"\x08\x80\x20\x06@t.lua\3"
        b"\x09\x80\x20\xac\2\x80\x20\xf4\3"
        b"\x07\x80\x20\xf4\3\x80\x40\7"
        b"\x0c\x55\1f"
        b"\x0e\x55\x80\x40\7"
        b"\x80"
    )


SCRIPT = """\
info command luajit t.lua
stack main@main.c:1 lua_pcall grow@@t.lua:12/10 malloc
stack main@main.c:1 lua_pcall grow@@t.lua:14/10
heap 0x77 lua
N 0x1000 100 1 1
N 0x2000 50 2 1
N 0x9000 999 1
R 0x1000 0x3000 400 2 1
F 0x2000 1 1
F 0x9000
end exit
"""


def test_from_a_memtrace(steve: Any, trace: Callable) -> None:
    """Only Lua heaps, with places that are Lua lines. The export gives the same report as the trace."""
    path = trace(SCRIPT)
    report = steve("memprof", path)
    assert report.returncode == 0, report.err
    assert "@t.lua:10, line 12: 1\t100\t0\n@t.lua:10, line 14: 1\t50\t0\n" in report.out
    assert "HEAP SUMMARY:\n@t.lua:10, line 14 holds 400B: 2 allocs, 1 frees\n" in report.out
    assert steve("export", "--format", "memprof", path).returncode == 0
    assert steve("memprof", path.with_name(path.name + ".memprof")).out == report.out
    everything = steve("memprof", "--heap", "all", path).out
    assert "@t.lua:10, line 12: 2\t1099\t0\n" in everything


def test_a_trace_without_lua(steve: Any, trace: Callable) -> None:
    path = trace("stack main@m.c:3 work@m.c:9 malloc\nN 16 32 1\nend exit\n")
    done = steve("memprof", path)
    assert done.returncode == 1 and "--heap all" in done.err
    assert "CFUNC work: 1\t32\t0\n" in steve("memprof", "--heap", "all", path).out


def test_output_that_cannot_be_written(steve: Any, trace: Callable) -> None:
    done = steve("export", "--format", "memprof", trace(SCRIPT), "-o", "/dev/full")
    assert done.returncode == 1 and "No space left" in done.err
