/* writable.h - which memory of the process can be written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_WRITABLE_H
#define LJTRACE_NATIVE_INSIDE_WRITABLE_H

#include <stdbool.h>
#include <stdint.h>

struct writable_range {
    uint64_t from, to;
    bool anonymous; /* it is this process's alone, and of no file */
};

/* Find out which memory can be written at this moment. One thread at a time. Returns false if that is not known. */
bool writable_read(void);
/* Could the byte at this address be written then? */
bool writable_has(uint64_t at);
/* And all bytes before `to`? */
bool writable_has_all(uint64_t at, uint64_t to);
/* All such memory, by address. */
const struct writable_range *writable_ranges(uint32_t *n);

#endif
