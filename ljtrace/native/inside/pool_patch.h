/* pool_patch.h - record the functions that make, use and end pools (--pool-fn).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_POOL_PATCH_H
#define LJTRACE_NATIVE_INSIDE_POOL_PATCH_H

#include <link.h>
#include <stdbool.h>

/* A recording begins: what it asks for. */
void pool_patch_begin(void);
/* Patch the functions of an object that was not searched before. path: of its file; is_shared: other threads may be executing
 * them. */
void pool_patch_object(const struct link_map *object, const char *path, bool is_shared);
/* Objects were unloaded; is_loaded says whether one still is there. */
void pool_patch_forget(bool (*is_loaded)(const struct link_map *object));
/* The recording ends: report functions that were not found. Not while this thread has locked the ring. */
void pool_patch_end(void);

#endif
