/* filling.h - which bytes of a block does a system call fill?
 *
 * Each call is made twice, on the first ROOM bytes of a block of its own (FIRST_SIZE bytes, one more for each
 * call), which hold one value before the first and another before the second: a byte that is not the value
 * afterwards was written. A line for each call: `size name result offset...`. Only the kernel knows
 * what it does. Each program has one table of calls, so that all it needs is static.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef REGTEST_FILLING_H
#define REGTEST_FILLING_H

#include "ljtrace/ljtrace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 512, FIRST_SIZE = 50001 };

struct filling {
    const char *name;
    long (*call)(void);
};

static char *b; /* what the call is to fill */

/* Only what the kernel does is recorded: accesses are on for the call alone. */
static void fill(size_t size, const struct filling *f)
{
    static const unsigned char filler[2] = {0xa5, 0x5a};
    char written[ROOM] = {0};
    long result = 0;
    b = malloc(size);
    for (int turn = 0; turn < 2; turn++) {
        memset(b, filler[turn], ROOM);
        LJTRACE_START();
        result = f->call();
        LJTRACE_STOP();
        for (int at = 0; at < ROOM; at++)
            written[at] |= (unsigned char)b[at] != filler[turn];
    }
    printf("%zu %s %ld", size, f->name, result);
    for (int at = 0; at < ROOM; at++)
        if (written[at])
            printf(" %d", at);
    puts("");
}

static void fill_all(const struct filling *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fill(FIRST_SIZE + i, &calls[i]);
}

#endif
