"""steve animate: the film exists, can be read, and shows a heap that changes.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Steve
from steve.analysis import film_sites
from steve.analysis.blocks import Blocks
from test_allocstats import make_ops

CHOICE = {"salvage": False, "quiet": True, "every_block": "", "where": None, "begin": None, "end": None}


def without_allocator() -> dict[str, str]:
    """The environment without $ALLOCATOR, which would be the default."""
    return {name: value for name, value in os.environ.items() if name != "ALLOCATOR"}


@pytest.fixture
def ops(steve: Steve) -> Path:
    if shutil.which("steve-replay") is None:
        pytest.skip("steve-replay is not on PATH: build it first")
    make_ops(steve.folder / "app-ops", 3, 1500)
    return steve.folder / "app-ops"


def frame_sums(film: Path, *options: str) -> list[str]:
    """A checksum of each decoded frame."""
    result = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", str(film), *options, "-f", "framemd5", "-"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split(",")[-1].strip() for line in result.stdout.splitlines() if not line.startswith("#")]


def test_film_with_its_default_name(steve: Steve, ops: Path) -> None:
    result = steve("animate", "app-ops", "--frames", "40", "--size", "640x360")
    assert result.returncode == 0, result.err
    film = steve.folder / "app-ops-animation.avi"
    assert "wrote app-ops-animation.avi" in result.err and "640x360" in result.err
    sums = frame_sums(film)
    assert 10 <= len(sums) <= 41 and len(set(sums)) > len(sums) // 2
    assert f"{len(sums)} frames" in result.err


def test_film_facts_and_allocator(steve: Steve, ops: Path) -> None:
    result = steve(
        "animate",
        "app-ops",
        "-o",
        "heap.mp4",
        "--allocator",
        "./drivers/plot_mimalloc",
        "--frames",
        "25",
        "--heap",
        "64M",
        "--json",
    )
    assert result.returncode == 0, result.err
    facts = json.loads(result.out)
    assert facts["film"] == "heap.mp4" and facts["allocator"] == "mimalloc"
    assert facts["frames"] == len(frame_sums(steve.folder / "heap.mp4")) and facts["seconds"] > 0


def picture_size(picture: Path) -> str:
    result = subprocess.run(
        ["ffprobe", "-v", "error", "-show_entries", "stream=width,height", "-of", "csv=p=0", str(picture)],
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_side_by_side_in_step(steve: Steve, ops: Path) -> None:
    """Three tiles in a grid of four show the same as the film of each allocator alone. The film of an allocator
    whose heap is too small stays on its last picture."""
    arguments = ("--frames", "20", "--size", "1280x720", "--json", "--heap", "1M")
    result = steve("animate", "app-ops", "-o", "all.mkv", "--allocator", "bestfit,bump,buddy", *arguments)
    assert result.returncode == 0, result.err
    facts = json.loads(result.out)
    assert (facts["allocator"], facts["width"], facts["height"]) == ("bestfit,bump,buddy", 1280, 720)
    frames = len(frame_sums(steve.folder / "all.mkv"))
    assert facts["frames"] == frames and len(set(frame_sums(steve.folder / "all.mkv"))) > frames // 2
    assert "bump: out of memory" in result.err


def test_pictures(steve: Steve, ops: Path) -> None:
    result = steve(
        *("animate", "app-ops", "-o", "f.webm", "--size", "640x360", "--frames", "5", "--layout", "hilbert"),
        *("--time", "bytes", "--still", "s.png", "--at", "100,900", "--poster", "p.png", "-q"),
    )
    assert result.returncode == 0, result.err
    for name in ("s-100.png", "s-900.png", "p.png"):
        assert picture_size(steve.folder / name) == "640,360"
    assert (steve.folder / "s-100.png").read_bytes() != (steve.folder / "s-900.png").read_bytes()
    assert 5 <= len(frame_sums(steve.folder / "f.webm")) <= 6


def test_pictures_of_several_allocators(steve: Steve, ops: Path) -> None:
    """Pictures are arranged as the film is, and each tile equals the picture of its allocator alone, even if
    that ends early."""
    result = steve(
        *("animate", "app-ops", "-o", "f.mkv", "--size", "1280x720", "--frames", "5", "--heap", "1M", "-q"),
        *("--allocator", "bestfit,bump,buddy", "--still", "s.png", "--at", "100,900", "--poster", "p.png"),
    )
    assert result.returncode == 0, result.err
    for name in ("s-100.png", "s-900.png", "p.png"):
        assert picture_size(steve.folder / name) == "1280,720"
    assert frame_sums(steve.folder / "s-100.png") != frame_sums(steve.folder / "s-900.png")
    tiles = [frame_sums(steve.folder / "s-900.png", "-vf", f"crop=640:360:{x}:{y}") for x in (0, 640) for y in (0, 360)]
    assert len({tile[0] for tile in tiles}) == 4
    assert sorted(path.name for path in steve.folder.glob("*.png")) == ["p.png", "s-100.png", "s-900.png"]


def test_several_allocators_have_one_heap(steve: Steve, ops: Path) -> None:
    """The heap is that of the allocator that needs most to start; the heading of each tile shows its size."""
    calls = steve.folder / "calls"
    program = steve.folder / "replay"
    program.write_text(f'#!/bin/sh\necho "$@" >>{calls}\nexec {shutil.which("steve-replay")} "$@"\n')
    program.chmod(0o755)
    done = steve(
        "animate",
        "app-ops",
        "-o",
        "f.mkv",
        "--frames",
        "3",
        "--size",
        "640x400",
        "--allocator",
        "firstfit,glibc",
        env={**os.environ, "STEVE_REPLAY": str(program)},
    )
    assert done.returncode == 0, done.err
    heaps = [line.split("--heap ")[1].split()[0] for line in calls.read_text().splitlines() if "--memplot" in line]
    known = json.loads(subprocess.run(["steve-replay", "--list", "--json"], capture_output=True, check=True).stdout)
    least = max(d["least_heap"] for d in known if d["name"] in ("firstfit", "glibc"))
    assert len(heaps) == 4 and len(set(heaps)) == 1 and int(heaps[0]) >= least


def test_accesses_are_shown_or_not(steve: Steve) -> None:
    lines = [f"{i} N {4096 + i * 4096} 4096\n" for i in range(40)]
    lines += [f"{i} S {4096 + i * 4096} 4096\n{i + 40} N {4096 + (i + 40) * 4096} 16\n" for i in range(40)]
    (steve.folder / "app-ops").write_text("".join(lines))
    sums = {}
    for value in ("yes", "no"):
        done = steve("animate", "app-ops", "-o", "f.mkv", "--frames", "20", "--size", "640x360", "--accesses", value)
        assert done.returncode == 0, done.err
        sums[value] = frame_sums(steve.folder / "f.mkv")
    assert len(sums["yes"]) == len(sums["no"]) and sums["yes"] != sums["no"]


def blocks_of(heap: int) -> str:
    """The script of a trace with 300 blocks of a heap, some of which are resized, and half of which are freed."""
    lines = [f"N {4096 + 64 * i} {16 + i % 32} 0 {heap}" for i in range(300)]
    lines += [f"R {4096 + 64 * i} {4096 + 64 * i} 60 0 {heap}" for i in range(0, 300, 3)]
    lines += [f"F {4096 + 64 * i} 0 {heap}" for i in range(0, 300, 2)]
    return "heap 77 lua\n" * heap + "\n".join(lines) + "\nend exit\n"


@pytest.mark.parametrize(("heap", "allocator"), [(0, "glibc"), (1, "luajit")])
def test_a_trace_is_shown_on_the_allocator_of_its_program(
    steve: Steve, ops: Path, trace: Callable[..., Path], heap: int, allocator: str
) -> None:
    path = trace(blocks_of(heap))
    done = steve("animate", path, "--frames", "20", "--size", "640x360", "--json", env=without_allocator())
    assert done.returncode == 0, done.err
    facts = json.loads(done.out)
    assert (facts["allocator"], facts["film"]) == (allocator, f"{path}-animation.avi")
    assert len(set(frame_sums(Path(facts["film"])))) > 10
    # another one is shown if it is named
    done = steve("animate", path, "-o", "b.mkv", "--allocator", "bump", "--frames", "5", "--size", "640x360", "--json")
    assert json.loads(done.out)["allocator"] == "bump", done.err


def test_an_ops_file_is_shown_on_the_c_library(steve: Steve, ops: Path) -> None:
    arguments = ("animate", "app-ops", "-o", "f.mkv", "--frames", "3", "--size", "640x360")
    done = steve(*arguments, env=without_allocator())
    assert done.returncode == 0 and done.err.endswith("640x360, glibc\n"), done.err
    done = steve(*arguments, env={**os.environ, "ALLOCATOR": "./drivers/plot_firstfit"})
    assert done.returncode == 0 and done.err.endswith("640x360\n"), done.err


def test_a_cut_trace_is_shown_up_to_there(steve: Steve, ops: Path, trace: Callable[..., Path]) -> None:
    """The film has what comes before the end, the exit status is 1, and messages name the trace."""
    path = trace(blocks_of(0), chunk_events=50)
    whole = path.read_bytes()
    arguments = ("--frames", "5", "--size", "640x360", "--json")
    path.write_bytes(whole[: len(whole) * 2 // 3])
    done = steve("animate", path, "-o", "f.mkv", *arguments)
    assert done.returncode == 1 and f"{path}: " in done.err and "-ops" not in done.err, done.err
    assert json.loads(done.out)["frames"] == len(frame_sums(steve.folder / "f.mkv"))
    empty = trace("end exit\n")
    done = steve("animate", empty, "-o", "none.mkv", *arguments)
    assert done.returncode == 1 and done.err.startswith(f"steve animate: {empty}: no allocations"), done.err
    assert not (steve.folder / "none.mkv").exists()


def test_colours_reach_the_film(steve: Steve, ops: Path) -> None:
    sums = {}
    for colour in ("state", "age", "size"):
        done = steve("animate", "app-ops", "-o", "f.mkv", "--frames", "5", "--size", "640x360", "--color", colour)
        assert done.returncode == 0, done.err
        sums[colour] = tuple(frame_sums(steve.folder / "f.mkv"))
    assert len(set(sums.values())) == 3


def test_colours_by_site(steve: Steve, ops: Path, trace: Callable[..., Path]) -> None:
    """A film of a memtrace; an ops file does not say what made its blocks."""
    stacks = "".join(f"stack main work{i}@w.c:{10 + i} malloc\n" for i in range(7))
    blocks = "".join(f"N {4096 * (i + 1)} {100 * (7 - i % 7)} {1 + i % 7}\n" for i in range(70))
    path = trace(stacks + blocks + "F 4096 1\nend exit\n")
    film_sites.write(Blocks("animate", argparse.Namespace(**CHOICE, file=str(path))), str(steve.folder / "sites"), 60)
    *names, empty, digits = (steve.folder / "sites").read_text().split("\n")
    assert names == [f"work{i} (w.c:{10 + i})" for i in range(5)] and empty == ""
    assert digits == "0123499" * 10
    how = ("--frames", "4", "--size", "640x360", "--color")
    sums = []
    for colour in ("site", "size"):
        done = steve("animate", path, "-o", "f.mkv", *how, colour, "-f")
        assert done.returncode == 0, done.err
        sums.append(frame_sums(steve.folder / "f.mkv"))
    assert sums[0] != sums[1]
    done = steve("animate", "app-ops", "-o", "g.mkv", *how, "site")
    assert done.returncode == 2 and "does not say what made its blocks; give the memtrace" in done.err


def test_names_of_sites_fit() -> None:
    assert film_sites.fitting("short (a.c:1)", 40) == "short (a.c:1)"
    name = film_sites.fitting("a_very_long_function_name_that_goes_on (some_file.cc:12345)", 40)
    assert len(name) == 40 and name.startswith("a_very_long_") and name.endswith("file.cc:12345)") and "..." in name
    assert film_sites.fitting("f\u00fcnf", 40) == "f?nf" and len(film_sites.fitting("x" * 500, 400)) == 62


def test_without_ffmpeg(steve: Steve, ops: Path) -> None:
    """The command fails with one clear line before the replay."""
    done = steve("animate", "app-ops", env={**os.environ, "FFMPEG": "/no/ffmpeg"})
    assert done.returncode == 1
    assert done.err == (
        "steve animate: /no/ffmpeg: no such program; films and pictures need it; install the " "package ffmpeg\n"
    )


def test_stills_in_the_report(steve: Steve, ops: Path) -> None:
    (steve.folder / "memtrace").write_text(">>> N 4096 100\n>>> S 4100 4\n")
    assert steve("animate", "app-ops", "-o", "heap.avi", "--frames", "30", "-q").returncode == 0
    result = steve("report", "memtrace", "-o", "r.html", "--film", "heap.avi")
    assert result.returncode == 0, result.err
    page = (steve.folder / "r.html").read_text()
    stills = [part.split('"')[0] for part in page.split('src="')[1:]]
    assert len(stills) == 4 and len(set(stills)) > 1
    assert all(still.startswith("data:image/jpeg;base64,/9j/") for still in stills)
    (steve.folder / "still.jpg").write_bytes(base64.b64decode(stills[0].split(",")[1]))
    assert picture_size(steve.folder / "still.jpg") == "960,540"  # large enough for the texts


def test_wrong_usage_and_bad_input(steve: Steve, ops: Path) -> None:
    (steve.folder / "foreign").write_text("hello\n")
    cases = [
        (("missing-ops",), 1, "missing-ops"),
        (("foreign",), 1, "foreign"),
        ((), 2, "usage"),
        (("app-ops", "--allocator", "unheard-of"), 2, "unknown allocator 'unheard-of'"),
        (("app-ops", "--allocator", "glibc,mimalloc", "--still", "x.jpg"), 2, "must end in .png"),
        (("app-ops", "--allocator", "glibc,mimalloc", "--at", "5"), 2, "--still"),
        (("app-ops", "--allocator", "glibc,mimalloc", "--size", "480x300"), 1, "640x200"),
        (("app-ops", "--layout", "spiral"), 1, "--layout"),
        (("app-ops", "--size", "big"), 1, "--size"),
        (("app-ops", "-o", "no/folder/x.avi"), 1, "no/folder"),
        (("app-ops", "--heap", "4096", "--allocator", "firstfit"), 1, "--heap"),
    ]
    for arguments, status, message in cases:
        result = steve("animate", *arguments)
        assert (result.returncode, message in result.err) == (status, True), (arguments, result.err)
        assert "Traceback" not in result.err
    assert not list(steve.folder.glob("*.avi"))
