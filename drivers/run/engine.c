/* engine.c - the replay: does the steps of a plan on one driver.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/engine.h"
#include "drivers/base/clock.h"
#include "drivers/heap/raw_syscalls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/resource.h>

enum pass { TIMED, WATCHED };

void *engine_table(size_t bytes)
{
    volatile char *p = raw_map_unshared(bytes);
    for (size_t i = 0; p && i < bytes; i += 4096)
        p[i] = 0;
    return (void *)p;
}

bool engine_open(struct engine *e, struct shared *shared, const struct steve_driver *driver)
{
    const struct plan_facts *f = &shared->job.facts;
    long steps = raw_syscall(SYS_mmap, 0, (long)(f->steps * sizeof *e->steps), PROT_READ,
                             MAP_SHARED | MAP_POPULATE, PLAN_FD, 0);
    *e = (struct engine){.driver = driver, .shared = shared, .random = shared->job.seed};
    e->steps = (const struct step *)steps;
    e->blocks = engine_table(f->slots * sizeof *e->blocks);
    if (!raw_failed(steps) && e->blocks)
        return true;
    snprintf(shared->text, sizeof shared->text, "out of memory for the replay's own tables");
    return false;
}

static void *address_of(const struct steve_driver *d, void *ref)
{
    return d->flags & STEVE_NO_MEMORY ? NULL : d->flags & STEVE_MOVES ? d->where(ref) : ref;
}

void *engine_address(const struct engine *e, const struct block *b)
{
    if (e->driver->flags & STEVE_NO_MEMORY)
        return NULL;
    return b->fixed ? b->fixed : address_of(e->driver, b->ref);
}

/* -- compaction: a moving allocator can lose blocks there and nowhere else ------------------------------
 *
 * With --check every live block is compared after each compaction, not only when it is freed, so that the
 * compaction that damaged a block is known.
 */

static bool is_whole(struct engine *e, const struct block *b)
{
    if (!b->ref)
        return true;
    if (b->fixed && (e->driver->flags & STEVE_MOVES) && e->driver->where(b->ref) != b->fixed) {
        snprintf(e->shared->text, sizeof e->shared->text,
                 "locked block of %" PRIu64 " bytes at %p was moved by compaction", b->size, b->fixed);
        return false;
    }
    return e->watcher->kept(e->watcher->ctx, b, engine_address(e, b), b->size);
}

static bool all_whole(struct engine *e)
{
    for (uint32_t i = 0; i < e->shared->job.facts.slots; i++)
        if (!is_whole(e, &e->blocks[i]))
            return false;
    for (uint64_t i = 0; i < e->kept_count; i++)
        if (!is_whole(e, &e->kept[i]))
            return false;
    return true;
}

__attribute__((noinline)) bool engine_make_room(struct engine *e, size_t wanted)
{
    if (!e->driver->compact)
        return false;
    uint64_t from = clock_ticks();
    bool worth = e->driver->compact(wanted);
    e->oom_time = clock_between(from, clock_ticks());
    e->shared->heartbeat++;
    e->spoiled = e->watcher && e->shared->job.check && !all_whole(e);
    return worth && !e->spoiled;
}

/* -- the replay -- */

void *engine_malloc(struct engine *e, uint64_t size, uint32_t id)
{
    uint64_t wanted = size ? size : 1;
    void *ref = e->driver->malloc(wanted, id);
    e->oom_time = 0;
    return ref || !engine_make_room(e, wanted) ? ref : e->driver->malloc(wanted, id);
}

static void *resize_by_copy(struct engine *e, void *ref, uint64_t old_size, uint64_t size, uint32_t id)
{
    void *moved = engine_malloc(e, size, id);
    if (!moved)
        return NULL;
    void *to = address_of(e->driver, moved);
    if (to)
        memcpy(to, address_of(e->driver, ref), old_size < size ? old_size : size);
    e->driver->free(ref, id);
    return moved;
}

