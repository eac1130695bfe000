/* engine.c - the replay; see engine.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/clock.h"
#include "drivers/engine.h"
#include "drivers/kill.h"
#include "drivers/sysmem.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum pass { BATCH, TIMED, WATCHED };
enum outcome { GOES_ON, NO_ROOM, FAILED };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Page faults of the replay's own table are not to be taken for the allocator's time. */
static void touch_table(void *table, size_t bytes)
{
    volatile char *p = table;
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 0;
}

bool engine_open(struct engine *e, struct board *board, const struct steve_driver *driver)
{
    const struct plan_facts *f = &board->job.facts;
    long steps = sysmem_call(SYS_mmap, 0, (long)(f->steps * sizeof *e->steps), PROT_READ,
                             MAP_SHARED | MAP_POPULATE, PLAN_FD, 0);
    *e = (struct engine){.driver = driver, .board = board, .random = board->job.seed};
    e->steps = (const struct step *)steps;
    e->blocks = sysmem_get(f->slots * sizeof *e->blocks);
    if (!sysmem_failed(steps) && e->blocks) {
        touch_table(e->blocks, f->slots * sizeof *e->blocks);
        return true;
    }
    snprintf(board->text, sizeof board->text, "out of memory for the replay's own tables");
    return false;
}

void *engine_address(const struct engine *e, const struct block *b)
{
    if (e->driver->flags & STEVE_NO_MEMORY)
        return NULL;
    if (b->fixed || !(e->driver->flags & STEVE_MOVES))
        return b->fixed ? b->fixed : b->ref;
    return e->driver->where(b->ref);
}

/* malloc failed: let the allocator make room and try once more. */
static __attribute__((noinline, cold)) void *after_compaction(struct engine *e, size_t size, uint32_t id)
{
    if (!e->driver->compact)
        return NULL;
    uint64_t from = clock_ticks();
    bool worth = e->driver->compact(size);
    e->oom_time = clock_between(from, clock_ticks());
    return worth ? e->driver->malloc(size, id) : NULL;
}

static __attribute__((noinline)) void record_time(struct engine *e, char op, uint64_t size, uint64_t ns)
{
    struct board *b = e->board;
    times_add(&b->times[op == 'F'], ns);
    e->run_time += ns;
    e->run_ops++;
    if (ns > e->run_most)
        e->run_most = ns;
    if (!engine_at_point(e) || b->count == b->room)
        return;
    b->points[b->count++] = (struct point){.op_index = e->ops - 1,
                                           .op = op,
                                           .size = size,
                                           .op_time = ns,
                                           .oom_time = e->oom_time,
                                           .interval_ops = e->run_ops,
                                           .interval_time = e->run_time,
                                           .interval_most = e->run_most};
    e->run_time = e->run_ops = e->run_most = 0;
}

static __attribute__((noinline)) void touch(struct engine *e, const struct block *b)
{
    volatile char *p = engine_address(e, b);
    size_t step = e->board->job.touch == TOUCH_ALL ? 64 : 4096;
    if (!p || e->board->job.touch == TOUCH_NONE)
        return;
    for (size_t i = 0; i < b->size; i += step)
        p[i] = 1;
}

ALWAYS_INLINE enum outcome make(struct engine *e, enum pass pass, uint32_t slot, uint64_t size)
{
    struct block *b = &e->blocks[slot];
    uint64_t from = 0, to = 0, wanted = size ? size : 1;
    uint32_t id = e->first_id + slot;
    if (pass == TIMED)
        from = clock_ticks();
    void *ref = e->driver->malloc(wanted, id);
    if (pass == TIMED)
        to = clock_ticks();
    e->oom_time = 0;
    if (__builtin_expect(!ref, 0) && !(ref = after_compaction(e, wanted, id)))
        return NO_ROOM;
    *b = (struct block){.ref = ref, .size = size, .id = id};
    e->board->op_index = ++e->ops;
    if (pass == TIMED) {
        record_time(e, 'N', size, clock_between(from, to));
        touch(e, b);
    }
    if (pass != WATCHED)
        return GOES_ON;
    const struct watcher *w = e->watcher;
    return w->made(w->ctx, b, engine_address(e, b)) && w->done(w->ctx, 'N', size) ? GOES_ON : FAILED;
}

