/* glibc_heap.h - which blocks the malloc of glibc has given to the program, by its own lists and chunk headers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * glibc_heap_find and glibc_heap_is_quiet may be called in the program. The rest changes memory, so it is called only in a copy
 * of the process (copy.h), whose memory is its own.
 */
#ifndef LJTRACE_NATIVE_INSIDE_GLIBC_HEAP_H
#define LJTRACE_NATIVE_INSIDE_GLIBC_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Find the arenas. Returns NULL, or why there are none that are known. */
const char *glibc_heap_find(void);
/* Is no thread inside malloc with the lock of an arena? */
bool glibc_heap_is_quiet(void);

/* In the copy: check everything before any of it is believed. Returns NULL, or what is not as it should be. */
const char *glibc_heap_check(void);
/* Then call `visit` for each block: its address, and how many bytes of it may be used. */
void glibc_heap_walk(void (*visit)(uint64_t addr, uint64_t size));
/* How many blocks that are mappings of their own were not found: glibc counts them, but has no list of them. They are all left
 * out then. */
uint64_t glibc_heap_missing(void);

#endif
