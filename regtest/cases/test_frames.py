"""test_frames - the same frames in every view: leaf, root and inclusive totals of recorded programs in C, C++ and Lua.

Each view and export is read back, with its own viewer where that is installed, and what it says of a function is
compared with `steve sites`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import gzip
import html
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import good, record, steve

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


class View(NamedTuple):
    """What a view says of a trace. totals: by function, inclusive. leaves, roots: names of functions."""
    totals: dict[str, int]
    leaves: set[str]
    roots: set[str]


def plain(text: str) -> str:
    """The name of a function without its place and its parameters; of code without a name, the object."""
    text = re.sub(r" x\d+$", "", html.unescape(text))
    nameless = re.fullmatch(r"(?:0x[0-9a-f]+|\?\?\?) \((?:in )?([^()]*)\)", text)
    if nameless:
        return f"[{Path(nameless[1]).name}]"
    text = re.sub(r" [^ ;]+\.lua(:\d+)?$", "", text)
    return text if text.startswith("(") else text.split("(")[0].rstrip()


def view(stacks: Iterable[tuple[list[str], int]]) -> View:
    """The view that shows these stacks, outermost frame first, each with its weight."""
    totals: Counter[str] = Counter()
    leaves, roots = set(), set()
    for names, weight in stacks:
        if not weight:
            continue
        found = [plain(name) for name in names]
        totals.update(dict.fromkeys(found, weight))
        leaves.add(found[-1])
        roots.add(found[0])
    return View(dict(totals), leaves, roots)


def of_sites(path: Path, key: str) -> View:
    rows = json.loads(steve("sites", "--json", path).text)
    return view((row["site"].split(" < ")[::-1], row[key]) for row in rows)


def exported(path: Path, form: str, *options: str) -> Path:
    result = path.with_name(f"{path.name}.{form}.gz" if form in ("pprof", "heaptrack") else f"{path.name}.{form}")
    done = steve("export", "--format", form, *options, "-o", result, path)
    assert done.status == 0, done.complaint
    return result


def folded(text: str) -> Iterator[tuple[list[str], int]]:
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        yield stack.split(";"), int(weight)


def of_folded(path: Path) -> View:
    return view(folded(exported(path, "folded").read_text()))


def of_speedscope(path: Path) -> View:
    data = json.loads(exported(path, "speedscope").read_text())
    names = [frame["name"] for frame in data["shared"]["frames"]]
    profile = next(one for one in data["profiles"] if one["name"] == "alloc_space")
    return view(([names[i] for i in stack], weight) for stack, weight in zip(profile["samples"], profile["weights"]))


def of_dhat(path: Path) -> View:
    data = json.loads(exported(path, "dhat").read_text())
    texts = [re.sub(r"^0x[0-9a-f]+: ", "", text) for text in data["ftbl"]]
    return view(([texts[i] for i in point["fs"]][::-1], point["tb"]) for point in data["pps"])


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size


def numbers(packed: bytes) -> list[int]:
    """Packed numbers of protobuf: each is written as if it were a field."""
    found, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found


def of_pprof(path: Path) -> View:
    texts: list[str] = []
    functions: dict[int, int] = {}
    locations: dict[int, list[int]] = {}
    samples: list[tuple[list[int], list[int]]] = []
    for field, value in fields(gzip.decompress(exported(path, "pprof").read_bytes())):
        if field == 6:
            texts.append(value.decode())  # type: ignore[union-attr]
        elif field == 5:
            of_function = dict(fields(value))  # type: ignore[arg-type]
            functions[of_function[1]] = of_function[2]  # type: ignore[index, assignment]
        elif field == 4:
            parts = list(fields(value))  # type: ignore[arg-type]
            number = next(part for key, part in parts if key == 1)
            locations[number] = [dict(fields(part))[1] for key, part in parts if key == 4]  # type: ignore
        elif field == 2:
            of_sample = dict(fields(value))  # type: ignore[arg-type]
            samples.append((numbers(of_sample[1]), numbers(of_sample[2])))  # type: ignore[arg-type]
    return view(([texts[functions[function]] for location in stack for function in locations[location]][::-1],
                 values[1]) for stack, values in samples)


def of_callgrind(path: Path, known: View) -> View:
    """The inclusive totals as callgrind_annotate prints them. It shows neither leaves nor roots."""
    if shutil.which("callgrind_annotate") is None:
        pytest.skip("callgrind_annotate is not installed (package valgrind)")
    text = good(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show=alloc_space",
                 exported(path, "callgrind")]).text
    rows: dict[tuple[str, str], int] = {}  # the viewer has two rows if a file is in the current folder
    for amount, file, name in re.findall(
            r"^\s*([\d,]+) \([ \d.]+%\)\s+(\?\?\?|[^:\s]+):(.*?)(?: \[.*\])?$", text, re.M):
        key = Path(file).name, name
        rows[key] = max(rows.get(key, 0), int(amount.replace(",", "")))
    totals: Counter[str] = Counter()
    for (_, name), amount in rows.items():
        totals[plain(name)] += amount
    return View(dict(totals), known.leaves, known.roots)


def of_heaptrack(path: Path) -> View:
    """The blocks by function, as heaptrack_print counts them."""
    if shutil.which("heaptrack_print") is None:
        pytest.skip("heaptrack_print is not installed (package heaptrack)")
    result = path.with_name("stacks")
    good(["heaptrack_print", "-F", result, "--flamegraph-cost-type", "allocations", exported(path, "heaptrack")])
    return view(folded(result.read_text().replace("; ", " ")))


def of_flame(path: Path, known: View) -> View:
    """The inclusive totals as the boxes of a flame graph have them; a function below itself counts once."""
    done = steve("flame", "--metric", "alloc_space", "-o", "-", path)
    boxes = re.findall(r'data-n="([^"]*)" data-s="(\d+)" data-w="(\d+)" data-d="(\d+)"', done.text)
    totals: Counter[str] = Counter()
    open_boxes: list[str] = []
    for name, _, width, depth in boxes:
        del open_boxes[int(depth):]
        if plain(name) not in open_boxes:
            totals[plain(name)] += int(width)
        open_boxes.append(plain(name))
    roots = {plain(name) for name, _, _, depth in boxes if depth == "1"}
    return View(dict(totals), known.leaves, roots)


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
    whole, cut = (record(folder / f"{name}.ljt", [folder / "p"], "--trace-mem=no", *options).path
                  for name, options in (("whole", ()), ("cut", ("--stack-depth=12",))))
    return whole, cut


def test_the_callers_of_a_deep_recursion(deep: tuple[Path, Path]) -> None:
    rows = json.loads(steve("sites", "--json", deep[0]).text)
    assert [(row["blocks"], row["site"].split(" < ")[1].split()[0]) for row in rows] == [(20, "beta"), (10, "alpha")]
    assert all(f"{name} (p.c:" in " ".join(steve("sites", deep[0]).text.split()) for name in ("alpha", "beta"))
    known = of_sites(deep[0], "bytes")
    assert of_callgrind(deep[0], known).totals == known.totals == {"down": 3000, "alpha": 1000, "beta": 2000,
                                                                   "main": 3000}


@pytest.mark.parametrize("form", ("sites", "flame", "folded", "speedscope", "dhat", "pprof", "heaptrack"))
def test_a_cut_stack_says_so(form: str, deep: tuple[Path, Path]) -> None:
    known = of_sites(deep[1], "bytes")
    found = known if form == "sites" else of_flame(deep[1], known) if form == "flame" else \
        of_heaptrack(deep[1]) if form == "heaptrack" else VIEWS[form](deep[1])
    assert (found.leaves, found.roots) == ({"down"}, {"[cut at 12]"})


FUNCTIONS = {"c": ("main", "parse", "plan", "cache", "node_new", "make"),
             "cpp": ("main", "fill", "grow", "name"),
             "lua": ("main", "lua_pcall", "main chunk", "leaf", "a", "b")}
SKIPPED_LEAVES = ("malloc", "zmalloc", "operator new(unsigned long)", "lj_mem_realloc")
VIEWS = {"folded": of_folded, "speedscope": of_speedscope, "dhat": of_dhat, "pprof": of_pprof}


@pytest.mark.parametrize("program", FUNCTIONS)
@pytest.mark.parametrize("form", [*VIEWS, "flame", "callgrind"])
def test_bytes_by_function(form: str, program: str, traces: dict[str, Path]) -> None:
    known = of_sites(traces[program], "bytes")
    found = VIEWS[form](traces[program]) if form in VIEWS else \
        (of_flame if form == "flame" else of_callgrind)(traces[program], known)
    missing = sum(known.totals.values()) // 1000 if form == "flame" else 0  # narrow boxes are not drawn
    assert all(known.totals[name] - missing <= found.totals[name] <= known.totals[name]
               for name in FUNCTIONS[program])
    assert (found.leaves, found.roots) == (known.leaves, known.roots)


@pytest.mark.parametrize("program", ("c", "cpp"))
def test_blocks_by_function(program: str, traces: dict[str, Path]) -> None:
    known, found = of_sites(traces[program], "blocks"), of_heaptrack(traces[program])
    assert {name: found.totals[name] for name in FUNCTIONS[program]} == {
        name: known.totals[name] for name in FUNCTIONS[program]}


@pytest.mark.parametrize("program", FUNCTIONS)
def test_leaf_and_root(program: str, traces: dict[str, Path]) -> None:
    """No stack begins with a function that only allocates, and all that main calls is below main."""
    known = of_sites(traces[program], "bytes")
    assert not known.leaves & {*SKIPPED_LEAVES}
    assert "main" in known.roots and not known.roots & {"(below main)", "_start", "__libc_start_main@@GLIBC_2.34"}
    everything = sum(row["bytes"] for row in json.loads(steve("sites", "--json", traces[program]).text))
    outside = everything - known.totals["main"]
    assert outside == sum(row["bytes"] for row in json.loads(steve("sites", "--json", traces[program]).text)
                          if not re.search(r"(^| < )main( \(|$)", row["site"]))
    if program != "cpp":  # libstdc++ allocates before main
        assert outside == 0


def test_wrappers(traces: dict[str, Path]) -> None:
    """A table shows as many frames as it takes to tell its rows apart."""
    rows = json.loads(steve("sites", "--json", "--alloc-fn", "make", traces["c"]).text)
    assert [(row["site"].split(" (")[0], row["blocks"]) for row in rows] == [("node_new", 300), ("node_new", 200), (
        "node_new", 100)]
    table = " ".join(steve("sites", traces["c"]).text.split())
    assert all(f"< {name} (p.c:" in table for name in ("parse", "plan", "cache")) and "main (" not in table


@pytest.mark.parametrize("by", ("stack", "function", "line", "file", "object", "type", "thread"))
@pytest.mark.parametrize("program", FUNCTIONS)
def test_roll_ups_have_the_same_sum(by: str, program: str, traces: dict[str, Path]) -> None:
    totals = {key: sum(row[key] for row in json.loads(steve("sites", "--json", traces[program]).text))
              for key in ("blocks", "bytes")}
    rows = json.loads(steve("sites", "--json", "--by", by, "--top", "1", traces[program]).text)
    assert {key: sum(row[key] for row in rows) for key in totals} == totals
    assert len(rows) == 1 or re.fullmatch(r"others \([\d,]+\)", rows[1]["site"])
