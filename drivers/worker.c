/* worker.c - the process in which one driver does one job.
 *
 * steve-replay starts itself again for each job, so that every run begins with a new allocator, and a crash affects
 * only that run. Until the driver is open, nothing may call malloc, because the C library's malloc may be the
 * allocator under test. Therefore, of stdio only snprintf of integers and strings is used.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/worker.h"
#include "drivers/base/clock.h"
#include "drivers/base/shared.h"
#include "drivers/film/camera.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/measure/measure.h"
#include "drivers/measure/places.h"
#include "drivers/run/engine.h"
#include "drivers/run/engine_batch.h"
#include "drivers/run/system.h"
#include "drivers/run/threads.h"
#include "drivers/supervisor/load_driver.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct shared *open_shared(void)
{
    struct stat s;
    if (fstat(SHARED_FD, &s) != 0 || s.st_size < (off_t)sizeof(struct shared))
        return NULL;
    long p = raw_syscall(SYS_mmap, 0, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    return raw_failed(p) ? NULL : (struct shared *)p;
}

static void fail(struct shared *b, const char *text)
{
    if (text != b->text)
        snprintf(b->text, sizeof b->text, "%s", text);
    b->status = STATUS_FAILED;
}

static void copy_info(struct shared_info *i, const struct steve_driver *d)
{
    snprintf(i->name, sizeof i->name, "%s", d->name);
    snprintf(i->description, sizeof i->description, "%s", d->description);
    snprintf(i->package, sizeof i->package, "%s", d->package ? d->package() : "");
    i->confinement = d->confinement;
    i->flags = d->flags;
    i->least_heap = d->least_heap;
    i->walks = d->walk != NULL;
    i->has_usable = d->usable != NULL;
    i->has_header = d->header != NULL;
    i->compacts = d->compact != NULL;
}

/* JOB_INFO: describe the driver, and check whether it can be used on this system. */
static void tell_info(struct shared *b)
{
    const struct steve_driver *d = load_driver(b->job.driver, b->text, sizeof b->text);
    if (!d) {
        fail(b, b->text);
        return;
    }
    copy_info(&b->info, d);
    const char *reason = d->unavailable ? d->unavailable() : NULL;
    if (!reason && d->confinement == STEVE_BY_SYSCALLS && !region_trap_syscalls())
        reason = "this system does not allow seccomp filters, by which it would be confined";
    if (reason)
        snprintf(b->info.reason, sizeof b->info.reason, "%s", reason);
    b->status = STATUS_DONE;
}

/* Set up the heap and, if the driver needs it, the capturing of its calls. Called before the driver is opened. */
static bool prepare_heap(struct shared *b)
{
    if (!region_reserve(b->job.heap)) {
        fail(b, "the system has no room for a heap of this size: give a smaller --heap");
        return false;
    }
    if (b->job.flags & STEVE_RESERVES)
        region_allow_reservation();
    if (b->job.confinement == STEVE_BY_SYMBOLS || b->job.confinement == STEVE_BY_SYSCALLS)
        region_capture(true);
    if (b->job.confinement == STEVE_BY_SYSCALLS && !region_trap_syscalls()) {
        fail(b, "this system does not allow seccomp filters");
        return false;
    }
    return true;
}

static void replay(struct shared *b, struct engine *e)
{
    switch (b->job.kind) {
    case JOB_FIT:
    case JOB_ONCE:
        batch_run(e, false);
        break;
    case JOB_BATCH:
        batch_run(e, true);
        break;
    case JOB_TIMED:
        engine_timed(e);
        break;
    case JOB_PIECES:
        batch_pieces(e);
        break;
    case JOB_THREADS:
    case JOB_THREADS_SPACE:
        threads_run(e, NULL);
        break;
    case JOB_SYSTEM:
        system_run(e);
        break;
    case JOB_PLACES:
        places_run(e);
        break;
    case JOB_SPACE:
        measure_run(e);
        break;
    default:
        camera_run(e);
    }
}

static void tell_clock(struct shared *b)
{
    b->clock_counter = clock_facts.counter;
    b->clock_cost = (uint64_t)((double)clock_facts.cost * clock_facts.nanoseconds * 1000);
    b->clock_step = (uint64_t)((double)clock_facts.step * clock_facts.nanoseconds * 1000);
}

/* The driver of the job; that of the process's own malloc if it names none. NULL: it cannot be loaded. */
static const struct steve_driver *driver_of(struct shared *b)
{
    return b->job.driver[0] ? load_driver(b->job.driver, b->text, sizeof b->text) : &system_driver;
}

static void do_replay(struct shared *b)
{
    struct engine engine;
    if (b->job.kind != JOB_FIT) { /* nothing is timed in that job */
        clock_facts = b->job.clock;
        tell_clock(b);
    }
    if (!prepare_heap(b))
        return;
    const struct steve_driver *d = driver_of(b);
    if (!d || !engine_open(&engine, b, d)) {
        fail(b, b->text);
    } else if (!d->init(region_base(), region_size())) {
        snprintf(b->text, sizeof b->text, "the allocator cannot start in this heap");
        b->status = STATUS_NO_ROOM;
    } else {
        replay(b, &engine);
    }
}

int worker_main(void)
{
    struct shared *b = open_shared();
    if (!b)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->owner) /* steve-replay ended before this was set */
        return 1;
    if (b->job.kind == JOB_INFO)
        tell_info(b);
    else
        do_replay(b);
    return b->status == STATUS_FAILED;
}
