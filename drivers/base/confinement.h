/* confinement.h - names and descriptions of the ways in which an allocator is confined to the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_CONFINEMENT_H
#define DRIVERS_BASE_CONFINEMENT_H

#include <stdbool.h>
#include <stdint.h>

const char *confinement_name(uint32_t c); /* "heap", "symbols", "syscalls", "none" */
const char *confinement_text(uint32_t c); /* a description in one line */
bool is_confined(uint32_t c);             /* does it keep the allocator in the heap? */

#endif
