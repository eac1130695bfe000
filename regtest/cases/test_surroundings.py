"""test_surroundings - programs that cannot be recorded natively, low limits, namespaces: the program is always as without.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

from support import (
    BUILD,
    NATIVE,
    SECONDS,
    Done,
    Trace,
    collectors_of,
    good,
    processes,
    recorder,
    run,
    started,
    steve,
    wait_for,
)

ATTACHER = BUILD / "ljtrace/valgrind-lib/ljtrace-attach"
LAUNCHER = BUILD / "ljtrace/valgrind-lib/ljtrace-run"  # not the script, whose shell also needs descriptors
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    char *p = malloc(1234);
    strcpy(p, "kept");
    p = realloc(p, 54321);
    for (char **e = environ; *e; e++)
        if (strstr(*e, "ljtrace-native") || strncmp(*e, "LJTRACE_NATIVE", 14) == 0)
            puts(*e);
    printf("%s %d\n", p, argc);
    fprintf(stderr, "to stderr\n");
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        int status;
        fflush(stdout);
        if (fork() == 0) {
            free(malloc(777));
            _exit(6);
        }
        wait(&status);
        printf("child %d\n", status);
    }
    free(p);
    return 3;
}
"""


def natively(path: Path, *options: str) -> list[object]:
    return [LAUNCHER, f"--out={path}", *options]


def own_lines(done: Done) -> list[str]:
    return [line for line in done.complaint.splitlines() if line.startswith("ljtrace: ")]


def is_as_plain(done: Done, plain: Done) -> bool:
    """Are the outputs and the status those without the recorder?"""
    theirs = [line for line in done.complaint.splitlines() if not line.startswith("ljtrace: ")]
    return (done.status, done.out, theirs) == (plain.status, plain.out, plain.complaint.splitlines())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    (made / "p.c").write_text(PROGRAM)
    good(["gcc", "-w", "-o", made / "dynamic", made / "p.c"])
    return made


def built(folder: Path, name: str, compiler: str, package: str, *options: str) -> Path:
    """The program, built in another way."""
    program = folder / name
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed (package {package})")
    done = run([compiler, "-w", *options, "-o", program, folder / "p.c"])
    if done.status != 0:
        pytest.skip(f"{compiler} {' '.join(options)} does not work here (package {package})")
    return program


# -- programs that do not load the library -----------------------------------------------------------------------------


@pytest.mark.parametrize("through", ("itself", "script", "PATH", "descriptor"))
@pytest.mark.parametrize(
    "kind, compiler, package, options, reason",
    [
        ("musl", "musl-gcc", "musl-tools", [], "uses the C library musl"),
        ("static", "gcc", "libc6-dev", ["-static"], "is a static program"),
        ("static-pie", "gcc", "libc6-dev", ["-static-pie"], "is a static program"),
        ("small", "gcc", "gcc-multilib", ["-m32"], "is a 32-bit program"),
    ],
)
def test_program_without_the_library(
    kind: str, compiler: str, package: str, options: list[str], reason: str, through: str, folder: Path, tmp_path: Path
) -> None:
    """It runs as without the recorder. One message says why nothing is recorded, before it starts; there is no file, also
    none of an earlier run."""
    program = built(folder, kind, compiler, package, *options)
    path = tmp_path / "t.ljt"
    path.write_text("of an earlier run")
    script = tmp_path / "script"
    script.write_text(f"#!{program} word\n")
    script.chmod(0o755)
    descriptor = ["sh", "-c", f'exec "$@" 9<{program}', "sh"] if through == "descriptor" else []
    name = {"itself": program, "script": script, "PATH": kind, "descriptor": "/dev/fd/9"}[through]
    env = {"PATH": f"/nonexistent:{tmp_path}:{folder}:{os.environ['PATH']}"}
    plain = run([*descriptor, name], env=env)
    done = run([*descriptor, *natively(path), name], env=env)
    assert plain.status == 3 and is_as_plain(done, plain), done.complaint
    assert len(own_lines(done)) == 1 and reason in own_lines(done)[0] and not path.exists()
    assert done.complaint.startswith("ljtrace: "), "it is said before the program runs"


LOADER = Path("/lib64/ld-linux-x86-64.so.2")


