"""test_pools - heaps that a program declares, heaps in heaps, and mappings as blocks.

native/heaps.c makes a known history in each mode; the trace must hold just that. A superblock ends (an implied
Free) where the first piece of it is handed out, and is no bad free when its own allocator takes it back.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import shutil
from pathlib import Path

import pytest

from support import NATIVE, Trace, good, numbers, record, run, steve, words

HEAPS = NATIVE / "heaps"
BAD = ("badfree", "", "")
SUPER, PIECE, OTHER, PAGE = "80001", "1001", "1003", 4096


def history(trace: Trace) -> list[tuple[str, str, str]]:
    """(kind, size, heap kind) of all heap events."""
    return [(e[0], e[3], e[6]) if e[0] != "badfree" else BAD for e in trace.events()]


def accesses(trace: Trace, *sizes: str) -> list[tuple[str, int, int]]:
    """(letter, number of the size, offset) of the accesses to the first block of each size."""
    return [(w[0], int(w[1]), int(w[3])) for w in words(trace.view("blocks", *sizes))]


def dumped(trace: Trace, what: str) -> list[dict[str, str]]:
    """The records of a kind in the dump, as dictionaries."""
    lines = (line.split() for line in steve("dump", trace.path).text.splitlines())
    return [dict(f.split("=", 1) for f in w[1:] if "=" in f) for w in lines if w[0] == what]


def test_malloclike_blocks(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "malloclike"])
    assert history(trace) == [
        ("new", SUPER, "malloc"),
        ("free", SUPER, "malloc"),
        ("new", PIECE, "custom"),
        ("resize", "2002", "custom"),
        ("free", "2002", "custom"),
        BAD,
        ("new", OTHER, "custom"),
        ("free", OTHER, "custom"),
    ]
    assert accesses(trace, SUPER, PIECE) == [("S", 0, 7), ("S", 1, 5), ("S", 1, 1002)]
    (freed,) = [d for d in dumped(trace, "load") if d.get("freed") == "1"]
    assert freed["offset"] == "3"
    assert dumped(trace, "badfree")[0]["reason"] == "double"
    assert [d["implied"] for d in dumped(trace, "free") if "implied" in d] == ["1", "1"]
    assert trace.counts()["dropped"] == 0


def test_pieces_freed_after_the_block_around_them(tmp_path: Path) -> None:
    """That is legal once, whatever the memory is used for by then."""
    trace = record(tmp_path / "t.ljt", [HEAPS, "outlived"])
    assert history(trace) == [
        ("new", SUPER, "malloc"),
        ("free", SUPER, "malloc"),
        ("new", OTHER, "custom"),
        ("new", PIECE, "custom"),
        ("free", OTHER, "custom"),
        ("free", PIECE, "custom"),
        ("new", SUPER, "malloc"),
        ("free", SUPER, "malloc"),
        BAD,
        BAD,
    ]


GCLOSURE = """
#include <glib-object.h>
static void called(void) {}
int main(void)
{
    for (int i = 0; i < 200; i++) {
        GClosure *c = g_cclosure_new(G_CALLBACK(called), NULL, NULL);
        g_closure_ref(c);
        g_closure_sink(c);
        g_closure_unref(c);
    }
    return 0;
}
"""


def test_closures_of_glib(tmp_path: Path) -> None:
    """GLib marks two blocks within one that it frees before them."""
    flags = run(["pkg-config", "--cflags", "--libs", "gobject-2.0"]) if shutil.which("pkg-config") else None
    if flags is None or flags.status != 0:
        pytest.skip("no pkg-config or no gobject-2.0 (package libglib2.0-dev)")
    (tmp_path / "closures.c").write_text(GCLOSURE)
    good(["gcc", "-g", "-o", tmp_path / "closures", tmp_path / "closures.c", *flags.text.split()])
    trace = record(tmp_path / "t.ljt", [tmp_path / "closures"])
    assert sum(kind == "custom" for _, _, kind in history(trace)) > 400, "the blocks within are there"
    assert BAD not in history(trace)


def test_blocks_in_static_memory(tmp_path: Path) -> None:
    """Accesses to constant addresses are omitted only as long as no block is in the data of an object
    file."""
    trace = record(tmp_path / "t.ljt", [HEAPS, "static"])
    assert history(trace) == [("new", PIECE, "custom")]
    assert accesses(trace, PIECE) == [("S", 0, 6)]


def test_of_a_pool_the_pieces_count(tmp_path: Path) -> None:
    """The superblock of a pool is never live, which the list of containers says when it is allocated."""
    for mode in ("malloclike", "mempool"):
        trace = record(tmp_path / f"{mode}.ljt", [HEAPS, mode])
        sizes = {d["handle"]: d["size"] for d in dumped(trace, "new")}
        assert [sizes[d["handle"]] for d in dumped(trace, "container")] == [SUPER]
        found = json.loads(steve("summary", trace.path, "--json").text)
        assert 0 < found["bytes"]["peak_live"] < int(SUPER) < found["bytes"]["allocated"]


def test_memory_pools(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "mempool"])
    assert trace.run.status == 0, "MEMPOOL_EXISTS"
    assert history(trace) == [
        ("new", SUPER, "malloc"),
        ("free", SUPER, "malloc"),
        *[("new", PIECE, "custom")] * 5,
        ("free", PIECE, "custom"),
        BAD,
        ("resize", OTHER, "custom"),
        ("free", PIECE, "custom"),
        ("resize", "500", "custom"),
        ("free", PIECE, "custom"),
        ("free", "500", "custom"),
        ("free", OTHER, "custom"),
    ]


def test_pieces_of_a_pools_block_go_with_it(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "metapool"], "--heap=malloc,custom,mmap")
    assert history(trace)[-8:] == [
        ("new", SUPER, "mmap"),
        ("free", SUPER, "mmap"),
        ("new", "40000", "custom"),
        ("free", "40000", "custom"),
        ("new", PIECE, "custom"),
        ("new", OTHER, "custom"),
        ("free", PIECE, "custom"),
        ("free", OTHER, "custom"),
    ]
    assert accesses(trace, PIECE, OTHER) == [("S", 0, 0), ("S", 1, 0)]


def test_named_pools(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "named"])
    assert history(trace)[2:] == [
        ("new", PIECE, "custom"),
        ("new", OTHER, "custom"),
        ("resize", "2006", "custom"),
        ("free", PIECE, "custom"),
        BAD,
        ("free", "2006", "custom"),
    ]
    assert accesses(trace, PIECE, OTHER) == [("S", 0, 4), ("S", 1, 1003)], "the allocator's own is left out"
    assert dumped(trace, "badfree")[0]["reason"] == "heap"
    assert len(dumped(trace, "heap")) == 2
    texts = [
        line.split("=", 2)[-1] for line in steve("dump", trace.path).text.splitlines() if line.startswith("string")
    ]
    assert any("tiles" in t for t in texts) and any("sprites" in t for t in texts)


def test_a_pool_nobody_created(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "unknown-pool"])
    assert trace.run.complaint.count("was not created") == 1
    assert history(trace) == [("new", SUPER, "malloc"), ("free", SUPER, "malloc")]


@pytest.mark.parametrize("mode", ["malloclike", "mempool", "named"])
def test_requests_can_be_ignored(mode: str, tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, mode], "--heap=malloc")
    assert history(trace) == [("new", SUPER, "malloc"), ("free", SUPER, "malloc")]


def test_requests_do_nothing_outside_valgrind() -> None:
    for mode in ("malloclike", "mempool", "metapool", "named", "unknown-pool"):
        good([HEAPS, mode])


def own(trace: Trace) -> list[tuple[str, int]]:
    """(kind, size in bytes) of the program's own events; the mappings of the dynamic linker come first."""
    events = [(e[0], int(e[3])) for e in trace.events() if e[6] == "mmap"]
    begin = events.index(("new", 20 * PAGE))
    return events[begin:]


