/* latest.c - find a stack by what has changed since the latest one of the same Lua thread. (no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The latest stack is kept as an array from the outermost link inwards: each word on which it depends, with its value, and for
 * each link of the Lua stack the node (stack_tree.h) of all that is below. A look-up compares the words from the
 * outside. Then it goes from the innermost frame outwards until it meets a link that is known to be unchanged. The
 * links between are calls from Lua to Lua; the nodes to which they lead are in a table, by the node below and the
 * return address.
 *
 * What remains are the innermost line and the C functions that it has called. These are a chain: the code address is known, so
 * it is known where the next return address is, and so on up to the VM's frame or to the code of a trace. Each chain that
 * was met has a number. The latest chains that begin in the same way are compared as a whole first. The result, a place, is in
 * a table by the node, the function, its program counter, and the number of the chain.
 *
 * All is learned from walks: if something is not in a table, a walk is needed. A key has several entries where it may be, since
 * two that evict each other would be walked all the time. What is known of Lua threads is kept for the last few. With 4-byte
 * references, nothing is kept.
 */
#include "ljtrace/luajit/stack/latest.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/stack/notes.h"
#include "ljtrace/protocol/ring.h"
#include "ljtrace/protocol/table.h"
#include <string.h>

enum {
    ARRAY_BITS = 6,
    MOST_WORDS = 640,
    MOST_FUNCTIONS = 24,
    MOST_NEW = 64,
    MOST_CHAIN = 32,
    CHAIN_BITS = 12,
    LINK_BITS = 14,
    PLACE_BITS = 14,
    PROBES = 8, /* how many entries are searched for a key: up to one that is not of this turn */
    SHAPE_BITS = 8,
    SHAPES = 2,
    SHAPE_WORDS = 9
};

/* A word of the latest stack. */
struct word {
    uint64_t at, value;
};

/* What it is. */
struct meaning {
    bool is_link;    /* of the frame there, and the frame is on the stack of the array's thread */
    uint32_t node;   /* of a link: the stack without this frame's line and what is inside */
    uint64_t cframe; /* of a link: the entry into the VM that the frame belongs to */
};

/* The latest stack of a Lua thread. */
struct array {
    const struct lt_vm *vm;
    uint64_t L, from, to, c_to; /* where its stack and the C stack are */
    uint32_t tid, turn;
    uint32_t count, functions, threads;
    uint32_t innermost; /* the words up to the innermost frame of the latest stack that was found */
    struct {
        struct lt_seen_function seen;
        uint32_t words; /* how many words were before it */
    } function[MOST_FUNCTIONS];
    struct lt_resumed thread[NOTES_THREADS];
    struct word word[MOST_WORDS];
    struct meaning meaning[MOST_WORDS];
};
TABLE(struct array, s_arrays, 1 << ARRAY_BITS);

/* A part of a chain of C functions. */
struct chain {
    uint64_t word; /* a code address, or a return address */
    uint32_t before, number, turn;
    uint32_t
        next; /* where the next return address is: the bytes from the stack pointer to its end; 0 = the chain ends */
    uint64_t distance; /* at its end: from the stack pointer to the VM's frame; 0 = it ends in a trace */
};
TABLE(struct chain, s_chains, 1 << CHAIN_BITS);
static uint32_t s_chain_count;

/* A call from Lua to Lua. */
struct link {
    uint64_t link;
    uint32_t below, turn, node;
};
TABLE(struct link, s_links, 1 << LINK_BITS);

/* The innermost line and the C functions that it has called. */
struct place {
    uint64_t function, pc;
    uint32_t below, chain, turn, node;
    size_t kind; /* see kind_of */
    /* On a trace: as in cache.c. */
    struct lt_spot allocating;
    size_t size;
    uint64_t version;
};
TABLE(struct place, s_places, 1 << PLACE_BITS);

