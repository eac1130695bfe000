/* full.c - fine-grained locks from the segment of accesses; see full.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locks/full.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/batch_walk.h"

#define NONE HANDLE_MAP_NONE
#define SLOT(index) ((size_t)(index) & (LOCKFULL_RING - 1))

bool lockfull_init(struct lockfull *l, const uint64_t *unfreed, size_t n_unfreed, struct lockfull_rules rules)
{
    memset(l, 0, sizeof *l);
    for (size_t i = 0; i < LOCKFULL_RING; i++)
        l->ring[i] = NONE;
    l->mortals = (struct mortals){.unfreed = unfreed, .n_unfreed = n_unfreed};
    l->rules = rules;
    return handle_map_init(&l->live);
}

void lockfull_free(struct lockfull *l)
{
    handle_map_free(&l->live);
    free(l->blocks);
    free(l->due);
    free(l->out);
    free(l->at);
}

/* The index of the first operation at which the block's life is not above the threshold. */
static int64_t deadline(const struct lockfull *l, const struct lockfull_block *block)
{
    int64_t above = block->end - l->rules.threshold;

    /* nearly always the decay is the unit, and a division costs more than all the rest */
    return l->rules.decay == 1 ? above : (above + l->rules.decay - 1) / l->rules.decay;
}

/* Put a block into the list of its deadline, or as far ahead as the ring goes. */
static inline void hang(struct lockfull *l, uint32_t b)
{
    struct lockfull_block *block = &l->blocks[b];
    int64_t last = l->index + LOCKFULL_RING - 1;
    int64_t due = deadline(l, block);
    uint16_t slot = (uint16_t)SLOT(due < last ? due : last);

    block->slot = slot;
    block->previous = NONE;
    block->next = l->ring[slot];
    if (block->next != NONE)
        l->blocks[block->next].previous = b;
    l->ring[slot] = b;
}

/* Take a dying block out of the ring. */
static void unhang(struct lockfull *l, uint32_t b)
{
    struct lockfull_block *block = &l->blocks[b];

    if (block->next != NONE)
        l->blocks[block->next].previous = block->previous;
    if (block->previous != NONE)
        l->blocks[block->previous].next = block->next;
    else
        l->ring[block->slot] = block->next;
}

/* Sort the handles that are due, nearly always none to three of them. */
static void sort_due(struct lockfull *l)
{
    for (size_t i = 1; i < l->n_due; i++) {
        uint64_t handle = l->due[i];
        size_t k = i;

        for (; k > 0 && l->due[k - 1] > handle; k--)
            l->due[k] = l->due[k - 1];
        l->due[k] = handle;
    }
}

static bool make_due(struct lockfull *l, struct lockfull_block *block)
{
    if (!array_grow(&l->due, &l->due_room, l->n_due + 1, sizeof *l->due))
        return false;
    block->locked = false;
    l->due[l->n_due++] = block->handle;
    return true;
}

/* Look at the blocks whose time may have come: unlock those whose life ends here, hang up the others again.
 */
static bool collect_due(struct lockfull *l)
{
    uint32_t b = l->ring[SLOT(l->index)];

    l->n_due = 0;
    l->ring[SLOT(l->index)] = NONE;
    while (b != NONE) {
        struct lockfull_block *block = &l->blocks[b];
        uint32_t next = block->next;

        if (deadline(l, block) > l->index)
            hang(l, b);
        else if (!make_due(l, block))
            return false;
        b = next;
    }
    sort_due(l);
    return true;
}

/* Room for n more operations. */
static inline bool reserve(struct lockfull *l, size_t n)
{
    if (l->n_out + n <= l->out_room && l->n_out + n <= l->at_room)
        return true;
    return array_grow(&l->out, &l->out_room, l->n_out + n, sizeof *l->out) &&
           array_grow(&l->at, &l->at_room, l->n_out + n, sizeof *l->at);
}

static void give(struct lockfull *l, const struct op *op)
{
    l->out[l->n_out] = *op;
    l->at[l->n_out++] = (uint64_t)l->index;
}

/* Written field by field, for there are many: a copy would wait for its own stores. */
static inline void op_put(struct lockfull *l, uint64_t handle, enum ops_code code)
{
    struct op *op = &l->out[l->n_out];

    op->handle = handle;
    op->addr = op->size = 0;
    op->code = code;
    op->thread = l->thread;
    op->time = l->time;
    l->at[l->n_out++] = (uint64_t)l->index;
}

/* The lock events of this index. lock: a handle to lock as well, or UINT64_MAX. */
static bool put_events(struct lockfull *l, uint64_t lock)
{
    size_t first = l->rules.compat && l->n_due ? l->n_due - 1 : 0;
    bool locks = lock != UINT64_MAX;

    if (!reserve(l, l->n_due + 2))
        return false;
    if (l->rules.compat && locks && l->n_due) {
        locks = lock > l->due[first];
        first += locks;
    }
    for (size_t i = first; i < l->n_due; i++)
        op_put(l, l->due[i], OP_UNLOCK);
    if (locks)
        op_put(l, lock, OP_LOCK);
    l->unlocks += l->n_due - first;
    l->locks += locks;
    return true;
}

