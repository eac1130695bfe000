/* recorder.c - stores the events of the benchmark's programs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/bench/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grow(void *p, size_t size)
{
    p = realloc(p, size);
    if (!p) {
        fprintf(stderr, "bench_memtrace: out of memory\n");
        exit(1);
    }
    return p;
}

void record(struct recording *r, uint32_t site, const void *addr)
{
    if (r->count == r->capacity) {
        r->capacity = r->capacity * 2 + 4096;
        r->sites = grow(r->sites, r->capacity * sizeof *r->sites);
        r->addrs = grow(r->addrs, r->capacity * sizeof *r->addrs);
        r->sizes = grow(r->sizes, r->capacity * sizeof *r->sizes);
    }
    r->sites[r->count] = site;
    r->addrs[r->count++] = (uint64_t)(uintptr_t)addr;
}

void *record_malloc(struct recording *r, size_t size)
{
    void *p = memset(grow(NULL, size), 0, size);
    record(r, EVENT_NEW, p);
    r->sizes[r->news++] = size;
    return p;
}

void record_free(struct recording *r, void *p)
{
    record(r, EVENT_FREE, p);
    free(p);
}

void recording_free(struct recording *r)
{
    free(r->sites);
    free(r->addrs);
    free(r->sizes);
    *r = (struct recording){0};
}

static void define_sites(struct mt_writer *w)
{
    for (uint32_t i = 1; i < LAST_SITE; i++) {
        struct mt_site s = {.ip = 0x400000 + 4 * i,
                            .size = 8,
                            .kind = i % 4 == 0 ? MT_MODIFY
                                    : i % 2    ? MT_LOAD
                                               : MT_STORE};
        mt_writer_site(w, &s);
    }
}

void recording_write(const struct recording *r, struct mt_writer *w)
{
    size_t start = 0, news = 0;
    define_sites(w);
    for (size_t i = 0; i < r->count; i++) {
        if (r->sites[i] >= FIRST_SITE)
            continue;
        mt_writer_accesses(w, r->sites + start, r->addrs + start, i - start);
        mt_writer_time(w, 3 * i);
        if (r->sites[i] == EVENT_NEW)
            mt_writer_block_new(w, r->addrs[i], r->sizes[news++], 0, MT_HOW_MALLOC, 0);
        else
            mt_writer_block_free(w, r->addrs[i], 0, 0);
        start = i + 1;
    }
    mt_writer_accesses(w, r->sites + start, r->addrs + start, r->count - start);
}
