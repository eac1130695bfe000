/* ring_put.h - append records to the ring in line: ring_put_NAME(const struct ring_NAME *).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For the records of each event. All others are written by NATIVE_PUT (native.h). Only while the ring is locked.
 */
#ifndef LJTRACE_NATIVE_INSIDE_RING_PUT_H
#define LJTRACE_NATIVE_INSIDE_RING_PUT_H

#include "ljtrace/native/inside/native.h"

#include <string.h>

/* Where the next record begins. There is room for one of any size, at most the margin. */
static inline raw_word *ring_put_reserve(void)
{
    if (__builtin_expect(native_ring->cursor >= native_ring->limit, 0))
        native_ring_next_slab();
    return (raw_word *)native_ring->cursor;
}

/* The record there, of so many bytes, is complete. */
static inline void ring_put_commit(uint32_t bytes)
{
    __atomic_store_n(&native_ring->cursor, native_ring->cursor + bytes, __ATOMIC_RELEASE);
}

#define RING_RESERVE(bytes) ring_put_reserve()
#define RING_COMMIT(bytes) ring_put_commit(bytes)
#define RING_COPY(to, from, n) memcpy(to, from, n)
#include "ljtrace/protocol/put.h"

/* RING_PUT(free, .addr = a): as NATIVE_PUT. */
#define RING_PUT(name, ...) ring_put_##name(&(struct ring_##name){__VA_ARGS__})

#endif
