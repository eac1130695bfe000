"""test_observe - allocators that are not replaced: observed by their symbols, or reported as not seen.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path

import pytest

from support import Trace, good, record, run, steve

USES = """
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[100];
static void *volatile passed; /* so that no call is left out */
__attribute__((noinline)) static void make(void)
{
    for (int i = 0; i < 100; i++)
        memset(kept[i] = malloc(2000 + i), 1, 2000);
    kept[0] = realloc(kept[0], 5000);
    for (int i = 1; i < 50; i++)
        free(kept[i]);
    char *aligned;
    free(passed = calloc(30, 100));
    if (posix_memalign((void **)&aligned, 256, 777))
        abort();
    free(aligned);
}
static void on_signal(int number)
{
    free(passed = malloc(1234));
}
static void *thread(void *arg)
{
    for (int i = 0; i < 1000; i++)
        free(passed = malloc(4321));
    return 0;
}
int main(void)
{
    pthread_t t;
    signal(SIGUSR1, on_signal);
    pthread_create(&t, 0, thread, 0);
    make();
    for (int i = 0; i < 10; i++) {
        raise(SIGUSR1);
        free(passed = malloc(1235));
    }
    if ((passed = malloc((size_t)-1 / 2)) || errno != ENOMEM)
        return 1;
    pthread_join(t, 0);
    return 7;
}
"""
# an allocator that takes from a mapping, by any names
OWN = """
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static char *at;
#define NAME_(prefix, name) prefix##name
#define NAME(prefix, name) NAME_(prefix, name)
__attribute__((noinline)) void *NAME(PREFIX, MALLOC)(size_t size)
{
    char *p = at ? at : mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at = p + ((size + 15) & ~(size_t)15);
    return p;
}
__attribute__((noinline)) void NAME(PREFIX, FREE)(void *p)
{
    __asm__ volatile("" ::"r"(p) : "memory");
}
__attribute__((noinline)) void *NAME(PREFIX, REALLOC)(void *p, size_t size REST)
{
    void *q = NAME(PREFIX, MALLOC)(size);
    return p ? memcpy(q, p, 8) : q;
}
int main(void)
{
    for (int i = 0; i < 50; i++) {
        char *p = NAME(PREFIX, MALLOC)(100 + i);
        p[3] = 1;
        if (i % 2)
            NAME(PREFIX, FREE)(p);
        else if (i % 10 == 0)
            p = NAME(PREFIX, REALLOC)(p, 300 GIVEN);
    }
    return 0;
}
"""
# calloc and realloc of this family call its malloc
NESTED = """
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static char *at;
__attribute__((noinline)) void *_rjem_malloc(size_t size)
{
    char *p = at ? at : mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at = p + ((size + 15) & ~(size_t)15);
    return p;
}
__attribute__((noinline)) void *_rjem_calloc(size_t count, size_t size)
{
    return memset(_rjem_malloc(count * size), 0, count * size);
}
__attribute__((noinline)) void *_rjem_realloc(void *p, size_t size)
{
    return memcpy(_rjem_malloc(size), p, 8);
}
int main(void)
{
    for (int i = 0; i < 10; i++)
        _rjem_realloc(_rjem_calloc(10, 50), 700);
    return 0;
}
"""
# a library with a libc of its own, and the program that loads it
PLUGIN = """
#include <stdlib.h>
#include <string.h>
void plugin(void)
{
    for (int i = 0; i < 50; i++)
        memset(malloc(20000), 1, 20000);
}
"""
HOST = """
#define _GNU_SOURCE
#include <dlfcn.h>
int main(int n, char **a)
{
    void *library = dlmopen(LM_ID_NEWLM, a[1], RTLD_NOW);
    void (*plugin)(void) = library ? (void (*)(void))dlsym(library, "plugin") : 0;
    if (!plugin)
        return 1;
    plugin();
    return 0;
}
"""
UNSEEN = "its allocator may not be recorded"


def only_mappings_help(*texts: str) -> None:
    for text in texts:
        assert "--heap=mmap" in text and "--alloc-prefix" not in text and "--observe-alloc" not in text, text


def built(folder: Path, text: str, *options: str) -> Path:
    source, program = folder / "p.c", folder / "p"
    source.write_text(text)
    good(["gcc", "-g", "-O1", "-w", "-o", program, source, *options])
    return program


def own(folder: Path, prefix: str, *names: str) -> Path:
    words = names or ("malloc", "free", "realloc")
    defines = [f"-D{word}={name}" for word, name in zip(("MALLOC", "FREE", "REALLOC"), words)]
    return built(folder, OWN, f"-DPREFIX={prefix}", *defines, "-DREST=", "-DGIVEN=")


def blocks_of(trace: Trace) -> dict[str, int]:
    found = json.loads(steve("summary", "--json", trace.path).text)
    return {**found["events"], "live": found["blocks"]["live_at_end"]}


def sizes(trace: Trace) -> dict[int, int]:
    """News and Resizes by size."""
    made: dict[int, int] = {}
    for event in trace.events():
        if event[0] in ("new", "resize"):
            made[int(event[3])] = made.get(int(event[3]), 0) + 1
    return made


def test_a_static_program_is_recorded_as_a_dynamic_one(tmp_path: Path) -> None:
    dynamic = record(tmp_path / "d.ljt", [built(tmp_path, USES, "-pthread")])
    static = record(tmp_path / "s.ljt", [built(tmp_path, USES, "-pthread", "-static")])
    assert (dynamic.run.status, static.run.status) == (7, 7), static.run.complaint
    assert UNSEEN not in static.run.complaint
    own_sizes = [*range(2000, 2100), 5000, 3000, 777, 1234, 1235, 4321]
    assert [sizes(static).get(size) for size in own_sizes] == [sizes(dynamic).get(size) for size in own_sizes]
    assert sizes(static)[4321] == 1000 and sizes(static)[1234] == 10
    rows = json.loads(steve("sites", "--json", "--where", "size >= 2000 and size < 5000", static.path).text)
    made = [row for row in rows if "make (p.c:14)" in row["site"] and row["blocks"] >= 99]
    assert made and made[0]["stores"] > 0 and made[0]["live_blocks_at_end"] == 50
    assert json.loads(steve("findings", "--json", "--rules", "errors", static.path).text) == []


def test_a_static_program_without_symbols_is_reported(tmp_path: Path) -> None:
    program = built(tmp_path, USES, "-pthread", "-static", "-s")
    trace = record(tmp_path / "t.ljt", [program])
    assert trace.run.status == 7 and blocks_of(trace)["new"] == 0
    assert UNSEEN in trace.run.complaint
    info = steve("info", trace.path).text
    assert "not seen: a static program without symbols mapped" in info
    only_mappings_help(trace.run.complaint, info)
    assert int(json.loads(steve("info", "--json", trace.path).text)["recording"]["unseen_block_bytes"]) == 0
    mapped = record(tmp_path / "m.ljt", [program], "--heap=mmap")
    assert UNSEEN not in mapped.run.complaint and blocks_of(mapped)["new"] > 0


@pytest.mark.parametrize("flag", ["PRIVATE", "SHARED"])
def test_memory_for_forked_children_is_no_heap(flag: str, tmp_path: Path) -> None:
    """Servers map the buffers that they share with their workers."""
    text = """
        #include <sys/mman.h>
        int main(void) { return mmap(0, 1 << 24, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | FLAG, -1, 0) == MAP_FAILED; }
    """
    trace = record(tmp_path / "t.ljt", [built(tmp_path, text, f"-DFLAG=MAP_{flag}")])
    assert trace.run.status == 0
    assert (UNSEEN in trace.run.complaint) == (flag == "PRIVATE")


EARLY = """
#include <stddef.h>
#include <sys/mman.h>
static char *at;
static char *more(size_t size) { return mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
__attribute__((constructor)) static void begin(void) { at = more(1 << 24); }
__attribute__((noinline)) void *MALLOC(size_t size) { return at ? at += 1024 : more(size); }
__attribute__((noinline)) void FREE(void *p) { __asm__ volatile("" ::"r"(p) : "memory"); }
int main(void) { FREE(MALLOC(100)); return 0; }
"""


@pytest.mark.parametrize("prefix, option", [("", ()), ("zz_", ("--alloc-prefix=zz_",)), ("zz_", ())])
def test_what_a_recorded_allocator_maps_in_a_constructor(prefix: str, option: tuple[str, ...], tmp_path: Path) -> None:
    """It is reported if the allocator's functions are neither replaced nor observed, only then."""
    program = built(tmp_path, EARLY, f"-DMALLOC={prefix}malloc", f"-DFREE={prefix}free")
    trace = record(tmp_path / "t.ljt", [program], *option)
    assert trace.run.status == 0
    assert (UNSEEN in trace.run.complaint) == (prefix != "" and not option)


@pytest.mark.parametrize("option", [(), ("--trace-mem=no",)])
def test_a_prefixed_family(option: tuple[str, ...], tmp_path: Path) -> None:
    program = own(tmp_path, "zz_")
    unseen = record(tmp_path / "u.ljt", [program], *option)
    assert UNSEEN in unseen.run.complaint and "--alloc-prefix=PREFIX or" in unseen.run.complaint
    assert re.search("not seen: mapped .*--alloc-prefix", steve("info", unseen.path).text)
    trace = record(tmp_path / "t.ljt", [program], "--alloc-prefix=zz_", *option)
    assert UNSEEN not in trace.run.complaint
    found = blocks_of(trace)
    assert (found["new"], found["free"], found["resize"], found["live"]) == (50, 25, 5, 25)
    assert sizes(trace) == {**{100 + i: 1 for i in range(50)}, 300: 5}
    assert found["store"] == (None if option else 50)


@pytest.mark.parametrize(
    "names, option",
    [
        (
            ("get", "put", "grow"),
            ("--observe-alloc=q_get=malloc", "--observe-alloc=q_put=free", "--observe-alloc=q_grow=realloc"),
        ),
        (("own_malloc", "own_free", "own_realloc"), ("--observe-alloc=q_own_*",)),
    ],
)
def test_functions_by_pattern(names: tuple[str, ...], option: tuple[str, ...], tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [own(tmp_path, "q_", *names)], *option)
    assert UNSEEN not in trace.run.complaint
    assert [blocks_of(trace)[key] for key in ("new", "free", "resize")] == [50, 25, 5]


def test_only_the_outermost_call_counts(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [built(tmp_path, NESTED)], "--alloc-prefix=no_such_", "--alloc-prefix=_rjem_")
    assert [blocks_of(trace)[key] for key in ("new", "free", "resize")] == [10, 0, 10]
    assert sizes(trace) == {500: 10, 700: 10}


def test_a_namespace_of_its_own_is_reported(tmp_path: Path) -> None:
    """The blocks of a second libc are not recorded; its mappings are."""
    library = tmp_path / "plugin.so"
    built(tmp_path, PLUGIN, "-shared", "-fPIC").rename(library)
    program = built(tmp_path, HOST)
    trace = record(tmp_path / "t.ljt", [program, library])
    assert trace.run.status == 0 and 20000 not in sizes(trace)
    assert UNSEEN in trace.run.complaint and "loaded twice (dlmopen)" in trace.run.complaint
    info = steve("info", trace.path).text
    assert "not seen: a program with a library that is loaded twice mapped" in info
    only_mappings_help(trace.run.complaint, info)
    mapped = record(tmp_path / "m.ljt", [program, library], "--heap=mmap")
    assert UNSEEN not in mapped.run.complaint
    assert json.loads(steve("summary", "--json", mapped.path).text)["bytes"]["peak_live"] >= 50 * 20000


@pytest.mark.parametrize("option", ["--observe-alloc=__rust_*", "--alloc-prefix=__rust_"])
@pytest.mark.parametrize(
    "names",
    [
        ("__rust_", "alloc", "dealloc", "realloc"),
        ("_RNvCs2pZ_7___rustc", "12___rust_alloc", "14___rust_dealloc", "14___rust_realloc"),
    ],
    ids=["old", "new"],
)
def test_functions_of_rust(names: tuple[str, ...], option: str, tmp_path: Path) -> None:
    """Its realloc has the new size as its fourth argument. The names after the prefix are not those of C
    functions."""
    defines = [f"-D{word}={name}" for word, name in zip(("PREFIX", "MALLOC", "FREE", "REALLOC"), names)]
    text = OWN.replace("(void *p, size_t size REST)", "(void *p, size_t old, size_t align, size_t size)").replace(
        "(p, 300 GIVEN)", "(p, 100, 8, 333)"
    )
    trace = record(tmp_path / "t.ljt", [built(tmp_path, text, *defines)], option)
    assert sizes(trace)[333] == 5 and [blocks_of(trace)[key] for key in ("new", "free", "resize")] == [50, 25, 5]


def test_names_that_nothing_has(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [own(tmp_path, "zz_")], "--alloc-prefix=yy_", "--observe-alloc=no_such_*")
    assert "--alloc-prefix=yy_ names no allocation function" in trace.run.complaint
    assert "--observe-alloc=no_such_* names no allocation function" in trace.run.complaint
    for option in ("--alloc-prefix=", "--observe-alloc=", "--observe-alloc=x=nothing"):
        assert run(["valgrind", "--tool=ljtrace", option, "true"], cwd=tmp_path).status != 0


def test_ordinary_programs_are_not_reported(tmp_path: Path) -> None:
    for number, program in enumerate(
        (
            ["luajit", "-e", "local t = {} for i = 1, 1e5 do t[i] = {} end"],
            ["ls", "-l", "/"],
            ["perl", "-e", "my @a = (1) x 1000000"],
            ["true"],
        )
    ):
        assert UNSEEN not in record(tmp_path / f"{number}.ljt", program, "--trace-mem=no").run.complaint
