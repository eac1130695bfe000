"""End-to-end tests of the films and pictures of the heap: steve-replay --memplot; run through ./in-place.

Files are looked at with ffprobe and ffmpeg, which must find them whole and their frames different. What is in
a picture is tested in test_picture.c.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ops_tools import BAD, BUILD, REAL, SOURCE, Model, moving_ops, replay  # noqa: E402

LIST = {d["name"]: d for d in json.loads(replay("--list", "--json").stdout)}


def ffprobe(path: Path) -> dict[str, str]:
    out = subprocess.run(
        [
            "ffprobe",
            "-v",
            "error",
            "-select_streams",
            "v:0",
            "-count_frames",
            "-show_entries",
            "stream=width,height,nb_read_frames,codec_name",
            "-of",
            "json",
            path,
        ],
        capture_output=True,
        check=True,
    ).stdout
    return json.loads(out)["streams"][0]


def frame_sums(path: Path) -> list[str]:
    out = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", path, "-f", "framemd5", "-"], capture_output=True, text=True, check=True
    ).stdout
    return [line.split(",")[-1].strip() for line in out.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("driver", ["bump", "example_user", "jeff-compact", *REAL])
def test_film(driver: str, ops: tuple[Path, Model], tmp_path: Path) -> None:
    if not LIST[driver]["available"]:
        pytest.skip(f"{driver}: {LIST[driver]['reason']}")
    film, still = tmp_path / "f.mp4", tmp_path / "f.png"
    p = replay(
        "-a",
        driver,
        "--memplot",
        ops[0],
        "-o",
        film,
        "--still",
        still,
        "--size",
        "640x360",
        "--frames",
        40,
        "--heap",
        "128M",
        "--json",
    )
    assert p.returncode == 0, p.stderr
    reported = json.loads(p.stdout.splitlines()[0])
    probe = ffprobe(film)
    assert (probe["width"], probe["height"]) == (640, 360)
    assert int(probe["nb_read_frames"]) == reported["frames"] == 40
    sums = frame_sums(film)
    assert len(set(sums)) == len(sums)
    assert ffprobe(still)["codec_name"] == "png"
    assert sorted(os.listdir(tmp_path)) == ["f.mp4", "f.png"]


def test_strip_is_as_high_as_needed(ops: tuple[Path, Model], tmp_path: Path) -> None:
    """Its full height is the maximum of live and resident bytes, not the range of addresses over which an
    allocator spreads blocks."""

    def strip(driver: str, *more: object) -> int:
        p = replay("-a", driver, "--memplot", ops[0], "--still", tmp_path / "f.png", "--heap", "128M", "--json", *more)
        assert p.returncode == 0, p.stderr
        return int(json.loads(p.stdout)["strip"])

    peak = ops[1].peak
    assert strip("optimal") == peak <= strip("firstfit") < 3 * peak + (1 << 17)
    assert strip("firstfit", "--strip", "5M") == 5 << 20


def test_documented_film_name(ops: tuple[Path, Model], tmp_path: Path) -> None:
    path = tmp_path / "small-ops"
    path.write_text("".join(ops[0].read_text().splitlines(True)[:20]))
    p = subprocess.run(
        [shutil.which("plot_firstfit"), "--memplot", path, "1000000", "-q"], capture_output=True, text=True, check=False
    )
    assert p.returncode == 0, p.stderr
    assert int(ffprobe(tmp_path / "small-ops-animation.avi")["nb_read_frames"]) == 20


def test_film_of_a_moving_allocator(tmp_path: Path) -> None:
    path = tmp_path / "moves-lockops"
    path.write_text(moving_ops(1500, seed=8))
    p = replay(
        "-a",
        BAD,
        "--memplot",
        path,
        "-o",
        tmp_path / "f.mp4",
        "--frames",
        20,
        "--size",
        "640x360",
        "--heap",
        "3x",
        env={"BAD_DRIVER": "moves"},
    )
    assert p.returncode == 0, p.stderr
    assert len(set(frame_sums(tmp_path / "f.mp4"))) >= 15


def test_film_up_to_out_of_memory(ops: tuple[Path, Model], tmp_path: Path) -> None:
    p = replay("-a", "bump", "--memplot", ops[0], ops[1].peak, "-o", tmp_path / "f.mp4", "--frames", 10)
    assert p.returncode == 2 and "out of memory at operation" in p.stderr
    assert "up to where memory ran out" in p.stdout
    assert int(ffprobe(tmp_path / "f.mp4")["nb_read_frames"]) >= 9


def test_film_that_cannot_be_written(ops: tuple[Path, Model], tmp_path: Path) -> None:
    p = replay("-a", "bump", "--memplot", ops[0], "-o", tmp_path / "no" / "f.mp4")
    assert p.returncode == 1
    assert p.stderr == f"steve-replay: {tmp_path}/no/f.mp4: cannot be written: No such file or directory\n"


def test_missing_ffmpeg(ops: tuple[Path, Model], tmp_path: Path) -> None:
    p = replay(
        "-a", "bump", "--memplot", ops[0], "-o", tmp_path / "f.mp4", "--heap", "64M", env={"FFMPEG": "/no/ffmpeg"}
    )
    assert p.returncode == 1 and "cannot run /no/ffmpeg" in p.stderr and "Debian's ffmpeg" in p.stderr
    assert p.stderr.count("\n") == 1
    p = replay("-a", "bump", "--memplot", ops[0], "--still", tmp_path / "f.png", env={"FFMPEG": "none-such"})
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and "cannot run none-such" in p.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("painter", [None, "exit 3", "kill -SEGV $$", "head -c 100000 >/dev/null"])
def test_missing_and_failing_painter(painter: str | None, ops: tuple[Path, Model], tmp_path: Path) -> None:
    """The program that draws is beside the drivers. Without it, or if it fails, no file is left."""
    tools, out = tmp_path / "tools", tmp_path / "out"
    tools.mkdir()
    out.mkdir()
    for name in ("steve-replay", "firstfit.so"):
        shutil.copy(BUILD / "drivers" / name, tools)
    if painter:
        (tools / "film-painter").write_text(f"#!/bin/sh\n{painter}\n")
        (tools / "film-painter").chmod(0o755)
    p = subprocess.run(
        [tools / "steve-replay", "-a", "firstfit", "--memplot", ops[0], "-o", out / "f.mkv", "--size", "640x360"],
        capture_output=True,
        text=True,
        env={**os.environ, "STEVE_DRIVERS": ""},
        check=False,
    )
    if not painter and p.returncode == 0:
        pytest.skip("an installed film-painter is used")
    assert p.returncode == 1 and p.stderr.startswith("steve-replay: ") and p.stderr.count("\n") == 1, p.stderr
    assert ("film-painter" if not painter else "ffmpeg or the program that draws ended before the film did") in p.stderr
    assert os.listdir(out) == []


def pixels(path: Path) -> set[tuple[int, int, int]]:
    raw = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
        capture_output=True,
        check=True,
    ).stdout
    return set(zip(raw[0::3], raw[1::3], raw[2::3]))


def grid_pixels(path: Path, tmp_path: Path) -> set[tuple[int, int, int]]:
    """The colours of the cells, without the header, the addresses, and the part below the grid, where the legend has
    all colours."""
    cut = tmp_path / "cut.png"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", path, "-vf", "crop=iw*4/5:ih/2:iw/5:ih/8", cut], check=True)
    return pixels(cut)


@pytest.mark.parametrize(
    ("driver", "headers"), [("firstfit", True), ("dlmalloc", True), ("optimal", False), ("buddy", False)]
)
def test_headers_are_told_from_unused_bytes(driver: str, headers: bool, tmp_path: Path) -> None:
    """Blocks without gaps: what is between them are their headers, which are grey if the driver reports
    them."""
    if not LIST[driver]["available"]:
        pytest.skip(f"{driver}: {LIST[driver]['reason']}")
    path, still = tmp_path / "even-ops", tmp_path / "f.png"
    size = {"dlmalloc": 1032}.get(driver, 1024)  # all of which is usable: nothing of the block itself is overhead
    path.write_text("".join(f"{i} N 0 {size}\n" for i in range(300)) + "0 F 0 0\n")
    p = replay("-a", driver, "--memplot", path, "--still", still, "--size", "1280x720", "--heap", "8M")
    assert p.returncode == 0, p.stderr
    greys = {c for c in grid_pixels(still, tmp_path) if max(c) - min(c) < 24 and min(c) > 0x60}
    assert bool(greys) is headers, sorted(greys)


def test_film_by_instructions(tmp_path: Path) -> None:
    """Each frame has the same number of instructions: while the program did nothing to the heap, the picture
    is unchanged."""
    lines = [f"# time {1000 + i * 100}\n{i} N 0 {3000 + i}" for i in range(10)]
    lines += [f"# time {9000 + i * 100}\n{i} F 0 0" for i in range(10)]
    path = tmp_path / "timed-ops"
    path.write_text("\n".join(lines) + "\n")
    film = tmp_path / "f.mkv"
    p = replay("-a", "firstfit", "--memplot", path, "-o", film, "--time=instructions", "--frames", 89, "--json")
    assert p.returncode == 0, p.stderr
    reported = json.loads(p.stdout)
    assert reported["instructions_per_frame"] == 100 and reported["frames"] == int(ffprobe(film)["nb_read_frames"])
    assert 88 <= reported["frames"] <= 90
    p = replay("-a", "firstfit", "--memplot", path, "-o", film, "--time=ops", "--frames", 89, "--json")
    assert json.loads(p.stdout)["frames"] == 20


def test_film_by_instructions_needs_them(ops: tuple[Path, Model], tmp_path: Path) -> None:
    p = replay("-a", "firstfit", "--memplot", ops[0], "-o", tmp_path / "f.mkv", "--time=instructions")
    assert p.returncode == 1 and "steve ops --times" in p.stderr
    assert os.listdir(tmp_path) == []


def pixel_counts(path: Path, tmp_path: Path) -> dict[int, int]:
    """How many pixels of the cells have each colour, 0xRRGGBB."""
    raw = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", path]
        + ["-vf", "crop=iw*4/5:ih/2:iw/5:ih/8", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
        capture_output=True,
        check=True,
    ).stdout
    counts: dict[int, int] = {}
    for at in range(0, len(raw), 3):
        colour = int.from_bytes(raw[at : at + 3], "big")
        counts[colour] = counts.get(colour, 0) + 1
    return counts


def class_shares(driver: str, path: Path, colour: str, tmp_path: Path) -> list[float]:
    """The share of each class of ages or sizes in the pixels that have the colour of one."""
    still = tmp_path / "f.png"
    p = replay("-a", driver, "--memplot", path, "--still", still, "--color", colour, "--heap", "16M", "--json")
    assert p.returncode == 0 and json.loads(p.stdout)["color"] == colour, p.stderr
    text = (SOURCE / "drivers/film/colours.h").read_text()
    classes = [int(value, 16) for value in re.findall(r"CLASS_\d_COLOUR = (0x[0-9a-f]{6})", text)]
    counts = pixel_counts(still, tmp_path)
    known = [counts.get(one, 0) for one in classes]
    assert len(classes) == 6 and sum(known) > sum(counts.values()) // 3, counts
    return [count / sum(known) for count in known]


@pytest.mark.parametrize("driver", ["firstfit", "jeff-compact"])
def test_colours_by_site(driver: str, tmp_path: Path) -> None:
    """The digits of the file are those of the blocks in their order; a resized block keeps its own, and one without is
    of others."""
    path, sites, still = tmp_path / "three-ops", tmp_path / "sites", tmp_path / "f.png"
    path.write_text("".join(f"{i} N 0 65536\n" for i in range(12)) + "0 R 0 131072\n3 F 0 0\n")
    sites.write_text("first (a.lua:1)\nsecond (b.c:22)\n\n0001110009")
    p = replay("-a", driver, "--memplot", path, "--still", still, "--color", "site", "--sites", sites, "--heap", "16M")
    assert p.returncode == 0, p.stderr
    text = (SOURCE / "drivers/film/colours.h").read_text()
    classes = [int(value, 16) for value in re.findall(r"CLASS_\d_COLOUR = (0x[0-9a-f]{6})", text)]
    counts = pixel_counts(still, tmp_path)
    known = [counts.get(classes[i], 0) for i in (0, 1, 5)]
    shares = [count / sum(known) for count in known]
    # of 12 units of 64 KiB: 0, 1, 2, 6, 7, 8 of the first, 0 of twice its size; 4 and 5; 9, 10 and 11
    assert shares == pytest.approx([7 / 12, 2 / 12, 3 / 12], abs=0.04)
    assert counts.get(classes[2], 0) + counts.get(classes[3], 0) < sum(known) // 20


def test_files_of_sites_that_are_wrong(tmp_path: Path) -> None:
    path, sites = tmp_path / "one-ops", tmp_path / "sites"
    path.write_text("0 N 0 64\n")
    how = ("-a", "firstfit", "--memplot", path, "--still", tmp_path / "f.png", "--heap", "1M", "--color", "site")
    for text, said in (
        ("", "is no file of sites"),
        ("a\n" * 6 + "\n0", "has more than 5 names"),
        ("x" * 70 + "\n\n0", "is no file of sites"),
        ("a\nb", "is no file of sites"),
        (None, "No such file"),
    ):
        sites.unlink(missing_ok=True)
        if text is not None:
            sites.write_text(text)
        p = replay(*how, "--sites", sites)
        assert p.returncode == 1 and said in p.stderr and not (tmp_path / "f.png").exists(), (text, p.stderr)
    sites.write_bytes(b"caf\xc3\xa9 \x01\xff\n\n")  # no digits: all are others
    assert replay(*how, "--sites", sites).returncode == 0
    assert replay(*how).returncode == 2 and replay(*how[:-1], "age", "--sites", sites).returncode == 2


@pytest.mark.parametrize("driver", ["firstfit", "jeff-compact"])
def test_colours_by_age_and_size(driver: str, tmp_path: Path) -> None:
    """Large blocks from the beginning of the run are old, and large; the same from its end are young. A resize does not
    make a block young again."""
    large = [f"{i} N 0 131072\n" for i in range(16)]
    between = [f"{16 + i} N 0 32\n{16 + i} F 0 0\n" for i in range(2000)]
    resized = [f"{i} R 0 131072\n" for i in range(16)]
    path = tmp_path / "two-ops"
    path.write_text("".join(large + between + resized))
    assert class_shares(driver, path, "age", tmp_path)[4] > 0.95
    assert class_shares(driver, path, "size", tmp_path)[5] > 0.95
    path.write_text("".join(between + large))
    assert class_shares(driver, path, "age", tmp_path)[0] > 0.95
