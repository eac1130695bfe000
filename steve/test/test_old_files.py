"""Files of released versions are read, and say what the programs of their time said.

data/0.1.0 has, of small programs in Lua and C: `lua.ljt` and `accesses.ljt`, recorded under Valgrind with accesses;
`native.ljt`, recorded natively; `sample.ljt`, a sample of the blocks; `ops` and `lockopsfull`, made of accesses.ljt.
Beside them is what `steve` 0.1.0 printed of them: a hash of the dump, and the summaries and sites.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
TRACES = sorted(DATA.glob("*/*.ljt"))


def test_there_are_files() -> None:
    assert len(TRACES) >= 4


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_traces(trace: Path, steve: Any) -> None:
    dump = steve("dump", str(trace))
    assert dump.returncode == 0
    assert hashlib.sha256(dump.out.encode()).hexdigest() == trace.with_suffix(".dump.sha256").read_text().strip()
    assert json.loads(steve("sites", "--json", str(trace)).out) == json.loads(
        trace.with_suffix(".sites.json").read_text()
    )


def unlike(now: Any, then: Any) -> list[Any]:
    """What of `then` is not so now. Newer programs have null, or nothing, where 0.1.0 had 0 of what was not recorded."""
    if isinstance(then, dict):
        return [found for name, value in then.items() for found in unlike(now.get(name), value)]
    return [] if now == then or (now is None and then == 0) else [(now, then)]


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_summaries(trace: Path, steve: Any) -> None:
    now = json.loads(steve("summary", "--json", str(trace)).out)
    then = json.loads(trace.with_suffix(".summary.json").read_text())
    assert unlike(now, then) == []
    assert unlike({**now, "events": {}}, then) != []


def test_traces_are_copied_to_the_present_format(steve: Any, tmp_path: Path) -> None:
    trace = DATA / "0.1.0/lua.ljt"
    copy = tmp_path / "copy.ljt"
    assert steve("symbolize", str(trace), "-o", str(copy)).returncode == 0
    assert trace.read_bytes()[8] == 1 and copy.read_bytes()[8] == 2
    before, after = (json.loads(steve("summary", "--json", str(path)).out) for path in (trace, copy))
    assert before["events"] == after["events"] and before["bytes"] == after["bytes"]


def test_ops(steve: Any) -> None:
    text = steve("ops", str(DATA / "0.1.0/ops"), "--text", "-q", "-o", "-")
    assert text.returncode == 0
    assert hashlib.sha256(text.out.encode()).hexdigest() == (DATA / "0.1.0/ops.text.sha256").read_text().strip()
    assert steve("lockops", "--full", str(DATA / "0.1.0/ops"), "--binary", "-q", "-o", "-").returncode == 0


def test_lock_operations(steve: Any) -> None:
    text = steve("ops", str(DATA / "0.1.0/lockopsfull"), "--text", "-q", "-o", "-")
    assert text.returncode == 0 and text.out.splitlines()
