"""steve globals with many blocks: their order, and that no more lives are kept than necessary.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steve.terminal import listing
from steve.commands import globals as command
from test_accesses import of
from test_analyses import RUNS, runs

KEYS = [column.key for column in command.COLUMNS if column.key != "share"]


@RUNS
@given(runs(), st.sampled_from(KEYS))
def test_order(run: list, key: str) -> None:
    rows = of(run, "globals", "--share", "0", "--accesses", "0", "--sort", key)
    by_end = of(run, "globals", "--share", "0", "--accesses", "0", "--sort", "site")
    expected = listing.ranked(random.Random(7).sample(by_end, len(by_end)), command.COLUMNS, key)
    assert [(row[key], row["site"]) for row in rows] == [(row[key], row["site"]) for row in expected]
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, expected))


@RUNS
@given(runs())
def test_order_by_share(run: list) -> None:
    rows = of(run, "globals", "--share", "0", "--accesses", "0", "--sort", "share")
    shares = [row["share"] or 0 for row in rows]
    assert shares == sorted(shares, reverse=True)


def batches(phases: int, live: int) -> Iterator[np.ndarray]:
    """Batches of lives: a fixed number of blocks live at a time, each for a third of all operations up to its
    end; then another one replaces it."""
    from steve.kernels._lives import LIFE

    born = np.arange(live, 2 * live, dtype="u8")
    for phase in range(phases):
        lives = np.zeros(live, LIFE)
        lives["born"], lives["died"] = born, born * 3 // 2
        lives["handle"], lives["loads"] = phase * live + np.arange(live), 1
        born = lives["died"]
        yield from lives.reshape(-1, 10)


@pytest.mark.parametrize("share, left", ((0.01, 9), (0.3, 1), (0.5, 0)))
def test_only_what_may_be_long_enough_is_kept(monkeypatch: pytest.MonkeyPatch, share: float, left: int) -> None:
    """At any time, only lives that may still be long enough are kept."""
    monkeypatch.setattr(command, "LEAST_ROOM", 100)
    phases, live = 40, 200
    candidates, most = command.Candidates(share, 1), 0
    for batch in batches(phases, live):
        candidates.add(batch, None)
        most = max(most, sum(map(len, candidates.partial(0))))
    lives = np.concatenate(list(batches(phases, live)))
    operations = int(lives["died"].max())
    lives = lives[lives["died"] - lives["born"] >= operations * share]
    assert sorted(candidates.lives(operations)["handle"]) == sorted(lives["handle"])
    assert most < 2 * (left + 1) * live + 200
