/* uncompressed.h - copies of object files with sections that were compressed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libelf reads sections compressed by zstd only since its version 0.189. It reads those compressed by zlib, but each as a
 * whole. If .debug_info is large, it is decompressed here as far as it is read.
 */
#ifndef LJTRACE_SYMBOLS_UNCOMPRESSED_H
#define LJTRACE_SYMBOLS_UNCOMPRESSED_H

#include "ljtrace/symbols/inflating.h"

/* The sections that are decompressed as far as they are read: .debug_info and .debug_line. */
enum uncompressed_part { PART_INFO, PART_LINES, PARTS };

/* If the file has sections compressed by zstd, or a large .debug_info compressed by zlib, return a descriptor of a copy in
 * memory in which no section is compressed; the caller closes it. Else, or if they cannot be decompressed, return -1.
 * parts: NULL = files compressed by zlib are not copied. Else they become the sections of the copy that have to be
 * decompressed before they are read, or NULL if all of a section is there. With a part, the copy has no lists of
 * locations. */
int uncompressed_copy(int fd, struct inflating *parts[PARTS]);

#endif
