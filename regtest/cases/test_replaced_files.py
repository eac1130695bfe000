"""test_replaced_files - functions and lines of object files that are removed or replaced while the program runs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support import good, recorder, run, started, steve, wait_for

SOURCE = Path(__file__).parent.parent / "native/replaced.c"
RECORDERS = ("valgrind", "native")


def compiled(to: Path, *options: str) -> Path:
    good(["gcc", "-g", "-O1", "-fPIC", *options, "-o", to, SOURCE])
    return to


@pytest.fixture(scope="module", name="files")
def made_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, and two libraries, of which one has no build id. Copies of them are recorded."""
    folder = tmp_path_factory.mktemp("files")
    compiled(folder / "program")
    compiled(folder / "bare-program", "-Wl,--build-id=none")
    compiled(folder / "library.so", "-shared", "-DLIBRARY=of_library")
    # the same code at the same addresses: only the names and the build ids differ
    compiled(folder / "another.so", "-shared", "-DLIBRARY=of_another")
    compiled(folder / "bare.so", "-shared", "-DLIBRARY=of_bare", "-Wl,--build-id=none")
    return folder


def build_id(path: Path) -> str:
    notes = good(["readelf", "-n", path]).text
    return re.findall(r"Build ID: ([0-9a-f]+)", notes)[0]


def under(which: str, trace: Path) -> list[object]:
    """The command line that records the program after it."""
    return recorder(trace) if which == "valgrind" else ["ljtrace", "run", f"--out={trace}"]


def sites(trace: Path) -> dict[int, str]:
    """The innermost function and its caller, with lines, of blocks by their sizes."""
    rows = json.loads(steve("sites", "--json", "--by", "stack", trace).text)
    return {row["bytes"] // row["blocks"]: " < ".join(row["site"].split(" < ")[:2]) for row in rows}


def line_of(text: str) -> int:
    """The line of the source that has this text."""
    lines = SOURCE.read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if text in line)
    return number


def frame(function: str, text: str) -> str:
    return f"{function} (replaced.c:{line_of(text)})"


IN_PROGRAM = frame("allocate", "malloc(55)") + " < main "
MAKES = "char *block = LIBRARY();"


def of_library(name: str) -> str:
    return frame(name, "malloc(77)") + " < " + frame("make", MAKES)


def modules(trace: Path) -> dict[str, dict[str, Any]]:
    return {m["object"]: m for m in json.loads(steve("info", "--json", trace).text)["modules"]}


@pytest.mark.parametrize("kind", ["program", "bare-program"])
@pytest.mark.parametrize("mode", ["keep", "remove", "rename"])
@pytest.mark.parametrize("which", RECORDERS)
def test_the_program_itself(which: str, mode: str, kind: str, files: Path, tmp_path: Path) -> None:
    program = Path(shutil.copy(files / kind, tmp_path / "program"))
    other = Path(shutil.copy(files / "library.so", tmp_path / "other"))
    good([*under(which, tmp_path / "t.ljt"), program, mode, other])
    assert sites(tmp_path / "t.ljt")[55].startswith(IN_PROGRAM)
    known = modules(tmp_path / "t.ljt")[str(program)]
    assert known["build_id"] == (build_id(files / kind) if kind == "program" else "")


@pytest.mark.parametrize("name", ["library", "bare"])
@pytest.mark.parametrize("mode", ["library", "elsewhere", "unnamed", "gone"])
@pytest.mark.parametrize("which", RECORDERS)
def test_a_library(which: str, mode: str, name: str, files: Path, tmp_path: Path) -> None:
    shutil.copy(files / f"{name}.so", tmp_path / "l.so")
    given = ["library", tmp_path / "l.so", "gone"] if mode == "gone" else [mode, "./l.so"]
    with started([*under(which, tmp_path / "t.ljt"), files / "program", *given], cwd=tmp_path) as process:
        assert process.wait() == 0
    assert sites(tmp_path / "t.ljt")[77] == of_library(f"of_{name}")
    loaded = modules(tmp_path / "t.ljt")
    wanted = "/memfd:unnamed" if mode == "unnamed" else str(tmp_path / "l.so")
    assert [path for path in loaded if "l.so" in path or "memfd" in path] == [wanted]