def test_program_of_an_older_glibc(folder: Path, tmp_path: Path) -> None:
    """Its loader would end it, because the library needs symbols of a newer one."""
    banner = re.search(rb"ld\.so \([^)]*\) \w+ release version (2\.\d\d)\.", LOADER.read_bytes())
    assert banner is not None
    loader = tmp_path / "loader.so"
    loader.write_bytes(LOADER.read_bytes().replace(banner[0], banner[0].replace(banner[1] + b".", b"2.17.")))
    loader.chmod(0o755)
    program = built(folder, "older", "gcc", "gcc", f"-Wl,--dynamic-linker={loader}")
    done = run([*natively(tmp_path / "t.ljt"), program])
    assert is_as_plain(done, run([program])), done.complaint
    assert re.search(r"uses glibc 2\.17, and the recorder needs 2\.\d\d;", done.complaint)


def test_loader_as_a_command(folder: Path, tmp_path: Path) -> None:
    """It has no loader itself, as a static program, but loads the library."""
    argv = [LOADER, folder / "dynamic"]
    done = run([*natively(tmp_path / "t.ljt"), *argv])
    assert is_as_plain(done, run(argv)) and Trace(tmp_path / "t.ljt", done).check().counts()["new"] > 0, done.complaint


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users reach; those of the test runner belong to its user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o777)
        yield Path(name)


def test_program_with_privileges(folder: Path, open_folder: Path) -> None:
    """glibc ignores LD_PRELOAD in a set-user-id program, which must not inherit the variables either."""
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if os.geteuid() != 0 or run([*user, LAUNCHER, "--version"]).status != 0:
        pytest.skip("this test has to be run by root, in a folder that all users can read")
    program = Path(shutil.copy(folder / "dynamic", open_folder / "privileged"))
    program.chmod(0o4755)
    plain = run([*user, program])
    done = run([*user, *natively(open_folder / "t.ljt"), program])
    assert is_as_plain(done, plain) and "runs with other privileges" in own_lines(done)[0], done.complaint
    program.chmod(program.stat().st_mode & ~stat.S_ISUID)
    done = run([*user, *natively(open_folder / "t.ljt"), program])
    assert is_as_plain(done, plain) and Trace(open_folder / "t.ljt", done).check().counts()["new"] > 0


def test_no_room_for_the_variables(folder: Path, tmp_path: Path) -> None:
    """The arguments fit, but not with the recorder's variables: the program runs without them."""
    limited = ["sh", "-c", 'ulimit -s 1024; exec "$@"', "sh"]  # the kernel permits a quarter

    def argv(n: int) -> list[object]:
        return [folder / "dynamic", *[8000 * "x"] * 20, n * "x"]

    least, most = 0, 120_000
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if run([*limited, *argv(middle)], cwd=tmp_path).status == 3 else (least, middle)
    command = [LAUNCHER, "--out=t"]
    longer = max(0, len(str(LAUNCHER)) - len(str(folder / "dynamic")))  # the kernel also copies the program's path
    room = sum(len(str(word)) + 1 + 8 for word in command) + longer + 8
    if least < room:
        pytest.skip("the kernel has another limit on arguments")
    done = run([*limited, *command, *argv(least - room)], cwd=tmp_path)
    assert is_as_plain(done, run(argv(least - room))), done.complaint
    assert "leave no room" in own_lines(done)[0] and not (tmp_path / "t").exists()


def test_the_value_of_ld_preload_is_long(folder: Path, tmp_path: Path) -> None:
    env = {"LD_PRELOAD": 20_000 * ":" + "libm.so.6"}
    argv = ["sh", "-c", "echo ${#LD_PRELOAD}"]
    done = run([*natively(tmp_path / "t.ljt"), *argv], env=env)
    assert is_as_plain(done, run(argv, env=env)) and done.text == "20009\n"


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ("1200", "4000", "20000", "100000"))
def test_limit_on_the_size_of_files(limit: str, folder: Path, tmp_path: Path) -> None:
    """The ring is a file for the kernel, and smaller then; also that of a forked child. The unit is 512 bytes."""
    limited = ["sh", "-c", f'ulimit -f {limit}; exec "$@"', "sh"]
    argv = [folder / "dynamic", "fork"]
    plain = run([*limited, *argv])
    done = run([*limited, *natively(tmp_path / "t.ljt"), *argv])
    assert is_as_plain(done, plain) and plain.text.endswith("child 1536\n"), done.complaint
    trace = Trace(tmp_path / "t.ljt", done).check()
    assert trace.ending() == "exit" and [e[3] for e in trace.events() if e[0] == "resize"] == ["54321"]
    wait_for(lambda: not collectors_of(tmp_path / "t.ljt"), "the collector of the child has ended")
    (child,) = tmp_path.glob("t.*.ljt")
    assert any(e[0] == "new" and e[3] == "777" for e in Trace(child, done).check().events())