/* A whole chain. */
struct shape {
    uint64_t ip;
    uint64_t distance;           /* as at the chain's end */
    uint32_t chain, words, turn; /* words: 0 = there is none */
    uint32_t at[SHAPE_WORDS];    /* the chain's return addresses: where they are, from the stack pointer */
    uint64_t word[SHAPE_WORDS];
};
TABLE(struct shape[SHAPES], s_shapes, 1 << SHAPE_BITS); /* by how a chain begins, the latest first */

/* What was learned before one of these numbers has changed is not valid. */
static uint64_t s_generations, s_tree;
static uint32_t s_turn;

static uint32_t turn_of(const struct lt_cache_key *b)
{
    if (b->word[KEY_GENERATIONS] != s_generations || b->word[KEY_TREE] != s_tree || !s_turn) {
        s_generations = b->word[KEY_GENERATIONS];
        s_tree = b->word[KEY_TREE];
        s_turn++;
    }
    return s_turn;
}

/* A function and its program counter differ in a few bits only, so each word is spread before the next one is added. */
static inline uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    return sum ^ sum >> 32;
}

/* The slot to use if all that a key may have are taken by others. */
static uint32_t victim(uint32_t slot)
{
    static uint32_t s_victims;
    return slot + s_victims++ % PROBES;
}

/* -- the array -- */

static inline bool is_of(const struct array *a, uint32_t tid, const struct lt_vm *vm,
                         const struct lt_cache_key *b, uint32_t turn)
{
    return a->L == b->word[KEY_THREAD] && a->vm == vm && a->turn == turn && a->tid == tid &&
           a->from == b->word[KEY_FROM] && a->to == b->word[KEY_TO] && a->c_to == b->c_to;
}

static struct array *array_at(const struct lt_cache_key *b)
{
    return &s_arrays[lt_hash_slot(b->word[KEY_THREAD], ARRAY_BITS)];
}

/* 0 = the word is unchanged. */
static inline uint64_t changes(const struct word *w)
{
    return *(const uint64_t *)w->at ^ w->value;
}

/* How many of the first k words, up to a link at `frame` or outside of it? */
static inline uint32_t up_to_frame(const struct array *a, uint32_t k, uint64_t frame)
{
    while (k && (!a->meaning[k - 1].is_link || a->word[k - 1].at > frame))
        k--;
    return k;
}

/* How many words, up to a link at `frame` or outside of it? Often it is the same frame as the last time. */
static inline uint32_t up_to_innermost(const struct array *a, uint64_t frame)
{
    const uint32_t k = a->innermost;
    return k && k <= a->count && a->meaning[k - 1].is_link && a->word[k - 1].at == frame
               ? k
               : up_to_frame(a, a->count, frame);
}

/* How many of the first k words, from the outermost on, are unchanged? */
static inline uint32_t unchanged(const struct array *a, const struct lt_vm *vm, uint32_t k)
{
    const struct word *w = a->word, *const end = w + k;
    if (a->threads && !lt_resumed_are_same(vm, a->thread, a->threads))
        return 0;
    /* Most words are unchanged, so there is one branch for several. */
    while (end - w >= 4 && !(changes(w) | changes(w + 1) | changes(w + 2) | changes(w + 3)))
        w += 4;
    while (w < end && !changes(w))
        w++;
    return (uint32_t)(w - a->word);
}

/* The frames of the first k words are those of the stack: up to which word are their functions unchanged, too? These are in
 * use, so their objects can be read. Other slots may have pointers to what was freed. */
static inline uint32_t same_functions(const struct array *a, const struct lt_vm *vm, uint32_t k)
{
    for (uint32_t i = 0; i < a->functions && a->function[i].words < k; i++)
        if (!lt_function_is_same(vm, &a->function[i].seen))
            return a->function[i].words;
    return k;
}

