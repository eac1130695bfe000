/* provenance.h - what the temporaries of a superblock are computed from, as far as addresses care. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Addresses that are the same temporary plus constants share a word in the ring (segment.h), and those
 * that are computed from the stack pointer are left out. Both are found out by following the superblock's
 * assignments, in order: additions and subtractions of constants, masks of the stack pointer, and the steps
 * of string instructions, which add their width, or subtract it if the direction flag is set.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_PROVENANCE_H
#define LJTRACE_TOOL_INSTRUMENT_PROVENANCE_H

#include "ljtrace/tool/instrument/segment.h"

struct lt_origin;

struct lt_origins {
    struct lt_origin *of; /* each temporary of the program */
    Int sp_offset;        /* of the stack pointer in the guest state */
    IRTemp direction;     /* the direction flag, 1 or -1; IRTemp_INVALID: not read so far */
};

/* Begin with a superblock, nothing of which is known. */
void lt_origins_begin(struct lt_origins *o, const IRSB *in, Int sp_offset);
void lt_origins_end(struct lt_origins *o);
/* An assignment to a temporary, the next in order. */
void lt_origins_assign(struct lt_origins *o, IRTemp tmp, const IRExpr *data);
/* Is an atom computed from the stack pointer? */
Bool lt_is_from_sp(const struct lt_origins *o, const IRExpr *atom);
/* An atom as an address. Where it is `stepped`, o->direction says which way. */
struct lt_address lt_address_of(const struct lt_origins *o, IRExpr *atom);

#endif