/* What happens at this index to blocks other than the operation's own. */
static bool others(struct lockfull *l)
{
    return collect_due(l) && put_events(l, UINT64_MAX);
}

/* The time of a block may have come, and of no other one. */
static bool one_due(struct lockfull *l, uint32_t b)
{
    struct lockfull_block *block = &l->blocks[b];

    l->ring[SLOT(l->index)] = NONE;
    if (deadline(l, block) > l->index) {
        hang(l, b);
        return true;
    }
    if (!reserve(l, 1))
        return false;
    block->locked = false;
    op_put(l, block->handle, OP_UNLOCK);
    l->unlocks++;
    return true;
}

/* The same as others, before an access: nearly always no block waits in the list, or one. */
static inline bool others_or_none(struct lockfull *l)
{
    uint32_t b = l->ring[SLOT(l->index)];

    if (b == NONE)
        return true;
    return l->blocks[b].next == NONE ? one_due(l, b) : others(l);
}

/* A block dies: was it locked? */
static bool retire(struct lockfull *l, uint32_t b)
{
    struct lockfull_block *block = &l->blocks[b];
    bool locked = block->locked;

    if (locked)
        unhang(l, b);
    block->locked = block->live = false;
    return locked;
}

static bool block_new(struct lockfull *l, uint32_t b, const struct op *op)
{
    if (!array_grow(&l->blocks, &l->room, (size_t)b + 1, sizeof *l->blocks) || !others(l))
        return false;
    l->blocks[b] = (struct lockfull_block){
        .handle = op->handle, .live = true, .mortal = mortals_new(&l->mortals, l->news++)};
    give(l, op);
    return true;
}

/* A block is freed: was it locked? */
static bool free_block(struct lockfull *l, uint32_t b)
{
    mortals_free(&l->mortals, l->blocks[b].mortal);
    return retire(l, b);
}

/* b: its block, or NONE. */
static bool block_free(struct lockfull *l, uint32_t b, const struct op *op)
{
    bool locked = b != NONE && free_block(l, b);

    if (!collect_due(l))
        return false;
    if (locked && l->rules.unlock_before_free && !make_due(l, &l->blocks[b]))
        return false;
    sort_due(l);
    if (!put_events(l, UINT64_MAX))
        return false;
    give(l, op);
    return true;
}

/* An operation on the block: its life grows, and its own operation does not cost any. */
static inline void gain_life(struct lockfull *l, struct lockfull_block *block)
{
    int64_t empty = (l->index - 1) * l->rules.decay;

    block->end = (block->end > empty ? block->end : empty) + l->rules.gain + l->rules.decay;
}

/* The lock event of this index, where no other block is due. */
static inline bool lock_alone(struct lockfull *l, uint32_t b)
{
    if (!reserve(l, 1))
        return false;
    op_put(l, l->blocks[b].handle, OP_LOCK);
    l->locks++;
    return true;
}

static bool lock(struct lockfull *l, uint32_t b)
{
    bool alone = l->ring[SLOT(l->index)] == NONE;

    if (!(alone ? lock_alone(l, b) : collect_due(l) && put_events(l, l->blocks[b].handle)))
        return false;
    l->blocks[b].locked = true;
    hang(l, b);
    return true;
}

/* A block that is locked lives longer; one that is not gets locked if its life is long enough. */
static inline bool block_access(struct lockfull *l, uint32_t b)
{
    struct lockfull_block *block = &l->blocks[b];

    if (block->mortal) {
        gain_life(l, block);
        if (!block->locked && deadline(l, block) > l->index)
            return lock(l, b);
    }
    return others_or_none(l);
}

/* Operations that are none of a block that is not locked: n of them. */
static inline bool pass(struct lockfull *l, uint32_t n)
{
    for (int64_t end = l->index + n; l->index < end; l->index++)
        if (!others_or_none(l))
            return false;
    return true;
}

/* n more accesses to a block. While it is locked, its own operations put off its deadline further than they
 * bring it nearer, so that it stays so, and its life may grow by all of them at once. */
static inline bool access_again(struct lockfull *l, uint32_t b, uint32_t n)
{
    struct lockfull_block *block = &l->blocks[b];

    if (block->mortal && block->locked)
        block->end += n * (l->rules.gain + l->rules.decay);
    if (!block->mortal || block->locked)
        return pass(l, n);
    for (; n; n--, l->index++)
        if (!block_access(l, b))
            return false;
    return true;
}

/* n accesses to a block, one after the other. */
static inline bool access_run(struct lockfull *l, uint32_t b, uint32_t n)
{
    if (!block_access(l, b))
        return false;
    l->index++;
    return n == 1 || access_again(l, b, n - 1);
}

/* ---- operations of an ops file, by handle ---- */

