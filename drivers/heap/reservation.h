/* reservation.h - addresses that an allocator reserves far beyond the heap's size, to use a little of them.
 *
 * An allocator of this habit maps, say, 180 GiB that cannot be accessed, and later maps parts of it anew to
 * be used. The reservation costs nothing and is the kernel's; the parts are counted by the region as what the
 * allocator has taken of its heap. For pictures, they are thought of as lying one behind the other from the
 * heap's start, in the order in which they were made usable. There is one reservation in a process.
 *
 * Results are as the kernel gives them: an address or 0, or a negative errno.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_RESERVATION_H
#define DRIVERS_HEAP_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>

/* Reserve; -ENOMEM if there is a reservation already. */
long reservation_reserve(size_t length);
/* Does the address lie in the reservation, used or not? */
bool reservation_contains(const void *p);
/* Pages of a range in the reservation that are not usable yet. */
size_t reservation_missing(const void *p, size_t length);
/* Make a range in the reservation usable, with fresh pages. */
long reservation_use(void *p, size_t length);
/* Take a range out of use; *pages: how many were in use. */
long reservation_drop(void *p, size_t length, size_t *pages);
/* Is all of a range in use? */
bool reservation_holds(const void *p, size_t length);
/* The place of an address in use, in bytes, as thought of in pictures. */
size_t reservation_offset(const void *p);
/* Pages in use that are in memory now. */
size_t reservation_resident(void);

#endif
