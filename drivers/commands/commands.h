/* commands.h - the things steve-replay does, one file each. They return the exit status.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_COMMANDS_COMMANDS_H
#define DRIVERS_COMMANDS_COMMANDS_H

#include "drivers/supervisor/options.h"

int mode_list(const struct options *o);       /* list.c */
int mode_peakmem(const struct options *o);    /* peakmem.c */
int mode_allocstats(const struct options *o); /* allocstats.c */
int mode_documented(const struct options *o); /* legacy_allocstats.c: --allocstats with six arguments */
int mode_min_heap(const struct options *o);   /* min_heap.c */
int mode_memplot(const struct options *o);    /* memplot.c */

#endif
