"""test_native_block_samples - `ljtrace run --sample` records a sample of the blocks, and steve estimates all blocks from it.

Programs whose blocks are known are recorded with many seeds. Estimates must be right on average, and as near to the truth
as their standard errors say. With a mean of one byte nearly all blocks are recorded, which shows that each recorded block
ends exactly where it does in the program.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import statistics
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from steve import cli
from steve.command import COMMANDS, Command
from steve.trace._memtrace import FREE, NEW, RESIZE
from steve.trace._memtrace import Trace as Reader
from support import NATIVE, SOURCE, good, run, steve
from test_native import CONDUCT, SAME, native, natively, without_own_lines

SEEDS = 100
MEAN = "4k"
C = r"""
#include <pthread.h>
#include <stdlib.h>
#define OWN __attribute__((noinline)) static void *
OWN small(void) { return malloc(48); }
OWN middle(void) { return calloc(10, 300); }
OWN large(void) { return malloc(9000); }
OWN short_first(void) { return malloc(200); }
OWN grown(void *p) { return realloc(p, 5000); }
OWN passed(size_t n) { return malloc(n); }
static pthread_mutex_t s_lock = PTHREAD_MUTEX_INITIALIZER;
static void *s_box[50], *volatile s_kept;
/* Each thread frees what another one has made. */
static void *swap(void *any)
{
    for (unsigned i = 0; i < 2500; i++) {
        void *p = passed(100 + i % 400);
        pthread_mutex_lock(&s_lock);
        void *other = s_box[i % 50];
        s_box[i % 50] = p;
        pthread_mutex_unlock(&s_lock);
        free(other);
    }
    return any;
}
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 60000; i++)
        if (i % 10) free(small()); else s_kept = small();
    for (int i = 0; i < 1000; i++) free(middle());
    for (int i = 0; i < 400; i++) free(large());
    for (int i = 0; i < 600; i++) free(grown(short_first()));
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, swap, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 50; i++) free(s_box[i]);
}
"""
CPP = r"""
#define OWN __attribute__((noinline)) static
struct node { node *next; char text[72]; };
static node *volatile s_kept;
OWN node *make_node() { return new node; }
OWN char *make_array(int n) { return new char[n]; }
OWN long *make_longs() { return new long[1000]; }
int main()
{
    for (int i = 0; i < 40000; i++) { node *n = make_node(); if (i % 8) delete n; else s_kept = n; }
    for (int i = 0; i < 3000; i++) delete[] make_array(1000);
    for (int i = 0; i < 400; i++) delete[] make_longs();
}
"""
LUA = """
local kept, longest = {}, ("x"):rep(5000)
for i = 1, 40000 do
  local t = {i, i}
  if i % 10 == 0 then kept[i / 10] = t end
end
for i = 1, 1500 do
  local s = ("x"):rep(2000 + i)
end
for i = 1, 20000 do
  local f = function() return i end
