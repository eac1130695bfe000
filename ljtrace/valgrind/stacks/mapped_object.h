/* mapped_object.h - the object file in memory that code belongs to. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind does not know all objects: it reads each by its path, which some do not have.
 */
#ifndef LJTRACE_VALGRIND_STACKS_MAPPED_OBJECT_H
#define LJTRACE_VALGRIND_STACKS_MAPPED_OBJECT_H

#include "pub_tool_basics.h"

struct lt_mapped_object {
    Addr begin, end; /* from the first part of the file to the end of the last */
    Addr bias;       /* address in memory less address in the file */
};

/* Find the object that this code was mapped from. Its first page is readable. False: there is none. */
Bool lt_mapped_object_of(Addr code, struct lt_mapped_object *object);

#endif
