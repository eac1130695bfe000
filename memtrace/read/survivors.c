/* survivors.c - the blocks that live at the end of a trace, for who must know them before it reads the
 * trace.
 *
 * Found by the headers of chunks, as the places where reading can begin. What makes no sense there is left to
 * those who read the trace, and can say what is wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/reader_impl.h"

#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

static bool salvaging(const struct mt_reader *r)
{
    return r->flags & MT_OPEN_SALVAGE;
}

bool reader_take_left(struct mt_reader *r, uint32_t size)
{
    struct ordinals *left = &r->binary.left;
    return ordinals_take(left, r->binary.raw, size, UINT64_MAX) &&
           (left->more || salvaging(r) || left->count == r->binary.dec.live);
}

bool reader_fits_left(const struct mt_reader *r, uint8_t type)
{
    const struct ordinals *left = &r->binary.left;
    return !left->begun || type == CHUNK_LEFT || type == CHUNK_INDEX ||
           (type == CHUNK_END && (!left->more || salvaging(r)));
}

/* The stream of a LEFT chunk, the caller's to free; NULL if it is damaged. */
static uint8_t *unpack(const uint8_t *payload, const struct chunk_header *h)
{
    uint32_t stored = h->stored_size - 8;
    if (XXH3_64bits(payload, h->stored_size) != h->payload_hash || load_u32(payload) != h->raw_size ||
        load_u32(payload + 4) != stored)
        return NULL;
    uint8_t *raw = malloc(h->raw_size + 1);
    if (raw && ZSTD_decompress(raw, h->raw_size, payload + 8, stored) == h->raw_size)
        return raw;
    free(raw);
    return NULL;
}

static bool take_at(const struct mt_reader *r, uint64_t at, const struct chunk_header *h,
                    struct ordinals *list)
{
    uint8_t *payload = malloc(h->stored_size), *raw = NULL;
    if (payload &&
        pread(r->in.fd, payload, h->stored_size, (off_t)(at + CHUNK_HEADER_SIZE)) == (ssize_t)h->stored_size)
        raw = unpack(payload, h);
    bool taken = raw && ordinals_take(list, raw, h->raw_size, UINT64_MAX);
    free(payload);
    free(raw);
    return taken;
}

bool mt_left(struct mt_reader *r, uint64_t **ordinals, size_t *n)
{
    struct ordinals list = {.keeps = true};
    struct chunk_header h = {0};
    bool good = reader_is_plain(r) && !salvaging(r);
    for (uint64_t at = FILE_HEADER_SIZE; good && reader_header_at(r, at, &h) && h.type != CHUNK_END;
         at += CHUNK_HEADER_SIZE + h.stored_size)
        good = h.type != CHUNK_LEFT || take_at(r, at, &h, &list);
    return ordinals_give(&list, good && list.begun && !list.more && h.type == CHUNK_END, ordinals, n);
}
