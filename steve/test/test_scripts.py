"""The scripts of the first Steve: they accept the arguments and write the files that its documents describe.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from allocstats_files import OLD, series, write
from conftest import Steve
from test_allocstats import make_ops

SCRIPTS = Path(__file__).parent.parent / "scripts"
TEXT = ">>> N 4096 100\n>>> S 4100 4\n>>> N 8192 7\n>>> L 4100 4\n>>> F 4096 0\n"


def run(folder: Path, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPTS / name), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_every_script_explains_itself_without_arguments() -> None:
    scripts = sorted(path for path in SCRIPTS.iterdir() if path.suffix in (".py", ".sh"))
    assert len(scripts) == 8
    for script in scripts:
        result = run(SCRIPTS, script.name)
        assert result.returncode == 2 and f"{script.name}" in result.stderr, script.name


def test_scripts_name_a_missing_steve(tmp_path: Path) -> None:
    result = subprocess.run(
        ["/usr/bin/python3", str(SCRIPTS / "run_graphs_from_allocstats.py"), "x"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
        check=False,
    )
    assert result.returncode == 1 and "steve: no such program" in result.stderr


def test_translations(steve: Steve) -> None:
    folder = steve.folder
    (folder / "result.app").write_text(TEXT)
    result = run(folder, "translate-memtrace-to-ops.py", "result.app")
    assert result.returncode == 0, result.stderr
    assert (folder / "result.app-ops").read_text() == ("0 N 4096 100\n0 S 4100 4\n1 N 8192 7\n0 L 4100 4\n0 F 4096 0\n")
    assert (folder / "result.app-lockops").read_text().startswith("0 N")
    assert run(folder, "translate-ops-to-locking-lifetime.py", "result.app").returncode == 0
    assert steve("lockops", "--full", "--text", "result.app-ops", "-o", "expected").returncode == 0
    assert (folder / "result.app-lockopsfull").read_text() == (folder / "expected").read_text()
    assert run(folder, "translate-ops-to-histogram.py", "result.app").returncode == 0
    for ending in ("-json-ops", "-lifetime", "-statistics", "-macro-histogram-0-1000.png"):
        assert (folder / f"result.app{ending}").exists(), ending


def test_bad_memtrace_keeps_its_status(steve: Steve) -> None:
    assert run(steve.folder, "translate-memtrace-to-ops.py", "missing").returncode == 1
    assert run(steve.folder, "translate-memtrace-to-ops.py", "--no-such-option").returncode == 2


def test_graphs_take_documented_names(tmp_path: Path) -> None:
    (tmp_path / "result.soffice-ops.allocstats").write_text(OLD)
    result = run(tmp_path, "run_graphs_from_allocstats.py", "result.soffice-ops")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "plot-dlmalloc-result.soffice-ops.png").exists()
    for k, name in enumerate(("dlmalloc", "rmalloc")):
        write(tmp_path, name, series(30, k + 1), ops="result.soffice-ops")
    names = ["result.soffice-ops-dlmalloc", "result.soffice-ops-rmalloc"]
    result = run(tmp_path, "run_graphs_from_allocstats.py", "soffice", *names)
    assert result.returncode == 0 and "penalty(c)" in result.stdout, result.stderr
    assert (tmp_path / "soffice.png").exists()


@pytest.fixture
def ops(tmp_path: Path) -> str:
    if shutil.which("steve-replay") is None:
        pytest.skip("steve-replay is not on PATH: build it first")
    make_ops(tmp_path / "result.app-ops", 5, 600)
    return "result.app-ops"


@pytest.mark.parametrize("script", ["run_allocator_stats.sh", "run_allocator_stats_payload.sh"])
def test_allocator_stats(tmp_path: Path, ops: str, script: str) -> None:
    result = run(tmp_path, script, ops, ALLOCATOR="./drivers/plot_firstfit", CORES="1", KILLPERCENT="100000")
    assert result.returncode == 0, result.stderr
    full = tmp_path / "result.app-ops-firstfit-kill0-allocstats"
    assert full.read_text() == (tmp_path / "result.app-ops.allocstats").read_text()


def test_allocator_stats_of_all(tmp_path: Path, ops: str) -> None:
    result = run(tmp_path, "run_allocator_stats.sh", ops, "--points", "20", ALLOCATOR="firstfit,bump")
    assert result.returncode == 0, result.stderr
    assert len(list(tmp_path.glob("*-kill0-allocstats"))) == 2
    assert run(tmp_path, "run_allocator_stats.sh", ops, ALLOCATOR="none-such").returncode == 2


def test_payload_wants_an_allocator(tmp_path: Path) -> None:
    result = run(tmp_path, "run_allocator_stats_payload.sh", "x-ops", ALLOCATOR="")
    assert result.returncode == 2 and "ALLOCATOR" in result.stderr


def test_animation(tmp_path: Path, ops: str) -> None:
    result = run(tmp_path, "run_memory_frag_animation.sh", ops, ALLOCATOR="./drivers/plot_firstfit")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "result.app-ops-animation.avi").stat().st_size > 1000


def test_memtrace_run_traces_and_translates(tmp_path: Path) -> None:
    if subprocess.run(["valgrind", "--tool=ljtrace", "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("valgrind does not know --tool=ljtrace: build the recorder first")
    result = run(
        tmp_path,
        "memtrace-run.sh",
        "luajit",
        "-e",
        "local t = {} for i = 1, 100 do t[i] = {i} end os.exit(3)",
    )
    assert result.returncode == 3, result.stderr
    ops = (tmp_path / "result.luajit-ops").read_text().splitlines()
    assert sum(line.split()[1] == "N" for line in ops) > 100
    assert (tmp_path / "result.luajit-lockops").exists()


def test_memtrace_run_says_when_nothing_was_traced(tmp_path: Path) -> None:
    (tmp_path / "valgrind").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "valgrind").chmod(0o755)
    result = run(tmp_path, "memtrace-run.sh", "true", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert result.returncode == 1 and "no trace was written" in result.stderr
