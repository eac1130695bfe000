"""steve import: real recordings of heaptrack, glibc's mtrace and Valgrind, and files that are wrong.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import gzip
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest

from steve import cli
from steve.allocstats.film import probe

PROGRAM = """\
#include <mcheck.h>
#include <stdlib.h>
#include <string.h>

static char *keep(int n)
{
    char *p = malloc(n);
    p[0] = 1;
    return p;
}

static void churn(void)
{
    for (int i = 0; i < 5; i++) {
        char *p = malloc(100 + i);
        memset(p, 1, 10);
        free(p);
    }
}

int main(void)
{
    void *aligned = NULL;
    mtrace();
    char *kept = keep(1000), *grown = malloc(50), *zeroed = calloc(10, 20);
    churn();
    grown = realloc(grown, 500);
    grown = realloc(grown, 5000);
    if (posix_memalign(&aligned, 64, 256))
        return 1;
    free(aligned);
    free(zeroed);
    muntrace();
    return kept[0] + grown[0] == 255;
}
"""
# by hand: News, Frees, Resizes, bytes allocated, live at the end, most live
COUNTS = (9, 7, 2)
ALLOCATED, LEFT, PEAK = 1000 + 50 + 200 + 510 + 500 + 5000 + 256, 6000, 6456


def need(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    need("gcc")
    (tmp_path / "app.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O0", "-w", "-o", "app", "app.c"], cwd=tmp_path, check=True)
    return tmp_path / "app"


def summary(steve: Any, path: object) -> dict:
    done = steve("summary", "--json", path)
    assert done.returncode == 0, done.err
    return json.loads(done.out)


def expect(found: dict) -> None:
    """The numbers of the program."""
    assert tuple(found["events"][name] for name in ("new", "free", "resize")) == COUNTS
    assert (found["bytes"]["allocated"], found["bytes"]["live_at_end"]) == (ALLOCATED, LEFT)
    assert found["bytes"]["peak_live"] == PEAK and found["complete"]


def replayed(steve: Any, path: Path, blocks: int) -> None:
    """The trace is sound, and its operations are replayed."""
    assert steve("check", "-q", path).returncode == 0
    assert steve("ops", "--text", path, "-o", "x-ops").returncode == 0
    assert len(re.findall(r"^\d+ N ", (path.parent / "x-ops").read_text(), re.MULTILINE)) == blocks
    if shutil.which("steve-replay"):
        done = steve("allocstats", "-q", "x-ops", "--allocator", "glibc")
        assert done.returncode == 0, done.err


def test_mtrace(program: Path, steve: Any) -> None:
    library = sorted(Path("/lib").glob("*-linux-gnu/libc_malloc_debug.so.0"))
    if not library:
        pytest.skip("libc_malloc_debug.so is not installed (package libc6-dbg or libc6)")
    env = {**os.environ, "MALLOC_TRACE": "calls", "LD_PRELOAD": str(library[0])}
    subprocess.run([program], cwd=program.parent, env=env, check=True)
    done = steve("import", "calls")
    assert done.returncode == 0 and "mtrace does not record: accesses, threads, times" in done.err
    found = summary(steve, "calls.ljt")
    expect(found)
    assert found["time_unit"] == "events"
    sites = steve("sites", "calls.ljt").out
    assert "(imported from mtrace, without accesses, threads, times, stacks but for the caller)" in sites
    assert "(app)" in sites
    replayed(steve, program.with_name("calls.ljt"), 11)  # a resize is a new block there


def test_valgrind(program: Path, steve: Any) -> None:
    need("valgrind")
    env = {name: value for name, value in os.environ.items() if name != "VALGRIND_LIB"}
    line = [
        "valgrind",
        "--trace-malloc=yes",
        "--run-libc-freeres=no",
        "--run-cxx-freeres=no",
        "--log-file=calls",
        program,
    ]
    subprocess.run(line, cwd=program.parent, env=env, check=True, timeout=1800)
    done = steve("import", "-q", "calls", "-o", "v.ljt")
    assert (done.returncode, done.err) == (0, "")
    expect(summary(steve, "v.ljt"))
    facts = json.loads(steve("info", "--json", "v.ljt").out)["recording"]
    assert facts["command"].endswith("/app") and facts["imported_from"] == "valgrind --trace-malloc=yes"
    assert facts["lacks"] == "accesses, threads, times, stacks" and facts["pid"].isdigit()

    replayed(steve, program.with_name("v.ljt"), 11)


@pytest.mark.parametrize("packed", ("as it is", "gzip"))
def test_heaptrack(packed: str, program: Path, steve: Any) -> None:
    """heaptrack also records what the C library and its own start allocate, so its own reader says what is expected."""
    need("heaptrack", "heaptrack_print", "zstd")
    subprocess.run(
        ["heaptrack", "-o", "calls", program], cwd=program.parent, check=True, capture_output=True, timeout=600
    )
    (path,) = program.parent.glob("calls.*")
    if packed == "gzip" and path.suffix == ".zst":
        text = subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout
        path = path.with_suffix(".gz")
        path.write_bytes(gzip.compress(text))
    said = subprocess.run(["heaptrack_print", path], capture_output=True, text=True, check=True, timeout=600).stdout
    done = steve("import", path, "-o", "h.ljt")
    assert done.returncode == 0 and "does not record: accesses, threads, addresses" in done.err
    found = summary(steve, "h.ljt")
    calls = re.search(r"calls to allocation functions: (\d+)", said)
    assert calls and found["events"]["new"] == int(calls[1])
    assert found["bytes"]["live_at_end"] == bytes_of(re.search(r"total memory leaked: (\S+)", said))
    assert found["bytes"]["peak_live"] == pytest.approx(
        bytes_of(re.search(r"peak heap memory consumption: (\S+)", said)), rel=0.01
    )
    lines = {(row["function"], row["line"]): row for row in json.loads(steve("lines", "--json", "h.ljt").out)}
    assert lines["keep", 7]["alloc_bytes"] == 1000 and lines["churn", 15]["alloc_bytes"] == 510
    temporary = json.loads(steve("temporaries", "--json", "h.ljt").out)
    assert any("churn" in row["site"] for row in temporary)
    replayed(steve, program.with_name("h.ljt"), found["events"]["new"])


def bytes_of(match: "re.Match[str] | None") -> float:
    """1.5K of heaptrack_print: units of 1000."""
    assert match is not None
    number, unit = re.fullmatch(r"([\d.]+)([BKMG])", match[1]).groups()
    return float(number) * {"B": 1, "K": 1000, "M": 1e6, "G": 1e9}[unit]


def test_there_and_back(steve: Any, trace: Callable) -> None:
    """A trace exported to heaptrack's format and imported again has the same sums by stack."""
    trace(
        "stack main@m.c:1 f@f.c:2 malloc\nstack main@m.c:3 g@g.c:4 malloc\ntime 5\nN 4096 100 1\nN 8192 50 2\nN 12288 50 2\n"
        "F 8192 1\nend exit\n",
        "a.ljt",
    )
    assert steve("export", "-q", "--format", "heaptrack", "a.ljt", "-o", "a.gz").returncode == 0
    assert steve("import", "-q", "a.gz", "-o", "b.ljt").returncode == 0
    done = steve("diff", "-q", "--json", "a.ljt", "b.ljt")
    assert json.loads(done.out) == []


