"""The files of the first Steve, byte by byte: each of its formats is read and, with --compat, written.

The expected lines are copied from its documents or follow from the definitions there: locks by stepping
through every operation for every block; of several lock events at one operation, the last one by handle.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from conftest import Steve, examples
from steve.kernels import _ops
from steve.trace._memtrace import Trace

MEMTRACE = """\
==1234== Memcheck, a memory error detector
>>> N 69586984 352
>>> N 69589088 16
>>> S 69589088 4
some output of the program
>>> L 69587000 4
>>> N 69600000
>>> M 69589092 4
>>> F 69589088 0
>>> L 69587700 4
"""
OPS = """\
0 N 69586984 352
1 N 69589088 16
1 S 69589088 4
0 L 69587000 4
1 M 69589092 4
1 F 69589088 0
"""
# block 0 lives to the end, so it is never locked; 1 gains a life at its S, loses half at the L of 0, gains
# one at its M
FULL = """\
0 N 69586984 352
1 N 69589088 16
1 L 0 0
1 F 69589088 0
"""


def test_memtrace_to_ops(steve: Steve) -> None:
    """Lines that are not events or do not have four fields are skipped. Events that match no block are left out
    and counted."""
    done = steve("ops", "-", stdin=MEMTRACE.encode())
    assert (done.returncode, done.out) == (0, OPS)
    assert "accesses 1, frees 0" in done.err


def test_documented_names(steve: Steve, tmp_path: Path) -> None:
    (tmp_path / "result.app").write_text(MEMTRACE)
    for command, result in (
        (("ops", "result.app"), "result.app-ops"),
        (("lockops", "--simple", "result.app-ops"), "result.app-lockops"),
        (("lockops", "--full", "result.app-ops"), "result.app-lockopsfull"),
    ):
        assert steve(*command, "-q").returncode == 0
        assert (tmp_path / result).exists()


def test_full_locks(steve: Steve, tmp_path: Path) -> None:
    assert steve("lockops", "--full", "--compat", "-", stdin=OPS.encode()).out == FULL
    # when the file is read, L and U are locks: known from the file's name, or from text without header
    (tmp_path / "x-lockopsfull").write_text(FULL)
    assert json.loads(steve("lockops", "--stats", "--json", "x-lockopsfull").out)["locks"] == 1


# blocks 0 and 1 are unlocked at the same operation and locked again at different ones; the U of 0 was lost
TWICE = "0 N 64 8\n1 N 128 8\n2 N 192 8\n0 L 64 4\n1 L 128 4\n0 L 64 4\n" + "2 S 192 4\n" * 9 + "1 F 128 0\n0 F 64 0\n"


def test_lost_lock_events(steve: Steve) -> None:
    """One event is kept for each index, the last one by handle."""
    for ops in (
        OPS,
        TWICE,
        "".join(f"{i} N {64 * i} 8\n" for i in range(9))
        + "".join(f"{i % 9} L {64 * (i % 9)} 4\n" * (1 + i % 3) for i in range(60))
        + "".join(f"{i} F {64 * i} 0\n" for i in range(9)),
    ):
        kept = steve("lockops", "--full", "-", stdin=ops.encode()).out
        compat = steve("lockops", "--full", "--compat", "-", stdin=ops.encode()).out
        assert compat == by_definition(ops)
        assert set(compat.splitlines()) <= set(kept.splitlines())
    assert len(compat) < len(kept)


def by_definition(text: str) -> str:
    """The first Steve's algorithm as its documents describe it: quadratic, with one event for each index."""
    lines = [line.split() for line in text.splitlines()]
    events = {}
    for handle in sorted({int(line[0]) for line in lines}):
        own = [i for i, line in enumerate(lines) if int(line[0]) == handle]
        start = next(i for i in own if lines[i][1] == "N")
        end = next((i for i in own if lines[i][1] == "F"), None)
        life, locked = 0.0, False
        for i in range(start + 1, end or 0):
            life = life + 1 if i in own else max(0.0, life - 0.5)
            if (life > 0) != locked:
                locked = life > 0
                events[i] = f"{handle} {'L' if locked else 'U'} 0 0\n"
    return "".join(
        events.get(i, "") + (" ".join(line) + "\n" if line[1] in "NF" else "") for i, line in enumerate(lines)
    )


def test_simple_locks(steve: Steve) -> None:
    """Only N, F and L; addresses are 0; an L directly after the N of a block with a macro lifetime below one
    half."""
    ops = "0 N 64 8\n1 N 128 16\n1 L 128 4\n1 F 128 0\n" + "0 L 64 4\n" * 9 + "2 N 128 4\n2 F 128 0\n0 F 64 0\n"
    # macro lifetimes: 0: 10/10; 1: (1 + 0) / 10; 2 has no accesses, which the first Steve counted as one:
    # 1/10
    assert steve("lockops", "--simple", "--compat", "-", stdin=ops.encode()).out == (
        "0 N 0 8\n1 N 0 16\n1 L 0 0\n1 F 0 0\n2 N 0 4\n2 L 0 0\n2 F 0 0\n0 F 0 0\n"
    )


