"""test_leak_scan - which blocks the program could still reach at its end, compared with memcheck.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path

import pytest

from support import NATIVE, good, record, recorder, run, settled, steve

CLASSES = {"definitely lost": "lost", "indirectly lost": "indirect", "possibly lost": "possible"}
LEAKY = [NATIVE / "leaky"]

REACH = r"""
#include <stdlib.h>
#include <string.h>
struct held { struct held *next; char pad[40]; };
static struct held *kept;
static void lose(void)
{
    char *p = malloc(24);
    memset(p, 1, 24);
}
int main(void)
{
    lose();
    kept = calloc(1, sizeof *kept);
    kept->next = calloc(1, sizeof *kept);
    char wipe[4096];
    memset(wipe, 0, sizeof wipe);
    return wipe[7];
}
"""
INHERITED = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char *kept;
static void lose(void) { *(volatile char *)malloc(40) = 1; }
int main(void)
{
    kept = malloc(80);
    if (fork() == 0) { kept = 0; lose(); exit(0); }
    wait(0);
    return 0;
}
"""
LIGHT = r"""
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
int main(int n, char **a)
{
    lua_State *L = luaL_newstate();
    char *light = malloc(100), *full = malloc(200);
    *(volatile char *)light = *(volatile char *)full = 1;
    lua_pushlightuserdata(L, light);
    lua_setglobal(L, "light");
    *(char **)lua_newuserdata(L, sizeof full) = full;
    lua_setglobal(L, "full");
    light = full = NULL;
    *(volatile char *)malloc(400) = 1;
    if (n > 1) lua_close(L);
    return 0;
}
"""
POOL = r"""
#include <stdlib.h>
#include <valgrind/valgrind.h>
#include <valgrind/memcheck.h>
struct piece { char *held; };
static struct piece *kept;
static char *s_raw;
static struct piece *piece(char *at) { VALGRIND_MALLOCLIKE_BLOCK(at, sizeof(struct piece), 0, 0); return (struct piece *)at; }
int main(void)
{
    s_raw = malloc(1000);
    kept = piece(s_raw + 64);
    kept->held = malloc(30);
    *(volatile char *)malloc(40) = 1;
    return 0;
}
"""


def built(folder: Path, source: str, *options: str) -> Path:
    (folder / "p.c").write_text(source)
    good(["gcc", "-g", "-O0", "-w", "-o", folder / "p", folder / "p.c", *options])
    return folder / "p"


def leaks(trace: Path, *options: str) -> list[dict]:
    return json.loads(steve("leaks", "--json", trace, *options).text)


def sums(trace: Path, *options: str) -> dict[str, int]:
    rows = leaks(trace, *options)
    return {key: sum(row[key] or 0 for row in rows) for key in (*CLASSES.values(), "reachable", "bytes", "runtime")}


def of_memcheck(argv: list[object]) -> dict[str, int]:
    text = run(
        ["valgrind", "--tool=memcheck", "--leak-check=full", "--run-libc-freeres=no", "--run-cxx-freeres=no", *argv]
    ).err.decode()
    found = {
        name: int(re.search(rf"{words}: ([\d,]+) bytes", text)[1].replace(",", ""))
        for words, name in (*CLASSES.items(), ("still reachable", "reachable"))
    }
    return {**found, "bytes": sum(found.values())}


def test_lost_and_reachable(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [built(tmp_path, REACH)]).path
    assert sums(trace) == {"lost": 24, "indirect": 0, "possible": 0, "reachable": 96, "bytes": 120, "runtime": 0}
    assert {row["site"].split(" < ")[0]: row["lost"] for row in leaks(trace) if row["lost"]} == {"lose (p.c:8)": 24}
    assert "of C: 24 bytes lost, 96 reachable" in steve("leaks", trace).text
    assert [sum(row["bytes"] for row in leaks(trace, "--where", where)) for where in ("lost", "not lost")] == [24, 96]


