"""test_universe_attach - snapshots of Lua states that ran before the recorder came, and of heaps that grow.

What the script holds is known, and so are the names of what holds it. Nothing of it was seen when it was made.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator

import pytest

from steve.trace._memtrace import Trace as Reader
from support import SECONDS, Done, Trace, good, run, started, steve, wait_for
from test_universe import rows, universe

# A server that has run for a while: sessions that are never removed, and a log of which all but the last hundred are
# garbage. It prints how much it holds, and stops when its input ends.
SERVER = """\
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned); int poll(void *, unsigned long, int); long read(int, char *, unsigned long);"
local how = ...
local sessions, log, n = {}, {}, 0
local function serve()
  n = n + 1
  local context = {number = n, headers = {host = "h" .. n % 7, agent = "a" .. n}}
  sessions["s" .. n] = function() return context end
  log[n % 100] = context
end
for i = 1, 20000 do serve() end
collectgarbage()
print(collectgarbage("count") * 1024)
io.stdout:flush()
if how == "idle" then io.read() os.exit(7) end
if how == "loop" then
  local x = 0
  while true do for i = 1, 1e6 do x = x + i % 7 end if x < 0 then serve() end end
end
while true do
  for i = 1, 20 do serve() end
  ffi.C.usleep(1000)
end
"""
# Two states, each executed by a thread of its own, and one that no thread executes.
THREADS = """\
#include <luajit-2.1/lua.hpp>
#include <pthread.h>
#include <unistd.h>
#include <stdio.h>
static void *work(void *which)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    if (luaL_dostring(L, which ? "held = {} for i = 1, 2000 do held[i] = {i} end while true do held[1] = {} end"
                               : "held = {} for i = 1, 1000 do held[i] = {i} end"))
        puts(lua_tostring(L, -1));
    return NULL;
}
int main(void)
{
    pthread_t thread;
    work(NULL);
    pthread_create(&thread, NULL, work, (void *)1);
    pthread_create(&thread, NULL, work, (void *)2);
    puts("ready");
    fflush(stdout);
    getchar();
    _exit(7);
}
"""


@contextmanager
def serving(tmp_path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The server, and the bytes that its Lua state has counted."""
    script = tmp_path / "server.lua"
    script.write_text(SERVER)
    command = ["luajit", *options[:-1], script, options[-1]]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, int(float(process.stdout.readline()))


def attach(pid: int, path: Path, *options: str) -> Done:
    done = run(["ljtrace", "attach", f"--out={path}", *options, pid])
    assert done.status == 0 and path.exists(), done.complaint
    Trace(path, done).check()
    return done


def held_by_name(path: Path, *options: str) -> list[str]:
    return [row["path"] for row in universe(path, *options)["holders"]]


