"""test_bench - the benchmark works; no measured value makes a test pass or fail.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import sys
from pathlib import Path

from support import SOURCE, Done, run

BENCH = SOURCE / "regtest/bench"


def bench(*args: object) -> Done:
    return run([sys.executable, "-B", BENCH / "run", *args])


def test_quick_run(tmp_path: Path) -> None:
    done = bench("--quick", "--program", "trees", "--program", "gzip", "--json", tmp_path / "b.json")
    assert done.status == 0, done.complaint
    result = json.loads((tmp_path / "b.json").read_text())
    trees = result["programs"]["lua"]["trees"]
    assert {"native", "none", "ljtrace", "heap only", "memcheck", "dhat", "massif"} <= set(trees)
    full, heap = trees["ljtrace"], trees["heap only"]
    assert full["events"] > heap["events"] > 100 and full["events_per_second"] > 0
    assert 0 < full["bytes_per_event"] < 20
    assert full["tool_memory"] > 1e7 and full["collector_memory"] > 1e5
    assert trees["no states"]["events"] > trees["heap no lua"]["events"] > 100
    assert "no states" not in result["programs"]["c"]["gzip"], "of Lua programs alone"
    assert trees["none"]["ratio"] == 1 and result["geometric_means"]["lua"]["none"]["ratio"] == 1
    assert result["runs"] == 1
    rows = [line.split()[0] for line in done.text.splitlines() if line]
    assert rows[:3] == ["program", "trees", "geo."]
    gzip = result["programs"]["c"]["gzip"]
    assert "bytes_per_event" not in gzip["ljtrace"], "gzip keeps off the heap"
    assert "heaptrack" in gzip or "heaptrack" in result["absent"]
    assert [("lackey" in trees), ("lackey" in gzip)].count(True) == 1, "on the shortest program alone"
    for absent in result["absent"]:
        assert f"not measured: {absent}" in done.text


def test_every_lua_program_is_deterministic() -> None:
    """Outputs of programs must not vary, because the benchmark compares them: a small run of each, twice."""
    sys.path.insert(0, str(BENCH))
    try:
        import programs
    finally:
        sys.path.pop(0)
    assert len(programs.LUA_PROGRAMS) >= 10
    for program in programs.lua_programs(quick=True):
        first, second = run(program.command), run(program.command)
        assert first.status == 0 and first.out and first.out == second.out, program.name


def test_wrong_usage() -> None:
    for words in (["--runs", "0"], ["--runs", "many"], ["--program", "nosuch"], ["--nosuch"]):
        done = bench(*words)
        assert done.status == 2 and done.complaint and "Traceback" not in done.complaint, words


def test_speed_of_steve_on_programs(tmp_path: Path) -> None:
    done = run(
        [
            sys.executable,
            "-B",
            BENCH / "steve_speed.py",
            "--tables",
            "programs",
            "--small",
            "--program",
            "tables",
            "--program",
            "gzip",
            "--json",
            tmp_path / "b.json",
        ]
    )
    assert done.status == 0, done.complaint
    result = json.loads((tmp_path / "b.json").read_text())["programs"]
    tables = result["programs"]["tables"]
    assert tables["events"] > 1_000_000
    assert set(tables["rates"]) == set(result["means"]) >= {"summary", "ops", "findings", "lines", "sites"}
    assert all(rate is None or rate > 0 for rate in tables["rates"].values())
    assert list(result["left_out"]) == ["gzip"] and "gzip: left out" in done.text, "it keeps off the heap"


def test_wrong_table() -> None:
    done = run([sys.executable, "-B", BENCH / "steve_speed.py", "--tables", "nosuch"])
    assert done.status == 2 and "there are: programs" in done.complaint


def test_how_long_programs_wait(tmp_path: Path) -> None:
    done = run([sys.executable, "-B", BENCH / "wait_speed.py", "--quick", "--runs", "1", "--json", tmp_path / "w.json"])
    assert done.status == 0, done.complaint
    found = json.loads((tmp_path / "w.json").read_text())
    assert len(found) == 7
    for name, row in found.items():
        assert min(row["recorded"]) > 0 and name in done.text
        assert ("said" in row) == name.startswith("attach") and len(row["alone"]) == len(row["recorded"])
