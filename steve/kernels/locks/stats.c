/* stats.c - what locks mean for a compacting allocator; see stats.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locks/stats.h"

#include "memtrace/base/array.h"

bool lockstats_init(struct lockstats *s)
{
    memset(s, 0, sizeof *s);
    s->distance = 1;
    return handle_map_init(&s->live);
}

void lockstats_free(struct lockstats *s)
{
    handle_map_free(&s->live);
    free(s->blocks);
}

/* ---- time ---------------------------------------------------------------------------------- */

static void thin_out(struct lockstats *s)
{
    for (size_t i = 0; i < LOCKSTATS_SAMPLES / 2; i++)
        s->samples[i] = s->samples[2 * i];
    s->n_samples = LOCKSTATS_SAMPLES / 2;
    s->distance *= 2;
}

/* Take the samples that fall before operation `now`: the state has not changed since the last. */
static void take_samples(struct lockstats *s, uint64_t now)
{
    while (s->n_samples * s->distance < now) {
        if (s->n_samples == LOCKSTATS_SAMPLES) {
            thin_out(s);
            continue;
        }
        s->samples[s->n_samples] = s->state;
        s->samples[s->n_samples].operation = s->n_samples * s->distance;
        s->n_samples++;
    }
}

static void advance(struct lockstats *s, uint64_t now)
{
    const struct lockstats_sample *state = &s->state;
    double passed = (double)(now - state->operation);

    if (now <= state->operation)
        return;
    take_samples(s, now);
    s->sums[0] += passed * (double)state->live_blocks;
    s->sums[1] += passed * (double)state->live_bytes;
    s->sums[2] += passed * (double)state->locked_blocks;
    s->sums[3] += passed * (double)state->locked_bytes;
    s->state.operation = now;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void lock(struct lockstats *s, struct lockstats_block *b)
{
    if (b->locked)
        return;
    s->blocks_locked += !b->ever;
    b->locked = b->ever = true;
    b->since = s->state.operation;
    s->locks++;
    s->state.locked_blocks++;
    s->state.locked_bytes += b->size;
}

static void unlock(struct lockstats *s, struct lockstats_block *b)
{
    uint64_t held = s->state.operation - b->since;

    if (!b->locked)
        return;
    b->locked = false;
    s->holds[held ? 64 - __builtin_clzll(held) : 0]++;
    s->held += held;
    s->longest = held > s->longest ? held : s->longest;
    s->state.locked_blocks--;
    s->state.locked_bytes -= b->size;
}

static void block_free(struct lockstats *s, uint64_t handle)
{
    uint32_t index = handle_map_remove(&s->live, handle);

    if (index == HANDLE_MAP_NONE)
        return;
    s->died_locked += s->blocks[index].locked;
    unlock(s, &s->blocks[index]);
    s->state.live_blocks--;
    s->state.live_bytes -= s->blocks[index].size;
}

static bool block_new(struct lockstats *s, const struct op *op)
{
    uint32_t index;

    block_free(s, op->handle);
    index = handle_map_add(&s->live, op->handle);
    if (index == HANDLE_MAP_NONE || !array_grow(&s->blocks, &s->room, (size_t)index + 1, sizeof *s->blocks))
        return false;
    s->blocks[index] = (struct lockstats_block){.size = op->size};
    s->blocks_made++;
    s->state.live_blocks++;
    s->state.live_bytes += op->size;
    return true;
}

static void block_resize(struct lockstats *s, struct lockstats_block *b, uint64_t size)
{
    s->state.live_bytes += size - b->size;
    s->state.locked_bytes += b->locked ? size - b->size : 0;
    b->size = size;
}

static void change(struct lockstats *s, const struct op *op)
{
    uint32_t index = handle_map_find(&s->live, op->handle);

    if (index == HANDLE_MAP_NONE)
        return;
    if (op->code == OP_LOCK)
        lock(s, &s->blocks[index]);
    else if (op->code == OP_RESIZE)
        block_resize(s, &s->blocks[index], op->size);
    else if (op->code == OP_UNLOCK) {
        s->unlocks += s->blocks[index].locked;
        unlock(s, &s->blocks[index]);
    }
}

bool lockstats_feed(struct lockstats *s, const struct op *ops, const uint64_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        advance(s, at ? at[i] : s->fed);
        s->fed++;
        if (ops[i].code == OP_NEW) {
            if (!block_new(s, &ops[i]))
                return false;
        } else if (ops[i].code == OP_FREE) {
            block_free(s, ops[i].handle);
        } else {
            change(s, &ops[i]);
        }
    }
    return true;
}

void lockstats_finish(struct lockstats *s, uint64_t end)
{
    advance(s, end);
    for (size_t i = 0; i <= s->live.mask; i++) {
        if (s->live.entries[i].key != 0)
            unlock(s, &s->blocks[s->live.entries[i].index]);
    }
}
