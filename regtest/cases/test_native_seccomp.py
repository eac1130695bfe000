"""test_native_seccomp - programs in a seccomp sandbox: the native recorder's own system calls never end them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from support import NATIVE, Done, Trace, collectors_of, good, numbers, run, started, steve, wait_for

SANDBOXED = NATIVE / "sandboxed"
STRICT = ("strict", "kill", "trap", "errno", "tsync")  # these do not permit what the recorder needs
LOOSE = ("none", "trace", "socket")


def recorded(path: Path, kind: str, *options: str) -> Trace:
    """The program, which must not notice anything."""
    plain = run([SANDBOXED, kind])
    assert (plain.status, plain.text) == (5, "done\n")
    done = run(["ljtrace", "run", f"--out={path}", *options, SANDBOXED, kind])
    assert (done.status, done.text) == (plain.status, plain.text), done.complaint
    return Trace(path, done).check()


def news(trace: Trace, size: int) -> int:
    """How many blocks of a size were made."""
    return numbers(trace.view("tally", size))["new"]


def problems(trace: Trace) -> str:
    return json.loads(steve("info", "--json", trace.path).text)["recording"].get("problems", "")


@pytest.mark.parametrize("options", ([], ["--sample-stacks=1ms"], ["--sample=1k"]), ids=("all", "stacks", "sample"))
@pytest.mark.parametrize("kind", STRICT)
def test_recording_ends_at_the_filter(kind: str, options: list[str], tmp_path: Path) -> None:
    trace = recorded(tmp_path / "t.ljt", kind, *options)
    assert news(trace, 111) > 0 and news(trace, 222) == 0
    assert trace.ending() == "detached"
    said = "the recording ended when the program installed a seccomp filter that does not permit futex"
    assert said in trace.run.complaint and said in problems(trace)
    assert steve("summary", trace.path).complaint.count(said) == 1


@pytest.mark.parametrize("kind", LOOSE)
def test_filter_that_permits_enough(kind: str, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "t.ljt", kind)
    assert (news(trace, 111), news(trace, 222)) == (1000, 301_000)
    assert trace.ending() == "exit"
    assert ("forked children are not recorded" in problems(trace)) == (kind == "socket")
    assert ("forked children are not recorded" in trace.run.complaint) == (kind == "socket")


@pytest.mark.parametrize(
    "options",
    ([], ["--when-full=drop"], ["--trace-fork=no"], ["--stack-depth=3"], ["--pages"]),
    ids=("all", "drop", "alone", "flat", "pages"),
)
def test_filter_that_no_function_installs(options: list[str], tmp_path: Path) -> None:
    """The recorder makes no system calls while there is room, also at _exit; so it goes on."""
    trace = recorded(tmp_path / "t.ljt", "bare", *options)
    assert (news(trace, 111), news(trace, 222)) == (1000, 301_000)
    assert trace.ending() == "exit" and "exit status 5" in steve("info", trace.path).text


@pytest.mark.parametrize("options", ([], ["--sample=1k"], ["--pages"]), ids=("all", "sample", "pages"))
def test_exit_before_the_filter_is_seen(options: list[str], tmp_path: Path) -> None:
    """The recorder makes no system calls at exit until the collector has looked for filters."""
    trace = recorded(tmp_path / "t.ljt", "at-once", *options)
    assert news(trace, 222) > 0 and trace.ending() == "exit"
    assert not problems(trace)


def test_detach_from_a_program_with_such_a_filter(tmp_path: Path) -> None:
    """The collector sees the filter. The library is not called any more; the file is complete."""
    path = tmp_path / "t.ljt"
    with started(
        ["ljtrace", "run", f"--out={path}", SANDBOXED, "bare", "after"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as launcher:
        assert launcher.stdin is not None and launcher.stdout is not None and launcher.stdout.readline() == b"ready\n"
        (pid,) = (
            int(pid)
            for pid in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
            if Path(f"/proc/{pid}/exe").resolve() == SANDBOXED.resolve()
        )
        done = run(["ljtrace", "detach", pid])
        wait_for(lambda: not collectors_of(path), "the file is complete")
        assert done.status == 0 and "is recorded no more" in done.complaint
        launcher.stdin.write(b"\n")
        launcher.stdin.close()
        assert launcher.wait(100) == 5
    trace = Trace(path, done).check()
    assert trace.ending() == "detached" and news(trace, 222) == 300_000


def test_lua(tmp_path: Path) -> None:
    """LuaJIT goes on with its functions patched after the recording has ended."""
    script = tmp_path / "s.lua"
    script.write_text(
        """
        local ffi = require "ffi"
        ffi.cdef "int prctl(int, ...); long syscall(long, ...);"
        local status = ffi.cast("long", 6)
        local kept, sum = {}, 0
        for i = 1, 20000 do kept[i] = {i} end -- memory that is used again
        kept = nil
        collectgarbage()
        collectgarbage "stop"
        print "begin"
        io.flush()
        local sink = ffi.C.prctl(22, ffi.cast("unsigned long", 1))
        print(sink)
        for i = 1, 2000 do sum = sum + #{i, i} end
        print(sum)
        io.flush()
        ffi.C.syscall(60, status)
        """
    )
    plain = run(["luajit", "-joff", script])
    assert (plain.status, plain.text) == (6, "begin\n0\n4000\n")
    done = run(["ljtrace", "run", f"--out={tmp_path / 't.ljt'}", "luajit", "-joff", script])
    assert (done.status, done.text) == (plain.status, plain.text), done.complaint
    assert Trace(tmp_path / "t.ljt", done).check().ending() == "detached"


def test_attempts_that_fail_end_nothing(tmp_path: Path) -> None:
    """libseccomp and others look in this way for what the kernel has."""
    source = tmp_path / "probes.c"
    source.write_text(
        """
        #include <linux/filter.h>
        #include <stdlib.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
            struct sock_fprog bad = {10, (void *)8}, none = {0, 0};
            syscall(SYS_seccomp, 0, 1, NULL); syscall(SYS_seccomp, 1, 1, NULL); syscall(SYS_seccomp, 1, 0, 16);
            syscall(SYS_seccomp, 2, 0, &bad); syscall(SYS_seccomp, 1, 0, &bad); syscall(SYS_seccomp, 1, 0, &none);
            prctl(PR_SET_SECCOMP, 2, 0); prctl(PR_SET_NAME, "renamed"); prctl(PR_GET_DUMPABLE);
            free(malloc(444));
            return syscall(SYS_getppid) > 0 && syscall(SYS_close, -1) == -1 ? 3 : 4;
        }"""
    )
    good(["gcc", "-w", "-o", tmp_path / "probes", source])
    done = run(["ljtrace", "run", f"--out={tmp_path / 't.ljt'}", tmp_path / "probes"])
    trace = Trace(tmp_path / "t.ljt", done).check()
    assert (done.status, trace.ending(), news(trace, 444)) == (3, "exit", 1)


CONFINES = """
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned action = atoi(argv[1]) ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS;
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    execvp(argv[2], argv + 2);
    return 99;
}
"""


@pytest.mark.parametrize(
    "call,fails,recorded",
    [("SYS_ptrace", 0, True), ("SYS_sigaltstack", 1, True), ("SYS_sigaltstack", 0, False), ("SYS_recvmsg", 0, False)],
)
def test_inherited_filter(call: str, fails: int, recorded: bool, tmp_path: Path) -> None:
    """ljtrace run itself is started in a sandbox."""
    (tmp_path / "confines.c").write_text(CONFINES.replace("FORBIDDEN", call))
    good(["gcc", "-w", "-o", tmp_path / "confines", tmp_path / "confines.c"])
    path = tmp_path / "t.ljt"
    done = run([tmp_path / "confines", fails, "ljtrace", "run", f"--out={path}", SANDBOXED, "none"])
    assert done.status == (5 if recorded else 125) and path.exists() == recorded
    assert ("cannot record here" in done.complaint) != recorded


# -- ljtrace attach --------------------------------------------------------------------------------------------------


@contextmanager
def waiting(kind: str, when: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program while it waits, before or after its filter. It must end as always."""
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    with started([SANDBOXED, kind, when], **pipes) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process
        out, err = process.communicate(b"\n", timeout=100)
        assert (process.returncode, out, err) == (5, b"done\n", b"")


