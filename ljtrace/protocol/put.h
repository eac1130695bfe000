/* put.h - inline functions that append a record to a ring: ring_put_NAME(const struct ring_NAME *).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Generated from ljtrace/protocol/ring.def for both recorders. The file that includes this defines before:
 *     RING_RESERVE(bytes)      where the next record begins, with room for so many bytes: raw_word *
 *     RING_COMMIT(bytes)       the record is complete
 *     RING_COPY(to, from, n)   memcpy
 */
#ifndef LJTRACE_PROTOCOL_PUT_H
#define LJTRACE_PROTOCOL_PUT_H

#include "ljtrace/protocol/ring.h"

/* A record in parts, on its way into the ring. The compiler knows all but the contents: nothing of this remains. */
struct ring_record {
    uint32_t argument, small, slot;
    uint32_t words, texts, item_words;
    uint64_t word[8];
    struct raw_text text[2];
    const uint64_t *item;
};

static inline __attribute__((always_inline)) void ring_append(enum raw_type type, const struct ring_record *p)
{
    uint32_t text_bytes = 0, used = 0;
    for (uint32_t i = 0; i < p->texts; i++)
        text_bytes += p->text[i].bytes;
    const uint32_t count = p->words + (text_bytes + 7) / 8 + p->item_words,
                   bytes = (1 + count) * sizeof(uint64_t);
    raw_word *at = RING_RESERVE(bytes);
    at[0] = raw_heap_header(type, p->argument, p->slot, p->small, count);
    for (uint32_t i = 0; i < p->words; i++)
        at[1 + i] = p->word[i];
    for (uint32_t i = 0; i < p->texts; used += p->text[i++].bytes)
        RING_COPY((char *)(at + 1 + p->words) + used, p->text[i].at, p->text[i].bytes);
    for (uint32_t i = 0; i < p->item_words; i++)
        at[1 + p->words + i] = p->item[i];
    RING_COMMIT(bytes);
}

#define RECORD(NAME, name, fields)                                                                           \
    static inline __attribute__((always_inline)) void ring_put_##name(const struct ring_##name *r)           \
    {                                                                                                        \
        struct ring_record p = {0};                                                                          \
        (void)r;                                                                                             \
        fields ring_append(RAW_##NAME, &p);                                                                  \
    }
#define ARGUMENT(x) p.argument = r->x;
#define SMALL(x) p.small = r->x;
#define IN_HEAP(x) p.slot = r->x;
#define WORD(x) p.word[p.words++] = r->x;
#define PAIR(x, y) p.word[p.words++] = raw_pair(r->x, r->y);
#define TEXT(x)                                                                                              \
    p.word[p.words++] = r->x.bytes;                                                                          \
    p.text[p.texts++] = r->x;
#define TEXTS(x, y)                                                                                          \
    p.word[p.words++] = raw_pair(r->x.bytes, r->y.bytes);                                                    \
    p.text[p.texts++] = r->x;                                                                                \
    p.text[p.texts++] = r->y;
#define ITEMS(type, x)                                                                                       \
    p.item = (const uint64_t *)r->x;                                                                         \
    p.item_words = r->x##_count * (sizeof(type) / sizeof(uint64_t));
#define STACK(x)                                                                                             \
    p.argument = r->x.number;                                                                                \
    p.item = r->x.ips;                                                                                       \
    p.item_words = r->x.number ? 0 : r->x.depth;
#include "ljtrace/protocol/ring.def"

#endif
