/* survivors.c - reads the lists of blocks at the end of a trace: those that are still live, and the containers, for
 * programs that need them before they read the trace.
 *
 * Their chunks are found by reading all chunk headers. Errors are not reported here: the list is then missing, and
 * reading the trace reports the error.
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

/* Show the containers that the last chunk has added. */
static void dump_containers(struct mt_reader *r, uint64_t before)
{
    struct id_list *s = &r->binary.container_list;
    for (uint64_t i = before; i < s->count; i++) {
        line_start(&r->hook.buffer, "container", NO_ID);
        line_number(&r->hook.buffer, "handle", s->list[i]);
        r->hook.line(r->hook.ctx, r->hook.buffer.text);
    }
}

bool reader_read_containers(struct mt_reader *r, uint32_t size)
{
    struct id_list *s = &r->binary.container_list;
    const uint64_t before = s->count;
    s->keeps = r->hook.line != NULL;
    if (!id_list_read(s, r->binary.raw, size, r->binary.dec.handles))
        return false;
    if (r->hook.line)
        dump_containers(r, before);
    return true;
}

/* May a chunk of this type follow those of a list? next: the list that comes after it. */
static bool follows(const struct mt_reader *r, const struct id_list *list, uint8_t own, uint8_t next,
                    uint8_t type)
{
    if (!list->begun || type == own || type == CHUNK_INDEX)
        return true;
    return (type == CHUNK_END || type == next) && (!list->more || salvaging(r));
}

bool reader_fits_lists(const struct mt_reader *r, uint8_t type)
{
    return follows(r, &r->binary.container_list, CHUNK_CONTAINERS, CHUNK_SURVIVORS, type) &&
           follows(r, &r->binary.survivors, CHUNK_SURVIVORS, CHUNK_END, type);
}

/* Decompress the payload of a chunk of a list. The caller frees the result. NULL if it is damaged. */
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

/* Read the list in the chunks of a type; false if it is not there as a whole. */
static bool read_list(const struct mt_reader *r, enum chunk_type type, struct id_list *list)
{
    struct chunk_header h = {0};
    bool good = reader_is_plain(r);
    for (uint64_t at = FILE_HEADER_SIZE;
         good && at < r->in.file_size && reader_header_at(r, at, &h) && h.type != CHUNK_END;
         at += CHUNK_HEADER_SIZE + h.stored_size)
        good = h.type != type || take_at(r, at, &h, list);
    return good && list->begun && !list->more && h.type == CHUNK_END;
}

bool mt_survivors(struct mt_reader *r, uint64_t **ordinals, size_t *n)
{
    struct id_list list = {.keeps = true};
    bool whole = read_list(r, CHUNK_SURVIVORS, &list) && !salvaging(r);
    return id_list_finish(&list, whole, ordinals, n);
}

void reader_find_containers(struct mt_reader *r)
{
    struct binary_reader *b = &r->binary;
    if (b->looked_for_containers || r->of_ops)
        return;
    b->looked_for_containers = true;
    b->containers = (struct id_list){.keeps = true};
    bool whole = !b->following && read_list(r, CHUNK_CONTAINERS, &b->containers);
    uint64_t *list;
    size_t n;
    id_list_finish(&b->containers, whole, &list, &n);
    b->dec.containers = list;
    b->dec.n_containers = n;
}

bool mt_has_containers(struct mt_reader *r)
{
    reader_find_containers(r);
    return r->binary.dec.n_containers > 0;
}
