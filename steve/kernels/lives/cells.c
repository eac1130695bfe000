/* cells.c - what happened to the blocks of each group in each bin; see cells.h.
 *
 * Accesses are summed up in the block until the bin ends, because finding a cell takes longer than an access.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/cells.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/batch_walk.h"
#include "steve/kernels/base/live_blocks.h"
#include "steve/kernels/base/prefetch.h"

#define AHEAD_INDEX 8
#define AHEAD_CELL 4

void cells_init(struct cells *c, size_t most)
{
    *c = (struct cells){.width = 1, .next = 1, .most = most, .epochs = 1, .bins[0].epoch = 1};
}

void cells_free(struct cells *c)
{
    free(c->cells);
    free(c->of_cells.at);
    free(c->of_groups.at);
    free(c->groups);
    free(c->latest);
    free(c->blocks);
    free(c->others);
    free(c->survivors);
    words_free(&c->words);
}

/* ---- hashes -------------------------------------------------------------------------------- */

static size_t hash_of(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;

    return (size_t)(h ^ h >> 32);
}

static size_t hash_of_cell(uint32_t group, uint16_t made, uint16_t bin)
{
    return hash_of(group, (uint64_t)made << 16 | bin);
}

static size_t hash_of_group(const struct cells_group *g)
{
    return hash_of((uint64_t)g->stack << 32 | g->heap, (uint64_t)g->thread << 16 | g->size << 8 | g->type);
}

/* The element with a hash that is not yet in use. */
static uint32_t *free_place(struct cells_index *index, size_t hash)
{
    size_t i = hash & (index->room - 1);

    while (index->at[i])
        i = (i + 1) & (index->room - 1);
    return &index->at[i];
}

static bool index_clear(struct cells_index *index, size_t room)
{
    free(index->at);
    index->at = calloc(room, sizeof *index->at);
    index->room = index->at ? room : 0;
    return index->at != NULL;
}

/* Make the index at least twice as large as n + 1 elements. *again: it was made anew, and is empty. */
static bool index_reserve(struct cells_index *index, size_t n, bool *again)
{
    size_t room = index->room ? index->room : 1024;

    while (room < 2 * (n + 1))
        room *= 2;
    *again = room != index->room;
    return !*again || index_clear(index, room);
}

static bool reserve_cells(struct cells *c)
{
    bool again;

    if (!array_reserve(&c->cells, &c->cells_room, c->n_cells + 1, sizeof *c->cells) ||
        !index_reserve(&c->of_cells, c->n_cells, &again))
        return false;
    for (size_t i = 0; again && i < c->n_cells; i++) {
        const struct cell *cell = &c->cells[i];
        *free_place(&c->of_cells, hash_of_cell(cell->group, cell->made, cell->bin)) = (uint32_t)i + 1;
    }
    return true;
}

static bool reserve_groups(struct cells *c)
{
    bool again;

    if (!array_reserve(&c->groups, &c->groups_room, c->n_groups + 1, sizeof *c->groups) ||
        !array_grow(&c->latest, &c->latest_room, c->n_groups + 1, sizeof *c->latest) ||
        !index_reserve(&c->of_groups, c->n_groups, &again))
        return false;
    for (size_t i = 0; again && i < c->n_groups; i++)
        *free_place(&c->of_groups, hash_of_group(&c->groups[i])) = (uint32_t)i + 1;
    return true;
}

/* ---- cells and groups ---------------------------------------------------------------------- */

/* A cell, which is made if there is none. NULL when out of memory. Valid until the next call. */
static struct cell *find_cell(struct cells *c, uint32_t group, uint16_t made, uint16_t bin)
{
    if (!reserve_cells(c))
        return NULL;
    size_t mask = c->of_cells.room - 1, i = hash_of_cell(group, made, bin) & mask;

    for (; c->of_cells.at[i]; i = (i + 1) & mask) {
        struct cell *cell = &c->cells[c->of_cells.at[i] - 1];
        if (cell->group == group && cell->made == made && cell->bin == bin)
            return cell;
    }
    c->cells[c->n_cells] = (struct cell){.group = group, .made = made, .bin = bin};
    c->of_cells.at[i] = (uint32_t)++c->n_cells;
    return &c->cells[c->n_cells - 1];
}

