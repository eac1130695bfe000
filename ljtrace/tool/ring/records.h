/* records.h - a put function for each record of the ring. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Generated from ljtrace/protocol/ring.def: a field that a record does not have is an error of the compiler.
 * lt_put_fast_NAME is inline, for heap events; of all records but the FAST_RECORDs there is a function
 * lt_ring_put_NAME.
 */
#ifndef LJTRACE_TOOL_RING_RECORDS_H
#define LJTRACE_TOOL_RING_RECORDS_H

#include "ljtrace/tool/ring/ring.h"
#include "pub_tool_libcbase.h"

/* Append a record: RING_PUT(mark, .instructions = n, .name = lt_text(name)). Fields not given are 0. */
#define RING_PUT(name, ...) lt_ring_put_##name(&(struct ring_##name){__VA_ARGS__})

#define RECORD(NAME, name, fields) void lt_ring_put_##name(const struct ring_##name *r);
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

static inline struct raw_text lt_text_of(const HChar *text, UInt bytes)
{
    return (struct raw_text){text, bytes};
}
static inline struct raw_text lt_text(const HChar *text)
{
    return lt_text_of(text, VG_(strlen)(text));
}

/* A record in parts, on its way into the ring. The compiler knows all but the contents: nothing of this remains. */
struct lt_record {
    UInt argument, small, slot;
    UInt words, texts, item_words;
    uint64_t word[8];
    struct raw_text text[2];
    const uint64_t *item;
};

static inline __attribute__((always_inline)) void lt_put_record(enum raw_type type, const struct lt_record *p)
{
    UInt text_bytes = 0, used = 0;
    for (UInt i = 0; i < p->texts; i++)
        text_bytes += p->text[i].bytes;
    const UInt count = p->words + (text_bytes + 7) / 8 + p->item_words, bytes = (1 + count) * sizeof(ULong);
    raw_word *at = lt_ring_reserve(bytes);
    at[0] = raw_heap_header(type, p->argument, p->slot, p->small, count);
    for (UInt i = 0; i < p->words; i++)
        at[1 + i] = p->word[i];
    for (UInt i = 0; i < p->texts; used += p->text[i++].bytes)
        VG_(memcpy)((HChar *)(at + 1 + p->words) + used, p->text[i].at, p->text[i].bytes);
    for (UInt i = 0; i < p->item_words; i++)
        at[1 + p->words + i] = p->item[i];
    lt_ring_commit(bytes);
}

#define RECORD(NAME, name, fields)                                                                           \
    static inline __attribute__((always_inline)) void lt_put_fast_##name(const struct ring_##name *r)        \
    {                                                                                                        \
        struct lt_record p = {0};                                                                            \
        (void)r;                                                                                             \
        fields lt_put_record(RAW_##NAME, &p);                                                                \
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
