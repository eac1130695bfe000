/* fuzz_reader.c - fuzz target: any bytes as a memtrace, read with and without salvaging.
 *
 * Inputs that look binary are first repaired (input.h). The reader must not crash, and every event must be as
 * memtrace.h says: accesses are in their block, handles count up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/fuzz/input.h"

/* made: number of blocks whose existence the reader has reported. When it has skipped a damaged chunk, some of
 * their News were not delivered. */
static void check(const struct mt_event *ev, uint64_t *next_handle, uint64_t made)
{
    if (ev->kind >= MT_KINDS)
        abort();
    if (ev->kind == MT_NEW) {
        if (ev->handle < *next_handle || (ev->size && ev->addr + (ev->size - 1) < ev->addr))
            abort();
        *next_handle = ev->handle + 1;
    }
    if (ev->kind <= MT_MODIFY && ev->handle >= *next_handle && ev->handle >= made)
        abort();
    if (ev->kind >= MT_LOAD && ev->kind <= MT_MODIFY && ev->addr < ev->offset)
        abort();
}

/* The list of blocks that are live at the end must be ascending. */
static void check_survivors(struct mt_reader *r)
{
    uint64_t *list;
    size_t n;
    mt_survivors(r, &list, &n);
    for (size_t i = 1; i < n; i++)
        if (list[i] <= list[i - 1])
            abort();
    free(list);
}

static void read_all(const char *path, unsigned flags)
{
    const struct mt_event *events;
    size_t n;
    uint64_t next_handle = 0;
    struct mt_error err = {0};
    struct mt_reader *r = mt_open(path, flags, &err);
    if (!r && (err.code == MT_E_NONE || !err.text[0]))
        abort();
    if (r)
        check_survivors(r);
    while (r && mt_next(r, &events, &n) == MT_MORE) {
        struct mt_reader_stats stats;
        mt_reader_stats(r, &stats);
        for (size_t i = 0; i < n; i++)
            check(&events[i], &next_handle, flags & MT_OPEN_SALVAGE ? stats.handles : 0);
    }
    mt_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = input_begin(data, size);
    read_all(s_path, MT_OPEN_FREED | MT_OPEN_SNAPSHOTS);
    read_all(s_path, MT_OPEN_SALVAGE | MT_OPEN_TEXT);
    read_all(s_path, MT_OPEN_SALVAGE | MT_OPEN_TEXT | MT_OPEN_OVERLAPS);
    close(fd);
    return 0;
}
