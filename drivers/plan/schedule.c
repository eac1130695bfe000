/* schedule.c - records which thread did which steps of a plan, and when.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/plan/schedule.h"
#include "memtrace/ops.h"

#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct table {
    char *at;
    size_t used, room; /* bytes */
};

struct schedule {
    struct table runs, times;
    uint32_t threads;
    uint32_t thread;                      /* number of the thread of the current run, in the file */
    bool marked;                          /* there is a thread other than 0 */
    uint64_t untimed;                     /* number of operations before the first with a time */
    uint32_t dense[OPS_MOST_THREADS + 1]; /* by number in the file: dense number + 1; 0 = none yet */
    uint32_t last[OPS_MOST_THREADS + 1];  /* last run, likewise */
};

struct schedule *schedule_new(void)
{
    return calloc(1, sizeof(struct schedule));
}

void schedule_delete(struct schedule *s)
{
    if (!s)
        return;
    free(s->runs.at);
    free(s->times.at);
    free(s);
}

static void *add(struct table *t, size_t size)
{
    if (t->used + size > t->room) {
        size_t room = t->room ? 2 * t->room : 64 * size;
        char *more = realloc(t->at, room);
        if (!more)
            return NULL;
        t->at = more;
        t->room = room;
    }
    t->used += size;
    return t->at + t->used - size;
}

static uint32_t run_count(const struct schedule *s)
{
    return (uint32_t)(s->runs.used / sizeof(struct run));
}

/* Link a run to the previous run of its thread. */
static void link_run(struct schedule *s, uint32_t thread, uint32_t run)
{
    if (s->dense[thread])
        ((struct run *)s->runs.at)[s->last[thread]].next = run;
    else
        s->dense[thread] = ++s->threads;
    s->last[thread] = run;
}

bool schedule_step(struct schedule *s, uint32_t thread, uint64_t step, uint64_t op)
{
    uint32_t count = run_count(s);
    s->marked |= thread != 0;
    if (count && thread == s->thread)
        return true;
    struct run *r = count < NO_RUN ? add(&s->runs, sizeof *r) : NULL;
    if (!r)
        return false;
    link_run(s, thread, count);
    *r = (struct run){step, op, s->dense[thread] - 1, NO_RUN};
    s->thread = thread;
    return true;
}

static bool put_time(struct schedule *s, uint64_t time)
{
    uint64_t *t = add(&s->times, sizeof *t);
    if (t)
        *t = time;
    return t;
}

bool schedule_time(struct schedule *s, uint64_t time)
{
    if (time == 0 && s->times.used == 0) {
        s->untimed++;
        return true;
    }
    for (; s->untimed; s->untimed--)
        if (!put_time(s, 0))
            return false;
    return put_time(s, time);
}

static bool write_table(const struct table *t, int fd, uint64_t at)
{
    for (size_t done = 0; done < t->used;) {
        ssize_t n = pwrite(fd, t->at + done, t->used - done, (off_t)(at + done));
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

bool schedule_write(const struct schedule *s, int fd, uint64_t bytes, struct schedule_facts *f)
{
    *f = (struct schedule_facts){.runs_at = whole_pages(bytes), .latency_at = whole_pages(bytes)};
    if (s->marked) {
        f->threads = s->threads;
        f->runs = run_count(s);
        f->latency_at += whole_pages(s->runs.used);
    }
    f->times = s->times.used / sizeof(uint64_t);
    return (!s->marked || write_table(&s->runs, fd, f->runs_at)) && write_table(&s->times, fd, f->latency_at);
}
