"""The Python binding of the trace library: arrays of events and operations, definitions, errors.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path
from collections.abc import Callable

import numpy as np
import pytest

from steve.trace import _memtrace as mt
from steve.system.errors import TraceError

SCRIPT = """\
info command app
stack main make malloc
heap 0x99 lua
thread 3
time 70
N 4096 64 1 1
S 4100 8
R 4096 8192 128 1 1
F 8192
F 8192 1 1
mark half-way
lost 5 because
end stopped
"""


def test_every_field_of_every_kind(trace: Callable[..., Path]) -> None:
    reader = mt.Trace(str(trace(SCRIPT)))
    events = np.concatenate(list(reader.batches(copy=True)))
    assert [mt.KIND_NAMES[kind] for kind in events["kind"]] == [
        "new",
        "store",
        "resize",
        "badfree",
        "free",
        "mark",
        "lost",
    ]
    new, store, resize, badfree, free, mark, lost = events
    assert (new["addr"], new["size"], new["handle"], new["time"], new["thread"]) == (4096, 64, 0, 70, 3)
    assert mt.HOW_NAMES[new["how"] & 15] == "malloc" and reader.heap(new["heap"]) == (0x99, "lua")
    assert (store["addr"], store["size"], store["offset"], store["handle"]) == (4100, 8, 4, 0)
    assert reader.site(store["ref"])[2:] == (8, "store")
    assert (resize["addr"], resize["size"], resize["old_addr"], resize["old_size"]) == (8192, 128, 4096, 64)
    assert (badfree["addr"], free["addr"], free["size"]) == (8192, 8192, 128)
    assert free["slot"] == new["slot"] == resize["slot"]
    assert reader.string(mark["ref"]) == "half-way"
    assert (lost["size"], reader.string(lost["ref"])) == (5, "because")


def test_definitions(trace: Callable[..., Path]) -> None:
    reader = mt.Trace(str(trace(SCRIPT)))
    reader.skim()
    assert reader.info() == {"command": "app"}
    assert [frame.function for frame in reader.stack_frames(3)] == ["malloc", "make", "main"]
    assert reader.stack(1)[0] == 0 and reader.stack_frames(0) == []
    assert reader.counts() == {
        "strings": reader.counts()["strings"],
        "frames": 4,
        "stacks": 4,
        "sites": 2,
        "heaps": 2,
        "protos": 0,
        "traces": 0,
        "modules": 0,
        "pages": 0,
    }
    for missing in (reader.frame, reader.stack, reader.site, reader.heap, reader.proto, reader.jit_trace):
        assert missing(4000000000) is None
    assert reader.string(4000000000) == ""


def test_stats(trace: Callable[..., Path]) -> None:
    path = trace(SCRIPT)
    reader = mt.Trace(str(path))
    reader.skim()
    stats = reader.stats()
    assert (stats["ending"], stats["events"], stats["handles"], stats["live_slots"]) == ("stopped", 7, 1, 0)
    assert stats["totals"]["events"]["resize"] == 1 and stats["totals"]["events"]["lost"] == 1
    assert stats["bytes_total"] == path.stat().st_size and reader.progress()[1] == path.stat().st_size
    assert reader.problem is None and reader.damages() == []


def test_views_are_read_only(trace: Callable[..., Path]) -> None:
    for batch in mt.Trace(str(trace(SCRIPT))).batches():
        with pytest.raises(ValueError):
            batch["addr"][0] = 1


def test_operations(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("# a comment\n0 N 64 8\n0 M 64 4\n0 F 64 0\n")
    file = mt.OpsFile(str(tmp_path / "x"))
    ops = np.concatenate(list(file.batches(copy=True)))
    assert ops["code"].tolist() == [0, 4, 1] and ops["size"].tolist() == [8, 4, 0]
    assert ops["addr"].tolist() == [64, 64, 64] and file.kind == "ops"
    (tmp_path / "y").write_text("0 N 0 8\n0 L 0 0\n0 F 0 0\n")
    file = mt.OpsFile(str(tmp_path / "y"))
    assert [code for batch in file.batches() for code in batch["code"].tolist()] == [0, 5, 1]
    assert file.kind == "lockops"
    file = mt.OpsFile(str(tmp_path / "y"), kind="ops")
    assert [code for batch in file.batches() for code in batch["code"].tolist()] == [0, 2, 1]


def test_errors_tell_file_and_place(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as missing:
        mt.Trace(str(tmp_path / "nowhere"))
    assert (missing.value.code, missing.value.path) == ("io", str(tmp_path / "nowhere"))
    (tmp_path / "x-ops").write_text("0 N 64 8\n0 N\n")
    file = mt.OpsFile(str(tmp_path / "x-ops"))
    assert sum(len(batch) for batch in file.batches()) == 1
    assert (file.problem.code, file.problem.offset, file.problem.is_text) == ("corrupt", 2, True)


def test_the_package_for_programs_has_every_kind() -> None:
    import memtrace

    names = [name.upper() for name in mt.KIND_NAMES]
    for place in (memtrace, mt):
        assert [getattr(place, name) for name in names] == list(range(len(names)))
    assert set(names) <= set(memtrace.__all__)
    assert {mt.KIND_NAMES[kind] for kind in mt.STACK_KINDS} >= {"new", "free", "resize", "badfree", "sample", "call"}