@pytest.mark.parametrize("jit", [[], ["-joff"]], ids=["jit", "interpreter"])
@pytest.mark.parametrize("how", ["idle", "serving"])
def test_objects_from_before(how: str, jit: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with serving(tmp_path, *jit, how) as (process, counted):
        done = attach(process.pid, path, "--universe", "--seconds=0.5")
        assert process.poll() is None and "snapshot" not in done.complaint
    found = universe(path)
    assert found["snapshot"] == "attached" and found["unaccounted"] == 0
    assert rows(found, "tab")[""] >= 40000 and rows(found, "tab")["_G"] == 1
    functions = [n for name, n in rows(found, "func").items() if re.search(r"server\.lua:8$", name)]
    assert functions and functions[0] >= 20000
    assert found["gc_total"] >= counted * 0.99
    sessions = next(row for row in found["holders"] if "local sessions (" in row["path"])
    assert re.fullmatch(rf"thread main local sessions \({tmp_path}/server\.lua:4\) tab \S+", sessions["path"])
    assert sessions["retained"] > 5e6
    assert "the program waited" in steve("universe", path).text and found["longest_stop_ns"] > 0


def test_nothing_changes_in_the_program(tmp_path: Path) -> None:
    """Neither its count of bytes, nor its children: none waits to be waited for."""
    with serving(tmp_path, "idle") as (process, _):
        before = {name.name for name in Path(f"/proc/{process.pid}/fd").iterdir()}
        for i in range(3):
            attach(process.pid, tmp_path / f"{i}.ljt", "--universe", "--seconds=0.3")
        children = good(["ps", "-o", "pid=", "--ppid", process.pid]) if _has_children(process.pid) else None
        assert children is None, children
        assert {name.name for name in Path(f"/proc/{process.pid}/fd").iterdir()} == before
        process.communicate(b"\n", timeout=SECONDS)
        assert process.returncode == 7
    totals = {universe(tmp_path / f"{i}.ljt")["gc_total"] for i in range(3)}
    assert len(totals) == 1


def _has_children(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def _ticks(pid: int) -> int:
    """The processor time of a process, in hundredths of a second."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def test_state_that_is_executed_all_the_time(tmp_path: Path) -> None:
    """A trace that does not allocate leaves no moment at which the state is known to be consistent. That is said."""
    path = tmp_path / "t.ljt"
    with serving(tmp_path, "loop") as (process, _):
        began = _ticks(process.pid)
        wait_for(lambda: _ticks(process.pid) >= began + 20, "the loop is compiled")
        done = attach(process.pid, path, "--universe", "--seconds=0.3")
    assert "a snapshot was not taken" in done.complaint
    assert "has no snapshot" in run(["steve", "universe", path]).complaint


def test_states_of_several_threads(tmp_path: Path) -> None:
    source, program, path = tmp_path / "p.cc", tmp_path / "p", tmp_path / "t.ljt"
    source.write_text(THREADS)
    if run(["g++", "-g", "-pthread", "-o", program, source, "-lluajit-5.1"]).status != 0:
        pytest.skip("libluajit-5.1-dev is not installed")
    with started([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        wait_for(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 3, "three threads")
        attach(process.pid, path, "--universe", "--seconds=1")
        process.communicate(b"\n", timeout=SECONDS)
        assert process.returncode == 7
    reader = Reader(str(path), snapshots=True)
    reader.skim()
    sizes = sorted(sum(o["type"] == 8 for o in s.objects) // 1000 for s in reader.snapshots())
    assert len(sizes) == 3
    assert int(reader.info()["lua_bytes_before"]) == sum(s.total for s in reader.snapshots()) > 100_000


@pytest.mark.parametrize("way", ["run", "attach", "valgrind"])
def test_heap_that_grows(way: str, tmp_path: Path) -> None:
    """The last two snapshots are compared, and the path that grew is named. What is replaced has not grown."""
    path = tmp_path / "t.ljt"
    if way == "attach":
        with serving(tmp_path, "serving") as (process, _), started(
            ["ljtrace", "attach", "--universe=growing", f"--out={path}", process.pid]
        ) as recorder:
            wait_for(lambda: path.exists() and "growing 1" in _names(path), "the heap has grown", 10 * SECONDS)
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(SECONDS) == 0
        first, second = _totals(path)[:2]
        assert second / first < 1.5, "an eighth is enough for the second one of a state that is older"
    else:
        script = tmp_path / "server.lua"
        script.write_text(SERVER)
        tool = {"run": ["ljtrace", "run"], "valgrind": ["valgrind", "-q", "--tool=ljtrace", "--trace-mem=no"]}[way]
        done = run([*tool, "--universe=growing", f"--out={path}", "luajit", script, "idle"], stdin=b"\n")
        assert done.status == 7, done.complaint
    which = ["--snapshot", "growing 1", "--diff", "attached"] if way == "attach" else []  # there may be one at the end
    found = json.loads(steve("universe", path, "--json", *which).text)
    assert found["snapshot"].startswith("growing") and "since" in found
    first = found["paths"][0]
    assert re.fullmatch(
        rf"local sessions \({tmp_path}/server\.lua:4\) -> \[string\] -> function {tmp_path}/server\.lua:8",
        first["path"],
    )
    assert first["more_bytes"] > 100_000 and not any("local log" in row["path"] for row in found["paths"][:2])
    assert first["path"] in steve("universe", path, *which).text
    assert "paths" not in universe(path, "--snapshot", found["snapshot"])


@contextmanager
def _keeper(tmp_path: Path, count: int, value: str) -> Iterator[Callable[..., None]]:
    """A program that keeps so many values, and 3,000 more for each line that it reads. Yields a function that records it with
    --universe, while it reads one line or none."""
    script = tmp_path / "s.lua"
    script.write_text(
        f"local keep = {{}} for i = 1, {count} do keep[i] = {value} end print(1) io.stdout:flush()\n"
        f"while io.read() do for i = 1, 3000 do keep[#keep + 1] = {value} end print(2) io.stdout:flush() end\n"
    )
    with started(["luajit", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == b"1\n"

        def record(path: Path, option: str, reads: bool) -> None:
            with started(["ljtrace", "attach", option, f"--out={path}", process.pid]) as recorder:
                wait_for(lambda: path.exists() and "attached" in _names(path), "the first snapshot")
                if reads:
                    process.stdin.write(b"\n")  # type: ignore[union-attr]
                    process.stdin.flush()  # type: ignore[union-attr]
                    assert process.stdout.readline() == b"2\n"  # type: ignore[union-attr]
                good(["ljtrace", "detach", process.pid])
                assert recorder.wait(SECONDS) == 0

        yield record
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0


def test_a_last_snapshot_when_the_recording_ends(tmp_path: Path) -> None:
    """Of a heap that has grown by less than a growing one takes, and waits for input then; and none of one that has not grown."""
    with _keeper(tmp_path, 100_000, "{i}") as record:
        record(tmp_path / "grows.ljt", "--universe=growing", True)
        record(tmp_path / "stays.ljt", "--universe=growing", False)
    assert _names(tmp_path / "grows.ljt") == {"attached", "at the end"}
    assert _names(tmp_path / "stays.ljt") == {"attached"}
    first = universe(tmp_path / "grows.ljt")["paths"][0]
    assert first["more_objects"] == 3000 and "local keep" in first["path"]


def test_what_grew_for_a_while_is_no_growth(tmp_path: Path) -> None:
    """A heap that grew and became smaller again: the last snapshot, with which the one before is compared, says so."""
    script, path = tmp_path / "s.lua", tmp_path / "t.ljt"
    script.write_text(
        "local keep, more = {} for i = 1, 20000 do keep[i] = {i} end print(1) io.stdout:flush() io.read()\n"
        "more = {} for i = 1, 40000 do more[i] = {i} end more = nil collectgarbage() collectgarbage()\n"
        "for i = 1, 100 do keep[i] = {i, i} end print(2) io.stdout:flush() io.read()\n"
    )
    with started(["luajit", "-joff", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        with started(["ljtrace", "attach", "--universe=growing", f"--out={path}", process.pid]) as recorder:
            wait_for(lambda: path.exists() and "attached" in _names(path), "the first snapshot")
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"2\n"
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(SECONDS) == 0
        process.communicate(timeout=SECONDS)
    assert {"attached", "growing 1", "at the end"} <= _names(path)
    found = universe(path)
    assert (found["snapshot"], found["object_bytes"] < found["since"]["object_bytes"]) == ("at the end", True)
    assert "less: more was freed than the rows below grew" in steve("universe", path).text


def test_an_array_from_before_that_becomes_longer(tmp_path: Path) -> None:
    """It is in no table, which is said, if it is large."""
    with _keeper(tmp_path, 130_000, "i") as record:
        record(tmp_path / "grows.ljt", "--universe", True)
        record(tmp_path / "stays.ljt", "--universe", True)
    for name, grows in (("grows.ljt", True), ("stays.ljt", False)):
        path = tmp_path / name
        said = "locks from before ljtrace attach were resized, the largest to 2 MiB, and are in no table"
        for shown in (steve("findings", path).complaint, steve("report", "-q", "-o", "-", path).text):
            assert (said in shown) == grows, shown
        assert json.loads(steve("summary", "--json", path).text).get("older_resized", 0) // 2**21 == grows
        row = re.search(r"resized from before +in no table, up to +2.0 MiB", steve("summary", path).text)
        assert (row is not None) == grows


def test_keys_that_are_numbers_with_a_fraction(tmp_path: Path) -> None:
    """They are numbers as others are, of a table with many and of one with few."""
    path = tmp_path / "t.ljt"
    script = "prices, few = {}, { [0.5] = {} } require 'ljtrace'.snapshot('none') "
    script += "for i = 1, 30000 do prices[i + 0.25] = { i } end require 'ljtrace'.snapshot('many')"
    good(["ljtrace", "run", f"--out={path}", "luajit", "-e", script])
    found = universe(path, "--diff=none", "--top=100000")
    assert found["paths"][0]["path"].endswith("_G -> .prices -> [number] -> table"), found["paths"][:3]
    paths = [row["path"] for row in universe(path, "--snapshot", found["snapshot"], "--top=100000")["holders"]]
    assert any(re.search(r"\.few tab \S+ \[number\] tab \S+$", one) for one in paths)


def _totals(path: Path) -> list[int]:
    """What the snapshots say of the whole heap, by the number that the state has."""
    reader = Reader(str(path), snapshots=True)
    reader.skim()
    return [snapshot.total for snapshot in reader.snapshots()]


def _names(path: Path) -> set[str]:
    try:
        reader = Reader(str(path), snapshots=True)
        reader.skim()
    except Exception:  # the file is being written, and may be empty
        return set()
    return {snapshot.name for snapshot in reader.snapshots()}


LEAKING = """local keep = {}
for n = 1, 400000 do
  last = { n, tostring(n) .. "x" }
  if n % 20 == 0 then
    keep[#keep + 1] = { n }
  end
end
os.exit(0)
"""


def test_findings_name_what_holds_what_grows(tmp_path: Path) -> None:
    """If the trace has snapshots, and the Lua state is not closed at the end; of lines it is not known."""
    path, plain, script = tmp_path / "t.ljt", tmp_path / "plain.ljt", tmp_path / "leak.lua"
    script.write_text(LEAKING)
    good(["ljtrace", "run", "--universe=growing", f"--out={path}", "luajit", script])
    good(["ljtrace", "run", f"--out={plain}", "luajit", script])

    def growth(*arguments: object) -> dict:
        (found,) = [
            one for one in json.loads(steve("findings", "--json", *arguments).text) if one["finding"] == "growth"
        ]
        return found

    held = f"local keep ({script}:1)"
    found = growth(path)
    (holder,) = found["holders"]
    assert holder["path"] == held and holder["share"] == 1 and holder["snapshot"].startswith("growing ")
    assert holder["site"].startswith("main chunk (") and "leak.lua:5)" in holder["site"]
    text, site = " ".join(steve("findings", path).text.split()), holder["site"].split(" < ")[0]
    assert f"held, in the snapshot '{holder['snapshot']}': {site} by {held} the bytes alive grow" in text
    assert growth(plain)["sites"] and not growth(plain)["holders"] and not growth("--by=line", path)["holders"]
    assert all(
        "holders" not in one for one in json.loads(steve("findings", "--json", path).text) if one != growth(path)
    )


def test_small_heaps_are_not_worth_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    good(["ljtrace", "run", "--universe=growing", f"--out={path}", "luajit", "-e", "x = {}"])
    assert "no heap of a Lua state became larger" in run(["steve", "universe", path]).complaint


def test_a_heap_that_did_not_grow_again(tmp_path: Path) -> None:
    """One snapshot has nothing to be compared with, which is said."""
    path = tmp_path / "t.ljt"
    text = "x = {} for i = 1, 4000 do x[i] = {} end"  # 324,000 bytes; a snapshot is taken from 256 KiB on
    good(["ljtrace", "run", "--universe=growing", f"--out={path}", "luajit", "-e", text])
    names = _names(path)
    last = run(["steve", "universe", path]).complaint
    assert len(names) == 1 and "one snapshot of this state: its heap did not grow by half afterwards" in last
    assert "one snapshot" not in run(["steve", "universe", path, "--snapshot", *names]).complaint


def test_without_copies_the_program_waits(tmp_path: Path) -> None:
    """No process can be made: the snapshot is the same."""
    path, script = tmp_path / "t.ljt", tmp_path / "s.lua"
    script.write_text(
        'local ffi = require "ffi" ffi.cdef "int setrlimit(int, unsigned long *);"\n'
        'assert(ffi.C.setrlimit(6, ffi.new("unsigned long[2]", 1, 1)) == 0)\n'
        'local keep = {} for i = 1, 9000 do keep[i] = {i} end require "ljtrace".snapshot("s")\n'
    )
    if os.geteuid() == 0:
        other = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
        tmp_path.chmod(0o777)
        for parent in tmp_path.parents[:2]:
            parent.chmod(0o755)
        if run([*other, "ljtrace", "--version"]).status != 0 or run([*other, "test", "-w", tmp_path]).status != 0:
            pytest.skip("cannot become another user here")
    else:
        pytest.skip("a limit on processes would be that of this user")
    done = run([*other, "ljtrace", "run", f"--out={path}", "luajit", script])
    assert done.status == 0, done.complaint
    found = universe(path)
    assert found["unaccounted"] == 0 and rows(found, "tab")[""] >= 9000


FILTER = """\
local ffi = require "ffi"
ffi.cdef [[
struct filter {uint16_t code; uint8_t jt, jf; uint32_t k;};
struct program {unsigned short len; struct filter *filter;};
int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);
]]
-- clone ends the program, and all else is permitted
local filter = ffi.new("struct filter[4]", {
  {0x20, 0, 0, 0}, {0x15, 0, 1, 56}, {0x06, 0, 0, 0x80000000}, {0x06, 0, 0, 0x7fff0000},
})
local program = ffi.new("struct program", 4, filter)
assert(ffi.C.prctl(38, 1, 0, 0, 0) == 0)
assert(ffi.C.prctl(22, 2, ffi.cast("uintptr_t", ffi.cast("void *", program)), 0, 0) == 0)
local keep = {} for i = 1, 9000 do keep[i] = {i} end require "ljtrace".snapshot("s")
"""


def test_program_with_a_filter_of_its_own(tmp_path: Path) -> None:
    """It might be ended for what a copy needs, so none is made: the snapshot is the same."""
    path, script = tmp_path / "t.ljt", tmp_path / "s.lua"
    script.write_text(FILTER)
    assert good(["ljtrace", "run", f"--out={path}", "luajit", script]).status == 0
    found = universe(path)
    assert found["unaccounted"] == 0 and rows(found, "tab")[""] >= 9000


LARGE = """\
local ffi = require "ffi" ffi.cdef "int getpid(void);"
local keep = {} for i = 1, 200000 do keep[i] = {i} end
print(ffi.C.getpid()) io.stdout:flush()
io.read()
require "ljtrace".snapshot("lost")
io.read()
require "ljtrace".snapshot("kept")
print(io.read())
"""


def _copy_of(pid: int) -> int:
    """The process that takes a snapshot of this one; 0: there is none."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text() == "ljtrace-copy\n" and _is_alive(child):
                return int(child)
    return 0


def _new_copy_of(pid: int, is_connected: bool = False) -> int:
    """Wait for such a process, without a pause, since it may be brief. is_connected: until it sends to the collector."""
    end = time.monotonic() + SECONDS
    while not (copy := _copy_of(pid)) or (is_connected and not os.listdir(f"/proc/{copy}/fd")):
        assert time.monotonic() < end
    return copy


def _is_alive(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_copy_that_is_killed(tmp_path: Path) -> None:
    """Its snapshot is not in the file, which is said. The program and the recording go on."""
    path, script = tmp_path / "t.ljt", tmp_path / "s.lua"
    script.write_text(LARGE)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with started(["ljtrace", "run", f"--out={path}", "luajit", script], **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        pid = int(process.stdout.readline())
        process.stdin.write(b"\n")
        process.stdin.flush()
        os.kill(_new_copy_of(pid), signal.SIGKILL)
        out, complaint = process.communicate(b"\nbye\n", timeout=SECONDS)
        assert process.returncode == 0 and out == b"bye\n"
    assert b"1 snapshot was not complete, and not in the file" in complaint
    assert json.loads(steve("info", "--json", path).text)["recording"]["lost_snapshots"] == "1"
    assert _names(path) == {"kept"} and universe(path)["unaccounted"] == 0


def test_heap_grows_after_a_copy_was_killed(tmp_path: Path) -> None:
    """The size of the heap is not known then, so the next snapshot is taken soon."""
    path, script = tmp_path / "t.ljt", tmp_path / "s.lua"
    script.write_text(
        'local ffi = require "ffi" ffi.cdef "int usleep(unsigned);"\n'
        "local keep = {} for i = 1, 400000 do keep[i] = {i} end print(1) io.stdout:flush()\n"
        "while true do for i = 1, 50 do keep[#keep + 1] = {i} end ffi.C.usleep(1000) end\n"
    )
    with started(["luajit", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        with started(["ljtrace", "attach", "--universe=growing", f"--out={path}", process.pid]) as recorder:
            os.kill(_new_copy_of(process.pid), signal.SIGKILL)
            wait_for(lambda: path.exists() and "growing 1" in _names(path), "another snapshot")
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(SECONDS) == 0
        assert process.poll() is None
    assert "attached" not in _names(path) and universe(path)["unaccounted"] == 0


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["attach", "--universe=no", "1"], "--universe takes no value, or growing"),
        (["attach", "--universe", "--sample", "1"], "--universe does not go with --sample"),
        (["run", "--universe", "true"], "--universe of a program that is started is --universe=growing"),
        (["run", "--universe=growing", "--sample=1k", "true"], "--universe does not go with --sample"),
    ],
)
def test_wrong_use(argv: list[str], why: str) -> None:
    done = run(["ljtrace", *argv])
    assert done.status == 125 and why in done.complaint


def test_process_without_lua(tmp_path: Path) -> None:
    if shutil.which("sleep") is None:
        pytest.skip("there is no sleep")
    with started(["sleep", "1000"]) as process:
        wait_for(lambda: b"libc.so.6" in Path(f"/proc/{process.pid}/maps").read_bytes(), "the program runs")
        done = attach(process.pid, tmp_path / "t.ljt", "--universe", "--seconds=0.1")
        assert "no snapshot was taken: the process has no Lua state" in done.complaint
        assert process.poll() is None


def _children(pid: int) -> list[str]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [child for thread in threads for child in (thread / "children").read_text().split()]


def test_copy_outlives_the_recording(tmp_path: Path) -> None:
    """The program does not wait for it, and is left without a zombie by what ends the recording, or else by the next one."""
    script = tmp_path / "s.lua"
    script.write_text(
        'local ffi = require "ffi" ffi.cdef "int usleep(unsigned);"\n'
        "local keep = {} for i = 1, 1200000 do keep[i] = {i} end print(1) io.stdout:flush()\n"
        "while true do for i = 1, 50 do keep[i] = {i} end ffi.C.usleep(1000) end\n"
    )
    with started(["luajit", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        for way in ("seconds", "detach", "killed", "seconds"):
            path = tmp_path / f"{way}.ljt"
            words = ["ljtrace", "attach", "--universe", f"--out={path}", process.pid]
            if way == "seconds":
                good([*words, "--seconds=0.1"])
            else:
                with started(words) as recorder:
                    wait_for(lambda: bool(_children(process.pid)), "a copy")
                    if way == "killed":
                        recorder.kill()
                    good(["ljtrace", "detach", process.pid])
                    recorder.wait(SECONDS)
            if way != "killed":
                assert _children(process.pid) == [], way
                assert universe(path)["unaccounted"] == 0
        assert process.poll() is None


def test_copy_that_is_slow(tmp_path: Path) -> None:
    """The end of the recording waits for it, and says so."""
    path, script = tmp_path / "t.ljt", tmp_path / "s.lua"
    script.write_text(
        'local ffi = require "ffi" ffi.cdef "int usleep(unsigned);"\n'
        "local keep = {} for i = 1, 400000 do keep[i] = {i} end print(1) io.stdout:flush()\n"
        "while true do keep[1] = {keep[2]} ffi.C.usleep(1000) end\n"
    )
    with started(["luajit", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        words = ["ljtrace", "attach", "--universe", f"--out={path}", "--seconds=0.1", process.pid]
        with started(words, stderr=subprocess.PIPE) as recorder:
            copy = _new_copy_of(process.pid, is_connected=True)
            os.kill(copy, signal.SIGSTOP)
            assert recorder.stderr is not None and b"recording process" in recorder.stderr.readline()
            assert b"a copy of the process still writes the snapshot of its heap" in recorder.stderr.readline()
            os.kill(copy, signal.SIGCONT)
            assert recorder.wait(SECONDS) == 0
        assert _children(process.pid) == []
        assert universe(path)["unaccounted"] == 0
