/* cache.c - keep joined stacks with the words that were read for them, and find one that reads the same.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The entries are in sets, which a hash of the stack's most typical words selects. Before the look-up, the
 * entry that followed the last one used is tried, since programs repeat sequences.
 */
#include "ljtrace/luajit/stack/cache.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/stack/notes.h"
#include "ljtrace/protocol/table.h"
#include <string.h>

enum {
    SETS = 1024,
    WAYS = 8,
    MOST_WORDS = 48,
    WORDS_AT_ONCE = 4,
    MOST_FUNCTIONS = 16,
    MOST_FRAMES = 12,
    PLACES = 1024
};

struct word {
    uint64_t at;
    uint64_t value;
};

/* An entry: a stack, and all that was read for it. */
struct entry {
    uint64_t key[KEY_WORDS];
    /* The entry that was used after this one the last time; NULL = not known. */
    struct entry *next;
    bool again;     /* it was also used after it the time before */
    uint32_t count; /* number of words; 0 = the entry is empty */
    uint32_t functions, threads;
    uint64_t last;                                          /* the highest of the words on the C stack */
    struct lt_spot allocating;                              /* on a trace: the place of the call, */
    size_t size;                                            /* the size requested, */
    uint64_t version;                                       /* and the version of what was known of it */
    uint32_t node;                                          /* of the stack */
    struct word function[MOST_FUNCTIONS], word[MOST_WORDS]; /* word: padded with copies of the first */
    struct lt_resumed thread[NOTES_THREADS];
};

TABLE(struct entry[WAYS], s_cache, SETS);
TABLE(uint32_t[WAYS], s_tag, SETS); /* part of the hash, to skip most entries of the set */
TABLE(struct entry *, s_last, 1);   /* the entry used or made last: a table, since it is gone with them */
static uint32_t s_victim;           /* the way to evict next */

/* How many frames of Lua a stack has at least, if the rest was cut off, by the place that allocates; 0 = not
 * known. */
TABLE(uint32_t, s_frames, PLACES);

static uint64_t word_at(const struct lt_cache_key *b, uint64_t at)
{
    return lt_on_c_stack(b, at) || lt_on_lua_stack(b, at) ? *(const uint64_t *)at : 0;
}

/* A hash of the code that allocates, in C and in Lua. */
static uint64_t place_of(const struct lt_vm *vm, const struct lt_cache_key *b)
{
    uint64_t pc = (b->word[KEY_CFRAME] & ~(uint64_t)3) + vm->layout->cframe_pc;
    uint64_t sum = b->word[KEY_IP] ^ *(const uint64_t *)b->word[KEY_SP] << 9 ^ b->word[KEY_STATE] << 41;
    sum ^= word_at(b, lt_base_of(b) - 8) << 23 ^ word_at(b, pc) << 5;
    return (sum ^ sum >> 31) * 0x9e3779b97f4a7c15ULL;
}

static uint32_t *frames_of(const struct lt_cache_key *b)
{
    return &s_frames[(b->place >> 54) % PLACES];
}

/* The next frame further down the Lua stack; 0 = there is none, or the VM was entered here. */
static uint64_t next_frame(const struct lt_vm *vm, const struct lt_cache_key *b, uint64_t frame)
{
    bool wide = vm->layout->gc64;
    uint64_t link = wide ? *(const uint64_t *)frame : *(const uint32_t *)(frame + 4);
    uint64_t size = link & ~(uint64_t)7;
    if ((link & 3) == 0)
        size = 8 * (uint64_t)((wide ? 2 : 1) + (lt_vm_u32(link - 4) >> 8 & 0xff));
    uint64_t below = frame - size;
    return (link & 3) != 1 && below < frame && lt_on_lua_stack(b, below) ? below : 0;
}

/* The hash that selects the set. It contains the words that most probably differ between stacks: the return
 * addresses of Lua frames, as far as these are part of the stack. */
static uint64_t hash_of(const struct lt_vm *vm, const struct lt_cache_key *b)
{
    uint64_t sum = b->place ^ b->word[KEY_SP] * 0xff51afd7ed558ccdULL ^ lt_base_of(b) * 0xc4ceb9fe1a85ec53ULL;
    uint32_t most = *frames_of(b) ? *frames_of(b) : MOST_FRAMES;
    uint64_t frame = lt_base_of(b) - 8;
    for (uint32_t i = 0; i < most && frame && lt_on_lua_stack(b, frame); i++) {
        sum += (*(const uint64_t *)frame >> (vm->layout->gc64 ? 0 : 32)) *
               (0x9e3779b97f4a7c15ULL + ((uint64_t)i << 33));
        frame = next_frame(vm, b, frame);
    }
    return (sum ^ sum >> 29) * 0x9e3779b97f4a7c15ULL;
}

static uint32_t set_of(uint64_t hash)
{
    return (uint32_t)(hash >> 54) % SETS;
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 22);
}

/* -- finding -- */

static bool same_functions(const struct entry *m, const struct lt_vm *vm)
{
    for (uint32_t i = 0; i < m->functions; i++)
        if (lt_function_at(vm, m->function[i].at) != m->function[i].value)
            return false;
    return true;
}

/* Nearly all entries that are compared are valid, so there is only one branch for several words. */
static inline bool same_words(const struct entry *m)
{
    const struct word *w = m->word;
    for (uint32_t i = 0; i < m->count; i += WORDS_AT_ONCE, w += WORDS_AT_ONCE)
        if ((*(const uint64_t *)w[0].at ^ w[0].value) | (*(const uint64_t *)w[1].at ^ w[1].value) |
            (*(const uint64_t *)w[2].at ^ w[2].value) | (*(const uint64_t *)w[3].at ^ w[3].value))
            return false;
    return true;
}

