"""test_false_sharing - false sharing of cache lines in recorded programs, and programs without it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from pathlib import Path

import pytest

from support import good, record, steve

COUNTERS = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
enum { TIMES = 4000000 };
static void *count(void *at) { volatile int *own = at; for (int i = 0; i < TIMES; i++) ++*own; return 0; }
static volatile int *look_at;
static void *look(void *at) { long sum = 0; for (int i = 0; i < TIMES; i++) sum += look_at[16]; return (void *)sum; }
int main(int argc, char **argv) {
    int *cell = aligned_alloc(64, 512), *other = cell + 17;
    void *(*second)(void *) = count;
    memset(cell, 0, 512);
    look_at = cell;
    if (!strcmp(argv[1], "far")) other = cell + 64;
    if (!strcmp(argv[1], "same")) other = cell + 16;
    if (!strcmp(argv[1], "read")) second = look;
    int *first = cell + 16 + !strcmp(argv[1], "read");
    pthread_t a, b;
    pthread_create(&a, 0, count, first);
    if (!strcmp(argv[1], "joined")) pthread_join(a, 0);
    pthread_create(&b, 0, second, other);
    if (strcmp(argv[1], "joined")) pthread_join(a, 0);
    pthread_join(b, 0);
    free(cell);
    return 0;
}
"""
QUEUE = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
struct item { long id, made, used; char text[32]; };
struct queue { pthread_mutex_t lock; pthread_cond_t more, room; struct item *ring[64];
    unsigned head, tail; long put, got; };