/* The cell of what happens now to a block; of blocks that were made in the present bin it is known by group. */
static struct cell *cell_now(struct cells *c, uint32_t group, uint16_t made)
{
    struct cell *cell;

    if (made != c->now)
        return find_cell(c, group, made, c->now);
    if (c->latest[group]) {
        cell = &c->cells[c->latest[group] - 1];
        if (cell->bin == c->now && cell->made == c->now)
            return cell;
    }
    cell = find_cell(c, group, made, c->now);
    if (cell)
        c->latest[group] = (uint32_t)(cell - c->cells) + 1;
    return cell;
}

/* The number of a group, which is made if there is none. False when out of memory. */
static bool find_group(struct cells *c, const struct cells_group *wanted, uint32_t *number)
{
    if (!reserve_groups(c))
        return false;
    size_t mask = c->of_groups.room - 1, i = hash_of_group(wanted) & mask;

    for (; c->of_groups.at[i]; i = (i + 1) & mask) {
        const struct cells_group *g = &c->groups[c->of_groups.at[i] - 1];
        *number = c->of_groups.at[i] - 1;
        if (g->stack == wanted->stack && g->heap == wanted->heap && g->thread == wanted->thread &&
            g->type == wanted->type && g->size == wanted->size)
            return true;
    }
    *number = (uint32_t)c->n_groups;
    c->latest[c->n_groups] = 0;
    c->groups[c->n_groups++] = *wanted;
    c->of_groups.at[i] = *number + 1;
    return true;
}

/* ---- what was live at the maximum of a bin -------------------------------------------------- */

static int64_t net_bytes(const struct cells_sums *sums)
{
    return (int64_t)(sums->allocated - sums->freed);
}

static int64_t net_blocks(const struct cells_sums *sums)
{
    return (int64_t)(sums->news - sums->frees);
}

/* What came after the maximum of its bin is more by this. */
static void add_after(const struct cells *c, struct cell *cell, int64_t bytes, int64_t blocks)
{
    const uint64_t epoch = c->bins[cell->bin].epoch;

    if (cell->epoch != epoch)
        cell->after_bytes = cell->after_blocks = 0;
    cell->epoch = epoch;
    cell->after_bytes += bytes;
    cell->after_blocks += blocks;
}

/* What came after the maximum of its bin is part of the cell: forget it if there was another maximum since. */
static void drop_old_after(const struct cells *c, struct cell *cell)
{
    if (cell->epoch != c->bins[cell->bin].epoch)
        cell->after_bytes = cell->after_blocks = 0;
}

/* Add to a cell what happened while the maximum of its bin was that of an epoch. */
static void add_to_cell(const struct cells *c, struct cell *cell, const struct cells_sums *what,
                        uint64_t epoch)
{
    cells_sums_merge(&cell->sums, what);
    if (epoch == c->bins[cell->bin].epoch)
        add_after(c, cell, net_bytes(what), net_blocks(what));
}

/* The live bytes have changed, which was added to a cell before. */
static inline void change_live(struct cells *c, int64_t bytes)
{
    struct cells_bin *bin = &c->bins[c->now];

    c->live += (uint64_t)bytes;
    if (c->live > bin->most)
        *bin = (struct cells_bin){c->live, ++c->epochs, c->operations + 1};
}

/* How bins of a width become bins of 2^shift times the width: of each new one, the number of the old one that has its
 * maximum, the first of several. */
struct merger {
    const struct cells_bin *old;
    unsigned shift;
    uint16_t leading[CELLS_BINS];
};

static void merger_init(struct merger *m, const struct cells_bin *old, unsigned shift)
{
    *m = (struct merger){.old = old, .shift = shift};
    for (unsigned i = 0; i < CELLS_BINS; i++) {
        uint16_t *leading = &m->leading[i >> shift];
        if ((i & ((1U << shift) - 1)) == 0 || !old[*leading].epoch || old[i].most > old[*leading].most)
            *leading = (uint16_t)i;
    }
}

/* Is what happened in an old bin, while its maximum was that of an epoch, after the maximum of the new bin? */
static bool is_after(const struct merger *m, uint16_t bin, uint64_t epoch)
{
    const uint16_t leading = m->leading[bin >> m->shift];

    return bin == leading ? epoch == m->old[bin].epoch : bin > leading;
}

