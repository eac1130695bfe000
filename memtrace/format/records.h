/* records.h - what records.def becomes in C: codes, structs, encoders, decoders.
 *
 * put_NAME appends code and fields to a buffer; get_NAME reads the fields (the code is read before, to
 * know what follows) and says whether all were there. No meaning is checked here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FORMAT_RECORDS_H
#define MEMTRACE_FORMAT_RECORDS_H

#include "memtrace/base/buffer.h"
#include "memtrace/memtrace.h"

struct text {
    const char *bytes;
    uint64_t len;
};

/* The number of events of each kind. `kinds`: how many of them a record has, as in struct cursor. */
struct counts {
    uint64_t of[MT_KINDS];
    uint8_t kinds;
};

/* How many kinds files of a format version count. */
uint8_t kinds_of_version(uint32_t version);
/* The same for any table: 1 is a kind, and after -VERSION are kinds that only this version and later ones have. */
uint8_t kinds_in_table(const int8_t *table, size_t n, uint32_t version);

/* A fact about the recording, by string ids. */
struct info {
    uint32_t key, value;
};

/* -- codes and structs -- */
enum record_code {
#define RECORD(NAME, name, code, fields) REC_##NAME = code,
#include "memtrace/format/records.def"
};

#define FIELD_U uint64_t
#define FIELD_X uint64_t
#define FIELD_STRING uint64_t
#define FIELD_FRAME uint64_t
#define FIELD_STACK uint64_t
#define FIELD_SITE uint64_t
#define FIELD_Z int64_t
#define FIELD_A uint64_t
#define FIELD_IP uint64_t
#define FIELD_T uint64_t
#define FIELD_TEXT struct text
#define FIELD_BYTES struct text
#define FIELD_KIND uint64_t
#define FIELD_HOW uint64_t
#define FIELD_HEAPKIND uint64_t
#define FIELD_ENDING uint64_t
#define FIELD_FRAMEKIND uint64_t
#define FIELD_TYPE uint64_t
#define FIELD_REACH uint64_t
#define FIELD_VM uint64_t
#define FIELD_LINKKIND uint64_t
#define FIELD_COUNTS struct counts

#define F(field, coding) FIELD_##coding field;
#define RECORD(NAME, name, code, fields)                                                                     \
    struct rec_##name {                                                                                      \
        fields                                                                                               \
    };
#include "memtrace/format/records.def"
#undef F

/* -- field codings -- */
static inline void put_U(struct buffer *b, uint64_t v)
{
    buffer_uvarint(b, v);
}

static inline void put_X(struct buffer *b, uint64_t v)
{
    buffer_uvarint(b, v);
}

static inline void put_Z(struct buffer *b, int64_t v)
{
    buffer_uvarint(b, zigzag(v));
}

static inline void put_A(struct buffer *b, uint64_t v)
{
    put_Z(b, (int64_t)(v - b->addr));
    b->addr = v;
}

static inline void put_IP(struct buffer *b, uint64_t v)
{
    put_Z(b, (int64_t)(v - b->ip));
    b->ip = v;
}

static inline void put_T(struct buffer *b, uint64_t v)
{
    buffer_uvarint(b, v - b->time);
    b->time = v;
}

static inline void put_TEXT(struct buffer *b, struct text v)
{
    buffer_uvarint(b, v.len);
    buffer_append(b, v.bytes, v.len);
}

static inline void put_COUNTS(struct buffer *b, struct counts v)
{
    const unsigned kinds = v.kinds ? v.kinds : MT_KINDS;
    for (unsigned kind = 0; kind < kinds; kind++)
        put_U(b, v.of[kind]);
}

#define put_BYTES put_TEXT
#define put_STRING put_U
#define put_FRAME put_U
#define put_STACK put_U
#define put_SITE put_U
#define put_KIND put_U
#define put_HOW put_U
#define put_HEAPKIND put_U
#define put_ENDING put_U
#define put_FRAMEKIND put_U
#define put_TYPE put_U
#define put_REACH put_U
#define put_VM put_U
#define put_LINKKIND put_U

static inline uint64_t get_U(struct cursor *c)
{
    return cursor_uvarint(c);
}

static inline uint64_t get_X(struct cursor *c)
{
    return cursor_uvarint(c);
}

static inline int64_t get_Z(struct cursor *c)
{
    return unzigzag(cursor_uvarint(c));
}

static inline uint64_t get_A(struct cursor *c)
{
    return c->addr += (uint64_t)unzigzag(cursor_uvarint_any(c));
}

static inline uint64_t get_IP(struct cursor *c)
{
    return c->ip += (uint64_t)get_Z(c);
}

static inline uint64_t get_T(struct cursor *c)
{
    return c->time += cursor_uvarint(c);
}

static inline struct text get_TEXT(struct cursor *c)
{
    struct text t = {.len = cursor_uvarint(c)};
    t.bytes = (const char *)c->p;
    if (t.len > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        t.len = 0;
    }
    c->p += t.len;
    return t;
}

static inline struct counts get_COUNTS(struct cursor *c)
{
    struct counts v = {.kinds = c->kinds};
    const unsigned kinds = c->kinds ? c->kinds : MT_KINDS;
    for (unsigned kind = 0; kind < kinds; kind++)
        v.of[kind] = get_U(c);
    return v;
}

#define get_BYTES get_TEXT
#define get_STRING get_U
#define get_FRAME get_U
#define get_STACK get_U
#define get_SITE get_U
#define get_KIND get_U
#define get_HOW get_U
#define get_HEAPKIND get_U
#define get_ENDING get_U
#define get_FRAMEKIND get_U
#define get_TYPE get_U
#define get_REACH get_U
#define get_VM get_U
#define get_LINKKIND get_U

/* -- records -- */
#define F(field, coding) put_##coding(b, r->field);
#define RECORD(NAME, name, code, fields)                                                                     \
    static inline void put_##name(struct buffer *b, const struct rec_##name *r)                              \
    {                                                                                                        \
        (void)r;                                                                                             \
        buffer_byte(b, code);                                                                                \
        fields                                                                                               \
    }
#include "memtrace/format/records.def"
#undef F

#define F(field, coding) r->field = get_##coding(c);
#define RECORD(NAME, name, code, fields)                                                                     \
    static inline bool get_##name(struct cursor *c, struct rec_##name *r)                                    \
    {                                                                                                        \
        (void)r;                                                                                             \
        fields return !c->bad;                                                                               \
    }
#include "memtrace/format/records.def"
#undef F

/* Is the name of a link of this kind a string? kind: enum mt_link_kind. */
static inline bool link_has_string(uint64_t kind)
{
    return kind == MT_LINK_UPVALUE || kind == MT_LINK_VALUE || kind == MT_LINK_STACK;
}

/* -- dump -- */

/* Room for the longest line: a name and 14 numbers, or a string of MT_MAX_STRING bytes escaped. */
#define LINE_MAX_BYTES (4 * 65536 + 512)

/* A line of the dump being made. */
struct line {
    char *text; /* LINE_MAX_BYTES long */
    size_t len;
};

/* Begin with the record's name and, unless it is NO_ID, its id. */
void line_start(struct line *l, const char *name, uint64_t id);
void line_number(struct line *l, const char *field, uint64_t v);
void line_hex(struct line *l, const char *field, uint64_t v);
void line_word(struct line *l, const char *field, const char *word);

#define NO_ID UINT64_MAX

#define RECORD(NAME, name, code, fields)                                                                     \
    void dump_##name(struct line *l, uint64_t id, const struct rec_##name *r);
#include "memtrace/format/records.def"

#endif
