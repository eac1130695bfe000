/* sharing_lines.h - lines of memory that several threads use, and which of them are falsely shared.
 *
 * Valgrind runs one thread at a time, in turns whose ends are its own affair. So how often a line goes from one
 * thread to another in the recorded order says nothing of a free run. What does not depend on the turns: what
 * each thread accesses, and that it goes on doing so while others do.
 *
 * Words. A *run* on a line: accesses by one thread up to the next to this line by another. An *episode*: the runs
 * on a line up to where a thread takes it over with a block that lies where another thread's block lay and died;
 * those are different lives. The first and the last run of an episode do not count: nothing shows that another
 * thread used the line both before and after them, as with memory that one thread prepares and another uses. A
 * thread's *clock* counts its accesses to heap blocks, of any line, so it does not advance in turns of others; the
 * *span* of a run is how far it went meanwhile. A thread *returns* with its second run, and with each one after.
 * Threads that never return are left aside.
 *
 * Bytes are contested if one returning thread writes them and another uses them; a line moves for their sake
 * wherever its other bytes are. All other accesses are private. If two threads ran at once, as many private
 * accesses of each could find the line taken away as the other has, and no more than both have writes. A thread
 * may use the line in only some of its time there (share = spans / time from the first run to the last); the
 * other's accesses meet it in that share of the time. So for each thread and the best other one:
 *
 *     min(own accesses * other's share, other's accesses * own share, own writes + other's writes)
 *
 * if one of them writes privately. Summed over the threads, less the same sum of the contested accesses, this is
 * the number of accesses *interleaved*.
 *
 * Null model: the line has one user at a time; a thread gives it up, and gets it back, at moments that have
 * nothing to do with the turns, and does other things in between. Then some of its turn is left when it gives the
 * line up, and some of another is over when it gets it back. A thread that was only interrupted goes on where it
 * stopped. It returns *at once* if its clock went on in between by no more than 1/8 of the two spans around. In the
 * null model, with both moments evenly spread over turns of equal length L: u L is left and v L is over, the spans
 * are (2 - u - v) L, at once means u + v <= 2/9, which has probability 2/81; 1/8 is taken, for turns are not
 * equal. Of r + m returns r are seen at once: chance = P(Binomial(r + m, 1/8) >= r). Lines are found with chance
 * at most SHARING_CHANCE. Because many lines are examined, the reader of the result has to multiply that by their
 * number (`tests`).
 *
 * O(1) for each access; at the end of a run and of an episode more with the threads on the line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_SHARING_LINES_H
#define STEVE_KERNELS_ACCESSES_SHARING_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steve/kernels/base/handle_map.h"

#define SHARING_LINE 64
#define SHARING_AT_ONCE 8 /* 1 / the part of the spans */
#define SHARING_CHANCE 0.05
#define SHARING_NONE UINT32_MAX

/* An access to a block in a line: the low bits of its handle, and the bytes of the line that it has. */
struct sharing_place {
    uint32_t handle;
    uint8_t first, last;
    uint16_t thread; /* that accesses it there; 0 = none */
};

/* Bytes of a line are accessed. */
struct sharing_access {
    uint64_t bytes; /* a bit for each */
    int64_t offset; /* of the line in the block */
    uint32_t stack; /* that made the block */
    bool writes;
};

/* What a thread did to a line in one run, or in several. Counts stay at their largest. */
struct sharing_use {
    uint64_t used, written;
    int64_t offset;                  /* of the line in the block accessed last */
    uint64_t start, end;             /* of the first run, of the last: by the thread's clock */
    uint64_t span, first_span, last; /* of all runs; of the first; of the last */
    uint32_t words[8], wide, writes; /* accesses to one word of 8 bytes; to more; all that write */
    uint32_t at_once, late;          /* returns */
    uint32_t stack, next;            /* next: of a list, or SHARING_NONE */
    uint16_t thread;
};

/* The first run of an episode. */
struct sharing_first {
    uint64_t end; /* by the thread's clock */
    uint32_t span;
    uint16_t thread; /* 0 = not known, as of a part's first episode */
};

struct sharing_line {
    uint32_t run;               /* a use; none for the first of an episode, but for the first of a part */
    uint32_t counted;           /* list of uses, by thread, of the runs that count */
    struct sharing_place place; /* of the last access */
    struct sharing_first first;
};

