/* roundtrip_model.c - a slow model of writer and reader.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/roundtrip_model.h"

#include <stdlib.h>

struct mt_event *model_expect(struct model *m, enum mt_kind kind)
{
    if (m->count == m->capacity) {
        m->capacity = m->capacity * 2 + 256;
        m->expected = realloc(m->expected, m->capacity * sizeof *m->expected);
        assert_non_null(m->expected);
    }
    struct mt_event *ev = &m->expected[m->count++];
    *ev = (struct mt_event){.kind = kind, .thread = m->thread, .time = m->time};
    return ev;
}

static uint64_t last_of(uint64_t addr, uint64_t size)
{
    return addr + (size ? size - 1 : 0);
}

static bool meets(const struct mt_event *b, uint64_t addr, uint64_t size)
{
    return b->addr <= last_of(addr, size) && last_of(b->addr, b->size) >= addr;
}

static void note_freed(struct model *m, const struct mt_event *b)
{
    assert_true(m->dead_count < MAX_DEAD);
    m->dead[m->dead_count] = *b;
    m->dead[m->dead_count++].old_addr = b->addr;
}

/* Keep the bytes [first, end) of a freed block, unless they are few. */
static void keep(struct model *m, const struct mt_event *b, uint64_t first, uint64_t end)
{
    if (end < first + 32)
        return;
    assert_true(m->dead_count < MAX_DEAD);
    m->dead[m->dead_count] = *b;
    m->dead[m->dead_count].addr = first;
    m->dead[m->dead_count++].size = end - first;
}

/* A block is allocated: of freed blocks there, the part before it remains, and the part after it from the next
 * multiple of 16. */
static void cover(struct model *m, uint64_t addr, uint64_t size)
{
    for (uint32_t i = m->dead_count; i-- > 0;) {
        struct mt_event b = m->dead[i];
        if (!meets(&b, addr, size))
            continue;
        m->dead[i] = m->dead[--m->dead_count];
        keep(m, &b, b.addr, addr);
        keep(m, &b, (last_of(addr, size) | 15) + 1, b.addr + b.size);
    }
}

void model_free(struct model *m, uint32_t slot, uint32_t stack, bool implied)
{
    struct mt_event *ev = model_expect(m, MT_FREE);
    ev->addr = m->live[slot].addr;
    ev->size = m->live[slot].size;
    ev->handle = m->live[slot].handle;
    ev->heap = m->live[slot].heap;
    ev->slot = slot;
    ev->ref = stack;
    ev->implied = implied;
    note_freed(m, &m->live[slot]);
    m->live[slot].kind = MT_KINDS;
    m->free_slots[m->free_count++] = slot;
}

bool model_overlapped(const struct model *m, uint64_t addr, uint64_t size, uint32_t except, uint32_t *slot)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < m->used; i++)
        if (i != except && m->live[i].kind != MT_KINDS && meets(&m->live[i], addr, size)) {
            *slot = i;
            n++;
        }
    return n <= 1;
}

void model_new(struct model *m, uint64_t addr, uint64_t size, uint32_t heap, uint8_t how, uint32_t stack)
{
    uint32_t slot = m->free_count ? m->free_slots[--m->free_count] : m->used++;
    cover(m, addr, size);
    struct mt_event *ev = model_expect(m, MT_NEW);
    ev->addr = addr;
    ev->size = size;
    ev->handle = m->handles++;
    ev->heap = heap;
    ev->slot = slot;
    ev->how = how;
    ev->ref = stack;
    m->live[slot] = *ev;
}

uint32_t model_slot_at(const struct model *m, uint64_t addr, uint32_t heap)
{
    for (uint32_t i = 0; i < m->used; i++)
        if (m->live[i].kind != MT_KINDS && m->live[i].addr == addr && m->live[i].heap == heap)
            return i;
    return UINT32_MAX;
}

/* Find the block of a bad free. If there is one, returns 1 and sets *concerned. */
static bool begins(const struct mt_event *blocks, uint32_t n, uint64_t addr,
                   const struct mt_event **concerned)
{
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].kind != MT_KINDS && blocks[i].addr == addr) {
            *concerned = &blocks[i];
            return true;
        }
    return false;
}

static bool contains(const struct mt_event *blocks, uint32_t n, uint64_t addr,
                     const struct mt_event **concerned)
{
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].kind != MT_KINDS && addr - blocks[i].addr < blocks[i].size) {
            *concerned = &blocks[i];
            return true;
        }
    return false;
}

