/* set.h - a set of elements that are ordered by a number, without a C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sets hold the prototypes of a program and the lines of a chunk, which are few and change rarely: a sorted array of
 * pointers. An element is memory of host_new that begins with its number. A set that is all 0 is empty.
 */
#ifndef LJTRACE_LUAJIT_BASE_SET_H
#define LJTRACE_LUAJIT_BASE_SET_H

#include <stdint.h>

struct lt_set {
    uint64_t **element;
    uint32_t count, room;
};

/* The element with the highest number that is not above this one; NULL = there is none. */
void *lt_set_below(const struct lt_set *set, uint64_t number);
/* The element with this number; NULL = there is none. */
void *lt_set_find(const struct lt_set *set, uint64_t number);
/* Add an element, whose number no other one has. */
void lt_set_add(struct lt_set *set, void *element);
/* Take an element out of the set. It is not freed. */
void lt_set_remove(struct lt_set *set, const void *element);
/* Free all elements. */
void lt_set_clear(struct lt_set *set);

#endif
