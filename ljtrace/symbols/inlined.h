/* inlined.h - the functions that a compiler has inlined, in the debug information of a compilation unit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The unit's tree of entries is read once, when the first of its addresses is looked up. Names are made for the
 * calls that are looked up only.
 */
#ifndef LJTRACE_SYMBOLS_INLINED_H
#define LJTRACE_SYMBOLS_INLINED_H

#include <elfutils/libdw.h>
#include <stdint.h>

/* The inlined calls of a unit. */
struct inlined;

/* A call of a function that was inlined. */
struct inlined_call {
    const char *function; /* "" = it has no name; valid as long as the struct inlined */
    const char *file;     /* where the call is, valid as long as the debug information; NULL = not known */
    uint32_t line;
};

/* Read a unit. If debug information is split, `unit` is that of the .dwo file and `skeleton` that of the object; else
 * both are the same. *problem becomes the reason if a part of it
 * cannot be read. Returns NULL when out of memory. */
struct inlined *inlined_new(const Dwarf_Die *unit, const Dwarf_Die *skeleton, const char **problem);
void inlined_free(struct inlined *s);
/* The innermost inlined call whose code contains this address of the debug information, or INLINED_NONE. */
uint32_t inlined_at(const struct inlined *s, uint64_t address);
/* The inlined call that contains this call, or INLINED_NONE: the call is one by the function to which the code
 * belongs. */
uint32_t inlined_around(const struct inlined *s, uint32_t call);
struct inlined_call inlined_call(struct inlined *s, uint32_t call);

#define INLINED_NONE UINT32_MAX

#endif
