"""Files of released versions are read, and say what the programs of their time said.

data/0.1.0 has, of small programs in Lua and C: `lua.ljt` and `accesses.ljt`, recorded under Valgrind with accesses;
`native.ljt`, recorded natively; `sample.ljt`, a sample of the blocks; `ops` and `lockopsfull`, made of accesses.ljt.
data/0.2.0 has what is new in format 2: `pools.ljt` with pools and looks at pages; `objects.ljt` with types and a snapshot of
Lua; `accesses.ljt`, recorded under Valgrind with accesses, and `ops`, made of it.
Beside them is what `steve` of that release printed of them: a hash of the dump, and the results of several commands.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
TRACES = sorted(DATA.glob("*/*.ljt"))
RELEASES = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())
RESULTS = sorted(  # TRACE.COMMAND.json
    path for path in DATA.glob("*/*.*.json") if path.suffixes[-2] not in (".sites", ".summary")
)


def test_there_are_files() -> None:
    assert len(TRACES) >= 7 and len(RESULTS) >= 3 and RELEASES == ["0.1.0", "0.2.0"]


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_traces(trace: Path, steve: Any) -> None:
    dump = steve("dump", str(trace))
    assert dump.returncode == 0
    assert hashlib.sha256(dump.out.encode()).hexdigest() == trace.with_suffix(".dump.sha256").read_text().strip()
    assert json.loads(steve("sites", "--json", str(trace)).out) == json.loads(
        trace.with_suffix(".sites.json").read_text()
    )


def unlike(now: Any, then: Any) -> list[Any]:
    """What of `then` is not so now. Newer programs have null, or nothing, where 0.1.0 had 0 of what was not recorded, and more
    facts of the same things."""
    if isinstance(then, dict) and isinstance(now, dict):
        return [found for name, value in then.items() for found in unlike(now.get(name), value)]
    if isinstance(then, list) and isinstance(now, list) and len(now) == len(then):
        return [found for one, other in zip(now, then) for found in unlike(one, other)]
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


@pytest.mark.parametrize("result", RESULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_results(result: Path, steve: Any) -> None:
    trace, command, _ = result.name.split(".")
    now = json.loads(steve(command, "--json", str(result.parent / f"{trace}.ljt")).out)
    then = json.loads(result.read_text())
    assert unlike(now, {**then, "file": now["file"]} if "file" in then else then) == []


@pytest.mark.parametrize("release", RELEASES)
def test_ops(steve: Any, release: str) -> None:
    ops = DATA / release / "ops"
    text = steve("ops", str(ops), "--text", "-q", "-o", "-")
    assert text.returncode == 0
    assert hashlib.sha256(text.out.encode()).hexdigest() == ops.with_name("ops.text.sha256").read_text().strip()
    assert steve("lockops", "--full", str(ops), "--binary", "-q", "-o", "-").returncode == 0


def test_lock_operations(steve: Any) -> None:
    text = steve("ops", str(DATA / "0.1.0/lockopsfull"), "--text", "-q", "-o", "-")
    assert text.returncode == 0 and text.out.splitlines()
