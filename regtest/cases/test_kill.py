"""test_kill - what was recorded before SIGKILL is in the file.

native/teller.c counts its own events in a file that outlives it, each right after it happened. It is killed
from outside at random moments, even before its first instruction. Then the trace must be readable to its end,
and hold a prefix of what teller does, at most BOUND events shorter than what teller counted.

BOUND: the recorder moves the ring's cursor at the end of each segment, a run of code without exits that has
at most 256 accesses (LT_SEGMENT_ACCESSES). Every second access of teller is to its counters, so at most 128
of its own can have happened while the cursor has not yet passed them. Heap events are in the ring before the
program goes on.

`make faults` sets the number of kills by LJTRACE_FAULTS; without it there are 3.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from support import NATIVE, SECONDS, Done, Trace, collectors_of, numbers, recorder, run, settled, started, wait_for

KILLS = int(os.environ.get("LJTRACE_FAULTS") or 3)
BOUND = 128
BLOCK, BYTES = "70021", 64
CYCLE = 2 + 3 * BYTES  # events in a block's life
LATEST = 1.0  # seconds after the start; the first half second or so is Valgrind's own. Any moment will do
AT_WORK = 0.4  # seconds after the start of the work
NAMES = ("new", "store", "load", "modify", "free")


def counted(counts: Path) -> tuple[int, ...]:
    """The counts of teller; zeros if it was killed before it could count."""
    data = counts.read_bytes() if counts.exists() else b""
    return struct.unpack("=5Q", data) if len(data) == 40 else (0,) * 5


def after(events: int) -> tuple[int, ...]:
    """News, stores, loads, modifies and Frees among the first events of teller."""
    whole, rest = divmod(events, CYCLE)
    touches = min(max(rest - 1, 0), 3 * BYTES)
    return (whole + (rest > 0), *(whole * BYTES + (touches + later) // 3 for later in (2, 1, 0)), whole)


def recorded(trace: Trace) -> tuple[int, ...]:
    seen = numbers(trace.view("tally", BLOCK))
    return tuple(seen[name] for name in NAMES)


def test_prefixes() -> None:
    """The arithmetic above, compared with counting."""
    order = ["new", *["store", "load", "modify"] * BYTES, "free"] * 2
    for n in range(len(order) + 1):
        assert after(n) == tuple(order[:n].count(name) for name in NAMES)


def killed_after(seconds: float, events: int, folder: Path) -> tuple[Path, tuple[int, ...]]:
    path, counts = folder / "t.ljt", folder / "counts"
    with started([*recorder(path), NATIVE / "teller", counts]) as process:
        wait_for(lambda: sum(counted(counts)) >= events, "teller is at work")
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=SECONDS) == -signal.SIGKILL
    return path, counted(counts)


@pytest.mark.parametrize("turn", range(KILLS))
def test_killed_at_a_random_moment(turn: int, tmp_path: Path) -> None:
    """The first kill is certainly during the work; the others are at any time."""
    moment = random.Random(turn).uniform(0, AT_WORK if turn == 0 else LATEST)
    path, truth = killed_after(moment, 1000 if turn == 0 else 0, tmp_path)
    done = sum(truth)
    if not path.exists():  # killed before the recorder had begun
        assert done == 0
        return
    settled(path)
    trace = Trace(path, Done(-signal.SIGKILL, b"", b"")).check()
    assert trace.ending() == "killed"
    seen = recorded(trace)
    assert seen == after(sum(seen)), "what is in the file is not a prefix of what was done"
    assert done - BOUND <= sum(seen) <= done + 1, f"after {moment:.3f} s"
    assert seen[0] >= truth[0] and seen[4] >= truth[4], "a heap event is missing"
    assert turn > 0 or done >= 1000


# -- the collector is killed as well --------------------------------------------------------------


def collector_of(path: Path) -> int:
    """The process that writes a file. It is outside of the program's session. 0: there is none."""
    return next(iter(collectors_of(path)), 0)


def read_so_far(path: Path) -> tuple[int, ...]:
    """The number of teller's events in a file; zeros while nothing can be read."""
    done = run(["steve", "summary", "--json", "-q", "--where", f"size = {BLOCK}", path])
    found = json.loads(done.text)["events"] if done.out else {}
    return tuple(found.get(name, 0) for name in NAMES)


def kill_both(process: "subprocess.Popen[bytes]", path: Path) -> None:
    """As the kernel kills when a control group runs out of memory."""
    pids = (process.pid, collector_of(path))
    assert all(pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert process.wait(timeout=SECONDS) == -signal.SIGKILL
    wait_for(lambda: not collector_of(path), "the collector is gone")


def test_both_killed_lose_nothing_that_is_older_than_the_last_writing(tmp_path: Path) -> None:
    """The program is stopped, so that its events get older. The ring holds much less than a slab of them."""
    path, counts = tmp_path / "t.ljt", tmp_path / "counts"
    with started([*recorder(path), NATIVE / "teller", counts]) as process:
        wait_for(lambda: sum(counted(counts)) >= 1000, "teller is at work")
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: "T" in Path(f"/proc/{process.pid}/stat").read_text().split()[2], "it is held")
        done = sum(counted(counts))
        wait_for(lambda: sum(read_so_far(path)) >= done - BOUND, "the file holds what was done before")
        kill_both(process, path)
    found = read_so_far(path)
    assert found == after(sum(found)) and done - BOUND <= sum(found) <= done + 1
    said = run(["steve", "summary", path])
    assert said.status == 1 and "cut off" in said.complaint or "ends" in said.complaint, said.complaint


@pytest.mark.parametrize("turn", range(KILLS))
def test_both_killed_at_work(turn: int, tmp_path: Path) -> None:
    """The file contains the first events of teller."""
    path, counts = tmp_path / "t.ljt", tmp_path / "counts"
    with started([*recorder(path), NATIVE / "teller", counts]) as process:
        wait_for(lambda: sum(counted(counts)) >= 1000, "teller is at work")
        process.send_signal(signal.SIGSTOP)  # the file must not grow while it is read
        wait_for(lambda: sum(read_so_far(path)) > 0, "some of it is written")
        process.send_signal(signal.SIGCONT)
        time.sleep(random.Random(turn).uniform(0, AT_WORK))
        kill_both(process, path)
    found, done = read_so_far(path), sum(counted(counts))
    assert found == after(sum(found)) and 0 < sum(found) <= done + BOUND


def test_a_lua_program_that_was_killed_with_its_collector(tmp_path: Path) -> None:
    """While Lua's allocator runs, its accesses may be removed from the ring."""
    path, ready = tmp_path / "t.ljt", tmp_path / "ready"
    script = f"""
local keep = {{}}
for round = 1, 1e9 do
  for i = 1, 2000 do keep[i] = {{i, tostring(i)}} end
  if round == 10 then io.open("{ready}", "w"):close() end
end
"""
    with started([*recorder(path), "luajit", "-e", script]) as process:
        wait_for(ready.exists, "it is at work")
        time.sleep(AT_WORK)
        kill_both(process, path)
    checked = run(["steve", "check", "--json", path])
    found = json.loads(checked.text)
    broken = [name for name, rule in found["rules"].items() if rule["count"]]
    assert checked.status == 1 and broken == ["read"], found["rules"]
    assert json.loads(run(["steve", "summary", "--json", path]).text)["events"]["new"] > 10_000
