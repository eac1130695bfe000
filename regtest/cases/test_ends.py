"""test_ends - the trace says how the program ended, separately from whether the trace is complete; and its
threads.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import signal
from pathlib import Path

import pytest

from support import Trace, good, record, recorder, run, steve

ENDS = """
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *leave(void *how) { exit(5); }
int main(int n, char **a)
{
    char *p = malloc(10);
    pthread_t t;
    if (!strcmp(a[1], "segv")) *(volatile char *)16 = 1;
    if (!strcmp(a[1], "term")) raise(SIGTERM);
    if (!strcmp(a[1], "abort")) abort();
    if (!strcmp(a[1], "_exit")) _exit(4);
    if (!strcmp(a[1], "kill")) raise(SIGKILL);
    if (!strcmp(a[1], "exec")) execlp("true", "true", (char *)0);
    if (!strcmp(a[1], "thread")) pthread_create(&t, 0, leave, 0), pthread_join(t, 0);
    free(p);
    return 3;
}
"""
THREADS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static char *passed;
static pthread_mutex_t begin = PTHREAD_MUTEX_INITIALIZER;
static void *run(void *name)
{
    pthread_mutex_lock(&begin);
    pthread_mutex_unlock(&begin);
    if (name) pthread_setname_np(pthread_self(), name);
    free(passed);
    passed = malloc(64);
    return 0;
}
int main(int n, char **a)
{
    for (int i = 0; i < atoi(a[1]); i++) {
        pthread_t t;
        pthread_mutex_lock(&begin);
        pthread_create(&t, 0, run, i == 4 ? "fifth" : 0);
        if (i == 7) pthread_setname_np(t, "eighth");
        pthread_mutex_unlock(&begin);
        pthread_join(t, 0);
    }
    free(passed);
    return 0;
}
"""
EXPECTED = {
    "return": ("exit", 3, None),
    "_exit": ("exit", 4, None),
    "thread": ("exit", 5, None),
    "segv": ("signal", None, "SIGSEGV"),
    "term": ("signal", None, "SIGTERM"),
    "abort": ("signal", None, "SIGABRT"),
    "kill": ("signal", None, "SIGKILL"),
    "exec": ("exec", None, None),
}


def program(folder: Path, source: str) -> Path:
    (folder / "p.c").write_text(source)
    good(["gcc", "-g", "-w", "-pthread", "-o", folder / "p", folder / "p.c"])
    return folder / "p"


@pytest.mark.parametrize("how", EXPECTED)
def test_how_the_program_ended(tmp_path: Path, how: str) -> None:
    trace = record(tmp_path / "t.ljt", [program(tmp_path, ENDS), how], execs=how == "exec")
    ended, status, name = EXPECTED[how]
    assert trace.run.status == (0 if how == "exec" else -signal.Signals[name] if name else status)
    summary = json.loads(steve("summary", "--json", trace.path).text)
    assert summary["program"] == {"ended": ended, "status": status, "signal": name} and summary["complete"]
    assert json.loads(steve("info", "--json", trace.path).text)["program"] == summary["program"]
    shown = {"exit": f"exit status {status}", "signal": name}.get(ended, ended)
    assert f"program ended            {shown}\n" in steve("info", trace.path).text


def threads(trace: Trace) -> list[dict]:
    return json.loads(steve("threads", "--json", trace.path).text)


@pytest.mark.parametrize("count", (40, 1500))
def test_threads_one_after_another(tmp_path: Path, count: int) -> None:
    """Valgrind gives the same number to successive threads; here each thread has its own."""
    trace = record(tmp_path / "t.ljt", [program(tmp_path, THREADS), count])
    rows = threads(trace)
    assert sorted(row["thread"] for row in rows) == list(range(1, count + 2))
    own = [row for row in rows if row["thread"] > 1]
    assert [sum(row["foreign_frees"] for row in some) for some in (own, rows)] == [count - 1, count]
    assert {row["name"]: row["thread"] for row in rows if row["name"]} == {"fifth": 6, "eighth": 9}
    assert json.loads(steve("summary", "--json", trace.path).text)["threads"] == count + 1
    assert "thread 6" not in steve("info", trace.path).text
    for command in (["sharing"], ["ops", "--threads", "-o", "-"], ["check", "-j2"], ["threads", "-j2"]):
        steve(*command, trace.path)


INHERIT = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char *kept[1000];
int main(void)
{
    for (int i = 0; i < 1000; i++) kept[i] = calloc(1, 100);
    pid_t p = fork();
    if (p == 0) {
        char *own = malloc(50);
        own[0] = kept[7][0];
        _exit(0);
    }
    waitpid(p, 0, 0);
    for (int i = 0; i < 1000; i++) free(kept[i]);
    return 0;
}
"""


def test_inherited_blocks(tmp_path: Path) -> None:
    """The child did not allocate them, so they are not leaks and findings of the child."""
    good([*recorder(tmp_path / "f.ljt"), program(tmp_path, INHERIT)])
    (child,) = set(tmp_path.glob("f.*.ljt")) - {tmp_path / "f.ljt"}
    Trace(child, run(["true"])).check()
    info = json.loads(steve("info", "--json", child).text)["recording"]
    assert info["forked_from_file"] == str(tmp_path / "f.ljt") and child.name == f"f.{info['pid']}.ljt"
    for options in ((), ("-j2",)):

        def blocks(command: str, *more: str) -> int:
            rows = json.loads(steve(command, "--json", *more, *options, child).text)
            return sum(row["blocks"] for row in rows)

        assert [
            blocks("leaks"),
            blocks("leaks", "--where", "inherited"),
            blocks("sites", "--where", "not inherited"),
        ] == [1, 1000, 1]
        findings = json.loads(steve("findings", "--json", *options, child).text)
        assert all(found["blocks"] <= 1 for found in findings)
    assert "inherited blocks are left out" in steve("leaks", child).text
