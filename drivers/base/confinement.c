/* confinement.c - names and descriptions of the ways in which an allocator is confined to the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/confinement.h"
#include "drivers/sdk/driver.h"

static const struct {
    const char *name, *text;
} s_descriptions[STEVE_CONFINEMENTS] = {
    [STEVE_IN_HEAP] = {"heap", "confined: works inside the heap by itself"},
    [STEVE_BY_SYMBOLS] = {"symbols", "confined: its mmap, sbrk... are answered from the heap"},
    [STEVE_BY_SYSCALLS] = {"syscalls", "confined: its system calls are answered from the heap (seccomp)"},
    [STEVE_NOT_CONFINED] = {"none", "NOT confined: takes memory outside of the heap too"},
};

const char *confinement_name(uint32_t c)
{
    return c < STEVE_CONFINEMENTS ? s_descriptions[c].name : "unknown";
}

const char *confinement_text(uint32_t c)
{
    return c < STEVE_CONFINEMENTS ? s_descriptions[c].text : "confinement unknown";
}

bool is_confined(uint32_t c)
{
    return c < STEVE_NOT_CONFINED;
}
