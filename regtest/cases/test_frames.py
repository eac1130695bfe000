"""test_frames - the same frames in every view: leaf, root and inclusive totals of recorded programs in C, C++ and Lua.

Each view and export is read back, with its own viewer where that is installed, and what it says of a function is
compared with `steve sites`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path

import pytest

from support import good, record, steve
from views import BLOCKS, STACKS, of_callgrind, of_flame, of_heaptrack_print, of_sites, view

C = """
#include <stdlib.h>
struct node { struct node *next; char text[40]; };
static struct node *list;
__attribute__((noinline)) void *zmalloc(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
__attribute__((noinline)) void *make(size_t n) { char *p = zmalloc(n); *p = 0; return p; }
__attribute__((noinline)) struct node *node_new(void) { struct node *n = make(sizeof *n); n->next = list; return n; }
__attribute__((noinline)) void parse(void) { for (int i = 0; i < 300; i++) list = node_new(); }
__attribute__((noinline)) void plan(void) { for (int i = 0; i < 200; i++) list = node_new(); }
__attribute__((noinline)) void cache(void) { for (int i = 0; i < 100; i++) list = node_new(); }
int main(void) { parse(); plan(); cache(); return 0; }
"""
CPP = """
#include <map>
#include <string>
#include <vector>
struct Shape { std::vector<std::pair<std::string, std::map<int, std::string>>> parts; };
__attribute__((noinline)) void fill(std::vector<int> &v, int n) { for (int i = 0; i < n; i++) v.push_back(i); }
__attribute__((noinline)) void grow(Shape &s, int n)
{
    for (int i = 0; i < n; i++)
        s.parts.emplace_back(std::string(60 + i, 'x'), std::map<int, std::string>{{i, std::string(50, 'y')}});
}
__attribute__((noinline)) void name(std::string &s) { for (int i = 0; i < 50; i++) s += "a longer piece of text, "; }
int main()
{
    std::vector<int> v;
    Shape s;
    std::string t;
    fill(v, 5000);
    grow(s, 40);
    name(t);
    auto twice = [&] { fill(v, 3000); };
    twice();
    return v.empty() || s.parts.empty() || t.empty();
}
"""
LUA = """
local function leaf(i) return { i, tostring(i) } end
local function branch(n) local t = {}
  for i = 1, n do t[i] = leaf(i) end
  return t end
local M = {}
function M.a(n) return branch(n) end function M.b(n) local t = {} for i = 1, n do t[i] = {i} end return t end
local co = coroutine.wrap(function() for i = 1, 50 do coroutine.yield(M.b(20)) end end)
for i = 1, 50 do M.a(40) co() end
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("frames")
    (folder / "p.c").write_text(C)
    (folder / "p.cpp").write_text(CPP)
    (folder / "p.lua").write_text(LUA)
    good(["gcc", "-g", "-O1", "-o", folder / "c", folder / "p.c"])
    good(["g++", "-g", "-O2", "-o", folder / "cpp", folder / "p.cpp"])
    commands = {"c": [folder / "c"], "cpp": [folder / "cpp"], "lua": ["luajit", folder / "p.lua"]}
    found = {}
    for name, command in commands.items():
        trace = record(folder / f"{name}.ljt", command, "--stack-depth=200", "--trace-mem=no")
        assert trace.run.status == 0, trace.run.complaint
        found[name] = trace.path
    return found


def test_a_stack_that_moves_while_it_is_compiled(traces: dict[str, Path]) -> None:
    """The Lua stack of the script grows within a compiled loop's recording; nothing there calls itself."""
    found = [row["site"] for row in json.loads(steve("sites", "--json", traces["lua"]).text)]
    assert any("leaf" in site for site in found)
    assert not [site for site in found if "main chunk" in site and " x2" in site]


DEEP = """
#include <stdlib.h>
static void *down(int n) { return n ? down(n - 1) : malloc(100); }
static void alpha(void) { for (int i = 0; i < 10; i++) free(down(30)); }
static void beta(void) { for (int i = 0; i < 20; i++) free(down(30)); }
int main(void) { alpha(); beta(); return 0; }
"""


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Traces of a recursion 30 deep, from two callers: with whole stacks, and with stacks of at most 12 frames."""
    folder = tmp_path_factory.mktemp("deep")
    (folder / "p.c").write_text(DEEP)
    good(["gcc", "-g", "-O0", "-o", folder / "p", folder / "p.c"])
    whole, cut = (
        record(folder / f"{name}.ljt", [folder / "p"], "--trace-mem=no", *options).path
        for name, options in (("whole", ()), ("cut", ("--stack-depth=12",)))
    )
    return whole, cut


def test_the_callers_of_a_deep_recursion(deep: tuple[Path, Path]) -> None:
    rows = json.loads(steve("sites", "--json", deep[0]).text)
    assert [(row["blocks"], row["site"].split(" < ")[1].split()[0]) for row in rows] == [(20, "beta"), (10, "alpha")]
    assert all(f"{name} (p.c:" in " ".join(steve("sites", deep[0]).text.split()) for name in ("alpha", "beta"))
    assert (
        of_callgrind(deep[0])
        == view(of_sites(deep[0])).totals
        == {"down": 3000, "alpha": 1000, "beta": 2000, "main": 3000}
    )


@pytest.mark.parametrize("form", (*STACKS, "sites", "flame"))
def test_a_cut_stack_says_so(form: str, deep: tuple[Path, Path]) -> None:
    if form == "flame":
        assert of_flame(deep[1]).roots == {"[cut at 12]"}
        return
    found = view((STACKS[form] if form in STACKS else of_sites)(deep[1]))
    assert (found.leaves, found.roots) == ({"down"}, {"[cut at 12]"})


FUNCTIONS = {
    "c": ("main", "parse", "plan", "cache", "node_new", "make"),
    "cpp": ("main", "fill", "grow", "name"),
    "lua": ("main", "lua_pcall", "main chunk", "leaf", "a", "b"),
}
SKIPPED_LEAVES = ("malloc", "zmalloc", "operator new(unsigned long)", "lj_mem_realloc")


@pytest.mark.parametrize("program", FUNCTIONS)
@pytest.mark.parametrize("form", sorted(STACKS.keys() - {"heaptrack"}) + ["flame", "callgrind"])
def test_bytes_by_function(form: str, program: str, traces: dict[str, Path]) -> None:
    known, missing = view(of_sites(traces[program])), 0
    if form == "flame":
        boxes = of_flame(traces[program])
        totals, missing = boxes.totals, sum(known.totals.values()) // 1000  # narrow boxes are not drawn
        assert boxes.roots == known.roots
    elif form == "callgrind":
        totals = of_callgrind(traces[program])
    else:
        totals, *ends = view(STACKS[form](traces[program]))
        assert ends == [known.leaves, known.roots]
    assert all(known.totals[name] - missing <= totals[name] <= known.totals[name] for name in FUNCTIONS[program])


@pytest.mark.parametrize("program", ("c", "cpp"))
def test_blocks_by_function(program: str, traces: dict[str, Path]) -> None:
    known, found = view(of_sites(traces[program], BLOCKS)), view(of_heaptrack_print(traces[program]))
    assert {name: found.totals[name] for name in FUNCTIONS[program]} == {
        name: known.totals[name] for name in FUNCTIONS[program]
    }


@pytest.mark.parametrize("program", FUNCTIONS)
def test_leaf_and_root(program: str, traces: dict[str, Path]) -> None:
    """No stack begins with a function that only allocates, and all that main calls is below main."""
    known = view(of_sites(traces[program]))
    assert not known.leaves & {*SKIPPED_LEAVES}
    assert "main" in known.roots and not known.roots & {"(below main)", "_start", "__libc_start_main@@GLIBC_2.34"}
    everything = sum(row["bytes"] for row in json.loads(steve("sites", "--json", traces[program]).text))
    outside = everything - known.totals["main"]
    assert outside == sum(
        row["bytes"]
        for row in json.loads(steve("sites", "--json", traces[program]).text)
        if not re.search(r"(^| < )main( \(|$)", row["site"])
    )
    if program != "cpp":  # libstdc++ allocates before main
        assert outside == 0


def test_wrappers(traces: dict[str, Path]) -> None:
    """A table shows as many frames as it takes to tell its rows apart."""
    rows = json.loads(steve("sites", "--json", "--alloc-fn", "make", traces["c"]).text)
    assert [(row["site"].split(" (")[0], row["blocks"]) for row in rows] == [
        ("node_new", 300),
        ("node_new", 200),
        ("node_new", 100),
    ]
    table = " ".join(steve("sites", traces["c"]).text.split())
    assert all(f"< {name} (p.c:" in table for name in ("parse", "plan", "cache")) and "main (" not in table


@pytest.mark.parametrize("by", ("stack", "function", "line", "file", "object", "type", "thread"))
@pytest.mark.parametrize("program", FUNCTIONS)
def test_roll_ups_have_the_same_sum(by: str, program: str, traces: dict[str, Path]) -> None:
    totals = {
        key: sum(row[key] for row in json.loads(steve("sites", "--json", traces[program]).text))
        for key in ("blocks", "bytes")
    }
    rows = json.loads(steve("sites", "--json", "--by", by, "--top", "1", traces[program]).text)
    assert {key: sum(row[key] for row in rows) for key in totals} == totals
    assert len(rows) == 1 or re.fullmatch(r"others \([\d,]+\)", rows[1]["site"])


@pytest.mark.parametrize("program, function", (("c", "make"), ("lua", "leaf")))
def test_a_function_is_selected_by_the_text_of_its_row(program: str, function: str, traces: dict[str, Path]) -> None:
    rows = json.loads(steve("sites", "--json", "--by=function", traces[program]).text)
    row = next(row for row in rows if row["site"].split(" ")[0] == function)
    for text in (row["site"], function):
        found = json.loads(
            steve("sites", "--json", "--by=function", "--where", f'function = "{text}"', traces[program]).text
        )
        assert [(one["site"], one["blocks"], one["bytes"]) for one in found] == [
            (row["site"], row["blocks"], row["bytes"])
        ]


LEAKY = """
#include <pthread.h>
#include <stdlib.h>
static void *volatile kept;
static void *run(void *p) { void *volatile lost = malloc(24); lost = NULL; kept = malloc(96); return lost ? lost : p; }
int main(void)
{
    pthread_t t;
    void *volatile lost = malloc(10);
    lost = NULL;
    pthread_create(&t, NULL, run, NULL);
    pthread_join(t, NULL);
    return lost != NULL;
}
"""


def test_reachability_in_roll_ups(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(LEAKY)
    good(["gcc", "-g", "-O0", "-pthread", "-o", tmp_path / "p", tmp_path / "p.c"])
    trace = record(tmp_path / "t.ljt", [tmp_path / "p"]).path
    rows = {by: json.loads(steve("leaks", "--json", "--by", by, trace).text) for by in ("stack", "thread", "type")}
    sums = {by: {key: sum(row[key] for row in rows[by]) for key in ("lost", "possible", "reachable")} for by in rows}
    assert sums["thread"] == sums["type"] == sums["stack"] and sums["stack"]["lost"] == 10 + 24
    lost = {row["site"]: (row["lost"], row["reachable"]) for row in rows["thread"]}
    assert lost["thread 1"][0] == 10 and lost["thread 2"] == (24, 96)
