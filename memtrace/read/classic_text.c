/* classic_text.c - reads classic text: `>>> OP ADDRESS SIZE`, decimal, OP one of N F L S M.
 *
 * The lines may be mixed with other output. A line is an event if it begins with `>>> `, has exactly four fields, the
 * second is a single letter, and the last two begin with digits. Other lines are ignored. An event with an error in
 * the rest of its line is an error. Addresses have 64 bits.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/read/reader_impl.h"

#include <string.h>

struct text_line {
    char letter;
    uint64_t addr, size;
};

enum line_result { LINE_OTHER, LINE_EVENT, LINE_WRONG };

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static const uint8_t *skip_spaces(const uint8_t *p)
{
    while (is_space(*p))
        p++;
    return p;
}

/* Read a number; false if it does not fit 64 bits or something but space follows. */
static bool read_number(const uint8_t **at, uint64_t *v)
{
    const uint8_t *p = *at;
    uint64_t n = 0;
    bool fits = true;
    for (; is_digit(*p); p++) {
        unsigned digit = *p - '0';
        fits &= n < UINT64_MAX / 10 || (n == UINT64_MAX / 10 && digit <= UINT64_MAX % 10);
        n = n * 10 + digit;
    }
    *v = n;
    *at = p;
    return fits && (is_space(*p) || *p == '\n');
}

/* Is there a fifth field? */
static bool more_fields(const uint8_t *p)
{
    while (!is_space(*p) && *p != '\n')
        p++;
    return *skip_spaces(p) != '\n';
}

/* Parse a line, which ends in '\n'. */
static enum line_result parse_line(const uint8_t *p, struct text_line *l)
{
    if (p[0] != '>' || p[1] != '>' || p[2] != '>' || p[3] != ' ')
        return LINE_OTHER;
    p = skip_spaces(p + 4);
    l->letter = (char)*p;
    if (*p == '\n' || !is_space(p[1]))
        return LINE_OTHER;
    p = skip_spaces(p + 1);
    if (!is_digit(*p))
        return LINE_OTHER;
    bool good = read_number(&p, &l->addr);
    while (!is_space(*p) && *p != '\n')
        p++;
    p = skip_spaces(p);
    if (!is_digit(*p))
        return LINE_OTHER;
    good &= read_number(&p, &l->size);
    if (more_fields(p))
        return LINE_OTHER;
    good &= l->letter != 'N' || span_fits(l->addr, l->size);
    return good && l->letter && strchr("NFLSM", l->letter) ? LINE_EVENT : LINE_WRONG;
}

/* -- events -- */

static struct mt_event *begin_event(struct mt_reader *r, size_t *n, enum mt_kind kind)
{
    struct mt_event *ev = &r->events[(*n)++];
    *ev = (struct mt_event){.kind = kind, .thread = 1};
    r->stats.totals.events[kind]++;
    return ev;
}

static bool overlaps(const struct mt_reader *r)
{
    return r->flags & MT_OPEN_OVERLAPS;
}

static void set_block(struct mt_event *ev, const struct mt_reader *r, uint32_t slot)
{
    const struct block *b = overlaps(r) ? &r->text.overlay.blocks[slot] : &r->text.map.blocks[slot];
    ev->addr = b->base;
    ev->size = b->size;
    ev->handle = b->handle;
    ev->heap = b->heap;
    ev->slot = slot;
}

static void free_block(struct mt_reader *r, size_t *n, uint32_t slot, bool implied)
{
    struct mt_event *ev = begin_event(r, n, MT_FREE);
    set_block(ev, r, slot);
    ev->implied = implied;
    r->stats.implied_free += implied;
    if (overlaps(r))
        overlay_remove(&r->text.overlay, slot);
    else
        blockmap_remove(&r->text.map, slot);
}

/* Returns false if there is no room for all events; the line is then processed again. */
static bool new_block(struct mt_reader *r, size_t *n, const struct text_line *l)
{
    uint32_t old, slot;
    while (!overlaps(r) && (old = blockmap_overlap(&r->text.map, l->addr, l->size, NO_SLOT)) != NO_SLOT) {
        free_block(r, n, old, true);
        if (*n == READER_BATCH)
            return false;
    }
    slot = overlaps(r) ? overlay_add(&r->text.overlay, l->addr, l->size, 0, r->stats.handles)
                       : blockmap_add(&r->text.map, l->addr, l->size, 0, r->stats.handles);
    if (slot == NO_SLOT) {
        mt_fail_memory(&r->err);
        return true;
    }
    r->stats.handles++;
    set_block(begin_event(r, n, MT_NEW), r, slot);
    return true;
}