def test_mappings_are_cut_and_moved(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "mappings"], "--heap=mmap")
    assert own(trace) == [
        ("new", 20 * PAGE),
        ("resize", 5 * PAGE),
        ("new", 10 * PAGE),
        ("resize", 4 * PAGE),
        ("resize", 9 * PAGE),
        ("free", 4 * PAGE),
        ("free", 9 * PAGE),
        ("new", 7 * PAGE + 11),
        ("resize", 70 * PAGE),
        ("resize", 68 * PAGE),
        ("new", 2 * PAGE),
        ("free", 2 * PAGE),
        ("free", 68 * PAGE),
    ]
    assert accesses(trace, str(20 * PAGE), str(10 * PAGE)) == [("S", 0, 3), ("S", 1, 2 * PAGE)]


PARTS = """
#define _GNU_SOURCE
#include <sys/mman.h>
enum { PAGE = 4096 };
__attribute__((noinline)) static char *owner(void)
{
    char *p = mmap(0, 20 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p + (p == 0);
}
__attribute__((noinline)) static int taker(char *p, int pages)
{
    return munmap(p, pages * PAGE) + 1;
}
__attribute__((noinline)) static int mover(char *p)
{
    return mremap(p, PAGE, 3 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED;
}
int main(void)
{
    char *p = owner();
    taker(p + 2 * PAGE, 1);
    taker(p + 5 * PAGE, 2); /* of the second part */
    mover(p + 18 * PAGE);   /* a page of the last part */
    return 0;
}
"""