/* The entry of a link of this turn, or the one to use for it: its `turn` is another then. */
static struct link *link_at(uint32_t below, uint64_t link, uint32_t turn)
{
    const uint32_t slot = lt_hash_slot(link ^ (uint64_t)below << 40, LINK_BITS);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct link *l = &s_links[(slot + i) % (1 << LINK_BITS)];
        if (l->turn != turn || (l->link == link && l->below == below))
            return l;
    }
    return &s_links[victim(slot) % (1 << LINK_BITS)];
}

/* The frame below one with this link; 0 = the link is not a call from Lua to Lua, nor of the same function with more
 * arguments. */
static inline uint64_t frame_below(const struct lt_vm *vm, uint64_t frame, uint64_t link)
{
    return (link & 3) == LINK_LUA || (link & 7) == LINK_VARG ? lt_frame_below(vm, frame, (int64_t)link) : 0;
}

/* Append links, of which the last is the outermost, after the first k words. Returns how many words there are then; fewer if
 * one is not in the table. */
static uint32_t append(struct array *a, uint32_t k, const uint64_t *frame, uint32_t n, uint32_t turn)
{
    while (a->functions && a->function[a->functions - 1].words >= k)
        a->functions--;
    while (n-- > 0 && k < MOST_WORDS) {
        const uint64_t value = *(const uint64_t *)frame[n];
        const uint32_t below = a->meaning[k - 1].node;
        const struct link *l = link_at(below, value, turn);
        if ((value & 3) == LINK_LUA && (l->link != value || l->below != below || l->turn != turn))
            break;
        a->word[k] = (struct word){frame[n], value};
        a->meaning[k] =
            (struct meaning){true, (value & 3) == LINK_LUA ? l->node : below, a->meaning[k - 1].cframe};
        k++;
    }
    return a->count = k;
}

/* The node of all that is below the innermost frame. Returns false if that is not known. */
static bool find_below(struct array *a, const struct lt_vm *vm, const struct lt_cache_key *b, uint32_t *node)
{
    uint64_t fresh[MOST_NEW], frame = lt_base_of(b) - 8;
    uint32_t n = 0, k = unchanged(a, vm, up_to_innermost(a, frame));
    for (;;) {
        k = up_to_frame(a, k, frame);
        if (!k || n == MOST_NEW || !lt_on_lua_stack(b, frame))
            return false;
        if (a->word[k - 1].at == frame) {
            const uint32_t same = same_functions(a, vm, k);
            if (same == k)
                break;
            k = same;
            continue;
        }
        fresh[n++] = frame;
        const uint64_t below = frame_below(vm, frame, *(const uint64_t *)frame);
        if (!below || below >= frame)
            return false;
        frame = below;
    }
    if (a->meaning[k - 1].cframe != (b->word[KEY_CFRAME] & ~(uint64_t)3))
        return false;
    const uint32_t all = k + n;
    if (n && append(a, k, fresh, n, a->turn) < all)
        return false;
    a->innermost = all;
    *node = a->meaning[all - 1].node;
    return true;
}

/* -- the chain -- */

static inline bool is_part(const struct chain *c, uint32_t before, uint64_t word, uint32_t turn)
{
    return c->word == word && c->before == before && c->turn == turn;
}

/* The entry of a part of this turn, or the one to use for it. */
static struct chain *chain_at(uint32_t before, uint64_t word, uint32_t turn)
{
    const uint32_t slot = lt_hash_slot(word ^ (uint64_t)before << 48, CHAIN_BITS);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct chain *c = &s_chains[(slot + i) % (1 << CHAIN_BITS)];
        if (c->turn != turn || is_part(c, before, word, turn))
            return c;
    }
    return &s_chains[victim(slot) % (1 << CHAIN_BITS)];
}

/* The part of a chain with this word after another part; NULL = it is not known. */
static inline const struct chain *chain_find(uint32_t before, uint64_t word, uint32_t turn)
{
    const struct chain *c = chain_at(before, word, turn);
    return is_part(c, before, word, turn) ? c : NULL;
}

