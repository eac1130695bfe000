"""`steve check` in parts says what it says in one: random traces divided wherever they can be, the command by
processes, damage, and breaches that one part alone does not see.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import copy
import json
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any, Callable, List

import pytest
from hypothesis import given, settings

from conftest import Steve, make_trace
from reference_lives import Run, script
from steve import _kernels, checkparts, parts
from steve._memtrace import Trace
from steve.commands import check
from test_analyses import runs
from test_liveparts import CHUNKS, rich  # noqa: F401 (a fixture)
from test_parts import Here, large, silent  # noqa: F401 (a fixture)


@settings(max_examples=60, deadline=None)
@given(runs(), CHUNKS)
def test_random_traces(run: Run, chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        one = Trace(str(path))
        expected = check.report_of(one, _kernels.check_trace(one))
        found = checkparts.check_of(str(path), Here(), silent)
        assert (found is not None) == expected["sound"]
        assert found is None or check.report_of(*found) == expected


def same(steve: Steve, path: Path, *more: str) -> Any:
    for way in (["--json"], []):
        one, many = (steve("check", *way, *more, "-j", jobs, path) for jobs in ("1", "2"))
        assert (many.returncode, many.out, many.err) == (one.returncode, one.out, one.err)
    return one


def test_by_processes(steve: Steve, rich: Path, large: Path) -> None:  # noqa: F811
    for path in (rich, large):
        found = checkparts.check_of(str(path), Here(), silent)
        assert same(steve, path).returncode == 0 and found is not None and check.report_of(*found)["sound"]
    assert json.loads(steve("check", "--json", "-j", "2", rich).out)["crossing"]["count"] > 100


def test_damaged_and_cut_off(steve: Steve, rich: Path, tmp_path: Path) -> None:  # noqa: F811
    data = bytearray(rich.read_bytes())
    (tmp_path / "cut.ljt").write_bytes(data[:len(data) * 2 // 3])
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for name, more in (("cut.ljt", []), ("bad.ljt", []), ("bad.ljt", ["--salvage"])):
        assert same(steve, tmp_path / name, *more).returncode == 1


def test_totals_that_are_wrong(rich: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A breach that no part sees: then one reader tells."""
    args = Namespace(file=str(rich), salvage=False, quiet=True, jobs=2, scheduler=None)
    assert check.in_parts(args) is not None
    monkeypatch.setattr(check, "totals_finding", lambda trace, found: {"count": 1})
    assert check.in_parts(args) is None and not check.in_one(args)[1]["sound"]


BREACHES: List[Callable[[List[dict]], Any]] = [
    lambda found: found[1].update(begin=(found[1]["begin"][0], b"others")),
    lambda found: found[1].update(begin=(found[1]["begin"][0] + 1, found[1]["begin"][1])),
    lambda found: found[-1].update(first_time=found[0]["last_time"] - 1),
    lambda found: found[2]["rules"].update(block={"count": 1}),
    lambda found: found[2].update(events=found[2]["events"] + 1),
]


@pytest.mark.parametrize("breach", BREACHES)
def test_what_is_broken_is_no_ones_word(rich: Path, breach: Callable[[List[dict]], Any]) -> None:  # noqa: F811
    rounds = parts.Rounds(str(rich), Here(), silent)
    found = rounds.first(checkparts.check_task)
    assert len(found) > 9 and found[0]["last_time"] > 0 and checkparts.is_sound(found, rounds.stats)
    broken = copy.deepcopy(found)
    breach(broken)
    assert not checkparts.is_sound(broken, rounds.stats)