/* What of the cell of an old bin came after the maximum of the new one. */
static void after_in(const struct merger *m, const struct cell *cell, int64_t *bytes, int64_t *blocks)
{
    const uint16_t leading = m->leading[cell->bin >> m->shift];
    const bool kept = cell->bin == leading && cell->epoch == m->old[cell->bin].epoch;

    *bytes = cell->bin > leading ? net_bytes(&cell->sums) : kept ? cell->after_bytes : 0;
    *blocks = cell->bin > leading ? net_blocks(&cell->sums) : kept ? cell->after_blocks : 0;
}

/* ---- wider bins ---------------------------------------------------------------------------- */

/* Merge the cells of each two bins. m: their bins, which are merged already. */
static bool merge_cells(struct cells *c, const struct merger *m)
{
    size_t n = c->n_cells;

    if (c->of_cells.room && !index_clear(&c->of_cells, c->of_cells.room))
        return false;
    c->n_cells = 0;
    for (size_t i = 0; i < n; i++) {
        const struct cell old = c->cells[i]; /* the merged cells are never more than those read */
        struct cell *cell = find_cell(c, old.group, old.made / 2, old.bin / 2);
        int64_t bytes, blocks;

        if (!cell)
            return false;
        cells_sums_merge(&cell->sums, &old.sums);
        after_in(m, &old, &bytes, &blocks);
        add_after(c, cell, bytes, blocks);
    }
    return true;
}

static void begin_bin(struct cells *c)
{
    c->now = (uint16_t)(c->operations / c->width);
    c->next = (c->operations / c->width + 1) * c->width;
}

/* The epoch of a new bin for what happened in an old one: that of its maximum if it was after that, else none. */
static uint64_t merged_epoch(const struct cells *c, const struct merger *m, uint16_t bin, uint64_t epoch)
{
    return is_after(m, bin, epoch) ? c->bins[bin >> m->shift].epoch : 0;
}

static bool widen(struct cells *c)
{
    struct cells_bin old[CELLS_BINS];
    struct merger m;

    memcpy(old, c->bins, sizeof old);
    merger_init(&m, old, 1);
    for (unsigned i = 0; i < CELLS_BINS; i++)
        c->bins[i] = i < CELLS_BINS / 2 ? old[m.leading[i]] : (struct cells_bin){0};
    if (!merge_cells(c, &m))
        return false;
    for (size_t slot = 0; slot < c->blocks_room; slot++) {
        struct cells_block *b = &c->blocks[slot];
        b->epoch = merged_epoch(c, &m, b->made, b->epoch);
        b->made /= 2;
        b->bin /= 2;
    }
    for (size_t i = 0; i < c->n_others; i++) {
        c->others[i].epoch = merged_epoch(c, &m, c->others[i].bin, c->others[i].epoch);
        c->others[i].bin /= 2;
    }
    if (c->latest)
        memset(c->latest, 0, c->latest_room * sizeof *c->latest);
    c->width *= 2;
    begin_bin(c);
    return true;
}

/* Merge bins as long as there are too many cells. */
static bool bound_cells(struct cells *c)
{
    while (c->n_cells > c->most && c->now > 0)
        if (!widen(c))
            return false;
    return true;
}

/* An operation was counted with which a bin begins. */
static bool turn(struct cells *c)
{
    if (c->operations == CELLS_BINS * c->width && !widen(c))
        return false;
    begin_bin(c);
    c->bins[c->now] = (struct cells_bin){c->live, ++c->epochs, c->operations};
    return bound_cells(c);
}

static inline bool end_operation(struct cells *c)
{
    return ++c->operations != c->next || turn(c);
}

/* ---- blocks -------------------------------------------------------------------------------- */

static struct cells_other *put_other(struct cells *c, const struct cells_block *b, uint16_t bin)
{
    if (!array_reserve(&c->others, &c->others_room, c->n_others + 1, sizeof *c->others))
        return NULL;
    c->others[c->n_others] =
        (struct cells_other){.slot = (uint32_t)(b - c->blocks), .bin = bin, .epoch = c->bins[bin].epoch};
    return &c->others[c->n_others++];
}

