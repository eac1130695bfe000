/* sandbox.h - does a seccomp filter permit the system calls of the recorder?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_SANDBOX_H
#define LJTRACE_NATIVE_INSIDE_SANDBOX_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the system calls are needed for; sets of these. */
enum {
    SANDBOX_RECORD = 1,  /* to record events */
    SANDBOX_FORK = 2,    /* to record forked children, too */
    SANDBOX_SAMPLE = 4,  /* to sample stacks */
    SANDBOX_DETACH = 8,  /* to end a recording that was begun by `ljtrace attach` */
    SANDBOX_ATTACH = 16, /* to begin it */
    SANDBOX_PATCH = 32   /* to patch functions of objects that are loaded, for which their files are read */
};

/* The largest number of instructions of a filter. */
enum { SANDBOX_MOST = 4096 };

/* The name of the first system call that is needed and that the filter does not permit; NULL = it permits all. */
const char *sandbox_denies(const struct sock_filter *filter, size_t n, uint32_t uses);
/* Make these system calls, without any effect that lasts, to find out what an unknown filter does. A process that is
 * ended for one of them has its answer. Returns false if one that is essential is refused. */
bool sandbox_try(uint32_t uses);

#endif
