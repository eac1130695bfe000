/* lines.c - what each line of the program does with blocks; see lines.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lines/lines.h"

#include "memtrace/base/array.h"

#define HEAD 3 /* words of a piece before its lines */

bool linework_init(struct linework *w, struct luacode *code)
{
    memset(w, 0, sizeof *w);
    w->code = code;
    return handle_map_init(&w->pairs) && linepages_init(&w->pages);
}

void linework_free(struct linework *w)
{
    handle_map_free(&w->pairs);
    free(w->rows);
    free(w->made);
    free(w->blocks);
    free(w->next);
    free(w->key);
    free(w->segments);
    free(w->touches);
    free(w->sums);
    free(w->pieces);
    linepages_free(&w->pages);
}

bool linework_learn(struct linework *w, const struct linework_map *map)
{
    w->map = *map;
    w->memo_end = map->n_lines >> LINEWORK_LINE_BITS ? 0 : UINT64_MAX >> LINEWORK_LINE_BITS;
    return array_grow(&w->rows, &w->rows_room, map->n_lines, sizeof *w->rows) &&
           array_grow(&w->made, &w->made_room, map->n_lines, sizeof *w->made);
}

/* ---- blocks -------------------------------------------------------------------------------- */

void linework_count_made(struct linework *w, uint32_t stack, uint32_t heap, uint8_t type, uint64_t blocks,
                         uint64_t bytes)
{
    struct linework_made *made = &w->made[linework_line(w->map.stacks, w->map.n_stacks, stack)];
    uint8_t of_heap = heap < w->code->n_heaps ? w->code->kinds[heap] : MT_HEAP_LUA;
    unsigned kind = of_heap == MT_HEAP_LUA ? type : MT_TYPES + of_heap;

    made->blocks[kind] += blocks;
    made->bytes[kind] += bytes;
}

/* Where the memo has a pair of a block and one of its many lines. */
static uint64_t *recalled(struct linework *w, uint64_t key)
{
    return &w->many_memo[(key >> 32 ^ (key & UINT32_MAX) * 0x9E3779B1u) % LINEWORK_MANY_MEMO];
}

void linework_forget_many(struct linework *w, uint32_t slot)
{
    struct linework_block *b = &w->blocks[slot];

    while (b->many) {
        uint32_t i = b->many - 1;

        b->many = w->next[i];
        if (*recalled(w, w->key[i]) == w->key[i] + 1)
            *recalled(w, w->key[i]) = 0;
        handle_map_remove(&w->pairs, w->key[i]);
    }
}

/* One of the many lines of a block: known, or to be kept; *is_new. False: out of memory. */
static bool keep_pair(struct linework *w, struct linework_block *b, uint64_t key, bool *is_new)
{
    uint32_t i = handle_map_find(&w->pairs, key);

    *is_new = i == HANDLE_MAP_NONE;
    if (!*is_new)
        return true;
    i = handle_map_add(&w->pairs, key);
    if (i == HANDLE_MAP_NONE || !array_grow(&w->next, &w->next_room, (size_t)i + 1, sizeof *w->next) ||
        !array_grow(&w->key, &w->key_room, (size_t)i + 1, sizeof *w->key))
        return false;
    w->next[i] = b->many;
    w->key[i] = key;
    b->many = i + 1;
    return true;
}

bool linework_met_many(struct linework *w, struct linework_block *b, uint32_t line, uint64_t *blocks)
{
    uint64_t key = (uint64_t)(b - w->blocks) << 32 | line, *met = recalled(w, key);
    bool is_new = false;

    if (*met != key + 1 && !keep_pair(w, b, key, &is_new))
        return false;
    *met = key + 1;
    b->few[LINEWORK_FEW] = line;
    *blocks += is_new;
    return true;
}

/* ---- cache lines --------------------------------------------------------------------------- */

bool linework_catch_up(struct linework *w)
{
    struct linepages_fresh fresh[LINEWORK_LATE];
    size_t n = linepages_touch(&w->pages, w->late, w->n_late, fresh);

    w->n_late = 0;
    for (size_t i = 0; n != SIZE_MAX && i < n; i++)
        w->rows[fresh[i].line].cache_lines += fresh[i].n;
    return n != SIZE_MAX;
}

bool linework_met_memory(struct linework *w, uint64_t addr, uint64_t size, uint32_t line)
{
    uint64_t last = size - 1 > UINT64_MAX - addr ? UINT64_MAX : addr + size - 1;

    for (uint64_t page = addr >> 12; page <= last >> 12; page++) {
        unsigned from = page == addr >> 12 ? addr >> 6 & 63 : 0,
                 to = page == last >> 12 ? last >> 6 & 63 : 63;
        if (!linework_met_page(w, page, (UINT64_MAX << from) & (UINT64_MAX >> (63 - to)), line))
            return false;
    }
    return true;
}

/* ---- a shard ------------------------------------------------------------------------------- */

bool lines_shard_enter(struct linework *w, uint32_t slot, uint32_t stack)
{
    if (!linework_begin(w, slot, stack))
        return false;
    w->blocks[slot].earlier = true;
    return true;
}

/* A line touched a block of a piece; the whole counts the pair. */
static void piece_add_line(struct linework *w, uint32_t line)
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

static bool piece_add(struct linework *w, uint32_t slot, bool ended)
{
    const struct linework_block *b = &w->blocks[slot];
    size_t n = count_lines(w, b);

    if (!array_grow(&w->pieces, &w->pieces_room, w->n_pieces + HEAD + n, sizeof *w->pieces))
        return false;
    w->pieces[w->n_pieces++] = slot;
    w->pieces[w->n_pieces++] = (b->earlier ? LINEPARTS_EARLIER : 0) | (ended ? LINEPARTS_ENDED : 0);
    w->pieces[w->n_pieces++] = (uint32_t)n;
    for (uint32_t i = 0; i < b->n; i++)
        piece_add_line(w, b->few[i]);
    for (uint32_t many = b->many; many; many = w->next[many - 1])
        piece_add_line(w, (uint32_t)w->key[many - 1]);
    linework_forget(w, slot);
    return true;
}

bool lines_shard_end(struct linework *w, uint32_t slot)
{
    return piece_add(w, slot, true);
}

bool lines_shard_finish(struct linework *w)
{
    for (uint32_t slot = 0; slot < w->blocks_room; slot++)
        if (w->blocks[slot].own && w->blocks[slot].n && !piece_add(w, slot, false))
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
