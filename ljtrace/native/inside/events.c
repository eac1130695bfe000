/* events.c - writes the heap events of all threads to the ring, each with its stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A signal handler may interrupt an event of its own thread and allocate. It must not wait for the ring's lock, which its
 * thread has. Its events are deferred until the interrupted event is complete: before the lock is released, so that their
 * order is still right. If a handler leaves by siglongjmp, the interrupted event never completes; the next event of the
 * thread sees this by its stack pointer, and completes it.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/session.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/known_stack.h"
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/native/inside/resizes.h"
#include "ljtrace/native/inside/ring_put.h"
#include "ljtrace/native/inside/usual.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/native/inside/unseen.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEFERRED = 64, MOST_THREADS = 0xffff, MOST_HIDDEN = 256 };

NATIVE_SHARED_THREAD_LOCAL struct native_self native_self;

static uint32_t s_threads; /* number of threads so far */
uint32_t native_running;

static void know_thread(void)
{
    struct native_self *t = &native_self;
    if (native_options.sample_stacks)
        stack_sampler_join();
    if (t->number)
        return;
    t->number = s_threads < MOST_THREADS ? ++s_threads : MOST_THREADS;
    native_thread_begins();
}

void native_name_thread(void)
{
    if (native_self.number == native_running)
        return;
    native_running = native_self.number;
    NATIVE_PUT(thread, .thread = native_running);
}

/* Write what precedes an event: which thread runs, and whether events before it are missing. */
static void put_preface(void)
{
    know_thread();
    if (native_ring_is_dropping())
        return;
    native_ring_put_lost();
    native_name_thread();
}

uint32_t native_thread(void)
{
    return native_self.number;
}

/* One frame more than recorded is requested, to know whether the stack has more. */
static void take_stack(struct native_taken *t)
{
    const uint32_t most = native_options.depth, first = most && t->function;
    bool lost = false;
    t->ips[0] = t->function;
    t->sps[0] = t->from.sp - sizeof(uint64_t);
    t->depth = most ? first + native_unwind_from(&t->from, true, t->ips + first, t->sps + first,
                                                 most + 1 - first, &lost)
                    : 0;
    if (t->depth > most)
        t->ips[most] = RAW_CUT;
    else if (lost)
        t->ips[t->depth++] = RAW_UNKNOWN_CALLER;
}

void native_event_stack(struct native_taken *t)
{
    if (t->depth == NATIVE_NO_DEPTH)
        take_stack(t);
}

static enum ring_loss loss_of(enum native_event_kind kind)
{
    static const enum ring_loss losses[] = {
        [NATIVE_NOTHING] = RING_LOST_OTHER, [NATIVE_NEW] = RING_LOST_NEW,
        [NATIVE_FREE] = RING_LOST_FREE,     [NATIVE_RESIZE] = RING_LOST_RESIZE,
        [NATIVE_REGION] = RING_LOST_OTHER,  [NATIVE_POOL] = RING_LOST_OTHER};
    return losses[kind];
}

/* The stack of C alone. */
static struct raw_stack c_stack(struct native_taken *t)
{
    if (t->known && t->known->generation == stack_tree_generation())
        return (struct raw_stack){.number = t->known->number};
    native_event_stack(t);
    const struct raw_stack stack = native_stack(t->ips, t->depth);
    if (t->from.sp && stack.number)
        known_stack_keep(&t->from, t->function, stack.number);
    return stack;
}

static void put(struct native_taken *t, const struct native_event *e)
{
    struct raw_stack stack;
    if (e->kind == NATIVE_NEW || e->kind == NATIVE_RESIZE)
        unseen_count(e->size > block_sample_mean ? e->size : block_sample_mean);
    if (native_ring_drops(loss_of(e->kind)))
        return;
    if (!t->from.sp || !lua_stack_take(&t->from, t->function, &stack))
        stack = c_stack(t);
    const uint64_t now = native_now();
    const uint32_t slot = native_heap_slot(e->heap), ended = e->how | (e->lacks_news ? RAW_HOW_UNKNOWN : 0);
    if (e->kind == NATIVE_NEW)
        RING_PUT(new, .slot = slot, .how = e->how, .addr = e->addr, .size = e->size, .instructions = now,
                 .stack = stack);
    else if (e->kind == NATIVE_FREE)
        RING_PUT(free, .slot = slot, .how = ended, .addr = e->addr, .instructions = now, .stack = stack);
    else if (e->kind == NATIVE_RESIZE)
        RING_PUT(resize, .slot = slot, .how = ended, .old = e->old, .addr = e->addr, .size = e->size,
                 .instructions = now, .stack = stack);
    else if (e->kind == NATIVE_REGION)
        RING_PUT(region, .what = e->how, .addr = e->addr, .size = e->size, .stack = stack);
    else if (e->kind == NATIVE_POOL)
        RING_PUT(pool, .what = e->how, .pool = e->pool, .old = e->old, .block = e->addr, .size = e->size,
                 .instructions = now, .stack = stack);
}

