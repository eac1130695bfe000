"""test_keep_last - the last part of a recording that reaches --max-size is kept, with the blocks that it
begins with.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import numpy as np
import pytest
from steve.trace._memtrace import FREE, LOST, MODIFY, NEW, Trace as Reader

from support import NATIVE, Trace, good, record, recorder, run, steve

KEEPS = NATIVE / "keeps"
SIZE = 16 << 20
KEEP = ("--max-size=16m", "--keep=last")
LARGE, SMALL = 2_400_000, 100_000  # rounds: 28 MB, so that several parts are dropped, and 1 MB


def events(path: Path) -> np.ndarray:
    """Events at run time, without News of earlier blocks and without notes at the end."""
    trace = Reader(str(path))
    found = []
    for batch in trace.batches(copy=True):
        implied = (batch["kind"] == NEW) & (batch["how"] & 16 != 0)
        found.append(batch[(batch["kind"] <= MODIFY) & ~implied][["kind", "addr", "size", "time"]])
    return np.concatenate(found)


def facts(path: Path) -> dict[str, str]:
    return json.loads(steve("info", "--json", path).text)["recording"]


def lost_first(path: Path) -> int:
    """The number of events that are missing before the file, according to the file."""
    trace = Reader(str(path))
    return sum(int(batch["size"][batch["kind"] == LOST].sum()) for batch in trace.batches())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole recording."""
    return record(tmp_path_factory.mktemp("whole") / "whole.ljt", [KEEPS, LARGE, 10]).path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The recording of the same program of which the last part is kept."""
    return record(tmp_path_factory.mktemp("kept") / "t.ljt", [KEEPS, LARGE, 10], *KEEP)


def test_the_last_part(whole: Path, kept: Trace) -> None:
    """Two files, which begin with the blocks they need, together contain the end of the recording, event by
    event."""
    path, earlier = kept.path, kept.path.with_name("t.earlier.ljt")
    assert SIZE / 8 < path.stat().st_size + earlier.stat().st_size <= SIZE < whole.stat().st_size
    for part in (path, earlier):
        steve("check", part)
    all_of_it, last, before = events(whole), events(path), events(earlier)
    end = all_of_it[len(all_of_it) - len(last) - len(before) :]
    both = np.concatenate((before, last))
    for name in ("kind", "addr", "size"):
        assert np.array_equal(end[name], both[name]), name
    heap = (end["kind"] == NEW) | (end["kind"] == FREE)
    assert np.array_equal(end["time"][heap], both["time"][heap])
    missing = len(all_of_it) - len(end)
    assert lost_first(path) == missing and f"{missing} before those were dropped" in kept.run.complaint
    assert facts(path)["continues"] == "t.earlier.ljt" and facts(earlier)["continued_in"] == "t.ljt"
    assert (kept.ending(), json.loads(steve("summary", "--json", path).text)["program"]["status"]) == ("exit", 0)


def test_what_was_made_before(whole: Path, kept: Trace) -> None:
    """It counts as a leak, and --where selects it. findings omits it, because its use is not known."""
    path = kept.path
    leaks = [json.loads(steve("leaks", "--json", file).text) for file in (path, whole)]
    assert [sum(row["bytes"] for row in rows) for rows in leaks][0] == sum(row["bytes"] for row in leaks[1])
    made = json.loads(steve("leaks", "--json", path, "--where", "earlier and size = 12345").text)
    assert [row["blocks"] for row in made] == [1]
    assert not json.loads(steve("leaks", "--json", path, "--where", "inherited").text)
    listed = json.loads(steve("sites", "--json", path, "--where", "earlier").text)
    assert sum(row["blocks"] for row in listed) > 4000


def test_small_recordings_have_one_file(tmp_path: Path) -> None:
    path = record(tmp_path / "t.ljt", [KEEPS, SMALL, 10], *KEEP).path
    plain = record(tmp_path / "plain.ljt", [KEEPS, SMALL, 10]).path
    assert not (tmp_path / "t.earlier.ljt").exists() and "continues" not in facts(path)
    assert np.array_equal(events(path), events(plain))


def test_a_child(tmp_path: Path) -> None:
    """Inherited blocks are still inherited when the file is continued."""
    good([*recorder(tmp_path / "t.%p.ljt", *KEEP), KEEPS, LARGE, 10, "fork"])
    (earlier,) = tmp_path.glob("*.earlier.ljt")
    child = tmp_path / earlier.name.replace(".earlier", "")

    def blocks(where: str) -> int:
        return sum(row["blocks"] for row in json.loads(steve("sites", "--json", child, "--where", where).text))

    assert blocks("inherited") == 11 and blocks("earlier and size = 12345") == 1


def test_too_much_to_begin_with(tmp_path: Path) -> None:
    """Blocks that leave a part no room for events: the recording ends at the limit, and says so."""
    trace = record(tmp_path / "t.ljt", [KEEPS, SMALL, 1_500_000], *KEEP)
    assert trace.ending() == "limit" and "--max-size was reached" in trace.run.complaint
    assert sum(path.stat().st_size for path in tmp_path.glob("t*.ljt")) <= SIZE
    steve("check", trace.path)


def test_where_it_cannot_be(tmp_path: Path) -> None:
    for options, complaint in (
        (["--keep=last"], "needs --max-size"),
        ([*KEEP, "--text=yes"], "--text=yes"),
        (["--keep=last", "--max-size=1m"], "16m or more"),
        (["--keep=middle"], "first or last"),
    ):
        done = run([*recorder(tmp_path / "t.ljt", *options), "true"])
        assert done.status != 0 and complaint in done.complaint
    done = run(["valgrind", "--tool=ljtrace", *KEEP, "--out=|cat > /dev/null", "true"])
    assert done.status != 0 and "needs a file" in done.complaint
