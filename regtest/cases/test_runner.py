"""test_runner - the test runner itself: it counts correctly, and does not pass when it runs nothing.

Runs regtest/run on small programs and test files made here, whose results are known.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import SOURCE, Done, run, wait_for

TAP_PROGRAM = "#!/bin/sh\nprintf '%s\\n' {lines}\n{end}\n"
PYTEST_FILE = """
import pytest
def test_good(): pass
def test_bad(): assert 1 == 2
@pytest.mark.skip(reason="the moon is full")
def test_skipped(): pass
@pytest.fixture
def broken(): raise RuntimeError
def test_error(broken): pass
"""


def program(folder: Path, name: str, lines: list[str], end: str = "") -> str:
    path = folder / name
    path.write_text(TAP_PROGRAM.format(lines=" ".join(f"'{x}'" for x in lines), end=end))
    path.chmod(0o755)
    return name


def runner(folder: Path, units: list[str], *names: str, patience: str = "", seconds: str = "") -> Done:
    env = {
        "LJTRACE_BUILDDIR": str(folder),
        "LJTRACE_SRCDIR": str(folder),
        "UNIT_TESTS": " ".join(units),
        **({"LJTRACE_CHECK_PATIENCE": patience} if patience else {}),
        **({"LJTRACE_CHECK_SECONDS": seconds} if seconds else {}),
    }
    return run([sys.executable, SOURCE / "regtest/run", *names], env=env)


def last_line(done: Done) -> str:
    return done.text.splitlines()[-1]


def test_counts_tap(tmp_path: Path) -> None:
    one = program(tmp_path, "one", ["1..2", "ok 1 - a", "ok 2 - b"])
    two = program(tmp_path, "two", ["1..3", "ok 1 - c", "not ok 2 - d", "ok 3 - e # SKIP no disk"], "exit 1")
    done = runner(tmp_path, [one, two])
    assert (last_line(done), done.status) == ("3 passed, 1 failed, 1 skipped", 1)
    assert "no disk" in done.text and "FAILED two: d" in done.text


def test_all_good(tmp_path: Path) -> None:
    done = runner(tmp_path, [program(tmp_path, "one", ["1..1", "ok 1 - a"])])
    assert (last_line(done), done.status) == ("1 passed, 0 failed, 0 skipped", 0)


def test_program_that_dies_or_says_too_little_fails(tmp_path: Path) -> None:
    units = [
        program(tmp_path, "dies", ["1..2", "ok 1 - a"], "kill -SEGV $$"),
        program(tmp_path, "short", ["1..2", "ok 1 - a"]),
        program(tmp_path, "silent", [""]),
    ]
    done = runner(tmp_path, [*units, "absent"])
    assert (last_line(done), done.status) == ("2 passed, 4 failed, 0 skipped", 1)


def test_nothing_to_run_is_a_failure(tmp_path: Path) -> None:
    assert runner(tmp_path, []).status == 1
    one = program(tmp_path, "one", ["1..1", "ok 1 - a"])
    done = runner(tmp_path, [one], "nomatch")
    assert (last_line(done), done.status) == ("0 passed, 1 failed, 0 skipped", 1)


def test_counts_pytest(tmp_path: Path) -> None:
    suite = tmp_path / "steve/test"
    os.makedirs(suite)
    (suite / "test_x.py").write_text(PYTEST_FILE)
    done = runner(tmp_path, [])
    assert (last_line(done), done.status) == ("1 passed, 2 failed, 1 skipped", 1)
    assert "the moon is full" in done.text


UNSTABLE = "#!/bin/sh\necho 1..1\n[ -e \"$0.ran\" ] && echo 'ok 1 - a' || echo 'not ok 1 - a'\ntouch \"$0.ran\"\n"


def unstable(folder: Path, name: str) -> str:
    """A unit test that fails the first time."""
    (folder / name).write_text(UNSTABLE)
    (folder / name).chmod(0o755)
    return name


def test_what_fails_only_once(tmp_path: Path) -> None:
    units = [unstable(tmp_path, "chance"), program(tmp_path, "bad", ["1..1", "not ok 1 - b"])]
    done = runner(tmp_path, units, "--again")
    assert (last_line(done), done.status) == ("1 passed, 1 failed, 0 skipped", 1)
    assert done.text.count("UNSTABLE") == 1 and "UNSTABLE chance: 1 failed" in done.text


def test_repeating_is_asked_for(tmp_path: Path) -> None:
    done = runner(tmp_path, [unstable(tmp_path, "chance")])
    assert (last_line(done), done.status) == ("0 passed, 1 failed, 0 skipped", 1)


def test_many_failures_are_not_repeated(tmp_path: Path) -> None:
    done = runner(tmp_path, [unstable(tmp_path, f"chance{i}") for i in range(4)], "--again")
    assert (last_line(done), done.status) == ("0 passed, 4 failed, 0 skipped", 1)


def test_file_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    suite = tmp_path / "steve/test"
    os.makedirs(suite)
    (suite / "test_x.py").write_text("import no_such_module\n")
    done = runner(tmp_path, [])
    assert done.status == 1 and " 0 failed" not in last_line(done)


def two_at_work(folder: Path, jobs: str, work: str) -> tuple[Done, list[str]]:
    """Run two programs that log when they begin and end and do something in between."""
    units = [
        program(folder, name, ["1..1", "ok 1"], f"echo begin >>log\n{work}\necho end >>log") for name in ("one", "two")
    ]
    env = {
        "LJTRACE_BUILDDIR": str(folder),
        "LJTRACE_SRCDIR": str(folder),
        "UNIT_TESTS": " ".join(units),
        "LJTRACE_CHECK_JOBS": jobs,
    }
    done = run([sys.executable, SOURCE / "regtest/run"], env=env, cwd=folder)
    log = folder / "log"
    return done, log.read_text().split() if log.exists() else []


def test_two_at_once(tmp_path: Path) -> None:
    """Each waits until both have begun."""
    done, log = two_at_work(tmp_path, "2", "until [ $(grep -c begin log) = 2 ]; do sleep 0.1; done")
    assert (last_line(done), log) == ("2 passed, 0 failed, 0 skipped", ["begin", "begin", "end", "end"])


def test_one_after_the_other(tmp_path: Path) -> None:
    done, log = two_at_work(tmp_path, "1", "sleep 0.3")
    assert (last_line(done), log) == ("2 passed, 0 failed, 0 skipped", ["begin", "end", "begin", "end"])


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_no_number_of_jobs(tmp_path: Path, jobs: str) -> None:
    done, log = two_at_work(tmp_path, jobs, ":")
    assert (done.status, log) == (2, []) and b"LJTRACE_CHECK_JOBS is not a number above 0" in done.err


def test_process_left_behind_is_a_failure(tmp_path: Path) -> None:
    """The process is killed and named."""
    seconds = f"86399.{os.getpid()}"
    # until it is `sleep` itself, it bears the name of the shell that starts it
    sleeps = f"sleep {seconds} >/dev/null 2>&1 & until grep -q sleep /proc/$!/cmdline; do :; done"
    one = program(tmp_path, "one", ["1..1", "ok 1 - a"], sleeps)
    done = runner(tmp_path, [one], patience="1")
    assert (last_line(done), done.status) == ("1 passed, 1 failed, 0 skipped", 1)
    assert f"left a process behind: sleep {seconds}" in done.text
    wait_for(lambda: not any(seconds.encode() in words for words in command_lines()), "it was ended")


WAITS = """
import subprocess, sys
def test_waits():
    own = [sys.executable, "-c", "import time; time.sleep(600)", "{marker}"]
    subprocess.run(own, start_new_session={apart})
