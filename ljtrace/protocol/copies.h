/* copies.h - what a copy of the program's process sends to the collector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The native library lets a copy read the memory for a snapshot (ljtrace/native/inside/copy.c). What it sends is in parts: a
 * number of bytes, as a raw_half, and so many bytes of whole records of ring.def. A part of 0 bytes is the last.
 */
#ifndef LJTRACE_PROTOCOL_COPIES_H
#define LJTRACE_PROTOCOL_COPIES_H

#include "ljtrace/protocol/ring.h"

/* The most bytes of a part. */
enum { COPY_PART_BYTES = 1 << 20 };
_Static_assert(COPY_PART_BYTES > RING_MARGIN_BYTES && COPY_PART_BYTES <= RING_SLAB_BYTES,
               "a part has room for a record, and is read like a slab");

#endif
