/* kill.c - the random end of blocks between two rounds of a replay; see kill.h.
 *
 * Selection sampling: each block in turn is killed with the chance (still to kill) / (still to see), which
 * gives exactly the wanted number and every subset with the same chance. Blocks that survive move to a
 * list of their own, so that the next round finds its slots empty.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/kill.h"
#include "drivers/heap/raw_syscalls.h"

uint64_t kill_random(uint64_t *state)
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
    uint64_t ticket = (uint64_t)(((unsigned __int128)kill_random(&e->random) * l->to_see) >> 64);
    bool dies = ticket < l->to_kill;
    l->to_kill -= dies;
    l->to_see--;
    return dies;
}

static void end(struct engine *e, struct block *b)
{
    if (e->watcher)
        e->watcher->freeing(e->watcher->ctx, b, engine_address(e, b));
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
            end(e, &e->kept[i]);
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
            end(e, b);
        } else {
            e->kept[e->kept_count++] = *b;
            b->ref = b->fixed = NULL;
        }
    }
}

bool kill_blocks(struct engine *e, uint32_t percent)
{
    uint64_t current = e->shared->job.facts.blocks_at_end, live = e->kept_count + current;
    struct lottery l = {live * percent / 100, live};
    if (!room_for(e, current))
        return false;
    cull_kept(e, &l);
    cull_current(e, &l);
    e->first_id += e->shared->job.facts.slots;
    return true;
}