/* A resize ends one block and makes another, each of which is recorded or not. */
static void put_sampled(struct native_taken *t)
{
    const struct native_event *e = &t->event;
    const uint64_t ended = e->kind == NATIVE_FREE ? e->addr : e->kind == NATIVE_RESIZE ? e->old : 0;
    const bool begins = e->kind == NATIVE_NEW || (e->kind == NATIVE_RESIZE && e->chosen);
    if (ended && block_sample_remove(ended))
        put(t, &(struct native_event){NATIVE_FREE, .how = e->how, .addr = ended, .heap = e->heap});
    if (begins && !native_ring_drops(RING_LOST_NEW) && block_sample_add(e->addr, 0))
        put(t, &(struct native_event){NATIVE_NEW, .how = e->how, .addr = e->addr, .size = e->size,
                                      .heap = e->heap});
}

/* A block begins where a call that still runs has freed its old one. */
static void give_up(uint64_t addr)
{
    struct native_event e;
    struct raw_stack stack;
    if (native_resize_give_up(addr, &e, &stack) && (!block_sample_mean || block_sample_remove(addr)) &&
        !native_ring_drops(RING_LOST_FREE))
        NATIVE_PUT(free, .slot = native_heap_slot(e.heap), .how = e.how, .addr = addr,
                   .instructions = native_now(), .stack = stack);
}

/* -- blocks that are not the program's -- */

/* The blocks of malloc that are the recorder's and that are not freed. Further ones are recorded. */
struct hidden {
    uint64_t addr, size;
};
LASTING_TABLE(struct hidden, s_hidden, MOST_HIDDEN);
static uint32_t s_hidden_count;

static uint32_t find_hidden(uint64_t addr)
{
    uint32_t i = 0;
    while (i < s_hidden_count && s_hidden[i].addr != addr)
        i++;
    return i;
}

/* In a sample, a block that is not recorded is never missed: its end is not looked at. */
static bool hide_event(const struct native_event *e)
{
    if (block_sample_mean)
        return e->kind == NATIVE_NEW;
    const uint32_t i = find_hidden(e->kind == NATIVE_RESIZE ? e->old : e->addr);
    const bool is_known = i < s_hidden_count;
    if (e->kind == NATIVE_FREE && is_known)
        s_hidden[i] = s_hidden[--s_hidden_count];
    else if (is_known || (e->kind == NATIVE_NEW && i < MOST_HIDDEN)) {
        s_hidden[i].addr = e->addr;
        s_hidden[i].size = e->size;
        s_hidden_count += !is_known;
    } else
        return false;
    return true;
}

void native_hide(enum native_owner owner)
{
    native_self.hidden[owner]++;
}

void native_show(enum native_owner owner)
{
    if (--native_self.hidden[owner] || owner != NATIVE_OF_RECORDER)
        return;
    const struct native_registers here = NATIVE_HERE;
    for (; s_hidden_count; s_hidden_count--)
        native_record(&(struct native_event){NATIVE_NEW, .how = MT_HOW_MALLOC,
                                             .addr = s_hidden[s_hidden_count - 1].addr,
                                             .size = s_hidden[s_hidden_count - 1].size},
                      &here);
}

void native_event_put(struct native_taken *t)
{
    const struct native_event *e = &t->event;
    if (e->kind == NATIVE_REGION || e->kind == NATIVE_POOL) {
        if (!native_self.hidden[NATIVE_OF_RECORDER])
            put(t, e);
        return;
    }
    if (native_self.hidden[NATIVE_OF_RECORDER] && hide_event(&t->event))
        return;
    native_resize_end(&t->event);
    if (e->kind == NATIVE_NEW || (e->kind == NATIVE_RESIZE && e->addr != e->old))
        give_up(e->addr);
    if (block_sample_mean)
        put_sampled(t);
    else if (t->event.kind != NATIVE_NOTHING)
        put(t, &t->event);
}

/* Write the deferred events. A handler may add one at any moment, so the count is only set to 0 while it is that of the
 * events that were written. */
