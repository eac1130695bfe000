/* got.h - redirect the program's calls of allocation functions to this library, and back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A library that is loaded later is not found before libc, so nothing calls its functions by itself. Calls between
 * objects pass pointers (the global offset tables), which the dynamic linker has written. These are changed. So are those
 * of objects that the program opens with RTLD_DEEPBIND if the library was preloaded.
 */
#ifndef LJTRACE_NATIVE_INSIDE_GOT_H
#define LJTRACE_NATIVE_INSIDE_GOT_H

#include <stdbool.h>
#include <stdint.h>

/* Redirect the pointers of all objects to the functions that this library exports. Returns false if that is not possible,
 * because /proc/self/maps cannot be read. */
bool got_redirect(void);
/* The library was preloaded: look only at objects that are opened from now on. */
void got_follow(void);
/* The program has installed a seccomp filter that does not permit the system calls for this: only report such objects. */
void got_deny(void);
/* Let them point to the functions of the program again. */
void got_restore(void);
/* Objects were loaded or unloaded. The pointers of new ones may not be written yet, so they are redirected later, by
 * got_catch_up. */
void got_objects_changed(void);
/* Redirect the pointers of new objects. Not while the ring is locked. */
void got_catch_up(void);
/* Are there objects whose pointers have to be redirected? */
extern bool got_is_late;

/* The function of that name that the program calls without this library: if the library was preloaded, the one in the
 * next object that defines it, else the first. NULL = there is none. */
void *got_function(const char *name);
/* Changes when objects are opened or closed: then functions that were found may be gone. Never 0. */
extern uint32_t got_generation;

#endif
