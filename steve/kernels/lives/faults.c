/* faults.c - the events that are errors of the program; see faults.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/faults.h"

#include "memtrace/base/array.h"

bool faults_init(struct faults *f)
{
    memset(f, 0, sizeof *f);
    return handle_map_init(&f->known);
}

void faults_free(struct faults *f)
{
    handle_map_free(&f->known);
    free(f->first);
    free(f->counts);
}

/* Does an access beside a block, which begins outside of it, reach into it? */
static bool reaches(const struct mt_event *e)
{
    return (int64_t)e->offset < 0 && e->size > -e->offset;
}

/* An aligned load of some bytes of a block and some others stays within a page, and harms nothing. */
static bool is_excused(const struct mt_event *e)
{
    return e->kind == MT_LOAD && e->beyond && e->addr % (e->size ? e->size : 1) == 0 &&
           (!e->freed || reaches(e));
}

static inline bool is_fault(const struct mt_event *e)
{
    if (e->kind == MT_BADFREE)
        return true;
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY && (e->freed || e->beyond) && !is_excused(e);
}

static uint64_t key_of(const struct mt_event *e)
{
    unsigned manner = e->how | e->implied << 4 | e->kernel << 5 | e->beyond << 6 | e->freed << 7;

    return (uint64_t)e->ref << 16 | (unsigned)e->kind << 8 | manner;
}

/* A case that was not met before: its index, or HANDLE_MAP_NONE when out of memory. */
static uint32_t begin_case(struct faults *f, uint64_t key, const struct mt_event *e)
{
    if (!array_grow(&f->first, &f->first_room, f->n + 1, sizeof *f->first) ||
        !array_grow(&f->counts, &f->counts_room, f->n + 1, sizeof *f->counts))
        return HANDLE_MAP_NONE;
    f->first[f->n++] = *e;
    return handle_map_add(&f->known, key);
}

static bool count_fault(struct faults *f, const struct mt_event *e)
{
    uint64_t key = key_of(e);
    uint32_t i = handle_map_find(&f->known, key);

    if (i == HANDLE_MAP_NONE)
        i = begin_case(f, key, e);
    if (i == HANDLE_MAP_NONE)
        return false;
    f->counts[i]++;
    return true;
}

bool faults_add(struct faults *f, const struct mt_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_fault(&events[i]) && !count_fault(f, &events[i]))
            return false;
    return true;
}
