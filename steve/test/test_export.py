"""Exports: each is opened by its viewer if that is installed, and its numbers equal those of the trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest

GO_TOOLS = sorted(Path("/usr/lib").glob("go-1.*/pkg/tool/linux_amd64/pprof"))
DH_VIEW = Path("/usr/libexec/valgrind")
SCRIPT = """\
info command prog one two
stack main@main.c:5 outer@main.c:20 inner@sub.c:30 malloc
stack main@main.c:6 outer@main.c:21 malloc
stack main@main.c:7 work@@app.lua:12/10
time 1000
N 0x1000 1000 1
N 0x2000 300 2
time 2000
N 0x3000 50 3
at store@s.c:1
S 0x1000 8
L 0x1008 4
time 3000
F 0x2000 2
R 0x3000 0x5000 70 3
time 4000
N 0x6000 10 1
F 0x1000 1
time 5000
end exit
"""
# worked out by hand: the peak of the heap is 1350 bytes, at time 2000
PEAK, ALLOCATED, LEFT = 1350, 1000 + 300 + 50 + 70 + 10, 80


@pytest.fixture
def exported(steve: Any, trace: Callable) -> Callable[..., Path]:
    """A function exported(format, ending) that exports the small trace."""

    def make(form: str, ending: str, *more: str) -> Path:
        path = trace(SCRIPT, "small.ljt")
        done = steve("export", "--format", form, path, *more)
        result = path.with_name("small.ljt" + ending)
        assert done.returncode == 0 and done.err.startswith(f"steve export: wrote {result}: "), done.err
        return result

    return make


def run(*argv: object) -> str:
    return subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=True, timeout=600).stdout


def need(*programs: object) -> None:
    for program in programs:
        if not shutil.which(str(program)):
            pytest.skip(f"{program} is not installed")


def test_folded(exported: Callable) -> None:
    assert exported("folded", ".folded").read_text() == (
        "main;outer 300\nmain;outer;inner 1010\nmain;work app.lua:12 120\n"
    )
    live = exported("folded", ".folded", "--metric", "peak_space").read_text()
    assert live == "main;outer 300\nmain;outer;inner 1000\nmain;work app.lua:12 50\n"


def test_folded_of_chosen_blocks(exported: Callable) -> None:
    text = exported("folded", ".folded", "--where", "size > 200").read_text()
    assert text == "main;outer 300\nmain;outer;inner 1000\n"


def top_of_pprof(path: Path, sample: str) -> dict[str, int]:
    text = run(GO_TOOLS[-1], "-top", "-cum", "-nodefraction=0", "-unit=B", f"-sample_index={sample}", path)
    rows = re.findall(r"^\s*\S+ +\S+ +\S+ +(\d+)(?:\.\d+)?B? +\S+ +(.+)$", text, re.MULTILINE)
    return {name: int(cumulative) for cumulative, name in rows}


def test_pprof(exported: Callable) -> None:
    if not GO_TOOLS:
        pytest.skip("go tool pprof is not installed (package golang-go)")
    path = exported("pprof", ".pb.gz")
    space = top_of_pprof(path, "alloc_space")
    assert (space["main"], space["outer"], space["inner"], space["work (app.lua:10)"]) == (ALLOCATED, 1310, 1010, 120)
    assert top_of_pprof(path, "inuse_space")["main"] == LEFT
    assert top_of_pprof(path, "peak_space")["main"] == PEAK
    assert top_of_pprof(path, "writes")["inner"] == 8


def test_pprof_bytes_are_the_same_each_time(steve: Any, exported: Callable) -> None:
    first = exported("pprof", ".pb.gz").read_bytes()
    assert steve("export", "--format", "pprof", "small.ljt", "-o", "-").stdout == first
    assert b"alloc_space" in gzip.decompress(first)


def test_speedscope(exported: Callable) -> None:
    """The rules of its schema: indices in range, as many weights as samples, end values that equal the sums."""
    data = json.loads(exported("speedscope", ".speedscope.json").read_text())
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    assert all(isinstance(frame["name"], str) and frame["name"] for frame in frames)
    for profile in data["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] in ("bytes", "none")
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        assert all(0 <= i < len(frames) for sample in profile["samples"] for i in sample)
    space = next(p for p in data["profiles"] if p["name"] == "alloc_space")
    names = [[frames[i]["name"] for i in sample] for sample in space["samples"]]
    assert ["main", "outer", "inner"] in names and space["endValue"] == ALLOCATED


def test_callgrind(exported: Callable) -> None:
    need("callgrind_annotate")
    path = exported("callgrind", ".callgrind")
    text = run("callgrind_annotate", "--inclusive=yes", "--show=alloc_space", "--threshold=100", "--auto=no", path)
    inclusive = {
        name: int(n.replace(",", ""))
        for n, name in re.findall(r"^\s*([\d,]+) \([^)]*\)\s+(?:\S+:)(\w+)(?: \[\])?\s*$", text, re.MULTILINE)
    }
    assert inclusive["main"] == ALLOCATED and inclusive["outer"] == 1310 and inclusive["inner"] == 1010


def test_massif(exported: Callable) -> None:
    need("ms_print")
    text = run("ms_print", exported("massif", ".massif"))
    assert "prog one two" in text and "(peak)" in text
    peak = next(line for line in text.splitlines() if re.match(r"\s*\d+\s+2,000\s", line))
    assert f"{PEAK:,}" in peak
    last = [line for line in text.splitlines() if re.match(r"\s*\d+\s+[\d,]+\s+[\d,]+\s", line)][-1]
    assert re.split(r"\s+", last.strip())[1:3] == ["5,000", str(LEFT)]
    assert "->74.07% (1,000B) 0x" in text and "inner (sub.c:30)" in text


def test_massif_thins_out_evenly(steve: Any, trace: Callable) -> None:
    """A trace of any length has about a hundred snapshots, evenly spaced, and one exactly at the peak."""
    script = "".join(
        f"time {100 * i}\nN {0x1000 + 64 * i} {16 + (i == 700) * 90000}\nF {0x1000 + 64 * i}\n" for i in range(1, 2000)
    )
    path = trace(script + "end exit\n")
    assert steve("export", "--format", "massif", path).returncode == 0
    text = path.with_name(path.name + ".massif").read_text()
    times = [int(t) for t in re.findall(r"^time=(\d+)$", text, re.MULTILINE)]
    assert times == sorted(times) and 60 <= len(times) <= 203
    assert max(b - a for a, b in zip(times, times[1:])) <= 3 * 199900 / 100
    assert "time=70000\nmem_heap_B=90016\n" in text and text.count("heap_tree=peak") == 1


def test_heaptrack(exported: Callable) -> None:
    need("heaptrack_print")
    text = run("heaptrack_print", "-f", exported("heaptrack", ".heaptrack.gz"))
    assert "calls to allocation functions: 5 " in text  # a resize is written as a free and an allocation
    assert "peak heap memory consumption: 1.35K" in text
    assert "total memory leaked: 80B" in text
    assert "inner" in text and "sub.c:30" in text


# dh_view.js without a browser: only the parts of the page that its tree builder uses
DRIVER = """
const fs = require('fs'), vm = require('vm'), sandbox = {document: {}, window: {}, console};
vm.createContext(sandbox);
vm.runInContext(fs.readFileSync(process.argv[2], 'utf8'), sandbox);
sandbox.text = fs.readFileSync(process.argv[3], 'utf8');
console.log(vm.runInContext(`gData = JSON.parse(text);
gSelect = {childNodes: gSelectData.map(() => ({})), selectedIndex: 0}; buildTree();
JSON.stringify([gRoot._totalBytes, gRoot._totalBlocks, gRoot._atTGmaxBytes, gRoot._atTEndBytes, gRoot._readsBytes])`,
sandbox));
"""


def points(path: Path) -> list[dict]:
    return json.loads(path.read_text())["pps"]


def test_dhat_sums(exported: Callable) -> None:
    """The rules that the viewer checks (frames in range, no stack twice), and the numbers."""
    path = exported("dhat", ".dhat.json")
    data = json.loads(path.read_text())
    stacks = [tuple(p["fs"]) for p in points(path)]
    assert len(set(stacks)) == len(stacks) and all(0 < f < len(data["ftbl"]) for s in stacks for f in s)
    assert data["ftbl"][0] == "[root]" and data["tg"] == 2000 and data["te"] == 5000
    by_leaf = {data["ftbl"][p["fs"][0]].split()[1]: p for p in points(path)}
    inner = by_leaf["inner"]
    assert {k: inner[k] for k in ("tb", "tbk", "mb", "mbk", "gb", "gbk", "eb", "ebk", "rb", "wb")} == {
        "tb": 1010,
        "tbk": 2,
        "mb": 1010,
        "mbk": 2,
        "gb": 1000,
        "gbk": 1,
        "eb": 10,
        "ebk": 1,
        "rb": 4,
        "wb": 8,
    }
    assert inner["tl"] == 3000 + 1000
    assert sum(p["gb"] for p in points(path)) == PEAK and sum(p["eb"] for p in points(path)) == LEFT


def test_dhat_opens_in_its_viewer(exported: Callable, tmp_path: Path) -> None:
    """dh_view's own code, run by node, builds its tree from our file."""
    need("node")
    if not (DH_VIEW / "dh_view.js").exists():
        pytest.skip("dh_view.js is not installed (package valgrind)")
    (tmp_path / "drive.js").write_text(DRIVER)
    done = subprocess.run(
        ["node", tmp_path / "drive.js", DH_VIEW / "dh_view.js", exported("dhat", ".dhat.json")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [ALLOCATED, 4, PEAK, LEFT, 4]


def test_csv(exported: Callable) -> None:
    rows = list(csv.DictReader(exported("csv", ".csv").open()))
    assert [int(row["alloc_space"]) for row in rows] == [1010, 300, 120]
    assert rows[2]["stack"] == "main;work app.lua:12" and int(rows[0]["writes"]) == 8


FORMS = ("pprof", "folded", "speedscope", "callgrind", "csv", "dhat", "massif", "heaptrack", "sqlite", "perfetto")


@pytest.mark.parametrize("form", FORMS)
def test_a_trace_cut_off_is_exported_as_far_as_it_goes(form: str, steve: Any, trace: Callable, tmp_path: Path) -> None:
    path = trace(SCRIPT, "cut.ljt", chunk_events=4)
    path.write_bytes(path.read_bytes()[:-60])
    done = steve("export", "--format", form, path, "-o", tmp_path / "out")
    assert done.returncode == 1 and len(done.err.splitlines()) == 1 and (tmp_path / "out").exists()


@pytest.mark.parametrize("form", FORMS)
def test_names_with_line_breaks(form: str, steve: Any, trace: Callable, tmp_path: Path) -> None:
    """A name with a line break, and an earlier name that differs only in the break."""
    path = trace("stack f\x1cg@a\x0bb.c:1\nstack f\x0bg@a\x1cb.c:2\nN 4096 16 1\nN 8192 16 2\nend exit\n")
    done = steve("export", "--format", form, path, "-o", tmp_path / "out")
    assert (done.returncode, done.err) == (0, "")


def test_an_empty_trace(steve: Any, trace: Callable, tmp_path: Path) -> None:
    path = trace("end exit\n")
    for form in FORMS:
        done = steve("export", "--format", form, path, "-o", tmp_path / f"out.{form}")
        assert (done.returncode, done.err) == (0, ""), form


def test_several_formats(steve: Any, trace: Callable) -> None:
    path = trace(SCRIPT, "small.ljt")
    done = steve("export", "--format", "heaptrack,folded,csv", path, "--metric", "peak_space")
    assert done.returncode == 0 and len(done.err.splitlines()) == 3, done.err
    for form, ending in (("folded", ".folded"), ("csv", ".csv")):
        options = ("--metric", "peak_space") if form == "folded" else ()
        alone = steve("export", "--format", form, path, "-o", "-", *options).out
        assert path.with_name(f"small.ljt{ending}").read_text() == alone
    for line in (("--format", "csv,folded", path, "-o", "x"), ("--format", "csv,folded", "-")):
        done = steve("export", *line)
        assert done.returncode == 2 and "several formats go to files beside FILE" in done.err
    done = steve("export", "--format", "csv,foldet", path)
    assert done.returncode == 2 and "did you mean 'folded'?" in done.err


def test_wrong_usage(steve: Any, trace: Callable) -> None:
    path = trace(SCRIPT)
    assert steve("export", path).returncode == 2
    assert steve("export", "--format", "gif", path).returncode == 2
    done = steve("export", "--format", "sysprof", "--where", "size > 1", path)
    assert done.returncode == 2 and "--where" in done.err