end
"""


class Known(NamedTuple):
    """What a line of a program does: the bytes and blocks that it makes, and the bytes that live at the end."""

    bytes: int
    blocks: int
    live: int = 0


PASSED = 4 * sum(100 + i % 400 for i in range(2500))
KNOWN = {
    "c": {
        "small": Known(60000 * 48, 60000, 6000 * 48),
        "middle": Known(3000000, 1000),
        "large": Known(3600000, 400),
        "short_first": Known(600 * 200, 600),
        "grown": Known(600 * 5000, 600),
        "passed": Known(PASSED, 10000),
    },
    "c++": {
        "make_node()": Known(40000 * 80, 40000, 5000 * 80),
        "make_array(int)": Known(3000000, 3000),
        "make_longs()": Known(400 * 8000, 400),
    },
}


def commands(folder: Path) -> dict[str, list[object]]:
    """The programs, compiled."""
    flags = ["-O1", "-g", "-fno-optimize-sibling-calls", "-pthread"]
    for name, text in (("p.c", C), ("p.cpp", CPP), ("p.lua", LUA)):
        (folder / name).write_text(text)
    good(["gcc", *flags, "-o", folder / "c", folder / "p.c"])
    good(["g++", *flags, "-o", folder / "c++", folder / "p.cpp"])
    return {"c": [folder / "c"], "c++": [folder / "c++"], "lua": ["luajit", "-joff", folder / "p.lua"]}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    return commands(tmp_path_factory.mktemp("programs"))


def rows_of(path: Path) -> dict[str, dict]:
    """What `steve lines` says, by function; of Lua by line of the main chunk."""
    out = path.with_suffix(".json")
    assert cli.guarded("lines", ["-q", "--json", "-o", str(out), str(path)]) == 0
    rows = json.loads(out.read_text())
    return {f"line {row['line']}" if row["function"] == "main chunk" else row["function"]: row for row in rows}


def known_of(name: str, path: Path, argv: list[object]) -> dict[str, Known]:
    """What the lines of a program do. For Lua, as a whole recording has it."""
    if name in KNOWN:
        return KNOWN[name]
    rows = rows_of(natively(path, argv).path)
    return {
        line: Known(row["alloc_bytes"], row["allocs"], row["live_bytes_at_end"])
        for line, row in rows.items()
        if line.startswith("line")
    }


@pytest.mark.parametrize("name", ["c", "c++", "lua"])
def test_estimates(name: str, programs: dict[str, list[object]], tmp_path: Path) -> None:
    """Of the lines with more than 5% of the bytes, the mean over all seeds is within 2% of the truth. 88 to 99 of 100
    intervals of 1.96 standard errors hold it. What is freed is freed in every sample."""
    known = known_of(name, tmp_path / "whole.ljt", programs[name])
    known = {line: what for line, what in known.items() if what.bytes > 0.05 * sum(k.bytes for k in known.values())}
    assert len(known) >= 3
    paths = [tmp_path / f"{seed}.ljt" for seed in range(1, SEEDS + 1)]
    runs = [
        [*native(path, f"--sample={MEAN}", f"--sample-seed={seed}"), *programs[name]]
        for seed, path in enumerate(paths, 1)
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(good, runs))
    found = [rows_of(path) for path in paths]
    held: Counter[str] = Counter()
    for line, what in known.items():
        for key, truth in (("alloc_bytes", what.bytes), ("allocs", what.blocks), ("live_bytes_at_end", what.live)):
            values = [rows[line][key] for rows in found]
            errors = [rows[line]["standard_errors"][key] for rows in found]
            if not truth:
                assert not any(values), f"{line}: a block that was freed lives on"
                continue
            mean, spread = statistics.mean(values), statistics.stdev(values)
            near = key == "live_bytes_at_end" or abs(mean - truth) <= 0.02 * truth
            assert near, f"{line} {key}: {mean} for {truth}"
            assert abs(mean - truth) <= 4.5 * spread / SEEDS**0.5, f"{line} {key}: {mean} for {truth}"
            assert 0.75 < statistics.mean(errors) / spread < 1.35, f"{line} {key}: errors {errors} for {spread}"
            held[key] += sum(abs(value - truth) <= 1.96 * error for value, error in zip(values, errors))
    for key in ("alloc_bytes", "allocs"):
        assert 0.88 <= held[key] / (SEEDS * len(known)) <= 0.99, f"{key}: {held[key]} intervals hold the truth"


def test_totals_of_all_views_agree(programs: dict[str, list[object]], tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    good([*native(path, "--sample=2k"), *programs["c"]])
    summary = json.loads(steve("summary", "--json", path).text)
    views = {
        view: json.loads(steve(view, "--json", *options, path).text)
        for view, *options in (("sites",), ("types",), ("lines",), ("lifetimes", "--unit", "instructions"))
    }
    assert sum(row["bytes"] for row in views["sites"]) == summary["bytes"]["allocated"]
    assert sum(row["blocks"] for row in views["sites"]) == summary["blocks"]["total"] == summary["events"]["new"]
    assert sum(row["live_bytes_at_peak"] for row in views["sites"]) == summary["bytes"]["peak_live"]
    assert sum(row["live_bytes_at_end"] for row in views["types"]) == summary["bytes"]["live_at_end"]
    assert sum(row["alloc_bytes"] for row in views["lines"]) == summary["bytes"]["allocated"]
    assert sum(row["bytes"] for row in views["lifetimes"]) == summary["bytes"]["allocated"]
    assert summary["bytes"]["allocated"] - summary["bytes"]["freed"] == summary["bytes"]["live_at_end"]
    for rows in views.values():
        assert all(row["estimated"] is True and row["sample_mean"] == 2048 and row["standard_errors"] for row in rows)
    error = sum(row["standard_errors"]["bytes"] ** 2 for row in views["sites"]) ** 0.5
    assert error == pytest.approx(summary["standard_errors"]["bytes"]["allocated"], rel=1e-3)
    report = json.loads(steve("report", "--json", path).text)
    assert report["estimated"] and report["totals"]["allocated"] == summary["bytes"]["allocated"]


@pytest.mark.parametrize("name", [name for name in SAME if name != "no such program"])
def test_outputs_and_status(name: str, tmp_path: Path) -> None:
    trace, plain = natively(tmp_path / "t.ljt", SAME[name], "--sample=2k"), run(SAME[name])
    assert (trace.run.status, trace.run.out, without_own_lines(trace.run)) == (plain.status, plain.out, plain.err)


def sizes(path: Path, least: int = 40) -> Counter[tuple[int, int]]:
    """How many News and Frees of each size from `least` on there are; a Resize is one of each."""
    found: Counter[tuple[int, int]] = Counter()
    for batch in Reader(str(path)).batches():
        for event in batch[(batch["kind"] == NEW) | (batch["kind"] == FREE) | (batch["kind"] == RESIZE)]:
            if event["kind"] != RESIZE:
                found[int(event["kind"]), int(event["size"])] += 1
                continue
            found[NEW, int(event["size"])] += 1
            found[FREE, int(event["old_size"])] += 1
    return Counter({key: count for key, count in found.items() if key[1] >= least})


@pytest.mark.parametrize(
    "argv",
    [[NATIVE / "heaps"], [CONDUCT, "exit3"], [CONDUCT, "fork"], [CONDUCT, "threads"]],
    ids=["heaps", "exit3", "fork", "threads"],
)
def test_a_mean_of_one_byte_is_a_whole_recording(argv: list[object], tmp_path: Path) -> None:
    sample, whole = (
        natively(tmp_path / f"{n}.ljt", argv, *options).path for n, options in enumerate((["--sample=1"], []))
    )
    assert sizes(sample) == sizes(whole)


def test_lua_with_a_mean_of_one_byte(programs: dict[str, list[object]], tmp_path: Path) -> None:
    """Blocks of Lua heaps, with their types."""
    argv = programs["lua"]
    sample, whole = (
        natively(tmp_path / f"{n}.ljt", argv, *options).path for n, options in enumerate((["--sample=1"], []))
    )
    assert sizes(sample) == sizes(whole)
    of_sample, of_whole = (
        {row["type"]: row["blocks"] for row in json.loads(steve("types", "--json", path).text)}
        for path in (sample, whole)
    )
    assert of_sample["func"] == of_whole["func"] and of_sample["tab"] == of_whole["tab"]


def test_traces_of_lua_programs_with_the_jit_are_sound(tmp_path: Path) -> None:
    for name, work in {"trees": 10, "closures": 2000, "coroutines": 3000, "strings": 3, "parsing": 40}.items():
        argv = ["luajit", SOURCE / "regtest/bench" / f"{name}.lua", work]
        trace = natively(tmp_path / f"{name}.ljt", argv, "--sample=512")
        assert trace.run.out == run(argv).out
        leaks = json.loads(steve("leaks", "--json", trace.path, "--where", 'heap = "lua"').text)
        assert not leaks, "the state is closed"


def test_seed(programs: dict[str, list[object]], tmp_path: Path) -> None:
    def handles(*options: str) -> Counter:
        trace = natively(tmp_path / "t.ljt", programs["c++"], "--sample=1k", *options)
        return sizes(trace.path)

    first = handles("--sample-seed=5")
    assert first == handles("--sample-seed=5")
    assert first != handles("--sample-seed=6")
    assert handles() != handles(), "another seed each time"


def test_facts_and_headings(programs: dict[str, list[object]], tmp_path: Path) -> None:
    sample = natively(tmp_path / "s.ljt", programs["c"], "--sample", "--sample-seed=9").path
    assert {"sample_mean": "524288", "sample_seed": "9"}.items() <= info_of(sample).items()
    for view in (
        ["summary"],
        ["sites"],
        ["lines"],
        ["types"],
        ["threads"],
        ["leaks"],
        ["findings"],
        ["lifetimes", "--unit", "instructions"],
        ["diff", sample],
    ):
        assert "(estimated from a sample: one of 524,288 bytes)" in steve(*view, sample).text
    whole = natively(tmp_path / "w.ljt", programs["c"]).path
    assert "sample_mean" not in info_of(whole)
    for view in ("summary", "sites", "lines", "types", "threads", "leaks", "findings"):
        assert "estimated" not in steve(view, whole).text + steve(view, "--json", whole).text


LIBRARY = """\
#include <stdlib.h>
#include <string.h>

