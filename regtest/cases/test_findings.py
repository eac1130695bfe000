"""test_findings - the rules about sites find what was planted, in C and in Lua, and nothing in the mended programs; nor
in programs in which there is nothing to find.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import subprocess
from pathlib import Path

import pytest

from support import SOURCE, Trace, record, steve

RULES = ("growth", "temporary_line", "capacity")
C = """\
#include <stdlib.h>
#include <string.h>
static volatile long sink;
struct item { struct item *next; long number; };
static struct item *items;
static char *buffers[64];
static void remember(long i) {
    struct item *it = malloc(sizeof *it);
    it->number = i;
    it->next = items;
#ifdef MENDED
    if (items) { it->next = items->next; free(items); }
#endif
    items = it;
}
static long measure(long i) {
#ifdef MENDED
    char text[48];
#else
    char *text = malloc(48);
#endif
    text[0] = (char)i;
    text[1] = 0;
    long n = (long)strlen(text);
#ifndef MENDED
    free(text);
#endif
    return n;
}
static void fill(long i) {
#ifdef MENDED
    enum { ROOM = 128 };
#else
    enum { ROOM = 8192 };
#endif
    free(buffers[i % 64]);
    buffers[i % 64] = malloc(ROOM);
    memset(buffers[i % 64], (int)i, 100);
}
int main(void) {
    char *table = calloc(1, 4096);
    for (long i = 0; i < 12000; i++) {
        remember(i);
        sink += measure(i);
        if (i % 4 == 0) fill(i / 4);
        for (long j = 0; j < 60; j++) sink += table[(i * j) & 4095]++;
    }
    for (int i = 0; i < 64; i++) free(buffers[i]);
    free(table);
    return 0;
}
"""
LUA = """\
local mended = arg[1] == "mended"
local cache, point = {}, {x = 0, y = 0}

local function remember(i)
    if not mended then
        cache[i] = {name = "entry", i}
    elseif i % 1000 == 0 then
        cache = {name = "entry", i}
    end
end

local function step(i)
    if mended then
        point.x, point.y = i, i + 1
    else
        point = {x = i, y = i + 1}
    end
    return point.x + point.y
end

local sum, pieces = 0, {}
for i = 1, 12000 do
    if i % 4 == 0 then
        remember(i)
    end
    for j = 1, 10 do
        sum = sum + step(j)
    end
    pieces[i % 40] = "line " .. i
end
"""
SUNK = """\
local cache, last, total = {}, nil, 0
local function point(x, y)
    return {x = x, y = y}
