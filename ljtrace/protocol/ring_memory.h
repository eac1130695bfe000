/* ring_memory.h - makes the shared memory of a ring of the native recorder.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROTOCOL_RING_MEMORY_H
#define LJTRACE_PROTOCOL_RING_MEMORY_H

struct ring_header;

/* Make a ring and map its header. Returns NULL, with errno set, on failure; else *memfd is its memory, a descriptor that is
 * closed by an exec. */
struct ring_header *ring_memory_new(int *memfd);

#endif