/* From the stack pointer to the VM's frame, if a chain has to end there, else 0. */
static inline uint64_t distance_of(const struct lt_cache_key *b)
{
    return b->word[KEY_JIT] ? 0 : (b->word[KEY_CFRAME] & ~(uint64_t)3) - b->word[KEY_SP];
}

/* Is it the chain of C functions that have called the allocator? */
static inline bool has_shape(const struct shape *s, const struct lt_cache_key *b, uint64_t distance,
                             uint32_t turn)
{
    const uint64_t sp = b->word[KEY_SP];
    uint64_t differs = 0;
    if (!s->words || s->ip != b->word[KEY_IP] || s->distance != distance || s->turn != turn ||
        !lt_on_c_stack(b, sp + s->at[s->words - 1]))
        return false;
    for (uint32_t i = 0; i < s->words; i++)
        differs |= *(const uint64_t *)(sp + s->at[i]) ^ s->word[i];
    return !differs;
}

/* Find the same part by part. The shape becomes what was found; without words, if it is not known, or is too long. Returns its
 * number; 0 = it is not known. */
static uint32_t find_parts(const struct lt_cache_key *b, uint64_t distance, uint32_t turn, struct shape *s)
{
    const struct chain *c = chain_find(0, b->word[KEY_IP], turn);
    uint32_t words = 0;
    *s = (struct shape){.ip = b->word[KEY_IP], .distance = distance, .turn = turn};
    for (; c && c->next; words++) {
        const uint64_t at = b->word[KEY_SP] + c->next - sizeof(uint64_t);
        if (!lt_on_c_stack(b, at))
            return 0;
        if (words < SHAPE_WORDS) {
            s->at[words] = (uint32_t)(at - b->word[KEY_SP]);
            s->word[words] = *(const uint64_t *)at;
        }
        c = chain_find(c->number, *(const uint64_t *)at, turn);
    }
    if (!c || c->distance != distance)
        return 0;
    s->words = words <= SHAPE_WORDS ? words : 0;
    return s->chain = c->number;
}

/* The number of the chain of C functions that have called the allocator; 0 = it is not known. */
static uint32_t find_chain(const struct lt_cache_key *b, uint32_t turn)
{
    const uint64_t called_from = *(const uint64_t *)b->word[KEY_SP], distance = distance_of(b);
    struct shape *s = s_shapes[lt_hash_slot(called_from ^ b->word[KEY_IP] << 20, SHAPE_BITS)], found;
    for (uint32_t i = 0; i < SHAPES; i++)
        if (has_shape(&s[i], b, distance, turn))
            return s[i].chain;
    const uint32_t number = find_parts(b, distance, turn, &found);
    if (number && found.words) {
        memmove(s + 1, s, (SHAPES - 1) * sizeof *s);
        *s = found;
    }
    return number;
}

/* Add a part, or find it. */
static struct chain *chain_add(uint32_t before, uint64_t word, uint32_t turn)
{
    struct chain *c = chain_at(before, word, turn);
    if (!is_part(c, before, word, turn))
        *c = (struct chain){.word = word, .before = before, .number = ++s_chain_count, .turn = turn};
    return c;
}

/* Learn the chain from the C functions up to the VM's frame or to the trace. Returns its number; 0 = it is too long. */
static uint32_t keep_chain(const struct lt_cache_key *b, const struct lt_stack *host, uint32_t turn)
{
    const uint64_t sp = b->word[KEY_SP], cframe = b->word[KEY_CFRAME] & ~(uint64_t)3,
                   trace_sp = lt_notes_taken()->trace_sp;
    struct chain *c = chain_add(0, b->word[KEY_IP], turn);
    bool more = true;
    for (uint32_t i = 1; more && i < MOST_CHAIN; i++) {
        const bool is_c = i < host->depth && host->sps[i] <= (trace_sp ? trace_sp : cframe);
        const uint64_t end = is_c ? host->sps[i] : trace_sp;
        more = is_c;
        if (!end)
            break;
        if (end < sp + sizeof(uint64_t) || !lt_on_c_stack(b, end - sizeof(uint64_t)))
            return 0;
        c->next = (uint32_t)(end - sp);
        c = chain_add(c->number, *(const uint64_t *)(end - sizeof(uint64_t)), turn);
    }
    if (more)
        return 0;
    c->next = 0;
    c->distance = distance_of(b);
    return c->number;
}

