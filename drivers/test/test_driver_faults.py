"""Faults of allocators: each fault of faulty.so is found by --check, and no real allocator has one.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ops_tools import ALL, BUILD, random_ops, replay

LIST = {entry["name"]: entry for entry in json.loads(replay("--list", "--json").stdout)}
FAULTY = str(BUILD / "drivers/test/faulty.so")
AT = r"at operation \d+: "
BLOCK = r"block of \d+ bytes at 0x[0-9a-f]+ "
OVERLAPS = r"overlaps the live block of \d+ bytes at 0x[0-9a-f]+"
OVERWRITTEN = r"was overwritten at byte \d+ while it was live"


@pytest.fixture(scope="module", name="path")
def _path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "ops"
    path.write_text(random_ops(6000, seed=9, resize=0.1, largest=18))
    return path


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("overlap", AT + BLOCK + OVERLAPS),
        ("misaligned", AT + r"\d+ blocks not aligned to 16 bytes, the first of \d+ bytes at 0x[0-9a-f]+8 .*"),
        ("short", AT + BLOCK + r"has \d+ usable bytes, fewer than requested"),
        ("lies", AT + BLOCK + OVERLAPS + r" by its usable size [(]\d+ and \d+ bytes[)]"),
        ("scribble", AT + BLOCK + OVERWRITTEN),
        ("lost-content", AT + BLOCK + OVERWRITTEN),
        ("freed-twice", AT + BLOCK + OVERLAPS),
        ("freed-foreign", AT + BLOCK + f"({OVERLAPS}|{OVERWRITTEN})"),
    ],
)
def test_a_fault_is_found(fault: str, error: str, path: Path) -> None:
    p = replay("-a", FAULTY, "--check", path, "--heap=4M", env={"STEVE_FAULT": fault})
    assert p.returncode == 1 and re.fullmatch(f"steve-replay: faulty: {error}\n", p.stderr), p.stderr
    assert p.stdout == ""


def test_overlaps_of_blocks_that_are_never_freed(tmp_path: Path) -> None:
    path = tmp_path / "ops"
    path.write_text("".join(f"{i} N {4096 + 64 * i} 60\n" for i in range(100)))
    for fault, words in (("overlap", "overlaps the live block"), ("lies", "by its usable size")):
        p = replay("-a", FAULTY, "--check", path, "--heap=4M", env={"STEVE_FAULT": fault})
        assert p.returncode == 1 and words in p.stderr


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("unhandled", AT + "crashed: Segmentation fault"),
        ("freed-by-failed", AT + BLOCK + OVERWRITTEN),
    ],
)
def test_a_refused_request_shows_a_fault(fault: str, error: str, path: Path) -> None:
    env = {"STEVE_FAULT": fault}
    assert replay("-a", FAULTY, "--check", path, env=env).returncode == 0, "only if a request is refused"
    p = replay("-a", FAULTY, "--check", path, "--fail-nth=each", env=env)
    wanted = rf"steve-replay: faulty: {error} [(]request (\d+) for memory was refused[)]\n"
    found = re.fullmatch(wanted, p.stderr)
    assert p.returncode == 1 and found, p.stderr
    one = replay("-a", FAULTY, "--check", path, "--fail-nth", found[1], env=env)
    assert one.stderr == p.stderr
    fault_of = json.loads(replay("-a", FAULTY, "--check", path, "--fail-nth=each", "--json", env=env).stdout)["fault"]
    assert f"steve-replay: {fault_of}\n" == p.stderr


def test_without_a_fault_all_requests_can_be_refused(path: Path) -> None:
    p = replay("-a", FAULTY, "--check", path, "--fail-nth=each", "--json", env={"STEVE_FAULT": "none"})
    r = json.loads(p.stdout)
    assert p.returncode == 0 and r["fault"] is None and r["requests"] > 5 and r["replays"] == r["requests"] + 2
    assert (r["alignment"], r["alignment_of_1_byte"]) == (16, 16)
    p = replay("-a", FAULTY, "--check", path, "--fail-nth", r["requests"] + 1, env={"STEVE_FAULT": "none"})
    assert p.returncode == 1 and f"requested memory only {r['requests']} times" in p.stderr


@pytest.mark.parametrize("driver", ALL)
def test_no_allocator_has_a_fault(driver: str, path: Path) -> None:
    if not LIST[driver]["available"]:
        pytest.skip(f"{driver}: {LIST[driver]['reason']}")
    p = replay("-a", driver, "--check", path, "--heap=256M")
    assert p.returncode == 0, p.stderr
    aligned = 8 if driver == "luajit" else 16
    assert f"{driver}: no fault in 6000 operations, with addresses aligned to {aligned} bytes" in p.stdout
    p = replay("-a", driver, "--check", path, "--heap=256M", "--fail-nth=each", "--json")
    if "makes no requests" in p.stderr:
        assert p.returncode == 1 and p.stdout == ""
    elif driver == "scudo":  # ends the program on purpose
        assert p.returncode == 1 and "crashed: Aborted (request" in p.stderr + p.stdout
    else:
        assert p.returncode == 0 and json.loads(p.stdout)["fault"] is None, p.stdout + p.stderr


MISUSES = {
    "freed twice": ("F 0", "line 4: operation 3 (F): handle 0 is not live: it was freed before"),
    "never allocated": ("F 7", "line 4: operation 3 (F): handle 7 is not known: no N of it before"),
    "resized after its end": ("R 0", "line 4: operation 3 (R): handle 0 is not live: it was freed before"),
    "allocated twice": ("N 1", "line 4: operation 3 (N): handle 1 is live already: a second N without an F"),
}


@pytest.mark.parametrize("command", [["--check"], ["--check", "--fail-nth=each"], ["--measure"], ["--min-heap"]])
@pytest.mark.parametrize("misuse", MISUSES)
def test_an_ops_file_that_misuses_blocks_is_refused_before_the_allocator_is_called(
    misuse: str, command: list[str], tmp_path: Path
) -> None:
    """With this value of STEVE_FAULT the allocator would refuse to start, so it was not called."""
    operation, error = MISUSES[misuse]
    letter, handle = operation.split()
    path = tmp_path / "ops"
    path.write_text(f"0 N 0 100\n1 N 0 50\n0 F 0 0\n{handle} {letter} 0 {0 if letter == 'F' else 60}\n1 F 0 0\n")
    env = {"STEVE_FAULT": "no such fault"}
    p = replay("-a", FAULTY, *command, path, env=env)
    assert p.returncode == 1 and p.stderr == f"steve-replay: {path}: {error}\n" and p.stdout == ""
    path.write_text("0 N 0 100\n0 F 0 0\n")
    assert "the allocator cannot start" in replay("-a", FAULTY, *command, path, env=env).stderr


@pytest.mark.parametrize("misuse", MISUSES)
def test_the_replay_on_malloc_of_the_system_refuses_it_too(misuse: str, tmp_path: Path) -> None:
    operation, error = MISUSES[misuse]
    letter, handle = operation.split()
    path = tmp_path / "ops"
    path.write_text(f"0 N 0 100\n1 N 0 50\n0 F 0 0\n{handle} {letter} 0 {0 if letter == 'F' else 60}\n1 F 0 0\n")
    p = replay("--system", path)
    assert p.returncode == 1 and p.stderr == f"steve-replay: {path}: {error}\n" and p.stdout == ""


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--check", "--fail-nth=0"], "'0' is neither a number of at least 1 nor each"),
        (["--check", "--fail-nth=all"], "'all' is neither"),
        (["--min-heap", "--check", "--fail-nth=1"], "--fail-nth goes with --check OPS"),
    ],
)
def test_wrong_usage(words: list[str], error: str, path: Path) -> None:
    p = replay("-a", "glibc", *words, path)
    assert p.returncode == 2 and error in p.stderr
