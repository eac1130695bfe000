/* unwind_check.h - compare the unwinder of ljtrace/native with the one of libgcc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libgcc is slow and follows the tables by other code, so it is the reference.
 */
#ifndef LJTRACE_TEST_UNWIND_CHECK_H
#define LJTRACE_TEST_UNWIND_CHECK_H

#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>

#include "ljtrace/native/unwind.h"

enum { CHECK_DEPTH = 300 };

/* The first difference of two stacks of this function's frame, or -1. The return address of each frame must also lie
 * just below its stack pointer, unless the kernel has called the frame inside of it. */
static inline __attribute__((always_inline)) int unwind_difference(uint64_t *ips, uint64_t *sps, uint32_t *n)
{
    void *expected[CHECK_DEPTH];
    const int depth = backtrace(expected, CHECK_DEPTH);
    *n = native_unwind(NULL, ips, sps, CHECK_DEPTH + 1);
    /* frame 0 is the function around this: the two were called at different places of it. native_unwind's own frame is
     * not in its stack, and neither is that of backtrace. */
    for (int i = 1; i < depth || i < (int)*n; i++) {
        if (i == CHECK_DEPTH)
            break;
        if (i >= depth || i >= (int)*n)
            return i;
        const uint64_t address = (uint64_t)(uintptr_t)expected[i];
        uint64_t below;
        __builtin_memcpy(&below, (const void *)(uintptr_t)(sps[i] - 8), 8);
        if (ips[i] != address && (ips[i] != address - 1 || below != address))
            return i;
    }
    return -1;
}

#endif
