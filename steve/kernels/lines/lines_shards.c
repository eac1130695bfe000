/* lines_shards.c - what lines do with blocks in parts of a trace; see lines_shards.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lines/lines_shards.h"

#include "memtrace/base/array.h"

#define HEAD 3 /* words of a piece before its lines */

/* ---- a part -------------------------------------------------------------------------------- */

bool lines_shard_enter(struct linework *w, uint32_t slot, uint32_t stack)
{
    if (!linework_begin(w, slot, stack))
        return false;
    w->blocks[slot].earlier = true;
    return true;
}

/* A line touched a block of a piece; the whole counts the pair. */
static void put(struct linework *w, uint32_t line)
{
    w->pieces[w->n_pieces++] = line;
    w->rows[line].blocks--;
}

static size_t count_lines(const struct linework *w, const struct linework_block *b)
{
    size_t n = b->n;

    for (uint32_t many = b->many; many; many = w->next[many - 1])
        n++;
    return n;
}

static bool put_piece(struct linework *w, uint32_t slot, bool ended)
{
    const struct linework_block *b = &w->blocks[slot];
    size_t n = count_lines(w, b);

    if (!array_grow(&w->pieces, &w->pieces_room, w->n_pieces + HEAD + n, sizeof *w->pieces))
        return false;
    w->pieces[w->n_pieces++] = slot;
    w->pieces[w->n_pieces++] = (b->earlier ? LINEPARTS_EARLIER : 0) | (ended ? LINEPARTS_ENDED : 0);
    w->pieces[w->n_pieces++] = (uint32_t)n;
    for (uint32_t i = 0; i < b->n; i++)
        put(w, b->few[i]);
    for (uint32_t many = b->many; many; many = w->next[many - 1])
        put(w, (uint32_t)w->key[many - 1]);
    linework_forget(w, slot);
    return true;
}

bool lines_shard_end(struct linework *w, uint32_t slot)
{
    return put_piece(w, slot, true);
}

bool lines_shard_finish(struct linework *w)
{
    for (uint32_t slot = 0; slot < w->blocks_room; slot++)
        if (w->blocks[slot].own && w->blocks[slot].n && !put_piece(w, slot, false))
            return false;
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Have what is known of a block: nothing, if it is not of an earlier part. */
static bool reach(struct linework *whole, uint32_t slot, bool earlier)
{
    if (earlier && slot < whole->blocks_room && whole->blocks[slot].own)
        return true;
    linework_forget(whole, slot);
    return linework_begin(whole, slot, 0);
}

static bool add_piece(struct linework *whole, const uint32_t *head, const uint32_t *lines)
{
    if (!reach(whole, head[0], head[1] & LINEPARTS_EARLIER))
        return false;
    for (uint32_t i = 0; i < head[2]; i++)
        if (lines[i] < whole->map.n_lines &&
            !linework_met_block(whole, &whole->blocks[head[0]], lines[i], &whole->rows[lines[i]].blocks))
            return false;
    if (head[1] & LINEPARTS_ENDED)
        linework_forget(whole, head[0]);
    return true;
}

bool linework_merge(struct linework *whole, const uint32_t *pieces, size_t n)
{
    size_t at = 0;

    while (n - at >= HEAD && pieces[at + 2] <= n - at - HEAD) {
        if (!add_piece(whole, &pieces[at], &pieces[at + HEAD]))
            return false;
        at += HEAD + pieces[at + 2];
    }
    return true;
}

bool linework_merge_pages(struct linework *whole, const struct linepage *pages, size_t n)
{
    for (const struct linepage *p = pages; p < pages + n; p++)
        if (p->line < whole->map.n_lines && !linework_met_page(whole, p->page, p->touched, p->line))
            return false;
    return true;
}
