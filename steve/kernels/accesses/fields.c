/* fields.c - which bytes of blocks are read and written; see fields.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/fields.h"

#include "memtrace/base/array.h"

static bool map_init(struct fields_map *map, uint64_t largest)
{
    if (largest == 0)
        return true;
    while ((largest - 1) >> map->shift >= FIELDS_CELLS)
        map->shift++;
    map->n = ((largest - 1) >> map->shift) + 1;
    map->cells = calloc(map->n, sizeof *map->cells);
    return map->cells != NULL;
}

bool fields_init(struct fields *f, const uint32_t *group_of, size_t n_stacks, const uint64_t *largest,
                 size_t n_groups)
{
    memset(f, 0, sizeof *f);
    f->group_of = group_of;
    f->n_stacks = n_stacks;
    f->maps = calloc(n_groups + 1, sizeof *f->maps);
    if (!f->maps)
        return false;
    f->n_maps = n_groups;
    for (size_t i = 0; i < n_groups; i++)
        if (!map_init(&f->maps[i], largest[i]))
            return false;
    return true;
}

void fields_free(struct fields *f)
{
    for (size_t i = 0; f->maps && i < f->n_maps; i++)
        free(f->maps[i].cells);
    free(f->maps);
    free(f->blocks);
}

static bool block_new(struct fields *f, const struct mt_event *e)
{
    uint32_t group = e->ref < f->n_stacks ? f->group_of[e->ref] : UINT32_MAX;

    if (!array_grow(&f->blocks, &f->room, (size_t)e->slot + 1, sizeof *f->blocks))
        return false;
    f->blocks[e->slot] = (struct fields_block){.size = e->size, .group = group + 1};
    if (group != UINT32_MAX)
        f->maps[group].blocks++;
    return true;
}

bool fields_enter(struct fields *f, const struct mt_live_block *live, uint32_t group)
{
    if (!array_grow(&f->blocks, &f->room, (size_t)live->slot + 1, sizeof *f->blocks))
        return false;
    f->blocks[live->slot] = (struct fields_block){.size = live->size, .group = group};
    return true;
}

static void block_access(struct fields_map *map, const struct fields_block *b, const struct mt_event *e)
{
    uint64_t end = e->offset + e->size;
    uint64_t last = (end < b->size ? end : b->size) - 1;

    if (e->size == 0 || e->offset >= b->size)
        return;
    for (uint64_t i = e->offset >> map->shift; i <= last >> map->shift && i < map->n; i++) {
        map->cells[i].loads += e->kind == MT_LOAD;
        map->cells[i].stores += e->kind == MT_STORE;
        map->cells[i].modifies += e->kind == MT_MODIFY;
    }
}

static bool step(struct fields *f, const struct mt_event *e)
{
    struct fields_block *b = e->slot < f->room && f->blocks[e->slot].group ? &f->blocks[e->slot] : NULL;

    if (e->kind == MT_NEW)
        return block_new(f, e);
    if (!b)
        return true;
    if (e->kind == MT_FREE)
        b->group = 0;
    else if (e->kind == MT_RESIZE)
        b->size = e->size;
    else
        block_access(&f->maps[b->group - 1], b, e);
    return true;
}

bool fields_feed(struct fields *f, const struct mt_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (events[i].kind <= MT_MODIFY && !step(f, &events[i]))
            return false;
    return true;
}
