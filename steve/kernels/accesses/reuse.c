/* reuse.c - reuse distances; see reuse.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/reuse.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/walk.h"

#define FIRST_TREE (1u << 13)
#define LARGEST_TREE (1u << 31)

static bool make_tree(struct reuse *r, uint32_t size)
{
    r->tree = calloc((size_t)size + 1, sizeof *r->tree);
    r->at = calloc((size_t)size + 1, sizeof *r->at);
    r->tree_size = size;
    return r->tree && r->at;
}

bool reuse_init(struct reuse *r, uint8_t shift, uint64_t rate)
{
    memset(r, 0, sizeof *r);
    r->shift = shift;
    r->rate = rate;
    return handle_map_init(&r->map) && make_tree(r, FIRST_TREE);
}

void reuse_free(struct reuse *r)
{
    handle_map_free(&r->map);
    free(r->times);
    free(r->lines);
    free(r->at);
    free(r->tree);
}

static void add(struct reuse *r, uint32_t time, uint32_t change)
{
    for (; time <= r->tree_size; time += time & -time)
        r->tree[time] += change;
}

/* Ones at times 1 ... time. */
static uint32_t sum(const struct reuse *r, uint32_t time)
{
    uint32_t result = 0;

    for (; time > 0; time -= time & -time)
        result += r->tree[time];
    return result;
}

/* Make the tree hold ones at 1 ... n. */
static void fill(struct reuse *r, uint32_t n)
{
    for (uint32_t i = 1; i <= r->tree_size; i++) {
        uint32_t low = i & -i, first = i - low;

        r->tree[i] = first >= n ? 0 : (i < n ? i : n) - first;
    }
}

/* Give the lines times without holes, in their order; a longer tree if they fill more than half of it. */
static bool renumber(struct reuse *r)
{
    uint32_t *old = r->at, n = 0, last = r->now;
    uint32_t size = r->tree_size;

    if (r->map.live > size / 2) {
        if (size >= LARGEST_TREE)
            return false;
        size *= 2;
    }
    free(r->tree);
    if (!make_tree(r, size)) {
        free(old);
        return false;
    }
    for (uint32_t time = 1; time <= last; time++)
        if (old[time]) {
            r->at[++n] = old[time];
            r->times[old[time] - 1] = n;
        }
    free(old);
    r->now = n;
    fill(r, n);
    return true;
}

static void count(struct reuse *r, uint64_t distance)
{
    r->bins[distance ? 64 - __builtin_clzll(distance) : 0]++;
}

/* A line is removed from the tree. */
static void lift(struct reuse *r, uint32_t index)
{
    uint32_t before = r->times[index];

    add(r, before, (uint32_t)-1);
    r->at[before] = 0;
    r->times[index] = 0;
}

/* A line is added to the tree, as the one that was touched last of those in it. False when out of memory. */
static bool index_put(struct reuse *r, uint32_t index)
{
    if (r->now == r->tree_size && !renumber(r))
        return false;
    r->times[index] = ++r->now;
    r->at[r->now] = index + 1;
    add(r, r->now, 1);
    return true;
}

/* Position of a line in the list of recent ones; n_recent if it is not there. */
static inline uint32_t find_recent(const struct reuse *r, uint64_t line)
{
    uint32_t i = 0;

    while (i < r->n_recent && r->recent[i].line != line)
        i++;
    return i;
}

/* Make a line the first of the recent ones. `at`: its position, or n_recent. The last one goes to the tree if there is no
 * room. */
static inline bool put_first(struct reuse *r, uint32_t at, struct reuse_line line)
{
    if (at == REUSE_RECENT) {
        if (!index_put(r, r->recent[--at].index))
            return false;
    } else if (at == r->n_recent) {
        r->n_recent++;
    }
    for (; at > 0; at--)
        r->recent[at] = r->recent[at - 1];
    r->recent[0] = line;
    return true;
}

static bool touch_first(struct reuse *r, uint64_t line, uint32_t *index)
{
    *index = handle_map_add(&r->map, line);
    r->cold++;
    if (*index == HANDLE_MAP_NONE ||
        !array_grow(&r->times, &r->times_room, (size_t)*index + 1, sizeof *r->times) ||
        !array_grow(&r->lines, &r->lines_room, (size_t)*index + 1, sizeof *r->lines))
        return false;
    r->lines[*index] = line;
    return true;
}

/* A line that is not one of the recent ones. */
static bool touch_other(struct reuse *r, uint64_t line)
{
    uint32_t index = handle_map_find(&r->map, line);

    if (index == HANDLE_MAP_NONE) {
        if (!touch_first(r, line, &index))
            return false;
    } else {
        count(r, (r->map.live - sum(r, r->times[index])) * r->rate);
        lift(r, index);
    }
    return put_first(r, r->n_recent, (struct reuse_line){line, index});
}

static inline bool touch(struct reuse *r, uint64_t line)
{
    uint32_t at = find_recent(r, line);

    if (at == r->n_recent)
        return touch_other(r, line);
    count(r, at * r->rate);
    return put_first(r, at, r->recent[at]);
}

static inline bool is_followed(const struct reuse *r, uint64_t line)
{
    return r->rate == 1 || (line * 0x9E3779B97F4A7C15u >> 32) % r->rate == 0;
}

static inline bool touch_line(struct reuse *r, uint64_t line)
{
    if (!is_followed(r, line))
        return true;
    r->touches++;
    return touch(r, line);
}

bool reuse_feed(struct reuse *r, const struct mt_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct mt_event *e = &events[i];

        if (!walk_is_access(e) || e->size == 0)
            continue;
        for (uint64_t line = e->addr >> r->shift; line <= (e->addr + e->size - 1) >> r->shift; line++)
            if (!touch_line(r, line))
                return false;
    }
    return true;
}

void reuse_order(const struct reuse *r, uint64_t *to)
{
    for (uint32_t time = 1; time <= r->now; time++)
        if (r->at[time])
            *to++ = r->lines[r->at[time] - 1];
    for (uint32_t i = r->n_recent; i > 0; i--)
        *to++ = r->recent[i - 1].line;
}

/* Make a line the one that was touched last. */
static bool move_up(struct reuse *r, uint64_t line)
{
    uint32_t at = find_recent(r, line), index;

    if (at < r->n_recent)
        return put_first(r, at, r->recent[at]);
    index = handle_map_find(&r->map, line);
    if (index == HANDLE_MAP_NONE)
        return true; /* it is not among the first touches: the report of the shard is wrong */
    lift(r, index);
    return put_first(r, at, (struct reuse_line){line, index});
}

bool reuse_merge(struct reuse *r, const uint64_t *firsts, const uint64_t *lasts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!touch(r, firsts[i]))
            return false;
    for (size_t i = 0; i < n; i++)
        if (!move_up(r, lasts[i]))
            return false;
    return true;
}
