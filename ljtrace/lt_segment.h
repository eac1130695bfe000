/* lt_segment.h - one segment of a superblock while it is being instrumented. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A segment is a run of recorded accesses between two points where control may leave the superblock. When it
 * has run, the ring holds its number and the address of each access; what each access is (code address, kind,
 * size) and how many instructions the segment has, is constant and was told once (RAW_DEFINE). Cost: a load
 * and two stores for each segment and one store for each access, no call.
 */
#ifndef LT_SEGMENT_H
#define LT_SEGMENT_H

#include "libvex_ir.h"
#include "ring.h"

/* The most accesses in one segment; a longer run is cut. */
#define LT_SEGMENT_ACCESSES 256

struct lt_access {
    IRExpr *addr; /* as in the program's code; NULL = can not be merged with */
    Addr ip;
    UInt size;
    enum raw_access kind;
};

struct lt_segment {
    IRSB *out;
    IRTemp cursor; /* value of the ring's cursor at the segment's start; IRTemp_INVALID while empty */
    UInt count;
    UInt instructions; /* since the last segment ended */
    UInt words;        /* written by the superblock's segments so far */
    struct lt_access access[LT_SEGMENT_ACCESSES];
};

void lt_segment_begin(struct lt_segment *s, IRSB *out);
/* An access of the instruction at ip; `guard` may be NULL. A store that follows a load of the same place by
 * the same instruction makes it a modify. */
void lt_segment_access(struct lt_segment *s, Addr ip, enum raw_access kind, UInt size, IRExpr *addr,
                       IRExpr *guard);
/* Emit the code that closes the segment: control may leave here. */
void lt_segment_end(struct lt_segment *s);
/* Emit the check that a superblock that records begins with. */
void lt_segment_check_room(IRSB *out);

#endif
