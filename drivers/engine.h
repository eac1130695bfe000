/* engine.h - the replay: every step of a plan done on one driver.
 *
 * Locks are really held, across other operations. Three ways to go through the steps, compiled from one
 * source: BATCH does nothing but the operations; TIMED times each; WATCHED calls a watcher after each.
 * With kill_percent, at the end of the file so many percent of the live blocks, chosen evenly at random,
 * are freed and the file is done again with new blocks, until memory runs out.
 *
 * Runs in the driver's process: takes memory from sysmem only, never from malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ENGINE_H
#define DRIVERS_ENGINE_H

#include "drivers/board.h"
#include "drivers/driver.h"

struct block {
    void *ref;     /* NULL: no block */
    void *fixed;   /* address while locked, NULL when it is not */
    uint64_t size; /* as asked for */
    uint32_t id;
};

/* Told of everything by a WATCHED run. `address` is NULL for a block that has no memory. */
struct watcher {
    void *ctx;
    /* after N: false stops the run as failed (board text set) */
    bool (*made)(void *ctx, const struct block *b, void *address);
    bool (*freeing)(void *ctx, const struct block *b, void *address); /* before F */
    void (*locked)(void *ctx, const struct block *b, bool locked);
    bool (*done)(void *ctx, char op, uint64_t size); /* after each N and F; op_index is on the board */
};

struct engine {
    const struct steve_driver *driver;
    struct board *board;
    const struct step *steps;
    struct block *blocks; /* by slot */
    struct block *kept;   /* blocks of earlier rounds that are live still */
    uint64_t kept_count, kept_room;
    uint64_t ops; /* N and F done */
    uint64_t random;
    uint32_t first_id; /* of this round */
    const struct watcher *watcher;
    uint64_t oom_time;                    /* of the last malloc, nanoseconds */
    uint64_t run_time, run_ops, run_most; /* TIMED: since the last point */
};

/* Map the plan and make the tables. False: board text set. */
bool engine_open(struct engine *e, struct board *board, const struct steve_driver *driver);

/* Replay; the result is on the board. */
void engine_batch(struct engine *e);
void engine_timed(struct engine *e);
void engine_watched(struct engine *e, const struct watcher *w);

/* The address of a live block now. */
void *engine_address(const struct engine *e, const struct block *b);

/* Is the operation just done a data point? */
static inline bool engine_at_point(const struct engine *e)
{
    uint64_t index = e->ops - 1;
    return index % e->board->job.interval == 0 || e->ops == e->board->job.total_ops;
}

#endif
