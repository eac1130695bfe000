/* used_bytes.c - which bytes of a block were used; see used_bytes.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/used_bytes.h"

#include "steve/kernels/base/bits.h"

/* The parts that a block of a size has. */
static uint64_t within(uint64_t size)
{
    return size ? usedparts_of(usedparts_shift(size), 0, size - 1) : 0;
}

/* The same bytes in parts of another size. */
static uint64_t convert(uint64_t parts, uint8_t from, uint8_t to)
{
    uint64_t result = 0;

    if (from == to)
        return parts;
    for (uint64_t i = 0; i < 64; i++)
        if (parts >> i & 1)
            result |= usedparts_of(to, i << from, ((i + 1) << from) - 1);
    return result;
}

uint64_t usedparts_resized(uint64_t parts, uint64_t from, uint64_t to)
{
    return convert(parts & within(from), usedparts_shift(from), usedparts_shift(to)) & within(to);
}

uint64_t usedparts_bytes(uint64_t parts, uint64_t size)
{
    uint8_t shift = usedparts_shift(size);
    uint64_t last, used;

    if (size == 0)
        return 0;
    last = (size - 1) >> shift;
    used = (uint64_t)bits_count(parts & within(size)) << shift;
    if (parts >> last & 1)
        used -= ((last + 1) << shift) - size;
    return used;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t usedparts_extent(uint64_t parts, uint64_t size)
{
    uint64_t used = parts & within(size);

    return used ? least((uint64_t)(64 - __builtin_clzll(used)) << usedparts_shift(size), size) : 0;
}

/* The next multiple of 2^shift; UINT64_MAX if there is none. */
static uint64_t round_up(uint64_t value, uint8_t shift)
{
    uint64_t rest = ((uint64_t)1 << shift) - 1;

    return value > UINT64_MAX - rest ? UINT64_MAX : (value + rest) & ~rest;
}

/* The block shrinks to a size: parts that begin after its end are lost, whatever later Resizes do. */
static void cut(struct usedparts_map *m, uint64_t size)
{
    m->end = least(m->end, round_up(size, usedparts_shift(size)));
    m->kept = least(m->kept, round_up(m->end, m->coarse));
}

void usedparts_map_add(struct usedparts_map *m, uint64_t from, uint64_t to)
{
    uint8_t shift = usedparts_shift(to);

    if (!m->changes) {
        uint8_t first = usedparts_shift(from);

        *m = (struct usedparts_map){UINT64_MAX, UINT64_MAX, first, first, true};
        cut(m, from);
    }
    m->coarse = shift > m->coarse ? shift : m->coarse;
    m->end = round_up(m->end, shift);
    cut(m, to);
}

uint64_t usedparts_mapped(const struct usedparts_map *m, uint64_t parts, uint64_t size)
{
    uint64_t result = 0, around = ((uint64_t)1 << m->coarse) - 1;
    uint8_t shift = usedparts_shift(size);

    if (!m->changes)
        return parts;
    for (uint64_t i = 0; i < 64; i++) {
        uint64_t at = i << m->first, begin = at & ~around;

        if ((parts >> i & 1) && at < m->kept)
            result |= usedparts_of(shift, begin, least(begin + around, m->end - 1));
    }
    return result & within(size);
}
