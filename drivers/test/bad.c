/* bad.c - a driver that misbehaves as $BAD_DRIVER says, to test the reaction of steve-replay.
 *
 * crash: writes through a null pointer in the 100th malloc; loop: never returns from it; exit: ends the process;
 * escape: returns memory outside of the heap; overlap: returns the same block repeatedly; sleep: each malloc takes
 * 20000 ns by the clock; noinit: cannot start; moves: returns handles, and moves unlocked blocks down when full;
 * spoils: the same, and changes a byte of the lowest one; alone, stuck: crashes or hangs in a free by another thread
 * than the one that called malloc first; outside: has a table that it requests from the kernel; greedy: crashes when
 * more than 1 MiB is requested; modest, boastful: reports half, or twice, the size of its largest block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, WHEN = 100, SLEEP = 20000, TABLE = 1 << 20, GREEDY = 1 << 20 };

struct entry {
    char *at;
    size_t size;
    bool locked;
};

static const char *s_way;
static char *s_base, *s_top, *s_end;
static unsigned s_calls;
static pid_t s_thread;               /* the thread that called malloc first */
static struct entry s_entries[MOST]; /* ordered by address; at = NULL: freed */
static unsigned s_count;
static char s_outside[64];
static void *s_table;

static bool is(const char *way)
{
    return strcmp(s_way, way) == 0;
}

static bool moves(void)
{
    return is("moves") || is("spoils");
}

static bool bad_init(void *base, size_t size)
{
    s_way = getenv("BAD_DRIVER");
    s_way = s_way ? s_way : "";
    s_base = s_top = base;
    s_end = s_base + size;
    return !is("noinit");
}

static void wait_exactly(void)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < SLEEP);
}

static bool misbehaves(void)
{
    return is("crash") || is("loop") || is("exit") || is("escape") || is("overlap");
}

static void *misbehave(void)
{
    if (is("crash"))
        *(volatile int *)NULL = 1;
    while (is("loop"))
        continue;
    if (is("exit"))
        _exit(7);
    return is("escape") ? s_outside : s_entries[s_count - 1].at;
}

static void *add_entry(size_t size)
{
    struct entry *e = &s_entries[s_count];
    if (s_count == MOST || size > (size_t)(s_end - s_top))
        return NULL;
    *e = (struct entry){s_top, size, false};
    s_top += size;
    s_count++;
    return moves() ? (void *)e : (void *)e->at;
}

static void *bad_malloc(size_t size, uint32_t id)
{
    s_thread = s_thread ? s_thread : gettid();
    if (++s_calls >= WHEN && misbehaves())
        return misbehave();
    if (is("sleep"))
        wait_exactly();
    if (is("outside") && s_calls == WHEN)
        s_table = mmap(NULL, TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is("greedy") && size > GREEDY)
        *(volatile int *)NULL = 1;
    return add_entry((size + 15) & ~(size_t)15);
}

static bool is_stranger(void)
{
    return s_thread && s_thread != gettid();
}

static void bad_free(void *ref, uint32_t id)
{
    if (is_stranger() && is("alone"))
        *(volatile int *)NULL = 1;
    while (is_stranger() && is("stuck"))
        continue;
    if (moves())
        ((struct entry *)ref)->at = NULL;
}

static void *bad_lock(void *ref)
{
    if (!moves())
        return ref;
    ((struct entry *)ref)->locked = true;
    return ((struct entry *)ref)->at;
}

static void bad_unlock(void *ref)
{
    if (moves())
        ((struct entry *)ref)->locked = false;
}

static void *bad_where(void *ref)
{
    return moves() ? ((struct entry *)ref)->at : ref;
}

/* Move live blocks down to the first locked one. Entries stay where they are, because they are the handles. */
static bool bad_compact(size_t wanted)
{
    char *to = s_base;
    for (unsigned i = 0; i < s_count && moves(); i++) {
        struct entry *e = &s_entries[i];
        if (!e->at)
            continue;
        if (!e->locked) {
            memmove(to, e->at, e->size);
            e->at = to;
        }
        to = e->at + e->size;
    }
    if (is("spoils"))
        *s_base ^= 1;
    s_top = moves() ? to : s_top;
    return moves();
}

static void *bad_highest(void)
{
    return s_top;
}

static bool bad_walk(struct steve_walk *out)
{
    size_t left = (size_t)(s_end - s_top);
    *out = (struct steve_walk){left, 1, is("boastful") ? 2 * left : left / 2};
    return is("modest") || is("boastful");
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "bad",
    .description = "misbehaves for tests",
    .confinement = STEVE_IN_HEAP,
    .flags = STEVE_MOVES,
    .init = bad_init,
    .malloc = bad_malloc,
    .free = bad_free,
    .lock = bad_lock,
    .unlock = bad_unlock,
    .where = bad_where,
    .compact = bad_compact,
    .highest = bad_highest,
    .walk = bad_walk,
};
