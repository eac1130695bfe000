/* system.c - the replay on the malloc that the process has.
 *
 * Nothing here allocates memory, because that would change what is measured.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/system.h"
#include "drivers/base/clock.h"
#include "drivers/run/pace.h"
#include "drivers/run/threads.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static bool system_init(void *base, size_t size)
{
    return true;
}

static void *system_malloc(size_t size, uint32_t id)
{
    return malloc(size);
}

static void system_free(void *ref, uint32_t id)
{
    free(ref);
}

static void *system_realloc(void *ref, size_t size, uint32_t id)
{
    return realloc(ref, size);
}

static size_t system_usable(void *ref)
{
    return malloc_usable_size(ref);
}

const struct steve_driver system_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof system_driver,
    .name = "system",
    .description = "malloc of the process: that of the C library, or of LD_PRELOAD",
    .confinement = STEVE_NOT_CONFINED,
    .flags = STEVE_THREADS,
    .init = system_init,
    .malloc = system_malloc,
    .free = system_free,
    .realloc = system_realloc,
    .usable = system_usable,
};

/* A value in bytes from /proc/self/status, where the line `name` has it in kB. 0: it cannot be read. */
static uint64_t status_bytes(const char *name)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

/* Let VmHWM begin at what is resident now. */
static void forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t written = write(fd, "5", 1);
    (void)
        written; /* if it failed, the peak includes the start of the process, which has less than most replays */
    close(fd);
}

static uint64_t nanoseconds(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

struct usage {
    uint64_t wall, user, system, faults;
};

/* What is measured before the first operation, when the replay has all memory of its own, and after the last one. */
struct measured {
    struct engine *e;
    uint64_t baseline, end; /* resident bytes */
    struct usage from, to;
};

static struct usage usage_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (struct usage){clock_wall(), nanoseconds(u.ru_utime), nanoseconds(u.ru_stime),
                          (uint64_t)u.ru_minflt};
}

/* A replay in one thread, which samples the resident memory at the data points. */
struct sampled {
    struct engine *e;
    uint64_t begun;        /* wall time */
    uint64_t samples, sum; /* of resident bytes */
    uint64_t sampling;     /* CPU time of taking the samples */
    uint64_t slept;        /* wall time */
    uint64_t baseline;     /* resident bytes before the first operation */
};

static bool made(void *ctx, struct block *b, void *address)
{
    const struct sampled *r = ctx;
    touch_block(address, b->size, r->e->shared->job.touch);
    return true;
}

static bool freeing(void *ctx, const struct block *b, void *address)
{
    return true;
}

static bool kept(void *ctx, const struct block *b, void *address, uint64_t bytes)
{
    return true;
}

static void locked(void *ctx, const struct block *b, bool is_locked)
{
}

static bool done(void *ctx, char op, uint64_t size)
{
    struct sampled *r = ctx;
    if (!engine_at_point(r->e))
        return true;
    uint64_t from = clock_thread();
    uint64_t resident = status_bytes("VmRSS:");
    r->sum += resident > r->baseline ? resident - r->baseline : 0;
    r->samples++;
    r->sampling += clock_thread() - from;
    r->slept += pace_keep(r->e, r->begun);
    return true;
}

static void note_start(void *ctx)
{
    struct measured *m = ctx;
    struct system_result *result = &m->e->shared->system;
    forget_peak();
    m->baseline = result->baseline = status_bytes("VmRSS:");
    __atomic_store_n(&result->running, 1, __ATOMIC_RELEASE);
    m->from = usage_now();
}

static void note_end(void *ctx)
{
    struct measured *m = ctx;
    m->to = usage_now();
    m->end = status_bytes("VmRSS:");
}

void system_run(struct engine *e)
{
    struct measured m = {.e = e};
    struct sampled r = {.e = e};
    const struct watcher watcher = {
        .ctx = &r, .made = made, .freeing = freeing, .kept = kept, .locked = locked, .done = done};
    const struct threads_events events = {.ctx = &m, .ready = note_start, .done = note_end};
    if (e->shared->job.facts.schedule.threads)
        threads_run(e, &events);
    else {
        note_start(&m);
        r.baseline = m.baseline;
        r.begun = m.from.wall;
        engine_watched(e, &watcher);
        note_end(&m);
    }
    const struct usage from = m.from, to = m.to;
    uint64_t cpu = to.user - from.user + to.system - from.system;
    uint64_t peak = status_bytes("VmHWM:");
    e->shared->system = (struct system_result){
        .baseline = m.baseline,
        .peak = peak > m.end ? peak : m.end, /* the kernel counts some pages of each thread late */
        .end = m.end,
        .ended = status_bytes("VmRSS:"),
        .mean = r.samples ? r.sum / r.samples : 0,
        .sampled = r.samples > 0,
        .user = to.user - from.user,
        .system = to.system - from.system,
        .cpu = cpu > r.sampling ? cpu - r.sampling : 0,
        .wall = to.wall - from.wall - r.slept,
        .faults = to.faults - from.faults,
    };
}
