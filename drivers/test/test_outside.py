"""End-to-end tests of drivers as others use them: by the documented command lines, and written and built outside
of the tree.

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
from ops_tools import (  # noqa: E402
    ALL,
    BUILD,
    SKELETON,
    SOURCE,
    Model,
    parse_result,
    random_ops,
    replay,
    stats,
)

# -- the documented forms ------------------------------------------------------------------------------


def test_documented_allocstats(ops: tuple[Path, Model], tmp_path: Path) -> None:
    path, model = ops
    out = tmp_path / "r"
    plot = shutil.which("plot_firstfit")
    for limit in (0, 10, 1000, 500):
        p = subprocess.run(
            [plot, "--allocstats", path, out, "100000", str(limit), str(4 * model.peak), str(model.total)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert p.returncode == 0, p.stderr
        r = parse_result(out)
    assert (r["heap_size"], r["theoretical_heap_size"]) == (4 * model.peak, model.total)
    assert [(p["op_index"], p["used"]) for p in r["alloc_stats"]] == [(i, model.used[i]) for i in (0, 10, 1000, 500)]
    assert subprocess.run([plot, "--peakmem", path], capture_output=True, check=False).returncode == 0


def test_documented_form_needs_its_header(ops: tuple[Path, Model], tmp_path: Path) -> None:
    p = replay("-a", "null", "--allocstats", ops[0], tmp_path / "r", 0, 7, 1000000, 1)
    assert p.returncode == 1 and "OPLIMIT 0 must come first" in p.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("driver", ALL)
def test_plot_commands(driver: str, ops: tuple[Path, Model]) -> None:
    p = subprocess.run(
        [shutil.which(f"plot_{driver}"), "--peakmem", ops[0], "--json"], capture_output=True, check=False
    )
    assert p.returncode == 0 and json.loads(p.stdout)["live_peak"] == ops[1].peak


def test_allocator_may_be_a_plot_path(ops: tuple[Path, Model], tmp_path: Path) -> None:
    assert stats("./drivers/plot_firstfit", ops[0], tmp_path / "r", "--points", 2)["driver"] == "firstfit"


# -- drivers from outside ---------------------------------------------------------------------------------


def compiler() -> str:
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        pytest.skip("no C compiler here")
    return cc


def test_user_source_builds_outside(ops: tuple[Path, Model], tmp_path: Path) -> None:
    src = SOURCE / "drivers/sdk"
    so = tmp_path / "mine.so"
    subprocess.run(
        [
            compiler(),
            "-O2",
            "-fPIC",
            "-shared",
            f"-I{src}",
            '-DUSER_NAME="mine"',
            "-o",
            so,
            src / "example_user.c",
            src / "user_shim.c",
        ],
        check=True,
    )
    r = stats(str(so), ops[0], tmp_path / "r", "--heap", "64M", "--check", "--points", 20)
    assert r["driver"] == "mine" and r["complete"] is True


def test_skeleton_works(tmp_path: Path) -> None:
    text = random_ops(2000, seed=3, largest=11)
    path = tmp_path / "ops"
    path.write_text(text)
    assert stats(SKELETON, path, tmp_path / "r", "--heap", "4M", "--check")["overhead_from"] == "walk"
    src = SOURCE / "drivers/sdk"
    so = tmp_path / "skeleton.so"
    subprocess.run([compiler(), "-O2", "-fPIC", "-shared", f"-I{src}", "-o", so, src / "skeleton.c"], check=True)
    assert stats(str(so), path, tmp_path / "r", "--heap", "4M")["complete"] is True


def test_a_strangers_allocator_in_100_lines(tmp_path: Path) -> None:
    """A driver built by a user: the installed skeleton and headers, a folder outside of the tree, the
    documented commands; found by name through $STEVE_DRIVERS."""
    subprocess.run(
        [
            "make",
            "-s",
            "install-driverincludeHEADERS",
            "install-driversrcDATA",
            f"DESTDIR={tmp_path}/root",
            "prefix=/usr",
        ],
        cwd=BUILD,
        check=True,
        capture_output=True,
        env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
    )
    source = next((tmp_path / "root").rglob("skeleton.c"))
    headers = next((tmp_path / "root").rglob("driver.h")).parent
    assert len(source.read_text().splitlines()) < 100
    mine = tmp_path / "drivers"
    mine.mkdir()
    subprocess.run([compiler(), "-O2", "-fPIC", "-shared", f"-I{headers}", "-o", mine / "mine.so", source], check=True)
    ops = tmp_path / "some-ops"
    ops.write_text(random_ops(2000, seed=3, largest=11))
    r = stats("mine", ops, tmp_path / "r", "--heap", "4M", "--check", "--points", 20, env={"STEVE_DRIVERS": str(mine)})
    assert r["complete"] is True and r["outside_bytes"] == 0 and r["confined"] is True


FRAIL = """
#include "driver.h"
#include <stdlib.h>
static char *s_top, *s_end;
static size_t s_size;
static bool init(void *base, size_t size) { s_top = base; s_end = s_top + size; s_size = size; return true; }
static void *make(size_t size, uint32_t id)
{
    if (s_size < 100000)
        abort();
    size = (size + 15) & ~(size_t)15;
    if (size > (size_t)(s_end - s_top))
        return NULL;
    s_top += size;
    return s_top - size;
}
static void drop(void *ref, uint32_t id) {}
const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION, .size = sizeof steve_driver, .name = "frail", .description = "for tests",
    .confinement = STEVE_IN_HEAP, .least_heap = 200000, .init = init, .malloc = make, .free = drop,
};
"""


def test_a_crash_in_a_heap_below_the_least_is_no_room(tmp_path: Path) -> None:
    """Such an allocator has a smallest heap, too, and --heap and --min-heap agree on it."""
    (tmp_path / "frail.c").write_text(FRAIL)
    so, ops = tmp_path / "frail.so", tmp_path / "some-ops"
    subprocess.run(
        [compiler(), "-O2", "-fPIC", "-shared", f"-I{SOURCE / 'drivers/sdk'}", "-o", so, tmp_path / "frail.c"],
        check=True,
    )
    ops.write_text("0 N 0 100\n0 F 0 0\n")
    found = json.loads(replay("-a", so, "--min-heap", ops, "--json").stdout)
    assert (found["min_heap"], found["step"]) == (100000, 16)
    assert stats(str(so), ops, tmp_path / "r", "--heap", 100000)["complete"] is True
    done = replay("-a", so, "--allocstats", ops, "-o", tmp_path / "n", "--heap", 100000 - 16)
    assert done.returncode == 2, done.stderr
    assert "out of memory at operation 0 in a heap of 99984 bytes" in done.stderr
    assert "crashed: Aborted; it starts for certain in 200000 bytes" in done.stderr


def test_installed_commands_and_texts(tmp_path: Path) -> None:
    """plot_NAME is in the folder of steve-replay, as steve-replay(1) says, and works there; links between the
    texts work."""
    root = tmp_path / "root"
    subprocess.run(
        [
            "make",
            "-s",
            "install-binSCRIPTS",
            "install-nobase_dist_docDATA",
            f"DESTDIR={root}",
            "prefix=/usr",
            "docdir=/usr/share/doc/ljtrace",
        ],
        cwd=BUILD,
        check=True,
        capture_output=True,
        env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
    )
    scripts = sorted((root / "usr/bin").glob("plot_*"))
    assert {f"plot_{name}" for name in ALL} == {script.name for script in scripts}
    (root / "usr/bin/steve-replay").symlink_to(BUILD / "drivers/steve-replay")
    ops = tmp_path / "some-ops"
    ops.write_text(random_ops(100, seed=3))
    done = subprocess.run(
        [root / "usr/bin/plot_firstfit", "--peakmem", ops], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("live peak:"), done.stderr
    texts = root / "usr/share/doc/ljtrace"
    for text in texts.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text.read_text()):
            where = text.parent / link
            assert "://" in link or where.exists(), (text, link)
    assert (texts / "docs/manual.md").read_text() == (SOURCE / "docs/manual.md").read_text()
    assert (texts / "docs/images/app.png").exists() and (texts / "docs/writing-a-driver.md").exists()


def test_list_shows_foreign_and_broken_drivers(tmp_path: Path) -> None:
    shutil.copy(BUILD / "drivers/bump.so", tmp_path / "other.so")
    (tmp_path / "broken.so").write_text("x")
    drivers = {
        d["name"]: d for d in json.loads(replay("--list", "--json", env={"STEVE_DRIVERS": str(tmp_path)}).stdout)
    }
    assert drivers["other"]["available"] is True
    assert drivers["broken"]["available"] is False and "cannot be opened" in drivers["broken"]["reason"]