@pytest.mark.parametrize("kind", STRICT)
def test_attach_is_refused(kind: str, tmp_path: Path) -> None:
    with waiting(kind, "after") as process:
        done = run(["ljtrace", "attach", f"--out={tmp_path / 't.ljt'}", process.pid])
        assert done.status == 125
        assert re.search(
            r"does not permit \w+, which the recorder needs|strict mode|only root can read", done.complaint
        )
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ("none", "trace"))
def test_attach_to_a_program_with_a_filter(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with waiting(kind, "after") as process:
        with started(["ljtrace", "attach", f"--out={path}", process.pid], stderr=subprocess.PIPE) as recorder:
            assert recorder.stderr is not None
            said = recorder.stderr.readline()
            if b"only root can read" in said:
                pytest.skip("filters of other processes cannot be read here")
            assert b"recording process" in said
            out, err = process.communicate(b"\n", timeout=100)
            assert (process.returncode, out) == (5, b"done\n")
            assert recorder.wait(timeout=100) == 0
        process.communicate = lambda *_, **__: (out, err)  # type: ignore[method-assign]
    assert news(Trace(path, Done(0, b"", b"")).check(), 222) == 1000


@pytest.mark.parametrize("kind", STRICT)
def test_filter_after_attaching(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    with waiting(kind, "before") as process:
        recorder = subprocess.Popen(
            ["ljtrace", "attach", f"--out={path}", str(process.pid)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert recorder.stderr is not None and b"recording process" in recorder.stderr.readline()
    said = recorder.stderr.read().decode()
    recorder.stderr.close()
    assert recorder.wait(timeout=100) == 0
    assert "installed a seccomp filter that does not permit futex" in said
    trace = Trace(path, Done(0, b"", b"")).check()
    assert trace.ending() == "detached" and (news(trace, 111), news(trace, 222)) == (1000, 0)
    wait_for(lambda: process.poll() is not None, "the program has ended")
