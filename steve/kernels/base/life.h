/* life.h - what is known of a block when its life is over; steve/kernels/lives/lives.h makes these records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_LIFE_H
#define STEVE_KERNELS_BASE_LIFE_H

#include "memtrace/sample.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a block that lived when the trace began: made by the process that forked this one, or by this process. */
enum life_inherited { LIFE_INHERITED = 1, LIFE_EARLIER };

struct life {
    uint64_t handle;
    uint64_t size;  /* at the end of its life */
    uint64_t bytes; /* requested by New and Resizes */
    uint64_t resizes;
    uint64_t first_size, most; /* at its New; the most it ever had */
    uint64_t moves, copied;    /* Resizes that gave it another address, and the bytes kept by them */
    uint64_t born_allocated, died_allocated; /* bytes requested for all blocks until then */
    uint64_t born, died; /* numbers of New and Free; if never freed, died is the number of all operations */
    uint64_t born_time, died_time; /* in instructions */
    uint64_t first_use, last_use;  /* numbers of accesses; both = died if there is none */
    uint64_t loads, stores, modifies;
    uint64_t bytes_read, bytes_written;
    uint64_t used;             /* bytes ever accessed */
    uint64_t extent;           /* from the beginning to the last of these */
    uint64_t news;             /* of other blocks during its life */
    uint64_t peak, peak_bytes; /* its bytes at that peak of the heap, the last one before its death */
    double weight;             /* of a block of a sample: memtrace/sample.h; else 0 */
    uint32_t stack, heap;
    uint32_t last_stack;          /* of its last Resize; of its New if it has none */
    uint16_t thread, free_thread; /* free_thread: 0 if never freed */
    uint8_t how, freed, shared;   /* shared: accessed by another thread than made it */
    uint8_t type;                 /* enum mt_type: what it contained, as far as the trace has it */
    uint8_t inherited;            /* it was there when the trace began: 0 or enum life_inherited */
    uint8_t reach;     /* enum mt_reach: how the program could reach it when it ended, if that is known */
    uint8_t container; /* another allocator divided it: its bytes never counted as live */
    uint8_t kept;      /* and its own allocator had not freed it at the end of the trace */
};

/* A number of the life, multiplied by its weight. */
static inline uint64_t life_scaled(const struct life *life, uint64_t x)
{
    return mt_scaled(life->weight, x);
}

/* What the life adds to the variance of a sum to which it adds a number. */
static inline double life_variance(const struct life *life, uint64_t x)
{
    return mt_scaled_variance(life_scaled(life, x), x);
}

/* Was the block never read, or never written, as far as it is known? Of a container, its pieces have the accesses. */
static inline bool life_is_unread(const struct life *life)
{
    return !life->inherited && !life->container && !(life->loads | life->modifies);
}

static inline bool life_is_unwritten(const struct life *life)
{
    return !life->inherited && !life->container && !(life->stores | life->modifies);
}

#endif