@pytest.fixture
def histogram(steve: Steve, tmp_path: Path) -> Path:
    (tmp_path / "app-ops").write_text(
        "0 N 64 8\n1 N 128 16\n1 L 128 4\n0 S 64 4\n1 M 128 4\n1 F 128 0\n0 L 64 4\n2 N 192 4\n"
    )
    assert steve("histogram", "--compat", "-q", "app-ops").returncode == 0
    return tmp_path


def test_handles_and_lifetimes(histogram: Path) -> None:
    assert (histogram / "app-json-ops").read_text() == "[0, 1, 1, 0, 1, 1, 0, 2]"
    text = (histogram / "app-lifetime").read_text()
    assert re.fullmatch(r'\{"mod-op-count": 4, "lifetime-ops": \{("\d+": \[\d+, \d+\](, )?)+\}\}', text)
    assert json.loads(text)["lifetime-ops"] == {"0": [2, 2], "1": [2, 1], "2": [0, 0]}


def test_statistics(histogram: Path) -> None:
    """`# HANDLE: MICRO (own = N, other = N)` by micro lifetime, the same with `MACRO%`, then the number of
    operations."""
    text = (histogram / "app-statistics").read_text()
    lines = [line for line in text.splitlines() if line.startswith("#")]
    assert lines == [
        "# 2: 0.00 (own = 1, other = 0)",
        "# 1: 0.50 (own = 2, other = 1)",
        "# 0: 1.00 (own = 2, other = 2)",
        "# 2: 25% (own = 1, other = 0)",
        "# 1: 75% (own = 2, other = 1)",
        "# 0: 100% (own = 2, other = 2)",
    ]
    assert "\nTotal number of ops: 4\n" in text


def test_ranges_of_macro_lifetimes(steve: Steve, histogram: Path) -> None:
    """Six ranges of 75 bins. Each range with blocks has a picture, named after the range in thousandths."""
    found = json.loads(steve("histogram", "--compat", "--json", "--parts", "none", "app-ops").out)["ranges"]
    assert [(row["low"], row["high"], len(row["bins"])) for row in found] == [
        (0, 0.001, 75),
        (0.0001, 0.02, 75),
        (0.01, 0.15, 75),
        (0.75, 1, 75),
        (0.01, 1, 75),
        (0, 1, 75),
    ]
    assert [row["blocks"] for row in found] == [0, 0, 0, 2, 3, 3]
    pictures = {path.name for path in histogram.glob("app-macro-histogram-*.png")}
    assert pictures == {f"app-macro-histogram-{name}.png" for name in ("750-1000", "10-1000", "0-1000")}


OVERLAP = """\
>>> N 1000 508
>>> S 1400 4
>>> N 1000 18
>>> S 1004 4
>>> S 1400 4
>>> F 1000 0
"""


def test_blocks_over_live_blocks(steve: Steve, tmp_path: Path) -> None:
    """With --compat both blocks stay, in the order of the lines. Without it the older one ends, and the changes
    are counted."""
    (tmp_path / "app").write_text(OVERLAP)
    done = steve("ops", "--compat", "app", "-o", "-")
    assert (done.out, done.err) == ("0 N 1000 508\n0 S 1400 4\n1 N 1000 18\n1 S 1004 4\n0 S 1400 4\n1 F 1000 0\n", "")
    assert steve("ops", "--compat", "-", stdin=OVERLAP.encode()).out == done.out
    assert (
        steve("lockops", "--full", "--compat", "app", "-o", "-").out
        == "0 N 1000 508\n1 N 1000 18\n1 L 0 0\n1 F 1000 0\n"
    )
    done = steve("ops", "app", "-o", "-")
    assert done.out == "0 N 1000 508\n0 S 1400 4\n0 F 1000 0\n1 N 1000 18\n1 S 1004 4\n1 F 1000 0\n"
    assert "accesses 1, frees 0" in done.err and "overlaps: 1 (--compat" in done.err


def test_compat_where_it_has_nothing_to_do(steve: Steve, tmp_path: Path, trace: Callable[..., Path]) -> None:
    (tmp_path / "app-ops").write_text(OPS)
    (tmp_path / "app").write_text(OVERLAP)
    trace("N 4096 16\nend exit\n", name="app.ljt")
    for arguments, message in (
        (("app-ops",), "is an ops file"),
        (("app.ljt",), "is a binary memtrace"),
        (("--resize", "app"), "had no --resize"),
    ):
        done = steve("ops", "--compat", *arguments, "-o", "-")
        assert done.returncode == 2 and message in done.err and not done.out


