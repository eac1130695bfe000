/* engine_batch.c - the replay at full speed.
 *
 * The loop takes less time than the fastest allocators. Per operation, 8 bytes are read and 8 written, counters stay
 * in registers, and there are no branches except those that an operation needs. The remaining cost is mostly the
 * misprediction of whether N or F comes next: 1.5 ns if they alternate, 5.0 ns with the same sizes and slots if their
 * order is random. This is why it is separate from engine.c.
 *
 * Two variants were measured and rejected. (1) One jump per 6 operations, to code for exactly that sequence of kinds
 * (64 pieces of code), takes 3.0 ns for a random order, but only in a shared object that is near the driver in
 * memory. In the program itself it takes 6.3 ns (10.4 ns for sequences of 8 operations), because the processor cannot
 * predict hundreds of calls over such a distance. With 4 or 5 operations, or calls through two jumps, there is little
 * or no gain. (2) Prefetching the slots of the next frees has no effect.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/region.h"
#include "drivers/run/engine_batch.h"
#include "drivers/base/clock.h"

#include <stdio.h>

enum { WARM_RUNS = 15, AHEAD = 128 /* number of steps to prefetch */ };
#define WARM_TIME 1000000000u  /* maximum nanoseconds for all warm runs */
#define COLD_TIME 10000000000u /* no warm runs after a cold run that took longer */

/* Values used by the loop, copied so that they can be kept in registers. */
struct batch {
    struct engine *e;
    const struct steve_driver *driver;
    void **refs;           /* by slot, NULL = no block */
    unsigned char *locked; /* by slot */
    bool writes;           /* to new blocks */
    uint64_t ops;          /* number of N, F and R done */
    uint32_t first_id;     /* first id of this round */
    uint64_t stop;         /* end the loop before operation number `stop` (a data point) */
};

static bool start(struct batch *b, struct engine *e)
{
    uint32_t slots = e->shared->job.facts.slots;
    *b = (struct batch){.e = e, .driver = e->driver, .writes = e->shared->job.writes, .stop = UINT64_MAX};
    b->refs = engine_table(slots * sizeof *b->refs);
    b->locked = engine_table(slots);
    if (b->refs && b->locked)
        return true;
    snprintf(e->shared->text, sizeof e->shared->text, "out of memory for the replay's own tables");
    e->shared->status = STATUS_FAILED;
    return false;
}

static void set_lock(struct batch *b, uint32_t slot, bool lock)
{
    if (lock == b->locked[slot]) {
        b->e->shared->odd_locks++;
        return;
    }
    b->locked[slot] = lock;
    if (lock && b->driver->lock)
        b->driver->lock(b->refs[slot]);
    if (!lock && b->driver->unlock)
        b->driver->unlock(b->refs[slot]);
}

/* As in engine.c: unlock a locked block before a resize. */
static bool resize(struct batch *b, uint32_t slot, uint64_t size)
{
    bool locked = b->locked[slot];
    if (locked)
        set_lock(b, slot, false);
    void *ref = engine_resize(b->e, b->refs[slot], b->e->blocks[slot].size, size, b->first_id + slot);
    if (!ref)
        return false;
    if (b->writes)
        engine_touch(b->e, ref, b->e->blocks[slot].size, size);
    b->refs[slot] = ref;
    b->e->blocks[slot].size = size;
    b->e->shared->op_index = ++b->ops;
    if (locked)
        set_lock(b, slot, true);
    return true;
}

static bool make(struct batch *b, uint32_t slot, uint64_t size)
{
    void *ref = engine_malloc(b->e, size, b->first_id + slot);
    b->refs[slot] = ref;
    if (!ref)
        return false;
    if (b->writes)
        engine_touch(b->e, ref, 0, size);
    b->e->blocks[slot].size = size;
    b->e->shared->op_index = ++b->ops;
    return true;
}