/* The rest of a freed block does not begin where the block did if another block has reused its beginning. */
static bool begins_dead(const struct model *m, uint64_t addr, const struct mt_event **concerned)
{
    const struct mt_event *b;
    bool found = begins(m->dead, m->dead_count, addr, &b) && b->old_addr == addr;
    if (found)
        *concerned = b;
    return found;
}

static void expect_bad(struct model *m, enum mt_badfree reason, const struct mt_event *concerned,
                       uint64_t addr, uint32_t heap, uint32_t stack)
{
    struct mt_event *ev = model_expect(m, MT_BADFREE);
    ev->addr = addr;
    ev->heap = heap;
    ev->ref = stack;
    ev->how = reason;
    ev->handle = concerned ? concerned->handle : MT_NO_HANDLE;
    ev->offset = concerned ? addr - concerned->addr : 0;
}

void model_bad_free(struct model *m, uint64_t addr, uint32_t heap, uint32_t stack)
{
    const struct mt_event *b = NULL;
    enum mt_badfree reason = begins(m->live, m->used, addr, &b)     ? MT_BADFREE_HEAP
                             : contains(m->live, m->used, addr, &b) ? MT_BADFREE_INSIDE
                             : begins_dead(m, addr, &b)             ? MT_BADFREE_DOUBLE
                                                                    : MT_BADFREE_INVALID;
    expect_bad(m, reason, b, addr, heap, stack);
}

/* All kinds up to memalign belong to one family. */
void model_mismatch(struct model *m, uint32_t slot, enum mt_how how, uint32_t stack)
{
    const struct mt_event *b = &m->live[slot];
    if (how != MT_HOWS && how != b->how && (how > MT_HOW_MEMALIGN || b->how > MT_HOW_MEMALIGN))
        expect_bad(m, MT_BADFREE_MISMATCH, b, b->addr, b->heap, stack);
}

void model_resize(struct model *m, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    struct mt_event old = m->live[slot], *ev = model_expect(m, MT_RESIZE);
    ev->addr = addr;
    ev->size = size;
    ev->handle = old.handle;
    ev->old_addr = old.addr;
    ev->old_size = old.size;
    ev->ref = stack;
    ev->heap = old.heap;
    ev->slot = slot;
    cover(m, addr, size);
    if (!meets(&old, addr, size))
        note_freed(m, &old);
    m->live[slot].addr = addr;
    m->live[slot].size = size;
    m->live[slot].ref = stack;
}

/* Expect an access, or the part of one, that is in this block. */
static struct mt_event *expect_part(struct model *m, enum mt_kind kind, const struct mt_event *b,
                                    uint64_t addr, uint64_t size)
{
    struct mt_event *ev = model_expect(m, kind);
    ev->addr = addr;
    ev->size = size;
    ev->handle = b->handle;
    ev->heap = b->heap;
    ev->slot = b->slot;
    ev->freed = b >= m->dead && b < m->dead + MAX_DEAD;
    ev->offset = addr - (ev->freed ? b->old_addr : b->addr);
    m->freed += ev->freed;
    return ev;
}

void model_access(struct model *m, enum mt_kind kind, uint32_t site, uint64_t size, uint64_t addr)
{
    const struct mt_event *b = NULL;
    if (!contains(m->live, m->used, addr, &b) && !contains(m->dead, m->dead_count, addr, &b)) {
        m->foreign++;
        return;
    }
    struct mt_event *ev = expect_part(m, kind, b, addr, size);
    ev->ref = site;
    ev->beyond = !ev->freed && ev->offset + size > b->size;
}

/* Collect the blocks with bytes in a range, ordered by address. */
static size_t add_parts(const struct mt_event **parts, size_t count, const struct mt_event *blocks,
                        uint32_t n, uint64_t addr, uint64_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t at = count;
        if (blocks[i].kind == MT_KINDS || blocks[i].size == 0 || !meets(&blocks[i], addr, size))
            continue;
        for (; at > 0 && parts[at - 1]->addr > blocks[i].addr; at--)
            parts[at] = parts[at - 1];
        parts[at] = &blocks[i];
        count++;
        assert_true(count < PARTS);
    }
    return count;
}

void model_touch(struct model *m, enum mt_kind kind, uint64_t addr, uint64_t size)
{
    const struct mt_event *parts[PARTS];
    size_t n = size ? add_parts(parts, 0, m->live, m->used, addr, size) : 0;
    n = size ? add_parts(parts, n, m->dead, m->dead_count, addr, size) : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t first = parts[i]->addr > addr ? parts[i]->addr : addr, last = last_of(addr, size);
        uint64_t end = last_of(parts[i]->addr, parts[i]->size);
        expect_part(m, kind, parts[i], first, (end < last ? end : last) - first + 1)->kernel = 1;
    }
    m->foreign += size && n == 0;
}
