/* result.h - allocstats result files.
 *
 * The text is what the first Steve wrote, one Python literal per name, with more names and keys:
 *     driver = "dlmalloc"
 *     ...
 *     alloc_stats = [
 *         {'op_index': 0, 'free': 270400, ...}
 *     ,    {...}
 *     ]
 * A file is written to a temporary file and renamed, so that there is never half of one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_COMMANDS_RESULT_H
#define DRIVERS_COMMANDS_RESULT_H

#include "drivers/base/outfile.h"
#include "drivers/supervisor/passes.h"
#include "drivers/supervisor/session.h"

#include <stdio.h>

struct result_file {
    FILE *out;
    struct outfile file;
};

/* Begin to write the file that the options name. Returns EXIT_CONTINUE, or, after printing an error, the exit status. */
int result_begin(struct result_file *f, const struct session *s);
/* Put the file in place, or remove it (result_abandon). On error it is removed, too; prints the error and
 * returns false. */
bool result_finish(struct result_file *f);
void result_abandon(struct result_file *f);

void result_header(FILE *out, const struct session *s, const struct measurements *r);
void result_point(FILE *out, const struct point *p, bool first);

#endif
