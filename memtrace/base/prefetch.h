/* prefetch.h - prefetches memory that will soon be needed.
 *
 * gcc 12 regards a function that only calls __builtin_prefetch as one without effect and drops calls of it. The empty
 * asm prevents that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_BASE_PREFETCH_H
#define MEMTRACE_BASE_PREFETCH_H

__attribute__((always_inline)) static inline void fetch_soon(const void *p)
{
    __builtin_prefetch(p, 1);
    __asm__ volatile("");
}

#endif
