/* block_sample.c - draws the sample, and knows the recorded blocks; see block_sample.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A bit of the bitmap is set before the block is returned to the program, and cleared when its last block has ended. So a
 * thread that has a recorded block sees its bit. The table is a hash table with chaining, in which the low 18 bits of the
 * bit's number select the list; the memory of entries is used again.
 */
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/protocol/table.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { LISTS = 1 << 18, CHUNK_ENTRIES = 4096, MOST_CHUNKS = 1 << 14 };
#define GOLDEN 0x9e3779b97f4a7c15ULL

struct entry {
    uint64_t addr, heap;
    uint32_t next;    /* number of the next entry of the list, from 1; 0 = none */
    bool is_recorded; /* false: the block is not in the sample, but its free must be noticed */
};

__thread struct native_countdown native_countdown __attribute__((tls_model("initial-exec")));
uint64_t block_sample_mean;
uint32_t block_sample_recording;
uint64_t *block_sample_filter;

static uint64_t s_seed;
static uint32_t s_generators; /* generators of threads so far */

LASTING_TABLE(uint64_t, s_filter, 1 << (SAMPLE_FILTER_BITS - 6)); /* read without the lock */
TABLE(uint32_t, s_lists, LISTS);                                  /* number of the first entry */
TABLE(struct entry *, s_chunks, MOST_CHUNKS);
static uint32_t s_entries; /* entries so far */
static uint32_t s_free;    /* the list of unused ones */

/* -- the draw -- */

/* The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

/* SplitMix64: passes the tests of randomness and has one word of state. */
static uint64_t random_word(struct native_countdown *c)
{
    if (!c->random)
        c->random = mixed(s_seed + GOLDEN * (1 + __atomic_fetch_add(&s_generators, 1, __ATOMIC_RELAXED))) | 1;
    return mixed(c->random += GOLDEN);
}

/* The natural logarithm, by the processor: libm would be one more library in the program. */
static double logarithm(double x)
{
    double result;
    __asm__("fldln2\n\tfldl %1\n\tfyl2x\n\tfstpl %0" : "=m"(result) : "m"(x) : "st", "st(1)");
    return result;
}

/* The bytes up to and with the next chosen one, at least 1. */
static uint64_t distance(struct native_countdown *c)
{
    const double uniform = ((double)(random_word(c) >> 11) + 1) * 0x1p-53; /* above 0, at most 1 */
    return 1 + (uint64_t)(-logarithm(uniform) * (double)block_sample_mean);
}

bool block_sample_draw(uint64_t size)
{
    struct native_countdown *c = &native_countdown;
    c->chosen = true;
    if (!block_sample_mean)
        return true;
    if (c->recording != block_sample_recording) { /* drawn with another mean and seed, or not at all */
        c->recording = block_sample_recording;
        c->left = c->random = 0;
    }
    if (!c->left)
        c->left = distance(c);
    if (block_sample_passes(size))
        return c->chosen = false;
    c->left = distance(c);
    return true;
}

void block_sample_begin(void)
{
    const uint64_t seed = native_options.sample_seed;
    s_seed = seed ? seed : mixed(__rdtsc() ^ (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL) << 48) >> 1;
    block_sample_mean = native_options.sample_mean;
    block_sample_recording++;
    block_sample_filter = s_filter;
}

void block_sample_end(void)
{
    for (uint32_t i = 0; i < MOST_CHUNKS && s_chunks[i]; i++)
        munmap(s_chunks[i], CHUNK_ENTRIES * sizeof(struct entry));
    if (s_entries)
        memset(s_filter, 0, TABLE_BYTES(s_filter));
    s_entries = s_free = 0; /* the lists are unmapped */
}

void block_sample_forked(void)
{
    s_seed = mixed(s_seed + GOLDEN) >> 1;
    native_countdown = (struct native_countdown){.attends = native_countdown.attends};
}

uint64_t block_sample_seed(void)
{
    return s_seed;
}

/* -- the table -- */

static struct entry *entry_of(uint32_t number)
{
    return &s_chunks[(number - 1) / CHUNK_ENTRIES][(number - 1) % CHUNK_ENTRIES];
}

static uint32_t *list_of(uint64_t addr)
{
    return &s_lists[block_sample_bit(addr) % LISTS];
}

/* The link to the block's entry; it is 0 if there is none. */
static uint32_t *find(uint64_t addr)
{
    uint32_t *at = list_of(addr);
    while (*at && entry_of(*at)->addr != addr)
        at = &entry_of(*at)->next;
    return at;
}

static uint32_t new_entry(void)
{
    if (s_free) {
        const uint32_t number = s_free;
        s_free = entry_of(number)->next;
        return number;
    }
    const uint32_t chunk = s_entries / CHUNK_ENTRIES;
    if (chunk == MOST_CHUNKS)
        return 0;
    if (!s_chunks[chunk] && !(s_chunks[chunk] = native_memory(CHUNK_ENTRIES * sizeof(struct entry))))
        return 0;
    return ++s_entries;
}

void block_sample_expect(uint64_t addr)
{
    const uint32_t bit = block_sample_bit(addr);
    __atomic_or_fetch(&block_sample_filter[bit / 64], UINT64_C(1) << bit % 64, __ATOMIC_RELAXED);
}

static void clear_bit(uint32_t bit)
{
    for (uint32_t i = s_lists[bit % LISTS]; i; i = entry_of(i)->next)
        if (block_sample_bit(entry_of(i)->addr) == bit)
            return;
    __atomic_and_fetch(&block_sample_filter[bit / 64], ~(UINT64_C(1) << bit % 64), __ATOMIC_RELAXED);
}

/* The entry of a block, made if there is none; NULL = there is no memory. */
static struct entry *reach(uint64_t addr)
{
    uint32_t *at = find(addr);
    if (*at)
        return entry_of(*at);
    const uint32_t number = new_entry();
    if (!number)
        return NULL;
    *entry_of(number) = (struct entry){.addr = addr};
    *at = number;
    block_sample_expect(addr);
    return entry_of(number);
}

/* Remove the entry whose number is there. */
static void drop(uint32_t *at)
{
    const uint32_t number = *at;
    struct entry *e = entry_of(number);
    *at = e->next;
    e->next = s_free;
    e->heap = 0;
    s_free = number;
    clear_bit(block_sample_bit(e->addr));
}

bool block_sample_add(uint64_t addr, uint64_t heap)
{
    struct entry *e = reach(addr);
    if (!e)
        return false;
    e->heap = heap;
    e->is_recorded = true;
    return true;
}

bool block_sample_holds(uint64_t addr)
{
    const uint32_t number = *find(addr);
    return number && entry_of(number)->is_recorded;
}

bool block_sample_remove(uint64_t addr)
{
    uint32_t *at = find(addr);
    if (!*at)
        return false;
    const bool was_recorded = entry_of(*at)->is_recorded;
    drop(at);
    return was_recorded;
}

void block_sample_await(uint64_t addr)
{
    if (block_sample_mean)
        reach(addr);
}

void block_sample_heap_ended(uint64_t heap)
{
    for (uint32_t i = 1; heap && i <= s_entries; i++)
        if (entry_of(i)->heap == heap)
            drop(find(entry_of(i)->addr));
}

void block_sample_heap_moved(uint64_t from, uint64_t to)
{
    for (uint32_t i = 1; i <= s_entries; i++)
        if (entry_of(i)->heap == from)
            entry_of(i)->heap = to;
}
