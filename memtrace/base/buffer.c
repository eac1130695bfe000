/* buffer.c - growing a byte buffer and appending to it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/buffer.h"

#include <stdlib.h>
#include <string.h>

bool buffer_grow(struct buffer *b, size_t room)
{
    size_t used = buffer_size(b), capacity = (size_t)(b->end - b->data);
    size_t wanted = capacity * 2 > used + room ? capacity * 2 : used + room + 4096;
    uint8_t *data = b->failed ? NULL : realloc(b->data, wanted);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->p = data + used;
    b->end = data + wanted;
    return true;
}

void buffer_append(struct buffer *b, const void *bytes, size_t n)
{
    if (n == 0 || !buffer_reserve(b, n))
        return;
    memcpy(b->p, bytes, n);
    b->p += n;
}

void buffer_free(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){0};
}

/* -- reads uvarints of more than two bytes. -- */

uint64_t cursor_uvarint_slow(struct cursor *c)
{
    uint64_t v = 0;
    if (cursor_within_eight(c, &v))
        return c->bad ? 0 : v;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = cursor_byte(c);
        if (shift == 63 && byte > 1)
            break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return c->bad ? 0 : v;
    }
    c->bad = true;
    return 0;
}
