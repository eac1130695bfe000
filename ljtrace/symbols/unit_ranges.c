/* unit_ranges.c - see unit_ranges.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/unit_ranges.h"
#include <dwarf.h>
#include <string.h>

/* A table of .debug_aranges is one unit's. */
enum { HEADER_BYTES = 12, ADDRESS_BYTES = 8, PAIR_BYTES = 2 * ADDRESS_BYTES };

struct header {
    uint32_t length; /* of what follows */
    uint16_t version;
    uint32_t unit;
    uint8_t address_bytes, segment_bytes;
};

static struct header header_at(const uint8_t *at)
{
    struct header h = {.address_bytes = at[10], .segment_bytes = at[11]};
    memcpy(&h.length, at, sizeof h.length);
    memcpy(&h.version, at + 4, sizeof h.version);
    memcpy(&h.unit, at + 6, sizeof h.unit);
    return h;
}

/* Add the pairs of address and length of one table. */
static bool add_pairs(struct nesting *ranges, const uint8_t *at, const uint8_t *end, uint32_t unit)
{
    for (; end - at >= PAIR_BYTES; at += PAIR_BYTES) {
        uint64_t from, length;
        memcpy(&from, at, sizeof from);
        memcpy(&length, at + ADDRESS_BYTES, sizeof length);
        if (length && (from + length < from || !nesting_add(ranges, from, from + length, unit)))
            return false;
    }
    return true;
}

bool unit_ranges_read(struct nesting *ranges, const uint8_t *section, size_t size)
{
    size_t at = 0;
    while (at < size) {
        if (size - at < HEADER_BYTES)
            return false;
        const struct header h = header_at(section + at);
        /* A length of 0xffffffff announces the form with 64 bits. */
        if (h.length < HEADER_BYTES - 4 || h.length > size - at - 4 || h.version != 2 ||
            h.address_bytes != ADDRESS_BYTES || h.segment_bytes != 0)
            return false;
        const size_t end = at + 4 + h.length;
        const size_t pairs = at + (HEADER_BYTES + PAIR_BYTES - 1) / PAIR_BYTES * PAIR_BYTES;
        if (pairs < end && !add_pairs(ranges, section + pairs, section + end, h.unit))
            return false;
        at = end;
    }
    nesting_sort(ranges);
    return true;
}

uint32_t unit_ranges_find(const struct nesting *ranges, uint64_t address)
{
    uint32_t at = NESTING_NONE, other;
    const uint32_t unit = nesting_next(ranges, address, &at);
    if (unit == NESTING_NONE)
        return NESTING_NONE;
    while ((other = nesting_next(ranges, address, &at)) != NESTING_NONE)
        if (other != unit)
            return NESTING_NONE;
    return unit;
}

/* -- abbreviations -- */

/* Read a number of LEB128. Returns false at the end of the section. */
static bool take(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    unsigned shift = 0;
    *number = 0;
    while (*at < end) {
        const uint8_t byte = *(*at)++;
        if (shift < 64)
            *number |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool leads_out(uint64_t form)
{
    return form == DW_FORM_ref_addr || form == DW_FORM_ref_sig8 || form == DW_FORM_GNU_ref_alt ||
           form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8 || form == DW_FORM_indirect;
}

/* Read the attributes of an abbreviation. Returns false if one can refer to another unit. */
static bool pass_attributes(const uint8_t **at, const uint8_t *end)
{
    uint64_t name, form, constant;
    for (;;) {
        if (!take(at, end, &name) || !take(at, end, &form))
            return false;
        if (name == 0 && form == 0)
            return true;
        if (leads_out(form) || (form == DW_FORM_implicit_const && !take(at, end, &constant)))
            return false;
    }
}

bool unit_ranges_abbrevs_refer(const uint8_t *section, size_t size)
{
    const uint8_t *at = section, *const end = section + size;
    uint64_t code, tag;
    while (at < end) {
        if (!take(&at, end, &code))
            return true;
        if (code == 0) /* the end of a unit's table */
            continue;
        if (!take(&at, end, &tag) || at == end)
            return true;
        at++; /* whether it has children */
        if (!pass_attributes(&at, end))
            return true;
    }
    return false;
}
