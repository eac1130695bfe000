/* vmstate_store.h - the code generated for stores that may change the state of a Lua VM. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Most changes of a VM's state are stores of a constant, by the interpreter and by each trace at its start.
 * These are written into the ring by the generated code (RAW_VM), between two segments of the superblock.
 * Other stores call the tool if they hit a watched word (vmstate.h). Their change is written at the start of
 * the next superblock, so a superblock ends after an instruction that visibly changes the state.
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_VMSTATE_STORE_H
#define LJTRACE_VALGRIND_LUAJIT_VMSTATE_STORE_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

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
