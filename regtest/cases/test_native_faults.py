"""test_native_faults - what can happen to a process and its files under the native recorder (`ljtrace run`): the
program does the same as without it, and the trace is complete up to that moment.

The same programs run under Valgrind in test_fates, test_places and test_badinput. SIGKILL, forks, exec, the end of the
collector and of the launcher are in test_native, a full ring in test_native_full, sandboxes in test_native_seccomp.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support import APP_C, NATIVE, Trace, good, numbers, run, settled, steve
from test_badinput import small_disk  # noqa: F401 - a fixture
from test_fates import AFTER, BEFORE, ENDING, FATES, LIVING, STORMS, check_children, sizes
from test_native import native, natively, without_own_lines


def fate(mode: str, folder: Path) -> Trace:
    trace, plain = natively(folder / "t.ljt", [FATES, mode]), run([FATES, mode])
    assert (trace.run.status, trace.run.out, without_own_lines(trace.run)) == (plain.status, plain.out, plain.err)
    return trace


@pytest.mark.parametrize("mode", ENDING)
def test_ways_to_end(mode: str, tmp_path: Path) -> None:
    trace = fate(mode, tmp_path)
    assert trace.ending() == "exit"
    assert BEFORE in sizes(trace) and AFTER not in sizes(trace)
    assert mode != "handled-term" or "3015" in sizes(trace), "the handler of the last signal"


@pytest.mark.parametrize("mode", LIVING)
def test_ways_to_live_on(mode: str, tmp_path: Path) -> None:
    trace = fate(mode, tmp_path)
    assert trace.ending() == "exit"
    assert sizes(trace).count(BEFORE) == 1 and sizes(trace).count(AFTER) == 1


def test_everything_at_once(tmp_path: Path) -> None:
    """64 threads, signal handlers whose stacks are on the heap, children that allocate or execute another program."""
    plain = run([NATIVE / "storm"])
    for turn in range(STORMS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        trace = natively(folder / "t.ljt", [NATIVE / "storm"])
        assert (trace.run.status, trace.run.out) == (plain.status, plain.out)
        made = [e for e in trace.events() if e[0] == "new" and e[5] == "malloc" and 0 < int(e[3]) <= 300]
        assert trace.ending() == "exit" and len(made) >= 64 * 60 * 5
        check_children(folder, 8)
        shutil.rmtree(folder)


def test_exceptions(tmp_path: Path) -> None:
    trace, plain = natively(tmp_path / "t.ljt", [NATIVE / "throws"]), run([NATIVE / "throws"])
    assert (trace.run.status, trace.run.out) == (plain.status, plain.out)
    assert trace.counts()["new"] > 4 * 200 * 16 and trace.counts()["badfree"] == 0


OWN = """
#include <stddef.h>
#include <string.h>
/* An allocator without locks, which signal handlers may call. */
static char s_memory[512 << 20] __attribute__((aligned(16)));
static size_t s_used;
void *malloc(size_t n) {
    size_t bytes = (n + 31) & ~(size_t)15, at = __atomic_fetch_add(&s_used, bytes, __ATOMIC_RELAXED);
    if (n > sizeof s_memory || at + bytes > sizeof s_memory) return NULL;
    *(size_t *)(s_memory + at) = n;
    return s_memory + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t a, size_t b) { return malloc(a * b); } /* the memory is fresh */
void *realloc(void *p, size_t n) {
    void *q = malloc(n);
    if (p && q) memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
    return q;
}
"""
INTERRUPTED = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile long s_handled;
static void on_signal(int signal) {
    (void)signal;
    for (int i = 0; i < 3; i++) free(malloc(777));
    s_handled++;
}
int main(void) {
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 0; i < 300000; i++) free(malloc(55));
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld\\n", s_handled);
}
"""