def overlapping_ops(lines: list[tuple[str, int, int]]) -> str:
    """The expected operations if only its own Free ends a block: of all blocks that match, the newest is
    used."""
    live: list[tuple[int, int, int]] = []
    made, result = 0, ""
    for letter, addr, size in lines:
        if letter == "N":
            live.append((addr, size, made))
            result += f"{made} N {addr} {size}\n"
            made += 1
            continue
        fits = [
            block for block in live if (block[0] == addr if letter == "F" else block[0] <= addr < block[0] + block[1])
        ]
        if fits:
            result += f"{fits[-1][2]} {letter} {addr} {0 if letter == 'F' else size}\n"
        if fits and letter == "F":
            live.remove(fits[-1])
    return result


ADDRESSES = st.one_of(
    st.integers(0, 40), st.integers(4090, 4100), st.sampled_from([0, 256, 4096, 1 << 20, 2**64 - 9])
)
SIZES = st.sampled_from([0, 1, 8, 17, 256, 257, 4096, 5000, 1 << 21, 2**63])


@examples(60, HealthCheck.function_scoped_fixture)
@given(lines=st.lists(st.tuples(st.sampled_from("NNFLSM"), ADDRESSES, SIZES), min_size=1, max_size=120))
def test_overlapping_blocks_as_by_definition(tmp_path: Path, lines: list[tuple[str, int, int]]) -> None:
    lines = [line for line in lines if line[0] != "N" or line[1] + line[2] < 2**64]
    path = tmp_path / "trace"
    path.write_text("".join(f">>> {letter} {addr} {size}\n" for letter, addr, size in lines))
    with open(tmp_path / "ops", "wb") as out:
        _ops.write_ops(Trace(str(path), text=True, overlaps=True), out.fileno())
    assert (tmp_path / "ops").read_text() == overlapping_ops(lines)


def test_many_blocks_over_each_other(tmp_path: Path) -> None:
    """Blocks that are made again and again at one address without a Free: the hash table grows, and the newest
    block is found."""
    lines = [("N", 64 * (i % 1500), 64 + i % 4096) for i in range(6000)]
    lines += [("S", 64 * i + 8, 4) for i in range(1500)] + [("F", 64 * i, 0) for i in range(1500)] * 2
    path = tmp_path / "trace"
    path.write_text("".join(f">>> {letter} {addr} {size}\n" for letter, addr, size in lines))
    with open(tmp_path / "ops", "wb") as out:
        _ops.write_ops(Trace(str(path), overlaps=True), out.fileno())
    found = (tmp_path / "ops").read_text().splitlines()
    assert found[6000:7500] == overlapping_ops(lines[:7500]).splitlines()[6000:]
    assert found[7500:9000] == [f"{4500 + i} F {64 * i} 0" for i in range(1500)]
    assert found[9000:] == [f"{3000 + i} F {64 * i} 0" for i in range(1500)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 N 16 8\n0 N 32 8\n0 F 32 0\n", "line 2: operation 1 (N): handle 0 is live already"),
        ("0 N 16 8\n# a comment\n0 F 16 0\n0 F 16 0\n", "line 4: operation 2 (F): handle 0 is not live"),
        ("0 N 16 8\n9 R 16 16\n", "line 2: operation 1 (R): handle 9 is not live"),
    ],
)
def test_handles_that_contradict_each_other_are_refused(steve: Steve, tmp_path: Path, text: str, words: str) -> None:
    """A second N or F of a handle is an error of the ops file, which names the place."""
    (tmp_path / "wrong-ops").write_text(text)
    for command in (
        ("ops", "wrong-ops", "-o", "out-ops", "--binary"),
        ("histogram", "wrong-ops", "-o", "out"),
        ("lockops", "--full", "wrong-ops", "-o", "out-lockops"),
    ):
        done = steve(*command)
        assert done.returncode == 1, (command, done.err)
        assert f"wrong-ops: {words}" in done.err, (command, done.err)


def test_blocks_at_one_address_are_counted(steve: Steve, tmp_path: Path) -> None:
    """--compat writes such blocks for a New over a live block. They are read and their number is reported."""
    (tmp_path / "old.memtrace").write_text(">>> N 4096 64\n>>> N 4096 32\n>>> F 4096 0\n")
    assert steve("ops", "old.memtrace", "--compat", "-o", "old-ops").returncode == 0
    done = steve("histogram", "old-ops", "-o", "out")
    assert done.returncode == 0, done.err
    assert "old-ops: 1 N or R make a block at the address of a live one" in done.err
