/* prefetch.h - ask for memory that will soon be needed.
 *
 * gcc 12 takes a function that does nothing but __builtin_prefetch for one without effect and drops its
 * calls; of an empty asm it does not know that.
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