def test_limit_on_the_size_of_files_under_valgrind(folder: Path, tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -f 1200; exec "$@"', "sh"]
    done = run([*limited, *recorder(tmp_path / "t.ljt"), folder / "dynamic"])
    assert (done.status, done.text) == (3, "kept 1\n"), done.complaint
    assert Trace(tmp_path / "t.ljt", done).check().ending() == "exit"


def test_limit_that_the_trace_reaches(tmp_path: Path) -> None:
    """The file ends below the limit, in order; the program writes until its own end by SIGXFSZ."""
    source, path = tmp_path / "big.c", tmp_path / "t.ljt"
    source.write_text(
        r"""
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            unsigned seed = 1;
            for (int i = 0; i < 300000; i++) {
                seed = seed * 1103515245 + 12345;
                free(malloc(seed >> 16));
            }
            FILE *f = fopen("own", "w");
            for (int i = 0; f && i < 1000000; i++)
                fputs("ten bytes\n", f);
            return 4;
        }"""
    )
    good(["gcc", "-o", tmp_path / "big", source])
    done = run(["sh", "-c", 'ulimit -f 1200; exec "$@"', "sh", *natively(path), tmp_path / "big"], cwd=tmp_path)
    assert done.status == -signal.SIGXFSZ and (tmp_path / "own").stat().st_size == 1200 * 512 == 614_400
    assert re.search(r"ulimit -f\) was reached: at least \d+ events were dropped", done.complaint)
    trace = Trace(path, done).check()
    assert trace.ending() == "limit" and trace.counts()["new"] > 1000 and path.stat().st_size < 614_400


def test_limit_that_is_too_low(folder: Path, tmp_path: Path) -> None:
    done = run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *natively(tmp_path / "t.ljt"), folder / "dynamic"])
    assert done.status == 125 and not done.out and "ulimit -f" in done.complaint


@pytest.mark.parametrize("option", ("-S", ""))
@pytest.mark.parametrize("limit", (3, 5, 8, 10, 12))
def test_few_descriptors(limit: int, option: str, tmp_path: Path) -> None:
    """The program has the descriptors and the limits that it has otherwise. If the recorder cannot get its own, it says so
    before the program runs."""
    (tmp_path / "p.c").write_text(
        r"""
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/resource.h>
        int main(void) {
            struct rlimit l;
            int n = 0;
            free(malloc(100));
            getrlimit(RLIMIT_NOFILE, &l);
            for (int fd = 0; fd < 3000; fd++)
                if (fcntl(fd, F_GETFD) >= 0)
                    printf("%d ", fd);
            while (open("/dev/null", O_RDONLY) >= 0)
                n++;
            printf("%d %d %d\n", (int)l.rlim_cur, (int)l.rlim_max, n);
            return 3;
        }"""
    )
    program = tmp_path / "p"
    good(["gcc", "-static-libgcc", "-o", program, tmp_path / "p.c"])
    if limit == 3 and not option:
        pytest.skip("no dynamic program can be started with three descriptors")
    limited = [shutil.which("prlimit") or "prlimit", f"--nofile={limit}" + (":" if option else "")]
    plain = run([*limited, program])
    done = run([*limited, *natively(tmp_path / "t.ljt"), program])
    if plain.status != 3:
        assert done.status in (125, 127)
    elif done.status == 125:
        assert not option and "descriptors are left" in done.complaint and not done.out
    else:
        assert is_as_plain(done, plain), done.complaint
        assert Trace(tmp_path / "t.ljt", done).check().counts()["new"] > 0


