/* symbols.h - look up a function that an object exports.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_SYMBOLS_H
#define LJTRACE_NATIVE_HOST_SYMBOLS_H

#include <link.h>
#include <stdbool.h>

/* The function of this name in this object; NULL = it exports none. dlsym would also search the objects that this one
 * needs, take a lock and allocate. */
void *host_symbol(const struct link_map *object, const char *name);
/* Does the object need a function of this name of another one? */
bool host_symbol_is_needed(const struct link_map *object, const char *name);
/* Its symbol; NULL = it exports none. */
const ElfW(Sym) * host_symbol_entry(const struct link_map *object, const char *name);

#endif
