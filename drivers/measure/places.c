/* places.c - writes where the live blocks are at one moment of a replay; see places.h.
 *
 * For each page there are the number of live blocks on it, and what has ended there. O(pages of the block) for each
 * operation.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/measure/places.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/run/guard.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum { BUFFER_BYTES = 1 << 16 };

struct page {
    uint64_t ended, lived;
    uint32_t live; /* blocks */
};

/* When a block was made, and when it came to where it is now: numbers of operations. */
struct birth {
    uint64_t born, placed;
};

struct places {
    struct engine *e;
    struct page *pages;
    struct birth *births; /* by slot */
    uint64_t last;        /* slot of the block that was made last */
    uint64_t in_use, used, worst;
    size_t buffered;
    char buffer[BUFFER_BYTES];
};

static uint64_t slot_of(const struct places *p, const struct block *b)
{
    return (uint64_t)(b - p->e->blocks);
}

/* The pages of a block: *first up to, not including, the result. An empty block has one byte. */
static uint64_t pages_of(const struct block *b, const void *address, uint64_t *first)
{
    uint64_t at = region_offset(address);
    *first = at / PLACES_PAGE;
    return (at + (b->size ? b->size : 1) - 1) / PLACES_PAGE + 1;
}

static bool is_placed(const struct block *b, const void *address)
{
    return address && region_holds(address, b->size ? b->size : 1);
}

static bool made(void *ctx, struct block *b, void *address)
{
    struct places *p = ctx;
    uint64_t page;
    p->used += b->size;
    p->last = slot_of(p, b);
    p->births[p->last].placed = p->e->ops;
    if (!guard_made(p->e->shared, p->e->driver, b, address))
        return false;
    if (!is_placed(b, address))
        return true;
    for (uint64_t end = pages_of(b, address, &page); page < end; page++)
        p->in_use += p->pages[page].live++ == 0;
    return true;
}

static bool freeing(void *ctx, const struct block *b, void *address)
{
    struct places *p = ctx;
    uint64_t page, life = p->e->ops - p->births[slot_of(p, b)].placed;
    p->used -= b->size;
    if (!is_placed(b, address))
        return true;
    for (uint64_t end = pages_of(b, address, &page); page < end; page++) {
        p->in_use -= --p->pages[page].live == 0;
        p->pages[page].ended++;
        p->pages[page].lived += life;
    }
    return true;
}

/* Contents are not checked here, because the space run checks them. */
static bool kept(void *ctx, const struct block *b, void *address, uint64_t bytes)
{
    return true;
}

static void locked(void *ctx, const struct block *b, bool on)
{
}

static bool flush(struct places *p)
{
    for (size_t done = 0; done < p->buffered;) {
        long n =
            raw_syscall(SYS_write, FRAMES_FD, (long)(p->buffer + done), (long)(p->buffered - done), 0, 0, 0);
        if (raw_failed(n) || n == 0) {
            snprintf(p->e->shared->text, sizeof p->e->shared->text, "the result cannot be written: %s",
                     strerror((int)-n));
            return false;
        }
        done += (size_t)n;
    }
    p->buffered = 0;
    return true;
}

static bool put(struct places *p, const void *record, size_t bytes)
{
    if (p->buffered + bytes > sizeof p->buffer && !flush(p))
        return false;
    memcpy(p->buffer + p->buffered, record, bytes);
    p->buffered += bytes;
    return true;
}

static uint64_t page_count(void)
{
    return (region_size() + PLACES_PAGE - 1) / PLACES_PAGE + 1;
}

static bool put_blocks(struct places *p)
{
    for (uint64_t i = 0; i < p->e->shared->job.facts.slots; i++) {
        const struct block *b = &p->e->blocks[i];
        const void *address = b->ref ? engine_address(p->e, b) : NULL;
        struct places_block record = {p->births[i].born,
                                      is_placed(b, address) ? region_offset(address) : UINT64_MAX, b->size};
        if (b->ref && !put(p, &record, sizeof record))
            return false;
    }
    return true;
}

static bool put_pages(struct places *p)
{
    for (uint64_t i = 0, left = p->in_use; left; i++) {
        const struct page *page = &p->pages[i];
        if (!page->live)
            continue;
        left--;
        if (!put(p, &(struct places_page){i, page->ended, page->lived}, sizeof(struct places_page)))
            return false;
    }
    return true;
}

static bool write_all(struct places *p)
{
    struct places_head head = {.operations = p->e->ops, .pages = p->in_use};
    for (uint64_t i = 0; i < p->e->shared->job.facts.slots; i++)
        head.blocks += p->e->blocks[i].ref != NULL;
    return put(p, &head, sizeof head) && put_blocks(p) && put_pages(p) && flush(p);
}

static bool done(void *ctx, char op, uint64_t size)
{
    struct places *p = ctx;
    struct shared *b = p->e->shared;
    uint64_t idle = p->in_use * PLACES_PAGE > p->used ? p->in_use * PLACES_PAGE - p->used : 0;
    if (op == 'N')
        p->births[p->last].born = p->e->ops - 1;
    if (b->job.places_at)
        return p->e->ops != b->job.places_at || write_all(p);
    if (idle > p->worst || !b->places_at) {
        p->worst = idle;
        b->places_at = p->e->ops;
    }
    return true;
}

void places_run(struct engine *e)
{
    static struct places p;
    const struct watcher w = {
        .ctx = &p, .made = made, .freeing = freeing, .kept = kept, .locked = locked, .done = done};
    p.e = e;
    p.pages = raw_map(page_count() * sizeof *p.pages);
    p.births = raw_map((e->shared->job.facts.slots + 1) * sizeof *p.births);
    if (!p.pages || !p.births) {
        snprintf(e->shared->text, sizeof e->shared->text, "out of memory for the pages of the heap");
        e->shared->status = STATUS_FAILED;
        return;
    }
    engine_watched(e, &w);
}