@pytest.mark.parametrize("closed", ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"))
def test_closed_standard_descriptors(closed: str, folder: Path, tmp_path: Path) -> None:
    listing = f"ls -l /proc/self/fd | wc -l >{tmp_path}/seen; readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 >>{tmp_path}/seen"
    seen = []
    for command in ([], natively(tmp_path / "t.ljt")):
        done = run(["sh", "-c", f'"$@" {closed}', "sh", *command, "sh", "-c", listing])
        seen.append((done.status, re.sub(r"\d{4,}", "N", (tmp_path / "seen").read_text())))
    assert seen[0] == seen[1]
    assert Trace(tmp_path / "t.ljt", done).check().ending() in ("exec", "exit")


WAITS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct rlimit l;
    int n = 0;
    while (argc > 1 && open("/dev/null", O_RDONLY) >= 0)
        ;
    puts("ready");
    fflush(stdout);
    for (int c; (c = getchar()) != EOF;) {
        free(malloc(555));
        puts("done");
        fflush(stdout);
    }
    for (int fd = 0; fd < 3000; fd++)
        n += close(fd) == 0 && fd > 2;
    getrlimit(RLIMIT_NOFILE, &l);
    return n == (argc > 1 ? (int)l.rlim_cur - 3 : 0) ? 3 : 4;
}
"""


@pytest.mark.parametrize(
    "target, launcher",
    [
        (["prlimit", "--nofile=8:", "PROGRAM", "all"], []),
        (["PROGRAM"], ["prlimit", "--fsize=700000"]),
        (["PROGRAM"], ["prlimit", "--nofile=6:"]),
        (["prlimit", "--fsize=100", "PROGRAM"], []),
        (["unshare", "-pf", "PROGRAM"], []),
        (["unshare", "-Urpf", "PROGRAM"], []),
    ],
    ids=("no descriptor left", "small files", "few descriptors", "small files of the program", "pid", "pid and user"),
)
def test_attach(target: list[str], launcher: list[str], tmp_path: Path) -> None:
    """The process and its limits are as before."""
    (tmp_path / "p.c").write_text(WAITS)
    program, path = tmp_path / "p", tmp_path / "t.ljt"
    good(["gcc", "-w", "-o", program, tmp_path / "p.c"])
    argv = [program if word == "PROGRAM" else word for word in target]
    if target[0] == "unshare" and run([*target[:-1], "true"]).status != 0:
        pytest.skip(f"{' '.join(target[:-1])} is not permitted here")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(argv, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pid = next(pid for pid, words in processes() if words[0] == os.fsencode(program))
        attaching = [*launcher, ATTACHER, "attach", f"--out={path}", pid]
        with started(attaching, stderr=subprocess.PIPE) as attached:
            assert attached.stderr is not None
            said = attached.stderr.readline()
            assert b"recording process" in said, said
            process.stdin.write(b"x")
            process.stdin.flush()
            assert process.stdout.readline() == b"done\n"
            attached.send_signal(signal.SIGINT)
            assert attached.wait(SECONDS) == 0
        process.stdin.close()
        assert process.wait(SECONDS) == 3
    trace = Trace(path, Done(0, b"", b"")).check()
    assert trace.ending() == "detached" and any(e[0] == "new" and e[3] == "555" for e in trace.events())


# -- namespaces --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", ("native", "valgrind"))
@pytest.mark.parametrize("options", ("-pf", "-Urpf", "-pfm --mount-proc", "-Urpfm chroot /"))
def test_child_in_a_pid_namespace(options: str, recorded: str, folder: Path, tmp_path: Path) -> None:
    """Its collector knows when it ends, though it is process 1 for itself."""
    argv = ["unshare", *options.split(), folder / "dynamic", "fork"]
    plain = run(argv)
    if plain.status != 3:
        pytest.skip(f"unshare {options} is not permitted here: {plain.complaint}")
    path = tmp_path / "t.ljt"
    command = natively(path) if recorded == "native" else recorder(path, "-q")
    done = run([*command, *argv])
    assert (done.status, done.out) == (plain.status, plain.out), done.complaint
    wait_for(lambda: not collectors_of(path), "no collector waits for ever")


FORKS_IN_NAMESPACE = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int status;
    if (unshare(NAMESPACE) != 0)
        return 77;
    if (fork() == 0) {
        free(malloc(777));
        _exit(getpid() == 1 ? 5 : 6);
    }
    wait(&status);
    return WEXITSTATUS(status);
}
"""


