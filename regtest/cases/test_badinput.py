"""test_badinput - wrong options and bad files get one clear line and the right status, and leave no files.

Every command that reads a trace gets each kind of bad trace. What a reader does with each single damaged byte
is tested in memtrace/test.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from pathlib import Path
from typing import Iterator

import pytest

from support import APP_C, APP_LUA, Trace, good, record, recorder, run, steve

TRACE_COMMANDS = ("info", "summary", "check", "dump", "memtrace", "ops", "report")
BAD_NAMES = ("missing", "folder", "empty", "foreign", "truncated", "header only", "flipped")
OPS_COMMANDS = ("lockops", "histogram", "allocstats", "animate")


def bad_files(folder: Path, trace: Trace) -> dict[str, Path]:
    """name -> a file that is not a complete trace"""
    data = trace.path.read_bytes()
    contents = {
        "empty": b"",
        "foreign": b"\x7fELF\x02\x01\x01" + bytes(500),
        "truncated": data[: len(data) // 2],
        "header only": data[:16],
        "flipped": data[:300] + bytes([data[300] ^ 0x40]) + data[301:],
    }
    files = {"missing": folder / "missing.ljt", "folder": folder}
    for name, content in contents.items():
        files[name] = folder / f"{name.replace(' ', '-')}.ljt"
        files[name].write_bytes(content)
    return files


def one_clear_line(complaint: str, path: Path) -> None:
    lines = complaint.strip().splitlines()
    assert len(lines) == 1, complaint
    assert str(path) in lines[0] and "Traceback" not in complaint


@pytest.mark.parametrize("command", TRACE_COMMANDS)
@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_trace(command: str, name: str, tmp_path: Path, c_trace: Trace) -> None:
    path = bad_files(tmp_path, c_trace)[name]
    output = tmp_path / "made"
    options = ["-o", output] if command in ("ops", "report") else []
    done = run(["steve", command, path, *options], cwd=tmp_path)
    if command == "info" and name in ("truncated", "flipped") and done.status == 0:
        # info may describe what is there, but must not call it whole
        assert "truncated" in done.text or "incomplete" in done.text or "damaged" in done.text
        return
    assert done.status == 1, done.complaint
    if "comes before it" in done.complaint:  # then what was sound is there, and the last line says so
        assert name in ("truncated", "header only", "flipped")
        one_clear_line(done.complaint.splitlines()[-1], path)
        return
    one_clear_line(done.complaint, path)
    assert not output.exists(), "an unfinished result remained"


@pytest.mark.parametrize("command", OPS_COMMANDS)
@pytest.mark.parametrize(
    "content",
    [None, b"0 N 16\n", b"0 N 16 32\n0 X 0 0\n", b"\x00\x01\x02binary"],
    ids=["missing", "three fields", "unknown op", "binary"],
)
def test_bad_ops(command: str, content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "bad-ops"
    if content is not None:
        path.write_bytes(content)
    options = {"lockops": ["--full"], "histogram": ["--parts", "none"]}.get(command, [])
    done = run(["steve", command, *options, path], cwd=tmp_path)
    assert done.status == 1, done.complaint
    one_clear_line(done.complaint, path)


@pytest.mark.parametrize(
    "argv,status",
    [
        (["steve"], 2),
        (["steve", "nonsense"], 2),
        (["steve", "ops"], 2),
        (["steve", "ops", "--no-such-option", "x"], 2),
        (["steve-replay"], 2),
        (["steve-replay", "--no-such-option"], 2),
    ],
    ids=lambda x: str(x),
)
def test_wrong_usage(argv: list[str], status: int) -> None:
    done = run(argv)
    assert done.status == status and done.complaint and "Traceback" not in done.complaint


def test_unknown_allocator(tmp_path: Path) -> None:
    ops = tmp_path / "x-ops"
    ops.write_text("0 N 16 32\n0 F 16 0\n")
    done = run(["steve", "allocstats", ops, "--allocator", "nosuchallocator"], cwd=tmp_path)
    assert done.status in (1, 2)
    assert "nosuchallocator" in done.complaint and "Traceback" not in done.complaint


@pytest.mark.parametrize(
    "option",
    [
        "--no-such-option",
        "--trace-mem=perhaps",
        "--heap=",
        "--heap=stack",
        "--stack-depth=-1",
        "--stack-depth=many",
        "--compress=99",
        "--out=",
        "--toggle-fn=",
        "--sample-blocks=1/0",
        "--sample-blocks=0",
        "--sample-blocks=1/x",
        "--sample-blocks=2/3",
        "--sample-blocks=1/",
        "--sample-blocks=1/-5",
        "--sample-blocks=1/9999999",
        "--sample-blocks=",
        "--sample-seed=0",
        "--sample-seed=x",
    ],
)
def test_recorder_refuses_wrong_options(option: str, tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / "t.ljt", option), "/bin/true"], cwd=tmp_path)
    assert done.status == 1
    assert option.split("=")[0] in done.complaint
    assert not (tmp_path / "t.ljt").exists()


def test_recorder_options_are_in_its_help() -> None:
    text = good(["valgrind", "--tool=ljtrace", "--help"]).text
    for option in ("--out=", "--trace-mem=", "--trace-sp=", "--heap=", "--stack-depth=", "--compress="):
        assert option in text, option


@pytest.mark.parametrize("path", ["no/such/folder/t.ljt", "."], ids=["missing folder", "a folder"])
def test_output_cannot_be_written(path: str, tmp_path: Path) -> None:
    """If the requested trace is not possible, the recorder says so before the program runs."""
    done = run([*recorder(tmp_path / path), "/bin/echo", "ran"])
    assert str(tmp_path / path).rstrip(".") in done.complaint
    assert done.status != 0 and b"ran" not in done.out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_device_is_full_from_the_start() -> None:
    done = run([*recorder(Path("/dev/full")), APP_C, "300"])
    assert (done.status, done.out) == (1, b"")
    assert "/dev/full" in done.complaint


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder])
    if mounted.status != 0:
        pytest.skip(f"cannot mount a small tmpfs: {mounted.complaint.strip()}")
    yield folder
    run(["umount", folder])


def test_disk_gets_full(small_disk: Path) -> None:
    """The program continues normally, the user gets a message, and what was written before can be read."""
    path = small_disk / "t.ljt"
    done = run([*recorder(path, "--stack-depth=0"), "luajit", APP_LUA, "1", "0.01"])
    plain = run(["luajit", APP_LUA, "1", "0.01"])
    assert (done.status, done.out) == (plain.status, plain.out)
    assert "recording ended" in done.complaint and str(path) in done.complaint
    remains = run(["steve", "dump", path])
    assert remains.status == 1 and len(remains.out) > 1000
    one_clear_line(remains.complaint.splitlines()[-1], path)


def test_default_name_and_process_id(tmp_path: Path) -> None:
    good(["valgrind", "--tool=ljtrace", "--trace-mem=no", "/bin/true"], cwd=tmp_path)
    good(["valgrind", "--tool=ljtrace", "--trace-mem=no", "--out=mine-%p.x", "/bin/true"], cwd=tmp_path)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert len(names) == 2 and names[0].startswith("ljtrace.out.") and names[0].endswith(".ljt")
    assert names[1].startswith("mine-") and names[1][5:-2].isdigit()


def test_existing_trace_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    record(path, [APP_C, "1000"], "--trace-mem=no")
    large = path.stat().st_size
    record(path, [APP_C, "1"], "--trace-mem=no")
    assert path.stat().st_size < large


def test_steve_output_folder_missing(tmp_path: Path, c_trace: Trace) -> None:
    done = run(["steve", "ops", c_trace.path, "-o", tmp_path / "none/x-ops"])
    assert done.status == 1
    one_clear_line(done.complaint, tmp_path / "none")


def test_info_names_the_program(c_trace: Trace) -> None:
    assert "examples/app" in steve("info", c_trace.path).text
