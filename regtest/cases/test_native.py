"""test_native - `ljtrace run` records the C heap at native speed and leaves the program as it is.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from steve.trace._memtrace import NEW
from steve.trace._memtrace import Trace as Reader
from support import (
    APP_C,
    APP_LUA,
    BUILD,
    NATIVE,
    SECONDS,
    Done,
    Trace,
    child_of,
    collectors_of,
    good,
    native,
    natively,
    record,
    run,
    settled,
    started,
    steve,
    wait_for,
)

CONDUCT = NATIVE / "conduct"
OWN_LINE = re.compile(rb"^ljtrace: ")
SAME = {
    "app.lua": ["luajit", APP_LUA, "0.2"],
    "app.c": [APP_C, "500"],
    "lua os.exit": ["luajit", "-e", "io.write('bye') os.exit(9)"],
    "sizes and alignments beyond all bounds": [NATIVE / "extremes"],
    "no such program": [Path("/nonexistent/program")],
    **{
        mode: [CONDUCT, mode]
        for mode in (
            "exit3",
            "segv",
            "kill",
            "abort",
            "term",
            "fork",
            "threads",
            "exec",
            "exit-in-thread",
            "handler",
            "timer",
        )
    },
}


def without_own_lines(done: Done) -> bytes:
    return b"".join(x for x in done.err.splitlines(keepends=True) if not OWN_LINE.match(x))


@pytest.mark.parametrize("name", [name for name in SAME if name != "no such program"])
def test_outputs_and_status(name: str, tmp_path: Path) -> None:
    trace, plain = natively(tmp_path / "t.ljt", SAME[name]), run(SAME[name])
    assert (trace.run.status, trace.run.out, without_own_lines(trace.run)) == (plain.status, plain.out, plain.err)


def test_program_that_does_not_exist(tmp_path: Path) -> None:
    done = run([*native(tmp_path / "t.ljt"), *SAME["no such program"]])
    assert done.status == 127 and "/nonexistent/program" in done.complaint
    assert not list(tmp_path.iterdir()), "there is no trace of nothing"


def test_what_is_no_program(tmp_path: Path) -> None:
    """A folder, a script without its interpreter, a program that is here and not in PATH."""
    for script in ("a.lua", "a.py"):
        (tmp_path / script).write_text("print(1)\n")
    shutil.copy("/bin/true", tmp_path / "a.out")
    interpreter = "it is not executable; a script needs its interpreter: ljtrace run"
    for name, status, why in (
        (".", 126, "it is a folder"),
        ("a.lua", 127, f"{interpreter} luajit a.lua"),
        ("./a.py", 126, f"{interpreter} INTERPRETER ./a.py"),
        ("a.out", 127, "No such file or directory in the folders of PATH; the one here is ./a.out"),
    ):
        done = run(["ljtrace", "run", "--out=t.ljt", name], cwd=tmp_path)
        assert (done.status, done.complaint) == (status, f"ljtrace: cannot run {name}: {why}\n")
        assert not (tmp_path / "t.ljt").exists()


@pytest.mark.parametrize(
    "mode,ending,how",
    [
        ("exit3", "exit", "exit status 3"),
        ("exit-in-thread", "exit", None),
        ("kill", "killed", "SIGKILL"),
        ("abort", "exit", "SIGABRT"),
        ("segv", "exit", "SIGSEGV"),
        ("exec", "exec", "exec"),
    ],
)
def test_trace_says_how_it_ended(mode: str, ending: str, how: str | None, tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [CONDUCT, mode])
    assert trace.ending() == ending
    assert any(e[0] == "new" and e[3] == "1234" for e in trace.events()), "the last block before the end"
    assert how is None or re.search(rf"program ended +{how}", steve("info", trace.path).text)


def test_a_wrapper_that_executes_the_program(tmp_path: Path) -> None:
    """The trace ends with the wrapper; one message says so. In the background nobody reads it, so steve says so as well."""
    trace = natively(tmp_path / "t.ljt", ["env", CONDUCT, "exit3"])
    assert (trace.ending(), trace.run.status) == ("exec", 3)
    assert trace.run.complaint.count("executed another one (exec), which is not recorded") == 1
    assert (
        trace.run.complaint.count("executes itself: `ljtrace attach PID` after that, or valgrind --tool=ljtrace --tr")
        == 1
    )
    pid = json.loads(steve("info", "--json", trace.path).text)["recording"]["pid"]
    summary = run(["steve", "summary", trace.path]).complaint
    assert (
        summary.count("what runs since then is not in this file")
        == summary.count(f"`ljtrace attach {pid}` records it")
        == 1
    )
    shell = natively(tmp_path / "s.ljt", ["sh", "-c", "/bin/true; /bin/true; :"])
    assert "executed another" not in shell.run.complaint + run(["steve", "summary", shell.path]).complaint


def test_the_file_is_complete_while_the_executed_program_runs(tmp_path: Path) -> None:
    """The process goes on, so its end says nothing. The end of the program that it executes still is that of the command."""
    path, stop = tmp_path / "t.ljt", tmp_path / "stop"
    with started([*native(path), "env", CONDUCT, "until", stop], stderr=subprocess.PIPE) as process:
        wait_for(
            lambda: "what runs since then is not" in run(["steve", "summary", path]).complaint, "the file is complete"
        )
        assert process.poll() is None and not collectors_of(path)
        stop.touch()
        assert b"executed another one (exec), which is not recorded" in process.communicate()[1]
        assert process.returncode == 0


def sizes(trace: Trace) -> Counter[tuple[str, str]]:
    """How many events of each kind and size there are."""
    return Counter((e[0], e[3]) for e in trace.events() if e[0] in ("new", "free", "resize"))


@pytest.mark.parametrize(
    "argv", [[APP_C, "500"], [NATIVE / "heaps"], [CONDUCT, "exit3"]], ids=["app", "heaps", "conduct"]
)
def test_the_same_events_as_under_valgrind(argv: list[object], tmp_path: Path) -> None:
    ours = natively(tmp_path / "n.ljt", argv)
    theirs = record(tmp_path / "v.ljt", argv, "--trace-mem=no", "--heap=malloc")
    assert sizes(ours) == sizes(theirs)


def test_every_way_to_allocate(tmp_path: Path) -> None:
    """The events and kinds of each function of C and C++, compared with those under Valgrind."""
    source = tmp_path / "ways.cpp"
    source.write_text(
        """
        #include <cstdlib>
        #include <malloc.h>
        #include <new>
        struct alignas(64) wide { char c[64]; };
        int main() {
            free(malloc(101)); free(calloc(3, 34)); free(realloc(malloc(103), 5000)); free(realloc(nullptr, 104));
            free(memalign(64, 105)); free(aligned_alloc(64, 128)); free(valloc(107)); free(pvalloc(108));
            free(reallocarray(nullptr, 2, 55)); void *p; if (posix_memalign(&p, 64, 111) == 0) free(p);
            delete new char; delete[] new char[113]; delete new wide; delete[] new wide[3];
            delete new (std::nothrow) long; p = malloc(115); p = realloc(p, 0); free(nullptr);
        }"""
    )
    good(["g++", "-std=c++17", "-O0", "-o", tmp_path / "ways", source])
    kinds = {}
    for name, trace in (
        ("native", natively(tmp_path / "n.ljt", [tmp_path / "ways"])),
        ("valgrind", record(tmp_path / "v.ljt", [tmp_path / "ways"])),
    ):
        kinds[name] = Counter((e[0], e[3], e[5]) for e in trace.events() if e[0] in ("new", "free", "resize"))
    assert kinds["native"] == kinds["valgrind"]


def test_threads(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [CONDUCT, "threads"])
    assert len({e[7] for e in trace.events() if e[0] == "new"}) == 5


def own_sentinels(trace: Trace) -> int:
    """How many blocks of work() in conduct.c this process has made."""
    return len([e for e in trace.events() if e[0] == "new" and e[3] == "1234"])


def test_forked_child_has_a_trace_of_its_own(tmp_path: Path) -> None:
    """The child's events are not in the parent's trace, and what it inherits is in its own."""
    parent = natively(tmp_path / "t.ljt", [CONDUCT, "fork"])
    assert own_sentinels(parent) == 1
    assert f"memtrace written to {parent.path}; a forked child has a file of its own" in parent.run.complaint
    assert "a forked child is not in this file" in run(["steve", "summary", parent.path]).complaint
    wait_for(lambda: list(tmp_path.glob("t.*.ljt")), "the child's trace is complete")
    (child,) = tmp_path.glob("t.*.ljt")
    settled(child)
    trace = Trace(child, parent.run).check()
    assert own_sentinels(trace) == 2, "the inherited block and its own"
    for files in ([child], [parent.path, child]):
        assert "in this file" not in run(["steve", "summary", *files]).complaint, "it has no children; they are given"
    facts = json.loads(steve("info", "--json", child).text)
    assert str(parent.path) in json.dumps(facts)
    assert re.search(r"program ended +exit status 7", steve("info", child).text)


@pytest.mark.parametrize("pattern", ["t.ljt", "t.%p.ljt", "t"])
def test_each_of_several_generations_has_a_file(pattern: str, tmp_path: Path) -> None:
    """Each subshell is forked by the one before it, and has allocated before and after that."""
    shells = "a=$( (b=$( (echo in; :); :); echo $b; :); echo out; :); echo $a; :"
    done = good([*native(tmp_path / pattern), "bash", "-c", shells])
    assert done.text == "in out\n"
    assert "ljtrace: cannot write" not in done.complaint
    wait_for(lambda: len([p for p in tmp_path.iterdir() if p.suffix != ".part"]) == 5, "all files have their names")
    paths = list(tmp_path.iterdir())
    facts = {}
    for path in paths:
        settled(path)
        Trace(path, done).check()
        facts[path.name] = json.loads(steve("info", "--json", path).text)["recording"]
    pids = {facts[name]["pid"]: name for name in facts}
    assert len(pids) == len(paths), facts
    (first,) = (name for name in facts if "forked_from_file" not in facts[name])
    assert first == pattern.replace("%p", facts[first]["pid"])
    for name in set(facts) - {first}:
        assert Path(facts[name]["forked_from_file"]).name == pids[facts[name]["forked_from_pid"]]


def test_forked_children_that_are_not_recorded(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [CONDUCT, "fork"], "--trace-fork=no")
    assert [p.name for p in tmp_path.iterdir()] == ["t.ljt"]
    assert "forked child" not in trace.run.complaint + run(["steve", "summary", trace.path]).complaint


def test_child_that_executes_another_program_has_no_trace(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", ["sh", "-c", "/bin/echo a; /bin/echo b"])
    assert trace.run.out == b"a\nb\n"
    wait_for(lambda: not [p for p in tmp_path.iterdir() if p.name.endswith(".part")], "drafts are gone")


STARTERS = {
    "vfork": ["sh", "-c", "/bin/echo a; no-such-program 2>/dev/null; /bin/echo b"],
    "posix_spawn": [
        sys.executable,
        "-c",
        "import os, sys; [os.wait() for _ in (1, 2) if os.posix_spawn('/bin/true', ['true'], {})]",
    ],
}


@pytest.mark.parametrize("how", STARTERS)
def test_programs_that_are_started_are_not_recorded(how: str, tmp_path: Path) -> None:
    """Which is said, of those that could be executed."""
    trace = natively(tmp_path / "t.ljt", STARTERS[how])
    remark = "programs that it starts are not recorded (2 or more here): record each by itself"
    assert trace.run.status == 0 and remark in trace.run.complaint
    assert remark in run(["steve", "summary", trace.path]).complaint
    assert json.loads(steve("info", "--json", trace.path).text)["recording"]["started_programs"] == "2"
    alone = natively(tmp_path / "alone.ljt", ["/bin/true"])
    assert "not recorded" not in alone.run.complaint + run(["steve", "summary", alone.path]).complaint


@pytest.mark.parametrize("preload", [None, "", "libm.so.6"])
def test_environment_and_descriptors(preload: str | None, tmp_path: Path) -> None:
    """The program sees neither the library's variables nor its descriptors."""
    script = "env | sort; ls /proc/self/fd; set -- /proc/$$/fd/*; echo $#"
    command = [
        "env",
        "-u",
        "LD_PRELOAD" if preload is None else "_",
        *([] if preload is None else [f"LD_PRELOAD={preload}"]),
    ]
    plain = run([*command, "sh", "-c", script])
    ours = run([*command, *native(tmp_path / "t.ljt"), "sh", "-c", script])
    assert ours.out == plain.out