/* Add what happened to a block in a bin, before any further maximum of it. False when out of memory. what: CELLS_... */
static bool add_to_block(struct cells *c, const struct cells_block *b, uint16_t bin, uint8_t what,
                         const struct cells_sums *sums)
{
    if (b->state == LIVE_HERE) {
        struct cell *cell =
            bin == c->now ? cell_now(c, b->group, b->made) : find_cell(c, b->group, b->made, bin);
        if (cell)
            add_to_cell(c, cell, sums, c->bins[bin].epoch);
        return cell != NULL;
    }
    struct cells_other *other = put_other(c, b, bin);
    if (!other)
        return false;
    other->what = what;
    other->sums = *sums;
    return true;
}

/* Add the accesses to a block to its cell. */
static bool settle(struct cells *c, struct cells_block *b)
{
    if (!(b->reads | b->writes))
        return true;
    if (!add_to_block(c, b, b->bin, 0,
                      &(struct cells_sums){.reads = b->count * b->reads,
                                           .writes = b->count * b->writes,
                                           .bytes_read = b->count * b->bytes_read,
                                           .bytes_written = b->count * b->bytes_written}))
        return false;
    b->reads = b->writes = b->bytes_read = b->bytes_written = 0;
    return true;
}

static struct cells_block *block_at(struct cells *c, uint32_t slot)
{
    return slot < c->blocks_room && c->blocks[slot].state != LIVE_NONE ? &c->blocks[slot] : NULL;
}

/* The bytes of a block that count as live. */
static uint64_t held(const struct cells_block *b)
{
    return b->container ? 0 : b->size;
}

/* What a New adds. */
static struct cells_sums sums_of_new(const struct cells_block *b)
{
    return (struct cells_sums){.news = b->count, .allocated = b->size, .freed = b->size - held(b)};
}

static bool on_free(struct cells *c, struct cells_block *b)
{
    if (!settle(c, b) ||
        !add_to_block(c, b, c->now, CELLS_ENDED, &(struct cells_sums){.frees = b->count, .freed = held(b)}))
        return false;
    change_live(c, -(int64_t)held(b));
    b->state = LIVE_NONE;
    return true;
}

/* The number of bits of a number. */
static uint8_t bits_of(uint64_t n)
{
    return n ? (uint8_t)(64 - __builtin_clzll(n)) : 0;
}

static bool on_new(struct cells *c, const struct mt_event *e)
{
    const struct cells_group group = {
        .stack = e->ref, .heap = e->heap, .thread = e->thread, .size = bits_of(e->size)};
    const struct live_block made = live_block_of(e);
    struct cells_block *b;
    struct cells_sums sums;
    struct cell *cell;
    uint32_t number;

    if (!array_grow(&c->blocks, &c->blocks_room, (size_t)e->slot + 1, sizeof *c->blocks))
        return false;
    b = &c->blocks[e->slot];
    if ((b->state != LIVE_NONE && !on_free(c, b)) || !find_group(c, &group, &number))
        return false;
    *b = (struct cells_block){.size = made.size,
                              .count = (uint32_t)made.blocks,
                              .group = number,
                              .made = c->now,
                              .bin = c->now,
                              .epoch = c->bins[c->now].epoch,
                              .state = LIVE_HERE,
                              .container = e->container};
    cell = cell_now(c, number, c->now);
    if (!cell)
        return false;
    sums = sums_of_new(b);
    add_to_cell(c, cell, &sums, b->epoch);
    change_live(c, (int64_t)held(b));
    return true;
}

static bool on_resize(struct cells *c, struct cells_block *b, uint64_t size)
{
    const struct cells_sums sums = {.allocated = b->count * size,
                                    .freed = b->container ? b->count * size : b->size};

    if (!add_to_block(c, b, c->now, CELLS_RESIZED, &sums))
        return false;
    change_live(c, net_bytes(&sums));
    b->size = sums.allocated;
    b->resized = true;
    return true;
}

