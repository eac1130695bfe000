/* reservation.h - address space that an allocator reserves beyond the size of the heap, to use a small part of it.
 *
 * Such an allocator maps, say, 180 GiB of inaccessible memory and later makes parts of it usable. The reservation costs
 * nothing and is served by the kernel; the region counts the usable parts as heap that is in use. In pictures these
 * parts follow one another from the start of the heap, in the order in which they were made usable. There is one
 * reservation in a process.
 *
 * Results are those of the kernel: an address or 0, or a negative errno.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_RESERVATION_H
#define DRIVERS_HEAP_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>

/* Make the reservation. -ENOMEM if there is one already. */
long reservation_reserve(size_t length);
/* Is the address in the reservation, usable or not? */
bool reservation_contains(const void *p);
/* Number of pages of a range in the reservation that are not usable yet. */
size_t reservation_missing(const void *p, size_t length);
/* Make a range in the reservation usable, with new pages. */
long reservation_use(void *p, size_t length);
/* Make a range unusable again. *pages is the number of its pages that were usable. */
long reservation_drop(void *p, size_t length, size_t *pages);
/* Is the whole range usable? */
bool reservation_is_usable(const void *p, size_t length);
/* Position of a usable address in pictures, in bytes. */
size_t reservation_offset(const void *p);
/* Number of usable pages that are in memory. */
size_t reservation_resident(void);

#endif
