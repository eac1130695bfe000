/* vmstate_store.h - what generated code does at stores that may tell what a Lua machine does. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Most changes of a machine's state are stores of a constant: by the interpreter, and by each trace where it
 * begins. They are put into the ring by the code itself (RAW_VM), between two segments of a superblock that
 * goes on. Other stores call the tool if they hit a watched word (vmstate.h), and a change that they make
 * is told at the start of the next superblock: this one must end behind the instruction, where it can be seen
 * that the state changes.
 */
#ifndef LJTRACE_TOOL_LUAJIT_STATE_VMSTATE_STORE_H
#define LJTRACE_TOOL_LUAJIT_STATE_VMSTATE_STORE_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* The code that is being instrumented. */
struct lt_code {
    IRSB *out;
    Bool is_lua; /* of a LuaJIT image */
    Bool is_run_time;
};

enum lt_store {
    LT_STORE_PLAIN,     /* of no interest here */
    LT_STORE_LOOKED_UP, /* may be to a watched word */
    LT_STORE_STATE,     /* may change the state to what is not known yet; the superblock must end behind it */
    LT_STORE_TOLD       /* may change the state to a constant */
};

/* What is this store? from_sp: its address is computed from the stack pointer. */
enum lt_store lt_store_kind(const struct lt_code *c, const IRStmt *st, Bool from_sp);
/* Behind a store that is looked up: emit the look and the call. */
void lt_store_look_up(const struct lt_code *c, const IRStmt *st);

/* Ahead of a store that is told, where no segment is half written: emit what tells it, RAW_STATE_BYTES at
 * most. What has been found out about it; NULL = nothing, and nothing is left to be done. */
IRExpr *lt_store_tell(const struct lt_code *c, const IRStmt *st);
/* Behind it: emit the call for what the tool itself must see. */
void lt_store_see(const struct lt_code *c, const IRStmt *st, IRExpr *found);

#endif
