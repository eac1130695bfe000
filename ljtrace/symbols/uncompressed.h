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

/* If the file has sections compressed by zstd, or a large .debug_info compressed by zlib, return a descriptor of a copy in
 * memory in which no section is compressed; the caller closes it. Else, or if they cannot be decompressed, return -1.
 * info: NULL = files compressed by zlib are not copied. Else *info becomes the .debug_info of the copy, which has to be
 * decompressed before it is read, or NULL if all of it is there; in the first case, the copy has no lists of locations. */
int uncompressed_copy(int fd, struct inflating **info);

#endif
