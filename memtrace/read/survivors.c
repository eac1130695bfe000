/* survivors.c - reads the list of blocks that are live at the end of a trace, for programs that need it before they
 * read the trace.
 *
 * SURVIVORS chunks are found by reading all chunk headers. Errors are not reported here: the list is then missing,
 * and reading the trace reports the error.
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

bool reader_read_survivors(struct mt_reader *r, uint32_t size)
{
    struct id_list *s = &r->binary.survivors;
    return id_list_read(s, r->binary.raw, size, UINT64_MAX) &&
           (s->more || salvaging(r) || s->count == r->binary.dec.live);
}

bool reader_fits_survivors(const struct mt_reader *r, uint8_t type)
{
    const struct id_list *s = &r->binary.survivors;
    return !s->begun || type == CHUNK_SURVIVORS || type == CHUNK_INDEX ||
           (type == CHUNK_END && (!s->more || salvaging(r)));
}

/* Decompress the payload of a SURVIVORS chunk. The caller frees the result. NULL if it is damaged. */
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
                    struct id_list *list)
{
    uint8_t *payload = malloc(h->stored_size), *raw = NULL;
    if (payload &&
        pread(r->in.fd, payload, h->stored_size, (off_t)(at + CHUNK_HEADER_SIZE)) == (ssize_t)h->stored_size)
        raw = unpack(payload, h);
    bool taken = raw && id_list_read(list, raw, h->raw_size, UINT64_MAX);
    free(payload);
    free(raw);
    return taken;
}

bool mt_survivors(struct mt_reader *r, uint64_t **ordinals, size_t *n)
{
    struct id_list list = {.keeps = true};
    struct chunk_header h = {0};
    bool good = reader_is_plain(r) && !salvaging(r);
    for (uint64_t at = FILE_HEADER_SIZE; good && reader_header_at(r, at, &h) && h.type != CHUNK_END;
         at += CHUNK_HEADER_SIZE + h.stored_size)
        good = h.type != CHUNK_SURVIVORS || take_at(r, at, &h, &list);
    return id_list_finish(&list, good && list.begun && !list.more && h.type == CHUNK_END, ordinals, n);
}
