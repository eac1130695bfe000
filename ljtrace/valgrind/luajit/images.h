/* images.h - the LuaJITs in the program, which may be loaded and unloaded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An image is an object that contains a Lua: the program itself, or a shared object while it is loaded. Its
 * number, 1 to LUA_MAX_IMAGES, becomes free when the object is unloaded. Whatever is later loaded at the same
 * addresses, even the same file, is another image.
 *
 * host_is_lua_code and host_is_other_code are declared in ljtrace/luajit/host.h.
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_IMAGES_H
#define LJTRACE_VALGRIND_LUAJIT_IMAGES_H

#include "ljtrace/protocol/lua_layout.h"
#include "pub_tool_basics.h"

/* The code of the object that contains f. Returns false if no object is known there. */
Bool lt_object_code(Addr f, Addr *from, Addr *to);
/* The image that contains the function f; 0 = none that is known. */
UInt lt_image_of(Addr f);
/* Register an image for the object that contains f. Returns 0 if no object is known there, or if there are
 * too many images. */
UInt lt_image_add(Addr f);
/* The file from which an image was loaded, or "?". */
const HChar *lt_image_file(UInt image);
/* Look up functions of an image by name; 0 = missing. All symbols that Valgrind has read of the object count,
 * so the functions need not be exported. */
void lt_image_functions(UInt image, const HChar *const *names, UInt n, Addr *to);
/* Code of an object was unmapped. */
void lt_image_unmapped(Addr from, SizeT size);

/* Code of a LuaJIT image, or of a program with one, is here; it is forgotten when the image is unmapped. */
void lt_image_code(Addr from, Addr to);

#endif