def test_allocation_in_signal_handlers(tmp_path: Path) -> None:
    """The handlers interrupt the recorder in the middle of events. The program has a malloc that handlers may call."""
    (tmp_path / "own.c").write_text(OWN)
    (tmp_path / "interrupted.c").write_text(INTERRUPTED)
    good(["gcc", "-O2", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", tmp_path / "libown.so", tmp_path / "own.c"])
    linked = [f"-L{tmp_path}", "-lown", f"-Wl,-rpath,{tmp_path}"]
    good(["gcc", "-O1", "-fno-builtin", "-w", "-o", tmp_path / "p", tmp_path / "interrupted.c", *linked])
    trace = natively(tmp_path / "t.ljt", [tmp_path / "p"])
    handled = int(trace.run.out)
    lost = json.loads(steve("summary", "--json", trace.path).text).get("lost", {}).get("in_handlers", 0)
    plain, of_handlers = (numbers(trace.view("tally", size)) for size in (55, 777))
    assert handled > 100
    assert plain["new"] == plain["free"] == 300_000
    assert of_handlers["new"] + of_handlers["free"] + lost == 6 * handled


def test_malloc_in_the_program_itself(tmp_path: Path) -> None:
    """The program goes on with its own functions, whose blocks are not recorded. Its output is as usual."""
    (tmp_path / "p.c").write_text(OWN + INTERRUPTED)
    good(["gcc", "-O1", "-w", "-fno-builtin", "-rdynamic", "-o", tmp_path / "p", tmp_path / "p.c"])
    trace = natively(tmp_path / "t.ljt", [tmp_path / "p"])
    assert trace.run.status == 0 and int(trace.run.out) > 100 and trace.counts()["badfree"] == 0


def test_objects_that_come_and_go(tmp_path: Path) -> None:
    """Two libraries are loaded in turn, most likely at the same addresses. Each block has the function that made it."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(f"#include <stdlib.h>\nvoid *make_{name}(void) {{ return malloc(91); }}\n")
        good(["gcc", "-g", "-w", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", tmp_path / f"{name}.c"])
    (tmp_path / "p.c").write_text(
        """
        #include <dlfcn.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            for (int i = 0; i < 100; i++) {
                void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
                void *(*make)(void) = dlsym(library, i % 2 ? "make_two" : "make_one");
                free(make());
                dlclose(library);
            }
        }"""
    )
    good(["gcc", "-w", "-o", tmp_path / "p", tmp_path / "p.c"])
    trace = natively(tmp_path / "t.ljt", [tmp_path / "p", tmp_path / "one.so", tmp_path / "two.so"])
    rows = json.loads(steve("sites", "--json", "--by=function", trace.path).text)
    counts = Counter({row["site"].split(" ")[0]: row["blocks"] for row in rows})
    assert counts["make_one"] == counts["make_two"] == 50


def test_disk_gets_full(small_disk: Path) -> None:  # noqa: F811
    path = small_disk / "t.ljt"
    done, plain = run([*native(path), APP_C, "60000"]), run([APP_C, "60000"])
    assert (done.status, done.out) == (plain.status, plain.out)
    assert str(path) in done.complaint and re.search("No space left|cannot write", done.complaint)
    remains = run(["steve", "dump", path])
    assert remains.status == 1 and len(remains.out) > 1000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_device_is_full_from_the_start(tmp_path: Path) -> None:
    done, plain = run([*native(Path("/dev/full")), APP_C, "300"]), run([APP_C, "300"])
    assert "/dev/full" in done.complaint
    assert (done.status, done.out) in ((125, b""), (plain.status, plain.out))


def test_output_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    done = run([*native(path), "sh", "-c", f"rm -f {path}; echo gone"])
    assert (done.status, done.text) == (0, "gone\n")
    assert "removed" in done.complaint or path.exists()


def test_few_descriptors(tmp_path: Path) -> None:
    """The limit is in force from the start and, being a hard one, cannot be raised."""
    done = run(["sh", "-c", f"ulimit -n 12; exec ljtrace run --out={tmp_path / 't.ljt'} {APP_C} 300"])
    assert done.status == run([APP_C, "300"]).status, done.complaint
    settled(tmp_path / "t.ljt")
