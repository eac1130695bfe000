/* classify.h - predict whether a superblock's accesses go to blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The filter (ljtrace/valgrind/ring/block_filter.h) checks whether a word of a segment is an address in a block.
 * This takes five instructions for each word and four for each exit. It pays for code that works on the stack
 * or on static data, but not for code that nearly always works on blocks.
 *
 * To find out which kind a superblock is, nothing has to be counted. A superblock is translated right before
 * it runs for the first time, so the registers and the memory of that moment show where its accesses are
 * about to go; usually they go there again. A wrong prediction costs time or space in the ring, but no event
 * is lost.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_CLASSIFY_H
#define LJTRACE_VALGRIND_INSTRUMENT_CLASSIFY_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* Where the accesses of a superblock go, as far as the registers of the thread that is about to run it, and
 * the memory, show. */
enum lt_class {
    /* At least one access goes to an address that may be in a block: the whole segment is recorded. */
    LT_TO_BLOCKS,
    /* All accesses go to addresses that cannot be in blocks. */
    LT_ELSEWHERE,
    /* The address of an access is not known, and no other one goes to a block. */
    LT_UNPREDICTED
};
/* Predict where the accesses of the superblock `in`, which thread `tid` is about to run, will go. */
enum lt_class lt_classify(ThreadId tid, const IRSB *in);

#endif
