/* probe.c - searches for the largest block that can still be allocated.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/measure/probe.h"
#include "drivers/base/clock.h"
#include "drivers/heap/raw_syscalls.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ID = 0xfffffff0u }; /* no block of the replay has this id */
enum { FIRST_STEP = 16, MOST_DISTRUST = 2 };
enum answer { NO, YES, CRASHED };

/* Bounds: a block of `fits` bytes can be allocated, one of `fails` bytes cannot. */
struct range {
    uint64_t fits, fails;
};

/* Memory shared by the replay, the searching process and their children. */
struct probe_shared {
    uint64_t size, yes, nanoseconds; /* of a trial */
    uint64_t more;                   /* of a trial of one byte more */
    uint64_t fits, fails, step;      /* of a search */
    struct probe_result result;      /* of the whole search */
    unsigned distrust;
};

bool probe_open(struct probe *p, const struct steve_driver *driver, uint64_t limit,
                volatile uint64_t *heartbeat)
{
    long m = raw_syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *p = (struct probe){
        .driver = driver, .limit = limit, .shared = (struct probe_shared *)m, .heartbeat = heartbeat};
    return !raw_failed(m);
}

static void *try_size(const struct probe *p, uint64_t size)
{
    void *ref = p->driver->malloc(size, ID);
    if (!ref && p->driver->compact && p->driver->compact(size))
        ref = p->driver->malloc(size, ID);
    return ref;
}

/* In a child: can a block of this size be allocated, and how long does it take? */
static void trial(struct probe *p)
{
    uint64_t from = clock_ticks();
    void *ref = try_size(p, p->shared->size);
    p->shared->nanoseconds = clock_between(from, clock_ticks());
    p->shared->yes = ref != NULL;
}

/* In a child: can one byte more be allocated? */
static void trial_above(struct probe *p)
{
    p->shared->more = try_size(p, p->shared->size + 1) != NULL;
}

/* In a child: both trials. */
static void double_trial(struct probe *p)
{
    trial_above(p);
    p->shared->yes = p->shared->more;
    if (!p->shared->more)
        trial(p);
}

/* In a child: search by bisection, freeing each block. */
static void search(struct probe *p)
{
    struct probe_shared *s = p->shared;
    while (s->fails - s->fits > 1) {
        uint64_t size = s->fits + (s->fails - s->fits) / 2;
        void *ref = try_size(p, size);
        if (ref) {
            p->driver->free(ref, ID);
            s->fits = size;
        } else {
            s->fails = size;
        }
    }
}

/* In a child: search downwards in growing steps until a block can be allocated. */
static void advance(struct probe *p)
{
    struct probe_shared *s = p->shared;
    while (s->fails - s->fits > 1) {
        bool gallop = s->fits == 0 && s->step < s->fails;
        uint64_t size = gallop ? s->fails - s->step : s->fits + (s->fails - s->fits) / 2;
        s->step *= 2;
        if (try_size(p, size)) {
            s->fits = size;
            return;
        }
        s->fails = size;
    }
}

/* Fork a process that ends with its parent; -1 on error. _Fork runs no handlers of allocators, which would change their
 * memory and take longer. */
static pid_t begin_child(struct probe *p, void (*work)(struct probe *))
{
    ++*p->heartbeat;
    pid_t parent = getpid(), child = _Fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            work(p);
        _exit(0);
    }
    return child;
}

/* Wait for a child. False if it crashed or does not exist. */
static bool await_child(pid_t child)
{
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && status == 0;
}

/* Run one of these functions in a child. False if the child crashed. */
static bool in_child(struct probe *p, void (*work)(struct probe *))
{
    return await_child(begin_child(p, work));
}

/* Can a block of this size be allocated, in a new child? */
static enum answer fits(struct probe *p, uint64_t size, uint64_t *nanoseconds)
{
    if (size == 0 || size > p->limit)
        return size == 0 ? YES : NO;
    p->shared->size = size;
    if (!in_child(p, trial))
        return CRASHED;
    if (nanoseconds && p->shared->yes)
        *nanoseconds = p->shared->nanoseconds;
    return p->shared->yes ? YES : NO;
}

