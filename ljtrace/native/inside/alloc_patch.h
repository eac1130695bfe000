/* alloc_patch.h - record the allocation functions that interposition does not reach.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * These are the functions of an allocator in the executable, or in an object that calls its own; those that allocators
 * have under names of their own (ljtrace/protocol/alloc_functions.def), with or without a prefix; and those of a second C
 * library (dlmopen). They are patched (code_patch.h).
 */
#ifndef LJTRACE_NATIVE_INSIDE_ALLOC_PATCH_H
#define LJTRACE_NATIVE_INSIDE_ALLOC_PATCH_H

#include <stdbool.h>
#include <stdint.h>

/* A recording begins: names of functions begin with the prefixes of its options, too. */
void alloc_patch_prefixes(void);
/* Patch the functions of all objects. */
void alloc_patch_begin(void);
/* Write the facts about it. The ring is locked. */
void alloc_patch_put_facts(void);
/* Objects were loaded or unloaded. */
void alloc_patch_objects_changed(void);
/* It ends: report prefixes that no function has. Not while this thread has locked the ring. */
void alloc_patch_end(void);

/* What a function did before it was patched; the function itself if it was not. */
void *alloc_patch_original(void *function);

#endif
