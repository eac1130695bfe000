"""steve export --format perfetto: the file follows the rules of the trace event format, and an independent reader finds in it
the numbers of the trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steve.export import perfetto

SCRIPT = """\
info command luajit app.lua
info pid 77
stack main@main.c:5
heap 0x1234 lua
thread 1
time 1000
N 4096 1000 1
time 2000
N 8192 300 1 1
state 1 0
time 3000
mark "half" way
state 1 2
thread 2
N 12288 50 1 1
R 12288 16384 70 1 1
time 4000
F 4096 1
thread 1
state 1 7 3
time 9000
F 8192 1 1
time 10000
end exit
"""


def checked(text: str) -> dict[str, list[dict]]:
    """The events of a file by phase, after what the format demands of each was checked."""
    data = json.loads(text)
    assert data["displayTimeUnit"] in ("ns", "ms") and isinstance(data["otherData"], dict)
    found: dict[str, list[dict]] = defaultdict(list)
    for event in data["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["name"], str) and event["name"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
        else:
            assert event["ts"] >= 0
        if event["ph"] == "C":
            assert event["args"] and all(isinstance(value, (int, float)) for value in event["args"].values())
        elif event["ph"] == "X":
            assert event["dur"] >= 0 and isinstance(event["tid"], int)
        elif event["ph"] == "i":
            assert event["s"] in "gpt"
        else:
            assert event["ph"] == "M", event
        found[event["ph"]].append(event)
    for slices in by_thread(found["X"]).values():  # slices of a thread do not overlap
        slices.sort(key=lambda each: each["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in zip(slices, slices[1:]))
    return found


def by_thread(events: list[dict]) -> dict[int, list[dict]]:
    found = defaultdict(list)
    for event in events:
        found[event["tid"]].append(event)
    return found


@pytest.fixture
def exported(steve: Any, trace: Callable) -> Callable:
    def make(script: str, *options: str) -> dict[str, list[dict]]:
        path = trace(script, "t.ljt")
        done = steve("export", "--format", "perfetto", path, *options, "-o", "-")
        assert done.returncode == 0, done.err
        return checked(done.out)

    return make


def counter(found: dict, name: str) -> list[dict]:
    return [event for event in found["C"] if event["name"] == name]


def test_names_slices_and_marks(exported: Callable) -> None:
    found = exported(SCRIPT)
    assert [(e["pid"], e["tid"], e["args"]["name"]) for e in found["M"]] == [
        (77, 0, "luajit app.lua"),
        (77, 1, "thread 1"),
        (77, 2, "thread 2"),
    ]
    assert [(e["tid"], e["name"], e["ts"], e["dur"], e["args"]) for e in found["X"]] == [
        (1, "INTERP", 2, 1, {"heap": 1}),
        (1, "GC", 3, 1, {"heap": 1}),
        (1, "TRACE", 4, 6, {"heap": 1, "trace": 3}),
    ]
    assert [(e["name"], e["ts"]) for e in found["i"]] == [('"half" way', 3)]


def test_counters(exported: Callable) -> None:
    found = exported(SCRIPT)
    live = counter(found, "live bytes")
    assert live[0]["args"] == {"malloc": 0, "lua 1": 0} and live[-1]["args"] == {"malloc": 0, "lua 1": 70}
    assert max(event["args"]["malloc"] for event in live) == 1000
    assert max(event["args"]["bytes"] for event in counter(found, "most live bytes")) == 1370
    width = live[1]["ts"] - live[0]["ts"]
    rates = counter(found, "bytes allocated per ms")
    assert sum(event["args"]["bytes"] for event in rates) * width / 1000 == pytest.approx(1000 + 300 + 50 + 70)
    assert exported(SCRIPT, "--where", "size = 300")["C"][-1]


def test_bins_are_joined_and_lose_nothing() -> None:
    """Against simple sums, for bins that become longer again and again."""
    random = np.random.default_rng(1)
    n = 20_000
    small = [("heap", "u4"), ("kind", "u1"), ("how", "u1")]
    events = np.zeros(n, [(name, "u8") for name in ("time", "size", "old_size")] + small)
    events["time"] = np.cumsum(random.integers(0, 5000, n))
    events["size"], events["heap"] = random.integers(1, 100, n), random.integers(0, 5, n)
    events["kind"][1::2] = perfetto.FREE
    events["size"][1::2], events["heap"][1::2] = events["size"][::2], events["heap"][::2]
    timeline = perfetto.Timeline()
    for first in range(0, n, 777):
        timeline.add(events[first : first + 777])
    assert perfetto.BINS // 2 <= timeline.used <= 2 * perfetto.BINS
    assert timeline.used == int(events["time"][-1]) // timeline.width + 1
    assert not timeline.changes.sum() and timeline.most.max() == events["size"].max()
    assert timeline.allocated.sum() == events["size"][::2].sum()
    assert (timeline.news.sum(), timeline.frees.sum()) == (n // 2, n // 2)
    live = np.cumsum(timeline.changes.sum(axis=1))
    last = np.searchsorted(events["time"], np.arange(1, timeline.used + 1) * timeline.width)
    sizes = np.cumsum(np.where(events["kind"] == perfetto.FREE, -1, 1) * events["size"].astype("i8"))
    assert live[: timeline.used].tolist() == [int(sizes[i - 1]) if i else 0 for i in last]


def test_short_slices_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "SLICES", 100)
    slices = perfetto.Slices()
    events = np.zeros(5000, [("time", "u8"), ("thread", "u2"), ("how", "u1"), ("ref", "u4"), ("heap", "u4")])
    events["time"] = np.cumsum(np.arange(5000) % 50 + 1)
    for first in range(0, 5000, 61):
        slices.add(events[first : first + 61])
    slices.finish(int(events["time"][-1]))
    rows = np.concatenate(slices.parts)
    lengths = rows[:, 2] - rows[:, 1]
    assert 0 < len(rows) <= 200 and lengths.min() >= slices.shortest > 1 and lengths.max() == 50
