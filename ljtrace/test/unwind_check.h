/* unwind_check.h - compare the unwinder of ljtrace/native with the one of libgcc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libgcc's unwinder is the reference: it interprets the same tables by other code. It is too slow for the recorder.
 */
#ifndef LJTRACE_TEST_UNWIND_CHECK_H
#define LJTRACE_TEST_UNWIND_CHECK_H

#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>

#include "ljtrace/native/unwind/unwind.h"

enum { CHECK_DEPTH = 300 };

/* Unwind the caller's stack in both ways. Returns the number of the first frame in which they differ, or -1. ips and
 * sps, with room for CHECK_DEPTH + 1 frames, and *n get what native_unwind finds. The return address of each frame must
 * also be just below its stack pointer, unless a signal interrupted the frame: both then give its ip as it is. */
static inline __attribute__((always_inline)) int unwind_difference(uint64_t *ips, uint64_t *sps, uint32_t *n)
{
    void *expected[CHECK_DEPTH];
    const int depth = backtrace(expected, CHECK_DEPTH);
    *n = native_unwind(NULL, ips, sps, CHECK_DEPTH + 1);
    /* Frame 0 is the caller, since this function is inlined there; it is not compared, because the two unwinders are
     * called at different places of it. Neither of them includes a frame of its own. */
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
