"""The forms of ops files on the command line: binary, compressed text, resizes, and damaged files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import subprocess
from pathlib import Path
from collections.abc import Callable

import pytest

from conftest import Steve

SCRIPT = "N 4096 64\nS 4096 8\nR 4096 8192 128\nL 8192 4\nF 8192\nend exit\n"
TEXT = "0 N 4096 64\n0 S 4096 8\n0 F 4096 0\n1 N 8192 128\n1 L 8192 4\n1 F 8192 0\n"
KEPT = "0 N 4096 64\n0 S 4096 8\n0 R 8192 128\n0 L 8192 4\n0 F 8192 0\n"


@pytest.fixture
def made(steve: Steve, trace: Callable[..., Path]) -> Steve:
    """t.ljt, and b-ops made from it: binary with resizes."""
    trace(SCRIPT)
    assert steve("ops", "--binary", "--resize", "t.ljt", "-o", "b-ops").returncode == 0
    return steve


def test_resizes_can_be_kept(made: Steve) -> None:
    assert made("ops", "t.ljt", "-o", "-").out == TEXT
    assert made("ops", "--resize", "t.ljt", "-o", "-").out == KEPT


def is_binary(path: Path) -> bool:
    return path.read_bytes()[:4] == b"\x7fOPS"


def test_files_are_binary_streams_text(made: Steve, tmp_path: Path) -> None:
    assert made("ops", "--resize", "t.ljt").returncode == made("lockops", "--full", "t.ljt").returncode == 0
    assert (tmp_path / "t.ljt-ops").read_bytes() == (tmp_path / "b-ops").read_bytes()
    assert is_binary(tmp_path / "t.ljt-lockopsfull")
    for way, form in (("--full", "--compat"), ("--simple", "--compat"), ("--stack", "--text")):
        assert made("lockops", way, form, "t.ljt", "-o", "kept").returncode == 0
        assert made("lockops", way, form, "t.ljt", "-o", "-").out == (tmp_path / "kept").read_text() != ""
    assert made("ops", "t.ljt", "-o", "/dev/stdout").out == TEXT


def test_one_form_from_another(made: Steve, tmp_path: Path) -> None:
    """Operations, resizes, threads and times stay the same, also those of lockops files."""
    (tmp_path / "marked-ops").write_text("# thread 1\n# time 9\n" + KEPT.replace("0 L", "# thread 2\n0 L"))
    (tmp_path / "locks").write_text("0 N 0 8\n0 L 0 0\n0 U 0 0\n0 F 0 0\n")
    for name in ("marked-ops", "locks"):
        assert made("ops", name, "-o", "other").returncode == 0 and is_binary(tmp_path / "other")
        assert made("ops", "other", "-o", "-").out == (tmp_path / name).read_text()
    assert made("lockops", "--stats", "other").returncode == 0
    assert made("ops", "-j", "2", "b-ops", "-o", "-").out == KEPT


def mixed(a: bytes, b: bytes, name: bytes) -> bytes:
    """A file made of the chunks of one file, with the chunks from a given type up to END taken from another."""
    kind, end = b"\xabljtCHK\n" + name, b"\xabljtCHK\n\x03"
    return a[: a.index(kind)] + b[b.index(kind) : b.index(end)] + a[a.index(end) :]


def mixed_blocks(a: bytes, b: bytes) -> bytes:
    """The same for files of blocks: the operations of one file, the list of another."""
    at = [9 + 32 + int.from_bytes(data[17:21], "little") for data in (a, b)]
    return a[: at[0]] + b[at[1] :]


@pytest.mark.parametrize("copied", (True, False))
def test_a_wrong_list_of_what_is_never_freed(
    steve: Steve, trace: Callable[..., Path], tmp_path: Path, copied: bool
) -> None:
    """An ops file with the list of another file of as many operations: readers that need the list reject it,
    others read on."""
    for name, freed in (("a", 4096), ("b", 8192)):
        trace(f"N 4096 64\nN 8192 64\nF {freed}\nend exit\n", f"{name}.ljt")
        assert steve("ops", f"{name}.ljt", "-o", f"{name}-ops", *([] if copied else ["--salvage"])).returncode == 0
    a, b = ((tmp_path / f"{name}-ops").read_bytes() for name in "ab")
    (tmp_path / "mixed-ops").write_bytes(mixed(a, b, b"\x07") if copied else mixed_blocks(a, b))
    assert steve("lockops", "--full", "a-ops", "-o", "-").returncode == 0
    result = steve("lockops", "--full", "mixed-ops")
    assert result.returncode == 1 and "mixed-ops: is damaged: the blocks that it says are never freed" in result.err
    assert not (tmp_path / "mixed-lockopsfull").exists()
    assert steve("ops", "mixed-ops", "-o", "-").out == steve("ops", "a-ops", "-o", "-").out != ""


def test_a_wrong_list_of_what_is_left(steve: Steve, trace: Callable[..., Path], tmp_path: Path) -> None:
    """The same for traces. With filters, marks or --salvage the list is not used."""
    for name, freed in (("a", 4096), ("b", 8192)):
        trace(f"N 4096 64\nN 8192 64\nF {freed}\nend exit\n", f"{name}.ljt")
    a, b = ((tmp_path / f"{name}.ljt").read_bytes() for name in "ab")
    (tmp_path / "mixed.ljt").write_bytes(mixed(a, b, b"\x07"))
    assert (tmp_path / "mixed.ljt").read_bytes() not in (a, b)
    result = steve("lockops", "--full", "mixed.ljt")
    assert result.returncode == 1 and "mixed.ljt: is damaged: the blocks that it says are never freed" in result.err
    assert not (tmp_path / "mixed.ljt-lockopsfull").exists()
    for jobs in ("1", "2"):
        result = steve("check", "-j", jobs, "mixed.ljt")
        assert result.returncode == 1 and "BROKEN   the file's list of blocks alive at the end" in result.out
        assert "2 times; left 1 and 1" in result.out
    right = steve("lockops", "--full", "a.ljt", "-o", "-").out
    for arguments in (["--where", "size > 0"], ["--salvage"]):
        assert steve("lockops", "--full", *arguments, "mixed.ljt", "-o", "-").out == right != ""


def test_blocks_whose_free_is_lost(steve: Steve, trace: Callable[..., Path], tmp_path: Path) -> None:
    """A chunk with two Frees is damaged. The blocks in their slots are never freed in the ops file, although
    other blocks use the slots later, and the list in the ops file says so."""
    path = trace(
        "N 4096 64\nN 8192 64\nF 4096\nF 8192\nN 12288 64\nN 16384 64\nF 12288\nL 16384 8\nend exit\n", chunk_events=2
    )
    data, magic = bytearray(path.read_bytes()), b"\xabljtCHK\n\x02"
    data[data.index(magic, data.index(magic) + 1) + 80] ^= 1
    path.write_bytes(data)
    for jobs in ("1", "2"):
        assert steve("ops", "--salvage", "-j", jobs, "t.ljt", "-o", f"{jobs}-ops").returncode == 1
    text = steve("ops", "1-ops", "-o", "text-ops", "--text")
    assert text.returncode == 0 and (tmp_path / "text-ops").read_text().count(" F ") == 1
    assert (tmp_path / "1-ops").read_bytes() == (tmp_path / "2-ops").read_bytes()
    locks = [steve("lockops", "--full", name, "-o", "-") for name in ("1-ops", "text-ops")]
    assert locks[0].returncode == 0 and locks[0].out == locks[1].out != ""


def test_an_ops_file_is_not_chosen_from(made: Steve) -> None:
    for option in (["--resize"], ["--threads"], ["--times"], ["--where", "freed"], ["--from", "x"]):
        result = made("ops", *option, "b-ops", "-o", "-")
        assert result.returncode == 2 and "b-ops: is an ops file" in result.err, option
    result = made("ops", "b-ops")
    assert result.returncode == 2 and "is what the command reads" in result.err


def test_a_damaged_ops_file_is_written_up_to_there(made: Steve, tmp_path: Path) -> None:
    (tmp_path / "bad-ops").write_text(TEXT + "0 L sixty 4\n")
    result = made("ops", "bad-ops", "-o", "-")
    assert (result.returncode, result.out) == (1, TEXT) and "bad-ops: line 7" in result.err


def test_compressed_by_name(made: Steve, tmp_path: Path) -> None:
    assert made("ops", "t.ljt", "-o", "x-ops.zst").returncode == 0
    plain = subprocess.run(["zstd", "-dc", "x-ops.zst"], cwd=tmp_path, capture_output=True, check=True)
    assert plain.stdout.decode() == TEXT
    wrong = made("ops", "--binary", "t.ljt", "-o", "y.zst")
    assert wrong.returncode == 2 and "compressed already" in wrong.err


def test_lockops_of_every_form(made: Steve, tmp_path: Path) -> None:
    (tmp_path / "k-ops").write_text(KEPT)
    for way in ("--full", "--simple"):
        text = made("lockops", way, "k-ops", "-o", "-").out
        assert "0 R " in text
        assert made("lockops", way, "b-ops", "-o", "-").out == text
        assert made("lockops", way, "-", "-o", "-", stdin=(tmp_path / "b-ops").read_bytes()).out == text
    assert (
        made("histogram", "--parts", "none", "b-ops").out.replace("b-ops", "k-ops")
        == made("histogram", "--parts", "none", "k-ops").out
    )


def test_a_binary_lockops_file_is_no_ops_file(made: Steve) -> None:
    assert made("lockops", "--full", "--binary", "b-ops", "-o", "locks").returncode == 0
    result = made("lockops", "--full", "locks", "-o", "-")
    assert result.returncode == 1 and "is a lockops file" in result.err


def test_no_block_has_the_largest_number(made: Steve, tmp_path: Path) -> None:
    largest = 2**64 - 2
    for handle, status in ((largest, 0), (largest + 1, 1)):
        (tmp_path / "far-ops").write_text(f"{handle} N 1 8\n{handle} L 1 8\n{handle} F 1 0\n")
        for command in (("lockops", "--full"), ("lockops", "--simple"), ("histogram", "--parts", "none")):
            done = made(*command, "far-ops")
            assert done.returncode == status and ("line 1" in done.err) == bool(status), done.err


def test_damage(made: Steve, tmp_path: Path) -> None:
    whole = (tmp_path / "b-ops").read_bytes()
    (tmp_path / "cut-ops").write_bytes(whole[:-5])
    result = made("lockops", "--full", "cut-ops", "-o", "-")
    assert result.returncode == 1 and "ends early at offset" in result.err
    (tmp_path / "bad-ops").write_bytes(whole[:20] + b"\xff" + whole[21:])
    result = made("lockops", "--full", "bad-ops", "-o", "-")
    assert result.returncode == 1 and "damaged ops file at offset 16" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    (
        (("--compat", "--gain", "2", "--full"), "cannot be changed"),
        (("--simple", "--decay", "1"), "of --full"),
        (("--full", "--decay", "0"), "above 0"),
        (("--full", "--gain", "1.2345"), "three decimals"),
        (("--full", "--gain", "-1"), "gain"),
        (("--full", "--gain", "1001"), "0 to 1000"),
        (("--compat", "--unlock-before-free", "--full"), "cannot be changed"),
    ),
)
def test_wrong_rules_of_locks(made: Steve, arguments: tuple, message: str) -> None:
    result = made("lockops", *arguments, "b-ops")
    assert result.returncode == 2 and message in result.err
