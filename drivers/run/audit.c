/* audit.c - checks alignment, overlaps, and blocks that are never freed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/audit.h"
#include "drivers/run/guard.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool audit_open(struct audit *a, const struct engine *e)
{
    *a = (struct audit){.e = e};
    a->covers = e->shared->job.check && !(e->driver->flags & (STEVE_MOVES | STEVE_NO_MEMORY));
    return !a->covers || cover_open(&a->cover);
}

__attribute__((format(printf, 2, 3))) static void add_text(struct shared *b, const char *format, ...)
{
    size_t length = strlen(b->text);
    va_list args;
    va_start(args, format);
    vsnprintf(b->text + length, sizeof b->text - length, format, args);
    va_end(args);
}

/* A live block of `list` that overlaps b; NULL if there is none. */
static const struct block *find_overlapped(const struct engine *e, const struct block *list, uint64_t count,
                                           const struct block *b, const char *address)
{
    for (uint64_t i = 0; i < count; i++) {
        const struct block *other = &list[i];
        const char *at = other->ref && other != b ? engine_address(e, other) : NULL;
        if (at && at < address + b->size + !b->size && address < at + other->size + !other->size)
            return other;
    }
    return NULL;
}

/* Handle a block that shares STEVE_ALIGNMENT bytes with a live block according to the cover. For misaligned blocks
 * that need not be an overlap. If it is one, the error text in shared memory is set and false returned. */
static bool shares_rightly(const struct engine *e, const struct block *b, const void *address)
{
    const struct block *other =
        find_overlapped(e, e->blocks, e->shared->job.facts.slots, b, (const char *)address);
    if (!other)
        other = find_overlapped(e, e->kept, e->kept_count, b, (const char *)address);
    if (other)
        add_text(e->shared,
                 "block of %" PRIu64 " bytes at %p overlaps the live block of %" PRIu64 " bytes at %p",
                 b->size, address, other->size, engine_address(e, other));
    return !other;
}

static void note_alignment(struct audit *a, const struct block *b, const void *address)
{
    if ((uintptr_t)address % STEVE_ALIGNMENT == 0 || a->misaligned++)
        return;
    a->first_op = a->e->ops - 1;
    a->first_size = b->size;
    a->first_address = address;
}

bool audit_made(struct audit *a, const struct block *b, const void *address)
{
    struct shared *shared = a->e->shared;
    bool good = true;
    if (!shared->job.check || !address)
        return true;
    note_alignment(a, b, address);
    enum cover_answer answer = a->covers ? cover_take(&a->cover, address, b->size) : COVER_FREE;
    if (answer == COVER_TAKEN)
        good = shares_rightly(a->e, b, address);
    if (answer == COVER_NO_MEMORY) {
        add_text(shared, "out of memory for looking for overlaps (--check)");
        good = false;
    }
    if (!good)
        shared->op_index = a->e->ops - 1; /* the operation that was just done, not the next */
    return good;
}

void audit_gone(struct audit *a, const struct block *b, const void *address)
{
    if (a->covers && address)
        cover_drop(&a->cover, address, b->size);
}

static bool all_kept(const struct engine *e, const struct block *list, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, e->shared->heartbeat++)
        if (list[i].ref && !guard_kept(e->shared, &list[i], engine_address(e, &list[i]), list[i].size))
            return false;
    return true;
}

static void check_rest(const struct engine *e)
{
    struct shared *b = e->shared;
    if (all_kept(e, e->blocks, b->job.facts.slots) && all_kept(e, e->kept, e->kept_count))
        return;
    add_text(b, " (found at the end)");
    b->status = STATUS_FAILED;
}

void audit_end(const struct audit *a)
{
    struct shared *b = a->e->shared;
    if (!b->job.check)
        return;
    if (b->status != STATUS_FAILED)
        check_rest(a->e);
    if (!a->misaligned)
        return;
    if (b->status != STATUS_FAILED)
        b->op_index = a->first_op;
    add_text(b,
             "%s%" PRIu64 " blocks not aligned to %d bytes, the first of %" PRIu64
             " bytes at %p (operation %" PRIu64 ")",
             b->text[0] ? "; " : "", a->misaligned, STEVE_ALIGNMENT, a->first_size, a->first_address,
             a->first_op);
    b->status = STATUS_FAILED;
}
