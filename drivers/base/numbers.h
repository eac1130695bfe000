/* numbers.h - numbers on the command line, read strictly: all of the text, no sign, no overflow.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_NUMBERS_H
#define DRIVERS_BASE_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

bool number_read(const char *text, uint64_t *out);
bool bytes_read(const char *text, uint64_t *out); /* 4096, 64K, 16M, 1G; powers of 1024 */
bool factor_read(const char *text, double *out);  /* 4x, 1.5x; above 0, at most 1000000 */

#endif
