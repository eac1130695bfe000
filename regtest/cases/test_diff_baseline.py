"""test_diff_baseline - comparing a program with its stored baseline does not flake: each recording under the tool has the
same blocks and bytes, so that exact conditions hold in every run.

LJTRACE_FAULTS sets the number of runs (`make faults`); without it there are 3.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from pathlib import Path

import pytest

from support import APP_C, Trace, record, run

RUNS = int(os.environ.get("LJTRACE_FAULTS") or 3)
EXACT = ("allocated", "blocks", "peak_live", "live_at_end", "site.allocated", "site.peak_live", "site.live_at_end")
CONDITIONS = [f"--fail-if={name} != +0" for name in EXACT] + [
    "--fail-if=sites.new > 0",
    "--fail-if=sites.new_leaks > 0",
]

PROGRAM = """\
local words, kept = {}, {}
for i = 1, 300 do words[i] = ("word%d"):format(i % 50) end
local function count(list)
   local found = {}
   for _, word in ipairs(list) do found[word] = (found[word] or 0) + 1 end
   return found
end
for round = 1, 5 do kept[round] = count(words) end
for i = 1, 50 do kept[words[i]] = words[i] .. #words[i] end
"""


def recorded(path: Path, argv: list) -> Trace:
    trace = record(path, argv, "--start-off=yes")
    assert trace.run.status == 0, trace.run.complaint
    return trace


@pytest.mark.parametrize("language", ("c", "lua"))
def test_runs_equal_their_baseline(language: str, tmp_path: Path) -> None:
    (tmp_path / "count.lua").write_text(PROGRAM)
    program = [APP_C] if language == "c" else ["luajit", "-joff", tmp_path / "count.lua"]
    recorded(tmp_path / "baseline.ljt", program)
    for number in range(RUNS):
        path = tmp_path / f"run{number}.ljt"
        recorded(path, program)
        done = run(["steve", "diff", "-q", tmp_path / "baseline.ljt", path, *CONDITIONS])
        assert done.status == 0, done.text
        path.unlink()


C_LEAKS = """\
#include <stdlib.h>
#include <stdio.h>
static void *last;
static void keep(size_t size)
{
   void **block = malloc(size);
   *block = last;
   last = block;
}
int main(void)
{
   for (int i = 0; i < 10; i++) keep(64);
   for (int i = 0; i < 10; i++) free(malloc(100));
   return puts("ok") < 0;
}
"""
CC_LEAKS = """\
#include <string>
#include <vector>
static std::vector<std::string *> *kept;
template <class T> static T *made(int size) { return new T(size, 'x'); }
int main()
{
   kept = new std::vector<std::string *>;
   auto keep = [](int size) { kept->push_back(made<std::string>(size)); };
   for (int i = 0; i < 10; i++) keep(100);
}
"""
LUA_LEAKS = """\
kept = {}
local makers = {}
for i = 1, 3 do makers[i] = function(n) return {n, n} end end
local function keep(i) kept[i] = {makers[i % 3 + 1](i)} end
for i = 1, 20 do keep(i) end
kept.last = (function() return {1, 2, 3} end)()
os.exit(0)
"""
LANGUAGES = {
    "c": (C_LEAKS, "//\n//\n#define MORE\n", ["gcc", "-g", "-O1"]),
    "cc": (CC_LEAKS, "//\n//\n#define MORE\n", ["g++", "-g", "-O1"]),
    "lua": (LUA_LEAKS, "--\n--\n--\n", []),
}


@pytest.mark.parametrize("by", ("stack", "function", "line"))
@pytest.mark.parametrize("language", LANGUAGES)
def test_inserted_lines_change_nothing(language: str, by: str, tmp_path: Path) -> None:
    """The places of the program move by three lines, and its source file has another name."""
    text, before, compiler = LANGUAGES[language]
    files = []
    for name, source in (("app1", text), ("app2", before + text)):
        path = tmp_path / f"{name}.{language}"
        path.write_text(source)
        if compiler:
            assert run([*compiler, "-o", tmp_path / name, path]).status == 0
        files.append(tmp_path / f"{name}.ljt")
        recorded(files[-1], [tmp_path / name] if compiler else ["luajit", "-joff", path])
    conditions = ["--fail-if=sites.new_leaks > 0", "--fail-if=sites.new > 0", "--fail-if=site.live_at_end > 0"]
    done = run(["steve", "diff", "-q", *files, "--by", by, *conditions])
    assert "passed: sites.new_leaks > 0: 0\n" in done.text and "passed: sites.new > 0: 0\n" in done.text, done.text
    leaks = done.text.split("FAILED: site.live_at_end > 0")[1]
    assert f"app2.{language}:" in leaks or by == "function" and f"app2.{language}" in leaks
    assert f"app1.{language}" not in done.text


def test_a_change_fails(tmp_path: Path) -> None:
    """What the change allocates is named."""
    (tmp_path / "before.lua").write_text("local kept = {}\nfor i = 1, 100 do kept[i] = {i} end\n")
    (tmp_path / "after.lua").write_text("local kept = {}\nfor i = 1, 300 do kept[i] = {i} end\n")
    for name in ("before", "after"):
        recorded(tmp_path / f"{name}.ljt", ["luajit", "-joff", tmp_path / f"{name}.lua"])
    files = (tmp_path / "before.ljt", tmp_path / "after.ljt")
    done = run(["steve", "diff", "-q", *files, "--by", "line", "--fail-if=blocks > +10% and blocks > +150"])
    assert done.status == 1 and "after.lua:2" in done.text.split("FAILED")[1]
