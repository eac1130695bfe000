"""`steve diff --fail-if`: the grammar of conditions, what they find, and its forms of output.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest

from steve.analysis.conditions import NAMES, Condition, Measured
from steve.system.errors import UsageError
from steve.trace._memtrace import TYPE_NAMES

BEFORE = """\
stack main@main.c:5 parse@parse.c:1 malloc
stack main@main.c:6 draw@draw.c:2 malloc
stack main@main.c:7 cache@cache.c:3 malloc
N 0x1000 1000 1
N 0x2000 500 2
F 0x2000 2
"""
END = "end exit\n"
# parse grows by 10%, draw is as before, cache is new and never freed
AFTER = BEFORE.replace("0x1000 1000", "0x1000 1100").replace("F 0x2000 2", "N 0x3000 40 3\nF 0x2000 2") + "S 0x1000 8\n"


@pytest.fixture
def compared(steve: Any, trace: Callable) -> Callable:
    """A function compared(condition..., options) that runs steve diff --fail-if on two traces."""
    trace(BEFORE + END, "a.ljt")
    trace(AFTER + END, "b.ljt")

    def run(*wanted: str, options: tuple = ()) -> Any:
        return steve("diff", "-q", "a.ljt", "b.ljt", *(f"--fail-if={text}" for text in wanted), *options)

    return run


def test_the_string_table_is_of_no_site(steve: Any, trace: Callable) -> None:
    """LuaJIT's table of all strings grows on any line: conditions about sites leave it out, those about totals do not."""
    trace(BEFORE + END, "a.ljt")
    trace(
        AFTER.replace("N 0x3000 40 3", "N 0x3000 8192 3") + f"type {0x3000} 0 {TYPE_NAMES.index('strtab')}\n" + END,
        "b.ljt",
    )
    for condition, fails in (
        ("sites.new_leaks > 0", False),
        ("site.live_at_end > +4Ki", False),
        ("site.live_at_end > +50", True),  # parse
        ("live_at_end > +4Ki", True),
    ):
        assert steve("diff", "-q", "a.ljt", "b.ljt", f"--fail-if={condition}").returncode == fails
        assert steve("diff", "-q", ".", "b.ljt", f"--fail-if={condition}").returncode in (0, 1)
    for condition, fails in (
        ("site.live_at_end > 4Ki", False),
        ("site.live_at_end > 1000", True),
        ("live_at_end > 4Ki", True),
    ):
        assert steve("check", "-q", "b.ljt", f"--fail-if={condition}").returncode == fails
    named = "8,192 bytes are LuaJIT's table of strings"
    assert f"; of the bytes, +{named}" in steve("diff", "a.ljt", "b.ljt").out
    assert f"; of the bytes, -{named}" in steve("diff", "b.ljt", "a.ljt").out
    assert named not in steve("diff", "b.ljt", "b.ljt").out
    done = steve("check", "b.ljt", "--fail-if=net_growth > 0")
    assert "parse" in done.out and "cache" not in done.out and f"of all bytes requested, {named}" in done.err
    assert "table of strings" not in steve("check", "a.ljt", "--fail-if=net_growth > 0").err


@pytest.mark.parametrize(
    "condition, fails",
    [
        ("peak_live > +5%", True),
        ("peak_live > 5%", True),
        ("peak_live > +9.4%", False),  # from 1500 to 1640: 9.33%
        ("peak_live > +140", False),
        ("peak_live >= +140", True),
        ("peak_live = 1640", True),
        ("peak_live == 1.64kB", True),
        ("peak_live != 1640", False),
        ("peak_live > 2Ki", False),
        ("peak_live < +0%", False),
        ("live_at_end > +14%", False),
        ("live_at_end>=+14%", True),
        ("allocated < 1k", False),
        ("blocks > 2", True),
        ("accesses > +100%", True),  # from 0 to 1: infinite
        ("accesses > -1", True),
        ("sites.new > 0", True),
        ("sites.new > 1", False),
        ("sites.new_leaks > 0", True),
        ("sites.new_leaks = 1", True),
        ("site.peak_live > +9%", True),
        ("site.peak_live > +9% and site.peak_live > +100", False),
        ("site.peak_live > +9% and site.peak_live > +99", True),
        ("site.blocks >= 1 and site.live_at_end = 0", True),  # draw, which does not differ
        ("peak_live > +5% and sites.new > 1", False),
        ("peak_live > +5% and sites.new > 0", True),
    ],
)
def test_conditions(compared: Callable, condition: str, fails: bool) -> None:
    done = compared(condition)
    assert done.returncode == int(fails), done.out
    assert f"{'FAILED' if fails else 'passed'}: {condition}: " in done.out
    assert done.err == (f"steve diff: 1 of 1 conditions failed: {condition}\n" if fails else "")


def test_percent_of_nothing() -> None:
    assert Measured(0, 0).percent() == 0 and Measured(0, 1).percent() == float("inf")
    assert Measured(200, 150).percent() == -25


