/* commands.h - the commands of steve-replay, one file each. They return the exit status.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_COMMANDS_COMMANDS_H
#define DRIVERS_COMMANDS_COMMANDS_H

#include "drivers/supervisor/options.h"

int command_list(const struct options *o);       /* list.c */
int command_peakmem(const struct options *o);    /* peakmem.c */
int command_allocstats(const struct options *o); /* allocstats.c */
int command_legacy_allocstats(
    const struct options *o);                  /* legacy_allocstats.c: --allocstats with six arguments */
int command_min_heap(const struct options *o); /* min_heap.c */
int command_check(const struct options *o);    /* check.c */
int command_measure(const struct options *o);  /* measure.c */
int command_places(const struct options *o);   /* places.c */
int command_system(const struct options *o);   /* system.c */
int command_run(const struct options *o);      /* run_program.c */
int command_memplot(const struct options *o);  /* memplot.c */

#endif
