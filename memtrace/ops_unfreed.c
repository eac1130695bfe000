/* ops_unfreed.c - the blocks that an ops file says are never freed; see ops_unfreed.h.
 *
 * ops_read_unfreed finds the list by the headers of the file's blocks, whose operations it does not look at.
 * What it cannot make sense of it leaves to those who read the file from the start and can say what is wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ops_unfreed.h"
#include "ops_block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

size_t ops_unfreed_put(uint8_t *to, const uint64_t **ordinals, size_t *n, uint64_t *next)
{
    size_t count = *n < OPS_UNFREED_MOST ? *n : OPS_UNFREED_MOST;
    uint8_t *p = to;
    *p++ = count < *n;
    for (size_t i = 0; i < count; i++) {
        p = uvarint_write(p, (*ordinals)[i] - *next);
        *next = (*ordinals)[i] + 1;
    }
    *ordinals += count;
    *n -= count;
    return (size_t)(p - to);
}

static bool keep(struct ops_unfreed *u, uint64_t ordinal)
{
    if (u->n == u->room) {
        size_t room = u->room ? 2 * u->room : 1024;
        uint64_t *list = realloc(u->list, room * sizeof *list);
        if (!list)
            return false;
        u->list = list;
        u->room = room;
    }
    u->list[u->n++] = ordinal;
    return true;
}

bool ops_unfreed_take(struct ops_unfreed *u, const uint8_t *payload, size_t size, uint64_t total)
{
    struct cursor at = {.p = payload, .end = payload + size};
    uint8_t more = cursor_byte(&at);
    if (more > 1 || (u->begun && !u->more))
        return false;
    u->begun = true;
    u->more = more;
    while (at.p < at.end && !at.bad) {
        uint64_t gap = cursor_uvarint(&at);
        if (at.bad || u->next >= total || gap >= total - u->next)
            return false;
        u->next += gap;
        if (u->keeps && !keep(u, u->next))
            return false;
        u->next++;
    }
    return !at.bad;
}

/* Read n bytes of a file at a place; false if it has not that many there, or cannot be sought in. */
static bool read_at(int fd, void *to, size_t n, uint64_t offset)
{
    uint8_t *p = to;
    while (n) {
        ssize_t got = pread(fd, p, n, (off_t)offset);
        if (got <= 0)
            return false;
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

/* The payload of a block, decompressed, the caller's to free; NULL if it is damaged. */
static uint8_t *payload_at(int fd, uint64_t offset, const uint8_t *header, const struct ops_block *b)
{
    uint8_t *stored = malloc(b->stored + 1), *raw = malloc(b->size);
    bool good = stored && raw && read_at(fd, stored, b->stored, offset) &&
                ops_block_hash(header, stored, b->stored) == b->hash &&
                ZSTD_decompress(raw, b->size, stored, b->stored) == b->size;
    free(stored);
    if (!good) {
        free(raw);
        raw = NULL;
    }
    return raw;
}

static bool take_at(struct ops_unfreed *u, int fd, uint64_t offset, const uint8_t *header,
                    const struct ops_block *b)
{
    uint8_t *payload = payload_at(fd, offset, header, b);
    bool taken = payload && ops_unfreed_take(u, payload, b->size, b->total);
    free(payload);
    return taken;
}

/* Go through the headers up to the end; false if that does not work out. */
static bool find_list(int fd, uint8_t version, struct ops_unfreed *u)
{
    uint64_t offset = OPS_MAGIC_SIZE + 1;
    for (;;) {
        uint8_t header[OPS_HEADER_SIZE];
        struct ops_block b;
        if (!read_at(fd, header, sizeof header, offset) || !ops_block_parse(header, version, OPS_ACCESS, &b))
            return false;
        if (b.size == 0)
            return u->begun && !u->more;
        offset += sizeof header;
        if (b.count == 0 && !take_at(u, fd, offset, header, &b))
            return false;
        offset += b.stored;
    }
}

bool ops_read_unfreed(const char *path, uint64_t **ordinals, size_t *n)
{
    uint8_t magic[OPS_MAGIC_SIZE + 1];
    struct ops_unfreed u = {.keeps = true};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool told = fd >= 0 && read_at(fd, magic, sizeof magic, 0) &&
                memcmp(magic, OPS_MAGIC, OPS_MAGIC_SIZE) == 0 && magic[OPS_MAGIC_SIZE] == OPS_ACCESS &&
                find_list(fd, magic[OPS_MAGIC_SIZE - 1], &u);
    if (fd >= 0)
        close(fd);
    if (!told) {
        free(u.list);
        u = (struct ops_unfreed){0};
    }
    *ordinals = u.list;
    *n = u.n;
    return told;
}