static bool new_handle(struct lockfull *l, const struct op *op)
{
    uint32_t old = handle_map_remove(&l->live, op->handle), b;

    if (old != NONE)
        retire(l, old);
    b = handle_map_add(&l->live, op->handle);
    return b != NONE && block_new(l, b, op);
}

/* A Resize is an operation like an access; it is given after the lock events. */
static bool resize_handle(struct lockfull *l, const struct op *op)
{
    uint32_t b = handle_map_find(&l->live, op->handle);

    l->unmatched += b == NONE;
    if (!(b == NONE ? others_or_none(l) : block_access(l, b)) || !reserve(l, 1))
        return false;
    give(l, op);
    return true;
}

/* How many of n accesses, from the first on, are to one block, by one thread and at one time. */
static inline uint32_t run_length(const struct op *ops, size_t n)
{
    uint32_t i = 1;

    while (i < n && ops[i].handle == ops->handle && ops[i].code >= OP_LOAD && ops[i].code <= OP_MODIFY &&
           ops[i].thread == ops->thread && ops[i].time == ops->time)
        i++;
    return i;
}

static inline bool use_handle(struct lockfull *l, uint64_t handle, uint32_t n)
{
    uint32_t b = handle_map_find(&l->live, handle);

    if (b != NONE)
        return access_run(l, b, n);
    l->unmatched += n;
    return pass(l, n);
}

/* An operation that is no access. */
static bool step(struct lockfull *l, const struct op *op)
{
    bool ok;

    if (op->code == OP_NEW)
        ok = new_handle(l, op);
    else if (op->code == OP_FREE)
        ok = block_free(l, handle_map_remove(&l->live, op->handle), op);
    else
        ok = resize_handle(l, op);
    l->index++;
    return ok;
}

bool lockfull_feed(struct lockfull *l, const struct op *ops, size_t n)
{
    uint32_t run;

    l->n_out = 0;
    for (size_t i = 0; i < n; i += run) {
        bool access = ops[i].code >= OP_LOAD && ops[i].code <= OP_MODIFY;

        run = access ? run_length(&ops[i], n - i) : 1;
        l->thread = ops[i].thread;
        l->time = ops[i].time;
        if (!(access ? use_handle(l, ops[i].handle, run) : step(l, &ops[i])))
            return false;
    }
    return true;
}

/* ---- events of a trace, by slot ---- */

static inline bool is_live(const struct lockfull *l, uint32_t slot)
{
    return slot < l->room && l->blocks[slot].live;
}

static bool new_slot(struct lockfull *l, const struct mt_event *e)
{
    const struct op op = {.handle = l->news, .addr = e->addr, .size = e->size, .code = OP_NEW};

    if (is_live(l, e->slot))
        retire(l, e->slot);
    if (!block_new(l, e->slot, &op))
        return false;
    l->index++;
    return true;
}

static bool free_slot(struct lockfull *l, uint32_t slot, uint64_t addr)
{
    if (!is_live(l, slot)) {
        l->stray++;
        return true;
    }
    if (!block_free(l, slot, &(struct op){.handle = l->blocks[slot].handle, .addr = addr, .code = OP_FREE}))
        return false;
    l->index++;
    return true;
}

/* n accesses to a block. */
static inline bool use_slot(struct lockfull *l, uint32_t slot, uint32_t n)
{
    if (is_live(l, slot))
        return access_run(l, slot, n);
    l->stray += n;
    return true;
}

static bool use_event(struct lockfull *l, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_NEW:
        return new_slot(l, e);
    case MT_FREE:
        return free_slot(l, e->slot, e->addr);
    case MT_RESIZE:
        return free_slot(l, e->slot, e->old_addr) && new_slot(l, e);
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        return use_slot(l, e->slot, 1);
    default:
        return true;
    }
}

static inline bool use_segment(struct lockfull *l, const struct mt_batch *p, const struct mt_step *step,
                               const struct mt_place *places)
{
    const struct mt_segment_word *segment = &p->segments[step->segment];
    const struct mt_segment_access *a = &p->accesses[segment->first], *end = a + segment->count;

    if (segment->words == 1)
        return places->slot == MT_NO_SLOT || use_slot(l, places->slot, segment->count);
    while (a < end) {
        uint32_t slot = places[a->word].slot, n = 1;

        while (a + n < end && a[n].word == a->word)
            n++;
        if (slot != MT_NO_SLOT && !use_slot(l, slot, n))
            return false;
        a += n;
    }
    return true;
}

static bool use_events(struct lockfull *l, const struct mt_batch *p, const struct mt_event *e, size_t n)
{
    (void)p;
    for (const struct mt_event *end = e + n; e < end; e++)
        if (!use_event(l, e))
            return false;
    return true;
}

BATCH_WALK(lockfull, use_events, use_segment)

bool lockfull_feed_batch(struct lockfull *l, const struct mt_batch *p)
{
    l->n_out = 0;
    return lockfull_walk(l, p);
}
