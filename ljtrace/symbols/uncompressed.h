/* uncompressed.h - copies of object files with sections that were compressed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libelf reads sections compressed by zstd only since its version 0.189. It reads those compressed by zlib, but each as a
 * whole. If .debug_info is large, it is decompressed here as far as it is read.
 */
#ifndef LJTRACE_SYMBOLS_UNCOMPRESSED_H
#define LJTRACE_SYMBOLS_UNCOMPRESSED_H

#include <stdbool.h>
#include <stdint.h>

/* -- a section that is decompressed as far as it is read -- */

/* The debug information of the C library is 6 MB, of which its start function is in the first 25 KB. Decompressing all of
 * it takes longer than all else that the recorder does for a short program. */

struct inflating;

void inflating_free(struct inflating *i); /* NULL: does nothing */
/* Decompress the bytes before `end`. Returns false if they cannot be decompressed. */
bool inflating_to(struct inflating *i, uint64_t end);
/* Decompress the bytes up to these, and copy these. Returns false if they cannot be decompressed. */
bool inflating_read(struct inflating *i, uint64_t offset, void *to, uint64_t bytes);
/* Are these the decompressed bytes of the section, as far as there are any? */
bool inflating_is(const struct inflating *i, const void *bytes, uint64_t size);

/* The sections that are decompressed as far as they are read: .debug_info and .debug_line. */
enum uncompressed_part { PART_INFO, PART_LINES, PARTS };

/* If the file has sections compressed by zstd, or a large .debug_info compressed by zlib, return a descriptor of a copy in
 * memory in which no section is compressed; the caller closes it. Else, or if they cannot be decompressed, return -1.
 * parts: NULL = files compressed by zlib are not copied. Else they become the sections of the copy that have to be
 * decompressed before they are read, or NULL if all of a section is there. With a part, the copy has no lists of
 * locations. */
int uncompressed_copy(int fd, struct inflating *parts[PARTS]);

#endif
