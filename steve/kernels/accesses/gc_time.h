/* gc_time.h - instructions that Lua's garbage collectors execute, over the run.
 *
 * As in states.h, the time between two events belongs to the state of the thread of the first event. So the sum of all
 * bins is what `steve states` has for the state GC. Operations are divided into bins of equal width, a power of two,
 * which doubles when there would be more than GC_TIME_BINS.
 *
 * At the beginning of a shard, the state of a thread is not known until its first MT_STATE. The time of such a thread is
 * listed in `before`. The width is known there, because all operations are counted. Memory: O(bins); in shards O(bins x
 * threads).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_GC_TIME_H
#define STEVE_KERNELS_ACCESSES_GC_TIME_H

#include "memtrace/reader.h"

#define GC_TIME_BINS 512

enum gc_time_state { GC_TIME_OTHER, GC_TIME_COLLECTS, GC_TIME_BEFORE };

/* Time of a thread whose state is not known. Only uint64_t, so that it can be seen as an array with named columns. */
struct gc_time_row {
    uint64_t thread, bin, time;
};

struct gc_time {
    uint64_t bins[GC_TIME_BINS]; /* instructions of garbage collectors */
    uint64_t operations, width;
    uint64_t time, first_time; /* of the last and the first event */
    uint64_t first_operations; /* before the first event */
    struct gc_time_row *before;
    size_t n, room;
    uint32_t *last;  /* by thread: number + 1 of its last row in `before` */
    uint8_t *now;    /* by thread: enum gc_time_state */
    uint16_t thread; /* that ran last */
    bool began, part;
};

/* Those that return bool return false when out of memory. */
bool gc_time_init(struct gc_time *g);
void gc_time_free(struct gc_time *g);
/* Begin at a shard, after so many operations of `total`. */
void gc_time_begin_shard(struct gc_time *g, uint64_t operations, uint64_t total);
bool gc_time_feed(struct gc_time *g, const struct mt_batch *batch);
/* Add time to the bin of an operation. */
void gc_time_add(struct gc_time *g, uint64_t operation, uint64_t time);
/* The trace ended. time: instructions then. */
bool gc_time_finish(struct gc_time *g, uint64_t time);

#endif