static void free_address(struct mt_reader *r, size_t *n, uint64_t addr)
{
    uint32_t slot = overlaps(r) ? overlay_at(&r->text.overlay, addr) : blockmap_at(&r->text.map, addr);
    if (slot != NO_SLOT) {
        free_block(r, n, slot, false);
        return;
    }
    struct mt_event *ev = begin_event(r, n, MT_BADFREE);
    ev->addr = addr;
    ev->handle = MT_NO_HANDLE;
    r->stats.unmatched_free++;
}

static void access_block(struct mt_reader *r, size_t *n, const struct text_line *l)
{
    uint32_t slot =
        overlaps(r) ? overlay_find(&r->text.overlay, l->addr) : blockmap_find(&r->text.map, l->addr);
    if (slot == NO_SLOT) {
        r->stats.unmatched_access++;
        return;
    }
    enum mt_kind kind = l->letter == 'L' ? MT_LOAD : l->letter == 'S' ? MT_STORE : MT_MODIFY;
    struct mt_event *ev = begin_event(r, n, kind);
    set_block(ev, r, slot);
    ev->offset = l->addr - ev->addr;
    ev->beyond = l->size > ev->size - ev->offset;
    ev->addr = l->addr;
    ev->size = l->size;
}

static bool apply_line(struct mt_reader *r, size_t *n, const struct text_line *l)
{
    if (l->letter == 'N')
        return new_block(r, n, l);
    if (l->letter == 'F')
        free_address(r, n, l->addr);
    else
        access_block(r, n, l);
    return true;
}

static void wrong_line(struct mt_reader *r, const char *what)
{
    if (r->flags & MT_OPEN_SALVAGE)
        reader_note(r, r->text.lines.number, what);
    else
        mt_fail(&r->err, MT_E_CORRUPT, r->text.lines.number,
                "line %llu: %s; --salvage passes over such lines", (unsigned long long)r->text.lines.number,
                what);
}

/* -- lines -- */

/* Process the line at p; false if it has to be processed again when there is room. */
static bool take_line(struct mt_reader *r, size_t *n, const uint8_t *p)
{
    struct text_line l;
    enum line_result result = r->text.lines.in_long ? LINE_OTHER : parse_line(p, &l);
    if (result == LINE_EVENT && !apply_line(r, n, &l))
        return false;
    if (result == LINE_WRONG)
        wrong_line(
            r, "expected `>>> OP ADDRESS SIZE` with OP one of N F L S M, decimal numbers, all in 64 bits");
    r->text.found += result == LINE_EVENT;
    return true;
}

static int end_of_text(struct mt_reader *r)
{
    if (r->in.err.code != MT_E_NONE) {
        r->err = r->in.err;
        return MT_ERROR;
    }
    if (r->text.found == 0 && !(r->flags & MT_OPEN_TEXT))
        return mt_fail(&r->err, MT_E_FORMAT, 0, "is not a memtrace: neither .ljt nor text with `>>> ` lines");
    return MT_END;
}

int text_next(struct mt_reader *r, size_t *n)
{
    struct lines *lines = &r->text.lines;
    const uint8_t *line;
    enum lines_found found;
    *n = 0;
    while (*n < READER_BATCH && r->err.code == MT_E_NONE &&
           (found = lines_next(lines, &r->in, *n == 0, &line)) != LINES_NONE) {
        if (found == LINES_WHOLE && !take_line(r, n, line))
            break;
        if (found == LINES_LONG && !lines->in_long && memcmp(line, ">>> ", 4) == 0)
            wrong_line(r, "is far too long for a trace line");
        lines_pass(lines, &r->in);
    }
    r->stats.live_slots = overlaps(r) ? r->text.overlay.live : r->text.map.live;
    if (*n)
        return MT_MORE;
    return r->err.code == MT_E_NONE ? end_of_text(r) : MT_ERROR;
}