/* -- the innermost line -- */

/* What tells the innermost line from others that call from the same place: the function and its program counter or, on a
 * trace, the number of the trace. Returns false if they cannot be read. */
static inline bool read_place(const struct lt_vm *vm, const struct lt_cache_key *b, uint64_t *function,
                              uint64_t *pc)
{
    const uint64_t slot = lt_base_of(b) - 16,
                   pc_at = (b->word[KEY_CFRAME] & ~(uint64_t)3) + vm->layout->cframe_pc;
    *function = 0;
    *pc = b->word[KEY_STATE];
    if (b->word[KEY_JIT])
        return true;
    if (!lt_on_lua_stack(b, slot) || !lt_on_c_stack(b, pc_at))
        return false;
    *function = lt_function_at(vm, slot);
    *pc = *(const uint64_t *)pc_at ^ b->word[KEY_STATE] << 48;
    return true;
}

/* What a place is looked for by besides: 0 in the interpreter. On a trace, whether the call makes a block, as a resize at the
 * same place is another stack; and its size, as long as it is not known what the place makes. */
static inline size_t kind_of(bool on_trace, bool is_sure, size_t size)
{
    return !on_trace ? 0 : is_sure ? size != 0 : size;
}

/* What a place is looked for by. */
struct wanted {
    uint64_t function, pc;
    uint32_t below, chain, turn;
    size_t kind;
};

static inline bool is_there(const struct place *p, const struct wanted *w)
{
    return p->pc == w->pc && p->function == w->function && p->below == w->below && p->chain == w->chain &&
           p->kind == w->kind && p->turn == w->turn;
}

/* The entry of a place of this turn, or the one to use for it. */
static struct place *place_at(const struct wanted *w)
{
    const uint64_t sum = mix(mix(mix(0, w->function), w->pc), (uint64_t)w->below << 32 | w->chain) ^ w->kind;
    const uint32_t slot = lt_hash_slot(sum, PLACE_BITS);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct place *p = &s_places[(slot + i) % (1 << PLACE_BITS)];
        if (p->turn != w->turn || is_there(p, w))
            return p;
    }
    return &s_places[victim(slot) % (1 << PLACE_BITS)];
}

/* On a trace, the stack also depends on what is known about the call and, unless that is certain, on the size. */
static bool is_same_call(const struct place *p, const struct lt_vm *vm, size_t size)
{
    return lt_trace_still(vm, &p->allocating) && lt_trace_version(vm, &p->allocating, size) == p->version &&
           (p->size == size || (p->size && size && lt_trace_is_sure(&p->allocating)));
}

static const struct place *find_place(const struct lt_vm *vm, const struct lt_cache_key *b, struct wanted *w,
                                      size_t size)
{
    const bool on_trace = b->word[KEY_JIT] != 0;
    w->kind = kind_of(on_trace, true, size);
    const struct place *p = place_at(w);
    if (is_there(p, w) && (!on_trace || is_same_call(p, vm, size)))
        return p;
    if (!on_trace)
        return NULL;
    w->kind = kind_of(true, false, size);
    p = place_at(w);
    return is_there(p, w) && is_same_call(p, vm, size) ? p : NULL;
}

