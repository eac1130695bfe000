"""test_attach - `ljtrace attach` and `ljtrace detach` record a running program and leave it as it is.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from steve.trace._memtrace import Frame
from steve.trace._memtrace import Trace as Reader
from support import NATIVE, SECONDS, Done, Trace, collectors_of, good, run, settled, started, steve, wait_for
from test_luajit_variants import FOLDER

LIVING = NATIVE / "living"
TIMES = int(os.environ.get("LJTRACE_ATTACH_TIMES", "3"))  # how often a test attaches to the same process
# How long a program is recorded that allocates nothing, that forks, which it does in that time, or that makes millions of
# events in a second.
BRIEF = {
    **dict.fromkeys(("epoll", "read", "poll", "sleep", "numbers"), "--seconds=0.1"),
    "fork": "--seconds=0.3",
    "mallocs": "--seconds=0.3",
}
MODES = ("threads", *BRIEF)


@contextmanager
def living(*argv: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs until its standard input ends. It must not have been harmed."""
    with started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: b"libc.so.6" in Path(f"/proc/{process.pid}/maps").read_bytes(), "the program runs")
        yield process


def ended(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate(timeout=600)
    return Done(process.returncode, out, err)


def attach(pid: int, path: Path, *options: str) -> Trace:
    """Record a process until the recorder ends by itself."""
    done = run(["ljtrace", "attach", f"--out={path}", *options, pid])
    assert done.status == 0 and path.exists(), done.complaint
    return Trace(path, done).check()


def attach_during(pid: int, path: Path, ticks: Path, n: int) -> Trace:
    """Record a process while it appends n bytes to the file `ticks`, however long that takes on a busy machine."""
    with started(["ljtrace", "attach", f"--out={path}", pid]) as recorder:
        begun(path)
        since = ticks.stat().st_size
        wait_for(lambda: ticks.stat().st_size >= since + n, f"{n} ticks")
        good(["ljtrace", "detach", pid])
        assert recorder.wait(SECONDS) == 0
    return Trace(path, Done(0, b"", b"")).check()


def work_done(pid: int) -> dict[str, int]:
    """How much each thread has done, except the first one of several: waits, and processor time in milliseconds."""
    done = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        waits = re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)
        used = (task / "stat").read_text().rpartition(")")[2].split()[11]
        done[task.name] = int(waits[0]) + 10 * int(used)
    return {name: n for name, n in done.items() if name != str(pid)} or done


def attach_at_work(pid: int, path: Path, *options: str) -> Trace:
    """Record a process until each of its threads has worked for about 50 milliseconds, however long that takes on a busy
    machine."""
    with started(["ljtrace", "attach", f"--out={path}", *options, pid]) as recorder:
        begun(path)
        before = work_done(pid)
        wait_for(lambda: all(n >= before[name] + 50 for name, n in work_done(pid).items()), "all threads have worked")
        good(["ljtrace", "detach", pid])
        assert recorder.wait(SECONDS) == 0
    return Trace(path, Done(0, b"", b"")).check()


def unharmed(process: subprocess.Popen[bytes]) -> None:
    done = ended(process)
    assert (done.status, done.text, done.complaint) == (7, "0 wrong\n", "")


def begun(path: Path) -> None:
    wait_for(lambda: path.exists() and path.stat().st_size > 500, "events are written")


@pytest.mark.parametrize("mode", MODES)
def test_program_is_unharmed(mode: str, tmp_path: Path) -> None:
    with living(LIVING, mode) as process:
        for i in range(TIMES):
            path = tmp_path / f"{i}.ljt"
            brief = mode in BRIEF
            trace = attach(process.pid, path, BRIEF[mode]) if brief else attach_at_work(process.pid, path)
            assert trace.ending() == "detached"
            assert process.poll() is None
            assert (trace.counts()["new"] > 0) == (mode in ("threads", "mallocs"))
            if mode == "fork":
                wait_for(lambda: list(tmp_path.glob(f"{i}.*.ljt")), "children have files of their own")
        unharmed(process)


WAITS = ("sleep", "nanosleep", "clock", "poll", "epoll", "select", "futex", "recv", "read")


