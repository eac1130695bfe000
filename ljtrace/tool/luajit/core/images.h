/* images.h - the LuaJITs of the program: objects that come and go. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An image is one object that holds a Lua: the program itself, or a shared object for as long as it is
 * loaded. It has a number, 1 to LUA_MAX_IMAGES, which is free again once the object is unloaded: what comes
 * to lie at the same addresses later, be it the same file, is another image.
 */
#ifndef LJTRACE_TOOL_LUAJIT_CORE_IMAGES_H
#define LJTRACE_TOOL_LUAJIT_CORE_IMAGES_H

#include "ljtrace/protocol/lua_layout.h"
#include "pub_tool_basics.h"

/* The image whose code holds f; 0 = none that is known. */
UInt lt_image_of(Addr f);
/* A new image for the object whose code holds f; 0 = no object is known there, or there are too many. */
UInt lt_image_add(Addr f);
/* The file that the object was loaded from, or "?". */
const HChar *lt_image_file(UInt image);
/* Addresses of an image's functions by their names, 0 for those that it has not. Taken from all symbols that
 * Valgrind read of the object, so that they need not be exported. */
void lt_image_functions(UInt image, const HChar *const *names, UInt n, Addr *to);
/* Code of an object is there no longer. */
void lt_image_unmapped(Addr from, SizeT size);

#endif