static bool reads_the_same(const struct entry *m, const struct lt_vm *vm, const struct lt_cache_key *b)
{
    for (uint32_t i = 0; i < KEY_WORDS; i++)
        if (m->key[i] != b->word[i])
            return false;
    if (!m->count || !lt_on_c_stack(b, m->last) || !lt_resumed_are_same(vm, m->thread, m->threads))
        return false;
    return same_words(m) && same_functions(m, vm);
}

/* On a trace, the stack also depends on what is known about the call and, unless that is certain, on the
 * size. */
static bool is_same_call(const struct entry *m, const struct lt_vm *vm, const struct lt_cache_key *b,
                         size_t size)
{
    if (!b->word[KEY_JIT])
        return true;
    return lt_trace_still(vm, &m->allocating) && lt_trace_version(vm, &m->allocating, size) == m->version &&
           (m->size == size || (m->size && size && lt_trace_is_sure(&m->allocating)));
}

static bool holds(const struct entry *m, const struct lt_vm *vm, const struct lt_cache_key *b, size_t size)
{
    return reads_the_same(m, vm, b) && is_same_call(m, vm, b, size);
}

static struct entry *look_up(const struct lt_vm *vm, struct lt_cache_key *b, size_t size)
{
    b->place = place_of(vm, b);
    b->hash = hash_of(vm, b);
    uint32_t set = set_of(b->hash), tag = tag_of(b->hash);
    for (uint32_t k = 0; k < WAYS; k++)
        if (s_tag[set][k] == tag && holds(&s_cache[set][k], vm, b, size))
            return &s_cache[set][k];
    return NULL;
}

static void follow(struct entry *m)
{
    if (*s_last) {
        (*s_last)->again = (*s_last)->next == m;
        (*s_last)->next = m;
    }
    *s_last = m;
}

/* The entry that followed the last one twice is tried first, because programs repeat the same sequences. The
 * garbage collector does so when it frees. */
bool lt_stack_cache_find(struct lt_vm *vm, size_t size, struct lt_cache_key *b, struct lt_stack *stack)
{
    struct entry *m = *s_last && (*s_last)->again ? (*s_last)->next : NULL;
    if (!m || !holds(m, vm, b, size))
        m = look_up(vm, b, size);
    if (!m)
        return false;
    follow(m);
    vm->allocating = m->allocating;
    stack->id = m->node;
    stack->depth = 0;
    return true;
}

/* -- adding an entry -- */

/* Is the address on the stack of the running thread, or of one that has resumed another? */
static bool on_some_lua_stack(const struct entry *m, const struct lt_cache_key *b, uint64_t at)
{
    bool found = lt_on_lua_stack(b, at);
    for (uint32_t i = 0; i < m->threads && !found; i++)
        found = at >= m->thread[i].from && at + sizeof(uint64_t) <= m->thread[i].to;
    return found;
}

/* Returns false if the address is not on one of the stacks: then it could not be compared quickly. */
static bool add_word(struct entry *m, const struct lt_cache_key *b, uint64_t at)
{
    if (lt_on_c_stack(b, at))
        m->last = at > m->last ? at : m->last;
    else if (!on_some_lua_stack(m, b, at))
        return false;
    m->word[m->count++] = (struct word){at, *(const uint64_t *)at};
    return true;
}

static bool add_function(struct entry *m, const struct lt_vm *vm, const struct lt_cache_key *b, uint64_t slot)
{
    if (!on_some_lua_stack(m, b, slot))
        return false;
    m->function[m->functions++] = (struct word){slot, lt_function_at(vm, slot)};
    return true;
}

/* Fill an entry from what was noted. Returns false if it cannot be used; it is empty then. */
static bool fill(struct entry *m, const struct lt_vm *vm, const struct lt_cache_key *b,
                 const struct lt_notes *notes)
{
    bool all = true;
    m->count = m->functions = 0;
    m->last = b->word[KEY_SP];
    m->threads = notes->threads;
    for (uint32_t i = 0; i < m->threads; i++)
        m->thread[i] = lt_resumed_get(vm, notes->thread[i]);
    for (uint32_t i = 0; i < notes->words; i++)
        all = all && add_word(m, b, notes->word[i].at);
    for (uint32_t i = 0; i < notes->functions; i++)
        all = all && add_function(m, vm, b, notes->function[i].at);
    if (!all)
        m->count = 0;
    for (uint32_t i = m->count; i % WORDS_AT_ONCE; i++)
        m->word[i] = m->word[0];
    memcpy(m->key, b->word, sizeof m->key);
    return m->count > 0;
}

void lt_stack_cache_keep(struct lt_cache_key *b, const struct lt_vm *vm, size_t size, uint32_t node)
{
    const struct lt_notes *notes = lt_notes_taken();
    if (notes->words > MOST_WORDS || notes->functions > MOST_FUNCTIONS)
        return;
    b->place = place_of(vm, b);
    if (notes->frames && (*frames_of(b) == 0 || notes->frames < *frames_of(b)))
        *frames_of(b) = notes->frames;
    b->hash = hash_of(vm, b);
    uint32_t set = set_of(b->hash), way = s_victim % WAYS;
    struct entry *m = &s_cache[set][way];
    if (!fill(m, vm, b, notes))
        return;
    s_victim++;
    m->allocating = vm->allocating;
    m->size = size;
    m->version = b->word[KEY_JIT] ? lt_trace_version(vm, &m->allocating, size) : 0;
    m->node = node;
    m->next = NULL;
    m->again = false;
    s_tag[set][way] = tag_of(b->hash);
    follow(m);
}
