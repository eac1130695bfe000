/* images.h - LuaJIT images that the program unloads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_IMAGES_H
#define LJTRACE_NATIVE_HOST_IMAGES_H

#include "pub_tool_basics.h"

/* Forget the images that are not loaded any more, with their states. Returns a bit for each: 1 << (its number - 1). */
UInt host_images_unloaded(void);

#endif
