/* sites.h - the file that says which site made each block, for colours by site.
 *
 * An ops file has no sites. The file has a line with the name of each of at most FILM_SITES sites, an empty line, and for each
 * N of the ops file, in its order, one digit: the number of its site, from 0, or 9 for any other one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_SITES_H
#define DRIVERS_FILM_SITES_H

#include "drivers/base/shared.h"

#include <stdbool.h>

/* Read the names of a file into the job. False after printing an error. */
bool sites_read(const char *path, struct job *job);

/* Without the C library, in the process of the replay: the digits of the blocks, mapped; NULL on error. */
const char *sites_map(const struct job *job);

/* The layer of a block from 0 on, by its digit; FILM_SITES for the others. */
unsigned site_of_digit(char digit, const struct film_size *film);

#endif