static struct queue *q;
static void *produce(void *n) {
    for (long i = 0; i < (long)n; i++) {
        struct item *it = malloc(sizeof *it);
        it->id = i; it->made = 3 * i; memset(it->text, (int)i, sizeof it->text);
        pthread_mutex_lock(&q->lock);
        while (q->head - q->tail == 64) pthread_cond_wait(&q->room, &q->lock);
        q->ring[q->head++ % 64] = it; q->put++;
        pthread_cond_signal(&q->more);
        pthread_mutex_unlock(&q->lock);
    }
    return 0;
}
static void *consume(void *n) {
    long sum = 0;
    for (long i = 0; i < (long)n; i++) {
        pthread_mutex_lock(&q->lock);
        while (q->head == q->tail) pthread_cond_wait(&q->more, &q->lock);
        struct item *it = q->ring[q->tail++ % 64]; q->got++;
        pthread_cond_signal(&q->room);
        pthread_mutex_unlock(&q->lock);
        it->used = it->id + it->made;
        for (unsigned j = 0; j < sizeof it->text; j++) sum += it->text[j];
        free(it);
    }
    return (void *)sum;
}
int main(void) {
    pthread_t t[4];
    q = calloc(1, sizeof *q);
    pthread_mutex_init(&q->lock, 0); pthread_cond_init(&q->more, 0); pthread_cond_init(&q->room, 0);
    for (int i = 0; i < 2; i++) {
        pthread_create(&t[i], 0, produce, (void *)8000);
        pthread_create(&t[2 + i], 0, consume, (void *)8000);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    free(q);
    return 0;
}
"""
POOL = """\
#include <pthread.h>
#include <stdlib.h>
enum { N = 1 << 16, WORKERS = 4, ROUNDS = 30, TASK = 4096 };
static int *cells, next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t bar;
static int task(void) {
    pthread_mutex_lock(&lock);
    int from = next;
    next += TASK;
    pthread_mutex_unlock(&lock);
    return from;
}
static void *work(void *none) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&bar);
        for (int from; (from = task()) < N;) for (int i = from; i < from + TASK; i++) cells[i] += i;
        pthread_barrier_wait(&bar);
    }
    return none;
}
int main(void) {
    pthread_t t[WORKERS];
    long sum = 0;
    cells = calloc(N, sizeof *cells);
    pthread_barrier_init(&bar, 0, WORKERS + 1);
    for (int i = 0; i < WORKERS; i++) pthread_create(&t[i], 0, work, 0);
    for (int round = 0; round < ROUNDS; round++) {
        next = 0;
        pthread_barrier_wait(&bar); pthread_barrier_wait(&bar);
        for (int i = 0; i < N; i += 16) sum += cells[i];
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(t[i], 0);
    free(cells);
    return sum == 42;
}
"""
SHORT = """
#include <pthread.h>
#include <stdlib.h>
static volatile int *cell;
static void *run(void *at) { volatile int *p = at; for (int i = 0; i < 3000000; i++) (*p)++; return NULL; }
int main(int n, char **argv)
{
    pthread_t a, b;
    cell = aligned_alloc(64, 256);
    pthread_create(&a, NULL, run, (void *)&cell[0]);
    pthread_create(&b, NULL, run, (void *)&cell[argv[1][0] == 'f' ? 32 : 1]);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    free((void *)cell);
    return 0;
}
"""
PYTHON = """\
import threading
def run():
    d = {}
    for i in range(8000):
        d[i % 700] = [i, str(i)]
ts = [threading.Thread(target=run) for _ in range(3)]
[t.start() for t in ts]
[t.join() for t in ts]
"""
LUA = "local t = {} for i = 1, 50000 do t[i % 1000] = {i, tostring(i)} end\n"


def built(folder: Path, source: str) -> Path:
    (folder / "t.c").write_text(source)
    good(["gcc", "-g", "-O1", "-pthread", "-o", folder / "t", folder / "t.c"])
    return folder / "t"


def shared(folder: Path, *argv: object) -> list[dict]:
    """Sites with falsely shared lines, computed by one process and by two."""
    path = record(folder / "t.ljt", argv).path
    found = steve("sharing", "--json", "-q", path).text
    assert steve("sharing", "--json", "-q", "-j", "2", path).text == found
    return [row for row in json.loads(found) if row["lines"]]


def falsely_shared(folder: Path, *argv: object) -> list[dict]:
    """The same, of the first of three recordings that shows any: on a busy machine, the kernel may let one thread wait
    until the other has ended, and then the recording is no evidence."""
    for _ in range(3):
        found = shared(folder, *argv)
        if found:
            break
        (folder / "t.ljt").unlink()
    return found


@pytest.mark.parametrize("how,where", [("near", "64-67 | 68-71"), ("read", "64-67 read | 68-71")])
def test_counters_in_one_line(tmp_path: Path, how: str, where: str) -> None:
    (row,) = falsely_shared(tmp_path, built(tmp_path, COUNTERS), how)
    assert row["site"].startswith("main (t.c:") and row["lines"] == 1 and row["threads"] == 2
    assert list(row["places"]) == [where] and row["by_chance"] < 0.05
    assert 100_000 <= row["interleaved"] <= 16_000_000


@pytest.mark.parametrize("how", ["near", "far"])
def test_threads_that_are_soon_done(tmp_path: Path, how: str) -> None:
    """Threads that have some seven turns each alternate all the same."""
    found = (falsely_shared if how == "near" else shared)(tmp_path, built(tmp_path, SHORT), how)
    assert [row["lines"] for row in found] == ([1] if how == "near" else [])


@pytest.mark.parametrize("how", ["far", "same", "joined"])
def test_counters_that_share_nothing_falsely(tmp_path: Path, how: str) -> None:
    assert shared(tmp_path, built(tmp_path, COUNTERS), how) == []


@pytest.mark.parametrize("source", [QUEUE, POOL], ids=["queue", "pool"])
def test_memory_that_is_handed_over(tmp_path: Path, source: str) -> None:
    assert shared(tmp_path, built(tmp_path, source)) == []


@pytest.mark.parametrize("program,script", [("/usr/bin/python3", PYTHON), ("luajit", LUA)], ids=["python", "luajit"])
def test_interpreters(tmp_path: Path, program: str, script: str) -> None:
    (tmp_path / "script").write_text(script)
    assert shared(tmp_path, program, tmp_path / "script") == []
