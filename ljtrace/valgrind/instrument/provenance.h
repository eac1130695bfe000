/* provenance.h - from what the temporaries of a superblock are computed, for the analysis of addresses. (host
 * side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Addresses that equal the same temporary plus a constant share a word in the ring (segment.h). Addresses
 * computed from the stack pointer are not recorded. To find both, the superblock's assignments are followed
 * in order, as far as they add or subtract constants, mask the stack pointer, or are the steps of string
 * instructions. Such a step adds the width of the elements, or subtracts it if the direction flag is set.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_PROVENANCE_H
#define LJTRACE_VALGRIND_INSTRUMENT_PROVENANCE_H

#include "ljtrace/valgrind/instrument/segment.h"

struct lt_provenance;

/* The provenance of all temporaries of a superblock. */
struct lt_provenances {
    struct lt_provenance *of; /* indexed by the program's temporaries */
    Int sp_offset;            /* of the stack pointer in the guest state */
    /* The temporary that holds the direction flag, 1 or -1; IRTemp_INVALID: it was not read yet. */
    IRTemp direction;
};

/* Begin a superblock. */
void lt_provenance_begin(struct lt_provenances *o, const IRSB *in, Int sp_offset);
/* Free the memory. */
void lt_provenance_end(struct lt_provenances *o);
/* Follow an assignment to a temporary. Call it for all assignments, in order. */
void lt_provenance_assign(struct lt_provenances *o, IRTemp tmp, const IRExpr *data);
/* Is an atom computed from the stack pointer? */
Bool lt_is_from_sp(const struct lt_provenances *o, const IRExpr *atom);
/* Split an atom into a root and a distance. If it is `stepped`, o->direction is the temporary with the
 * direction. */
struct lt_address lt_address_of(const struct lt_provenances *o, IRExpr *atom);

#endif