bool lt_latest_find(uint32_t tid, struct lt_vm *vm, size_t size, const struct lt_cache_key *b,
                    struct lt_stack *stack)
{
    struct wanted w = {.turn = turn_of(b)};
    struct array *a = array_at(b);
    if (!is_of(a, tid, vm, b, w.turn) || !find_below(a, vm, b, &w.below) ||
        !read_place(vm, b, &w.function, &w.pc) || !(w.chain = find_chain(b, w.turn)))
        return false;
    const struct place *p = find_place(vm, b, &w, size);
    if (!p)
        return false;
    vm->allocating = p->allocating;
    stack->id = p->node;
    stack->depth = 0;
    return true;
}

/* -- learning -- */

/* Is a word on a stack that is readable at the next look-up? */
static bool is_on_a_stack(const struct array *a, const struct lt_cache_key *b, uint64_t at)
{
    bool found = lt_on_c_stack(b, at) || lt_on_lua_stack(b, at);
    for (uint32_t i = 0; i < a->threads && !found; i++)
        found = at >= a->thread[i].from && at + sizeof(uint64_t) <= a->thread[i].to;
    return found;
}

/* Returns false if there is no room, or the word could not be compared. */
static bool add_word(struct array *a, const struct lt_cache_key *b, uint64_t at, struct meaning meaning)
{
    if (a->count == MOST_WORDS || !is_on_a_stack(a, b, at))
        return false;
    a->word[a->count] = (struct word){at, *(const uint64_t *)at};
    a->meaning[a->count++] = meaning;
    return true;
}

static bool add_function(struct array *a, const struct lt_vm *vm, const struct lt_cache_key *b, uint64_t slot)
{
    if (a->functions == MOST_FUNCTIONS || !is_on_a_stack(a, b, slot))
        return false;
    a->function[a->functions].seen = lt_function_see(vm, slot);
    a->function[a->functions++].words = a->count;
    return true;
}

/* Where in the joined stack that begins which is below the frame of a step. */
static uint32_t begin_below(const struct lt_step *s, const struct lua_frames *lua,
                            const struct lt_stack *stack)
{
    uint32_t i = s->keys ? lua->at[s->keys - 1] + 1 : 0;
    while (i < stack->depth && stack->sps[i] < s->cframe)
        i++;
    return i;
}

/* Add the return addresses of the C functions outside of this frame of the VM that were not added. *n: those that were not. */
static bool add_returns(struct array *a, const struct lt_cache_key *b, const struct lt_stack *host,
                        uint64_t cframe, uint32_t *n)
{
    bool all = true;
    for (; *n > 1 && host->sps[*n - 1] > cframe; --*n)
        all = all && add_word(a, b, host->sps[*n - 1] - sizeof(uint64_t), (struct meaning){0});
    return all;
}

/* Add a step: what the walk has read after its link, and the link. */
static bool add_step(struct array *a, const struct lt_vm *vm, const struct lt_cache_key *b, uint32_t i,
                     uint32_t node)
{
    const struct lt_notes *notes = lt_notes_taken();
    const struct lt_step *s = &notes->step[i];
    bool all = true;
    for (uint32_t k = 0; k < notes->functions; k++)
        if (notes->function[k].steps == i + 1)
            all = all && add_function(a, vm, b, notes->function[k].at);
    for (uint32_t k = 0; k < notes->words; k++)
        if (notes->word[k].steps == i + 1 && notes->word[k].at != s->frame)
            all = all && add_word(a, b, notes->word[k].at, (struct meaning){0});
    return all && add_word(a, b, s->frame, (struct meaning){!s->foreign, node, s->cframe});
}

static void keep_link(uint64_t link, uint32_t below, uint32_t node, uint32_t turn)
{
    if ((link & 3) == LINK_LUA)
        *link_at(below, link, turn) = (struct link){link, below, turn, node};
}