static void put_deferred(void)
{
    struct native_self *t = &native_self;
    uint32_t done = 0, all = __atomic_load_n(&t->deferred_count, __ATOMIC_RELAXED);
    if (__builtin_expect(all == 0, 1))
        return;
    do {
        while (done < all)
            native_event_put(&t->taken[1 + done++]);
    } while (
        !__atomic_compare_exchange_n(&t->deferred_count, &all, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

bool native_event_lock(void)
{
    if (!native_ring_lock())
        return false;
    native_self.locked = true;
    put_preface();
    put_deferred();
    return true;
}

static void unlock(void)
{
    struct native_self *t = &native_self;
    if (t->locked) {
        put_deferred();
        t->locked = false;
        native_ring_unlock();
    } else
        t->deferred_count = 0; /* nothing is recorded any more */
}

/* What a handler defers while the ring is being unlocked is written after that. */
void native_event_end(void)
{
    struct native_self *t = &native_self;
    const uint64_t sp = t->recording;
    for (;;) {
        unlock();
        t->recording = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (__builtin_expect(__atomic_load_n(&t->deferred_count, __ATOMIC_RELAXED) == 0, 1))
            return;
        t->recording = sp;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        native_event_lock();
    }
}

void native_event_late(uint64_t sp)
{
    native_self.recording = sp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    native_event_lock();
    native_event_end();
}

/* Is the event of this thread that is not complete one that will be completed? Not if its frame on the stack is gone. */
static bool is_interrupted(uint64_t sp)
{
    stack_t alternate;
    if (sp < native_self.recording)
        return true;
    return sigaltstack(NULL, &alternate) == 0 && (alternate.ss_flags & SS_ONSTACK);
}

/* Has the thread memory for its events? It gets it with its first one. */
static bool has_memory(struct native_self *t)
{
    if (!t->taken)
        t->taken = native_memory((1 + MOST_DEFERRED) * sizeof *t->taken);
    return t->taken != NULL;
}

/* The event of a signal handler that has interrupted another one. Returns NULL if there are too many. */
static struct native_taken *defer(const struct native_registers *from, uint64_t function)
{
    struct native_self *t = &native_self;
    const uint32_t index = __atomic_fetch_add(&t->deferred_count, 1, __ATOMIC_RELAXED);
    if (index >= MOST_DEFERRED || !has_memory(t)) {
        __atomic_sub_fetch(&t->deferred_count, 1, __ATOMIC_RELAXED);
        native_ring_lose(RING_LOST_IN_HANDLER);
        return NULL;
    }
    struct native_taken *taken = &t->taken[1 + index];
    taken->event.kind = NATIVE_NOTHING; /* until it is filled in */
    taken->from = *from;
    taken->function = function;
    taken->known = NULL;
    take_stack(taken);
    taken->from.sp = 0;
    return taken;
}

/* End the recording, for which there is no memory, unless this thread is in the middle of an event. */
static void end_starved(void)
{
    if (native_self.recording || native_ring_is_mine() ||
        !__atomic_exchange_n(&native_is_starved, false, __ATOMIC_RELAXED))
        return;
    ljtrace_native_detach("");
}

struct native_taken *native_event_begin(const struct native_registers *from, uint64_t function,
                                        bool *deferred)
{
    struct native_self *t = &native_self;
    *deferred = false;
    if (__builtin_expect(native_is_starved, 0))
        end_starved();
    if (t->hidden[NATIVE_OF_CALLER] && !t->hidden[NATIVE_OF_RECORDER])
        return NULL;
    *deferred = t->recording && is_interrupted(from->sp);
    if (*deferred)
        return defer(from, function);
    if (t->recording)
        native_event_end();
    if (__builtin_expect(got_is_late, 0))
        got_catch_up();
    if (!has_memory(t)) {
        native_ring_lose(RING_LOST_OTHER);
        return NULL;
    }
    t->recording = from->sp;
    t->taken->from = *from;
    t->taken->function = function;
    t->taken->depth = NATIVE_NO_DEPTH;
    t->taken->known = known_stack_find(from, function);
    if (!block_sample_mean && !t->taken->known)
        take_stack(t->taken); /* without the lock; in a sample it may not be needed */
    return t->taken;
}

void native_record(const struct native_event *e, const struct native_registers *from)
{
    const int error = errno;
    bool deferred;
    struct native_taken *t = native_event_begin(from, e->function, &deferred);
    if (t)
        t->event = *e;
    else
        native_resize_drop(e->resize);
    if (t && deferred && e->kind == NATIVE_NEW && block_sample_mean)
        block_sample_expect(e->addr);
    if (t && !deferred) {
        if (usual_event_lock() || native_event_lock())
            native_event_put(t);
        if (native_self.locked)
            usual_end();
        else
            native_event_end();
    }
    errno = error;
}

bool native_enter(uint64_t sp)
{
    struct native_self *t = &native_self;
    if (__builtin_expect(native_is_starved, 0))
        end_starved();
    if (t->recording && is_interrupted(sp)) {
        native_ring_lose(RING_LOST_IN_HANDLER);
        return false;
    }
    if (t->recording)
        native_event_end();
    t->recording = sp;
    if (native_event_lock())
        return true;
    t->recording = 0;
    return false;
}

enum native_chance native_try_enter(uint64_t sp)
{
    struct native_self *t = &native_self;
    if (!native_is_on() || (t->recording && is_interrupted(sp)))
        return NATIVE_NEVER;
    if (t->recording)
        native_event_end();
    t->recording = sp;
    t->locked = native_ring_try_lock();
    if (t->locked) {
        put_preface();
        return NATIVE_ENTERED;
    }
    t->recording = 0;
    return NATIVE_LATER;
}

void native_leave(void)
{
    native_event_end();
}

void native_events_anew(void)
{
    native_self.locked = false;
    native_self.recording = 0;
    native_self.deferred_count = 0;
    memset(native_self.hidden, 0, sizeof native_self.hidden);
    s_hidden_count = 0;
}

void native_events_restart(void)
{
    native_running = 0;
}