"""


def test_file_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """Its test and its processes are named, and what remains does not delay the runner."""
    marker = f"marker-{os.getpid()}-late"
    os.makedirs(tmp_path / "steve/test")
    (tmp_path / "steve/test/test_x.py").write_text(WAITS.format(marker=marker, apart=True))
    one = program(tmp_path, "one", ["1..1", "ok 1 - a"])
    done = runner(tmp_path, [one], seconds="10")
    assert (last_line(done), done.status) == ("1 passed, 1 failed, 0 skipped", 1)
    assert "FAILED steve/test/test_x.py: not done after 10 s" in done.text and marker in done.text
    assert "in test_waits" in done.text and not runs(marker)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("kind", ["unit", "suite", "suite with a session of its own"])
def test_runner_that_is_ended_ends_its_tests(tmp_path: Path, how: signal.Signals, kind: str) -> None:
    """All processes of the runner are ended, in its process group or not, and its temporary files are
    removed."""
    marker, units, aside = f"marker-{os.getpid()}-{how}", "", tmp_path / "aside"
    aside.mkdir()
    if kind == "unit":
        units = program(tmp_path, "one", ["1..1"], f"sh -c 'sleep 600; :' {marker}")
    else:
        os.makedirs(tmp_path / "steve/test")
        (tmp_path / "steve/test/test_x.py").write_text(WAITS.format(marker=marker, apart="own" in kind))
    env = {
        **os.environ,
        "LJTRACE_BUILDDIR": str(tmp_path),
        "LJTRACE_SRCDIR": str(tmp_path),
        "UNIT_TESTS": units,
        "TMPDIR": str(aside),
    }
    with subprocess.Popen([sys.executable, SOURCE / "regtest/run"], env=env, stdout=subprocess.PIPE) as process:
        wait_for(lambda: runs(marker), "the test runs")
        process.send_signal(how)
        text, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + how and f"ended by {how.name}" in text.decode()
    assert not runs(marker) and not list(aside.iterdir())


def runs(marker: str) -> bool:
    return any(marker.encode() in words for words in command_lines())


def command_lines() -> list[bytes]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes())
        except OSError:
            continue
    return found


def test_the_fast_tests_exist() -> None:
    """`make check-fast` names test files; each must exist."""
    text = (SOURCE / "regtest/part.am").read_text().replace("\\\n", " ")
    named = [name for line in text.splitlines() if re.match(r"FAST_\w+ =", line) for name in line.split()[2:]]
    files = [
        str(path)
        for suite in ("regtest/cases", "steve/test", "drivers/test", "ljtrace/test", "memtrace/test")
        for path in (SOURCE / suite).glob("test_*.*")
    ]
    assert len(named) > 20
    assert [name for name in named if not any(name in path for path in files)] == []