@pytest.mark.parametrize("options", [[], ["--existing-blocks"], ["--pages"], ["--universe"]], ids=str)
def test_no_call_ends_early(options: list[str], tmp_path: Path) -> None:
    """Each thread waits in another system call, and the recorder's work is done by the first. A sleep that was interrupted
    can be continued only if the recorder makes none of its own meanwhile."""
    with ExitStack() as all_of_them:
        programs = {}
        for call in WAITS:
            argv = [NATIVE / "waits", call]
            process = programs[call] = all_of_them.enter_context(started(argv, stdout=subprocess.PIPE))
            assert process.stdout and process.stdout.readline() == b"waiting\n"
            trace = attach(process.pid, tmp_path / f"{call}.ljt", "--seconds=0.05", *options)
            assert trace.ending() == "detached", "it waits for too short a time for this machine"
        wrong = {call: process.communicate(timeout=SECONDS)[0].decode() for call, process in programs.items()}
        assert wrong == dict.fromkeys(WAITS, "")
        assert {process.returncode for process in programs.values()} == {0}


def ring_ending(pid: int, value: int) -> bytes:
    """Say whether the recording is about to end; returns where the next event will be in the ring."""
    return good([NATIVE / "ending", pid, value]).out


def test_nothing_is_recorded_while_the_recording_is_about_to_end(tmp_path: Path) -> None:
    """So that a program whose threads all wait for a slow recorder can be detached from. What is not recorded is lost if
    the recording goes on."""
    path = tmp_path / "t.ljt"
    with living(LIVING, "mallocs") as process:
        with started(["ljtrace", "attach", f"--out={path}", process.pid]) as recorder:
            begun(path)
            ring_ending(process.pid, 1)

            def is_quiet() -> bool:
                at, (done,) = ring_ending(process.pid, 1), work_done(process.pid).values()
                wait_for(lambda: work_done(process.pid)[str(process.pid)] >= done + 50, "the program has worked")
                return ring_ending(process.pid, 1) == at

            wait_for(is_quiet, "no events are written")
            at = ring_ending(process.pid, 0)
            wait_for(lambda: ring_ending(process.pid, 0) != at, "events are written again")
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(SECONDS) == 0
        unharmed(process)
    lost = json.loads(steve("summary", "--json", path).text)["lost"]
    assert lost["allocations"] > 1000 and lost["frees"] > 1000


def test_samples_of_different_size(tmp_path: Path) -> None:
    """Threads draw anew in each recording: after a sample of one byte in a gigabyte, a small one has blocks at once."""
    with living(LIVING, "threads") as process:
        attach(process.pid, tmp_path / "0.ljt", "--seconds=0.1", "--sample=1g")
        counts = attach_at_work(process.pid, tmp_path / "1.ljt", "--sample=1k").counts()
        unharmed(process)
    assert counts["new"] > 50


def test_blocks_from_before(tmp_path: Path) -> None:
    """Their frees are counted, and are neither events nor errors."""
    with living(LIVING, "threads") as process:
        trace = attach_at_work(process.pid, tmp_path / "t.ljt")
        unharmed(process)
    events = trace.events()
    live = {e[1] for e in events if e[0] == "new"} - {e[1] for e in events if e[0] == "free"}
    assert len(live) <= 3 * 64
    assert not [e for e in events if e[0] == "badfree"]
    shown = re.search(r"frees of older blocks +([\d,]+)", steve("summary", trace.path).text)
    assert shown and 100 < int(shown[1].replace(",", "")) < 10000
    assert re.search("program ended +detached", steve("summary", trace.path).text)
    reader = Reader(str(trace.path))
    reader.skim()
    assert 10_000 < int(reader.info()["anonymous_before"]) < 100_000_000


def test_sample_of_the_blocks(tmp_path: Path) -> None:
    """A recording of all blocks may follow a sample, and a sample that."""
    with living(LIVING, "threads") as process:
        traces = [
            attach_at_work(process.pid, tmp_path / f"{i}.ljt", *options)
            for i, options in enumerate((["--sample=200k"], [], ["--sample=200k"]))
        ]
        unharmed(process)
    few, every, again = (trace.counts()["new"] for trace in traces)
    assert 0 < few < every / 50 and 0 < again < every / 50
    assert "estimated" in steve("summary", traces[0].path).text
    assert "estimated" not in steve("summary", traces[1].path).text
    for trace in traces:
        assert not [e for e in trace.events() if e[0] == "badfree"]