/* The type of a block of this trace or shard became known. */
static bool retype(struct cells *c, struct cells_block *b, uint8_t type)
{
    const struct cells_sums sums = sums_of_new(b);
    struct cells_group group = c->groups[b->group];
    struct cell *from, *to;
    uint32_t number;

    if (b->resized || group.type == type)
        return true;
    group.type = type;
    if (!settle(c, b) || !find_group(c, &group, &number) ||
        !(from = find_cell(c, b->group, b->made, b->made)))
        return false;
    add_to_cell(c, from,
                &(struct cells_sums){.news = -sums.news, .allocated = -sums.allocated, .freed = -sums.freed},
                b->epoch);
    b->group = number;
    if (!(to = find_cell(c, number, b->made, b->made)))
        return false;
    add_to_cell(c, to, &sums, b->epoch);
    return true;
}

static bool on_type(struct cells *c, const struct mt_event *e)
{
    struct cells_block *b = block_at(c, e->slot);
    struct cells_other *other;

    if (!b)
        return true;
    if (b->state == LIVE_HERE)
        return retype(c, b, (uint8_t)e->ref);
    if (!settle(c, b) || !(other = put_other(c, b, c->now)))
        return false;
    other->what = CELLS_TYPED;
    other->type = (uint8_t)e->ref;
    return true;
}

/* ---- accesses ------------------------------------------------------------------------------ */

/* The block with which accesses in the present bin are counted. NULL when out of memory. */
static inline struct cells_block *accessed(struct cells *c, struct cells_block *b)
{
    if (b->bin != c->now) {
        if (!settle(c, b))
            return NULL;
        b->bin = c->now;
    }
    return b;
}

static bool on_access(struct cells *c, struct cells_block *b, unsigned kind, uint64_t size)
{
    if (!accessed(c, b))
        return false;
    b->reads += kind != MT_STORE;
    b->writes += kind != MT_LOAD;
    b->bytes_read += kind != MT_STORE ? size : 0;
    b->bytes_written += kind != MT_LOAD ? size : 0;
    return true;
}