int main(void)
{
    for (int i = 0; i < 10000; i++)
        free(strdup("text"));
    return 0;
}
"""


def test_lines_of_the_c_library_are_added_later(tmp_path: Path) -> None:
    """Its functions have their names at once. Their lines, which take long to read, come by steve symbolize."""
    (tmp_path / "p.c").write_text(LIBRARY)
    good(["gcc", "-g", "-O0", "-fno-builtin", "-o", "p", "p.c"], cwd=tmp_path)
    good(["ljtrace", "run", "--sample=100", f"--out={tmp_path / 'a.ljt'}", "./p"], cwd=tmp_path)
    steve("symbolize", tmp_path / "a.ljt", "-o", tmp_path / "b.ljt")
    for name, has_lines in (("a.ljt", False), ("b.ljt", True)):
        reader = Reader(str(tmp_path / name))
        stacks = [reader.stack_frames(int(e["ref"])) for b in reader.batches() for e in b[b["kind"] == NEW]]
        inside = [frame for stack in stacks for frame in stack if frame.function in ("strdup", "__strdup")]
        assert len(inside) > 50 and all((frame.line > 0) == has_lines for frame in inside)
        assert all(any(frame.function == "main" and frame.line == 7 for frame in stack) for stack in stacks)


def info_of(path: Path) -> dict[str, str]:
    """The facts of a trace."""
    reader = Reader(str(path))
    reader.probe()
    return reader.info()


# commands that read other traces, or need more than a trace
ELSEWHERE = {"universe", "memprof", "sysprof", "serve", "pins", "tune", "synth"}
REFUSING = [
    *(name for name in COMMANDS if Command(name).reads("trace") and not Command(name).reads_samples),
    *(f"export --format {name}" for name in ("heaptrack", "perfetto", "memprof")),
]


@pytest.mark.parametrize("command", [name for name in REFUSING if name not in ELSEWHERE])
def test_what_needs_every_block_refuses(command: str, programs: dict[str, list[object]], tmp_path: Path) -> None:
    sample = natively(tmp_path / "s.ljt", programs["c++"], "--sample").path
    form = ["--simple"] if command == "lockops" else []
    out = tmp_path / ("out.avi" if command == "animate" else "out")
    done = run(["steve", *command.split(), *form, "-o", out, sample])
    assert done.status == 1 and "needs every block" in done.complaint
    assert not [path for path in tmp_path.iterdir() if path != sample]


@pytest.mark.parametrize("format_name", ["pprof", "folded", "speedscope", "callgrind", "csv", "dhat", "massif"])
def test_exports_say_that_they_are_estimates(
    format_name: str, programs: dict[str, list[object]], tmp_path: Path
) -> None:
    sample = natively(tmp_path / "s.ljt", programs["c"], "--sample").path
    done = steve("export", "--format", format_name, "-o", tmp_path / "out", sample)
    assert "the numbers are estimated from a sample" in done.complaint
