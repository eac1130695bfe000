"""test_accesses - loads, stores and modifies in the trace are exactly those the program made.

native/pattern.c makes known accesses to blocks of conspicuous sizes and prints what it made; the trace must
hold these and no other for these blocks, in this order, with these addresses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from support import NATIVE, Trace, record, steve, words

SIZES = ("70001", "70003", "70005")
Access = tuple[str, int, int, int, int]  # letter, block, address, offset, size


def expected(printed: str) -> list[Access]:
    bases = {int(w[1]): int(w[2]) for w in words(printed) if w[0] == "B"}
    rest = [(w[0], int(w[1]), int(w[2]), int(w[3])) for w in words(printed) if w[0] != "B"]
    return [(k, b, bases[b] + offset, offset, size) for k, b, offset, size in rest]


def seen(trace: Trace) -> list[Access]:
    return [(w[0], *map(int, w[1:])) for w in words(trace.view("blocks", *SIZES))]  # type: ignore[misc]


@pytest.mark.parametrize("mode,least", [("plain", 300), ("atomic", 7)])
def test_known_pattern(mode: str, least: int, tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "pattern", mode])
    assert trace.run.status == 0
    truth = expected(trace.run.text)
    assert len(truth) >= least
    assert seen(trace) == truth


@pytest.mark.parametrize(
    "mode,least",
    [
        ("vector", 11),
        ("part", 10),
        ("mask", 6),
        ("gather", 3),
        ("lanes8", 6),
        ("string", 23),
        ("runs", 194),
        ("far", 3),
        ("border", 3),
        ("both", 16),
        ("turns", 18),
        ("x87", 11),
        ("atomic16", 3),
        ("kernel", 9),
    ],
)
def test_all_but_plain_accesses(mode: str, least: int, tmp_path: Path) -> None:
    """Vectors, masks, repeated strings, distant addresses, helper functions of the translator, 16-byte locks,
    the kernel; code that runs on the stack first, or on the heap first."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "wide", mode], "--check-ir=yes")
    if trace.run.status == 77:
        pytest.skip("this processor has no AVX2")
    assert trace.run.status == 0
    truth = expected(trace.run.text)
    assert len(truth) >= least
    assert seen(trace) == truth


# what is written there changes from call to call, and a byte may be by chance what it was, twice; or it has
# gaps, which the kernel leaves as they are
PARTLY = (
    "clock_gettime",
    "getrandom",
    "stat",
    "statfs",
    "statx",
    "fstatat",
    "getrusage",
    "sysinfo",
    "times",
    "control",
    "getdents64",
    "sigaltstack",
    "wait4",
    "timerfd_gettime",
)


def touched(trace: Trace, kind: str, size: str) -> set[int]:
    """The offsets of the accesses to the block of this size."""
    accesses = [w for w in words(trace.view("blocks", size)) if w[0] == kind]
    return {at for w in accesses for at in range(int(w[3]), int(w[3]) + int(w[4]))}


@pytest.mark.parametrize("program,calls", [("filled", 28), ("filled_rest", 38)])
def test_what_system_calls_fill(program: str, calls: int, tmp_path: Path) -> None:
    """Stores by the kernel are the bytes that it changed, as the program itself determined."""
    trace = record(tmp_path / "t.ljt", [NATIVE / program], "--start-off=yes", "--trace-fork=no")
    lines = list(words(trace.run.text))
    assert trace.run.status == 0 and len(lines) == calls
    for size, name, result, *changed in lines:
        filled, truth = touched(trace, "S", size), {int(at) for at in changed}
        assert filled == truth or (name in PARTLY and truth and filled > truth), f"{name} returned {result}"
        assert truth or int(result) <= 0, name


def test_what_system_calls_read(tmp_path: Path) -> None:
    """Loads by the kernel are the bytes that it copies. A write with too little room copies only some of
    them, or none."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "drained"], "--start-off=yes")
    lines = list(words(trace.run.text))
    assert trace.run.status == 0 and len(lines) == 41
    for size, name, result, *ranges in lines:
        starts, lengths = map(int, ranges[::2]), map(int, ranges[1::2])
        truth = {at for start, length in zip(starts, lengths) for at in range(start, start + length)}
        assert touched(trace, "L", size) == truth, f"{name} returned {result}"
    short = {name: int(result) for _, name, result, *_ in lines}
    assert 0 < short["write-part"] < 50_000 and 0 < short["writev-part"] < 50_000 and short["write-full"] == -1


def test_words_that_system_calls_work_on(tmp_path: Path) -> None:
    """Waking a futex does not access it, and it may be freed by then; file offsets are read and written."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "words"], "--start-off=yes")
    lines = list(words(trace.run.text))
    assert trace.run.status == 0 and len(lines) == 11
    for size, name, result, *truth in lines:
        length = 8 if name in ("splice", "copy_file_range") else 4
        assert int(result) >= 0 or name == "wait", f"{name} returned {result}"
        for kind in ("L", "S"):
            starts = [int(at) for letter, at in zip(truth[::2], truth[1::2]) if letter == kind]
            assert touched(trace, kind, size) == {at for start in starts for at in range(start, start + length)}, name