/* Free a block, which may be locked; its entry becomes empty. */
ALWAYS_INLINE enum outcome drop(struct engine *e, enum pass pass, struct block *b)
{
    uint64_t from = 0, to = 0, size = b->size;
    if (pass == WATCHED && !e->watcher->freeing(e->watcher->ctx, b, engine_address(e, b)))
        return FAILED;
    if (pass == TIMED)
        from = clock_ticks();
    e->driver->free(b->ref, b->id);
    if (pass == TIMED)
        to = clock_ticks();
    b->ref = b->fixed = NULL;
    e->oom_time = 0;
    e->board->op_index = ++e->ops;
    if (pass == TIMED)
        record_time(e, 'F', size, clock_between(from, to));
    if (pass == WATCHED)
        return e->watcher->done(e->watcher->ctx, 'F', size) ? GOES_ON : FAILED;
    return GOES_ON;
}

/* Lock or unlock. A lock of a locked block or an unlock of an unlocked one, which heuristics can yield, is
 * counted and has no effect. */
ALWAYS_INLINE void set_lock(struct engine *e, enum pass pass, struct block *b, bool lock)
{
    if (lock == (b->fixed != NULL)) {
        e->board->odd_locks++;
        return;
    }
    if (lock) {
        b->fixed = e->driver->lock ? e->driver->lock(b->ref) : b->ref;
    } else {
        b->fixed = NULL;
        if (e->driver->unlock)
            e->driver->unlock(b->ref);
    }
    if (pass == WATCHED)
        e->watcher->locked(e->watcher->ctx, b, lock);
}

static enum outcome compact(struct engine *e)
{
    if (e->driver->compact)
        e->driver->compact(0);
    e->board->heartbeat++;
    return GOES_ON;
}

ALWAYS_INLINE enum outcome do_step(struct engine *e, enum pass pass, const struct step **at)
{
    const struct step s = *(*at)++;
    uint64_t size = s.what >> STEP_SHIFT;
    switch (s.what & STEP_MASK) {
    case STEP_NEW:
        if (size == STEP_BIG) {
            size = (*at)->slot | (uint64_t)(*at)->what << 32;
            ++*at;
        }
        return make(e, pass, s.slot, size);
    case STEP_FREE:
        return drop(e, pass, &e->blocks[s.slot]);
    case STEP_COMPACT:
        return compact(e);
    default:
        set_lock(e, pass, &e->blocks[s.slot], (s.what & STEP_MASK) == STEP_LOCK);
        return GOES_ON;
    }
}

/* The file once. */
ALWAYS_INLINE enum outcome go_through(struct engine *e, enum pass pass)
{
    const struct step *at = e->steps, *end = at + e->board->job.facts.steps;
    enum outcome o = GOES_ON;
    while (at < end && (o = do_step(e, pass, &at)) == GOES_ON)
        continue;
    return o;
}

/* Rewind for another round? Kills blocks on the way. */
static bool rewind_plan(struct engine *e)
{
    const struct job *j = &e->board->job;
    if (e->board->rounds >= j->rounds || e->first_id > UINT32_MAX - 2 * (uint64_t)j->facts.slots)
        return false;
    return kill_blocks(e, j->kill_percent);
}

ALWAYS_INLINE void replay(struct engine *e, enum pass pass)
{
    struct board *b = e->board;
    enum outcome o;
    uint64_t wall = clock_wall(), cpu = clock_thread();
    do {
        b->rounds++;
        o = go_through(e, pass);
    } while (o == GOES_ON && b->job.kill_percent && rewind_plan(e));
    b->wall = clock_wall() - wall;
    b->cpu = clock_thread() - cpu;
    if (o == NO_ROOM && b->rounds > 1) /* with rewinds this is how a run is meant to end */
        o = GOES_ON;
    b->status = o == GOES_ON ? STATUS_DONE : o == NO_ROOM ? STATUS_NO_ROOM : STATUS_FAILED;
}

void engine_batch(struct engine *e)
{
    replay(e, BATCH);
}

void engine_timed(struct engine *e)
{
    replay(e, TIMED);
}

void engine_watched(struct engine *e, const struct watcher *w)
{
    e->watcher = w;
    replay(e, WATCHED);
}