void *engine_resize(struct engine *e, void *ref, uint64_t old_size, uint64_t size, uint32_t id)
{
    uint64_t wanted = size ? size : 1;
    if (!e->driver->realloc)
        return resize_by_copy(e, ref, old_size, size, id);
    void *moved = e->driver->realloc(ref, wanted, id);
    e->oom_time = 0;
    if (moved || !engine_make_room(e, wanted))
        return moved;
    return e->driver->realloc(ref, wanted, id);
}

/* Reading the number of context switches takes longer than most operations. It is read after this number of
 * operations, and after each that took so many nanoseconds that another process may have run meanwhile (two
 * context switches take 1 us or more). */
enum { LOOK_AFTER = 256, LONG = 2000 };

/* Did another process use the processor since the last call? Time that the system took is not counted as time of
 * the allocator. What a hypervisor takes is not visible. */
static bool was_preempted(struct engine *e)
{
    struct rusage u;
    if (getrusage(RUSAGE_THREAD, &u) != 0)
        return false;
    bool more = (uint64_t)u.ru_nivcsw != e->switches;
    e->switches = (uint64_t)u.ru_nivcsw;
    return more;
}

static void add_time(struct engine *e, struct latency *t, uint64_t ns)
{
    if (ns >= LONG && was_preempted(e)) {
        t->preempted++;
        return;
    }
    if (e->ops % LOOK_AFTER == 0)
        was_preempted(e);
    latency_add(t, ns);
    e->run_time += ns;
    e->run_ops++;
    if (ns > e->run_most)
        e->run_most = ns;
}

static __attribute__((noinline)) void record_time(struct engine *e, char op, uint64_t size, uint64_t ns)
{
    struct shared *b = e->shared;
    add_time(e, &b->times[op == 'N' ? TIMED_MALLOC : op == 'F' ? TIMED_FREE : TIMED_REALLOC], ns);
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

__attribute__((noinline)) void engine_touch(const struct engine *e, void *ref, uint64_t from, uint64_t to)
{
    static unsigned char s_page[4096] __attribute__((aligned(4096)));
    enum touch touch = e->shared->job.touch;
    void *address = address_of(e->driver, ref);
    if (touch == TOUCH_FIRST && to > 1)
        to = 1;
    if (address) {
        touch_range(address, from, to, touch);
        return;
    }
    for (; from < to; from += sizeof s_page)
        touch_range(s_page, 0, to - from < sizeof s_page ? to - from : sizeof s_page, touch);
}

/* --fail-nth: the first time that the allocator reports no room after its request for memory was refused, the
 * operation is done again. Memory is then available. */
static bool should_repeat(struct engine *e, enum pass pass)
{
    bool repeat = pass == WATCHED && e->shared->refusal.refused && !e->refused;
    e->refused |= repeat;
    return repeat;
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
    if (__builtin_expect(!ref, 0) && engine_make_room(e, wanted))
        ref = e->driver->malloc(wanted, id);
    if (__builtin_expect(!ref, 0) && should_repeat(e, pass))
        ref = e->driver->malloc(wanted, id);
    if (__builtin_expect(!ref, 0))
        return NO_ROOM;
    *b = (struct block){.ref = ref, .size = size, .id = id};
    e->shared->op_index = ++e->ops;
    if (pass == TIMED) {
        record_time(e, 'N', size, clock_between(from, to));
        engine_touch(e, ref, 0, size);
    }
    if (pass != WATCHED)
        return GOES_ON;
    const struct watcher *w = e->watcher;
    return w->made(w->ctx, b, engine_address(e, b)) && w->done(w->ctx, 'N', size) ? GOES_ON : FAILED;
}

/* Free a block, which may be locked, and clear its entry. */
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
    e->shared->op_index = ++e->ops;
    if (pass == TIMED)
        record_time(e, 'F', size, clock_between(from, to));
    if (pass == WATCHED)
        return e->watcher->done(e->watcher->ctx, 'F', size) ? GOES_ON : FAILED;
    return GOES_ON;
}

/* Lock or unlock. A lock of a locked block, or an unlock of an unlocked one, is counted and has no effect. Both
 * occur in files whose locks were inferred. */
