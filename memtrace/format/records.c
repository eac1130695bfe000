/* records.c - records as text, one line each: the dump that goldens are made of.
 *
 * The line of a record is its name, its id if it has one, and `field=value` for each field, in the order of
 * records.def. Text is quoted; what is not printable ASCII, and `"` and `\`, are written as \xNN.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/format/records.h"

#include <inttypes.h>
#include <stdio.h>

uint8_t kinds_in_table(const int8_t *table, size_t n, uint32_t version)
{
    uint8_t kinds = 0;
    for (size_t i = 0; i < n && (table[i] > 0 || (uint32_t)-table[i] <= version); i++)
        kinds += table[i] > 0;
    return kinds;
}

uint8_t kinds_of_version(uint32_t version)
{
    static const int8_t table[] = {
#define MT_SINCE(version) -(version),
#define MT_KIND(NAME, name, shown) 1,
#include "memtrace/kinds.def"
    };
    return kinds_in_table(table, sizeof table, version);
}

void line_start(struct line *l, const char *name, uint64_t id)
{
    l->len = (size_t)snprintf(l->text, 64, "%s", name);
    if (id != NO_ID)
        line_number(l, "id", id);
}

void line_number(struct line *l, const char *field, uint64_t v)
{
    l->len += (size_t)snprintf(l->text + l->len, 64, " %s=%" PRIu64, field, v);
}

void line_hex(struct line *l, const char *field, uint64_t v)
{
    l->len += (size_t)snprintf(l->text + l->len, 64, " %s=0x%" PRIx64, field, v);
}

void line_word(struct line *l, const char *field, const char *word)
{
    l->len += (size_t)snprintf(l->text + l->len, 64, " %s=%s", field, word);
}

static size_t escape(char *to, unsigned char c)
{
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
        *to = (char)c;
        return 1;
    }
    return (size_t)snprintf(to, 5, "\\x%02x", c);
}

static void line_text(struct line *l, const char *field, struct text v)
{
    l->len += (size_t)snprintf(l->text + l->len, 64, " %s=\"", field);
    for (uint64_t i = 0; i < v.len && l->len + 64 < LINE_MAX_BYTES; i++)
        l->len += escape(l->text + l->len, (unsigned char)v.bytes[i]);
    l->text[l->len++] = '"';
    l->text[l->len] = 0;
}

static void line_bytes(struct line *l, const char *field, struct text v)
{
    l->len += (size_t)snprintf(l->text + l->len, 64, " %s=", field);
    for (uint64_t i = 0; i < v.len && l->len + 64 < LINE_MAX_BYTES; i++)
        l->len += (size_t)snprintf(l->text + l->len, 3, "%02x", (unsigned char)v.bytes[i]);
}

static void line_counts(struct line *l, struct counts v)
{
    const unsigned kinds = v.kinds ? v.kinds : MT_KINDS;
    for (unsigned kind = 0; kind < kinds; kind++)
        line_number(l, mt_kind_name((enum mt_kind)kind), v.of[kind]);
}

#define LINE_U line_number
#define LINE_T line_number
#define LINE_STRING line_number
#define LINE_FRAME line_number
#define LINE_STACK line_number
#define LINE_SITE line_number
#define LINE_X line_hex
#define LINE_A line_hex
#define LINE_IP line_hex
#define LINE_Z(l, field, v) line_hex(l, field, (uint64_t)(v))
#define LINE_TEXT line_text
#define LINE_BYTES line_bytes
#define LINE_KIND(l, field, v) line_word(l, field, mt_kind_name((enum mt_kind)(v)))
#define LINE_HOW(l, field, v) line_word(l, field, mt_how_name((enum mt_how)(v)))
#define LINE_HEAPKIND(l, field, v) line_word(l, field, mt_heap_kind_name((enum mt_heap_kind)(v)))
#define LINE_FRAMEKIND(l, field, v) line_word(l, field, mt_frame_kind_name((enum mt_frame_kind)(v)))
#define LINE_TYPE(l, field, v) line_word(l, field, mt_type_name((enum mt_type)(v)))
#define LINE_REACH(l, field, v) line_word(l, field, mt_reach_name((enum mt_reach)(v)))
#define LINE_VM(l, field, v) line_word(l, field, mt_vm_name((enum mt_vm)(v)))
#define LINE_LINKKIND(l, field, v) line_word(l, field, mt_link_kind_name((enum mt_link_kind)(v)))
#define LINE_COUNTS(l, field, v) line_counts(l, v)
#define LINE_ENDING(l, field, v) line_word(l, field, mt_ending_name((enum mt_ending)(v)))
#define F(field, coding) LINE_##coding(l, #field, r->field);
#define RECORD(NAME, name, code, fields)                                                                     \
    void dump_##name(struct line *l, uint64_t id, const struct rec_##name *r)                                \
    {                                                                                                        \
        (void)r;                                                                                             \
        line_start(l, #name, id);                                                                            \
        fields                                                                                               \
    }
#include "memtrace/format/records.def"
#undef F
