/* collector.h - the state of the collector's process, which main.c, looks.c and remarks.c share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_COLLECTOR_COLLECTOR_H
#define LJTRACE_COLLECTOR_COLLECTOR_H

#include "ljtrace/collector/channel.h"
#include "ljtrace/collector/copy.h"
#include "ljtrace/collector/feed.h"
#include "ljtrace/collector/pages.h"
#include "ljtrace/collector/sink.h"
#include "ljtrace/protocol/ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* A look at the program's pages that has begun. */
struct open_look {
    const char *reason; /* NULL = there is none */
    uint64_t time;
    uint32_t slabs;         /* it ends when so many more were read, if there is always one to be read */
    struct regions regions; /* those known when it began, and in between what was mapped since */
};

/* The state of this process. */
struct collector {
    struct channel channel;
    struct sink sink;
    const char *pattern; /* the name of the output before %p is expanded */
    const char *name;
    struct recording recording; /* what is asked; its process is that of this collector */
    char process[64];           /* "PID@START" of the traced process */
    struct ring_header *ring;   /* also channel.ring */
    uint32_t slab_count, slab_bytes;
    struct mt_writer *writer;
    struct feed *feed;
    struct open_look look;
    uint32_t looks;         /* how many looks the launcher had asked for when this process looked last */
    struct pages *pages;    /* NULL = they are not looked at */
    const char *limit_name; /* of what limits the size of the file */
    struct keep keep;
    /* A slab whose first bytes were fed before it was full; RING_SLABS = none. */
    uint32_t begun;
    uint64_t begun_bytes;  /* how many bytes of it were fed */
    struct timespec wrote; /* when the file was last complete up to the ring's end */
    uint32_t last_slab;    /* the last slab received by a token; RING_SLABS = none yet */
    bool forked;           /* this collector belongs to a forked child */
    uint32_t lost_snapshots;
    uint32_t children; /* forks of the program that were announced since this process collects its events */
};

#endif
