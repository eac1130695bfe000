"""test_native_forks - forked children of `ljtrace run` whose parents end at once, and those that cannot be recorded.

SPDX-License-Identifier: GPL-2.0-or-later
"""

import json
from pathlib import Path

import pytest

from support import NATIVE, Trace, natively, run, settled, steve, wait_for

BACKGROUND = NATIVE / "background"
NOT_HERE = 77  # its status if it cannot do so here


def in_background(path: Path, mode: str) -> Trace:
    trace = natively(path, [BACKGROUND, mode])
    if trace.run.status == NOT_HERE:
        pytest.skip("a process may not trace another here")
    return trace


def facts_of(path: Path) -> dict[str, str]:
    return json.loads(steve("info", "--json", path).text)["recording"]


def news(trace: Trace) -> set[str]:
    """The sizes of the blocks that were made."""
    return {e[3] for e in trace.events() if e[0] == "new"}


def test_a_child_is_recorded_whose_parent_has_ended(tmp_path: Path) -> None:
    """The collector of the parent has read everything when the child begins, which therefore comes too late for it."""
    first = in_background(tmp_path / "t.ljt", "late")
    assert first.run.status == 3
    assert "a forked child has a file of its own" in first.run.complaint
    wait_for(lambda: len(list(tmp_path.glob("t.*.ljt"))) == 2, "each child has a file")
    ends = set()
    for path in tmp_path.glob("t.*.ljt"):
        settled(path)
        made = news(Trace(path, first.run).check())
        ends.add((*made, json.loads(steve("info", "--json", path).text)["program"]["status"]))
    assert ends == {("1235", 3), ("1236", 6)}
    assert facts_of(first.path)["forked_children"] == "1" and "unrecorded_children" not in facts_of(first.path)


def test_a_child_that_is_killed_before_it_is_recorded(tmp_path: Path) -> None:
    """Nobody says that it has a file."""
    trace = in_background(tmp_path / "t.ljt", "killed")
    said = "1 forked child is not recorded"
    assert trace.run.status == 3 and [p.name for p in tmp_path.iterdir()] == ["t.ljt"]
    summary = run(["steve", "summary", trace.path]).complaint
    assert said in trace.run.complaint and said in summary
    assert "file of its own" not in trace.run.complaint + summary
    assert facts_of(trace.path)["unrecorded_children"] == "1" and "forked_children" not in facts_of(trace.path)


def test_a_fork_that_fails(tmp_path: Path) -> None:
    """There is no child, so nothing is said of one; the program finds the reason in errno."""
    trace = in_background(tmp_path / "t.ljt", "refused")
    assert trace.run.status == 5
    assert "child" not in trace.run.complaint + run(["steve", "summary", trace.path]).complaint
    assert not {"forked_children", "unrecorded_children"} & set(facts_of(trace.path))
