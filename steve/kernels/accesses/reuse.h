/* reuse.h - reuse distances: how many other lines are touched before a line is touched again.
 *
 * The stack distance of Mattson, Gecsei, Slutz and Traiger (Evaluation techniques for storage hierarchies,
 * IBM Systems Journal 9, 1970): an access hits in a fully associative LRU cache of C lines exactly if the
 * distance is below C. Counted as Bennett and Kruskal do (LRU stack processing, 1975): a tree of sums over
 * time has a one at the last access of each line; the distance is the number of ones since. Times are given
 * out anew when they reach the end of the tree, which is twice as long as there are lines, so one access
 * costs O(log lines) and memory is O(lines). The few lines that were touched last are not in the tree: they are in a
 * list in order, where the distance of a line is its position. Most touches are of these.
 *
 * With a rate R above 1 only lines whose hash is a multiple of R are followed, and distances are multiplied
 * by R: spatially hashed sampling (Waldspurger and others, SHARDS, FAST 2015).
 *
 * In a shard, the distance of the first touch of a line is not known. So a shard reports the lines that it touched, in
 * the order of their first touches and in that of their last ones. The whole touches them in the first order, which
 * gives the missing distances, and then in the second order without counting, which gives the tree at the end of the
 * shard (as PARDA: Niu, Dinan, Lu and Sadayappan, IPDPS 2012).
 *
 * An access that lies in two lines counts as two touches. Lines are those of the address space.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_REUSE_H
#define STEVE_KERNELS_ACCESSES_REUSE_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"

#define REUSE_BINS 65
#define REUSE_RECENT 8

/* A line, and its index in `times`. */
struct reuse_line {
    uint64_t line;
    uint32_t index;
};

struct reuse {
    uint8_t shift;                          /* a line is 2^shift bytes */
    uint64_t rate;                          /* one line of so many is followed */
    struct reuse_line recent[REUSE_RECENT]; /* the lines that were touched last, the last one first */
    uint32_t n_recent;
    struct handle_map map; /* from line numbers to indices of times */
    uint32_t
        *times;     /* of the last touch, by index; 1 ... tree_size; 0 = the line is one of the recent ones */
    uint32_t *at;   /* by time: the line's index + 1; 0 = no line was touched last then */
    uint32_t *tree; /* sums of ones (Fenwick) */
    size_t times_room;
    uint32_t tree_size, now;   /* now: the time last given out */
    uint64_t touches, cold;    /* cold: first touches */
    uint64_t bins[REUSE_BINS]; /* distance 0; then 2^(i-1) ... 2^i - 1 */
    uint64_t *lines;           /* by index, so in the order of first touches: map.live of them */
    size_t lines_room;
};

bool reuse_init(struct reuse *r, uint8_t shift, uint64_t rate);
void reuse_free(struct reuse *r);
/* False when out of memory (or for more than 2^30 lines). */
bool reuse_feed(struct reuse *r, const struct mt_event *events, size_t n);
/* The lines in the order of their last touches: map.live of them. */
void reuse_order(const struct reuse *r, uint64_t *to);
/* Add the next part, of n lines in both orders: their first touches; its others are added by the caller.
 * False as above. */
bool reuse_merge(struct reuse *r, const uint64_t *firsts, const uint64_t *lasts, size_t n);

#endif