def test_program_that_closes_all_descriptors(tmp_path: Path) -> None:
    script = "import os; os.closerange(3, 4096); x = [bytes(70021) for _ in range(2000)]; print(len(x))"
    trace = natively(tmp_path / "t.ljt", [sys.executable, "-c", script], env={"PYTHONMALLOC": "malloc"})
    assert trace.run.out == b"2000\n"
    assert sum(int(e[3]) > 70000 for e in trace.events() if e[0] == "new") >= 2000


def counted(counts: Path) -> tuple[int, int]:
    """The News and Frees that teller has counted."""
    data = counts.read_bytes() if counts.exists() else b""
    new, _, _, _, free = struct.unpack("=5Q", data) if len(data) == 40 else (0,) * 5
    return new, free


@pytest.mark.parametrize("attempt", range(int(os.environ.get("LJTRACE_FAULTS") or 3)))
def test_sigkill_loses_nothing(attempt: int, tmp_path: Path) -> None:
    """teller counts its events in a file that outlives it. It is killed after it has counted some thousands."""
    path, counts = tmp_path / "t.ljt", tmp_path / "counts"
    with started([*native(path), NATIVE / "teller", counts]) as process:
        wait_for(lambda: counted(counts)[0] > 1000 * attempt, "teller works")
        pid = child_of(process.pid, NATIVE / "teller")
        os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=SECONDS) == -signal.SIGKILL
    trace = Trace(path, Done(0, b"", b"")).check()
    kinds = Counter(e[0] for e in trace.events() if e[3] == "70021")
    new, free = counted(counts)
    # each event is in the ring before the program goes on; teller counts after that
    assert new <= kinds["new"] <= new + 1 and free <= kinds["free"] <= free + 1