end
local function remember(i)
    cache[arg[1] == "mended" and i % 4000 or #cache + 1] = {key = i, value = "item " .. i .. "!"}
    last = i % 2000 == 0 and {i} or last
end
for i = 1, 1600000 do
    local p = point(i, i + 1)
    local q = point(p.y, p.x)
    total = total + q.x - q.y
    if i % 200 == 0 then
        remember(i)
    end
end
"""
PYTHON = """\
import ast, collections, json
text = open(json.__file__).read()
words = collections.Counter()
for turn in range(12):
    words.update(type(node).__name__ for node in ast.walk(ast.parse(text)))
    found = json.loads(json.dumps({str(i): [i, str(i), {"a": i / 3}] for i in range(400)}))
    sorted(found.items(), key=lambda pair: pair[0][::-1])
"""


def found_in(trace: Trace, by: str = "line") -> dict[str, list[dict]]:
    """The rows of each rule."""
    done = steve("findings", "--json", "--by", by, "--rules", ",".join(RULES), trace.path)
    return {finding["finding"]: finding["sites"] for finding in json.loads(done.text)}


def report_agrees(trace: Trace, *expected: str) -> None:
    """The report finds what the command finds, in one process and in shards, also by these rules. What is kept until
    the last mark is a sentence of its page, by line; free memory of the allocators, too."""
    rules = json.loads(steve("findings", "--json", trace.path).text)
    command = [finding for finding in rules if finding["finding"] not in ("kept", "kept_free")]
    rows = [finding for finding in command if finding.get("blocks")]
    for shards in ("1", "3"):
        report = json.loads(steve("report", "--json", "-j", shards, trace.path).text)
        assert report["findings"] == [{key: row[key] for key in report["findings"][0]} for row in rows]
        assert set(expected) <= {finding["finding"] for finding in report["findings"]}
        unjudged = {finding["finding"]: finding["not_judged"] for finding in command if finding.get("not_judged")}
        assert report["not_judged"] == unjudged


def names(found: dict[str, list[dict]]) -> dict[str, list[str]]:
    return {rule: [row["site"] for row in rows] for rule, rows in found.items()}


def line_of(text: str, what: str) -> int:
    return 1 + next(i for i, line in enumerate(text.splitlines()) if what in line)


@pytest.fixture(scope="module", params=["planted", "mended"])
def c_trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bool, Trace]:
    folder = tmp_path_factory.mktemp("findings")
    (folder / "app.c").write_text(C)
    options = ["-DMENDED"] if request.param == "mended" else []
    subprocess.run(["gcc", "-g", "-O0", "-o", folder / "app", folder / "app.c", *options], check=True)
    return request.param == "planted", record(folder / "t.ljt", [folder / "app"])


def test_c(c_trace: tuple[bool, Trace]) -> None:
    planted, trace = c_trace
    found = found_in(trace)
    if not planted:
        assert names(found) == {rule: [] for rule in RULES}
        return
    assert names(found) == {
        "growth": [f"remember (app.c:{line_of(C, 'malloc(sizeof')})"],
        "temporary_line": [f"measure (app.c:{line_of(C, 'malloc(48)')})"],
        "capacity": [f"fill (app.c:{line_of(C, 'malloc(ROOM)')})"],
    }
    (grown,), (brief,), (spare,) = (found[rule] for rule in RULES)
    assert grown["bytes"] == 16 * grown["blocks"] and 5000 < grown["blocks"] < 12000
    assert (
        grown["accesses"] >= 24000 and 16 * 12000 * 0.9 < grown["slope"] / 1000 * operations(trace) < 16 * 12000 * 1.1
    )
    assert (brief["blocks"], brief["bytes"]) == (12000, 12000 * 48) and brief["accesses"] >= 24000
    assert (spare["blocks"], spare["bytes"]) == (3000, 3000 * (8192 - 128))


def operations(trace: Trace) -> int:
    totals = json.loads(steve("report", "--json", trace.path).text)["totals"]
    return sum(totals[name] for name in ("new", "free", "resize", "load", "store", "modify"))


def test_the_report_has_the_same(c_trace: tuple[bool, Trace]) -> None:
    planted, trace = c_trace
    report = {f["finding"]: f for f in json.loads(steve("report", "--json", trace.path).text)["findings"]}
    assert {rule for rule in RULES if rule in report} == (set(RULES) if planted else set())
    report_agrees(trace, *(RULES if planted else ()))


def test_more_equal_sites_than_are_named(tmp_path: Path) -> None:
    """The report names the first sites of a finding if many are equal and not all are named."""
    lines = "\n".join("    (kept[n++] = malloc(2000))[0] = 1;" for _ in range(40))
    (tmp_path / "app.c").write_text(
        f"#include <stdlib.h>\nstatic char *kept[40];\nint main(void)\n{{\n    int n = 0;\n{lines}\n    return n != 40;\n}}\n"
    )
    subprocess.run(["gcc", "-g", "-O0", "-o", tmp_path / "app", tmp_path / "app.c"], check=True)
    trace = record(tmp_path / "t.ljt", [tmp_path / "app"])
    steve("report", trace.path, "-o", tmp_path / "t.html")
    finding = (tmp_path / "t.html").read_text().split("Written, never read")[1].split("</table>")[0]
    named = [int(line) for line in re.findall(r"<li>main \(app\.c:(\d+)\)</li>", finding)]
    assert named == list(range(6, 6 + len(named))) and 5 < len(named) < 40


def test_growth_beside_temporaries_that_are_sunk(tmp_path: Path) -> None:
    """The JIT compiler allocates next to no temporaries of this program, so the garbage collector runs only when the heap
    has doubled."""
    (tmp_path / "app.lua").write_text(SUNK)
    for way, lines in (("planted", [f"remember (app.lua:{line_of(SUNK, 'cache[')})"]), ("mended", [])):
        trace = record(tmp_path / f"{way}.ljt", ["luajit", tmp_path / "app.lua", way], "--trace-mem=no")
        rows = json.loads(steve("lines", "--json", trace.path).text)
        made = {(row["function"], row["line"]): row["allocs"] for row in rows}
        point, remember = (line_of(SUNK, text) for text in ("return {x", "cache["))
        assert made["point", point] < 16000 <= made["remember", remember]
        assert names(found_in(trace))["growth"] == lines


@pytest.mark.parametrize("flags", [[], ["-joff"]], ids=["jit", "interpreter"])
def test_lua(flags: list[str], tmp_path: Path) -> None:
    (tmp_path / "app.lua").write_text(LUA)
    found = {
        way: found_in(record(tmp_path / f"{way}.ljt", ["luajit", *flags, tmp_path / "app.lua", way]))
        for way in ("planted", "mended")
    }
    assert names(found["planted"]) == {
        "growth": [f"remember (app.lua:{line_of(LUA, 'cache[i] =')})"],
        "temporary_line": [f"step (app.lua:{line_of(LUA, 'point = {x = i')})"],
        "capacity": [],
    }
    (grown,) = found["planted"]["growth"]
    assert 100 * 1400 < grown["bytes"] < 160 * 3000
    assert names(found["mended"]) == {rule: [] for rule in RULES}


def test_nothing_in_sqlite(tmp_path: Path) -> None:
    lines = ["create table item(id integer primary key, name text, kind int); create index k on item(kind);"]
    for turn in range(12):
        rows = [f"insert into item values({i}, 'name {i * 7919 % 1000}', {i * 31 % 17});" for i in range(60)]
        lines += ["begin;", *rows, "commit;", "select kind, count(*), max(name) from item group by kind order by 2;"]
        lines += ["update item set name = name || kind where id % 3 = 0;", "delete from item;"]
    (tmp_path / "app.sql").write_text("\n".join(lines))
    trace = record(tmp_path / "t.ljt", ["sqlite3", "-batch", ":memory:", f".read {tmp_path / 'app.sql'}"])
    for by in ("stack", "line"):
        assert names(found_in(trace, by)) == {rule: [] for rule in RULES}


def test_nothing_in_python(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", ["/usr/bin/python3", "-I", "-S", "-c", PYTHON])
    for by in ("stack", "line"):
        assert names(found_in(trace, by)) == {rule: [] for rule in RULES}


TREES = """\
local function tree(depth)
  if depth == 0 then return {} end
  return {tree(depth - 1), tree(depth - 1)}
end
local long = tree(8)
for _ = 1, 300 do tree(8) end
"""


def test_churn_of_a_collector(tmp_path: Path) -> None:
    """Trees that are made and dropped: hundreds of times what lives. Under Valgrind the time of the collector is known."""
    (tmp_path / "trees.lua").write_text(TREES)
    trace = record(tmp_path / "t.ljt", ["luajit", tmp_path / "trees.lua"])
    (churn,) = json.loads(steve("findings", trace.path, "--rules", "churn", "--by", "function", "--json").text)
    assert [row["site"] for row in churn["sites"]] == ["tree (trees.lua:1)"]
    assert churn["bytes"] > 200 * 256 * 2 * 32
    report_agrees(trace, "churn")
    heading = steve("temporaries", trace.path, "--by", "function").text.splitlines()[0]
    collecting = re.search(r"; LuaJIT's garbage collector took ([0-9.]+)% of the instructions$", heading)
    assert collecting and 2 < float(collecting[1]) < 90


MARKS = """\
#include <stdlib.h>
#include <ljtrace/ljtrace.h>
static void *before[1000], *kept[2000];
static void *serve(void) { return malloc(100); }
int main(void) {
    for (int i = 0; i < 1000; i++)
        before[i] = serve();
    for (int round = 0; round < 2; round++) {
        LJTRACE_MARK("round");
        for (int i = 0; i < 1000; i++) {
            free(serve());
            kept[1000 * round + i] = serve();
        }
    }
    LJTRACE_MARK("round");
    void *later = malloc(100000);
    for (int i = 0; i < 2000; i++)
        free(kept[i]);
    return later == NULL;
}
"""


def test_kept_until_the_last_mark(tmp_path: Path) -> None:
    """2,000 blocks of 100 bytes, freed after the last mark; those from before the first one and those freed at once are none."""
    (tmp_path / "marks.c").write_text(MARKS)
    subprocess.run(["gcc", "-g", f"-I{SOURCE}", "-o", tmp_path / "marks", tmp_path / "marks.c"], check=True)
    trace = record(tmp_path / "t.ljt", [tmp_path / "marks"])
    rule = ("findings", "--rules", "kept", "--by", "function", trace.path)
    for more in ((), ("-j", "3"), ("--where", "size = 100")):
        (kept,) = json.loads(steve(*rule, "--json", *more).text)
        assert [(row["site"], row["blocks"], row["bytes"]) for row in kept["sites"]] == [
            ("serve (marks.c)", 2000, 200_000)
        ]
    for more, reason in (("--growth=200001",), None), (("--to", "round"), "--from and --to choose marks"):
        (kept,) = json.loads(steve(*rule, "--json", *more).text)
        assert not kept["sites"] and kept["not_judged"] == reason
    report_agrees(trace)


def test_the_leak_of_the_tutorial(tmp_path: Path) -> None:
    """Who listens is kept; that the program collects its garbage before each mark does not hide it."""
    trace = record(tmp_path / "t.ljt", ["luajit", SOURCE / "examples/listeners.lua"])
    found = json.loads(steve("findings", "--json", "--rules", "kept,growth", "--by", "line", trace.path).text)
    for rule in found:
        (first, second) = [row["site"] for row in rule["sites"]][:2]
        assert (first, second) == ("join (listeners.lua:21)", "join (listeners.lua:25)")


LEAKS = """\
#include <stdlib.h>
#include <string.h>
struct pair { struct pair *other; char text[92]; };
static struct pair *kept;
static struct pair *make(struct pair *other) {
    struct pair *p = calloc(1, sizeof *p);
    p->other = other;
    return p;
}
int main(void) {
    for (int i = 0; i < 50; i++) {
        struct pair *p = make(make(NULL));
        if (i % 10 == 0) {
            free(p->other);
            free(p);
        }
        p = NULL;
    }
    kept = make(NULL);
    char *volatile last = malloc(10);
    memset((void *)last, 0, 10);
    free(last);
    return 0;
}
"""


def test_leaks_come_first(tmp_path: Path) -> None:
    """45 pairs are lost, one block of each by way of the other; what a pointer leads to at the end is none."""
    (tmp_path / "leaks.c").write_text(LEAKS)
    subprocess.run(["gcc", "-g", "-O0", "-o", tmp_path / "leaks", tmp_path / "leaks.c"], check=True)
    trace = record(tmp_path / "t.ljt", [tmp_path / "leaks"])
    first, *_ = json.loads(steve("findings", trace.path, "--by", "function", "--json").text)
    assert (first["finding"], first["not_judged"], first["blocks"], first["bytes"]) == ("leaked", None, 90, 90 * 104)
    (site,) = first["sites"]
    assert (site["site"], site["blocks"]) == ("make (leaks.c)", 90)
    report_agrees(trace, "leaked")
    steve("report", trace.path, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "leaks 9.14 KiB in 90 blocks that are not freed, and nothing points to them at the end" in page
    without = record(tmp_path / "u.ljt", [tmp_path / "leaks"], "--leak-scan=no")
    (leaked,) = json.loads(steve("findings", without.path, "--rules", "leaked", "--json").text)
    assert leaked["not_judged"] == "the recorder did not search for pointers at the end" and not leaked["sites"]
    report_agrees(without)
