/* heap.h - the allocation functions that are replaced.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_HEAP_H
#define LJTRACE_NATIVE_INSIDE_HEAP_H

#include <stdint.h>

/* Find the functions that are replaced, if that was not done yet. */
void native_heap_begin(void);
/* Functions were patched (alloc_patch.h): those that are replaced are called without the patch. */
void native_heap_patched(void);

/* The kind, enum mt_how, of the block that a function of this kind makes or frees: that of an operator of C++ if one is
 * running. */
uint32_t native_operator_how(uint32_t how);

#endif
