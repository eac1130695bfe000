/* heaptrack.c - heaptrack's lines of allocations and frees; see heaptrack.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/heaptrack.h"

#include "memtrace/base/array.h"

#define LONGEST 64 /* a line, or the two of a new kind */

bool heaptrack_init(struct heaptrack *h)
{
    memset(h, 0, sizeof *h);
    h->kinds_mask = 1023;
    h->kinds = calloc(h->kinds_mask + 1, sizeof *h->kinds);
    return h->kinds && heaptrack_number(h, 0, 0);
}

void heaptrack_free(struct heaptrack *h)
{
    free(h->live);
    free(h->kinds);
    free(h->numbers);
    free(h->text);
}

bool heaptrack_number(struct heaptrack *h, uint32_t stack, uint32_t number)
{
    if (!array_grow(&h->numbers, &h->numbers_room, (size_t)stack + 1, sizeof *h->numbers))
        return false;
    h->numbers[stack] = number + 1;
    return true;
}

static bool has_number(const struct heaptrack *h, uint32_t stack)
{
    return stack < h->numbers_room && h->numbers[stack];
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool reserve_line(struct heaptrack *h)
{
    return array_grow(&h->text, &h->text_room, h->n_text + LONGEST, 1);
}

/* A blank and a number. */
static void put_number(struct heaptrack *h, uint64_t value)
{
    char digits[16], *first = digits + sizeof digits;

    do
        *--first = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    h->text[h->n_text++] = ' ';
    memcpy(h->text + h->n_text, first, (size_t)(digits + sizeof digits - first));
    h->n_text += (size_t)(digits + sizeof digits - first);
}

static void put_line(struct heaptrack *h, char letter, uint64_t value)
{
    h->text[h->n_text++] = letter;
    put_number(h, value);
    h->text[h->n_text++] = '\n';
}

bool heaptrack_time(struct heaptrack *h, uint64_t milliseconds)
{
    if (milliseconds <= h->milliseconds)
        return true;
    if (!reserve_line(h))
        return false;
    put_line(h, 'c', milliseconds);
    h->milliseconds = milliseconds;
    return true;
}

/* ---- kinds of allocation --------------------------------------------------------------------- */

/* Where a kind is in the table, or belongs. */
static struct heaptrack_kind *find(const struct heaptrack *h, uint64_t size, uint32_t stack)
{
    uint64_t hash = (size ^ (uint64_t)stack << 40 ^ stack) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(hash >> 32) & h->kinds_mask;

    while (h->kinds[i].number && (h->kinds[i].size != size || h->kinds[i].stack != stack))
        i = (i + 1) & h->kinds_mask;
    return &h->kinds[i];
}

/* Room for one more kind. */
static bool reserve_kind(struct heaptrack *h)
{
    struct heaptrack_kind *old = h->kinds;
    size_t n = h->kinds_mask + 1;

    if (2 * (h->n_kinds + 1) <= n)
        return true;
    h->kinds = calloc(2 * n, sizeof *h->kinds);
    if (!h->kinds) {
        h->kinds = old;
        return false;
    }
    h->kinds_mask = 2 * n - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].number)
            *find(h, old[i].size, old[i].stack) = old[i];
    free(old);
    return true;
}

/* The number of a kind plus 1, 0 when out of memory; of a new one a line is written. */
static uint32_t kind_of(struct heaptrack *h, uint64_t size, uint32_t stack)
{
    struct heaptrack_kind *kind;

    if (!reserve_kind(h))
        return 0;
    kind = find(h, size, stack);
    if (kind->number)
        return kind->number;
    *kind = (struct heaptrack_kind){size, stack, (uint32_t)++h->n_kinds};
    h->text[h->n_text++] = 'a';
    put_number(h, size);
    put_number(h, h->numbers[stack] - 1);
    h->text[h->n_text++] = '\n';
    return kind->number;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool give(struct heaptrack *h, uint32_t slot)
{
    if (slot >= h->live_room || h->live[slot] == 0)
        return true;
    if (!reserve_line(h))
        return false;
    put_line(h, '-', h->live[slot] - 1);
    h->live[slot] = 0;
    return true;
}

static bool event_feed(struct heaptrack *h, const struct mt_event *e)
{
    uint32_t kind;

    if (!reserve_line(h) || !array_grow(&h->live, &h->live_room, (size_t)e->slot + 1, sizeof *h->live))
        return false;
    kind = kind_of(h, e->size, e->ref);
    if (kind == 0)
        return false;
    h->live[e->slot] = kind;
    put_line(h, '+', kind - 1);
    return true;
}

size_t heaptrack_feed(struct heaptrack *h, const struct mt_event *events, size_t n, uint64_t milliseconds)
{
    for (size_t i = 0; i < n; i++) {
        const struct mt_event *e = &events[i];

        if (e->kind > MT_RESIZE)
            continue;
        if (!h->begun && !(heaptrack_time(h, milliseconds) && (e->kind == MT_NEW || give(h, e->slot))))
            return SIZE_MAX;
        h->begun = e->kind != MT_FREE && !has_number(h, e->ref);
        if (h->begun)
            return i;
        if (e->kind != MT_FREE && !event_feed(h, e))
            return SIZE_MAX;
    }
    return n;
}
