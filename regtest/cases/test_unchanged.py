"""test_unchanged - the traced program does what it does untraced; whatever ends it, its trace is valid.

Outputs and exit status (or signal) with the recorder equal those without it; Valgrind's own lines on stderr
do not count. What the trace holds is tested elsewhere; here only that it is complete and says how it ended.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import signal
import subprocess
from pathlib import Path

import pytest

from support import APP_C, APP_LUA, NATIVE, SECONDS, Done, Trace, record, recorder, run, settled, started

CONDUCT = NATIVE / "conduct"
SAME = {
    "app.lua": ["luajit", APP_LUA, "0.2"],
    "app.lua without jit": ["luajit", "-joff", APP_LUA, "0.05", "0.002"],
    "app.c": [APP_C, "500"],
    "lua error": ["luajit", "-e", "io.stderr:write(select(2, pcall(error, 'no luck\\n', 0))) os.exit(1)"],
    "lua os.exit": ["luajit", "-e", "io.write('bye') os.exit(9)"],
    "lua out of memory": ["luajit", "-e", "print(pcall(string.rep, 'x', 2^40))"],
    "sizes and alignments beyond all bounds": [NATIVE / "extremes"],
    "operator new without memory": [NATIVE / "refused"],
    "no such program": [Path("/nonexistent/program")],
    **{
        mode: [CONDUCT, mode]
        for mode in ("exit3", "segv", "kill", "abort", "term", "fork", "threads", "exit-in-thread", "handler", "timer")
    },
    **{f"static {mode}": [NATIVE / "conduct-static", mode] for mode in ("threads", "timer")},
}


def same(traced: Done, plain: Done) -> None:
    assert (traced.status, traced.out) == (plain.status, plain.out)
    assert traced.err_of_program == plain.err


@pytest.mark.parametrize("name", [n for n in SAME if n not in ("no such program",)])
def test_outputs_and_status(name: str, tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", SAME[name])
    same(trace.run, run(SAME[name]))


@pytest.mark.parametrize("options", [[], ["--trace-mem=no"]], ids=["accesses", "heap events only"])
@pytest.mark.parametrize(
    "argv", [["mended"], ["mended", "again"], ["mended", "plain"], ["mended", "made"]], ids=" ".join
)
def test_an_access_is_repeated(argv: list[str], options: list[str], tmp_path: Path) -> None:
    """All registers are correct. Valgrind's own tools delay the update of some, which would change the
    sum."""
    program = [NATIVE / argv[0], *argv[1:]]
    same(record(tmp_path / "t.ljt", program, *options).run, run(program))
    held_back = record(
        tmp_path / "h.ljt",
        program,
        "--px-file-backed=unwindregs-at-mem-access",
        "--vex-iropt-register-updates=unwindregs-at-mem-access",
        *options,
    ).run
    assert held_back.status == 1


def test_program_that_does_not_exist(tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / "t.ljt"), *SAME["no such program"]])
    assert done.status == 127 and "/nonexistent/program" in done.complaint


def test_standard_input_reaches_the_program(tmp_path: Path) -> None:
    program = ["luajit", "-e", "io.write(#io.read('*a'))"]
    done = run([*recorder(tmp_path / "t.ljt"), *program], stdin=b"x" * 100000)
    assert (done.status, done.out) == (0, b"100000")


@pytest.mark.parametrize(
    "mode,ending",
    [
        ("exit3", "exit"),
        ("exit-in-thread", "exit"),
        ("threads", "exit"),
        ("kill", "exit"),
        ("abort", "exit"),
        ("segv", "exit"),
    ],
)
def test_trace_says_how_it_ended(mode: str, ending: str, tmp_path: Path) -> None:
    """A signal that the program sends itself passes through Valgrind, which has time to end the trace."""
    trace = record(tmp_path / "t.ljt", [CONDUCT, mode])
    assert trace.ending() == ending
    assert any(e[0] == "new" and e[3] == "1234" for e in trace.events()), "the last block before the end"


def test_exec_keeps_the_trace_up_to_it(tmp_path: Path) -> None:
    """Without --trace-children the new program is not traced; the trace up to the exec is kept."""
    trace = record(tmp_path / "t.ljt", [CONDUCT, "exec"], execs=True)
    same(trace.run, run([CONDUCT, "exec"]))
    assert trace.ending() in ("exec", "exit", "killed")
    assert any(e[0] == "new" and e[3] == "1234" for e in trace.events())


def test_fork_leaves_no_stray_in_the_parents_trace(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [CONDUCT, "fork"])
    parents = [e for e in trace.events() if e[0] == "new" and e[3] == "1234"]
    assert len(parents) == 1, "the child's blocks are not the parent's"


def test_threads_are_told_apart(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [CONDUCT, "threads"])
    assert len({e[7] for e in trace.events() if e[0] == "new"}) == 5


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_from_outside(signum: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with started([*recorder(path), CONDUCT, "spin"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in (b"ready\n", b""):
            pass
        process.send_signal(signum)
        assert process.wait(timeout=SECONDS) == -signum
    settled(path)
    trace = Trace(path, Done(0, b"", b"")).check()
    assert trace.ending() == ("killed" if signum == signal.SIGKILL else trace.ending()) != "unknown"
    assert trace.counts()["new"] > 2000


@pytest.mark.parametrize(
    "former",
    [
        {},
        {"LD_PRELOAD": "libm.so.6", "LD_LIBRARY_PATH": "/nonexistent"},
        {"LD_PRELOAD": "libm.so.6:libdl.so.2"},
    ],
    ids=["neither", "one", "two"],
)
def test_environment(former: dict[str, str], tmp_path: Path) -> None:
    """The program has no variables of Valgrind's or of the script that starts it, and keeps its own. The first program
    prints those of its own process, the second one those that it passes on."""
    for argv in (["bash", "--norc", "-c", "set -o posix; set"], ["sh", "-c", "env"]):
        plain, traced = run(argv, env=former), record(tmp_path / "t.ljt", argv, "--trace-mem=no", env=former).run
        shown = [[x for x in r.text.splitlines() if not x.startswith(("PPID=", "_="))] for r in (plain, traced)]
        assert shown[0] == shown[1] and all(f"{name}={value}" in shown[1] for name, value in former.items())
