/* unit_ranges.h - which unit of an object's debug information has an address, without reading the units.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_SYMBOLS_UNIT_RANGES_H
#define LJTRACE_SYMBOLS_UNIT_RANGES_H

#include "ljtrace/symbols/nesting.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read a section .debug_aranges: the values of the ranges are offsets of units. Returns false if it is damaged, has a form
 * that is not read here, or there is no memory. */
bool unit_ranges_read(struct nesting *ranges, const uint8_t *section, size_t size);
/* The offset of the only unit that has an address. NESTING_NONE: there is none, or more than one. */
uint32_t unit_ranges_find(const struct nesting *ranges, uint64_t address);
/* Can entries of a unit refer to entries of other units? To be read from a section .debug_abbrev. True also if it is
 * damaged. */
bool unit_ranges_abbrevs_refer(const uint8_t *section, size_t size);

#endif
