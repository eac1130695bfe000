/* names.h - names of functions, made of the entries of a compilation unit's debug information.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A function with external linkage has its mangled name in its entry. The name of any other function of C++ is made of
 * the namespaces and classes around its entry and of the types of its parameters, so that it reads as that in the symbol
 * table would.
 */
#ifndef LJTRACE_SYMBOLS_NAMES_H
#define LJTRACE_SYMBOLS_NAMES_H

#include <elfutils/libdw.h>
#include <stdbool.h>

/* The entries of a unit that can contain functions and types. */
struct scopes;

/* Returns NULL when out of memory. */
struct scopes *scopes_new(const Dwarf_Die *unit);
void scopes_free(struct scopes *s);
/* Add a namespace, class or function. to: the offset of what follows the entry. Returns false when out of memory. */
bool scopes_add(struct scopes *s, Dwarf_Die *die, Dwarf_Off to);
/* Remove the entry that was added last. */
void scopes_drop_last(struct scopes *s);
/* Sort the entries after the last one was added. */
void scopes_sort(struct scopes *s);
/* The name of the function that an entry of the unit refers to, "" if it has none. The caller frees it. Returns NULL when
 * out of memory. */
char *scopes_name(struct scopes *s, Dwarf_Die *die);

#endif
