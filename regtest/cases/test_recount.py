"""test_recount - translators and analyses of recorded programs, against the plain count of recount.py.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path
from typing import Any, Callable

import pytest

from recount import Block, Recount, locks, shares
from support import record, run, steve

LUA = """\
local words = {}
for i = 1, 300 do words[#words + 1] = ("w"):rep(i % 40) .. i end
local text = table.concat(words, " ")
for word in text:gmatch("%S+") do words[word] = coroutine.wrap(function() return {word} end)() end
collectgarbage()
"""
C = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static long *shared;
static void *work(void *number) {
    char *kept = 0;
    for (long i = 0; i < 300; i++) {
        char *m = memset(malloc(1 + i % 700), 1, 1 + i % 700);
        shared[(long)number] += m[i % 7 % (1 + i % 700)];
        m = i % 3 ? m : realloc(m, 900 + 100 * i);
        if (i % 50) free(m); else { free(kept); kept = m; }
    }
    return kept;
}
int main(void) {
    pthread_t t[3];
    void *left;
    shared = calloc(8, sizeof *shared);
    for (long i = 0; i < 3; i++) pthread_create(t + i, 0, work, (void *)i);
    for (int i = 0; i < 3; i++) { pthread_join(t[i], &left); if (i) free(left); }
    free(malloc(0));
    return 0;
}
"""


def threads(folder: Path) -> list[object]:
    (folder / "t.c").write_text(C)
    assert run(["gcc", "-g", "-O1", "-pthread", "-o", folder / "t", folder / "t.c"]).status == 0
    return [folder / "t"]


def script(folder: Path) -> list[object]:
    (folder / "t.lua").write_text(LUA)
    return ["luajit", folder / "t.lua"]


@pytest.fixture(scope="module", params=[threads, script], ids=["threads", "lua"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recount]:
    folder = tmp_path_factory.mktemp("recount")
    path = record(folder / "t.ljt", request.param(folder)).path
    return path, Recount(steve("dump", path).text.splitlines())


def rows(path: Path, *command: str) -> Any:
    return json.loads(steve(*command, "--json", "-q", path).text)


def test_totals(recorded: tuple[Path, Recount]) -> None:
    path, again = recorded
    found = rows(path, "summary")
    assert found["events"] == {kind: again.totals[kind] for kind in found["events"]}
    assert found["bytes"] == {
        "allocated": again.allocated,
        "freed": again.totals["freed"],
        "peak_live": again.peak,
        "live_at_end": again.held,
        "read": again.sum(lambda b: b.read),
        "written": again.sum(lambda b: b.written),
    }


@pytest.mark.parametrize("command", ("sites", "lines", "types"))
def test_sums(recorded: tuple[Path, Recount], command: str) -> None:
    path, again = recorded
    found = rows(path, command)
    made, asked = ("allocs", "alloc_bytes") if command == "lines" else ("blocks", "bytes")
    for key, of in {
        made: lambda b: 1,
        asked: lambda b: b.bytes,
        "resizes": lambda b: b.resizes,
        "frees": lambda b: b.freed,
        "loads": lambda b: b.count["load"],
        "stores": lambda b: b.count["store"],
        "modifies": lambda b: b.count["modify"],
        "bytes_read": lambda b: b.read,
        "bytes_written": lambda b: b.written,
        "live_bytes_at_end": lambda b: b.size * (not b.freed),
    }.items():
        assert sum(row[key] for row in found) == again.sum(of), key
    assert sum(row["live_bytes_at_peak"] for row in found) == again.peak


def test_threads(recorded: tuple[Path, Recount]) -> None:
    path, again = recorded
    for row in rows(path, "threads"):
        for key, kind in (
            ("allocs", "new"),
            ("frees", "free"),
            ("foreign_frees", "foreign"),
            ("loads", "load"),
            ("stores", "store"),
            ("modifies", "modify"),
        ):
            assert row[key] == again.threads[row["thread"], kind], (row["thread"], key)
        assert row["shared_blocks"] == again.sum(lambda b: b.shared, lambda b: b.thread == row["thread"])


def test_temporaries_resizes_leaks(recorded: tuple[Path, Recount]) -> None:
    path, again = recorded
    assert sum(row["temporaries"] for row in rows(path, "temporaries", "--at-once")) == again.sum(
        lambda b: b.freed, lambda b: not b.news
    )
    assert sum(row["bytes"] for row in rows(path, "temporaries", "--within", "60")) == again.sum(
        lambda b: b.bytes, lambda b: b.freed and b.lifetime <= 60
    )
    found = rows(path, "resizes")
    for key, of in {
        "resizes": lambda b: b.resizes,
        "moves": lambda b: b.moves,
        "copied": lambda b: b.copied,
        "resized": lambda b: b.resizes > 0,
    }.items():
        assert sum(row[key] for row in found) == again.sum(of), key
    assert sum(row["bytes"] for row in rows(path, "leaks")) == again.held
    assert {row["handle"] for row in rows(path, "globals", "--share", "60")} == {
        b.handle for b in again.blocks if b.lifetime >= again.operations * 0.6 and b.accesses
    }


UNITS: dict[str, Callable[[Block], int]] = {
    "operations": lambda b: b.lifetime,
    "instructions": lambda b: b.died_time - b.born_time,
    "bytes": lambda b: b.died_allocated - b.born_allocated,
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("bins", ("log", "linear"))
def test_lifetimes(recorded: tuple[Path, Recount], unit: str, bins: str) -> None:
    path, again = recorded
    found = rows(path, "lifetimes", "--unit", unit, "--bins", bins)
    lives = [UNITS[unit](block) for block in again.blocks]
    assert [row["blocks"] for row in found] == [
        sum(row["from"] <= life <= row["to"] for life in lives) for row in found
    ]
    assert sum(row["blocks"] for row in found) == len(lives)


RULES: dict[str, Callable[[Block], bool]] = {
    "never_touched": lambda b: not b.accesses,
    "never_read": lambda b: b.count["load"] + b.count["modify"] == 0 < b.count["store"],
    "never_written": lambda b: b.count["store"] + b.count["modify"] == 0 < b.count["load"],
    "short_lived": lambda b: b.freed and b.lifetime <= 100,
    "resize_chain": lambda b: b.resizes >= 2,
    "late_first_use": lambda b: b.accesses and b.lifetime >= 1000 and b.first - b.born > b.lifetime * 0.5,
    "idle_tail": lambda b: b.accesses and b.lifetime >= 1000 and b.died - b.last > b.lifetime * 0.9,
}


def test_findings(recorded: tuple[Path, Recount]) -> None:
    path, again = recorded
    found = {row["finding"]: row for row in rows(path, "findings", "--chain", "2")}
    for key, rule in RULES.items():
        assert found[key]["blocks"] == again.sum(lambda b: 1, rule), key
        assert found[key]["bytes"] == again.sum(lambda b: b.size, rule), key
        assert found[key]["accesses"] == again.sum(lambda b: b.accesses, rule), key


def test_heat_and_working_set(recorded: tuple[Path, Recount]) -> None:
    path, again = recorded
    for row in rows(path, "heat"):

        def is_in(b: Block, low: int = row["from"], high: int | None = row["to"]) -> bool:
            traffic = b.read + b.written
            if not traffic or high == 0:
                return not traffic and high == 0
            return low <= traffic / max(b.size, 1) and (high is None or traffic / max(b.size, 1) < high)

        assert row["blocks"] == again.sum(lambda b: 1, is_in)
        assert row["accesses"] == again.sum(lambda b: b.accesses, is_in)
    windows = rows(path, "workingset", "--window", "5000")
    assert sum(row["operations"] for row in windows) == again.operations
    assert sum(row["accesses"] for row in windows) == again.sum(lambda b: b.accesses)
    assert windows[-1]["live_bytes"] == again.held


def test_translators(recorded: tuple[Path, Recount]) -> None:
    path, again = recorded
    text = "".join(f"{handle} {op} {addr} {size}\n" for handle, op, addr, size in again.ops)
    assert steve("ops", "-q", path, "-o", "-").text == text
    (path.parent / "x-ops").write_text(text)
    steve("ops", "-q", "--binary", path, "-o", path.parent / "b-ops")
    wanted = locks(again.ops)
    for file in (path, path.parent / "x-ops", path.parent / "b-ops"):
        assert steve("lockops", "-q", "--full", file, "-o", "-").text == wanted
    steve("histogram", "-q", "--parts", "lifetime", "-o", path.parent / "h", path)
    total, lives = shares(again.ops)
    found = json.loads((path.parent / "h-lifetime").read_text())
    assert found["mod-op-count"] == total
    assert found["lifetime-ops"] == {str(handle): list(pair) for handle, pair in lives.items()}
    simple = {
        line.split()[0]
        for line in steve("lockops", "-q", "--simple", path, "-o", "-").text.splitlines()
        if " L " in line
    }
    assert simple == {str(handle) for handle, (own, other) in lives.items() if own + other < total / 2}
