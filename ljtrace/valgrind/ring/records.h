/* records.h - a put function for each record of the ring. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Generated from ljtrace/protocol/ring.def: a field that a record does not have is an error of the compiler.
 * ring_put_NAME (ljtrace/protocol/put.h) is inline, for heap events; of all records but the FAST_RECORDs there is a
 * function lt_ring_put_NAME.
 */
#ifndef LJTRACE_VALGRIND_RING_RECORDS_H
#define LJTRACE_VALGRIND_RING_RECORDS_H

#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_libcbase.h"

/* Append a record: RING_PUT(mark, .instructions = n, .name = lt_text(name)). Fields not given are 0. */
#define RING_PUT(name, ...) lt_ring_put_##name(&(struct ring_##name){__VA_ARGS__})

#define RECORD(NAME, name, fields) void lt_ring_put_##name(const struct ring_##name *r);
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

static inline struct raw_text lt_text_of(const HChar *text, UInt bytes)
{
    return (struct raw_text){text, bytes};
}
static inline struct raw_text lt_text(const HChar *text)
{
    return lt_text_of(text, VG_(strlen)(text));
}

#define RING_RESERVE(bytes) lt_ring_reserve(bytes)
#define RING_COMMIT(bytes) lt_ring_commit(bytes)
#define RING_COPY(to, from, n) VG_(memcpy)(to, from, n)
#include "ljtrace/protocol/put.h"

#endif
