/* unseen.h - report how much memory the program has used, and whether hardly any block of it was recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * If so, its allocator is none whose functions are known (alloc_patch.h): they may have other names, or no symbols.
 */
#ifndef LJTRACE_NATIVE_INSIDE_UNSEEN_H
#define LJTRACE_NATIVE_INSIDE_UNSEEN_H

#include <stdint.h>

/* A recording begins. */
void unseen_begin(void);
/* Put what the process had before into the trace. Only while the ring is locked. */
void unseen_put_facts(void);
/* A block was recorded. size: its bytes, or in a sample an estimate of those that it represents. Only while the ring is
 * locked. */
extern __attribute__((visibility("hidden"))) uint64_t unseen_counted;
static inline void unseen_count(uint64_t size)
{
    unseen_counted += size;
}
/* The recording ends. Not while this thread has locked the ring. */
void unseen_end(void);

#endif