@pytest.mark.parametrize("ending", ("return", "exit", "abort", "thread"))
def test_as_memcheck(tmp_path: Path, ending: str) -> None:
    """The results agree to the byte. What main holds is in use unless main has returned."""
    trace = record(tmp_path / "t.ljt", [*LEAKY, ending]).path
    found, expected = sums(trace), of_memcheck([*LEAKY, ending])
    assert all(found[key] == expected[key] for key in ("lost", "indirect", "bytes"))
    assert found["lost"] == 332 + (1000 if ending == "return" else 0) and found["indirect"] == 64
    rows = {row["site"].split(" ")[0]: row for row in leaks(trace, "--by", "function")}
    assert rows["leave(void*)"]["lost"] == 300 and rows["stay(void*)"]["reachable"] == 100
    own = rows["allocate_dtv"]  # of ld.so, for a thread; a pointer to its beginning may be left over on a stack
    assert found["possible"] - own["possible"] == expected["possible"] - own["bytes"] == 500
    assert sums(trace, "-j2") == found
    assert steve("check", trace).status == 0


def test_what_libraries_keep(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [*LEAKY, "exit"]).path
    own = {row["site"].split(" ")[0]: row["runtime"] for row in leaks(trace) if row["runtime"]}
    assert own.pop("_IO_file_doallocate") >= 1024
    assert list(own.values()) == [72704], "libstdc++'s memory for exceptions"
    assert f"{sums(trace)['runtime']:,} are the runtime libraries' own" in steve("leaks", trace).text


def test_nobody_looked(tmp_path: Path) -> None:
    """After SIGKILL, with --leak-scan=no, before the end, and in a classic trace."""
    killed = tmp_path / "k.ljt"
    run(["timeout", "-s", "KILL", "4", *recorder(killed), *LEAKY, "wait"])
    settled(killed)
    without = record(tmp_path / "w.ljt", [*LEAKY, "exit"], "--leak-scan=no").path
    for trace in (killed, without):
        rows = leaks(trace)
        assert rows and all(row[key] is None for row in rows for key in (*CLASSES.values(), "reachable", "runtime"))
        assert "of C" not in steve("leaks", trace).text


def test_a_child(tmp_path: Path) -> None:
    """What the child inherited can be lost in it, but is not its leak."""
    good([*recorder(tmp_path / "t.%p.ljt"), built(tmp_path, INHERITED)])
    traces = {len(leaks(path, "--where", "inherited")): path for path in tmp_path.glob("t.*.ljt")}
    assert sums(traces[0])["lost"] == 0 and sums(traces[0])["reachable"] == 80
    assert sums(traces[1])["lost"] == 40 and sums(traces[1])["bytes"] == 40
    assert sums(traces[1], "--where", "inherited")["lost"] == 80


def test_pointers_of_lua(tmp_path: Path) -> None:
    """Pointers in userdata, full or light, until the state is closed."""
    program = built(tmp_path, LIGHT, "-I/usr/include/luajit-2.1", "-lluajit-5.1")
    for closed in ((), ("close",)):
        trace = record(tmp_path / f"t{len(closed)}.ljt", [program, *closed]).path
        found = sums(trace, "--where", "heap = 'malloc'")
        assert (found["lost"], found["reachable"]) == ((700, 0) if closed else (400, 300))


def test_pieces_of_blocks(tmp_path: Path) -> None:
    """Blocks of a pool hold what they point to."""
    trace = record(tmp_path / "t.ljt", [built(tmp_path, POOL)]).path
    found = sums(trace)
    assert (found["lost"], found["indirect"], found["reachable"]) == (40, 0, 38)


def test_static_program(tmp_path: Path) -> None:
    """The allocator is observed, not replaced."""
    trace = record(tmp_path / "t.ljt", [built(tmp_path, REACH, "-static")]).path
    rows = {row["site"].split(" < ")[0]: row for row in leaks(trace)}
    assert rows["lose (p.c:8)"]["lost"] == 24
    assert sum(row["reachable"] for name, row in rows.items() if name.startswith("main")) == 96


def test_memory_that_nobody_touched(tmp_path: Path) -> None:
    """A mapping of 16 GB is not read, and none of its pages are allocated."""
    source = """
#include <stdlib.h>
#include <sys/mman.h>
int main(void)
{
    char **far = mmap(0, 1ull << 34, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    far[1ull << 22] = malloc(70);
    *(volatile char *)malloc(30) = 1;
    return far == MAP_FAILED;
}
"""
    trace = record(tmp_path / "t.ljt", [built(tmp_path, source)]).path
    assert (sums(trace)["lost"], sums(trace)["reachable"]) == (30, 70)