def test_child_is_process_1(tmp_path: Path) -> None:
    """The file has the number by which others know it, and how it ended."""
    (tmp_path / "p.c").write_text(FORKS_IN_NAMESPACE.replace("NAMESPACE", "CLONE_NEWUSER | CLONE_NEWPID"))
    good(["gcc", "-o", tmp_path / "p", tmp_path / "p.c"])
    path = tmp_path / "t.ljt"
    done = run([*natively(path), tmp_path / "p"])
    if done.status == 77:
        pytest.skip("namespaces are not permitted here")
    assert done.status == 5, done.complaint
    wait_for(lambda: not collectors_of(path), "no collector waits for ever")
    (child,) = tmp_path.glob("t.*.ljt")
    facts = json.loads(steve("info", "--json", child).text)
    assert facts["recording"]["pid"] == child.name.split(".")[1] != "1"
    assert facts["program"]["status"] == 5
    assert any(e[0] == "new" and e[3] == "777" for e in Trace(child, done).check().events())


def test_child_in_a_network_namespace(tmp_path: Path) -> None:
    """It cannot reach its collector. It is not delayed, and the trace of its parent says that it is missing."""
    (tmp_path / "p.c").write_text(FORKS_IN_NAMESPACE.replace("NAMESPACE", "CLONE_NEWUSER | CLONE_NEWNET"))
    good(["gcc", "-o", tmp_path / "p", tmp_path / "p.c"])
    path = tmp_path / "t.ljt"
    done = run([*natively(path), tmp_path / "p"])
    if done.status == 77:
        pytest.skip("namespaces are not permitted here")
    said = "1 forked child is not recorded"
    assert done.status == 6 and done.complaint.count(said) == 1 and not list(tmp_path.glob("t.*.ljt"))
    assert json.loads(steve("info", "--json", path).text)["recording"]["unrecorded_children"] == "1"
    assert said in steve("summary", path).complaint


# -- the process -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, status",
    [
        ('rmdir(getcwd(path, sizeof path)); free(malloc(99)); execl("/bin/true", "true", (char *)0);', 0),
        ("prctl(PR_SET_DUMPABLE, 0); free(malloc(99));", 3),
        ("if (fork() == 0) { setsid(); free(malloc(99)); _exit(0); } wait(0); free(malloc(99));", 3),
        ("signal(SIGXFSZ, SIG_IGN); signal(SIGPIPE, SIG_IGN); free(malloc(99)); abort();", -signal.SIGABRT),
    ],
    ids=("deleted folder", "not dumpable", "setsid", "ignored signals"),
)
def test_unusual_processes(body: str, status: int, tmp_path: Path) -> None:
    source = tmp_path / "p.c"
    headers = ("signal", "stdlib", "sys/prctl", "sys/wait", "unistd")
    source.write_text(
        "".join(f"#include <{name}.h>\n" for name in headers)
        + f"char path[4096];\nint main(void) {{ {body} return 3; }}\n"
    )
    good(["gcc", "-w", "-o", tmp_path / "p", source])
    for command in ([], natively(tmp_path / "t.ljt")):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = run([*command, tmp_path / "p"], cwd=tmp_path / "gone")
        assert done.status == status, done.complaint
    assert any(e[0] == "new" and e[3] == "99" for e in Trace(tmp_path / "t.ljt", done).check().events())


def test_script_without_a_first_line_and_empty_name(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo said; exit 4\n")
    script.chmod(0o755)
    done = run([*natively(tmp_path / "t.ljt"), script])
    assert (done.status, done.text) == (4, "said\n") and (tmp_path / "t.ljt").exists()
    done = run([*natively(tmp_path / "u.ljt"), ""])
    assert done.status == 127 and not (tmp_path / "u.ljt").exists()


def test_no_proc(tmp_path: Path) -> None:
    """/proc is empty where the program runs."""
    probe = run(["unshare", "-m", "true"])
    if probe.status != 0:
        pytest.skip(f"cannot have mounts of its own: {probe.complaint.strip()}")
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc; exec "$@"', "sh"]
    argv = [NATIVE / "conduct", "fork"]
    done = run([*hidden, *natively(tmp_path / "t.ljt"), *argv])
    plain = run([*hidden, *argv])
    assert (done.status, done.out) == (plain.status, plain.out), done.complaint
    assert Trace(tmp_path / "t.ljt", done).check().counts()["new"] > 0
