/* resizes.c - calls that are resizing a block, by allocators that may wait for locks of the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/inside/resizes.h"

#include "memtrace/memtrace.h"

#include <errno.h>
#include <string.h>

enum { MOST_RUNNING = 64 };

/* A call that runs. */
struct running {
    uint64_t block; /* its old block; 0 = it was given up */
    bool is_used;
    uint32_t heap, depth;
    uint64_t ips[RECORDING_MOST_FRAMES + 1]; /* its C stack */
};

static struct running *s_running; /* NULL = none so far */
static uint32_t s_count;

static struct running *free_place(void)
{
    if (!s_running)
        s_running = native_memory(MOST_RUNNING * sizeof *s_running);
    for (uint32_t i = 0; s_running && i < MOST_RUNNING; i++)
        if (!s_running[i].is_used)
            return &s_running[i];
    return NULL;
}

uint32_t native_resize_begin(const struct native_event *e, const struct native_registers *from)
{
    bool deferred;
    const int error = errno;
    uint32_t number = 0;
    struct native_taken *t = native_event_begin(from, e->function, &deferred);
    if (!t || deferred)
        return 0;
    if (native_event_lock()) {
        struct running *r = free_place();
        native_event_stack(t);
        if (r) {
            *r = (struct running){.block = e->old, .is_used = true, .heap = e->heap, .depth = t->depth};
            memcpy(r->ips, t->ips, t->depth * sizeof *r->ips);
            s_count++;
            number = (uint32_t)(r - s_running) + 1;
        }
    }
    native_event_end();
    errno = error;
    return number;
}

/* Returns false if its block was given up. */
static bool end(uint32_t number)
{
    struct running *r = &s_running[number - 1];
    const bool kept = r->block != 0;
    r->is_used = false;
    s_count--;
    return kept;
}

void native_resize_end(struct native_event *e)
{
    if (!e->resize || end(e->resize))
        return;
    e->kind = e->kind == NATIVE_RESIZE ? NATIVE_NEW : NATIVE_NOTHING;
    e->resize = 0;
}

void native_resize_drop(uint32_t number)
{
    if (number && native_ring_lock()) {
        end(number);
        native_ring_unlock();
    }
}

bool native_resize_give_up(uint64_t addr, struct native_event *e, struct raw_stack *stack)
{
    for (uint32_t i = 0; s_count && i < MOST_RUNNING; i++) {
        struct running *r = &s_running[i];
        if (!r->is_used || r->block != addr)
            continue;
        r->block = 0;
        *e = (struct native_event){NATIVE_FREE, .how = MT_HOWS, .addr = addr, .heap = r->heap};
        *stack = native_stack(r->ips, r->depth);
        return true;
    }
    return false;
}

void native_resizes_anew(void)
{
    for (uint32_t i = 0; s_running && i < MOST_RUNNING; i++)
        s_running[i].is_used = false;
    s_count = 0;
}
