/* memory.h - a reserve for the reader of LuaJIT, which relies on memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_MEMORY_H
#define LJTRACE_NATIVE_HOST_MEMORY_H

#include <stdbool.h>

/* Have a reserve for the moment when the kernel refuses memory. Returns false if it does so already: then that code must
 * not be called. Any thread may call this, one at a time. */
bool host_memory_reserve(void);

#endif