/* Is `size` the largest? If not, the bounds are narrowed. If it most likely is, both trials run at the same time. */
static enum answer verify(struct probe *p, uint64_t size, struct range *range, uint64_t *nanoseconds)
{
    const bool both = p->steady && size < p->limit;
    p->shared->size = size;
    const pid_t above = both ? begin_child(p, trial_above) : 0;
    enum answer a = fits(p, size, nanoseconds);
    const bool survived = !both || await_child(above);
    if (a == NO)
        range->fails = size;
    if (a != YES)
        return a;
    range->fits = size;
    if (!both)
        a = fits(p, size + 1, NULL);
    else
        a = !survived ? CRASHED : p->shared->more ? YES : NO;
    if (a == CRASHED)
        return a;
    if (a == NO)
        range->fails = size + 1;
    else
        range->fits = size + 1;
    return a == NO ? YES : NO;
}

/* Do both trials in one child, for an allocator that knows its free memory and whose failed malloc has no effects.
 * A second child would take as long as the first, because the page tables are copied again. */
static enum answer verify_at_once(struct probe *p, uint64_t size, struct range *range, uint64_t *nanoseconds)
{
    struct probe_shared *s = p->shared;
    s->size = size;
    if (!in_child(p, double_trial))
        return CRASHED;
    if (s->more)
        range->fits = size + 1;
    else if (s->yes)
        *range = (struct range){size, size + 1};
    else
        range->fails = size;
    if (!s->yes || s->more)
        return NO;
    *nanoseconds = s->nanoseconds;
    return YES;
}

static void load_range(struct probe *p, const struct range *range)
{
    p->shared->fits = range->fits;
    p->shared->fails = range->fails;
    p->shared->step = FIRST_STEP;
}

/* Search with freeing, and verify the result. */
static enum answer search_freeing(struct probe *p, struct range *range, uint64_t *nanoseconds)
{
    if (p->distrust == MOST_DISTRUST)
        return NO;
    load_range(p, range);
    if (!in_child(p, search))
        return CRASHED;
    enum answer right = verify(p, p->shared->fits, range, nanoseconds);
    p->distrust += right == NO;
    return right;
}

/* Search with a new child after each success. */
static enum answer search_fresh(struct probe *p, struct range *range, uint64_t *nanoseconds)
{
    load_range(p, range);
    while (p->shared->fails - p->shared->fits > 1)
        if (!in_child(p, advance))
            return CRASHED;
    range->fits = p->shared->fits;
    return fits(p, range->fits, nanoseconds) == CRASHED ? CRASHED : YES;
}

static void set_result(struct probe *p, enum answer right, const struct range *range, uint64_t nanoseconds)
{
    p->shared->result = (struct probe_result){right == YES ? range->fits : 0, nanoseconds, right == CRASHED};
    p->shared->distrust = p->distrust;
}

/* Is p->last still the largest? */
static enum answer try_last(struct probe *p, struct range *range, uint64_t *nanoseconds)
{
    if (!p->last)
        return NO;
    if (p->hinted && p->last < p->limit)
        return verify_at_once(p, p->last, range, nanoseconds);
    return verify(p, p->last, range, nanoseconds);
}

/* In the searching process: search in the bounds that trying p->last has found. */
static void search_all(struct probe *p)
{
    struct range range = {p->shared->fits, p->shared->fails};
    uint64_t nanoseconds = 0;
    enum answer right = search_freeing(p, &range, &nanoseconds);
    if (right == NO)
        right = search_fresh(p, &range, &nanoseconds);
    set_result(p, right, &range, nanoseconds);
}

void probe_begin(struct probe *p, uint64_t hint)
{
    struct range range = {0, p->limit + 1};
    uint64_t nanoseconds = 0;
    p->hinted = hint && hint <= p->limit;
    if (p->hinted)
        p->last = hint;
    enum answer right = try_last(p, &range, &nanoseconds);
    p->steady = right == YES;
    set_result(p, right, &range, nanoseconds);
    if (right != NO)
        return;
    load_range(p, &range);
    p->shared->result.crashed = true; /* unless the search ends */
    p->searcher = begin_child(p, search_all);
}

struct probe_result probe_end(struct probe *p)
{
    bool survived = p->searcher == 0 || await_child(p->searcher);
    p->searcher = 0;
    p->last = p->shared->result.largest;
    p->distrust = p->shared->distrust;
    p->shared->result.crashed |= !survived;
    return p->shared->result;
}
