/* json.h - text in quotes, for JSON and for the Python literals of result files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_JSON_H
#define DRIVERS_BASE_JSON_H

#include <stdio.h>

/* Write text as a quoted string that JSON and Python both read; bytes that are not ASCII are kept. */
void json_string(FILE *out, const char *text);

#endif