def test_the_launcher_is_killed(tmp_path: Path) -> None:
    """The program goes on, and its trace is complete."""
    path, stop = tmp_path / "t.ljt", tmp_path / "stop"
    with started([*native(path), CONDUCT, "until", stop], stdout=subprocess.PIPE) as process:
        wait_for(path.exists, "the recording has begun")
        wait_for(lambda: path.stat().st_size > 1000, "events are written")
        process.kill()
        process.wait(SECONDS)
        stop.touch()
        settled(path)
    assert Trace(path, Done(0, b"", b"")).check().counts()["new"] > 0


def test_the_collector_is_killed(tmp_path: Path) -> None:
    path, stop = tmp_path / "t.ljt", tmp_path / "stop"
    with started([*native(path), CONDUCT, "until", stop], stderr=subprocess.PIPE) as process:
        wait_for(lambda: collectors_of(path), "the collector runs")
        wait_for(lambda: path.exists() and path.stat().st_size > 1000, "events are written")
        os.kill(collectors_of(path)[0], signal.SIGKILL)
        stop.touch()
        assert process.wait(timeout=SECONDS) == 0
        assert process.stderr is not None and b"collector was killed" in process.stderr.read()


def test_unwritable_output(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    done = run([*native(Path("/nonexistent/t.ljt")), "touch", mark])
    assert done.status == 125 and not mark.exists()
    assert "/nonexistent/t.ljt" in done.complaint and "--out=FILE" in done.complaint


def test_static_program(tmp_path: Path) -> None:
    done = run([*native(tmp_path / "t.ljt"), NATIVE / "conduct-static", "exit3"])
    assert done.status == 3 and "is a static program" in done.complaint
    assert not list(tmp_path.iterdir())


def test_max_size(tmp_path: Path) -> None:
    done = run([*native(tmp_path / "t.ljt", "--max-size=64k"), APP_C, "100000"])
    assert "--max-size was reached" in done.complaint
    assert (tmp_path / "t.ljt").stat().st_size <= 65536


def test_facts(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [CONDUCT, "exit3"])
    assert json.loads(steve("info", "--json", trace.path).text)["recording"]["recorder"] == "native"
    assert json.loads(steve("summary", "--json", trace.path).text)["time_unit"] == "nanoseconds"
    assert re.search(r"^nanoseconds +[1-9]", steve("summary", trace.path).text, re.MULTILINE)


def test_time_passes(tmp_path: Path) -> None:
    """The times of events are those of the clock on the wall: between two allocations the program sleeps for a second."""
    script = "import time; x = bytes(70000); time.sleep(1); y = bytes(90000)"
    trace = natively(tmp_path / "t.ljt", [sys.executable, "-c", script], env={"PYTHONMALLOC": "malloc"})
    made = {
        int(e["size"]): int(e["time"])
        for batch in Reader(str(trace.path)).batches()
        for e in batch[batch["kind"] == NEW]
    }
    first, second = (
        max(time for size, time in made.items() if size in range(least, least + 100)) for least in (70000, 90000)
    )
    assert 0.9e9 < second - first < 60e9


@pytest.mark.parametrize(
    "option", ["--stack-depth=501", "--compress=0", "--max-size=1", "--keep=some", "--out=", "--strange"]
)
def test_wrong_options(option: str) -> None:
    done = run(["ljtrace", "run", option, "true"])
    assert done.status == 125 and option.partition("=")[0].strip("-") in done.complaint
    assert re.match("ljtrace( run)?: ", done.complaint)


def test_help_and_version() -> None:
    help_of_all = good(["ljtrace", "--help"]).text
    for form in ["ljtrace run", "ljtrace attach", "ljtrace detach", "ljtrace [OPTIONS] PROGRAM", "--trace-mem=yes|no"]:
        assert form in help_of_all
    nothing = run(["ljtrace"])
    assert nothing.status == 1 and "ljtrace attach [OPTIONS] PID" in nothing.complaint
    assert "--stack-depth=N" in good(["ljtrace", "run", "--help"]).text
    version = good(["ljtrace", "run", "--version"]).text.strip()
    assert version.startswith("ljtrace ")
    valgrind = good(["valgrind", "--version"]).text.strip()
    assert good(["ljtrace", "--version"]).text == f"{version} ({valgrind})\n"
    assert run(["ljtrace", "run"]).status == 125
    assert (BUILD / "ljtrace/ljtrace-run").exists()


@pytest.mark.parametrize(
    ("word", "command"),
    [
        *((word, "run") for word in ("runn", "rrun", "rum", "un", "ru", "rnu")),
        *((word, "attach") for word in ("atach", "attatch", "attahc", "attach_")),
        ("detahc", "detach"),
        *((word, None) for word in ("runnn", "r", "record", "attack-it", "de")),
    ],
)
def test_a_command_that_is_misspelt(word: str, command: str | None, tmp_path: Path) -> None:
    done = run(["ljtrace", word, "true"], cwd=tmp_path)
    means = f"ljtrace: {word}: no such command or program; did you mean `ljtrace {command}`?"
    assert done.status == 127 and (done.complaint.strip() == means) == (command is not None)


def test_a_program_whose_name_is_like_a_command(tmp_path: Path) -> None:
    (tmp_path / "runn").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "runn").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for argv in (["ljtrace", "runn"], ["ljtrace", tmp_path / "runn"], ["ljtrace", "--trace-mem=no", "runn"]):
        done = run(argv, env=path, cwd=tmp_path)
        assert "did you mean" not in done.complaint and done.text == "ran\n", done.complaint
