/* stack.c - locks from call stacks; see stack.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locks/stack.h"

#include "memtrace/base/array.h"

bool lockstack_init(struct lockstack *l, const struct mt_reader *reader, bool unlock_before_free)
{
    memset(l, 0, sizeof *l);
    l->reader = reader;
    l->unlock_before_free = unlock_before_free;
    return functions_init(&l->functions, reader);
}

void lockstack_free(struct lockstack *l)
{
    for (size_t i = 0; i < l->threads_room; i++) {
        free(l->threads[i].scopes);
        free(l->threads[i].active);
    }
    functions_free(&l->functions);
    free(l->threads);
    free(l->pins);
    free(l->blocks);
    free(l->seen);
    free(l->due);
    free(l->out);
    free(l->at);
}

/* ---- output -------------------------------------------------------------------------------- */

static bool op_put(struct lockstack *l, struct op op)
{
    if (!array_grow(&l->out, &l->out_room, l->n_out + 1, sizeof *l->out) ||
        !array_grow(&l->at, &l->at_room, l->n_out + 1, sizeof *l->at))
        return false;
    l->out[l->n_out] = op;
    l->at[l->n_out++] = l->now;
    l->locks += op.code == OP_LOCK;
    l->unlocks += op.code == OP_UNLOCK;
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The unlocks of this operation, by handle. */
static bool put_due(struct lockstack *l)
{
    if (l->n_due > 1)
        qsort(l->due, l->n_due, sizeof *l->due, by_number);
    for (size_t i = 0; i < l->n_due; i++)
        if (!op_put(l, (struct op){.handle = l->due[i], .code = OP_UNLOCK}))
            return false;
    l->n_due = 0;
    return true;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* A function is on the stack of the heap operation at hand. */
static bool see(struct lockstack *l, uint32_t function)
{
    if (!array_grow(&l->seen, &l->seen_room, functions_count(&l->functions), sizeof *l->seen))
        return false;
    l->seen[function] = l->heap_operations;
    return true;
}

/* Note which functions are on a stack. */
static bool see_stack(struct lockstack *l, uint32_t stack)
{
    const struct mt_stack *s = mt_stack(l->reader, stack);

    for (; stack != 0 && s; s = mt_stack(l->reader, stack)) {
        if (!see(l, functions_of_frame(&l->functions, s->frame)))
            return false;
        if (s->parent >= stack)
            break;
        stack = s->parent;
    }
    return true;
}

/* Note which functions have not returned, by a heap operation. */
static bool see_all(struct lockstack *l, const struct mt_event *e)
{
    if (!see_stack(l, e->ref) || !see(l, functions_running(&l->functions, e->thread)))
        return false;
    if (functions_collects(&l->functions, e->thread) && !see(l, FUNCTIONS_COLLECTOR))
        return false;
    l->seen[FUNCTIONS_UNKNOWN] = 0;
    return true;
}

/* ---- pins ---------------------------------------------------------------------------------- */

static struct lockstack_pin *pin_at(struct lockstack *l, uint32_t number)
{
    return &l->pins[number - 1];
}

static void unlink_from_block(struct lockstack *l, uint32_t number)
{
    struct lockstack_pin *pin = pin_at(l, number);

    if (pin->block_after)
        pin_at(l, pin->block_after)->block_before = pin->block_before;
    if (pin->block_before)
        pin_at(l, pin->block_before)->block_after = pin->block_after;
    else
        l->blocks[pin->slot].pins = pin->block_after;
}

static void link_to_block(struct lockstack *l, uint32_t number)
{
    struct lockstack_pin *pin = pin_at(l, number);
    struct lockstack_block *block = &l->blocks[pin->slot];

    pin->block_before = 0;
    pin->block_after = block->pins;
    if (block->pins)
        pin_at(l, block->pins)->block_before = number;
    block->pins = number;
}

static void unlink_from_scope(struct lockstack *l, uint32_t number)
{
    struct lockstack_pin *pin = pin_at(l, number);

    if (pin->scope_after)
        pin_at(l, pin->scope_after)->scope_before = pin->scope_before;
    if (pin->scope_before)
        pin_at(l, pin->scope_before)->scope_after = pin->scope_after;
    else
        l->threads[pin->thread].scopes[pin->function].pins = pin->scope_after;
}

static void drop_pin(struct lockstack *l, uint32_t number)
{
    unlink_from_block(l, number);
    unlink_from_scope(l, number);
    pin_at(l, number)->scope_after = l->spare;
    l->spare = number;
}

/* A pin that is not used; 0 when out of memory. */
static uint32_t new_pin(struct lockstack *l)
{
    uint32_t number = l->spare;

    if (number) {
        l->spare = pin_at(l, number)->scope_after;
        return number;
    }
    if (l->n_pins >= UINT32_MAX - 1 || !array_grow(&l->pins, &l->pins_room, l->n_pins + 1, sizeof *l->pins))
        return 0;
    return (uint32_t)++l->n_pins;
}

/* The scope of a function in a thread, listed as active; NULL when out of memory. */
static struct lockstack_scope *open_scope(struct lockstack *l, uint16_t thread, uint32_t function)
{
    struct lockstack_thread *t;
    struct lockstack_scope *scope;

    if (!array_grow(&l->threads, &l->threads_room, (size_t)thread + 1, sizeof *l->threads))
        return NULL;
    t = &l->threads[thread];
    if (!array_grow(&t->scopes, &t->scopes_room, (size_t)function + 1, sizeof *t->scopes))
        return NULL;
    scope = &t->scopes[function];
    if (!scope->listed) {
        if (!array_grow(&t->active, &t->active_room, t->n_active + 1, sizeof *t->active))
            return NULL;
        t->active[t->n_active++] = function;
        scope->listed = true;
    }
    return scope;
}

static bool pin_block(struct lockstack *l, uint32_t slot, uint16_t thread, uint32_t function)
{
    struct lockstack_scope *scope = open_scope(l, thread, function);
    uint32_t number = scope ? new_pin(l) : 0;

    if (!number)
        return false;
    *pin_at(l, number) = (struct lockstack_pin){
        .function = function, .slot = slot, .scope_after = scope->pins, .thread = thread};
    if (scope->pins)
        pin_at(l, scope->pins)->scope_before = number;
    scope->pins = number;
    link_to_block(l, number);
    return true;
}

/* Is the block pinned to the function? Then that pin is now its first. */
static bool is_pinned(struct lockstack *l, struct lockstack_block *block, uint16_t thread, uint32_t function)
{
    for (uint32_t p = block->pins; p; p = pin_at(l, p)->block_after) {
        if (pin_at(l, p)->function != function || pin_at(l, p)->thread != thread)
            continue;
        if (p != block->pins) {
            unlink_from_block(l, p);
            link_to_block(l, p);
        }
        return true;
    }
    return false;
}

/* ---- what happens -------------------------------------------------------------------------- */

/* A function has returned: its blocks are free of it. */
static bool close_scope(struct lockstack *l, struct lockstack_scope *scope)
{
    while (scope->pins) {
        struct lockstack_block *block = &l->blocks[pin_at(l, scope->pins)->slot];

        drop_pin(l, scope->pins);
        if (block->pins)
            continue;
        if (!array_grow(&l->due, &l->due_room, l->n_due + 1, sizeof *l->due))
            return false;
        l->due[l->n_due++] = block->handle;
    }
    scope->listed = false;
    return true;
}

/* At a heap operation of a thread, its stack shows which functions have returned. */
static bool learn(struct lockstack *l, const struct mt_event *e)
{
    struct lockstack_thread *t;
    size_t kept = 0;

    l->heap_operations++;
    if (e->ref == 0 || e->thread >= l->threads_room)
        return true;
    if (!see_all(l, e))
        return false;
    t = &l->threads[e->thread];
    for (size_t i = 0; i < t->n_active; i++) {
        if (l->seen[t->active[i]] == l->heap_operations)
            t->active[kept++] = t->active[i];
        else if (!close_scope(l, &t->scopes[t->active[i]]))
            return false;
    }
    t->n_active = kept;
    return put_due(l);
}

static bool block_new(struct lockstack *l, const struct mt_event *e)
{
    if (!array_grow(&l->blocks, &l->blocks_room, (size_t)e->slot + 1, sizeof *l->blocks))
        return false;
    l->blocks[e->slot] = (struct lockstack_block){.handle = l->next_handle++, .live = true};
    return op_put(
        l,
        (struct op){.handle = l->blocks[e->slot].handle, .addr = e->addr, .size = e->size, .code = OP_NEW});
}

static bool block_free(struct lockstack *l, struct lockstack_block *block, uint64_t addr)
{
    bool locked = block->pins != 0;

    while (block->pins)
        drop_pin(l, block->pins);
    block->live = false;
    if (locked && l->unlock_before_free &&
        !op_put(l, (struct op){.handle = block->handle, .code = OP_UNLOCK}))
        return false;
    return op_put(l, (struct op){.handle = block->handle, .addr = addr, .code = OP_FREE});
}

/* Two operations, as in an ops file. */
static bool block_resize(struct lockstack *l, struct lockstack_block *block, const struct mt_event *e)
{
    if (!block_free(l, block, e->old_addr))
        return false;
    l->now++;
    return block_new(l, e);
}

static bool block_access(struct lockstack *l, struct lockstack_block *block, const struct mt_event *e)
{
    struct functions_makers makers = functions_of_access(&l->functions, e);

    for (unsigned i = 0; i < makers.n; i++) {
        if (is_pinned(l, block, e->thread, makers.number[i]))
            continue;
        if (!block->pins && !op_put(l, (struct op){.handle = block->handle, .code = OP_LOCK}))
            return false;
        if (!pin_block(l, e->slot, e->thread, makers.number[i]))
            return false;
    }
    return true;
}

static bool step(struct lockstack *l, const struct mt_event *e)
{
    struct lockstack_block *block;

    if (e->kind <= MT_RESIZE && !learn(l, e))
        return false;
    if (e->kind == MT_NEW)
        return block_new(l, e);
    block = e->slot < l->blocks_room && l->blocks[e->slot].live ? &l->blocks[e->slot] : NULL;
    if (!block)
        return true;
    if (e->kind == MT_FREE)
        return block_free(l, block, e->addr);
    if (e->kind == MT_RESIZE)
        return block_resize(l, block, e);
    return block_access(l, block, e);
}

bool lockstack_feed(struct lockstack *l, const struct mt_event *events, const struct mt_event *shown,
                    size_t n)
{
    l->n_out = 0;
    if (!functions_learn(&l->functions))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!luacode_follow(&l->functions.code, &events[i]))
            return false;
        if (!shown || shown[i].kind > MT_MODIFY)
            continue;
        if (!step(l, &shown[i]))
            return false;
        l->now++;
    }
    return true;
}