/* Make the array of what was walked. Returns false if that is not possible; it is empty then. */
static bool fill(struct array *a, const struct lt_vm *vm, const struct lt_cache_key *b,
                 const struct lt_stack *host, const struct lua_frames *lua, const struct lt_stack *stack,
                 const uint32_t *node)
{
    const struct lt_notes *notes = lt_notes_taken();
    uint32_t returns = host->depth, outer = 0;
    bool all = true;
    a->threads = notes->threads;
    for (uint32_t i = 0; i < a->threads; i++)
        a->thread[i] = lt_resumed_get(vm, notes->thread[i]);
    for (uint32_t i = notes->steps; all && i-- > 0;) {
        const struct lt_step *s = &notes->step[i];
        const uint32_t inner = node[begin_below(s, lua, stack)], before = a->count;
        all = add_returns(a, b, host, s->cframe, &returns) && add_step(a, vm, b, i, inner);
        if (all && i + 1 < notes->steps && a->count == before + 1 && !s->foreign)
            keep_link(a->word[before].value, outer, inner, a->turn);
        outer = inner;
    }
    if (!all)
        a->count = 0;
    return all;
}

static struct array *array_for(uint32_t tid, const struct lt_vm *vm, const struct lt_cache_key *b,
                               uint32_t turn)
{
    struct array *a = array_at(b);
    a->vm = vm;
    a->L = b->word[KEY_THREAD];
    a->from = b->word[KEY_FROM];
    a->to = b->word[KEY_TO];
    a->c_to = b->c_to;
    a->tid = tid;
    a->turn = turn;
    a->count = a->functions = a->threads = a->innermost = 0;
    return a;
}

static void keep_place(const struct lt_vm *vm, const struct lt_cache_key *b, size_t size, uint32_t below,
                       uint32_t chain, uint32_t turn, uint32_t node)
{
    struct wanted w = {.below = below, .chain = chain, .turn = turn};
    if (!read_place(vm, b, &w.function, &w.pc))
        return;
    const bool on_trace = b->word[KEY_JIT] != 0, is_sure = !on_trace || lt_trace_is_sure(&vm->allocating);
    w.kind = kind_of(on_trace, is_sure, size);
    *place_at(&w) = (struct place){.function = w.function,
                                   .pc = w.pc,
                                   .below = below,
                                   .chain = chain,
                                   .turn = turn,
                                   .node = node,
                                   .kind = w.kind,
                                   .allocating = vm->allocating,
                                   .size = size,
                                   .version = on_trace ? lt_trace_version(vm, &vm->allocating, size) : 0};
}

/* Can the stack be kept as an array? Its innermost frame of Lua is the one of which the VM is in. */
static bool is_usual(const struct lt_vm *vm, const struct lt_cache_key *b, const struct lt_stack *stack)
{
    const struct lt_notes *notes = lt_notes_taken();
    return vm->layout->gc64 && luajit_options.stack_depth && !notes->frames && !notes->is_long &&
           notes->steps && notes->step[0].frame == lt_base_of(b) - 8 &&
           notes->step[0].cframe == (b->word[KEY_CFRAME] & ~(uint64_t)3) &&
           stack->ips[stack->depth - 1] != RAW_CUT;
}

bool lt_latest_keep(uint32_t tid, struct lt_vm *vm, size_t size, const struct lt_cache_key *b,
                    const struct lt_stack *host, const struct lua_frames *lua, const struct lt_stack *stack)
{
    TABLE(uint32_t, node, LT_MOST_FRAMES + 1);
    if (!is_usual(vm, b, stack))
        return false;
    const uint32_t turn = turn_of(b);
    stack_tree_find((const uint64_t *)stack->ips, stack->depth, node, 0);
    struct array *a = array_for(tid, vm, b, turn);
    if (!fill(a, vm, b, host, lua, stack, node))
        return false;
    const uint32_t chain = keep_chain(b, host, turn);
    if (chain)
        keep_place(vm, b, size, a->meaning[a->count - 1].node, chain, turn, node[0]);
    return chain != 0;
}
