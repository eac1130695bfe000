/* seek.c - reads a part of a binary trace: finds the places where reading can begin, and goes there.
 *
 * The seek points are found by reading all chunk headers. This takes a few microseconds per chunk and does not depend
 * on the index being right. Definitions before a point are read when reading goes there, each once. Only plain files
 * can be read in parts; other inputs have a single part.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/read/reader_impl.h"

#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

static bool add_place(struct places *p, const struct chunk_header *h, uint64_t offset)
{
    if (!array_reserve(&p->at, &p->room, p->count + 1u, sizeof *p->at))
        return false;
    p->at[p->count++] = (struct mt_seek_point){h->first_event, h->first_handle, offset};
    return true;
}

bool reader_header_at(const struct mt_reader *r, uint64_t offset, struct chunk_header *h)
{
    uint8_t bytes[CHUNK_HEADER_SIZE];
    return pread(r->in.fd, bytes, sizeof bytes, (off_t)offset) == (ssize_t)sizeof bytes &&
           chunk_header_unpack(h, bytes) == NULL;
}

bool reader_is_plain(const struct mt_reader *r)
{
    return !r->stats.is_text && r->in.fd > STDIN_FILENO && r->in.file_size && !r->in.zstd;
}

/* Find all seek points and DEFS chunks; false when out of memory. */
static bool find_places(struct mt_reader *r)
{
    struct binary_reader *b = &r->binary;
    struct chunk_header h = {0};
    bool after_checkpoint = false, ok = add_place(&b->seek_points, &h, FILE_HEADER_SIZE);
    for (uint64_t at = FILE_HEADER_SIZE; ok && reader_is_plain(r) && reader_header_at(r, at, &h);
         at += CHUNK_HEADER_SIZE + h.stored_size) {
        if (h.type == CHUNK_DEFS)
            ok = add_place(&b->defs, &h, at);
        if (h.type == CHUNK_CHECKPOINT && !after_checkpoint)
            ok = add_place(&b->seek_points, &h, at);
        after_checkpoint = h.type == CHUNK_CHECKPOINT;
    }
    return ok;
}

int mt_seek_points(struct mt_reader *r, const struct mt_seek_point **points, uint32_t *n)
{
    struct places *p = &r->binary.seek_points;
    if (r->err.code != MT_E_NONE)
        return MT_ERROR;
    if (p->count == 0 && !find_places(r))
        return mt_fail_memory(&r->err);
    *points = p->at;
    *n = p->count;
    return MT_OK;
}

/* -- soundness -- */

/* A buffer for the payload of one chunk at a time. */
struct payload {
    uint8_t *bytes;
    size_t capacity;
};

/* Make room for a payload; false when out of memory. */
static bool reserve(struct payload *p, size_t n)
{
    if (p->bytes && n <= p->capacity)
        return true;
    free(p->bytes);
    p->bytes = malloc(n + 1);
    p->capacity = p->bytes ? n : 0;
    return p->bytes != NULL;
}

/* Is the payload of a chunk undamaged? */
static bool is_sound(const struct mt_reader *r, uint64_t at, const struct chunk_header *h, struct payload *p)
{
    return reserve(p, h->stored_size) &&
           pread(r->in.fd, p->bytes, h->stored_size, (off_t)(at + CHUNK_HEADER_SIZE)) ==
               (ssize_t)h->stored_size &&
           XXH3_64bits(p->bytes, h->stored_size) == h->payload_hash;
}

/* Does this chunk end a checkpoint: does it contain events, or the end of the trace? */
static bool ends_lists(const struct chunk_header *h)
{
    return h->type != CHUNK_CHECKPOINT && h->type != CHUNK_DEFS && h->type != CHUNK_SNAPSHOT;
}

/* A seek point is counted only if the chunk after its checkpoint is undamaged, too, because mt_read_checkpoint
 * reads up to there. */
uint32_t mt_sound_seek_points(struct mt_reader *r)
{
    struct chunk_header h;
    struct payload payload = {0};
    uint32_t points = 1, lists = 0;
    uint64_t event = 0;
    bool after_checkpoint = false, whole = reader_is_plain(r) && r->stats.damaged_chunks == 0;
    for (uint64_t at = FILE_HEADER_SIZE; whole && reader_header_at(r, at, &h);
         at += CHUNK_HEADER_SIZE + h.stored_size) {
        whole = h.first_event == event && is_sound(r, at, &h, &payload);
        lists += h.type == CHUNK_CHECKPOINT && !after_checkpoint;
        after_checkpoint = h.type == CHUNK_CHECKPOINT;
        if (whole && ends_lists(&h)) {
            points += lists;
            lists = 0;
        }
        event += h.events;
    }
    free(payload.bytes);
    return points;
}

