/* support.c - code shared by the tests.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("memtrace-test", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, size ? data : "", size), size);
    return fd;
}

const char *memory_path(int fd)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

struct bytes memory_bytes(int fd)
{
    struct bytes b = {.size = (size_t)lseek(fd, 0, SEEK_END)};
    b.data = malloc(b.size + 1);
    assert_int_equal(pread(fd, b.data, b.size, 0), b.size);
    return b;
}

static void append_events(struct reading *out, const struct mt_event *events, size_t n)
{
    out->events = realloc(out->events, (out->count + n) * sizeof *events);
    assert_non_null(out->events);
    memcpy(out->events + out->count, events, n * sizeof *events);
    out->count += n;
}

struct reading read_bytes(const void *data, size_t size, unsigned flags)
{
    struct reading out = {.result = MT_ERROR};
    const struct mt_event *events;
    size_t n;
    int fd = memory_file(data, size);
    struct mt_reader *r = mt_open(memory_path(fd), flags, &out.err);
    while (r && (out.result = mt_next(r, &events, &n)) == MT_MORE) {
        assert_true(n > 0);
        append_events(&out, events, n);
    }
    out.opened = r != NULL;
    if (r) {
        out.err = *mt_reader_error(r);
        mt_reader_stats(r, &out.stats);
        snprintf(out.damage, sizeof out.damage, "%s", mt_damage(r, 0) ? mt_damage(r, 0) : "");
    }
    mt_close(r);
    assert_batches_equal(memory_path(fd), flags, &out);
    close(fd);
    return out;
}

struct reading read_string(const char *text, unsigned flags)
{
    return read_bytes(text, strlen(text), flags);
}

void reading_free(struct reading *r)
{
    free(r->events);
    r->events = NULL;
}

static bool same_access(const struct mt_event *a, const struct mt_event *b)
{
    return a->handle == b->handle && a->addr == b->addr && a->size == b->size && a->heap == b->heap &&
           a->offset == b->offset && a->kernel == b->kernel && a->beyond == b->beyond &&
           a->freed == b->freed && (a->freed || a->slot == b->slot);
}

static bool same_block(const struct mt_event *a, const struct mt_event *b)
{
    return a->handle == b->handle && a->addr == b->addr && a->size == b->size && a->heap == b->heap &&
           a->slot == b->slot;
}

bool same_event(const struct mt_event *a, const struct mt_event *b)
{
    if (a->kind != b->kind || a->thread != b->thread || a->time != b->time || a->ref != b->ref)
        return false;
    switch (a->kind) {
    case MT_NEW:
        return same_block(a, b) && a->how == b->how && a->implied == b->implied && a->beyond == b->beyond;
    case MT_FREE:
        return same_block(a, b) && a->implied == b->implied;
    case MT_RESIZE:
        return same_block(a, b) && a->old_addr == b->old_addr && a->old_size == b->old_size;
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        return same_access(a, b);
    case MT_BADFREE:
        return a->addr == b->addr && a->heap == b->heap && a->how == b->how && a->handle == b->handle &&
               a->offset == b->offset;
    case MT_LOST:
        return a->size == b->size;
    default:
        return true;
    }
}

bool is_access(const struct mt_event *e)
{
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY;
}

int by_place(const void *a, const void *b)
{
    const struct mt_event *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return (x->ref > y->ref) - (x->ref < y->ref);
}

struct reading finish_trace(struct mt_writer *w, int fd)
{
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading r = read_bytes(file.data, file.size, MT_OPEN_FREED);
    assert_string_equal(r.err.text, "");
    assert_int_equal(r.result, MT_END);
    free(file.data);
    return r;
}

void assert_same_accesses(const struct reading *a, const struct reading *b)
{
    const struct mt_totals *x = &a->stats.totals, *y = &b->stats.totals;
    assert_memory_equal(x->events, y->events, sizeof x->events);
    assert_int_equal(x->foreign, y->foreign);
    assert_int_equal(x->freed, y->freed);
    assert_true(x->freed > 100 && x->foreign > 100 && x->events[MT_MODIFY] > 100);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        struct mt_event e = b->events[i];
        assert_true(a->events[i].time >= e.time || !is_access(&e));
        e.time = a->events[i].time;
        assert_true(same_event(&a->events[i], &e));
    }
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t random_below(uint64_t *state, uint64_t n)
{
    return random_next(state) % n;
}

void append_bytes(struct bytes *b, const void *data, size_t size)
{
    b->data = realloc(b->data, b->size + size + 1);
    assert_non_null(b->data);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

void append_file_header(struct bytes *file)
{
    uint8_t header[FILE_HEADER_SIZE];
    file_header_pack(header);
    append_bytes(file, header, sizeof header);
}

void append_chunk(struct bytes *file, struct chunk_header *h, const struct bytes *streams)
{
    struct bytes payload = {0};
    uint8_t table[8 * EVENT_STREAMS] = {0}, packed[4096], header[CHUNK_HEADER_SIZE];
    unsigned n = chunk_streams(h->type);
    append_bytes(&payload, table, 8 * n);
    h->raw_size = 0;
    for (unsigned i = 0; i < n; i++) {
        size_t stored =
            streams[i].size ? ZSTD_compress(packed, sizeof packed, streams[i].data, streams[i].size, 1) : 0;
        assert_false(ZSTD_isError(stored));
        append_bytes(&payload, packed, stored);
        store_u32(payload.data + 8 * i, (uint32_t)streams[i].size);
        store_u32(payload.data + 8 * i + 4, (uint32_t)stored);
        h->raw_size += (uint32_t)streams[i].size;
    }
    h->stored_size = (uint32_t)payload.size;
    h->payload_hash = XXH3_64bits(payload.data, payload.size);
    chunk_header_pack(h, header);
    append_bytes(file, header, sizeof header);
    append_bytes(file, payload.data, payload.size);
    free(payload.data);
}

/* -- a random trace -- */

static void random_step(struct mt_writer *w, uint64_t *seed, uint32_t sites)
{
    uint64_t addr = 64 * random_below(seed, ADDRESSES);
    uint32_t site = 1 + (uint32_t)random_below(seed, sites);
    switch (random_below(seed, 8)) {
    case 0:
        mt_writer_block_new(w, addr, random_below(seed, 200), 0, MT_HOW_MALLOC, 0);
        break;
    case 1:
        mt_writer_block_free(w, addr, 0, 0);
        break;
    case 2:
        mt_writer_touch(w, MT_STORE, addr, 100);
        break;
    default:
        addr += random_below(seed, 200);
        mt_writer_accesses(w, &site, &addr, 1);
    }
}

struct bytes simple_trace(uint64_t seed, struct mt_writer_options options)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &options, NULL);
    assert_non_null(w);
    for (uint32_t i = 0; i < 2000; i++) {
        if (i % 100 == 0)
            mt_writer_site(w, &(struct mt_site){.ip = i, .size = 8, .kind = MT_LOAD + i / 100 % 3});
        mt_writer_time(w, 10 * i);
        random_step(w, &seed, 1 + i / 100);
    }
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}
