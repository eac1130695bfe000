/* sandbox_watch.h - how many seccomp filters do the threads of a process have?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_COLLECTOR_SANDBOX_WATCH_H
#define LJTRACE_COLLECTOR_SANDBOX_WATCH_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

struct sandbox_watch {
    int pid;
    DIR *threads; /* the place of the next look; NULL = at the first thread */
};

/* Look at some threads of the process, and at others the next time. Returns true if one has more filters than `known`. */
bool sandbox_watch_look(struct sandbox_watch *w, uint32_t known);

#endif
