/* survivors.c - reads the list of the blocks that an ops file never frees, without its operations.
 *
 * The list (memtrace/base/id_list.h) is found by reading the headers of all blocks. Errors are not reported here: the
 * list is then missing, and reading the file reports the error.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Read n bytes at an offset; false if there are fewer, or if the file cannot seek. */
static bool read_at(int fd, void *to, size_t n, uint64_t offset)
{
    return pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

/* The decompressed payload of a block. The caller frees it. NULL if it is damaged. */
static uint8_t *payload_at(int fd, uint64_t offset, const uint8_t *header, const struct ops_block *b)
{
    uint8_t *stored = malloc(b->stored + 1), *raw = malloc(b->size);
    bool good = stored && raw && read_at(fd, stored, b->stored, offset) &&
                ops_block_hash(header, stored, b->stored) == b->hash &&
                ZSTD_decompress(raw, b->size, stored, b->stored) == b->size;
    free(stored);
    if (good)
        return raw;
    free(raw);
    return NULL;
}

static bool take_at(struct id_list *list, int fd, uint64_t offset, const uint8_t *header,
                    const struct ops_block *b)
{
    uint8_t *payload = payload_at(fd, offset, header, b);
    bool taken = payload && id_list_read(list, payload, b->size, b->total);
    free(payload);
    return taken;
}

/* Read all headers up to the end; false after an error. */
static bool find_list(int fd, struct id_list *list)
{
    uint64_t offset = OPS_MAGIC_SIZE + 1;
    for (;;) {
        uint8_t header[OPS_HEADER_SIZE];
        struct ops_block b;
        if (!read_at(fd, header, sizeof header, offset) || !ops_block_parse(header, OPS_ACCESS, &b))
            return false;
        if (b.size == 0)
            return list->begun && !list->more;
        offset += sizeof header;
        if (b.count == 0 && !take_at(list, fd, offset, header, &b))
            return false;
        offset += b.stored;
    }
}

/* The same for a file that contains a trace, which has a list of the same form. */
static bool read_from_trace(const char *path, uint64_t **ordinals, size_t *n)
{
    struct mt_error err;
    struct ops_reader *r = ops_open(path, OPS_ACCESS, &err);
    *ordinals = NULL;
    *n = 0;
    bool good = r && mt_survivors(ops_reader_trace(r), ordinals, n);
    ops_close(r);
    return good;
}

bool ops_read_survivors(const char *path, uint64_t **ordinals, size_t *n)
{
    uint8_t magic[OPS_MAGIC_SIZE + 1];
    struct id_list list = {.keeps = true};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool here = fd >= 0 && read_at(fd, magic, sizeof magic, 0) &&
                memcmp(magic, OPS_MAGIC, OPS_MAGIC_SIZE - 1) == 0 && magic[OPS_MAGIC_SIZE] == OPS_ACCESS;
    const uint8_t version = here ? magic[OPS_MAGIC_SIZE - 1] : 0;
    bool listed = version == OPS_VERSION_ENCODED && find_list(fd, &list);
    if (fd >= 0)
        close(fd);
    if (version == OPS_VERSION_COPIED)
        return read_from_trace(path, ordinals, n);
    return id_list_finish(&list, listed, ordinals, n);
}
