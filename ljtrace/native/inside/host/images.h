/* images.h - the LuaJITs in the program, which may be loaded and unloaded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An image is an object that contains a Lua: the program itself, or a shared object while it is loaded. Its number, 1 to
 * LUA_MAX_IMAGES, becomes free when the object is unloaded.
 */
#ifndef LJTRACE_NATIVE_HOST_IMAGES_H
#define LJTRACE_NATIVE_HOST_IMAGES_H

#include "ljtrace/protocol/lua_layout.h"
#include <stdbool.h>

/* The code of the object that contains f. Returns false if no object is known there. */
bool host_object_code(uint64_t f, uint64_t *from, uint64_t *to);
/* The image that contains the function f; 0 = none that is known. */
uint32_t host_image_of(uint64_t f);
/* Register an image for the object that contains f. Returns 0 if no object is known there, or if there are too many
 * images. */
uint32_t host_image_add(uint64_t f);
/* The file from which an image was loaded, or "?". */
const char *host_image_file(uint32_t image);
/* Look up functions that an image exports, by name; 0 = missing. */
void host_image_functions(uint32_t image, const char *const *names, uint32_t n, uint64_t *to);
/* Forget the images that are not loaded any more, with their states. Returns a bit for each: 1 << (its number - 1). */
uint32_t host_images_unloaded(void);

#endif
