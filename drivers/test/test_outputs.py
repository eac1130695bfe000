"""End-to-end tests of where steve-replay writes: links, devices, pipes, and files that it reads itself.

A device here is /dev/null behind a link, or a node of our own where the system lets us make one; a test never
names /dev/null itself, since a fault would replace it.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ops_tools import REPLAY, SKELETON, parse_result, replay  # noqa: E402

OPS = "0 N 1000 16\n1 N 2000 32\n0 F 1000 0\n"


@pytest.fixture(name="small")
def _small(tmp_path: Path) -> Path:
    path = tmp_path / "a-ops"
    path.write_text(OPS)
    return path


def measure(ops: Path, out: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return replay("-q", "-a", "firstfit", "--allocstats", ops, "-o", out, "--passes", 1, *more)


def test_what_a_measurement_prints(small: Path, tmp_path: Path) -> None:
    out = tmp_path / 'a "result" \\ \t\x01'
    words = ["-a", "firstfit", "--allocstats", small, "-o", out, "--passes", 1]
    p = replay(*words, "--json")
    said = json.loads(p.stdout)
    assert p.returncode == 0 and (said["driver"], said["result"], said["error"]) == ("firstfit", str(out), "")
    assert (said["complete"], said["points"], said["operations"], said["live_peak"]) == (True, 3, 3, 48)
    assert replay(*words).stdout.startswith("firstfit: 3 operations, heap ")
    p = replay("-a", "firstfit", "--places", small, "-o", tmp_path / "places", "--at", 2, "--json")
    assert json.loads(p.stdout) == {"driver": "firstfit", "operations": 2, "page": 4096}
    p = replay("-a", "firstfit", "--places", small, "-o", tmp_path / "places", "--at", 4)
    assert p.returncode == 1 and "has only 3 operations (N, F and R)" in p.stderr


def leftovers(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.endswith(".part") or p.name.startswith("steve-replay.")]


def from_fifo(fifo: Path, *args: object) -> bytes:
    """The data that arrive in a FIFO while steve-replay runs with these arguments."""
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as reader:
        p = replay(*args, env={"TMPDIR": str(fifo.parent)})
        if p.returncode != 0:
            reader.kill()
        assert reader.stdout is not None
        data = reader.stdout.read()
    assert p.returncode == 0, p.stderr
    return data


def test_fifo_is_written_to(small: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "f"
    os.mkfifo(fifo)
    data = from_fifo(fifo, "-q", "-a", "firstfit", "--allocstats", small, "-o", fifo, "--passes", 1)
    (tmp_path / "copy").write_bytes(data)
    assert len(parse_result(tmp_path / "copy")["alloc_stats"]) == 3
    assert stat.S_ISFIFO(fifo.stat().st_mode) and not leftovers(tmp_path)


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
@pytest.mark.parametrize(("option", "name", "magic"), [("-o", "f.mp4", b"ftyp"), ("--poster", "f.png", b"PNG")])
def test_film_and_picture_through_a_fifo(option: str, name: str, magic: bytes, small: Path, tmp_path: Path) -> None:
    fifo = tmp_path / name
    os.mkfifo(fifo)
    data = from_fifo(fifo, "-q", "-a", "firstfit", "--memplot", small, "--heap", "64K", option, fifo)
    assert magic in data[:16]
    assert stat.S_ISFIFO(fifo.stat().st_mode) and not leftovers(tmp_path)


def test_device_stays_a_device(small: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.close(os.open(node, os.O_WRONLY))
    except OSError as error:
        pytest.skip(f"no device node can be made and opened here: {error}")
    p = measure(small, node)
    assert p.returncode == 0, p.stderr
    assert stat.S_ISCHR(node.stat().st_mode)


def test_link_to_a_device(small: Path, tmp_path: Path) -> None:
    link = tmp_path / "l"
    link.symlink_to("/dev/null")
    p = measure(small, link)
    assert p.returncode == 0, p.stderr
    assert link.is_symlink() and stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("exists", [False, True])
def test_links_are_followed(exists: bool, small: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    target = tmp_path / "sub" / "target"
    if exists:
        target.write_text("driver = 'old'\n")
        target.chmod(0o640)
    (tmp_path / "sub" / "inner").symlink_to("target")
    link = tmp_path / "link"
    link.symlink_to("sub/inner")
    p = measure(small, link)
    assert p.returncode == 0, p.stderr
    assert link.is_symlink() and (tmp_path / "sub" / "inner").is_symlink()
    assert len(parse_result(target)["alloc_stats"]) == 3
    assert not exists or stat.S_IMODE(target.stat().st_mode) == 0o640
    assert not leftovers(tmp_path) and not leftovers(tmp_path / "sub")


def test_link_loop_is_an_error(small: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    p = measure(small, tmp_path / "a")
    assert p.returncode == 1 and "symbolic links" in p.stderr


def refused(p: subprocess.CompletedProcess[str]) -> None:
    assert p.returncode == 2, p.stderr
    assert "is what the command reads; name another file" in p.stderr
    assert p.stderr.endswith("Try 'steve-replay --help'.\n")


@pytest.mark.parametrize("way", ["same", "other name", "link", "hard link"])
def test_input_is_refused(way: str, small: Path, tmp_path: Path) -> None:
    out = {"same": small, "other name": tmp_path / "." / ".." / tmp_path.name / "a-ops"}.get(way, tmp_path / "x")
    if way == "link":
        out.symlink_to(small)
    if way == "hard link":
        out.hardlink_to(small)
    refused(measure(small, out))
    refused(replay("-a", "firstfit", "--allocstats", small, out, 0, 0, 4096, 4096))
    assert small.read_text() == OPS and not leftovers(tmp_path)


def test_standard_input_and_the_driver_are_inputs(small: Path, tmp_path: Path) -> None:
    with small.open() as stdin:
        p = subprocess.run(
            [REPLAY, "-q", "-a", "firstfit", "--allocstats", "-", "-o", small],
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    refused(p)
    mine = tmp_path / "mine.so"
    shutil.copy(SKELETON, mine)
    before = mine.read_bytes()
    refused(replay("-q", "-a", mine, "--allocstats", small, "-o", mine))
    assert small.read_text() == OPS and mine.read_bytes() == before


def test_pictures_never_replace_the_input(tmp_path: Path) -> None:
    ops = tmp_path / "still-2.png"
    ops.write_text(OPS)
    refused(replay("-a", "firstfit", "--memplot", ops, "--still", tmp_path / "still.png", "--at", "1,2"))
    refused(replay("-a", "firstfit", "--memplot", ops, "--poster", ops))
    assert ops.read_text() == OPS and sorted(p.name for p in tmp_path.iterdir()) == ["still-2.png"]


def kept(p: subprocess.CompletedProcess[str], path: Path, text: bytes) -> None:
    """Nothing was written, since the file is no earlier result."""
    assert p.returncode == 2 and f"{path}: is no earlier result of this command; -f replaces it" in p.stderr, p.stderr
    assert p.stderr.endswith("Try 'steve-replay --help'.\n") and path.read_bytes() == text


@pytest.mark.parametrize("old", [b"int main(void);\n", b"\x7fELF\x02\0\0\0" * 9, b"\0" * 24 + b"\1" * 8, b"driver\n"])
def test_other_files_are_not_replaced(old: bytes, small: Path, tmp_path: Path) -> None:
    """Neither by results nor by places, usage, films and pictures. With -f they are. Empty files and earlier results are."""
    out = tmp_path / "notes.png"
    out.write_bytes(old)
    places = ["-q", "-a", "firstfit", "--places", small, "-o", out]
    run = ["--run", "-o", out, "--", "true"]
    kept(measure(small, out), out, old)
    kept(replay("-q", "-a", "firstfit", "--allocstats", small, out, 0, 0, 4096, 4096), out, old)
    kept(replay(*places), out, old)
    kept(replay(*run), out, old)
    ways = [["-q", "-a", "firstfit", "--allocstats", small, "-o", out, "--passes", 1], places, run]
    for arguments in ways:
        for earlier in (old, b""):
            out.write_bytes(earlier)
            assert replay(*([] if earlier == b"" else ["-f"]), *arguments).returncode == 0
        assert replay(*arguments).returncode == 0
    kept(measure(small, out), out, out.read_bytes())  # as the last of them is another command's
    assert not leftovers(tmp_path)


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
def test_films_and_pictures_replace_only_such(small: Path, tmp_path: Path) -> None:
    film = ["-q", "-a", "firstfit", "--memplot", small, "--heap", "64K", "--frames", 3]
    for option, name in ("-o", "f.mp4"), ("-o", "f.avi"), ("-o", "f.mkv"), ("--still", "f.png"), ("--poster", "p.png"):
        out = tmp_path / name
        out.write_bytes(OPS.encode())
        kept(replay(*film, option, out), out, OPS.encode())
        assert replay("-f", *film, option, out).returncode == 0
        assert replay(*film, option, out).returncode == 0
    assert not leftovers(tmp_path)


def test_folder_and_records_to_a_pipe(small: Path, tmp_path: Path) -> None:
    p = measure(small, tmp_path)
    assert p.returncode == 1 and "is a folder" in p.stderr
    fifo = tmp_path / "f"
    os.mkfifo(fifo)
    p = replay("-a", "firstfit", "--allocstats", small, fifo, 0, 1, 4096, 4096)
    assert p.returncode == 1 and "no record can be added" in p.stderr
    assert stat.S_ISFIFO(fifo.stat().st_mode)