def test_classic_text(steve: Any, trace: Callable, tmp_path: Path) -> None:
    trace("N 4096 64\nS 4096 8\nL 4100 4\nN 8192 10\nF 4096\nend exit\n")
    text = steve("memtrace", "t.ljt").out
    (tmp_path / "t.txt").write_text("noise\n" + text)
    assert steve("import", "-q", "t.txt").returncode == 0
    assert steve("memtrace", "t.txt.ljt").out == text
    assert "without threads, times, stacks" in steve("sites", "t.txt.ljt").out


def test_realloc_and_failures_of_mtrace(steve: Any, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(
        "= Start\n@ ./a:(f+0x1)[0x10] + 0x1000 0x10\n+ 0x2000 0x20\n@ [0x7] < 0x1000\n@ [0x7] > 0x3000 0x30\n"
        "@ ./a:[0x9] + (nil) 0x99\n@ ./a:[0x9] ! 0x2000 0x999\n@ x < 0x2000\n- 0x5000\n= End\n"
    )
    assert steve("import", "-q", "m").returncode == 0
    found = summary(steve, "m.ljt")
    assert found["events"]["new"] == 2 and found["events"]["resize"] == 1 and found["events"]["free"] == 1
    assert found["bytes"]["live_at_end"] == 0x30 and found["older_frees"] == 1


def test_calls_of_valgrind(steve: Any, tmp_path: Path) -> None:
    """Results in later lines, calls within calls, several processes, all functions."""
    (tmp_path / "v").write_text(
        "out--7-- malloc(10) = 0x1000\n--7-- malloc(99)==7== a message\n--7--  = 0x2000\n--7-- realloc(0x0,5)malloc(5) = 0x3000\n"
        "--7-- realloc(0x3000,0)free(0x3000)\n--7--  = 0\n--7-- realloc(0x1000,20) = 0x4000\n--8-- malloc(1) = 0x9000\n"
        "--7-- _Znwm(4) = 0x5000\n--7-- _ZdlPvm(0x5000)\n--7-- _ZnamSt11align_val_t(size 7, al 64) = 0x6000\n"
        "--7-- calloc(3,4) = 0x7000\n--7-- memalign(al 64, size 8) = 0x8000\n--7-- malloc_usable_size(0x8000) = 8\n"
        "--7-- malloc(18446744073709551615) = 0x0\n--7-- free(0x0)\n--7-- REDIR: 0x1 (libc.so.6:strlen) redirected to 0x2\n"
    )
    done = steve("import", "v", "-o", "v.ljt")
    assert done.returncode == 0 and "left out 1 lines of other processes than the first" in done.err
    found = summary(steve, "v.ljt")
    assert (found["events"]["new"], found["events"]["free"], found["events"]["resize"]) == (7, 2, 1)
    assert found["bytes"]["live_at_end"] == 20 + 99 + 7 + 12 + 8


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "is none of the formats"),
        (
            b"hello\nworld\n",
            "is none of the formats that can be imported: heaptrack, heaptrack-raw, mtrace, valgrind, text",
        ),
        (b"v 10400 9\n", "line 1: format 9 is newer than 3"),
        (b"v 10400 3\ns 5 ab\n", "line 2: is not of heaptrack's format 3"),
        (b"v 10400 3\n+ 0\n", "line 2: is not of heaptrack's format 3"),
        (b"v 10400 3\nt 1 0\n+ 0\n", "line 2: is not of heaptrack's format 3"),
        (b"= Start\n@ x ? 0x1\n= End\n", "line 2: is not of mtrace's format"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 99, "is damaged"),
        (b"\x28\xb5\x2f\xfdgarbage", "is damaged"),
    ],
)
def test_wrong_files(text: bytes, message: str, steve: Any, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(text)
    done = steve("import", "x")
    assert done.returncode == 1 and message in done.err and len(done.err.splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_file_cut_off_is_imported_as_far_as_it_goes(steve: Any, tmp_path: Path) -> None:
    for name, text in (("h", "v 10400 3\nX app\na 10 0\n+ 0\n+ 0\n- "), ("m", "= Start\n+ 0x1000 0x10\n+ 0x20")):
        (tmp_path / name).write_text(text)
        done = steve("import", "-q", name)
        assert done.returncode == 1 and f"{name}: has no end; the trace covers what it has" in done.err
        assert not summary(steve, f"{name}.ljt")["complete"]


@pytest.mark.parametrize("ending", (".gz", ".zst"))
def test_a_compressed_file_cut_off(ending: str, steve: Any, tmp_path: Path) -> None:
    text = "= Start\n" + "".join(f"+ {0x1000 + 16 * i:#x} {i % 13:#x}\n" for i in range(1, 50_000)) + "= End\n"
    path = tmp_path / f"m{ending}"
    if ending == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        need("zstd")
        path.write_bytes(subprocess.run(["zstd", "-c"], input=text.encode(), capture_output=True, check=True).stdout)
    assert steve("import", "-q", path, "-o", "whole.ljt").returncode == 0
    assert summary(steve, "whole.ljt")["blocks"]["total"] == 49_999
    path.write_bytes(path.read_bytes()[:-1000])
    done = steve("import", "-q", path, "-o", "cut.ljt")
    assert done.returncode == 1 and "has no end; the trace covers what it has" in done.err
    assert 0 < summary(steve, "cut.ljt")["blocks"]["total"] < 49_999


SMALL = {
    "h": b"v 10400 3\nX app\ns 1 f\ns 3 a.c\ni 1000 1 1 2 5 1 2 6\nt 1 0\na 10 1\nc 1\n+ 0\n+ 0\n- 0\na ff 1\n+ 1\nc 2f\n- 1\n",
    "m": b"= Start\n@ ./a:(f+0x1)[0x10] + 0x1000 0x10\n@ [0x7] < 0x1000\n@ [0x7] > 0x3000 0x30\n- 0x3000\n= End\n",
    "v": b"--7-- malloc(10) = 0x1000\n--7-- realloc(0x1000,20) = 0x4000\n--7-- _Znwm(4) = 0x5000\n--7-- free(0x4000)\n",
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_damaged_files_end_with_a_message(name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Bytes changed at random: a trace that is sound, or one line that says what is wrong."""
    dice = random.Random(name)
    path = tmp_path / name
    for _ in range(300):
        data = bytearray(SMALL[name])
        for _ in range(dice.choice((1, 2, 5))):
            data[dice.randrange(len(data))] = dice.choice(b"0123456789abcdef-+x =()\n\xff")
        path.write_bytes(data)
        status = cli.guarded("import", ["-q", str(path), "-o", str(tmp_path / "x.ljt")])
        said = capsys.readouterr().err
        assert status in (0, 1) and (status == 0 or said.startswith("steve import: ")), (data, said)
        if status == 0:
            assert cli.guarded("check", ["-q", str(tmp_path / "x.ljt")]) == 0, data
        capsys.readouterr()


def test_from_standard_input(steve: Any, tmp_path: Path) -> None:
    done = steve("import", "-q", "-", "-o", "m.ljt", stdin=b"= Start\n+ 0x1000 0x10\n= End\n")
    assert done.returncode == 0 and summary(steve, "m.ljt")["blocks"]["total"] == 1


def test_heaptrack_raw(program: Path, steve: Any) -> None:
    """A raw file has the sums by line of the file that heaptrack makes of it, and knows which block is freed."""
    need("heaptrack", "heaptrack_print", "zstd")
    for name, options in (("raw", ["--raw"]), ("done", [])):
        subprocess.run(
            ["heaptrack", *options, "-o", name, program],
            cwd=program.parent,
            check=True,
            capture_output=True,
            timeout=600,
        )
        (path,) = program.parent.glob(f"{name}.*")
        done = steve("import", path, "-o", f"{name}.ljt")
        assert done.returncode == 0, done.err
        assert ("which of several equal blocks is freed" in done.err) == (name == "done")
    sums = [
        {
            (row["function"], row["line"]): (row["allocs"], row["alloc_bytes"], row["live_bytes_at_end"])
            for row in json.loads(steve("lines", "--json", f"{name}.ljt").out)
            if row["file"].endswith("app.c")
        }
        for name in ("raw", "done")
    ]
    assert sums[0] == sums[1] and sums[0]["keep", 7] == (1, 1000, 1000) and sums[0]["churn", 15][:2] == (5, 510)
    replayed(steve, program.with_name("raw.ljt"), summary(steve, "raw.ljt")["events"]["new"])


def test_raw_lines(steve: Any, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(
        "v 10400 3\nx 4 /a b\nX a\nm 1 x 1000 0 100\nt 1011 0\n+ 20 1 8000\n- 8000\n- 9000\nc 5\n"
    )
    done = steve("import", "r")
    assert done.returncode == 0 and "left out 1 frees" in done.err
    found = summary(steve, "r.ljt")
    assert (found["events"]["new"], found["events"]["free"], found["bytes"]["allocated"]) == (1, 1, 32)
    assert steve("check", "-q", "r.ljt").returncode == 0
    for wrong in ("+ 20 7 8000", "m 1 x zz", "t 5", "- -1"):
        (tmp_path / "w").write_text(f"v 10400 3\nx 2 /a\n{wrong}\nX a\n")
        done = steve("import", "w")
        assert done.returncode == 1 and "line 3: is not of heaptrack's raw format 3" in done.err


ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "musl")


def test_a_film_of_five_allocators(steve: Any, tmp_path: Path) -> None:
    """A real recording of heaptrack is replayed on five allocators, and filmed."""
    need("gcc", "heaptrack", "ffmpeg", "steve-replay")
    listed = subprocess.run(["steve-replay", "--list"], capture_output=True, text=True, check=True).stdout
    if any(re.search(rf"^{name} +missing", listed, re.MULTILINE) for name in ALLOCATORS):
        pytest.skip("not all of these allocators are built")
    source = Path(os.environ["LJTRACE_SRCDIR"], "examples/pages.c")
    subprocess.run(["gcc", "-g", "-O1", "-o", "pages", source], cwd=tmp_path, check=True)
    subprocess.run(
        ["heaptrack", "-o", "h", "./pages", "2000"], cwd=tmp_path, check=True, capture_output=True, timeout=600
    )
    (path,) = tmp_path.glob("h.*")
    assert steve("import", path, "-o", "h.ljt").returncode == 0
    assert steve("ops", "-q", "h.ljt", "-o", "h-ops").returncode == 0
    options = ("--frames", "12", "--size", "960x540", "-o", "h.avi")
    done = steve("animate", "h-ops", "--allocator", ",".join(ALLOCATORS), *options)
    assert done.returncode == 0, done.err
    film = probe(str(tmp_path / "h.avi"))
    assert (film["frames"], film["width"], film["height"]) == (12, 960, 540)
