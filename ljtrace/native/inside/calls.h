/* calls.h - calls of allocation functions within one another: only the outermost call of a thread is recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An allocation function that is patched (alloc_patch.h) may be called by another one, or by a function that this library
 * has interposed. The outermost call notes where it is on the stack. A call further down on the same stack is an inner one,
 * unless a signal handler makes it, or a library of C or C++ that is not the allocator itself (for an exception): these
 * are the program's.
 */
#ifndef LJTRACE_NATIVE_INSIDE_CALLS_H
#define LJTRACE_NATIVE_INSIDE_CALLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* The outermost call of a thread. */
struct native_call {
    uint64_t sp;                   /* the address of its return address; 0 = no call is running */
    uint64_t back_to;              /* its return address */
    const struct link_map *object; /* of the patched function; NULL = this library's */
};

/* May calls be within one another? Set once functions are patched. */
extern bool native_calls_nest;

/* Is a call whose return address is at `sp` an inner one? */
bool native_call_is_inner(uint64_t sp);
/* A call begins. Returns false if it is an inner one; then it does not end either. outer: what native_call_end restores,
 * the call that a signal handler has interrupted. */
bool native_call_begin(uint64_t sp, const struct link_map *object, struct native_call *outer);
void native_call_end(const struct native_call *outer);

/* Is this file a library of C or C++, or the dynamic linker? name: without its folder. */
bool native_is_language_library(const char *name);

/* The address of the return address of the function in which this is used. */
#define NATIVE_CALL_SP ((uint64_t)__builtin_dwarf_cfa() - sizeof(uint64_t))

/* Is the function in which this is used called by another allocation function? */
#define NATIVE_IS_INNER (__builtin_expect(native_calls_nest, 0) && native_call_is_inner(NATIVE_CALL_SP))
/* Make a call for the function in which this is used; what it calls in turn are inner calls. */
#define NATIVE_OUTERMOST(call)                                                                               \
    ({                                                                                                       \
        struct native_call outer = {0};                                                                      \
        const bool begun = native_calls_nest && native_call_begin(NATIVE_CALL_SP, NULL, &outer);             \
        __typeof__(call) result = call;                                                                      \
        if (begun)                                                                                           \
            native_call_end(&outer);                                                                         \
        result;                                                                                              \
    })

#endif
