/* expected.h - three blocks, and the accesses to them that a trace must hold, in order; for pattern.c and
 * wide.c.
 *
 * Expected events are kept in a static array and printed at the end: the blocks are touched by nothing else.
 * Output: `B block address size` for each block, then `LETTER block offset size` for each event.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef REGTEST_EXPECTED_H
#define REGTEST_EXPECTED_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 3, MAX_EVENTS = 4096 };

static const size_t s_size[BLOCKS] = {70001, 70003, 70005};
static char *s_block[BLOCKS];
static struct {
    char kind;
    int block;
    size_t offset;
    size_t size;
} s_event[MAX_EVENTS];
static int s_events;

static void expect(char kind, int block, size_t offset, size_t size)
{
    if (s_events == MAX_EVENTS)
        abort();
    s_event[s_events].kind = kind;
    s_event[s_events].block = block;
    s_event[s_events].offset = offset;
    s_event[s_events++].size = size;
}

static void report(void)
{
    for (int i = 0; i < BLOCKS; i++)
        printf("B %d %" PRIuPTR " %zu\n", i, (uintptr_t)s_block[i], s_size[i]);
    for (int i = 0; i < s_events; i++)
        printf("%c %d %zu %zu\n", s_event[i].kind, s_event[i].block, s_event[i].offset, s_event[i].size);
}

#endif
