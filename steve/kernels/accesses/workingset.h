/* workingset.h - how much memory a program touches in each window of its operations.
 *
 * A window is a fixed number of operations (Denning's working set, sampled at the ends of windows that do not
 * overlap). For each: bytes touched, lines of 64 bytes touched, blocks touched, and the bytes live at its
 * end. Lines and bytes are those of the address space: two blocks in one line touch one line. Each page of
 * 4096 bytes of heap that was ever accessed has a bitmap of its bytes, which is emptied when a new window
 * first meets it: O(1) for each access, memory O(pages of the heap + windows).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_WORKINGSET_H
#define STEVE_KERNELS_ACCESSES_WORKINGSET_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"

#define WORKINGSET_PAGE 4096

/* All uint64_t: seen as an array with named columns. */
struct workingset_window {
    uint64_t first, operations; /* number of its first operation, how many it has */
    uint64_t time;              /* of its last event */
    uint64_t accesses, bytes, lines, blocks;
    uint64_t live_bytes; /* at its end */
};

struct workingset_page {
    uint64_t window;                     /* number + 1 of the window that the bits are of */
    uint64_t bits[WORKINGSET_PAGE / 64]; /* a bit for each byte; a word for each line */
};

struct workingset {
    uint64_t length; /* operations of a window */
    uint64_t skip;   /* operations yet to come before the first window */
    uint64_t wanted; /* no more windows than these */
    uint64_t now, number, live_bytes;
    struct handle_map map; /* from page numbers to pages */
    struct workingset_page *pages;
    size_t pages_room;
    uint64_t last_page; /* most accesses are to the page of the one before */
    uint32_t last_index;
    uint64_t *touched; /* by slot: number + 1 of the window that touched the block last */
    size_t touched_room;
    struct workingset_window window, *windows;
    size_t n_windows, windows_room;
};

/* In a part of a trace, before anything is fed: it begins with so many bytes live, after so many operations;
 * the first window begins `skip` operations later, and `wanted` windows are made. */
void workingset_begin(struct workingset *w, uint64_t live_bytes, uint64_t operations, uint64_t skip,
                      uint64_t wanted);
/* Are there as many windows as wanted? */
bool workingset_is_done(const struct workingset *w);

/* length: from 1. Both return false when out of memory. */
bool workingset_init(struct workingset *w, uint64_t length);
bool workingset_feed(struct workingset *w, const struct mt_event *events, size_t n);
/* The last window, which may be shorter. */
bool workingset_finish(struct workingset *w);
void workingset_free(struct workingset *w);

#endif
