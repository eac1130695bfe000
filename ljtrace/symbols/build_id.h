/* build_id.h - the build id of an object file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_SYMBOLS_BUILD_ID_H
#define LJTRACE_SYMBOLS_BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

enum { BUILD_ID_MOST = 64 };

/* Read the build id of a file into `id`. Returns its size, 0 if there is none, if it is longer than BUILD_ID_MOST, or
 * if the file cannot be read. */
size_t build_id_read(const char *path, uint8_t id[BUILD_ID_MOST]);
/* The same of a file that is open. */
size_t build_id_of(int fd, uint8_t id[BUILD_ID_MOST]);
/* The same of an object of this processor in memory, of which `image` has the first n bytes; 0 also if the build id is
 * after these. */
size_t build_id_in(const uint8_t *image, size_t n, uint8_t id[BUILD_ID_MOST]);

#endif
