/* intervals.c - a set of address ranges that do not overlap; see intervals.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/intervals.h"

#include "memtrace/base/array.h"

void intervals_init(struct intervals *s)
{
    memset(s, 0, sizeof *s);
    s->root = INTERVALS_NONE;
    s->random = 2463534242u;
}

void intervals_free(struct intervals *s)
{
    free(s->nodes);
}

uint32_t intervals_overlap(const struct intervals *s, uint64_t start, uint64_t last)
{
    uint32_t i = s->root;

    while (i != INTERVALS_NONE) {
        const struct interval *node = &s->nodes[i];

        if (last < node->start)
            i = node->left;
        else if (start > node->last)
            i = node->right;
        else
            return i;
    }
    return INTERVALS_NONE;
}

static uint32_t next_random(struct intervals *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 17;
    s->random ^= s->random << 5;
    return s->random;
}

/* Cut the tree at `root` into nodes below and above `start`. */
static void split(struct intervals *s, uint32_t root, uint64_t start, uint32_t *below, uint32_t *above)
{
    while (root != INTERVALS_NONE) {
        struct interval *node = &s->nodes[root];

        if (node->start < start) {
            *below = root;
            below = &node->right;
            root = node->right;
        } else {
            *above = root;
            above = &node->left;
            root = node->left;
        }
    }
    *below = *above = INTERVALS_NONE;
}

/* Join two trees, all of `low` being below `high`, at *place. */
static void join(struct intervals *s, uint32_t low, uint32_t high, uint32_t *place)
{
    while (low != INTERVALS_NONE && high != INTERVALS_NONE) {
        if (s->nodes[low].weight > s->nodes[high].weight) {
            *place = low;
            place = &s->nodes[low].right;
            low = *place;
        } else {
            *place = high;
            place = &s->nodes[high].left;
            high = *place;
        }
    }
    *place = low != INTERVALS_NONE ? low : high;
}

bool intervals_add(struct intervals *s, uint32_t node, uint64_t start, uint64_t last)
{
    uint32_t *place = &s->root;
    struct interval *added;

    if (!array_grow(&s->nodes, &s->room, (size_t)node + 1, sizeof *s->nodes))
        return false;
    added = &s->nodes[node];
    *added = (struct interval){.start = start, .last = last, .weight = next_random(s), .present = true};
    while (*place != INTERVALS_NONE && s->nodes[*place].weight > added->weight)
        place = s->nodes[*place].start < start ? &s->nodes[*place].right : &s->nodes[*place].left;
    split(s, *place, start, &added->left, &added->right);
    *place = node;
    return true;
}

void intervals_remove(struct intervals *s, uint32_t node)
{
    uint32_t *place = &s->root;
    uint64_t start;

    if (node >= s->room || !s->nodes[node].present)
        return;
    start = s->nodes[node].start;
    while (*place != node)
        place = s->nodes[*place].start < start ? &s->nodes[*place].right : &s->nodes[*place].left;
    join(s, s->nodes[node].left, s->nodes[node].right, place);
    s->nodes[node].present = false;
}
