/* error.h - fill a sticky `struct mt_error`.
 *
 * The first error wins: what follows it is only its echo. Not for messages to users; callers print.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_ERROR_H
#define MEMTRACE_BASE_ERROR_H

#include "memtrace/memtrace.h"

/* Remember an error unless one is there already. Returns MT_ERROR, so that callers can return it. */
int mt_fail(struct mt_error *err, enum mt_error_code code, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for running out of memory. */
int mt_fail_memory(struct mt_error *err);

#endif
