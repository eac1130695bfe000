/* error.h - stores the first error in a `struct mt_error`.
 *
 * Later errors are ignored, because they are mostly consequences of the first one. Nothing is printed here; callers
 * print messages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_ERROR_H
#define MEMTRACE_BASE_ERROR_H

#include "memtrace/memtrace.h"

/* Store an error unless one is stored already. Returns MT_ERROR, so that callers can return it. */
int mt_fail(struct mt_error *err, enum mt_error_code code, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for "out of memory". */
int mt_fail_memory(struct mt_error *err);

#endif