@pytest.mark.parametrize("which", RECORDERS)
def test_two_libraries_of_one_name(which: str, files: Path, tmp_path: Path) -> None:
    """Both are mapped at the same time; names of the second are not those of the first."""
    for name in ("library.so", "another.so"):
        shutil.copy(files / name, tmp_path / name)
    trace = tmp_path / "t.ljt"
    first, other = tmp_path / "library.so", tmp_path / "another.so"
    good([*under(which, trace), files / "program", "twice", first, other, f"{tmp_path}/./library.so"])
    rows = json.loads(steve("sites", "--json", "--by", "stack", "--where", "size == 77", trace).text)
    functions = [row["site"].split(" (")[0] for row in rows]
    assert {name for name in functions if name.startswith("of_")} == {"of_library", "of_another"}


def attached(command: Sequence[object], trace: Path, take_away: Any, *prefix: object) -> str:
    """Attach to a program of which a file was taken away, and have it make blocks. Returns the messages."""
    with started([*prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b".")
        process.stdin.flush()
        process.stdout.read(1)
        take_away()
        words = [*prefix, "ljtrace", "attach", f"--out={trace}", process.pid]
        with started(words, stderr=subprocess.PIPE) as attaching:
            maps = Path(f"/proc/{process.pid}/maps")
            wait_for(lambda: b"libljtrace-native" in maps.read_bytes() or attaching.poll() is not None, "it is loaded")
            for _ in range(20):
                process.stdin.write(b".")
                process.stdin.flush()
                process.stdout.read(1)
            process.stdin.close()
            assert attaching.stderr
            said = attaching.stderr.read().decode()
            attaching.wait()
        assert process.wait() == 0
    return said


def replace(program: Path) -> None:
    program.unlink()
    shutil.copy("/bin/true", program)


@pytest.mark.parametrize("kind", ["program", "bare-program"])
@pytest.mark.parametrize("take_away", [Path.unlink, replace], ids=["removed", "replaced"])
def test_attach(take_away: Any, kind: str, files: Path, tmp_path: Path) -> None:
    program, trace = Path(shutil.copy(files / kind, tmp_path / "program")), tmp_path / "t.ljt"
    attached([program, "wait"], trace, lambda: take_away(program))
    assert sites(trace)[55].startswith(IN_PROGRAM)
    known = modules(trace)[str(tmp_path / "program")]
    assert known["build_id"] == (build_id(files / kind) if kind == "program" else "")


@pytest.fixture(name="open_folder")
def made_open_folder() -> Iterator[Path]:
    """A folder that all users may use, also within that of the tests."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.parametrize("name", ["library", "bare"])
def test_without_privileges(name: str, files: Path, open_folder: Path) -> None:
    """Then there is no way to a library that was removed before the recorder came. It is said, and the build id is that
    in memory, by which a copy is found later. Without one, no file is taken for it."""
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    if os.geteuid() != 0 or run([*words, "true"]).status != 0:
        pytest.skip("cannot become a user without privileges")
    program, library = (Path(shutil.copy(files / file, open_folder)) for file in ("program", f"{name}.so"))
    trace, copies = open_folder / "t.ljt", open_folder / "copies"
    said = attached([program, "serve", library], trace, library.unlink, *words)
    assert f"{library} (the file was removed" in said
    site = sites(trace)[77]
    address = rf"0x[0-9a-f]+ \({name}\.so( \(deleted\))?\)"
    assert re.fullmatch(f"{address} < {address}", site), "no name of another file"
    copies.mkdir()
    shutil.copy(files / f"{name}.so", copies)
    shutil.copy(files / "another.so", library)
    good(["steve", "symbolize", "--debug-dir", copies, "-o", open_folder / "named.ljt", trace])
    named = sites(open_folder / "named.ljt")[77]
    assert named == (of_library("of_library") if name == "library" else site)
