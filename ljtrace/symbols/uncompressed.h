/* uncompressed.h - copies of object files with sections that were compressed by zstd.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libelf reads these sections only since its version 0.189. Sections compressed by zlib are read by every libelf.
 */
#ifndef LJTRACE_SYMBOLS_UNCOMPRESSED_H
#define LJTRACE_SYMBOLS_UNCOMPRESSED_H

/* If the file has sections compressed by zstd, return a descriptor of a copy in memory in which they are not
 * compressed; the caller closes it. Else, or if they cannot be decompressed, return -1. */
int uncompressed_copy(int fd);

#endif