def test_memory_after_the_end(tmp_path: Path) -> None:
    """The ring's 32 MiB are returned to the system."""

    def shared() -> int:
        return int(re.findall(r"RssShmem:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[0])

    with living(LIVING, "mallocs") as process:
        attach(process.pid, tmp_path / "t.ljt", "--seconds=0.1")
        wait_for(lambda: shared() < 100, "the pages of the ring are free")
        unharmed(process)


def test_threads_are_told_apart(tmp_path: Path) -> None:
    with living(LIVING, "threads") as process:
        trace = attach_at_work(process.pid, tmp_path / "t.ljt")
        unharmed(process)
    assert len({e[7] for e in trace.events() if e[0] == "new"}) == 3
    assert "work (living.c" in steve("sites", trace.path).text


def test_detach_by_another_command(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with living(LIVING, "threads") as process, started(
        ["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE
    ) as recorder:
        begun(path)
        again = run(["ljtrace", "attach", f"--out={tmp_path / 'u.ljt'}", process.pid])
        assert again.status == 125 and "recorded already" in again.complaint
        good(["ljtrace", "detach", process.pid])
        assert recorder.wait(SECONDS) == 0
        assert Trace(path, Done(0, b"", b"")).check().ending() == "detached"
        again = run(["ljtrace", "detach", process.pid])
        assert again.status == 125 and "it is not recorded" in again.complaint
        unharmed(process)
    assert not (tmp_path / "u.ljt").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_recorder(sent: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with living(LIVING, "threads") as process, started(["ljtrace", "attach", f"--out={path}", process.pid]) as recorder:
        begun(path)
        recorder.send_signal(sent)
        assert recorder.wait(SECONDS) == 0
        assert Trace(path, Done(0, b"", b"")).check().ending() == "detached"
        unharmed(process)


def test_program_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with living(LIVING, "threads") as process, started(["ljtrace", "attach", f"--out={path}", process.pid]) as recorder:
        begun(path)
        unharmed(process)
        assert recorder.wait(SECONDS) == 0
    assert Trace(path, Done(0, b"", b"")).check().ending() == "exit"
    assert re.search("program ended +exit status 7", steve("info", path).text)


def test_program_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with living(LIVING, "threads") as process, started(["ljtrace", "attach", f"--out={path}", process.pid]) as recorder:
        begun(path)
        process.kill()
        assert recorder.wait(SECONDS) == 0
    assert Trace(path, Done(0, b"", b"")).check().ending() == "killed"


@pytest.mark.parametrize("mode, ending", [("exec", "exec"), ("execve", "unknown")])
def test_program_executes_another(mode: str, ending: str, tmp_path: Path) -> None:
    """By a system call of its own, the recorder sees only that its library is gone."""
    path = tmp_path / "t.ljt"
    with living(LIVING, mode) as process, started(
        ["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE
    ) as recorder:
        assert recorder.stderr is not None and b"recording process" in recorder.stderr.readline()
        process.send_signal(signal.SIGUSR1)
        assert recorder.wait(SECONDS) == 0
        unharmed(process)
    assert Trace(path, Done(0, b"", b"")).check().ending() == ending


def test_recorder_is_killed(tmp_path: Path) -> None:
    """The collector goes on; another command ends the recording."""
    path = tmp_path / "t.ljt"
    with living(LIVING, "threads") as process, started(["ljtrace", "attach", f"--out={path}", process.pid]) as recorder:
        begun(path)
        recorder.kill()
        recorder.wait(SECONDS)
        good(["ljtrace", "detach", process.pid])
        settled(path)
        assert Trace(path, Done(0, b"", b"")).check().ending() == "detached"
        attach(process.pid, tmp_path / "u.ljt", "--seconds=0.1")
        unharmed(process)


@pytest.mark.parametrize("attempt", range(8))
def test_recorder_is_killed_while_it_attaches(attempt: int, tmp_path: Path) -> None:
    with living(LIVING, "threads") as process:
        with started(["ljtrace", "attach", f"--out={tmp_path / 't.ljt'}", process.pid]) as recorder:
            time.sleep(0.02 + 0.01 * attempt)
            recorder.kill()
        run(["ljtrace", "detach", process.pid])
        attach(process.pid, tmp_path / "u.ljt", "--seconds=0.1")
        unharmed(process)


def test_collector_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with living(LIVING, "threads") as process, started(
        ["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE
    ) as recorder:
        begun(path)
        os.kill(collectors_of(path)[0], signal.SIGKILL)
        complaint = recorder.communicate(timeout=SECONDS)[1]
        assert b"the collector was killed by signal 9" in complaint
        attach(process.pid, tmp_path / "u.ljt", "--seconds=0.1")
        unharmed(process)


@pytest.mark.parametrize("binding", [["-Wl,-z,lazy"], ["-Wl,-z,now", "-Wl,-z,relro"]], ids=["lazy", "now"])
def test_object_that_is_loaded_later(binding: list[str], tmp_path: Path) -> None:
    library, source, path = tmp_path / "late.so", tmp_path / "late.c", tmp_path / "t.ljt"
    source.write_text(
        "#include <stdlib.h>\n"
        "void *late(int n) { void *p = realloc(malloc(54321), 65432); free(p); return malloc(n); }\n"
    )
    good(["gcc", "-shared", "-fPIC", *binding, "-o", library, source])
    (tmp_path / "main.c").write_text(
        f"""
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {{
            getchar();
            void *(*late)(int) = (void *(*)(int))dlsym(dlopen("{library}", RTLD_LAZY), "late");
            for (int i = 0; i < 10; i++) {{ free(malloc(77)); free(late(12345)); }}
            return 7;
        }}"""
    )
    good(["gcc", "-o", tmp_path / "main", tmp_path / "main.c"])
    with living(tmp_path / "main") as process, started(
        ["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE
    ) as recorder:
        assert recorder.stderr is not None and b"recording process" in recorder.stderr.readline()
        assert ended(process).status == 7 and recorder.wait(SECONDS) == 0
    made = [e[3] for e in Trace(path, Done(0, b"", b"")).check().events() if e[0] == "new"]
    assert [made.count(size) for size in ("77", "54321", "12345")] == [10, 10, 10]


def test_python(tmp_path: Path) -> None:
    script = (
        "import sys, threading\nwhile not sys.stdin.isatty():\n x = [bytearray(1000) for i in range(1000)]\n"
        " import select\n if select.select([0], [], [], 0)[0]: break\nprint('fine')"
    )
    with living("/usr/bin/python3", "-c", script) as process:
        for i in range(TIMES):
            trace = attach_at_work(process.pid, tmp_path / f"{i}.ljt")
            assert trace.counts()["new"] > 1000
        done = ended(process)
    assert (done.status, done.text, done.complaint) == (0, "fine\n", "")


# -- what is refused -------------------------------------------------------------------------------------------


def refused(pid: object) -> str:
    done = run(["ljtrace", "attach", "--out=/dev/null", pid])
    assert done.status == 125
    return done.complaint


def test_process_that_does_not_exist() -> None:
    with started(["true"]) as process:
        process.wait(SECONDS)
    assert "it does not exist" in refused(process.pid)


def test_zombie() -> None:
    with started(["true"]) as process:
        wait_for(lambda: ") Z " in Path(f"/proc/{process.pid}/stat").read_text(), "it is a zombie")
        assert "zombie" in refused(process.pid)


def test_stopped_process() -> None:
    with living(LIVING, "read") as process:
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: ") T " in Path(f"/proc/{process.pid}/stat").read_text(), "it is stopped")
        assert "kill -CONT" in refused(process.pid)
        process.send_signal(signal.SIGCONT)
        unharmed(process)


TRACER = """\
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(15, sys.argv[1].encode(), 0, 0, 0) == 0  # PR_SET_NAME
assert libc.ptrace(0x4206, int(sys.argv[2]), 0, 0) == 0, ctypes.get_errno()  # PTRACE_SEIZE
print("traced", flush=True)
sys.stdin.read()
"""


@contextmanager
def traced(pid: int, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a name that traces another one until its standard input ends."""
    argv = [sys.executable, "-c", TRACER, name, pid]
    with started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout is not None and tracer.stdout.readline() == b"traced\n"
        yield tracer


def test_traced_process() -> None:
    with living(LIVING, "read") as process:
        with traced(process.pid, "gdb") as tracer:
            assert f"process {tracer.pid} (gdb) traces it" in refused(process.pid)
        with traced(process.pid, "ljtrace-attach") as tracer:
            assert f"another ljtrace, process {tracer.pid}, has been attaching" in refused(process.pid)
        unharmed(process)


def test_another_recorder_is_waited_for(tmp_path: Path) -> None:
    """One that is just attaching or detaching, which takes some milliseconds."""
    path = tmp_path / "t.ljt"
    with living(LIVING, "mallocs") as process:
        with (
            traced(process.pid, "ljtrace-attach") as tracer,
            started(["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE) as recorder,
        ):
            # clock_nanosleep: it waits
            wait_for(lambda: Path(f"/proc/{recorder.pid}/syscall").read_text().startswith("230 "), "the recorder waits")
            tracer.kill()
            wait_for(lambda: recorder.poll() is not None or path.exists() and path.stat().st_size > 500, "it ends")
            assert recorder.poll() is None
            good(["ljtrace", "detach", process.pid])
            assert recorder.wait(SECONDS) == 0
        assert Trace(path, Done(0, b"", b"")).check().ending() == "detached"
        unharmed(process)


def test_static_program(tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("#include <unistd.h>\nint main(void) { char c; return (int)read(0, &c, 1); }\n")
    good(["gcc", "-static", "-o", tmp_path / "static", source])
    with started([tmp_path / "static"], stdin=subprocess.PIPE) as process:
        wait_for(lambda: b"static" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "it runs")
        assert "static program" in refused(process.pid)


def test_other_architecture(tmp_path: Path) -> None:
    source = tmp_path / "small.c"
    source.write_text("int main(void) { for (;;) __builtin_ia32_pause(); }\n")
    if run(["gcc", "-m32", "-o", tmp_path / "small", source]).status != 0:
        pytest.skip("gcc cannot make programs of 32 bits here")
    with started([tmp_path / "small"]) as process:
        assert "not of x86-64" in refused(process.pid)


def test_other_user(tmp_path: Path) -> None:
    """An ordinary user may not attach to a process of root."""
    with living(LIVING, "read") as process:
        done = run(
            [
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--bounding-set=-all",
                "ljtrace",
                "attach",
                "--out=/dev/null",
                process.pid,
            ]
        )
        if "ljtrace" not in done.complaint:
            pytest.skip(f"cannot become another user: {done.complaint.strip()}")
        assert done.status == 125 and "run ljtrace as root" in done.complaint
        unharmed(process)


# Makes itself unreadable to other processes of its user, then allocates at each line of its input.
PRIVATE = """
import ctypes, sys
sys.stdin.readline()
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) # PR_SET_DUMPABLE
print("private", flush=True)
for line in sys.stdin:
    kept = [bytes(1000) for _ in range(1000)]
    print("done", flush=True)
"""


def test_process_that_becomes_unreadable(tmp_path: Path) -> None:
    """Its objects cannot be found any more, which is no sign that it has executed another program."""
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    if run([*other, "true"]).status != 0:
        pytest.skip("cannot become another user")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    path = tmp_path / "t.ljt"
    with started([*other, "/usr/bin/python3", "-c", PRIVATE], **pipes) as process, path.open("wb") as out:
        wait_for(lambda: b"ctypes" in Path(f"/proc/{process.pid}/maps").read_bytes(), "the program runs")
        command = [*other, "ljtrace", "attach", "--out=-", process.pid]
        with started(command, stdout=out, stderr=subprocess.PIPE) as recorder:
            assert process.stdin and process.stdout and recorder.stderr
            said = recorder.stderr.readline().decode()
            if "Operation not permitted" in said:
                pytest.skip(f"an ordinary user may not attach here: {said.strip()}")
            assert "recording process" in said
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"private\n"
            assert b"maps cannot be read (Permission denied)" in recorder.stderr.readline()
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"done\n"
            recorder.send_signal(signal.SIGINT)
            assert b"recorded no more" in recorder.stderr.readline()
            assert recorder.wait(SECONDS) == 0
            assert process.poll() is None
        trace = Trace(path, Done(0, b"", b"")).check()
        assert trace.ending() == "detached"
        assert sum(1 for e in trace.events() if e[0] == "new" and 1000 <= int(e[3]) < 1100) >= 1000
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0


def test_kernel_thread() -> None:
    if not Path("/proc/2/stat").exists() or Path("/proc/2/cmdline").read_bytes():
        pytest.skip("process 2 is no kernel thread")
    assert "kernel thread" in refused(2) or "cannot attach" in refused(2)


def test_detach_has_no_options() -> None:
    assert run(["ljtrace", "detach", "--seconds=1", "1"]).status == 125
    assert "usage: ljtrace detach" in good(["ljtrace", "detach", "--help"]).text


@pytest.mark.parametrize("argv", [[], ["x"], ["1", "2"], ["--seconds=x", "1"], ["0"], ["-5"]])
def test_wrong_usage(argv: list[str]) -> None:
    done = run(["ljtrace", "attach", *argv])
    assert done.status == 125 and "ljtrace attach --help" in done.complaint


# -- Lua -------------------------------------------------------------------------------------------------------

LOOP = """
local t, ended, ticks = {}, false, io.open(TICKS, "w")
ticks:setvbuf("no")
local function fill(n)
  for i = 1, n do t[i % 100] = { i, tostring(i) } end
end
while not ended do
  fill(200)
  ticks:write("x")
  local f = io.open(STOP)
  if f then f:close() ended = true end
end
print("fine")
"""


def written_loop(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The script; the file that it appends to after each round; and the one that ends it."""
    script, ticks, stop = tmp_path / "loop.lua", tmp_path / "ticks", tmp_path / "stop"
    script.write_text(LOOP.replace("STOP", f"'{stop}'").replace("TICKS", f"'{ticks}'"))
    return script, ticks, stop


def lua_sites(trace: Trace) -> str:
    """The site that has made most blocks."""
    return max(json.loads(steve("sites", "--json", trace.path).text), key=lambda row: row["blocks"])["site"]


@pytest.mark.parametrize("options", [[], ["-joff"]], ids=["jit", "interpreter"])
def test_luajit(options: list[str], tmp_path: Path) -> None:
    """The state is found each time, and the lines of code that was loaded and compiled before are known. The blocks that
    the recorder makes to find them are not recorded."""
    script, ticks, stop = written_loop(tmp_path)
    with living("luajit", *options, script) as process:
        wait_for(lambda: ticks.exists() and ticks.stat().st_size > 100, "the loop runs and is compiled")
        for i in range(TIMES):
            trace = attach_during(process.pid, tmp_path / f"{i}.ljt", ticks, 50)
            assert "fill (loop.lua:5)" in lua_sites(trace)
            assert '"states": 1' in steve("summary", "--json", trace.path).text
            assert "lua_states" not in steve("sites", "--json", "--keep-alloc-fns", trace.path).text
        stop.touch()
        done = ended(process)
    assert (done.status, done.text, done.complaint) == (0, "fine\n", "")


CALLS = """
local kept, ticks = {}, io.open(TICKS, "w")
ticks:setvbuf("no")
local function make(i) return { i } end
local function round()
  for i = 1, 200 do
    kept[i % 100] = make(i)
  end
end
local stop
while not stop do
  round()
  ticks:write("x")
  stop = io.open(STOP)
end
"""


def test_lines_of_code_compiled_before_are_approximate(tmp_path: Path) -> None:
    """Nobody saw the compiler, so the tables of line 4, which the loop calls, have its line; and that is said."""
    script, ticks, stop = tmp_path / "calls.lua", tmp_path / "ticks", tmp_path / "stop"
    script.write_text(CALLS.replace("STOP", f"'{stop}'").replace("TICKS", f"'{ticks}'"))
    with living("luajit", script) as process:
        wait_for(lambda: ticks.exists() and ticks.stat().st_size > 100, "the loop runs and is compiled")
        trace = attach_during(process.pid, tmp_path / "calls.ljt", ticks, 50)
        stop.touch()
        assert ended(process).status == 0
    remark = "): LuaJIT had compiled this code before ljtrace attach"
    assert "(calls.lua:" in lua_sites(trace)
    for command in (["sites"], ["summary"], ["lines"], ["leaks"]):
        assert run(["steve", *command, trace.path]).complaint.count(remark) == 1
    quiet = run(["steve", "sites", "-q", trace.path])  # without the remark, the heading says of which lines it is
    assert "approximate" not in quiet.complaint and " approximate)" in quiet.text.split("\n\n")[0]
    page = steve("report", trace.path, "-o", "-").text
    assert remark in page and page.index("</b> or what runs after it (see below) ") < page.index(remark)
    good(["ljtrace", "run", f"--out={tmp_path / 'whole.ljt'}", "luajit", script])  # ends at once, since `stop` exists
    assert "approximate" not in run(["steve", "sites", tmp_path / "whole.ljt"]).complaint


LIBRARY = """
local M, count = {}, { n = 0 }
local function fetch(_, key)
  count.n = count.n + 1
  return { key }
end
function M.each(...)
  count.n = count.n + 1
  return { ... }
end
return setmetatable(M, { __index = fetch })
"""
APPLICATION = """
local library, count = require "library", { n = 0 }
local M = {}
function M.handle()
  return library.uri
end
function M.collect(i)
  local all = library.each(i, i)
  return all
end
function M.try(i)
  local ok, found = pcall(M.collect, i)
  count.n = count.n + 1
  return { found }
end
return M
"""
SERVER = """
package.path = FOLDER
local application, kept, ticks = require "application", {}, io.open(TICKS, "w")
ticks:setvbuf("no")
local function serve(name)
  local work = application[name]
  for i = 1, 200 do
    kept[i % 100] = work(i)
  end
end
local function rounds()
  serve("handle")
  serve("collect")
  serve("try")
end
local stop
while not stop do
  rounds()
  ticks:write("x")
  stop = io.open(STOP)
end
"""


def server_of(folder: Path) -> tuple[Path, Path, Path]:
    """The script of a server with its libraries; the file that it appends to after each round; and the one that ends it."""
    (folder / "library.lua").write_text(LIBRARY)
    (folder / "application.lua").write_text(APPLICATION)
    script, ticks, stop = folder / "server.lua", folder / "ticks", folder / "stop"
    text = SERVER.replace("STOP", f"'{stop}'").replace("TICKS", f"'{ticks}'").replace("FOLDER", f"'{folder}/?.lua'")
    script.write_text(text)
    return script, ticks, stop


def stacks_of_server(folder: Path, luajit: str) -> list[list[Frame]]:
    """The frames of Lua, innermost first, of each stack of a recording that began when the server was compiled. Where LuaJIT
    got no memory for machine code, by chance of the addresses, another server is recorded."""
    stacks: list[list[Frame]] = []
    for attempt in range(5):
        (folder / str(attempt)).mkdir()
        script, ticks, stop = server_of(folder / str(attempt))
        with living(luajit, script) as process:
            wait_for(lambda: ticks.exists() and ticks.stat().st_size > 100, "the loop runs and is compiled")
            trace = attach_during(process.pid, folder / f"{attempt}.ljt", ticks, 50)
            stop.touch()
            assert ended(process).status == 0
        reader = Reader(str(trace.path))
        reader.skim()
        every = (reader.stack_frames(number) for number in range(1, reader.counts()["stacks"] + 1))
        stacks = [[frame for frame in frames if frame.kind in ("lua", "lua-inlined")] for frames in every]
        if any(frame.trace for frames in stacks for frame in frames):
            break
    return stacks


@pytest.mark.parametrize("variant", ["", "gc32", "luajit2"])
def test_functions_and_lines_of_code_compiled_before_belong_together(variant: str, tmp_path: Path) -> None:
    """Functions are inlined in a trace: by a call, by pcall, with variable arguments, and as a metamethod. Each frame has the
    file in which its function is, and functions have the names by which those call them that really do. With references of 4
    bytes, only the innermost function is known; it has no name then."""
    names = {  # by file and line of the beginning: what the function may be called, also while no call of it was seen
        ("library.lua", 3): {"__index", "library.lua:3"},
        ("library.lua", 7): {"each", "library.lua:7"},
        ("application.lua", 4): {"work", "application.lua:4"},
        ("application.lua", 7): {"work", "application.lua:7"},
        ("application.lua", 11): {"work", "application.lua:11"},
        ("server.lua", 5): {"serve", "server.lua:5"},
        ("server.lua", 11): {"rounds", "server.lua:11"},
    }
    luajit = str(FOLDER / variant / "luajit") if variant else "luajit"
    if not shutil.which(luajit):
        pytest.skip(f"{luajit} is not there: make luajit-variants")
    compiled, met = set(), set()
    for frames in stacks_of_server(tmp_path, luajit):
        for frame in frames:
            file, function = Path(frame.file).name, Path(frame.function).name
            if frame.defined:
                assert function in names[file, frame.defined], (function, file, frame.line)
            compiled |= {file} if frame.trace else set()
            met.add((function, file))
        places = [(Path(frame.file).name, frame.defined) for frame in frames]
        for inner, outer in (
            (("library.lua", 3), ("application.lua", 4)),
            (("library.lua", 7), ("application.lua", 7)),
        ):
            if variant != "gc32" and inner in places:
                assert places[places.index(inner) + 1] == outer, frames
    assert compiled >= {"library.lua", "application.lua"}
    assert variant == "gc32" or {("__index", "library.lua"), ("each", "library.lua")} <= met


def test_neovim(tmp_path: Path) -> None:
    if not shutil.which("nvim"):
        pytest.skip("neovim is not installed")
    stop, script, ticks = tmp_path / "stop", tmp_path / "work.lua", tmp_path / "ticks"
    script.write_text(
        f"""
local t, ticks = {{}}, io.open('{ticks}', 'w')
ticks:setvbuf('no')
local function tick()
  for i = 1, 2000 do t[i % 100] = {{ i, tostring(i) }} end
  ticks:write('x')
  if vim.loop.fs_stat('{stop}') then io.stdout:write('fine\\n') vim.cmd('qa!') end
  vim.defer_fn(tick, 5)
end
tick()
"""
    )
    with living("nvim", "--headless", "-u", "NONE", "-c", f"luafile {script}") as process:
        wait_for(lambda: ticks.exists() and ticks.stat().st_size > 9, "it works")
        for i in range(TIMES):
            trace = attach_during(process.pid, tmp_path / f"{i}.ljt", ticks, 8)
            assert "work.lua:5" in lua_sites(trace)
        stop.touch()
        done = ended(process)
    assert (done.status, done.text, done.complaint) == (0, "fine\n", "")


NGINX = """
load_module ROOT/usr/lib/nginx/modules/ndk_http_module.so;
load_module ROOT/usr/lib/nginx/modules/ngx_http_lua_module.so;
worker_processes 1; pid DIR/pid; error_log DIR/error.log; daemon off;
events {}
http {
  access_log off; lua_package_path "ROOT/usr/share/lua/5.1/?.lua;;";
  client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
  server { listen unix:DIR/http; location / { content_by_lua_block {
    local t = {}
    for i = 1, 500 do t[i % 50] = { i, tostring(i) } end
    ngx.print("hello " .. #t)
  } } }
}
"""


class Client(threading.Thread):
    """Makes requests until its end is requested, and counts those whose answer is wrong."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.ended, self.right, self.wrong = str(path), False, 0, 0

    def answer(self) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.makefile("rb").read()

    def run(self) -> None:
        while not self.ended:
            if self.answer().endswith(b"\r\n\r\nhello 49"):
                self.right += 1
            else:
                self.wrong += 1


def test_nginx_worker_under_load(tmp_path: Path) -> None:
    """LJTRACE_NGINX_LUA: where Debian's packages libnginx-mod-http-lua, libnginx-mod-http-ndk, libluajit2-5.1-2,
    lua-resty-core and lua-resty-lrucache are unpacked; they cannot be installed beside luajit."""
    root = Path(os.environ.get("LJTRACE_NGINX_LUA", "/"))
    if not shutil.which("nginx") or not (root / "usr/lib/nginx/modules/ngx_http_lua_module.so").exists():
        pytest.skip("nginx or its Lua module is not installed; LJTRACE_NGINX_LUA may name a folder with it")
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket is short
        config = Path(folder, "nginx.conf")
        user = "user root;\n" if os.geteuid() == 0 else ""
        config.write_text(user + NGINX.replace("ROOT/", f"{root}/".replace("//", "/")).replace("DIR", folder))
        with living(
            "env", f"LD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu", "nginx", "-p", folder, "-c", config
        ) as server:
            children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
            wait_for(lambda: Path(folder, "http").exists() and children.read_text().split(), "the server is ready")
            worker, client = int(children.read_text()), Client(Path(folder, "http"))
            client.start()
            try:
                for i in range(TIMES):
                    trace = attach(worker, tmp_path / f"{i}.ljt", "--seconds=0.3")
                    assert "content_by_lua" in lua_sites(trace)
            finally:
                client.ended = True
                client.join()
            assert client.right > 10 and not client.wrong and int(children.read_text()) == worker
            server.terminate()
            assert ended(server).status == 0