/* -- parts -- */

/* Read the definitions before a point that were not read yet. */
static int read_definitions(struct mt_reader *r, const struct mt_seek_point *point)
{
    const struct places *defs = &r->binary.defs;
    int result = MT_OK;
    for (uint32_t i = 0; i < defs->count && defs->at[i].offset < point->offset && result == MT_OK; i++)
        if (defs->at[i].offset >= r->binary.defs_end)
            result = binary_go(r, &defs->at[i]) == MT_OK ? binary_chunk(r) : MT_ERROR;
    return result;
}

int mt_read_range(struct mt_reader *r, uint32_t first, uint32_t end)
{
    const struct mt_seek_point *points = NULL;
    uint32_t n = 0;
    if (mt_seek_points(r, &points, &n) != MT_OK)
        return MT_ERROR;
    if (first >= end || end > n)
        return mt_fail(&r->err, MT_E_FORMAT, 0, "part %u to %u of a trace with %u parts", first, end, n);
    if (!reader_is_plain(r))
        return r->stats.events == 0 ? MT_OK
                                    : mt_fail(&r->err, MT_E_FORMAT, 0,
                                              "cannot go back: only plain .ljt files are read in parts");
    if (read_definitions(r, &points[first]) != MT_OK || binary_go(r, &points[first]) != MT_OK)
        return MT_ERROR;
    r->binary.adrift = r->binary.dec.midway = first > 0;
    r->binary.stop = end < n ? points[end].offset : UINT64_MAX;
    return MT_OK;
}

/* The offset of the EVENTS chunk number `index`, counted from the current position; UINT64_MAX if there is none.
 * *count is the number of EVENTS chunks from there to the end. */
static uint64_t events_chunk(const struct mt_reader *r, uint32_t index, uint32_t *count)
{
    struct chunk_header h;
    uint64_t found = UINT64_MAX;
    *count = 0;
    for (uint64_t at = r->in.offset; at < r->binary.stop && reader_header_at(r, at, &h);
         at += CHUNK_HEADER_SIZE + h.stored_size) {
        if (h.type != CHUNK_EVENTS)
            continue;
        if (*count == index)
            found = at;
        (*count)++;
    }
    return found;
}

void mt_pass_to_last(struct mt_reader *r, uint32_t n)
{
    uint32_t count;
    if (!reader_is_plain(r))
        return;
    events_chunk(r, 0, &count);
    if (count > n)
        r->binary.pass_until = events_chunk(r, count - n, &count);
}

/* Is the next chunk one that precedes or contains events? */
static bool before_events(const struct mt_reader *r)
{
    struct chunk_header h;
    return r->in.offset < r->binary.stop && reader_header_at(r, r->in.offset, &h) && h.type != CHUNK_END &&
           h.type != CHUNK_INDEX;
}

void mt_read_checkpoint(struct mt_reader *r)
{
    while (reader_is_plain(r) && r->err.code == MT_E_NONE && !r->binary.in_chunk && before_events(r))
        if (binary_chunk(r) == MT_ERROR)
            return;
}

bool mt_met_thread(const struct mt_reader *r, uint16_t thread)
{
    return thread == 1 || (r->binary.dec.threads[thread / 64] >> thread % 64 & 1);
}

uint32_t mt_thread_end(const struct mt_reader *r)
{
    return r->binary.dec.thread_end > 2 ? r->binary.dec.thread_end : 2;
}

uint32_t mt_count_slots(const struct mt_reader *r)
{
    return r->binary.dec.block_count;
}

bool mt_live_block(const struct mt_reader *r, uint32_t slot, struct mt_live_block *out)
{
    const struct live_block *b = slot < mt_count_slots(r) ? &r->binary.dec.blocks[slot] : NULL;
    if (!b || b->heap == NO_HEAP)
        return false;
    *out = (struct mt_live_block){b->handle, b->base, b->size, b->heap, slot, b->container, b->kept};
    return true;
}
