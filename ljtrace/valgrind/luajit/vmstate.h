/* vmstate.h - observe stores to the two words in which LuaJIT keeps the state of its VM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each Lua state has a word with the state of its VM and one with the bytecode address that is being
 * recorded. Generated code looks up the address of a store in a table of one byte for each hash. If the byte
 * is set, it calls lt_watch_hit, which compares the address exactly. Frequent states are written into the
 * ring without a call (lt_store_write).
 *
 * Only stores that can be to these words are looked up. In code of a LuaJIT image, these are stores of 4
 * bytes, and stores to the compiler's structure. In code generated at run time, these are stores of a
 * constant. Stores that decrement a number on the stack are looked up too, as the assembler of traces makes
 * them.
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_VMSTATE_H
#define LJTRACE_VALGRIND_LUAJIT_VMSTATE_H

#include "ljtrace/luajit/core/states.h"
#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

enum { LT_WATCH_SLOTS = 4096 };

/* Indexed by (address >> 2) modulo LT_WATCH_SLOTS; 0 = not watched. LT_WATCH_CALLS: the tool is called even
 * for constants that generated code writes into the ring itself. */
enum { LT_WATCH_HIT = 1, LT_WATCH_CALLS = 2 };
extern UChar lt_watch_table[LT_WATCH_SLOTS];

/* Write the states of all VMs into the ring: a trace begins in the middle of the program. */
void lt_watch_report_all(void);
/* Called after a store. displacement: that of its address, or 0 if the address is not a register plus a
 * constant. If accesses are recorded, the change is written into the ring before the next superblock, because
 * nothing may be written in the middle of a segment; otherwise at once. */
void lt_watch_hit(Addr a, ULong displacement);

/* Can this constant be a VM state other than a trace? */
Bool lt_watch_is_state(UInt value);
/* Can it be written into the ring without a call? It has to be a trace or one of the frequent states. */
Bool lt_watch_is_plain_state(Int state);
/* Is this the word with a VM state? */
Bool lt_watch_is_state_word(Addr a);
/* Has code stored to such a word with this displacement? */
Bool lt_watch_is_state_displacement(Long displacement);
/* Can a store with this displacement be to the word with the bytecode that is being recorded? */
Bool lt_watch_is_recorder(Long displacement);

/* Follow the states that come and go. */
void lt_watch_init(void);

/* -- the code for stores -- */

/* Most changes of a VM's state are stores of a constant, by the interpreter and by each trace at its start.
 * These are written into the ring by the generated code (RAW_VM), between two segments of the superblock.
 * Other stores call the tool if they hit a watched word (vmstate.h). Their change is written at the start of
 * the next superblock, so a superblock ends after an instruction that visibly changes the state. */

/* The code that is being instrumented. */
struct lt_code {
    IRSB *out;
    Bool is_lua; /* of a LuaJIT image */
    Bool is_run_time;
};

enum lt_store {
    LT_STORE_PLAIN,     /* not relevant here */
    LT_STORE_LOOKED_UP, /* may be to a watched word */
    /* May change the state to a value not known yet; the superblock has to end after it. */
    LT_STORE_STATE,
    LT_STORE_WRITTEN /* may change the state to a constant */
};

/* The kind of a store. from_sp: its address is computed from the stack pointer. */
enum lt_store lt_store_kind(const struct lt_code *c, const IRStmt *st, Bool from_sp);
/* Add the look-up and the call, after a store of the kind LT_STORE_LOOKED_UP or LT_STORE_STATE. */
void lt_store_look_up(const struct lt_code *c, const IRStmt *st);

/* Add the code that writes the state into the ring, before a store of the kind LT_STORE_WRITTEN and between two
 * segments. It writes RAW_STATE_BYTES at most. Returns the result of the look-up, or NULL if lt_store_see
 * need not be called. */
IRExpr *lt_store_write(const struct lt_code *c, const IRStmt *st);
/* Add the call for what the tool itself has to see, after such a store. */
void lt_store_see(const struct lt_code *c, const IRStmt *st, IRExpr *found);

#endif