def kernels(trace: Trace, size: int) -> list[tuple[str, str, int]]:
    """The kernel's accesses to the blocks of a size: kind, thread, bytes."""
    found, blocks = [], set()
    for line in words(steve("dump", trace.path).text):
        if "=" not in line[1]:
            continue
        fields = dict(f.split("=", 1) for f in line[1:] if "=" in f)
        if line[0] == "new" and fields["size"] == str(size):
            blocks.add(fields["handle"])
        if line[0] in ("load", "store") and fields.get("kernel") == "1" and fields["handle"] in blocks:
            found.append((line[0], fields["thread"], int(fields["size"])))
    return found


def test_calls_that_wait_while_others_run(tmp_path: Path) -> None:
    """Accesses of a system call belong to its thread, even if another thread ran in between. Data that were
    sent are recorded as accesses to a live block, even if the receiver freed it before the call returned."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "handover"])
    assert trace.run.text == "done\n"
    assert kernels(trace, 300_007) == [("load", "1", 300_007)] * 20
    received = kernels(trace, 300_011)
    assert {kind for kind, *_ in received} == {"load", "store"} and {thread for _, thread, _ in received} == {"2"}
    assert sum(size for kind, _, size in received if kind == "store") == 20 * 300_007
    assert kernels(trace, 50_021) == [("store", "1", 5)] * 20
    assert json.loads(steve("findings", "--json", "--rules", "errors", trace.path).text) == []


def test_processor_states(tmp_path: Path) -> None:
    """fxsave and fxrstor: legacy and XMM areas. The translator chooses how to divide them."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "wide", "state"])
    if trace.run.status == 77:
        pytest.skip("this processor has no AVX2")
    for kind, block, _, offset, size in expected(trace.run.text):
        assert covered(seen(trace), kind, block) >= set(range(offset, offset + size))


def test_unused_volatile_loads_are_there(tmp_path: Path) -> None:
    """VEX would remove loads whose value is never used; the tool prevents that without an option."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "pattern", "plain"])
    assert [a for a in seen(trace) if a[:2] == ("L", 1) and a[3:] == (64, 4)] == [
        a for a in expected(trace.run.text) if a[:2] == ("L", 1) and a[3:] == (64, 4)
    ]
    assert sum(a[:2] == ("L", 1) and a[3:] == (64, 4) for a in seen(trace)) >= 8


def covered(accesses: list[Access], kind: str, block: int) -> set[int]:
    return {
        byte for k, b, _, offset, size in accesses if (k, b) == (kind, block) for byte in range(offset, offset + size)
    }


def test_memcpy_and_memset_touch_every_byte(tmp_path: Path) -> None:
    """libc chooses the width of each access, but not which bytes are accessed."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "pattern", "copy"])
    accesses = seen(trace)
    for kind, block, _, _, size in expected(trace.run.text):
        assert covered(accesses, kind, block) == set(range(size)), f"{kind} of block {block}"
    assert {(k, b) for k, b, *_ in accesses} == {("S", 0), ("L", 0), ("S", 1)}


def test_no_accesses_when_not_asked_for(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [NATIVE / "pattern", "plain"], "--trace-mem=no")
    counts = trace.counts()
    assert counts["load"] == counts["store"] == counts["modify"] == 0
    assert counts["new"] >= 3


def test_sites_are_instructions_of_one_size(tmp_path: Path) -> None:
    """A site is one instruction with one kind and size of access. No site is defined twice."""
    trace = record(tmp_path / "t.ljt", [NATIVE / "pattern", "plain"])
    sites = [tuple(w) for w in words(trace.view("sites"))]
    assert len(sites) > 20
    assert {s[2] for s in sites} >= {"1", "2", "4", "8", "16"}
