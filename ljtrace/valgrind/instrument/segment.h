/* segment.h - one segment of a superblock while it is being instrumented.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A segment is the list of memory accesses from the start of a superblock to a point where control may leave
 * it (an exit). Accesses whose addresses differ by constants (fields of an object, neighbours on a stack)
 * share a *word*, the value from which these addresses are computed. A segment in the ring is only its number
 * and its words. The rest is constant and is written once, as its definition (RAW_DEFINE): the number of
 * instructions and, for each access, the code address, the kind, the size, its word and the distance from it.
 *
 * At the first exit, the number and the words are written at the ring's cursor, and the cursor is advanced.
 * If control continues, the code at the next exit overwrites the number with that of the longer segment,
 * appends the new words and advances the cursor further. So each execution of a superblock is one record.
 * This costs a load for each superblock, two stores for each exit and one store for each word, but no call.
 * An exit without new words does not move the cursor. Superblocks that are filtered, or that have no
 * accesses, also keep the count of instructions, by one load for each superblock and one store for each exit.
 *
 * Code that hardly ever accesses a block stores no words (LT_CALLED). At the exit, a call writes the segment
 * into the ring if one of its words may be in a block; after the exit another segment begins.
 *
 * The elements that an unrolled string instruction (rep movs, stos...) accesses share a word, too. Such a
 * segment has two numbers, one for each direction, and the code uses that of the actual direction.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_SEGMENT_H
#define LJTRACE_VALGRIND_INSTRUMENT_SEGMENT_H

#include "ljtrace/protocol/ring.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "libvex_ir.h"

/* The most accesses and instructions in one segment. A longer run is cut. */
#define LT_SEGMENT_ACCESSES 64
/* The most instructions in one segment. */
#define LT_SEGMENT_INSTRUCTIONS 200
/* The most words in one segment. */
#define LT_SEGMENT_WORDS 20
/* The most words of a segment that is written by a call: they are its arguments. */
#define LT_CALLED_WORDS 4

/* An address, as `root` plus a constant. The root is a temporary, or NULL for a constant address. A repeated
 * string instruction steps up or down by its width, depending on the direction flag. `distance` is the one
 * for up; the one for down is smaller by twice `stepped`. */
struct lt_address {
    IRExpr *atom; /* the whole address, as in the program's code */
    IRExpr *root;
    Long distance;
    Int stepped;
};

/* An access of the segment. */
struct lt_access {
    Addr ip;
    UInt size;
    UInt word;
    Int distance;
    Int stepped;
    enum raw_access kind;
    Bool sure; /* it happens whenever the segment runs */
};

/* A word of the segment. */
struct lt_word {
    IRExpr *value; /* the value that is stored in the ring */
    IRExpr *root;
    Long first;  /* distance of its first access; if root is NULL, the address of that access */
    Int stepped; /* that of its first access */
};

/* How a superblock's segments get into the ring. */
enum lt_way {
    LT_ALWAYS,   /* always, by the superblock's own code */
    LT_FILTERED, /* by its own code, if a word may be in a block (ljtrace/valgrind/ring/block_filter.h) */
    /* By a call, if a word may be in a block. This costs nothing unless the call is made: such code needs no
     * room in the ring and no cursor, and stores nothing. */
    LT_CALLED
};

/* The segment that is being built, and what is known of its superblock. */
struct lt_segment {
    IRSB *out;
    enum lt_way way;
    /* I8, not 0 if some word may be in a block; IRTemp_INVALID while the segment is empty. */
    IRTemp maybe;
    /* The ring's cursor at the segment's start; IRTemp_INVALID while the segment is empty. */
    IRTemp cursor;
    /* The number of accesses, and how many of them are in a definition already. */
    UInt count, defined;
    /* The number of words, and how many of them the cursor has passed. */
    UInt words, moved;
    UInt instructions;
    Bool changed;  /* since the last exit */
    Bool directed; /* an access depends on the direction flag */
    /* I64: 1 if strings go down, else 0; IRTemp_INVALID: not needed yet. */
    IRTemp down;
    UInt written; /* bytes of the superblock's earlier segments in the ring */
    /* The ring's count of instructions at the superblock's start; IRTemp_INVALID: not needed yet. */
    IRTemp counter;
    UInt counted; /* instructions of the superblock that its code adds to that count so far */
    Int check;    /* index of the statement that checks for room; -1 = none */
    struct lt_word word[LT_SEGMENT_WORDS];
    struct lt_access access[LT_SEGMENT_ACCESSES];
};

/* Begin a superblock. */
void lt_segment_begin(struct lt_segment *s, IRSB *out, enum lt_way way);
/* Add an access by the instruction at ip. `guard` is its condition or NULL. If the same instruction has
 * loaded from the same place, a store turns that load into a modify. */
void lt_segment_access(struct lt_segment *s, Addr ip, enum raw_access kind, UInt size,
                       const struct lt_address *addr, IRExpr *guard);
/* Declare the temporary with the direction flag, 1 or -1. Call it before adding a stepped address; the flag
 * is the same in the whole superblock. */
void lt_segment_direction(struct lt_segment *s, IRTemp flag);
/* Begin an instruction. */
void lt_segment_instruction(struct lt_segment *s);
/* An exit: add the code that writes the segment so far into the ring. */
void lt_segment_exit(struct lt_segment *s);
/* The same, and begin another segment: other records may be written to the ring here. */
void lt_segment_end(struct lt_segment *s);
/* End the segment before the current instruction, at ip, which becomes the first one of the next segment.
 * Returns false, and does nothing, if the instruction has had an access already. */
Bool lt_segment_split(struct lt_segment *s, Addr ip);
/* Other code writes at most this many bytes to the ring after a segment's end. */
void lt_segment_other(struct lt_segment *s, UInt bytes);
/* Add the check for room in the ring. It is added at a superblock's start or, if no accesses are recorded,
 * before something else is written. */
void lt_segment_check_room(struct lt_segment *s);
/* End the superblock. The check for room is removed if nothing needs it. */
void lt_segment_finish(struct lt_segment *s);

#endif
