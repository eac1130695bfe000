"""`steve check` reports the same for shards as for the whole: random traces divided wherever possible, the
command with processes, damage, and violations that no single shard can see.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import copy
import json
import tempfile
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from conftest import Steve, examples, make_trace
from reference_lives import Run, script
from steve.analysis import blocks
from steve.kernels import _totals
from steve.parallel import rounds
from steve.trace._memtrace import Trace
from steve.commands import check
from test_analyses import runs
from test_live_shards import CHUNKS, arguments, rich  # noqa: F401 (a fixture)
from test_shards import Here, large, silent  # noqa: F401 (a fixture)


def in_one(path: Path) -> dict:
    return blocks.Blocks("check", arguments(path)).over_events(_totals.Check)


def in_shards(path: Path) -> dict | None:
    return rounds.Rounds(rounds.Reading(str(path)), Here(), silent).run(_totals.Check)


@examples(60)
@given(runs(), CHUNKS)
def test_random_traces(run: Run, chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "t.ljt", script(run), chunk, 1)
        assert in_shards(path) == in_one(path)
        assert in_one(path)["left"] == Trace(str(path)).survivors().tobytes()


def same(steve: Steve, path: Path, *more: str) -> Any:
    for way in (["--json"], []):
        one, many = (steve("check", *way, *more, "-j", jobs, path) for jobs in ("1", "2"))
        assert (many.returncode, many.out, many.err) == (one.returncode, one.out, one.err)
    return one


def test_by_processes(steve: Steve, rich: Path, large: Path) -> None:  # noqa: F811
    for path in (rich, large):
        assert same(steve, path).returncode == 0 and in_shards(path) == in_one(path)
    assert json.loads(steve("check", "--json", "-j", "2", rich).out)["crossing"]["count"] > 100


def test_damaged_and_cut_off(steve: Steve, rich: Path, tmp_path: Path) -> None:  # noqa: F811
    data = bytearray(rich.read_bytes())
    (tmp_path / "cut.ljt").write_bytes(data[: len(data) * 2 // 3])
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ljt").write_bytes(data)
    for name, more in (("cut.ljt", []), ("bad.ljt", []), ("bad.ljt", ["--salvage"])):
        assert same(steve, tmp_path / name, *more).returncode == 1


def test_totals_that_are_wrong(rich: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A violation that no part can see: then one reader finds it."""

    def checked() -> tuple:
        args = arguments(rich)
        args.jobs, args.divided = 2, True
        chosen = blocks.Blocks("check", args)
        return check.checked(chosen)["sound"], isinstance(chosen.trace, rounds.Whole)

    assert checked() == (True, True)
    monkeypatch.setattr(check, "totals_finding", lambda chosen, found: {"count": 1})
    assert checked() == (False, False)


BREACHES: list[Callable[[list[dict]], Any]] = [
    lambda found: found[1].update(begin=(found[1]["begin"][0], b"others")),
    lambda found: found[1].update(begin=(found[1]["begin"][0] + 1, found[1]["begin"][1])),
    lambda found: found[-1].update(first_time=found[0]["last_time"] - 1),
    lambda found: found[2]["rules"].update(block={"count": 1}),
    lambda found: found[2].update(walked=found[2]["walked"] + 1),
]


@pytest.mark.parametrize("breach", BREACHES)
def test_what_is_broken_is_no_ones_word(rich: Path, breach: Callable[[list[dict]], Any]) -> None:  # noqa: F811
    found: list[dict] = []

    class Kept(_totals.Check):
        """Keeps what shards report."""

        def merge(self, shard: dict) -> None:
            found.append(shard)
            super().merge(shard)

    assert rounds.Rounds(rounds.Reading(str(rich)), Here(), silent).run(Kept) is not None
    assert len(found) > 9 and found[0]["last_time"] > 0 and _totals.is_sound(found)
    broken = copy.deepcopy(found)
    breach(broken)
    assert not _totals.is_sound(broken)