ALWAYS_INLINE void set_lock(struct engine *e, enum pass pass, struct block *b, bool lock)
{
    if (lock == (b->fixed != NULL)) {
        e->shared->odd_locks++;
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

/* Report b to the watcher as a new block. Before, it had `old` bytes and was reported as freed. */
static bool tell_resized(const struct engine *e, struct block *b, uint64_t old)
{
    const struct watcher *w = e->watcher;
    void *address = engine_address(e, b);
    return w->kept(w->ctx, b, address, old < b->size ? old : b->size) && w->made(w->ctx, b, address);
}

static void record_resize(struct engine *e, const struct block *b, uint64_t old, uint64_t ns)
{
    record_time(e, 'R', b->size, ns > e->oom_time ? ns - e->oom_time : 0);
    engine_touch(e, b->ref, old, b->size);
}

/* Unlock a locked block before a resize, in which its owner accepts another address. */
ALWAYS_INLINE enum outcome resize(struct engine *e, enum pass pass, struct block *b, uint64_t size)
{
    uint64_t old = b->size;
    bool locked = b->fixed;
    if (locked)
        set_lock(e, pass, b, false);
    if (pass == WATCHED && !e->watcher->freeing(e->watcher->ctx, b, engine_address(e, b)))
        return FAILED;
    uint64_t from = clock_ticks();
    void *ref = engine_resize(e, b->ref, old, size, b->id);
    uint64_t ns = clock_between(from, clock_ticks());
    if (!ref && should_repeat(e, pass)) {
        if (!e->watcher->kept(e->watcher->ctx, b, engine_address(e, b), old))
            return FAILED;
        ref = engine_resize(e, b->ref, old, size, b->id);
    }
    if (!ref)
        return NO_ROOM;
    b->ref = ref;
    b->size = size;
    e->shared->op_index = ++e->ops;
    if (pass == TIMED)
        record_resize(e, b, old, ns);
    if (pass == WATCHED && !tell_resized(e, b, old))
        return FAILED;
    if (locked)
        set_lock(e, pass, b, true);
    return pass == TIMED || e->watcher->done(e->watcher->ctx, 'R', size) ? GOES_ON : FAILED;
}

void engine_use(const struct engine *e, void *ref, uint64_t from, struct step s)
{
    unsigned char *address = address_of(e->driver, ref);
    if (address)
        use_range(address + from, s.what >> STEP_SHIFT, (s.what & STEP_MASK) == STEP_WRITE);
}

static __attribute__((noinline)) void use(struct engine *e, enum pass pass, struct step s, uint64_t from)
{
    const struct block *b = &e->blocks[s.slot];
    const struct watcher *w = e->watcher;
    engine_use(e, b->ref, from, s);
    if (pass == WATCHED && w->used)
        w->used(w->ctx, b, engine_address(e, b), from, s.what >> STEP_SHIFT,
                (s.what & STEP_MASK) == STEP_WRITE);
}

ALWAYS_INLINE enum outcome do_step(struct engine *e, enum pass pass, const struct step **at)
{
    const struct step s = *(*at)++;
    switch (s.what & STEP_MASK) {
    case STEP_NEW:
        return make(e, pass, s.slot, step_size(s, at));
    case STEP_FREE:
        return drop(e, pass, &e->blocks[s.slot]);
    case STEP_RESIZE:
        return resize(e, pass, &e->blocks[s.slot], step_size(s, at));
    case STEP_COMPACT:
        engine_make_room(e, 0);
        return e->spoiled ? FAILED : GOES_ON;
    case STEP_READ:
    case STEP_WRITE:
        use(e, pass, s, step_offset(at));
        return GOES_ON;
    default:
        set_lock(e, pass, &e->blocks[s.slot], (s.what & STEP_MASK) == STEP_LOCK);
        return GOES_ON;
    }
}

/* Do the whole file once. */
ALWAYS_INLINE enum outcome go_through(struct engine *e, enum pass pass)
{
    const struct step *at = e->steps, *end = at + e->shared->job.facts.steps;
    enum outcome o = GOES_ON;
    while (at < end && (o = do_step(e, pass, &at)) == GOES_ON)
        continue;
    return o;
}

/* -- the random end of blocks between two rounds -------------------------------------------------------
 *
 * Selection sampling: each block in order is freed with the probability (still to free) / (still to see).
 * This frees exactly the requested number, and every subset is equally likely. The blocks that live on move
 * to a list of their own, so that the next round finds its slots empty.
 */

uint64_t engine_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct lottery {
    uint64_t to_kill, to_see;
};

static bool draw(struct engine *e, struct lottery *l)
{
    uint64_t ticket = (uint64_t)(((unsigned __int128)engine_random(&e->random) * l->to_see) >> 64);
    bool dies = ticket < l->to_kill;
    l->to_kill -= dies;
    l->to_see--;
    return dies;
}

static void kill_block(struct engine *e, struct block *b)
{
    if (e->watcher && !e->watcher->freeing(e->watcher->ctx, b, engine_address(e, b)))
        e->spoiled = true;
    e->driver->free(b->ref, b->id);
    b->ref = b->fixed = NULL;
    e->shared->killed++;
    e->shared->heartbeat++;
}

static bool room_for(struct engine *e, uint64_t more)
{
    uint64_t wanted = e->kept_count + more;
    if (wanted <= e->kept_room)
        return true;
    struct block *list = raw_remap(e->kept, e->kept_room * sizeof *list, 2 * wanted * sizeof *list);
    if (!list)
        return false;
    e->kept = list;
    e->kept_room = 2 * wanted;
    return true;
}

static void cull_kept(struct engine *e, struct lottery *l)
{
    uint64_t left = 0;
    for (uint64_t i = 0; i < e->kept_count; i++) {
        if (draw(e, l))
            kill_block(e, &e->kept[i]);
        else
            e->kept[left++] = e->kept[i];
    }
    e->kept_count = left;
}

static void cull_current(struct engine *e, struct lottery *l)
{
    for (uint32_t i = 0; i < e->shared->job.facts.slots; i++) {
        struct block *b = &e->blocks[i];
        if (!b->ref)
            continue;
        if (draw(e, l)) {
            kill_block(e, b);
        } else {
            e->kept[e->kept_count++] = *b;
            b->ref = b->fixed = NULL;
        }
    }
}

bool engine_kill_blocks(struct engine *e, uint32_t percent)
{
    uint64_t current = e->shared->job.facts.blocks_at_end, live = e->kept_count + current;
    struct lottery l = {live * percent / 100, live};
    if (!room_for(e, current))
        return false;
    cull_kept(e, &l);
    cull_current(e, &l);
    e->first_id += e->shared->job.facts.slots;
    return !e->spoiled;
}

bool engine_rewind(struct engine *e)
{
    const struct job *j = &e->shared->job;
    if (e->shared->rounds >= j->rounds || e->first_id > UINT32_MAX - 2 * (uint64_t)j->facts.slots)
        return false;
    return engine_kill_blocks(e, j->kill_percent);
}

void engine_end(struct engine *e, enum outcome o)
{
    struct shared *b = e->shared;
    if (o == NO_ROOM && b->rounds > 1) /* a run of several rounds is supposed to end so */
        o = GOES_ON;
    if (e->spoiled)
        o = FAILED;
    b->status = o == GOES_ON ? STATUS_DONE : o == NO_ROOM ? STATUS_NO_ROOM : STATUS_FAILED;
}

ALWAYS_INLINE void replay(struct engine *e, enum pass pass)
{
    struct shared *b = e->shared;
    enum outcome o;
    uint64_t wall = clock_wall(), cpu = clock_thread();
    do {
        b->rounds++;
        o = go_through(e, pass);
    } while (o == GOES_ON && b->job.kill_percent && engine_rewind(e));
    b->wall = clock_wall() - wall;
    b->cpu = clock_thread() - cpu;
    engine_end(e, o);
}

void engine_timed(struct engine *e)
{
    was_preempted(e); /* excludes context switches before the replay */
    replay(e, TIMED);
}

void engine_watched(struct engine *e, const struct watcher *w)
{
    e->watcher = w;
    replay(e, WATCHED);
}