static bool add_word(struct cells *c, struct cells_block *b, const struct access_sums *own)
{
    if (!accessed(c, b))
        return false;
    b->reads += own->counts[0] + own->counts[2];
    b->writes += own->counts[1] + own->counts[2];
    b->bytes_read += own->bytes[0] + own->bytes[2];
    b->bytes_written += own->bytes[1] + own->bytes[2];
    return true;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static bool on_operation(struct cells *c, const struct mt_event *e)
{
    struct cells_block *b;

    if (e->kind == MT_NEW)
        return on_new(c, e);
    b = block_at(c, e->slot);
    if (!b)
        return true;
    if (e->kind == MT_FREE)
        return on_free(c, b);
    return e->kind == MT_RESIZE ? on_resize(c, b, e->size) : on_access(c, b, e->kind, e->size);
}

/* A segment ran in which a bin ends, or some of whose words lay in no block. */
static bool take_accesses(struct cells *c, const struct mt_batch *batch, const struct mt_step *step,
                          const struct mt_place *places)
{
    const struct mt_segment_word *segment = &batch->segments[step->segment];
    const struct mt_segment_access *a = &batch->accesses[segment->first];

    for (const struct mt_segment_access *last = a + segment->count; a < last; a++) {
        struct cells_block *b = block_at(c, places[a->word].slot);

        if (places[a->word].slot == MT_NO_SLOT)
            continue;
        if ((b && !on_access(c, b, a->kind, a->size)) || !end_operation(c))
            return false;
    }
    return true;
}

static bool take_segment(struct cells *c, const struct mt_batch *batch, const struct mt_step *step,
                         const struct mt_place *places)
{
    const struct mt_segment_word *segment = &batch->segments[step->segment];

    if (step->count != segment->count || c->operations + step->count >= c->next)
        return take_accesses(c, batch, step, places);
    for (unsigned i = 0; i < segment->words; i++) {
        struct cells_block *b = block_at(c, places[i].slot);

        if (b && !add_word(c, b, &c->words.sums[step->segment + i].own))
            return false;
    }
    c->operations += step->count;
    return true;
}

/* The element of the index at which the search for the cell of a Free begins. NULL: no search is expected. */
static uint32_t *index_of_free(const struct cells *c, const struct mt_event *e)
{
    if (e->kind != MT_FREE || e->slot >= c->blocks_room)
        return NULL;
    const struct cells_block *b = &c->blocks[e->slot];
    if (b->state != LIVE_HERE || b->made == c->now)
        return NULL;
    return &c->of_cells.at[hash_of_cell(b->group, b->made, c->now) & (c->of_cells.room - 1)];
}

/* Prefetch what n events will need, whose blocks were prefetched AHEAD_EVENTS before: of a Free that is AHEAD_INDEX
 * events away the element of the index, and of one that is AHEAD_CELL events away the cell. */
static void prefetch_cells(const struct cells *c, const struct mt_batch *p, const struct mt_event *next,
                           unsigned n)
{
    const struct mt_event *end = p->events + p->n_events;

    for (const struct mt_event *last = next + n; next < last; next++) {
        uint32_t *index = end - next > AHEAD_INDEX ? index_of_free(c, next + AHEAD_INDEX) : NULL;

        if (index)
            fetch_soon(index);
        index = end - next > AHEAD_CELL ? index_of_free(c, next + AHEAD_CELL) : NULL;
        if (index && *index)
            fetch_soon(&c->cells[*index - 1].sums.frees);
    }
}

static struct ahead ahead_of(const struct cells *c)
{
    return (struct ahead){c->blocks, c->blocks_room, sizeof *c->blocks, 0, sizeof *c->blocks};
}

static bool take_events(struct cells *c, const struct mt_batch *batch, const struct mt_event *e, uint32_t n)
{
    ahead_events(ahead_of(c), batch, e, n);
    prefetch_cells(c, batch, e, n);
    for (const struct mt_event *end = e + n; e < end; e++) {
        if (e->kind == MT_TYPE && !on_type(c, e))
            return false;
        if (e->kind <= MT_MODIFY && !(on_operation(c, e) && end_operation(c)))
            return false;
    }
    return true;
}

BATCH_WALK(cells, take_events, take_segment)

bool cells_feed(struct cells *c, const struct mt_batch *batch)
{
    if (!words_learn(&c->words, batch))
        return false;
    ahead_words(ahead_of(c), batch);
    return cells_walk(c, batch);
}

bool cells_finish(struct cells *c)
{
    for (size_t slot = 0; slot < c->blocks_room; slot++)
        if (c->blocks[slot].state != LIVE_NONE && !settle(c, &c->blocks[slot]))
            return false;
    if (!bound_cells(c))
        return false;
    for (size_t i = 0; i < c->n_cells; i++)
        drop_old_after(c, &c->cells[i]);
    return true;
}

/* ---- shards -------------------------------------------------------------------------------- */

void cells_begin_shard(struct cells *c, uint64_t operations, uint64_t total)
{
    c->operations = operations;
    while (total / c->width >= CELLS_BINS)
        c->width *= 2;
    c->bins[0] = (struct cells_bin){0};
    begin_bin(c);
    c->bins[c->now] = (struct cells_bin){0, ++c->epochs, operations};
}

bool cells_enter(struct cells *c, const struct mt_live_block *live)
{
    if (!array_grow(&c->blocks, &c->blocks_room, (size_t)live->slot + 1, sizeof *c->blocks))
        return false;
    c->blocks[live->slot] = (struct cells_block){
        .size = live->size, .count = 1, .bin = c->now, .state = LIVE_BEFORE, .container = live->container};
    c->live += held(&c->blocks[live->slot]);
    c->bins[c->now].most = c->live;
    return true;
}

bool cells_list_survivors(struct cells *c)
{
    c->n_survivors = 0;
    for (size_t slot = 0; slot < c->blocks_room; slot++) {
        if (c->blocks[slot].state != LIVE_HERE)
            continue;
        if (!array_reserve(&c->survivors, &c->survivors_room, c->n_survivors + 1, sizeof *c->survivors))
            return false;
        c->survivors[c->n_survivors++] = (struct cells_survivor){c->blocks[slot], (uint32_t)slot};
    }
    return true;
}

/* Joins a shard to the cells before it. The bin at the border may have its maximum in either. */
struct join {
    const struct cells_partial *shard;
    const uint32_t *groups;   /* of the whole, by group of the shard */
    struct merger merger;     /* from the bins of the shard to those of the whole */
    bool follows[CELLS_BINS]; /* by bin of the whole: all that the shard did in it is after its maximum */
};

static void join_bins(struct cells *c, struct join *j)
{
    for (unsigned i = 0; i < (unsigned)CELLS_BINS >> j->merger.shift; i++) {
        const struct cells_bin *found = &j->shard->bins[j->merger.leading[i]];
        struct cells_bin *bin = &c->bins[i];

        j->follows[i] = bin->epoch && found->most <= bin->most;
        if (found->epoch && !j->follows[i])
            *bin = (struct cells_bin){found->most, ++c->epochs, found->at};
    }
}

/* The epoch in the whole of what happened in a bin of the shard. */
static uint64_t joined_epoch(const struct cells *c, const struct join *j, uint16_t bin, uint64_t epoch)
{
    const uint16_t to = (uint16_t)(bin >> j->merger.shift);

    return j->follows[to] || is_after(&j->merger, bin, epoch) ? c->bins[to].epoch : 0;
}

static bool join_other(struct cells *c, const struct join *j, const struct cells_other *other)
{
    struct cells_block *b = block_at(c, other->slot);
    struct cell *cell;

    if (!b)
        return true;
    if (other->what & CELLS_TYPED)
        return retype(c, b, other->type);
    cell = find_cell(c, b->group, b->made, (uint16_t)(other->bin >> j->merger.shift));
    if (!cell)
        return false;
    add_to_cell(c, cell, &other->sums, joined_epoch(c, j, other->bin, other->epoch));
    b->resized |= (other->what & CELLS_RESIZED) != 0;
    if (other->what & CELLS_ENDED)
        b->state = LIVE_NONE;
    return true;
}

static bool join_cells(struct cells *c, const struct join *j)
{
    const unsigned shift = j->merger.shift;

    for (size_t i = 0; i < j->shard->n_cells; i++) {
        const struct cell *from = &j->shard->cells[i];
        struct cell *cell = find_cell(c, j->groups[from->group], (uint16_t)(from->made >> shift),
                                      (uint16_t)(from->bin >> shift));
        int64_t bytes, blocks;

        if (!cell)
            return false;
        cells_sums_merge(&cell->sums, &from->sums);
        after_in(&j->merger, from, &bytes, &blocks);
        if (j->follows[cell->bin])
            add_after(c, cell, net_bytes(&from->sums), net_blocks(&from->sums));
        else
            add_after(c, cell, bytes, blocks);
    }
    return true;
}

static bool join_survivors(struct cells *c, const struct join *j)
{
    for (size_t i = 0; i < j->shard->n_survivors; i++) {
        const struct cells_survivor *s = &j->shard->survivors[i];

        if (!array_grow(&c->blocks, &c->blocks_room, (size_t)s->slot + 1, sizeof *c->blocks))
            return false;
        c->blocks[s->slot] = s->block;
        c->blocks[s->slot].group = j->groups[s->block.group];
        c->blocks[s->slot].epoch = joined_epoch(c, j, s->block.made, s->block.epoch);
        c->blocks[s->slot].made = (uint16_t)(s->block.made >> j->merger.shift);
        c->blocks[s->slot].bin = (uint16_t)(s->block.bin >> j->merger.shift);
    }
    return true;
}

/* Of two widths, log2 of their ratio; 0 if the first is not smaller. */
static unsigned shift_between(uint64_t width, uint64_t wider)
{
    unsigned shift = 0;

    while (width << shift < wider)
        shift++;
    return shift;
}

static bool join_all(struct cells *whole, const struct cells_partial *shard, uint32_t *groups)
{
    struct join j = {.shard = shard, .groups = groups};

    while (whole->width < shard->width)
        if (!widen(whole))
            return false;
    merger_init(&j.merger, shard->bins, shift_between(shard->width, whole->width));
    join_bins(whole, &j);
    for (size_t i = 0; i < shard->n_groups; i++)
        if (!find_group(whole, &shard->groups[i], &groups[i]))
            return false;
    for (size_t i = 0; i < shard->n_others; i++)
        if (!join_other(whole, &j, &shard->others[i]))
            return false;
    if (!join_cells(whole, &j) || !join_survivors(whole, &j))
        return false;
    whole->operations = shard->operations;
    begin_bin(whole);
    return bound_cells(whole);
}

bool cells_merge(struct cells *whole, const struct cells_partial *shard)
{
    uint32_t *groups = malloc((shard->n_groups + 1) * sizeof *groups);
    bool ok = groups && join_all(whole, shard, groups);

    free(groups);
    return ok;
}