def test_what_is_left_of_a_mapping_is_its_makers(tmp_path: Path) -> None:
    source, program = tmp_path / "parts.c", tmp_path / "parts"
    source.write_text(PARTS)
    good(["gcc", "-g", "-O1", "-o", program, source])
    trace = record(tmp_path / "t.ljt", [program], "--heap=mmap")
    rows = json.loads(steve("sites", "--json", "--where", "stack ~ 'parts.c'", trace.path).text)
    assert rows and all("owner (parts.c:7)" in row["site"] for row in rows)
    assert sum(row["live_bytes_at_end"] for row in rows) == 19 * PAGE  # three are unmapped, one grows to three


def test_the_break(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [HEAPS, "brk"], "--heap=mmap")
    events = [(e[0], int(e[3])) for e in trace.events()][-3:]
    assert events == [("new", 9 * PAGE), ("resize", 11 * PAGE), ("free", 11 * PAGE)]
    assert accesses(trace, str(9 * PAGE)) == [("S", 0, 1), ("S", 0, 10 * PAGE)]


def test_pvalloc(tmp_path: Path) -> None:
    """Valgrind does not handle it; its whole pages are one block."""
    trace = record(tmp_path / "t.ljt", [HEAPS, "pvalloc"])
    assert trace.run.status == 0
    assert [(e[0], e[3]) for e in trace.events()] == [("new", str(2 * PAGE)), ("free", str(2 * PAGE))]
    assert accesses(trace, str(2 * PAGE)) == [("S", 0, 2 * PAGE - 1)]


def test_freed_memory_that_is_mapped_again(tmp_path: Path) -> None:
    """Memory that the system maps where a block was is not freed memory."""
    trace = record(tmp_path / "t.ljt", [HEAPS, "mapped-again"])
    assert trace.run.status == 0
    assert [e[0] for e in trace.events()] == ["new", "free"]
    assert trace.counts()["store"] == 1 and not [d for d in dumped(trace, "store") if d.get("freed")]


def test_files_only_if_asked_for(tmp_path: Path) -> None:
    anonymous = record(tmp_path / "a.ljt", ["/bin/true"], "--heap=mmap")
    files = record(tmp_path / "f.ljt", ["/bin/true"], "--heap=files")
    assert len(files.events()) > len(anonymous.events()) + 3


def test_lua_states_stay_sound_among_mappings(tmp_path: Path) -> None:
    """Lua's arena is a mapping, and its blocks are in it."""
    program = ["luajit", "-e", "local t = {} for i = 1, 1e4 do t[i] = {i} end t = nil collectgarbage()"]
    both = record(tmp_path / "b.ljt", program, "--trace-mem=no", "--heap=luajit,mmap")
    alone = record(tmp_path / "l.ljt", program, "--trace-mem=no", "--heap=luajit")
    lua = [e for e in both.events() if e[6] == "lua"]
    assert abs(len(lua) - len(alone.events())) < 50
    assert all(e[0] != "badfree" for e in both.events())
    assert both.counts()["dropped"] == 0


def test_unknown_heap_is_refused(tmp_path: Path) -> None:
    done = run(["valgrind", "--tool=ljtrace", f"--out={tmp_path}/t.ljt", "--heap=malloc,stack", "true"])
    assert done.status == 1 and "malloc, luajit, custom, mmap, files" in done.complaint


def test_pools_of_a_lua_states_allocator(tmp_path: Path) -> None:
    """The blocks of the state are recorded once, as Lua's, even if Lua passes the pool's anchor to its
    allocator. Blocks that the program allocates from the same pool are the pool's."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "luapools"])
    events = [e for e in trace.events() if len(e) > 6]
    truth = numbers(trace.run.text)
    assert truth["new"] > 1000
    assert {kind: sum(e[0] == kind and e[6] == "lua" for e in events) for kind in truth} == truth
    pool = [(e[0], e[3]) for e in events if e[6] == "custom"]
    assert pool == [("new", "4321")] * 5 + [("free", "4321")] * 5
    assert all(e[0] != "badfree" for e in trace.events())
