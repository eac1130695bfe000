"""Files with sums by stack, which are written while the stacks are traversed, against files made from all
stacks at once.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import gzip
import io
import json
import random
from pathlib import Path
from collections.abc import Callable
from typing import Any

import pytest

from conftest import make_trace
from steve.kernels._holdings import Holdings
from steve.trace._memtrace import Trace
from steve.analysis.blocks import Blocks
from steve.export import dhat, speedscope
from steve.export.folded import Folds
from steve.export.pprof import Encoder, pprof
from steve.export.profile import BY_NAME, METRICS, Profile
from steve.export.csv import table
from steve.flame.tree import Box, Stacks, boxes, sorted_stacks
from steve.trace.frames import label
from steve.trace.policy import ShownStacks
from test_live_shards import arguments

FRAMES = ("main", "a", "b", "b@x.c:3", "b@x.c:4", "work@@app.lua:12/10", "malloc", "[lib.so]")
Plain = list[tuple[list[int], tuple[int, ...]]]  # frames, innermost first, and values


def script(seed: int) -> str:
    """Blocks of 300 stacks, some of which are the callers of others, some have the same names from other
    places, and some blocks without a stack."""
    choose = random.Random(seed)
    stacks = [" ".join(choose.choice(FRAMES) for _ in range(choose.randint(1, 7))) for _ in range(300)]
    lines = [f"stack {frames}" for frames in stacks]
    for i in range(900):
        lines.append(f"N {0x10000 + 64 * i} {choose.randint(1, 40)} {choose.randint(0, 300)}")
        lines += [f"{choose.choice('LS')} {0x10000 + 64 * i} 1"] * choose.randint(0, 2)
        lines += [f"F {0x10000 + 64 * i}"] * choose.randint(0, 1)
    return "\n".join([*lines, "end exit", ""])


@pytest.fixture(params=range(3))
def profile(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """The profile of a random trace, traversed a few stacks at a time."""
    for module in ("steve.analysis.blocks", "steve.export.folded", "steve.export.speedscope"):
        monkeypatch.setattr(f"{module}.FEW_ROWS", 7)
    path = make_trace(tmp_path / "t.ljt", script(request.param))
    return Profile.of(Blocks("export", arguments(path)))


def plain(profile: Profile) -> Plain:
    values = zip(*(column.tolist() for column in profile.columns))
    return [(profile.frames(stack), row) for stack, row in zip(profile.stacks.tolist(), values)]


def names(profile: Profile, frames: list[int]) -> tuple[str, ...]:
    return tuple(label(profile.frame(n)) if n else "(no stack)" for n in reversed(frames))


def test_folded(profile: Profile) -> None:
    for metric in METRICS:
        known: dict[tuple[str, ...], int] = {}
        for frames, values in plain(profile):
            key = names(profile, frames)
            known[key] = known.get(key, 0) + values[METRICS.index(metric)]
        folds = Folds(profile, metric)
        assert list(folds) == sorted((key, value) for key, value in known.items() if value)
        assert folds.total == sum(known.values())


def test_csv(profile: Profile) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*BY_NAME, "stack"])
    for frames, values in sorted(plain(profile), key=lambda row: (-row[1][1], row[0])):
        writer.writerow([*values, ";".join(names(profile, frames))])
    assert "".join(table(profile)) == buffer.getvalue()


def test_speedscope(profile: Profile) -> None:
    rows = plain(profile)
    used = list(dict.fromkeys(n for frames, _ in rows for n in frames))
    profiles = []
    for i, metric in enumerate(METRICS):
        kept = [(frames, values[i]) for frames, values in rows if values[i]]
        profiles.append(
            {
                "type": "sampled",
                "name": metric.name,
                "unit": "bytes" if metric.unit == "bytes" else "none",
                "startValue": 0,
                "endValue": sum(value for _, value in kept),
                "weights": [value for _, value in kept],
                "samples": [[used.index(n) for n in reversed(frames)] for frames, _ in kept],
            }
        )
    whole = {
        "$schema": speedscope.SCHEMA,
        "name": profile.command,
        "exporter": "steve 1",
        "activeProfileIndex": 0,
        "shared": {"frames": [speedscope.frame_entry(profile, n) for n in used]},
        "profiles": [one for one in profiles if one["samples"]],
    }
    assert "".join(speedscope.speedscope(profile, "1")) == json.dumps(whole) + "\n"


def test_pprof(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes do not depend on how much is compressed at a time."""
    packed = b"".join(pprof(profile))
    monkeypatch.setattr("steve.export.pprof.ENOUGH", 100)
    assert b"".join(pprof(profile)) == packed
    assert gzip.decompress(packed) == b"".join(Encoder(profile).encode())


def plain_boxes(
    stacks: dict[tuple[str, ...], int], least: float, prefix: tuple[str, ...] = (), start: int = 0
) -> list[Box]:
    """The expected boxes of the stacks that begin with `prefix`: the boxes below it side by side, then its own
    weight."""
    mine = {stack: weight for stack, weight in stacks.items() if stack[: len(prefix)] == prefix}
    width, depth = sum(mine.values()), len(prefix)
    found = [Box(prefix[-1] if prefix else "all", depth, start, width, mine.get(prefix, 0))]
    for name in sorted({stack[depth] for stack in mine if len(stack) > depth}):
        below = plain_boxes(mine, 0, (*prefix, name), start)
        start += below[0].width
        found += below
    return [box for box in found if box.width >= least]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("least", [0, 1, 30])
def test_boxes_of_a_flame_graph(seed: int, least: float) -> None:
    choose = random.Random(seed)
    stacks = {
        tuple(choose.choice("abc") for _ in range(choose.randint(1, 5))): choose.randint(0, 9) for _ in range(60 * seed)
    }
    assert boxes(sorted_stacks(stacks), least) == plain_boxes(stacks, least)


def test_boxes_of_a_trace(profile: Profile) -> None:
    folds = Folds(profile, BY_NAME["alloc_space"])
    assert boxes(Stacks(folds, folds.total), 20) == plain_boxes(dict(folds), 20)


def test_dhat_in_pieces(trace: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few points at a time give the same file as all at once."""
    path, texts = trace(script(7)), []
    for few in (7, 4096):
        monkeypatch.setattr(dhat, "FEW_ROWS", few)
        reader = Trace(str(path))
        history = Holdings(reader)
        history.walk_all()
        history.finish()
        texts.append("".join(dhat.dhat(history, ShownStacks(reader))))
    assert texts[0] == texts[1] and len(json.loads(texts[0])["pps"]) > 200
