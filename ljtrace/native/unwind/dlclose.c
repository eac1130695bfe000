/* dlclose.c - notice that an object is closed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This definition replaces that of libc for the whole program. Rules of frames that were found before are void
 * afterwards: another object may be mapped at the same place.
 */
#define _GNU_SOURCE
#include "ljtrace/native/unwind/frame_rules.h"
#include <dlfcn.h>
#include <stddef.h>

typedef int dlclose_function(void *);

/* What else has to be done then (session.c). Programs that only unwind have no such function. */
__attribute__((weak)) void native_object_closed(void);
/* The next definition of a function (session.c). */
__attribute__((weak)) void *native_next(const char *name);

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    static _Atomic(dlclose_function *) real;
    dlclose_function *f = real;
    if (!f)
        real = f = (dlclose_function *)(native_next ? native_next("dlclose") : dlsym(RTLD_NEXT, "dlclose"));
    /* before and after: other threads may load objects as soon as the place is free */
    code_objects_closed();
    const int result = f ? f(handle) : -1;
    code_objects_closed();
    if (native_object_closed)
        native_object_closed();
    return result;
}
