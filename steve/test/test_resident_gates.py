"""What was resident, in `steve diff` and in the conditions of diff and check.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Steve

PAGE, HEAP, OWN = 4096, 0x500000, 0x7F3000000000


def script(own: int, last: int, recorder: str = "native") -> str:
    """A block of one page; a heap of three pages, and `own` and then `last` pages that the program mapped."""
    lines = [f"info recorder {recorder}", "stack main@a.c:1 load@a.c:2 mmap", "stack main@a.c:1 keep@a.c:9"]
    lines += ["time 5", f"N {HEAP} {PAGE} 2"]
    for time, why, pages in ((10, "growth -", own), (20, "end -", last)):
        lines += [
            f"pages {time} {why} 1 0 2 1 {(own + 5) * PAGE}",
            f"mapping {HEAP} {3 * PAGE} 3 {3 * PAGE} [heap] 3:9",
        ]
        lines += [f"mapping {OWN} {pages * PAGE} 3 {pages * PAGE} - {pages}:9", f"region {OWN} {pages * PAGE} 1"]
    return "\n".join([*lines, "end exit"]) + "\n"


@pytest.fixture
def traces(trace: Callable[..., Path]) -> None:
    trace(script(20, 4), "a.ljt")
    trace(script(30, 4), "b.ljt")
    trace("stack main@a.c:1\ninfo recorder native\nN 4096 10 1\nend exit\n", "without.ljt")
    trace("stack main@a.c:1\nN 4096 10 1\nend exit\n", "valgrind.ljt")
    trace(script(20, 4).replace("info recorder native", "info recorder native\ninfo sample_mean 100"), "sample.ljt")
    attached = "info recorder native\ninfo attached 4711"
    trace(script(20, 4).replace("info recorder native", attached), "attached.ljt")


@pytest.mark.parametrize(
    ("condition", "fails"),
    (
        ("resident > 140k", True),  # 35 pages: what the kernel says was most
        ("resident > 144k", False),
        ("resident_at_end = 28672", True),
        ("resident_own = 122880", True),
        ("resident_live > 4095", True),
        ("resident_free > 8192", False),
        ("resident_stacks > 0", False),
        ("resident_own > 100k and resident_live > 1M", False),
    ),
)
def test_one_trace(traces: None, steve: Steve, condition: str, fails: bool) -> None:
    done = steve("check", "-q", "b.ljt", f"--fail-if={condition}")
    assert done.returncode == fails, done.err
    assert ("see steve resident" in done.out) == fails


@pytest.mark.parametrize(
    ("condition", "fails"),
    (
        ("resident > +5%", True),
        ("resident > +40%", False),
        ("resident > +36Ki", True),
        ("resident_own = +50%", True),
        ("resident_free > +1M", False),
        ("resident_at_end > +0", False),
        ("resident_own < -1", False),
    ),
)
def test_two_traces(traces: None, steve: Steve, condition: str, fails: bool) -> None:
    done = steve("diff", "-q", "a.ljt", "b.ljt", f"--fail-if={condition}")
    assert done.returncode == fails, done.err


@pytest.mark.parametrize(
    ("words", "why"),
    (
        (("check", "without.ljt", "--fail-if=resident > 1"), "recorded without --pages"),
        (("check", "valgrind.ljt", "--fail-if=resident_free > 1"), "are Valgrind's"),
        (("check", "a.ljt", "--where=size > 1", "--fail-if=resident > 1"), "those of all blocks"),
        (("check", "sample.ljt", "--fail-if=resident_free > 1"), "a sample"),
        (("check", "attached.ljt", "--fail-if=resident_free > 1"), "blocks from before the attach are not known"),
        (("diff", "a.ljt", "without.ljt", "--fail-if=resident > +1"), "not known of B: it was recorded without"),
        (("diff", "without.ljt", "a.ljt", "--fail-if=resident > +1"), "not known of A: it was recorded without"),
        (("diff", "without.ljt", "without.ljt", "--fail-if=resident > +1"), "of A and B"),
    ),
)
def test_cannot_be_judged(traces: None, steve: Steve, words: tuple[str, ...], why: str) -> None:
    done = steve(words[0], "-q", *words[1:])
    assert done.returncode == 2 and "cannot be judged" in done.err and why in done.err, done.err


def test_sums_of_a_sample(traces: None, steve: Steve) -> None:
    assert steve("check", "-q", "sample.ljt", "--fail-if=resident > 1").returncode == 1


def test_table(traces: None, steve: Steve) -> None:
    """The parts add up; what changed is there although no site differs."""
    found = json.loads(steve("diff", "a.ljt", "b.ljt", "--json", "--fail-if=resident > +90%").out)
    rows = {row["measure"]: (row["a"], row["b"], row["change"]) for row in found["resident"]}
    assert rows == {
        "resident_live": (PAGE, PAGE, 0),
        "resident_free": (2 * PAGE, 2 * PAGE, 0),
        "resident_own": (20 * PAGE, 30 * PAGE, 10 * PAGE),
        "resident_at_look": (23 * PAGE, 33 * PAGE, 10 * PAGE),
        "resident": (25 * PAGE, 35 * PAGE, 10 * PAGE),
        "resident_at_end": (7 * PAGE, 7 * PAGE, 0),
    }
    text = steve("diff", "a.ljt", "b.ljt").out
    assert "nothing changed" in text and "mapped by the program itself" in text and "50.00" in text
    assert (
        "| 81,920 | 122,880 | 40,960 | 50.00 | mapped by the program itself |"
        in steve("diff", "a.ljt", "b.ljt", "--markdown").out
    )
    assert "not known of B: it was recorded without --pages" in steve("diff", "a.ljt", "without.ljt").out
    assert "resident" not in steve("diff", "without.ljt", "valgrind.ljt").out
    assert isinstance(json.loads(steve("diff", "a.ljt", "b.ljt", "--json").out), list)


def test_folders_and_shards(traces: None, steve: Steve) -> None:
    """Of a folder, the sums; in parallel, the same."""
    for name in "ab":
        (steve.folder / name).mkdir()
        (steve.folder / name / "1.ljt").write_bytes((steve.folder / "a.ljt").read_bytes())
        (steve.folder / name / "2.ljt").write_bytes((steve.folder / f"{name}.ljt").read_bytes())
    assert steve("diff", "a", "b", "-q", f"--fail-if=resident_own = +{10 * PAGE}").returncode == 1
    assert steve("diff", "a", "b", "-q", f"--fail-if=resident = {60 * PAGE}").returncode == 1
    assert steve("diff", "a.ljt", "b.ljt", "-q", "-j2", f"--fail-if=resident_own = +{10 * PAGE}").returncode == 1
    assert steve("check", "b.ljt", "-q", "-j2", f"--fail-if=resident_own = {30 * PAGE}").returncode == 1


def test_what_is_free_beside_unknown_blocks_is_not_known(traces: None, steve: Steve) -> None:
    """Where the blocks from before an attach were not recorded."""
    for form in ((), ("--markdown",)):
        text = steve("diff", "a.ljt", "attached.ljt", *form).out
        assert "not known of B: blocks from before the attach are not known" in text
        assert "all of these" in text and "free in the allocator  " not in text
        assert "not known" not in steve("diff", "a.ljt", "b.ljt", *form).out
    assert "drawn as free" in steve("map", "attached.ljt", "--json").out
    assert "drawn as free" not in steve("map", "a.ljt", "--json").out


def test_the_page_of_two_traces_has_the_table(traces: None, steve: Steve) -> None:
    """With the numbers of `steve diff`; and a sentence if only one of the traces has looks."""
    rows = json.loads(steve("diff", "a.ljt", "b.ljt", "--json", "--fail-if=resident > 1G").out)["resident"]
    html = steve("report", "a.ljt", "b.ljt", "-o", "-", "-q").out
    table = html.partition('<table id="resident-changes">')[2].partition("</table>")[0]
    found = re.findall(r'data-measure="(\w+)".*?title="([+-]\d+)".*?title="(\d+)".*?title="(\d+)"', table)
    assert found == [(row["measure"], f"{row['change']:+}", str(row["a"]), str(row["b"])) for row in rows] and found
    assert "What was resident is not known of B" in steve("report", "a.ljt", "without.ljt", "-o", "-", "-q").out
    assert "Resident memory" not in steve("report", "without.ljt", "without.ljt", "-o", "-", "-q").out
