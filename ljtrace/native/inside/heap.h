/* heap.h - how operators of C++ announce their blocks to the functions of the C heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_HEAP_H
#define LJTRACE_NATIVE_INSIDE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Find the functions that are replaced, if that was not done yet. */
void native_heap_begin(void);
/* Functions were patched (alloc_patch.h): those that are replaced are called without the patch. */
void native_heap_patched(void);

/* An operator begins: the next block that this thread allocates or frees is of this kind, enum mt_how. size, align: what
 * `new` was asked for; align is 1 if it was given none. Returns false if another operator has called this one; then only
 * the other one ends. */
bool native_operator_begins(uint32_t how, size_t size, size_t align);
void native_operator_ends(void);
/* The kind of the block that a function of this kind makes or frees, an operator's if one is running. */
uint32_t native_operator_how(uint32_t how);

#endif