@pytest.mark.parametrize(
    "condition, message",
    [
        ("", "is no test, such as peak_live > +5%"),
        ("peak_live", "'peak_live' is no test"),
        ("peak_live > lots", "is no test"),
        ("peak_live > +5% or blocks > 1", "is no test"),
        ("peak_life > 5", "unknown name 'peak_life'; did you mean 'peak_live'?"),
        ("xyz > 5", "unknown name 'xyz'; there are: " + ", ".join(NAMES)),
        ("peak_live > 5 furlongs", "unknown unit 'furlongs'; there are: % k M G Ki Mi Gi"),
        ("sites.new > +1", "sites.new is compared with a number without sign and unit"),
        ("sites.new_leaks > 1%", "is compared with a number"),
        ("peak_live > 1 and site.peak_live > 1", "'and' joins tests of one site"),
    ],
)
def test_wrong_conditions(condition: str, message: str, compared: Callable) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Condition(condition)
    done = compared(condition)
    assert (done.returncode, done.out) == (2, "") and done.err.startswith(f"steve diff: --fail-if '{condition}': ")


def test_text_names_the_sites(compared: Callable) -> None:
    done = compared("peak_live > +5%", "sites.new_leaks > 0", "allocated > 1Gi")
    table, *parts = re.split(r"^(?=FAILED|passed)", done.out, flags=re.MULTILINE)
    assert [part.splitlines()[0] for part in parts] == [
        "FAILED: peak_live > +5%: 1,500 to 1,640, +140 (+9.33%)",
        "FAILED: sites.new_leaks > 0: 1",
        "passed: allocated > 1Gi: 1,500 to 1,640, +140 (+9.33%)",
    ]
    assert "parse" in parts[0] and "cache" in parts[0] and "draw" not in parts[0]
    assert "cache (cache.c:3)" in parts[1] and "parse" not in parts[1]
    assert done.err == "steve diff: 2 of 3 conditions failed: peak_live > +5%; sites.new_leaks > 0\n"


def test_json(compared: Callable) -> None:
    found = json.loads(compared("peak_live > +5%", "site.live_at_end > +1k", options=("--json",)).out)
    grown, of_sites = found["conditions"]
    assert found["failed"] and grown["failed"] and not of_sites["failed"]
    assert (grown["a"], grown["b"], grown["change"]) == (1500, 1640, 140)
    assert [row["peak_bytes_change"] for row in grown["causes"]] == [100, 40]
    assert (of_sites["a"], of_sites["causes"]) == (None, [])
    assert found["rows"] == json.loads(compared(options=("--json",)).out)


def test_markdown(compared: Callable, tmp_path: Path) -> None:
    done = compared("peak_live > +5%", "blocks > 9", options=("--markdown", "-o", "c.md"))
    lines = (tmp_path / "c.md").read_text().splitlines()
    assert done.returncode == 1 and lines[0].startswith("### a.ljt to b.ljt: blocks +1,")
    assert r"| FAILED | peak\_live \> +5% | 1,500 to 1,640, +140 (+9.33%) |" in lines
    assert "| passed | blocks \\> 9 | 2 to 3, +1 (+50.00%) |" in lines
    tables = [line for line in lines if line.startswith("|")]
    assert {line.count(" | ") for line in tables} == {2, 5}  # all rows of a table have as many cells
    same = compared(options=("--markdown", "--where", "size > 1M"))
    assert same.returncode == 0 and "No site differs." in same.out


def test_markdown_says_how_many_causes_are_left_out(steve: Any, trace: Callable[..., Path]) -> None:
    """With their sums; and a place has no more callers than are needed."""
    for name, most in (("a.ljt", 3), ("b.ljt", 9)):
        stacks = "".join(f"stack main@main.c:1 run@run.c:2 f{i}@f.c:{i + 1}\n" for i in range(9))
        trace(stacks + "".join(f"N {4096 * (i + 1)} {100 + i} {i + 1}\n" for i in range(most)) + "end exit\n", name)
    text = steve("diff", "-q", "a.ljt", "b.ljt", "--markdown", "--fail-if=live_at_end > +10").out
    causes = text.partition("Because of")[2].partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(causes) == 2 + 5 + 1 and "| others (1) |" in causes[-1]
    assert sum(int(line.split(" | ")[3].replace(",", "")) for line in causes[2:]) == sum(range(103, 109))
    assert "| f8 (f.c:9) |" in text and "main" not in text


def test_csv_has_the_rows_only(compared: Callable) -> None:
    with_condition, without = compared("peak_live > 1", options=("--csv",)), compared(options=("--csv",))
    assert (with_condition.returncode, without.returncode) == (1, 0) and with_condition.out == without.out


def test_rows_are_what_by_names(compared: Callable) -> None:
    assert compared("sites.new > 0", options=("--by", "function")).returncode == 1
    assert compared("sites.new > 0", options=("--by", "type")).returncode == 0


def test_markdown_explains_repeated_calls(steve: Any, trace: Callable[..., Path]) -> None:
    for name, calls in (("a.ljt", 2), ("b.ljt", 3)):
        trace(f"stack main{' rec@a.c:3' * calls}\nN 4096 64 1\nend exit\n", name)
    text = steve("diff", "a.ljt", "b.ljt", "--markdown").out
    assert "x3" in text and text.endswith("\nxN: N calls in a row of this function, one from the other\n")