/* Do a step that is not an F, and not an N that succeeds at once. False if there is no room. */
static bool do_rare(struct batch *b, const struct step **at)
{
    const struct step s = *(*at)++;
    switch (s.what & STEP_MASK) {
    case STEP_RESIZE:
        return resize(b, s.slot, step_size(s, at));
    case STEP_NEW:
        return make(b, s.slot, step_size(s, at));
    case STEP_COMPACT:
        engine_make_room(b->e, 0);
        return true;
    case STEP_READ:
    case STEP_WRITE:
        engine_use(b->e, b->refs[s.slot], step_offset(at), s);
        return true;
    default:
        set_lock(b, s.slot, (s.what & STEP_MASK) == STEP_LOCK);
        return true;
    }
}

/* Do steps as long as they are N or F and there is room; returns the step at which that ends. `more`: the file has
 * locks or resizes, for which more must be stored, or new blocks are written to. Values that are needed after
 * a call are read again, because few registers are preserved by calls. */
ALWAYS_INLINE const struct step *do_common(struct batch *b, const struct step *at, bool more)
{
    const struct step *const last = b->e->steps + b->e->shared->job.facts.steps;
    const struct step *const end = b->stop - b->ops < (uint64_t)(last - at) ? at + (b->stop - b->ops) : last;
    const struct step *const first = at - b->ops; /* the step of operation 0 if all steps were operations */
    const struct steve_driver *const d = b->driver;
    volatile uint64_t *const progress = &b->e->shared->op_index;
    void **const refs = b->refs;
    for (; at < end; *progress = (uint64_t)(++at - first)) {
        uint32_t what = at->what, slot = at->slot, id = b->first_id + slot;
        __builtin_prefetch(at + AHEAD);
        if ((what & STEP_MASK) == STEP_FREE) {
            void *ref = refs[slot];
            refs[slot] = NULL;
            if (more)
                b->locked[slot] = false;
            d->free(ref, id);
            continue;
        }
        uint64_t size = what >> STEP_SHIFT;
        if ((what & STEP_MASK) != STEP_NEW || size == STEP_BIG)
            break;
        void *ref = d->malloc(size + !size, id);
        if (!ref)
            break;
        refs[at->slot] = ref;
        if (!more)
            continue;
        size = at->what >> STEP_SHIFT;
        b->e->blocks[at->slot].size = size;
        if (b->writes)
            engine_touch(b->e, ref, 0, size);
    }
    b->ops = (uint64_t)(at - first);
    return at;
}

