"""test_films_of_programs - steve animate shows a recorded program on the allocator that the program had.

Programs are recorded with the C library's allocator, with others by LD_PRELOAD, and with LuaJIT's.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import shutil
from pathlib import Path

import pytest

from support import APP_LUA, SOURCE, good, natively, record, run, steve

RECORDERS = {"valgrind": record, "native": natively}
LIBRARIES = {"glibc": "", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2"}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ffmpeg", "ffprobe"):
        if shutil.which(name) is None:
            pytest.skip(f"no {name}")
    monkeypatch.delenv("ALLOCATOR", raising=False)


def allocator_of(path: Path) -> str:
    done = steve("animate", path, "-o", path.with_suffix(".mkv"), "--frames", "5", "--size", "640x360", "--json")
    assert done.status == 0, done.complaint
    facts = json.loads(done.text)
    assert facts["frames"] >= 5 and os.path.getsize(facts["film"]) > 0
    return facts["allocator"]


# Recordings under Valgrind do not list a library from which no stack and no access comes, such as mimalloc here.
@pytest.mark.parametrize(
    ("allocator", "recorder"),
    [("glibc", "native"), ("jemalloc", "native"), ("jemalloc", "valgrind"), ("mimalloc", "native")],
)
def test_the_library_that_a_program_was_started_with(tmp_path: Path, allocator: str, recorder: str) -> None:
    library = LIBRARIES[allocator]
    env = {"LD_PRELOAD": library} if library else {}
    if library and b"cannot be preloaded" in run(["true"], env=env).err:
        pytest.skip(f"no {library}")
    program = tmp_path / "pages"
    good(["cc", "-O1", "-o", program, SOURCE / "examples/pages.c"])
    trace = RECORDERS[recorder](tmp_path / "t.ljt", [program], env=env)
    assert allocator_of(trace.path) == allocator


def test_the_allocator_of_luajit(tmp_path: Path) -> None:
    assert allocator_of(natively(tmp_path / "t.ljt", ["luajit", APP_LUA]).path) == "luajit"
