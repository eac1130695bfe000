/* recording.h - what is asked of a recording: a part of the ring's header, which all processes of the recording read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool, or the launcher of the native recorder, writes it before another process maps the ring. The collector and the
 * native library copy it when they map the ring, check it, and use only their copies: the memory is also the program's.
 */
#ifndef LJTRACE_PROTOCOL_RECORDING_H
#define LJTRACE_PROTOCOL_RECORDING_H

#include "ljtrace/protocol/pool_functions.h"

#include <stdbool.h>
#include <stdint.h>

/* The limits of the options. Times are in nanoseconds, sizes in bytes. */
enum {
    RECORDING_MOST_FRAMES = 500,
    RECORDING_LEVELS = 19, /* of zstd, from 1 */
    RECORDING_MOST_BESIDE = 4096,
    RECORDING_PREFIXES = 16,
    RECORDING_PREFIX_BYTES = 256 /* of all, with a comma after each and a zero at the end */
};
#define RECORDING_SHORTEST_SAMPLE 100000ULL
#define RECORDING_SHORTEST_LOOK 10000000ULL
#define RECORDING_LONGEST_SAMPLE 60000000000ULL

/* When snapshots of all objects are taken that nobody asks for (--universe). */
enum recording_universe {
    UNIVERSE_NONE,
    UNIVERSE_NOW,     /* of each state that there is when the recording begins */
    UNIVERSE_GROWING, /* the same, and each time a state's heap has grown since its last one */
    UNIVERSES
};

struct recording {
    uint32_t process; /* the program, by its id in the pid namespace of the launcher and the collector */
    /* Each is 0 or 1. */
    uint8_t native;    /* the native library records, without Valgrind */
    uint8_t attached;  /* the program had begun before the recording */
    uint8_t forks;     /* native: forked children are recorded, too */
    uint8_t lua_api;   /* native: each Lua state gets a global misc */
    uint8_t drops;     /* native: events are dropped while the ring is full (--when-full=drop) */
    uint8_t universe;  /* snapshots of Lua states: enum recording_universe */
    uint8_t text;      /* the output is classic text */
    uint8_t freed;     /* freed blocks are remembered (--trace-freed) */
    uint8_t keep_last; /* at max_size, the last part is kept (--keep=last) */
    uint8_t existing;  /* attached: blocks of malloc from before are reported (--existing-blocks) */
    uint8_t pages;     /* native: the pages of the process are looked at (--pages) */
    uint32_t depth;    /* native: the most frames of a stack */
    uint32_t level;    /* of zstd */
    uint32_t beside;   /* an access so many bytes beside a block is an error; 0 = none is */
    uint64_t max_size; /* of the file; 0 = any */
    /* Native: the mean number of bytes between samples; 0 = all blocks are recorded. Under Valgrind: every so many blocks
     * are recorded; 0 = all are. */
    uint64_t sample_mean, sample_blocks;
    uint64_t sample_seed;   /* 0 = any */
    uint64_t sample_stacks; /* native: CPU time from one sample of a thread's stack to the next; 0 = none */
    uint64_t
        pages_every; /* native: the time from one look at the pages to the next; 0 = only for other reasons */
    /* Native: the beginnings of names of allocation functions (--alloc-prefix), with a comma after each. */
    char prefixes[RECORDING_PREFIX_BYTES];
    char pools[POOL_LIST_BYTES]; /* native: functions of pools (pool_functions.h) */
};

/* Is this a list of prefixes as above? None of them is empty. */
static inline bool recording_lists_prefixes(const char *list)
{
    uint32_t n = 0, commas = 0;
    char before = ',';
    for (; n < RECORDING_PREFIX_BYTES && list[n]; before = list[n++]) {
        commas += list[n] == ',';
        if (list[n] == ',' && before == ',')
            return false;
    }
    return n < RECORDING_PREFIX_BYTES && commas <= RECORDING_PREFIXES && before == ',';
}

/* Is this possible? */
static inline bool recording_is_valid(const struct recording *r)
{
    const bool flags = r->native <= 1 && r->attached <= 1 && r->forks <= 1 && r->lua_api <= 1 &&
                       r->drops <= 1 && r->text <= 1 && r->freed <= 1 && r->keep_last <= 1 && r->pages <= 1 &&
                       r->existing <= r->attached;
    const bool times = !r->sample_stacks || (r->sample_stacks >= RECORDING_SHORTEST_SAMPLE &&
                                             r->sample_stacks <= RECORDING_LONGEST_SAMPLE);
    const bool looks =
        !r->pages_every || (r->pages && r->native && r->pages_every >= RECORDING_SHORTEST_LOOK);
    return flags && times && looks && r->universe < UNIVERSES && !(r->universe && r->sample_mean) &&
           !(r->existing && r->sample_mean) && !(r->pools[0] && r->sample_mean) &&
           pool_list_is_valid(r->pools) && r->process > 0 && r->process <= INT32_MAX &&
           r->depth <= RECORDING_MOST_FRAMES && r->level >= 1 && r->level <= RECORDING_LEVELS &&
           r->beside <= RECORDING_MOST_BESIDE && recording_lists_prefixes(r->prefixes);
}

#endif