/* Times of the pieces of a replay. */
struct pieces {
    uint64_t from, ops; /* ticks and number of operations at the start of the current piece */
    uint64_t ticks;     /* ticks of the current piece in earlier rounds */
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number of the operation after the next data point: every `interval` operations, at the live peak and at the end. */
static uint64_t next_stop(const struct batch *b)
{
    const struct job *j = &b->e->shared->job;
    uint64_t stop = b->ops ? ((b->ops - 1) / j->interval + 1) * j->interval + 1 : 1;
    if (b->ops < j->total_ops)
        stop = least(stop, j->total_ops);
    return j->peak_point != UINT64_MAX && b->ops <= j->peak_point ? least(stop, j->peak_point + 1) : stop;
}

static void end_piece(struct batch *b, struct pieces *p)
{
    struct shared *shared = b->e->shared;
    uint64_t ticks = clock_ticks() - p->from + p->ticks;
    if (shared->count < shared->room)
        shared->points[shared->count++] = (struct point){
            .op_index = b->ops - 1, .batch_ops = b->ops - p->ops, .batch_time = clock_between(0, ticks)};
    b->stop = next_stop(b);
    *p = (struct pieces){.ops = b->ops};
    p->from = clock_ticks();
}

/* Do the file once. False if there is no room for operation b->ops. `pieces`: NULL, or where to store the times of
 * pieces. */
static bool run(struct batch *b, struct pieces *pieces)
{
    const struct plan_facts *f = &b->e->shared->job.facts;
    const struct step *at = b->e->steps, *const end = at + f->steps;
    bool more = f->locks || f->resizes || b->writes;
    for (;;) {
        at = more ? do_common(b, at, true) : do_common(b, at, false);
        bool stopped = pieces && b->ops == b->stop;
        if (stopped)
            end_piece(b, pieces);
        if (at == end)
            return true;
        if (stopped)
            continue; /* so that the next step is not treated as a rare one */
        if (!do_rare(b, &at))
            return false;
        if (pieces && b->ops == b->stop)
            end_piece(b, pieces);
    }
}

/* Store the live blocks in the engine's table, which engine_kill_blocks uses. */
static void hand_over(const struct batch *b)
{
    for (uint32_t i = 0; i < b->e->shared->job.facts.slots; i++) {
        b->e->blocks[i] = (struct block){
            .ref = b->refs[i], .fixed = b->locked[i] ? b->refs[i] : NULL, .id = b->first_id + i};
        b->refs[i] = NULL;
        b->locked[i] = false;
    }
}

static bool rewind_batch(struct batch *b)
{
    if (!b->e->shared->job.kill_percent)
        return false;
    hand_over(b);
    bool more = engine_rewind(b->e);
    b->first_id = b->e->first_id;
    return more;
}

static void free_all(struct batch *b)
{
    for (uint32_t i = 0; i < b->e->shared->job.facts.slots; i++) {
        if (b->refs[i])
            b->driver->free(b->refs[i], b->first_id + i);
        b->refs[i] = NULL;
        b->locked[i] = false;
        b->e->shared->heartbeat++;
    }
}

/* Repeat the replay with an empty heap. Returns the CPU time in nanoseconds, 0 if there was no room. */
static uint64_t run_warm(struct batch *b)
{
    b->ops = 0;
    uint64_t from = clock_thread();
    bool room = run(b, NULL);
    uint64_t took = clock_thread() - from;
    free_all(b);
    return room ? took : 0;
}

static void do_warm(struct batch *b)
{
    struct shared *shared = b->e->shared;
    uint64_t odd = shared->odd_locks, total = b->ops, spent = 0, took = 1;
    free_all(b);
    for (int i = 0; i < WARM_RUNS && took && spent < WARM_TIME; i++, spent += took) {
        took = run_warm(b);
        if (took && (!shared->warm_cpu || took < shared->warm_cpu))
            shared->warm_cpu = took;
    }
    shared->odd_locks = odd;
    shared->op_index = total;
}

static void do_cold(struct batch *b)
{
    struct shared *shared = b->e->shared;
    bool room, counts = shared->job.kind == JOB_ONCE;
    if (counts)
        counters_start(&shared->counters);
    uint64_t wall = clock_wall(), cpu = clock_thread();
    do {
        shared->rounds++;
        room = run(b, NULL);
    } while (room && rewind_batch(b));
    shared->cpu = clock_thread() - cpu;
    shared->wall = clock_wall() - wall;
    if (counts)
        counters_stop(&shared->counters);
    shared->highest = region_extent(b->driver);
    engine_end(b->e, room ? GOES_ON : NO_ROOM);
}

void batch_run(struct engine *e, bool warm)
{
    struct batch b;
    if (!start(&b, e))
        return;
    do_cold(&b);
    if (warm && e->shared->status == STATUS_DONE && !e->shared->job.kill_percent &&
        e->shared->cpu < COLD_TIME)
        do_warm(&b);
}

void batch_pieces(struct engine *e)
{
    struct batch b;
    struct pieces p = {0};
    bool room, more = false;
    if (!start(&b, e))
        return;
    b.stop = next_stop(&b);
    do {
        e->shared->rounds++;
        p.from = clock_ticks();
        room = run(&b, &p);
        p.ticks += clock_ticks() - p.from;
        more = room && rewind_batch(&b);
    } while (more);
    engine_end(e, room ? GOES_ON : NO_ROOM);
}
