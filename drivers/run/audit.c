/* audit.c - checks alignment, overlaps, and blocks that are never freed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/audit.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/run/guard.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* -- the addresses that live blocks cover -- */

enum { PIECE_SHIFT = 30, ADDRESS_BITS = 47, WORD = 64, UNIT = 8 };
static const uint64_t PIECES = (uint64_t)1 << (ADDRESS_BITS - PIECE_SHIFT);
static const uint64_t PIECE_WORDS = ((uint64_t)1 << PIECE_SHIFT) / UNIT / WORD;

/* False when out of memory. */
static bool cover_open(struct cover *c)
{
    c->pieces = raw_map(PIECES * sizeof *c->pieces);
    return c->pieces;
}

/* The word that contains a bit, allocated if necessary; NULL when out of memory, or if no program has such an
 * address. */
static uint64_t *word_of(struct cover *c, uint64_t bit)
{
    uint64_t word = bit / WORD, piece = word / PIECE_WORDS;
    if (piece >= PIECES)
        return NULL;
    if (!c->pieces[piece])
        c->pieces[piece] = raw_map(PIECE_WORDS * sizeof(uint64_t));
    return c->pieces[piece] ? c->pieces[piece] + word % PIECE_WORDS : NULL;
}

/* A mask of those bits of from..to that are in the word of `from`. */
static uint64_t mask_of(uint64_t from, uint64_t to)
{
    uint64_t last = from | (WORD - 1);
    uint64_t n = (to < last ? to : last) - from + 1;
    return (n == WORD ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << from % WORD;
}

static uint64_t first_bit(const void *address)
{
    return (uint64_t)(uintptr_t)address / UNIT;
}

static uint64_t last_bit(const void *address, uint64_t bytes)
{
    return ((uint64_t)(uintptr_t)address + bytes - (bytes != 0)) / UNIT;
}

enum cover_answer cover_take(struct cover *c, const void *address, uint64_t bytes)
{
    enum cover_answer answer = COVER_FREE;
    uint64_t last = last_bit(address, bytes);
    for (uint64_t bit = first_bit(address); bit <= last; bit = (bit | (WORD - 1)) + 1) {
        uint64_t mask = mask_of(bit, last), *word = word_of(c, bit);
        if (!word)
            return COVER_NO_MEMORY;
        if (*word & mask)
            answer = COVER_TAKEN;
        *word |= mask;
    }
    return answer;
}

/* Remove a block that is no longer live. */
static void cover_drop(struct cover *c, const void *address, uint64_t bytes)
{
    uint64_t last = last_bit(address, bytes), *word;
    for (uint64_t bit = first_bit(address); bit <= last; bit = (bit | (WORD - 1)) + 1)
        if ((word = word_of(c, bit)))
            *word &= ~mask_of(bit, last);
}

/* -- the audit -- */

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

uint64_t audit_alignment(uint32_t flags, uint64_t size)
{
    uint64_t most = flags & STEVE_ALIGNS_TO_8 ? 8 : STEVE_ALIGNMENT, align = 1;
    if (!(flags & STEVE_ALIGNS_TO_SIZE))
        return most;
    while (align < most && 2 * align <= size)
        align *= 2;
    return align;
}

/* Bytes of a block that a program may write to; 1 for an empty block. */
static uint64_t usable_size(const struct engine *e, const struct block *b)
{
    uint64_t size = b->size + !b->size, usable = e->driver->usable ? e->driver->usable(b->ref) : size;
    return usable > size ? usable : size;
}

/* Is the usable size possible? Otherwise sets the error text. */
static bool usable_rightly(const struct engine *e, const struct block *b, const void *address)
{
    size_t usable = e->driver->usable ? e->driver->usable(b->ref) : b->size;
    bool inside = e->driver->confinement == STEVE_NOT_CONFINED || region_holds(address, usable);
    if (usable >= b->size && inside)
        return true;
    add_text(e->shared, "block of %" PRIu64 " bytes at %p has %zu usable bytes, %s", b->size, address, usable,
             inside ? "fewer than requested" : "which reach beyond the heap");
    return false;
}

/* A live block of `list` that overlaps b; NULL if there is none. */
static const struct block *find_overlapped(const struct engine *e, const struct block *list, uint64_t count,
                                           const struct block *b, const char *address)
{
    const char *end = address + usable_size(e, b);
    for (uint64_t i = 0; i < count; i++) {
        const struct block *other = &list[i];
        const char *at = other->ref && other != b ? engine_address(e, other) : NULL;
        if (at && at < end && address < at + usable_size(e, other))
            return other;
    }
    return NULL;
}

/* The text of an overlap, with the usable sizes if only these overlap. */
static void tell_overlap(const struct engine *e, const struct block *b, const char *address,
                         const struct block *other)
{
    const char *at = engine_address(e, other);
    add_text(e->shared, "block of %" PRIu64 " bytes at %p overlaps the live block of %" PRIu64 " bytes at %p",
             b->size, (const void *)address, other->size, (const void *)at);
    if (at >= address + b->size + !b->size || address >= at + other->size + !other->size)
        add_text(e->shared, " by its usable size (%" PRIu64 " and %" PRIu64 " bytes)", usable_size(e, b),
                 usable_size(e, other));
}

/* Handle a block that shares a unit of the cover with a live block. For blocks that are not aligned to it, that need
 * not be an overlap. If it is one, the error text in shared memory is set and false returned. */
static bool shares_rightly(const struct engine *e, const struct block *b, const void *address)
{
    const struct block *other =
        find_overlapped(e, e->blocks, e->shared->job.facts.slots, b, (const char *)address);
    if (!other)
        other = find_overlapped(e, e->kept, e->kept_count, b, (const char *)address);
    if (other)
        tell_overlap(e, b, address, other);
    return !other;
}

static void note_alignment(struct audit *a, const struct block *b, const void *address)
{
    uint64_t wanted = audit_alignment(a->e->driver->flags, b->size);
    if ((uintptr_t)address % wanted == 0 || a->misaligned++)
        return;
    a->first_op = a->e->ops - 1;
    a->first_size = b->size;
    a->first_address = address;
}

/* Add the usable bytes of a block to the cover; false, with the error text set, if they overlap another. */
static bool covers_rightly(struct audit *a, const struct block *b, const void *address)
{
    enum cover_answer answer = cover_take(&a->cover, address, usable_size(a->e, b));
    if (answer == COVER_NO_MEMORY)
        add_text(a->e->shared, "out of memory for looking for overlaps (--check)");
    return answer == COVER_FREE || (answer == COVER_TAKEN && shares_rightly(a->e, b, address));
}

bool audit_made(struct audit *a, const struct block *b, void *address)
{
    struct shared *shared = a->e->shared;
    if (!shared->job.check || !address)
        return true;
    note_alignment(a, b, address);
    if (usable_rightly(a->e, b, address) && (!a->covers || covers_rightly(a, b, address))) {
        guard_fill(b, address, b->size, usable_size(a->e, b));
        return true;
    }
    shared->op_index = a->e->ops - 1; /* the operation that was just done, not the next */
    return false;
}

bool audit_gone(struct audit *a, const struct block *b, void *address)
{
    if (!a->e->shared->job.check || !address)
        return true;
    if (!usable_rightly(a->e, b, address))
        return false;
    if (a->covers)
        cover_drop(&a->cover, address, usable_size(a->e, b));
    return guard_kept(a->e->shared, b, address, usable_size(a->e, b));
}

static bool all_kept(const struct engine *e, const struct block *list, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, e->shared->heartbeat++)
        if (list[i].ref &&
            !guard_kept(e->shared, &list[i], engine_address(e, &list[i]), usable_size(e, &list[i])))
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
             "%s%" PRIu64 " blocks not aligned to %" PRIu64 " bytes, the first of %" PRIu64
             " bytes at %p (operation %" PRIu64 ")",
             b->text[0] ? "; " : "", a->misaligned, audit_alignment(a->e->driver->flags, a->first_size),
             a->first_size, a->first_address, a->first_op);
    b->status = STATUS_FAILED;
}
