/* code_objects.h - the object file that a code address belongs to, and whether it is still the same one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What was found out about a code address may be kept only as long as its object stays loaded. Objects that were loaded
 * when the program started stay; what is known of them never changes. Each other object has a number: it gets a new one
 * whenever an object was closed, and so does another object that is mapped at the same place.
 *
 * No locks, no memory: it works in signal handlers.
 */
#ifndef LJTRACE_NATIVE_UNWIND_CODE_OBJECTS_H
#define LJTRACE_NATIVE_UNWIND_CODE_OBJECTS_H

#include "ljtrace/frames/eh_frame.h"

/* Numbers of objects are below 2^23, so that they fit into packed rules. */
enum { CODE_PERMANENT = 0, CODE_NUMBERS = 1 << 23, CODE_NO_NUMBER, CODE_NO_OBJECT };

/* The number of the object that contains a code address; CODE_NO_NUMBER if it has none, so that nothing may be kept. */
uint32_t code_object_number(uint64_t ip);
/* The same, with the object's sections. CODE_NO_OBJECT: no object has this address, or it has no .eh_frame. */
uint32_t code_object_sections(uint64_t ip, struct eh_sections *sections);
/* Does the address belong to the dynamic linker? Its first instructions, which start the program, have no .eh_frame. */
bool code_object_is_linker(uint64_t ip);
/* An object was closed, or is about to be. */
void code_objects_closed(void);
/* How often a permanent object turned out not to be one: what was kept of permanent objects is void. */
uint32_t code_objects_mistakes(void);

#endif
