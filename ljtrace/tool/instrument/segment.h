/* segment.h - one segment of a superblock while it is being instrumented. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A segment is what a superblock does to memory from its start to a point where control may leave. Accesses
 * whose addresses differ by constants (fields of an object, neighbours on a stack) share a *word*: the value
 * they are all computed from. The ring gets the segment's number and its words; what each access is (code
 * address, kind, size, its word and the distance from it) and how many instructions the segment has, is
 * constant and was told once (RAW_DEFINE).
 *
 * At the first point of exit the number and the words are put behind the ring's cursor and the cursor is
 * moved. If control goes on, the next exit writes the number of the longer segment over that of the shorter
 * one, adds the words that are new, and moves the cursor farther: an executed superblock is one record. Cost:
 * a load for each superblock, two stores for each exit, one store for each word; no call. Filtered
 * superblocks and those without accesses also keep the count of instructions: a load for each, one store for
 * each exit. An exit behind which there is no new word leaves the cursor where it is.
 *
 * Where hardly ever a word is wanted, none is stored: a call at the exit puts the segment into the ring, if
 * one of its words may be a block's, and what follows is another segment.
 *
 * The elements that an unrolled string instruction (rep movs, stos...) touches share a word, too. Such a
 * segment has two numbers, one for each direction, and the code takes the one that is right.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_SEGMENT_H
#define LJTRACE_TOOL_INSTRUMENT_SEGMENT_H

#include "ljtrace/protocol/ring.h"
#include "libvex_ir.h"

/* The most accesses and the most instructions in one segment; a longer run is cut. */
#define LT_SEGMENT_ACCESSES 64
#define LT_SEGMENT_INSTRUCTIONS 200
#define LT_SEGMENT_WORDS 20
/* ... and the most words of one that is told by a call, whose arguments they are. */
#define LT_CALLED_WORDS 4
/* Accesses share a word if they are no farther than this from its first: most then lie in one block. */
#define LT_WORD_REACH 32767

/* An address as `root` plus a constant; the root is a temporary, or, for constant addresses, NULL. Repeated
 * string instructions go on by their width up or down, as the direction flag says: `distance` is for up, and
 * for down it is less by twice `stepped`. */
struct lt_address {
    IRExpr *atom; /* the whole address, as in the program's code */
    IRExpr *root;
    Long distance;
    Int stepped;
};

struct lt_access {
    Addr ip;
    UInt size;
    UInt word;
    Int distance;
    Int stepped;
    enum raw_access kind;
    Bool sure; /* it happens whenever the segment runs */
};

/* What is stored for a group of accesses. */
struct lt_word {
    IRExpr *value; /* what that is */
    IRExpr *root;
    Long first;  /* distance of the first access: the word itself, if the root is NULL */
    Int stepped; /* of the first access */
};

/* How a superblock's segments get into the ring. */
enum lt_way {
    LT_ALWAYS,   /* all of them, by its own code */
    LT_FILTERED, /* by its own code, if one of their words may be a block's (ljtrace/tool/ring/block_filter.h) */
    LT_CALLED /* the same by a call, which costs nothing as long as it is not made: such code needs no room,
                 no cursor, and stores nothing */
};

struct lt_segment {
    IRSB *out;
    enum lt_way way;
    IRTemp maybe;      /* I8, not 0: some word may be a block's; IRTemp_INVALID while empty */
    IRTemp cursor;     /* value of the ring's cursor at the segment's start; IRTemp_INVALID while empty */
    UInt count, told;  /* accesses; those that the collector was told of */
    UInt words, moved; /* words; those that the cursor has moved behind */
    UInt instructions;
    Bool changed;   /* since the last point of exit */
    Bool directed;  /* some access depends on the direction flag */
    IRTemp down;    /* I64: 1 if strings go down, else 0; IRTemp_INVALID: nothing has asked for it so far */
    UInt written;   /* bytes that the superblock's segments before take up in the ring */
    IRTemp counter; /* the ring's count of instructions when the superblock began; IRTemp_INVALID: not asked
                       yet */
    UInt counted;   /* instructions of the superblock that code so far adds to it */
    Int check;      /* statement that checks for room, at the superblock's start; -1 = none */
    struct lt_word word[LT_SEGMENT_WORDS];
    struct lt_access access[LT_SEGMENT_ACCESSES];
};

/* Begin a superblock. */
void lt_segment_begin(struct lt_segment *s, IRSB *out, enum lt_way way);
/* An access of the instruction at ip; `guard` may be NULL. A store that follows a load of the same place by
 * the same instruction makes it a modify. */
void lt_segment_access(struct lt_segment *s, Addr ip, enum raw_access kind, UInt size,
                       const struct lt_address *addr, IRExpr *guard);
/* Ahead of addresses that are `stepped`: the direction flag, 1 or -1, the same in the whole superblock. */
void lt_segment_direction(struct lt_segment *s, IRTemp flag);
/* An instruction begins. */
void lt_segment_instruction(struct lt_segment *s);
/* Control may leave here: emit the code that puts the segment so far into the ring. */
void lt_segment_exit(struct lt_segment *s);
/* The same, and what follows is another segment: something else may write to the ring here. */
void lt_segment_end(struct lt_segment *s);
/* The same ahead of the instruction at hand, at ip, which will be the first of what follows. False if it has
 * had an access already: then nothing was done. */
Bool lt_segment_split(struct lt_segment *s, Addr ip);
/* Something else has written at most that many bytes to the ring, behind a segment's end. */
void lt_segment_other(struct lt_segment *s, UInt bytes);
/* Emit the check for room that a superblock begins with, or, where no accesses are recorded, what is written
 * there. */
void lt_segment_check_room(struct lt_segment *s);
/* The superblock is done: the check is taken back if nothing needs it. */
void lt_segment_finish(struct lt_segment *s);

#endif
