/* init_hooks.h - run code of the recorder between the relocation of new objects and their constructors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_INIT_HOOKS_H
#define LJTRACE_NATIVE_INSIDE_INIT_HOOKS_H

#include <link.h>

/* The dynamic linker has just mapped the objects that follow this one in its list, but may not have relocated them yet. When it has, got_catch_up is called, before their constructors. Only while the dynamic linker calls
 * the function for debuggers. */
void init_hooks_add(const struct link_map *last);

#endif
