/* functions.h - the functions in the symbol table of an object file, by address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The table is read and sorted once. libdwfl's own look-up goes through all symbols for each address.
 */
#ifndef LJTRACE_SYMBOLS_FUNCTIONS_H
#define LJTRACE_SYMBOLS_FUNCTIONS_H

#include <elfutils/libdwfl.h>
#include <stdint.h>

struct functions;

/* Read the symbols of a module, with those of its separate debug file. Returns NULL if there are none, or when out of
 * memory. */
struct functions *functions_new(Dwfl_Module *module);
void functions_free(struct functions *f);
/* The name of the function that contains an address of the module, as the symbol table has it. Of several names for one
 * address, a symbol with a size is preferred to one without, then one with a wider binding (global, weak, local), then
 * the first in alphabetical order. NULL = not known. The name is valid as long as the module. */
const char *functions_find(const struct functions *f, uint64_t address);

#endif
