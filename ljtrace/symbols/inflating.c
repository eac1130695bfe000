/* inflating.c - see inflating.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The bytes are written into a shared mapping of the file, so that whoever has mapped the file sees them.
 */
#include "ljtrace/symbols/inflating.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

/* zlib is called for at least so many bytes. */
enum { STEP = 1 << 16 };

struct inflating {
    z_stream stream;
    uint8_t *to;
    uint64_t size, done;
    void *source; /* the mapping with the compressed bytes */
    size_t source_bytes;
};

static void unmap(struct inflating *i)
{
    if (i->source != MAP_FAILED)
        munmap(i->source, i->source_bytes);
    if (i->to != MAP_FAILED)
        munmap(i->to, i->size);
    free(i);
}

struct inflating *inflating_new(const struct inflating_place *place)
{
    struct inflating *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    const uint64_t before = place->from % (uint64_t)sysconf(_SC_PAGESIZE);
    i->size = place->size;
    i->source_bytes = before + place->compressed;
    i->source =
        mmap(NULL, i->source_bytes, PROT_READ, MAP_PRIVATE, place->from_fd, (off_t)(place->from - before));
    i->to = mmap(NULL, i->size, PROT_READ | PROT_WRITE, MAP_SHARED, place->to_fd, (off_t)place->to);
    if (i->source == MAP_FAILED || i->to == MAP_FAILED || place->compressed > UINT_MAX ||
        inflateInit(&i->stream) != Z_OK) {
        unmap(i);
        return NULL;
    }
    i->stream.next_in = (Bytef *)i->source + before;
    i->stream.avail_in = (uInt)place->compressed;
    return i;
}

void inflating_free(struct inflating *i)
{
    if (!i)
        return;
    inflateEnd(&i->stream);
    unmap(i);
}

bool inflating_to(struct inflating *i, uint64_t end)
{
    if (end > i->size)
        return false;
    if (end <= i->done)
        return true;
    uint64_t room = end - i->done < STEP ? STEP : end - i->done;
    room = room < i->size - i->done ? room : i->size - i->done;
    if (room > UINT_MAX)
        return false;
    i->stream.next_out = i->to + i->done;
    i->stream.avail_out = (uInt)room;
    const int result = inflate(&i->stream, Z_SYNC_FLUSH);
    i->done += room - i->stream.avail_out;
    return (result == Z_OK || result == Z_STREAM_END) && i->done >= end;
}

bool inflating_read(struct inflating *i, uint64_t offset, void *to, uint64_t bytes)
{
    if (!inflating_to(i, offset + bytes))
        return false;
    memcpy(to, i->to + offset, bytes);
    return true;
}

bool inflating_is(const struct inflating *i, const void *bytes, uint64_t size)
{
    return size == i->size && memcmp(bytes, i->to, i->done) == 0;
}