/* Of a part: a line up to the end of its first episode there. */
struct sharing_head {
    struct sharing_place place;   /* of the first access */
    uint32_t first, counted, run; /* the first run; as in sharing_line, none if the first is the last */
    bool ended;                   /* the episode ended in this part */
};

/* All of 8 bytes: seen as an array with named columns. A line and the two threads that interleave most. */
struct sharing_found {
    uint64_t line, interleaved, at_once, late, threads;
    double chance;
    struct sharing_side {
        uint64_t thread, stack;
        int64_t offset;          /* of the line in the block */
        uint64_t bytes, written; /* private, a bit for each */
    } sides[2];
};

struct sharinglines {
    struct handle_map map; /* from line numbers to lines */
    struct sharing_line *lines;
    size_t lines_room;
    struct sharing_head *heads; /* of a part, by index of the line */
    size_t heads_room;
    struct sharing_use *uses;
    size_t n_uses, uses_room;
    uint32_t spare;   /* list of uses given back */
    uint64_t *clocks; /* by thread */
    size_t clocks_room;
    uint64_t changes;              /* of the thread, from one access to the next */
    uint16_t first_thread, thread; /* of the first access, and of the last; 0 = none yet */
    bool part;
    struct sharing_found *found;
    size_t n_found, found_room;
    uint64_t tests; /* episodes with at least two threads that return */
};

bool sharinglines_init(struct sharinglines *l); /* false: out of memory; so below */
void sharinglines_free(struct sharinglines *l);
/* A thread makes its first access; an access by another thread than before. */
bool sharinglines_turn(struct sharinglines *l, uint16_t thread);
/* As sharinglines_visit, of any line. */
bool sharinglines_visit_any(struct sharinglines *l, uint64_t number, struct sharing_place place,
                            struct sharing_use **use);
void sharinglines_note(struct sharinglines *l, struct sharing_use *use, const struct sharing_access *a);
/* All was added. */
bool sharinglines_finish(struct sharinglines *l);

/* How far a clock went from one access to another, both counted. */
static inline uint32_t sharinglines_span(uint64_t first, uint64_t last)
{
    return last - first < UINT32_MAX ? (uint32_t)(last - first + 1) : UINT32_MAX;
}

/* The first run of an episode goes on. */
static inline void sharinglines_prolong(struct sharing_first *first, uint64_t clock)
{
    first->span = sharinglines_span(first->end - first->span + 1, clock);
    first->end = clock;
}

/* A thread makes an access. */
static inline bool sharinglines_tick(struct sharinglines *l, uint16_t thread)
{
    if (l->thread != thread && !sharinglines_turn(l, thread))
        return false;
    l->clocks[thread]++;
    return true;
}

/* It is to that line; *use: where the access is to be noted, or NULL, as in the first run of an episode. */
static inline bool sharinglines_visit(struct sharinglines *l, uint64_t number, struct sharing_place place,
                                      struct sharing_use **use)
{
    uint32_t index = handle_map_find(&l->map, number);
    struct sharing_line *line = index == HANDLE_MAP_NONE ? NULL : &l->lines[index];

    if (!line || line->place.thread != place.thread || line->run != SHARING_NONE)
        return sharinglines_visit_any(l, number, place, use);
    line->place = place;
    sharinglines_prolong(&line->first, l->clocks[place.thread]);
    *use = NULL;
    return true;
}

/* For shards. The record of a line; NULL when out of memory. */
struct sharing_line *sharinglines_at(struct sharinglines *l, uint64_t number);
/* A use that is kept; SHARING_NONE when out of memory. */
uint32_t sharinglines_keep(struct sharinglines *l, const struct sharing_use *use);
/* The same thread's later run or runs; more of the same run. */
void sharinglines_join(struct sharing_use *use, const struct sharing_use *later);
void sharinglines_go_on(struct sharing_use *use, const struct sharing_use *more);
/* A run counts, or what runs that count come to: into the list of the line, which takes it over. */
void sharinglines_count(struct sharinglines *l, struct sharing_line *line, uint32_t use);
/* Does the thread take the line over with a block that lies where another lay? */
bool sharinglines_is_other_life(const struct sharing_place *before, const struct sharing_place *now);
/* The episode of a line ends. */
bool sharinglines_end(struct sharinglines *l, uint64_t number, struct sharing_line *line);

#endif
